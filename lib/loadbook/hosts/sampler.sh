# sampler.sh INTERVAL_S COUNT [LABEL=PIDFILE ...]
#
# Prints COUNT samples of what the kernel counts, INTERVAL_S apart. sampler.pl does it if it is in the current folder and
# perl can run it; otherwise POSIX sh does, with nothing installed, by two forks a sample (sed, sleep), which cost ten
# times the CPU time. A PIDFILE's first word is the id of a process that is watched with all below it; it is read for
# every sample and may appear late. CPU quotas are those of cgroups.sh, for the first process of each label (with perl: for
# all). Accept queues are read with perl only: /proc/net/tcp would cost fifty times as much. A sample starts with
# "@ N LABEL:PID ..." and is whole if "." ends it.

perl sampler.pl 1 0 >/dev/null 2>&1 && exec perl sampler.pl "$@"

interval=$1 count=$2
shift 2
hz=$(getconf CLK_TCK 2>/dev/null) || hz=100
page=$(getconf PAGESIZE 2>/dev/null) || page=4096
now=$(date +%s.%N)
read -r up idle </proc/uptime
case $now in *N*) now=${now%%.*} ;; esac
echo "loadbook-sampler 1 $now $up $hz $page $interval"

add() { # PID LABEL: the process and all below it
    pids="$pids $2:$1" stats="$stats /proc/$1/stat /proc/$1/schedstat"
    child_pids=
    { read -r child_pids <"/proc/$1/task/$1/children"; } 2>/dev/null
    for child_pid in $child_pids; do
        add "$child_pid" "$2"
    done
}

find_quotas() { # sets quotas, LABEL:MILLI of each quota above a first process, and counts, the files of its throttling
    quotas= counts=
    for first in $firsts; do
        found=$(/bin/sh cgroups.sh "${first##*:}" 2>/dev/null) || found=?
        [ "$found" != '?' ] || [ -d "/proc/${first##*:}" ] || found=
        for word in $found; do
            case $word in
            /*) counts="$counts $word/cpu.stat" ;;
            *) quotas="$quotas ${first%:*}:$word" ;;
            esac
        done
    done
}

n=0 known=
while [ "$n" -lt "$count" ]; do
    pids= stats= firsts= groups=
    for watch; do
        pid=
        { read -r pid rest <"${watch#*=}"; } 2>/dev/null
        case $pid in '' | *[!0-9]*) continue ;; esac
        case $firsts in
        *" ${watch%%=*}:"*) ;;
        *)
            firsts="$firsts ${watch%%=*}:$pid" groups="$groups $pid"
            # a job may join its group after it has begun
            { while read -r line; do groups="$groups $line"; done <"/proc/$pid/cgroup"; } 2>/dev/null
            ;;
        esac
        add "$pid" "${watch%%=*}"
    done
    [ "$groups" = "$known" ] || find_quotas
    known=$groups
    echo "@ $n$pids"
    # without two thirds of the bytes, which nobody reads: counts by interrupt, and sizes of memory but for Mem*
    # shellcheck disable=SC2086
    sed -e '/^intr /d' -e '/^[A-LN-Z].* kB$/d' /proc/uptime /proc/stat /proc/meminfo /proc/net/dev /proc/loadavg \
        /proc/net/sockstat $stats 2>/dev/null
    echo "accept_queues ?"
    echo "quotas$quotas"
    # shellcheck disable=SC2086
    [ -z "$counts" ] || cat $counts 2>/dev/null
    echo .
    n=$((n + 1))
    sleep "$interval"
done
