#!/bin/sh
# netns_enter.sh ALIAS FOLDER HOSTS COMMAND...   be a host of the namespace lab, then become COMMAND
#
# Runs in network, mount and UTS namespaces of its own. What is written to /etc and /run from here on stays in memory and
# ends with the last process; HOSTS, a file that all hosts of the lab share, is /etc/hosts.
set -e
alias=$1 layer=$2/etc hosts=$3
shift 3

echo "$alias" >/proc/sys/kernel/hostname
mkdir -p "$layer"
mount -t tmpfs -o mode=700 tmpfs "$layer"
cd "$layer"
mkdir upper work cgroup
# relative: a comma in the path would end the option
mount -t overlay overlay -o lowerdir=/etc,upperdir=upper,workdir=work /etc
# removed first: they may be links out of /etc
rm -f /etc/hostname /etc/hosts /etc/resolv.conf
echo "$alias" >/etc/hostname
: >/etc/hosts
: >/etc/resolv.conf
mount --bind "$hosts" /etc/hosts

# the interfaces below /sys are those of the namespace that mounts it
mount --rbind /sys/fs/cgroup cgroup
mount -t sysfs sysfs /sys
mount --rbind cgroup /sys/fs/cgroup

# no server of the machine is found there, and no systemd; a lab that lies below keeps what it has
case $layer in
/run/*) ;;
*)
    mount -t tmpfs -o mode=755 tmpfs /run
    mkdir /run/sshd /run/lock
    chmod 1777 /run/lock
    ;;
esac

cd /
exec "$@"
