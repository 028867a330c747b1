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

find_quotas() { # sets quotas: "LABEL MILLI FOLDER" of each quota above a first process, "LABEL ? -" if not known
    quotas=
    for first in $firsts; do
        found=$(/bin/sh cgroups.sh "${first##*:}" 2>/dev/null) || found='- ?'
        [ "$found" != '- ?' ] || [ -d "/proc/${first##*:}" ] || found=
        folder=
        for word in $found; do
            case $word in
            /* | -) folder=$word ;;
            none) ;;
            *) quotas="$quotas ${first%:*} $word $folder" ;;
            esac
        done
    done
}

number_of() { # FOLDER: sets number; a path may name a user or a container
    number=1
    for known_folder in $known_folders; do
        [ "$known_folder" != "$1" ] || return 0
        number=$((number + 1))
    done
    known_folders="$known_folders $1"
}

print_quotas() { # LABEL MILLI FOLDER ...: what each quota has counted, as sampler.pl prints it
    while [ $# -gt 0 ]; do
        periods= throttled= stopped_ns=
        while read -r name value; do
            case $name in
            nr_periods) periods=$value ;;
            nr_throttled) throttled=$value ;;
            throttled_time) stopped_ns=$value ;;
            throttled_usec) stopped_ns=${value}000 ;;
            esac
        done 2>/dev/null <"$3/cpu.stat"
        case $2,$stopped_ns in
        '?',*) echo "quota $1 ?" ;;
        *,?*) number_of "$3" && echo "quota $1 $number $2 $periods $throttled $stopped_ns" ;;
        esac
        shift 3
    done
}

n=0 known= known_folders=
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
    # shellcheck disable=SC2086
    { print_quotas $quotas; } 2>/dev/null
    echo .
    n=$((n + 1))
    sleep "$interval"
done
