# guard.sh: the verb guard OWN CHANGE...   runs as the step of a job, in its folder, as root or where root let us
#
#   sysctl NAME VALUE                       a kernel setting, read back
#   path ADDRESS DELAY_US LOSS_% RATE_KBIT  the network on the way to ADDRESS, or to all; 0: left as it is
#   accept ADDRESS                          take packets for ADDRESS without claiming it in the network
#   quota NAME PERCENT                      a cgroup with so much time of one CPU; the file cgroup-NAME names its cgroup.procs
#   table FAMILY NAME                       a table of packet rules that a service makes, and leaves when it is killed
#
# The file `state` holds "done", or "refused" and why.
period_us=20000

guard() {
    own_address=$1 # the address that others know this host by
    shift
    job=${PWD##*/}
    trap 'ending=1' TERM INT HUP
    locked make_changes "$@"
    await_end
}

make_changes() {
    restore_dead
    begin_entry
    for change; do
        [ -z "$ending" ] || return 0
        # shellcheck disable=SC2086
        case ${change%% *} in
        sysctl)
            change=${change#sysctl }
            sysctl "${change%% *}" "${change#* }"
            ;;
        path | accept | quota | table) $change ;;
        *) refuse "unknown change: $change" ;;
        esac
    done
}

sysctl() { # NAME VALUE
    file=/proc/sys/$(echo "$1" | tr . /)
    [ -e "$file" ] || refuse "$1: there is no such setting here"
    case $1 in
    net.*) ;;
    *) own_machine || refuse "$1 is a setting of the whole machine, and this host is a namespace of it" ;;
    esac
    old=$(cat "$file" 2>&1) || refuse "$1: $old"
    # several aliases may be one machine: the last one to end puts back what was there before the first
    others=$(recorded_by_others sysctl "$file" | sed -n 1p)
    if [ -n "$others" ]; then
        [ "$(plain "$old")" = "$(plain "$2")" ] ||
            refuse "$1 = $2: another job on this machine has set it to $(plain "$old")"
        old=${others#"sysctl $file "}
    fi
    record_original "sysctl $file $old"
    # the program, not the shell's own, which prints no reason
    output=$({ env printf '%s\n' "$2" >"$file"; } 2>&1) || refuse "$1 = $2: ${output##*: }"
    now=$(plain "$(cat "$file")")
    [ "$now" = "$(plain "$2")" ] || refuse "$1 = $2: it was taken, and is $now"
}

put_sysctl_back() { # FILE VALUE
    [ -e "$1" ] && [ -z "$(recorded_by_others sysctl "$1")" ] || return 0
    output=$({ env printf '%s\n' "$2" >"$1"; } 2>&1) || { echo "$1 = $2: ${output##*: }" && return 1; }
    echo "$1 = $2"
}

own_machine() {
    [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/1/ns/net)" ]
}

path() { # ADDRESS DELAY_US LOSS RATE_KBIT
    class=
    if [ "$1" = all ]; then
        class="default 2"
        dev=$(ip -o -4 addr show to "$own_address/32" 2>/dev/null | { read -r _ name _ && echo "$name"; })
        [ -n "$dev" ] || refuse "no interface has its own address $own_address"
    else
        to=$(getent ahostsv4 "$1" | sed -n 's/ .*//;1p')
        dev=$(ip -o -4 route get "$to" 2>&1 | sed -n 's/.* dev \([^ ]*\).*/\1/p')
        [ -n "$dev" ] || refuse "no way to ${1:-nowhere} over IPv4"
    fi
    old=$(tc qdisc show dev "$dev" root 2>&1)
    case $old in
    '' | "qdisc "*" 0: "*) ;;
    *) refuse "$dev: its queue is left alone, somebody set it: $(plain "$old")" ;;
    esac
    record_original "qdisc $dev"
    rate=$4
    [ "$rate" != 0 ] || rate=100000000
    # shellcheck disable=SC2086
    run_tc qdisc add dev "$dev" root handle 1: htb $class
    run_tc class add dev "$dev" parent 1: classid 1:2 htb rate "${rate}kbit" burst 100k cburst 100k quantum 60000
    [ -n "$class" ] ||
        run_tc filter add dev "$dev" parent 1: protocol ip prio 1 u32 match ip dst "$to/32" flowid 1:2
    [ "$2$3" = 00 ] ||
        run_tc qdisc add dev "$dev" parent 1:2 handle 2: netem delay "${2}us" loss "$3%" limit 100000
}

run_tc() { # words of tc
    output=$(tc "$@" 2>&1) || refuse "tc $*: $(plain "$output")"
}

put_qdisc_back() { # DEVICE
    case $(tc qdisc show dev "$1" root 2>/dev/null) in
    "qdisc htb 1: "*) tc qdisc del dev "$1" root && echo "the queue of $1" ;;
    esac
}

accept() { # ADDRESS
    [ -z "$(ip -o addr show to "$1/32")" ] || refuse "$1 is an address of this host"
    sysctl net.ipv4.conf.all.arp_ignore 1
    sysctl net.ipv4.conf.all.arp_announce 2
    record_original "address $1"
    output=$(ip addr add "$1/32" dev lo 2>&1) || refuse "ip addr add $1: $output"
}

put_address_back() { # ADDRESS
    [ -z "$(ip -o addr show dev lo to "$1/32")" ] || { ip addr del "$1/32" dev lo && echo "address $1"; }
}

quota() { # NAME PERCENT
    find_cgroups
    cgroup=$parent/loadbook-$own_address-$job-$1 # the hosts of a lab share one tree
    record_original "cgroup $cgroup"
    output=$(mkdir "$cgroup" 2>&1) || refuse "$output"
    time_us=$((period_us * $2 / 100))
    if [ "$version" = 1 ]; then
        write_checked "$cgroup/cpu.cfs_period_us" "$period_us"
        write_checked "$cgroup/cpu.cfs_quota_us" "$time_us"
    else
        write_checked "$cgroup/cpu.max" "$time_us $period_us"
    fi
    echo "$cgroup/cgroup.procs" >"cgroup-$1"
}

put_cgroup_back() { # FOLDER
    [ -d "$1" ] || return 0
    while read -r pid; do echo "$pid" >"${1%/*}/cgroup.procs"; done <"$1/cgroup.procs"
    rmdir "$1" && echo "cgroup $1"
}

write_checked() { # FILE VALUE
    output=$({ env printf '%s\n' "$2" >"$1"; } 2>&1) || refuse "${1##*/} = $2: ${output##*: }"
    [ "$(cat "$1")" = "$2" ] || refuse "${1##*/} = $2: it was taken, and is $(cat "$1")"
}

find_cgroups() { # sets parent and version: where CPU time can be limited
    version=
    while read -r _ at type options _; do
        case $type,$options, in
        cgroup,*,cpu,*) parent=$at version=1 && return ;;
        cgroup2,*) grep -qw cpu "$at/cgroup.controllers" && parent=$at version=2 ;;
        esac
    done <"${LOADBOOK_MOUNTS:-/proc/mounts}"
    [ -n "$version" ] || refuse "no cgroup controller of CPU time is mounted"
    if ! grep -qw cpu "$parent/cgroup.subtree_control"; then
        record_original "controller $parent on"
        put_controller
    elif [ -n "$(recorded_by_others controller "$parent")" ]; then
        record_original "controller $parent on"
    fi
}

put_controller() {
    output=$({ env printf '+cpu\n' >"$parent/cgroup.subtree_control"; } 2>&1) || refuse "cgroup of CPU time: ${output##*: }"
}

put_controller_back() { # FOLDER
    [ -z "$(recorded_by_others controller "$1")" ] || return 0
    echo -cpu >"$1/cgroup.subtree_control" && echo "cgroup controller of $1"
}

table() { # FAMILY NAME
    record_original "table $1 $2"
}

put_table_back() { # FAMILY NAME
    nft list table "$1" "$2" >/dev/null 2>&1 || return 0
    nft delete table "$1" "$2" && echo "table $1 $2"
}
