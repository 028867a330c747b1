#!/bin/sh
# One run per machine: part of job.sh on a host, before it, and uses what stands there.
#
# Each watcher that holds the lock LOCK has a file LOCK.<owner's id>.<its pid>: a line that tells the owner, a second one
# when it is about to end. It keeps that file locked (flock) for as long as it lives; without flock the process itself is
# looked for. LOCK is the door: whoever claims holds it meanwhile, and goes away again where another owner lives.
# Nothing that may be another user's is opened to be made: /tmp refuses that (fs.protected_regular).

claim_s=5
ending_s=10

have_flock() {
    command -v flock >/dev/null 2>&1
}

read_owner() { # FILE
    o_workdir= o_state=
    [ -f "$1" ] || return 1 # opening a FIFO would wait for its other end for ever
    {
        {
            read -r o_id o_who o_pid o_place o_study o_run o_since o_how o_watcher o_born o_session o_workdir
            read -r o_state
        } <"$1"
    } 2>/dev/null
    [ -n "$o_workdir" ]
}

is_held() { # FILE: does the watcher that made it live? reads the owner, too
    read_owner "$1" || return 1
    if [ "$o_how" = flock ] && have_flock; then
        free=
        { { ! flock -s -n 7 || free=1; } 7<"$1"; } 2>/dev/null || return 1
        [ -z "$free" ]
    elif find_born 1 || [ -O "$1" ]; then
        find_born "$o_watcher" && [ "$born" = "$o_born" ] && [ -n "$alive" ]
    fi # else the processes of others are hidden from us: it may live
}

age_of_owner() {
    find_now
    age=$((${now%%.*} - o_since))
}

owners() { # LOCK: a line for every owner that lives: age in seconds, live or ending, and what its file says
    for file in "$1".*.*; do
        is_held "$file" || continue
        age_of_owner
        echo "$age ${o_state:-live} $o_id $o_who $o_pid $o_place $o_study $o_run"
    done
}

evict() { # LOCK ID: end the sessions of an owner with their jobs, as far as they are ours to end
    for file in "$1.$2".*; do
        is_held "$file" || continue
        (cd "$o_workdir" && end_session "$o_session") 2>/dev/null
        find_born "$o_watcher" && [ "$born" = "$o_born" ] && kill -s KILL "$o_watcher" 2>/dev/null
        tries=100
        while is_held "$file" && [ "$tries" -gt 0 ]; do pause; done
    done
}

claim() { # be the owner that $line tells of; sets holder where another one lives
    part=$lock+$id.$$ mine=$lock.$id.$$ holder=
    rm -f "$part" "$mine"
    (umask 022 && set -C && echo "$line" >"$part") || no_lock "no file can be made beside $lock"
    exec 9<"$part"
    [ "$how" = pid ] || flock -x -n 9 || no_lock "$lock lies where nothing can be locked"
    mv "$part" "$mine" || no_lock "no file can be made beside $lock"
    for file in "$lock".*.*; do
        if [ "$file" = "$mine" ]; then
            continue
        elif ! is_held "$file"; then
            rm -f "$file" 2>/dev/null
        elif [ "$o_id" != "$id" ]; then
            age_of_owner
            holder="$age ${o_state:-live} $o_id $o_who $o_pid $o_place $o_study $o_run"
            rm -f "$mine"
            exec 9<&-
            return
        fi
    done
}

no_lock() { # WHY
    rm -f "$part" 2>/dev/null
    echo "unlocked $1"
    exit 1
}

claim_at_door() {
    if [ "$how" = pid ]; then
        claim
        return
    fi
    {
        tries=$((claim_s * 50))
        until flock -x -n 8; do
            [ "$tries" -gt 0 ] || no_lock "$lock stays locked by a process that is no run, or cannot be locked"
            pause
        done
        claim
    } 8<"$lock"
}

# LOCK ID WHO PID PLACE STUDY RUN HELD_S: hold the lock until this process ends, or say who does;
# an owner that is about to end is waited for
take() {
    lock=$1 id=$2 how=pid part=
    have_flock && how=flock
    [ -e "$lock" ] || (umask 022 && set -C && : >"$lock") 2>/dev/null
    [ -r "$lock" ] || no_lock "$lock cannot be made or read"
    [ -f "$lock" ] || no_lock "$lock is no regular file"
    find_born $$
    find_now
    line="$2 $3 $4 $5 $6 $7 $((${now%%.*} - $8)) $how $$ $born $session $PWD"
    patience=$((ending_s * 10))
    claim_at_door
    while [ -n "$holder" ] && [ "$o_state" = ending ] && [ "$patience" -gt 0 ]; do
        sleep 0.1 2>/dev/null || sleep 1
        patience=$((patience - 1))
        claim_at_door
    done
    [ -n "$holder" ] || return 0
    echo "busy $holder"
    exit 1
}

let_go() { # we are about to end: who waits need not look for another host
    [ -z "$mine" ] || echo ending >>"$mine"
} 2>/dev/null
