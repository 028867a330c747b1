# Prints FOLDER MILLI for the control group of process $1 and each one around it: the folder, and its CPU quota in
# thousandths of a CPU, or none. Exits with 1 where control groups cannot be read.
# POSIX sh, no process started. Formats: cgroups(7), the kernel's cgroup-v2.rst (cpu.max), sched-bwc.rst (cfs_quota_us).

find_mount() { # TYPE PATH: sets top, and at where PATH of this tree is; a container may see its own part of a tree only
    while read -r _ _ _ root mount rest; do
        case $1:${rest##* - },${rest##* }, in
        cgroup:"cgroup "*,cpu,* | cgroup2:"cgroup2 "*) ;;
        *) continue ;;
        esac
        top=${LOADBOOK_ROOT:-}$mount at=$top
        [ "$root" != / ] || root=
        case $2/ in
        *..*) ;;
        "$root"/*) at=$top${2#"$root"} && at=${at%/} ;;
        esac
        return 0
    done <"${LOADBOOK_ROOT:-}/proc/self/mountinfo"
    return 1
}

find_group() { # PID: sets version, top and at; a tree of version 1 that has the controller precedes version 2
    version=
    while IFS=: read -r _ controllers path; do
        case ,$controllers, in
        *,cpu,*) ! find_mount cgroup "$path" || version=1 && return ;;
        ,,) ! find_mount cgroup2 "$path" || version=2 ;;
        esac
    done <"${LOADBOOK_ROOT:-}/proc/$1/cgroup"
}

read_quota() { # sets limit and period_us of the group
    limit= period_us=
    if [ "$version" = 2 ]; then
        read -r limit period_us <"$at/cpu.max"
    else
        read -r limit <"$at/cpu.cfs_quota_us" && read -r period_us <"$at/cpu.cfs_period_us"
    fi
}

{ find_group "$1"; } 2>/dev/null
[ -n "$version" ] || exit 1
while :; do
    { read_quota; } 2>/dev/null
    case ${at##*/} in loadbook-*-t[0-9]*-a[0-9]*-*) limit= ;; esac # a study's own cpu_quota (guard.sh) is none of the host
    case $limit in
    '' | *[!0-9]*) echo "$at none" ;; # -1 in version 1, max in version 2
    *) echo "$at $((limit * 1000 / period_us))" ;;
    esac
    [ "$at" != "$top" ] || exit 0
    at=${at%/*}
done
