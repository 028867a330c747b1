: loadbook changes this host as long as this runs, and puts it back
# guard.sh OWN CHANGE...   runs as the step of a job, in the job's folder; POSIX sh, as root or where root let us
#
#   sysctl NAME VALUE                       a kernel setting, read back
#   path ADDRESS DELAY_US LOSS_% RATE_KBIT  the network on the way to ADDRESS, or to all; 0: left as it is
#   accept ADDRESS                          take packets for ADDRESS without claiming it in the network
#   quota NAME PERCENT                      a cgroup with so much time of one CPU; the file cgroup-NAME holds its door
#
# The file `state` says done or refused; how to put things back is kept in <workdir>/undo until it is done, so that
# what a killed guard left is put back by the next one.
own=$1 # the address that others know this host by
shift
job=${PWD##*/}
undo=../../undo
period_us=20000
ending=
trap 'ending=1' TERM INT HUP

say() { # words for whoever waits, whole or not at all
    echo "$*" >state.part && mv state.part state
}

refuse() {
    say "refused $*"
    restore "$undo/$job"
    exit 1
}

remember() { # a line of `put_back`; the newest comes first
    part=$undo/.$job
    { echo "$*" && { [ ! -e "$undo/$job" ] || cat "$undo/$job"; }; } >"$part" && mv "$part" "$undo/$job" ||
        refuse "cannot write to $undo"
}

restore() { # FILE
    [ -e "$1" ] || return 0
    # a second signal to the group would end what puts things back
    trap '' TERM INT HUP
    while read -r what which value; do
        put_back "$what" "$which" "$value"
    done <"$1"
    rm -f "$1"
}

put_back() {
    case $1 in
    sysctl) printf '%s\n' "$3" >"$2" ;;
    qdisc) tc qdisc del dev "$2" root ;;
    address) ip addr del "$2/32" dev lo ;;
    cgroup)
        while read -r pid; do echo "$pid" >"${2%/*}/cgroup.procs"; done <"$2/cgroup.procs"
        rmdir "$2"
        ;;
    controller) echo -cpu >"$2/cgroup.subtree_control" ;;
    esac 2>>log.restore
}

lives() { # PID: and does not only wait for its parent
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 1
    case ${line##*) } in Z* | X*) return 1 ;; esac
}

restore_dead() { # what guards left that were killed
    mkdir -p "$undo" || refuse "cannot make $undo"
    for file in "$undo"/*; do
        name=${file##*/}
        read -r leader rest <"../$name/pid" 2>/dev/null || leader=
        if [ -e "$file" ] && { [ -e "../$name/rc" ] || ! lives "$leader"; }; then
            restore "$file"
            trap 'ending=1' TERM INT HUP
        fi
    done
}

plain() { # words with one blank between them, as values are compared
    set -f
    # shellcheck disable=SC2086
    set -- $1
    set +f
    echo "$*"
}

sysctl() { # NAME VALUE
    file=/proc/sys/$(echo "$1" | tr . /)
    [ -e "$file" ] || refuse "$1: there is no such setting here"
    case $1 in
    net.*) ;;
    *) own_machine || refuse "$1 is a setting of the whole machine, and this host is a namespace of it" ;;
    esac
    old=$(cat "$file" 2>&1) || refuse "$1: $old"
    remember "sysctl $file $old"
    # the program, not the shell's own: it says why
    said=$({ env printf '%s\n' "$2" >"$file"; } 2>&1) || refuse "$1 = $2: ${said##*: }"
    now=$(plain "$(cat "$file")")
    [ "$now" = "$(plain "$2")" ] || refuse "$1 = $2: it was taken, and is $now"
}

own_machine() {
    [ "$(readlink /proc/self/ns/net)" = "$(readlink /proc/1/ns/net)" ]
}

path() { # ADDRESS DELAY_US LOSS RATE_KBIT
    class=
    if [ "$1" = all ]; then
        class="default 2"
        dev=$(ip -o -4 addr show to "$own/32" 2>/dev/null | { read -r _ name _ && echo "$name"; })
        [ -n "$dev" ] || refuse "no interface has its own address $own"
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
    remember "qdisc $dev"
    rate=$4
    [ "$rate" != 0 ] || rate=100000000
    # shellcheck disable=SC2086
    queue qdisc add dev "$dev" root handle 1: htb $class
    queue class add dev "$dev" parent 1: classid 1:2 htb rate "${rate}kbit" burst 100k cburst 100k quantum 60000
    [ -n "$class" ] ||
        queue filter add dev "$dev" parent 1: protocol ip prio 1 u32 match ip dst "$to/32" flowid 1:2
    [ "$2$3" = 00 ] ||
        queue qdisc add dev "$dev" parent 1:2 handle 2: netem delay "${2}us" loss "$3%" limit 100000
}

queue() { # words of tc
    said=$(tc "$@" 2>&1) || refuse "tc $*: $(plain "$said")"
}

accept() { # ADDRESS
    [ -z "$(ip -o addr show to "$1/32")" ] || refuse "$1 is an address of this host"
    sysctl net.ipv4.conf.all.arp_ignore 1
    sysctl net.ipv4.conf.all.arp_announce 2
    remember "address $1"
    said=$(ip addr add "$1/32" dev lo 2>&1) || refuse "ip addr add $1: $said"
}

quota() { # NAME PERCENT
    find_cgroups
    cgroup=$parent/loadbook-$own-$job-$1 # the hosts of a lab share one tree
    remember "cgroup $cgroup"
    said=$(mkdir "$cgroup" 2>&1) || refuse "$said"
    time_us=$((period_us * $2 / 100))
    if [ "$version" = 1 ]; then
        put "$cgroup/cpu.cfs_period_us" "$period_us"
        put "$cgroup/cpu.cfs_quota_us" "$time_us"
    else
        put "$cgroup/cpu.max" "$time_us $period_us"
    fi
    echo "$cgroup/cgroup.procs" >"cgroup-$1"
}

put() { # FILE VALUE
    said=$({ env printf '%s\n' "$2" >"$1"; } 2>&1) || refuse "${1##*/} = $2: ${said##*: }"
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
    grep -qw cpu "$parent/cgroup.subtree_control" || put_controller
}

put_controller() {
    said=$({ env printf '+cpu\n' >"$parent/cgroup.subtree_control"; } 2>&1) || refuse "cgroup of CPU time: ${said##*: }"
    remember "controller $parent"
}

restore_dead
for change; do
    [ -z "$ending" ] || break
    # shellcheck disable=SC2086
    case ${change%% *} in
    sysctl)
        change=${change#sysctl }
        sysctl "${change%% *}" "${change#* }"
        ;;
    path | accept | quota) $change ;;
    *) refuse "unknown change: $change" ;;
    esac
done
say "done"
while [ -z "$ending" ]; do
    sleep 1000 &
    wait $!
done
restore "$undo/$job"
