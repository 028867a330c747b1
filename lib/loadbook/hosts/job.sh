#!/bin/sh
# Jobs on a host, for dash, bash and busybox sh. Needs setsid, mkdir, mv, rm, date, sleep; no pty, no root.
#
#   job.sh run DIR LEASE_S      run DIR/cmd.1, DIR/cmd.2, ... in turn; the process that runs this leads the job's group;
#                               step K does not begin before the instant in DIR/at.K (seconds.milliseconds of our clock)
#   job.sh state DIR            print "<pid or -> <rc or -> <1 while running, else 0>"
#   job.sh end DIR GRACE_S      end the job's group: TERM, after GRACE_S seconds KILL
#   job.sh watch SESSION LEASE_S [LOCK OWNER ...]
#                               dead-man switch: when stdin ends, or says nothing for LEASE_S seconds, end the session's
#                               shell and jobs; with LOCK hold the machine's lock meanwhile
#   job.sh sweep [all|SESSION]  end the jobs whose session is over (or all, or that of SESSION), and forget those sessions
#   job.sh owners LOCK, job.sh evict LOCK ID            see lock.sh
#
# Run in the work folder; a session is a folder below sessions/, a job a folder below jobs/. A job that ends with
# its session holds the session's name in its file `session`. Paths may be relative.

export LC_ALL=C TZ=UTC
reconnect_s=3
end_grace_s=2

# dash refuses "kill -s TERM -PID", busybox refuses "kill -s TERM -- -PID"
signal_group() {
    kill -s "$1" "-$2" 2>/dev/null || kill -s "$1" -- "-$2" 2>/dev/null
}

# sets start_ticks: the start time of process $1 in ticks since boot, which tells a reused pid; alive: "" if it is gone
# or dead and only waits for its parent
find_start_ticks() {
    start_ticks= alive=
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    line=${line##*) }
    # shellcheck disable=SC2086
    set -- $line
    start_ticks=${20}
    case $1 in Z | X) ;; *) alive=1 ;; esac
}

find_now() {
    now=$(date +%s.%N)
    case $now in *N*) now=${now%%.*} ;; esac
}

pause() { # a fiftieth of a second, one of `tries`; a sleep that knows whole seconds only takes fifty
    tries=$((tries - 1))
    sleep 0.02 2>/dev/null || { sleep 1 && tries=$((tries - 49)); }
}

# until instant $1, or until the job is to end; without fractions in date: until the second of $1 has begun
sleep_until() {
    while [ -z "$ending" ]; do
        find_now
        case $now in
        *.*) spare=2 ;;
        ?*) now=$now.${1#*.} spare=1000 ;;
        *) # date met the signal that ends us
            [ -n "$ending" ] || sleep 1
            continue
            ;;
        esac
        now_ms=${now#*.}
        now_ms=${now_ms%"${now_ms#???}"}
        # the 1 before both: a leading 0 would make the number octal
        left=$(((${1%.*} - ${now%.*}) * 1000 + 1${1#*.} - 1$now_ms))
        [ "$left" -gt $((spare % 1000)) ] || return 0
        left=$((left - spare))
        [ "$left" -gt 0 ] || left=20
        ms=$((1000 + left % 1000))
        sleep $((left / 1000)).${ms#1} 2>/dev/null || [ -n "$ending" ] || sleep 1
    done
}

read_file() { # NAME FILE: first line of FILE into the variable NAME; empty if there is none
    eval "$1="
    { read -r "$1" <"$2"; } 2>/dev/null
}

# is the group that job folder $1 tells of still the one that we started? sets pid, and alive for its leader
group_lives() {
    read_file leader "$1/pid"
    # shellcheck disable=SC2086
    set -- $leader
    pid=$1
    [ -n "$pid" ] || return 1
    read_file boot /proc/sys/kernel/random/boot_id
    [ "$boot" = "$3" ] || return 1
    # a leader of another age: the number was reused, which cannot happen while our group has a member
    find_start_ticks "$pid" && [ "$start_ticks" != "$2" ] && return 1
    signal_group 0 "$pid"
}

guard() { # part of the job's group, deaf to TERM: only the KILL at the job's end, or the lease, ends it
    trap '' TERM INT HUP
    sleep "$1"
    end . 5
}

run() {
    cd "$1" || exit 1
    ending=
    trap 'ending=1' TERM INT HUP
    find_start_ticks $$
    read_file boot /proc/sys/kernel/random/boot_id
    echo "$$ $start_ticks $boot" >pid
    read_file session session
    guard "$2" </dev/null >/dev/null 2>&1 &
    [ -z "$session" ] || session_takes_jobs "../../sessions/$session" || ending=1
    reserve rc 8
    k=1
    rc=0
    while [ -e "cmd.$k" ] && [ -z "$ending" ]; do
        read_file at "at.$k"
        [ -z "$at" ] || sleep_until "$at"
        [ -z "$ending" ] || break
        reserve "times.$k" 48
        reserve "rc.$k" 8
        find_now
        start=$now
        (
            trap - TERM INT HUP
            read -r own rest </proc/self/stat
            echo "$own" >step
            . "./cmd.$k"
        ) </dev/null >"stdout.$k" 2>"stderr.$k"
        rc=$?
        find_now
        fill "times.$k" 48 "$start $now"
        fill "rc.$k" 8 "$rc"
        k=$((k + 1))
    done
    [ -e "cmd.$k" ] && rc=143
    finish .
    signal_group KILL $$
}

reserve() { # FILE WIDTH: room for a line, kept now for when the disk is full
    printf "%${2}s\n" '' >"$1.part"
}

fill() { # FILE WIDTH LINE: in the room that was kept, then under its name
    printf "%-${2}s\n" "$3" 1<>"$1.part" && mv "$1.part" "$1"
}

session_takes_jobs() { # FOLDER
    [ -e "$1/watcher" ] && [ ! -e "$1/over" ]
}

finish() { # DIR: the rc, last, by rename; tried again, since a signal to the group may meet mv itself
    for _ in 1 2 3; do
        [ ! -e "$1/rc" ] || return 0
        fill "$1/rc" 8 "$rc" && return 0
    done
}

await() { # DIR SECONDS SIGNAL: until the job has its rc or its group is gone; a signal that met a fork is repeated
    tries=$(($2 * 50 + 1))
    while [ ! -e "$1/rc" ] && [ "$tries" -gt 0 ] && signal_group 0 "$pid"; do
        [ $((tries % 25)) -ne 0 ] || signal_group "$3" "$pid"
        pause
    done
}

await_pid() { # DIR: a job that has only just been started has none for a moment
    tries=50
    read_file leader "$1/pid"
    while [ -z "$leader" ] && [ "$tries" -gt 0 ]; do
        pause
        read_file leader "$1/pid"
    done
}

end() { # DIR GRACE_S; the rc is there afterwards, whoever wrote it
    [ -e "$1/cmd.1" ] && [ ! -e "$1/rc" ] || return 0
    await_pid "$1"
    [ -n "$leader" ] || return 0
    if group_lives "$1"; then
        signal_group TERM "$pid"
        await "$1" "$2" TERM
        read_file step "$1/step"
        [ -e "$1/rc" ] || [ -z "$step" ] || kill -s KILL "$step" 2>/dev/null
        await "$1" 1 0
        rc=137
        [ -e "$1/rc" ] || finish "$1"
        signal_group KILL "$pid"
    else
        rc=137
        [ -e "$1/rc" ] || finish "$1"
    fi
    return 0
}

state() {
    read_file leader "$1/pid"
    read_file rc "$1/rc"
    running=1
    # a job without a pid has only just been started
    if [ -n "$rc" ]; then
        running=0
    elif [ -n "$leader" ] && ! { group_lives "$1" && [ -n "$alive" ]; }; then
        read_file rc "$1/rc"
        running=0
    fi
    # shellcheck disable=SC2086
    set -- $leader
    echo "${1:--} ${rc:--} $running"
}

end_jobs_of() { # SESSION: all at once
    for job in jobs/*/session; do
        read_file owner "$job"
        if [ "$owner" = "$1" ]; then
            end "${job%/session}" "$end_grace_s" &
        fi
    done
    wait
}

end_shell() { # SESSION
    read_file shell "sessions/$1/shell"
    [ -n "$shell" ] && find_start_ticks "${shell%% *}" && [ "$start_ticks" = "${shell##* }" ] &&
        signal_group KILL "${shell%% *}"
}

end_watcher() { # SESSION: one that never heard that its connection is dead, and would wait for hours
    read_file watcher "sessions/$1/watcher"
    [ -n "$watcher" ] && [ "${watcher%% *}" != $$ ] || return 0
    find_start_ticks "${watcher%% *}" && [ "$start_ticks" = "${watcher##* }" ] || return 0
    kill -s KILL "${watcher%% *}" 2>/dev/null
}

end_session() { # SESSION: its watcher last, since it may hold the machine's lock
    : >"sessions/$1/over"
    end_shell "$1"
    end_jobs_of "$1"
    end_watcher "$1"
    rm -rf "sessions/$1"
}

watch() {
    session=$1 lease_s=$2 own_file=
    session_folder=sessions/$session
    shift 2
    trap '' HUP INT TERM
    [ $# -eq 0 ] || take "$@"
    mkdir -p "$session_folder" || exit 1
    end_shell "$session"
    end_watcher "$session"
    find_start_ticks $$
    echo "$$ $start_ticks" >"$session_folder/watcher"
    rm -f "$session_folder/lost" "$session_folder/shell"
    setsid /bin/sh "$0" lease "$session" "$lease_s" $$ "$start_ticks" 9<&- </dev/null >/dev/null 2>&1 &
    timer=$!
    echo "watching $$"
    bye=
    while read -r verb value; do
        case $verb in
        alive) : >"$session_folder/alive" ;;
        shell) find_start_ticks "$value" && echo "$value $start_ticks" >"$session_folder/shell" ;;
        kill) signal_group KILL "$value" || kill -s KILL "$value" 2>/dev/null ;;
        bye) bye=1 && break ;;
        esac
    done
    exec >/dev/null 2>&1
    announce_end
    signal_group KILL "$timer" || kill -s KILL "$timer" 2>/dev/null
    if [ -n "$bye" ] || stays_lost; then end_session "$session"; fi
    [ -z "$own_file" ] || rm -f "$own_file"
}

# SESSION LEASE_S PID BORN: a line may break without an end of file, when a network is gone: end the session of a watcher
# that heard nothing for so long
lease() {
    nap_s=$((($2 + 3) / 4))
    left=3
    while [ "$left" -gt 0 ]; do
        sleep "$nap_s"
        find_start_ticks "$3" && [ "$start_ticks" = "$4" ] || exit 0
        left=$((left - 1))
        [ ! -e "sessions/$1/alive" ] || { rm -f "sessions/$1/alive" && left=3; }
    done
    end_session "$1"
}

is_ours() { # no other watcher owns the session now, and nobody has ended it
    read_file watcher "$session_folder/watcher"
    [ "${watcher%% *}" = $$ ]
}

stays_lost() { # the line broke: our controller may be back at once under a watcher of its own, which then owns the session
    is_ours || return 1
    end_shell "$session"
    : >"$session_folder/lost"
    tries=$((reconnect_s * 50))
    while [ "$tries" -gt 0 ]; do
        pause
        is_ours || return 1
    done
}

session_lives() { # SESSION
    [ ! -e "sessions/$1/lost" ] || return 1
    read_file watcher "sessions/$1/watcher"
    find_start_ticks "${watcher%% *}" && [ "$start_ticks" = "${watcher##* }" ]
}

sweep() {
    for folder in sessions/*/; do
        folder=${folder%/}
        session=${folder#sessions/}
        [ "$session" != '*' ] || continue
        [ "$1" != all ] && [ "$1" != "$session" ] && session_lives "$session" || end_session "$session"
    done
    [ "$1" = all ] || return 0
    for job in jobs/*/; do
        end "${job%/}" "$end_grace_s" &
    done
    wait
}

verb=$1
shift
case $verb in
run | state | end | watch | lease | sweep | owners | evict) "$verb" "$@" ;;
*) echo "job.sh: unknown verb $verb" >&2 && exit 2 ;;
esac
