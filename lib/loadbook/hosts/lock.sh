#!/bin/sh
# One run per machine: part of job.sh on a host, before it, and uses what stands there.
#
# Each watcher that holds the lock LOCK has a file LOCK.<owner's id>.<its pid>: a line that tells the owner, a second one
# when it is about to end. It keeps that file locked (flock) for as long as it lives; without flock the process itself is
# looked for. Whoever claims keeps LOCK itself locked meanwhile, and gives up where another owner lives.
# Nothing that may be another user's is opened to be made: /tmp refuses that (fs.protected_regular).

claim_s=5
ending_s=10

have_flock() {
    command -v flock >/dev/null 2>&1
}

read_owner() { # FILE
    owner_workdir= owner_state=
    [ -f "$1" ] || return 1 # opening a FIFO would wait for its other end for ever
    {
        {
            read -r owner_id owner_user owner_pid owner_process owner_study owner_run owner_since \
                owner_lock_kind owner_watcher owner_start_ticks owner_session owner_workdir
            read -r owner_state
        } <"$1"
    } 2>/dev/null
    [ -n "$owner_workdir" ]
}

is_held() { # FILE: does the watcher that made it live? reads the owner, too
    read_owner "$1" || return 1
    if [ "$owner_lock_kind" = flock ] && have_flock; then
        is_free=
        { { ! flock -s -n 7 || is_free=1; } 7<"$1"; } 2>/dev/null || return 1
        [ -z "$is_free" ]
    elif find_start_ticks 1 || [ -O "$1" ]; then
        find_start_ticks "$owner_watcher" && [ "$start_ticks" = "$owner_start_ticks" ] && [ -n "$alive" ]
    fi # else the processes of others are hidden from us: it may live
}

age_of_owner() {
    find_now
    age=$((${now%%.*} - owner_since))
}

owners() { # LOCK: a line for every owner that lives: age in seconds, live or ending, and what its file says
    for file in "$1".*.*; do
        is_held "$file" || continue
        age_of_owner
        echo "$age ${owner_state:-live} $owner_id $owner_user $owner_pid $owner_process $owner_study $owner_run"
    done
}

evict() { # LOCK ID: end the sessions of an owner with their jobs, as far as they are ours to end
    for file in "$1.$2".*; do
        is_held "$file" || continue
        (cd "$owner_workdir" && end_session "$owner_session") 2>/dev/null
        find_start_ticks "$owner_watcher" && [ "$start_ticks" = "$owner_start_ticks" ] &&
            kill -s KILL "$owner_watcher" 2>/dev/null
        tries=100
        while is_held "$file" && [ "$tries" -gt 0 ]; do pause; done
    done
}

claim() { # be the owner that $line tells of; sets holder where another one lives
    part=$lock+$id.$$ own_file=$lock.$id.$$ holder=
    rm -f "$part" "$own_file"
    (umask 022 && set -C && echo "$line" >"$part") || no_lock "no file can be made beside $lock"
    exec 9<"$part"
    [ "$lock_kind" = pid ] || flock -x -n 9 || no_lock "$lock lies where nothing can be locked"
    mv "$part" "$own_file" || no_lock "no file can be made beside $lock"
    for file in "$lock".*.*; do
        if [ "$file" = "$own_file" ]; then
            continue
        elif ! is_held "$file"; then
            rm -f "$file" 2>/dev/null
        elif [ "$owner_id" != "$id" ]; then
            age_of_owner
            holder="$age ${owner_state:-live} $owner_id $owner_user $owner_pid $owner_process $owner_study $owner_run"
            rm -f "$own_file"
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

claim_with_lock() {
    if [ "$lock_kind" = pid ]; then
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
    lock=$1 id=$2 lock_kind=pid part=
    have_flock && lock_kind=flock
    [ -e "$lock" ] || (umask 022 && set -C && : >"$lock") 2>/dev/null
    [ -r "$lock" ] || no_lock "$lock cannot be made or read"
    [ -f "$lock" ] || no_lock "$lock is no regular file"
    find_start_ticks $$
    find_now
    line="$2 $3 $4 $5 $6 $7 $((${now%%.*} - $8)) $lock_kind $$ $start_ticks $session $PWD"
    tries_left=$((ending_s * 10))
    claim_with_lock
    while [ -n "$holder" ] && [ "$owner_state" = ending ] && [ "$tries_left" -gt 0 ]; do
        sleep 0.1 2>/dev/null || sleep 1
        tries_left=$((tries_left - 1))
        claim_with_lock
    done
    [ -n "$holder" ] || return 0
    echo "busy $holder"
    exit 1
}

announce_end() { # we are about to end: who waits need not look for another host
    [ -z "$own_file" ] || echo ending >>"$own_file"
} 2>/dev/null
