# Prints one line "NAME<tab>VALUE" per fact of this host that may matter to a web benchmark; no value, no fact.
# POSIX sh, nothing installed, one process for each `uname`; holds no host name, no address, no raw machine id.
# The function cgroup_quotas is cgroups.sh, put in its place by `monitors.gather_facts`.

print_fact() {
    [ -z "$2" ] || printf '%s\t%s\n' "$1" "$2"
}

print_first_line() { # NAME FILE: the file's first line
    value=
    { read -r value <"$2"; } 2>/dev/null
    print_fact "$1" "$value"
}

print_field() { # NAME FILE KEY: what follows "KEY:" in the file
    while IFS= read -r line; do
        case $line in
        "$3"[:\	\ ]*)
            value=${line#*:}
            print_fact "$1" "${value#"${value%%[![:space:]]*}"}"
            return
            ;;
        esac
    done 2>/dev/null <"$2"
}

print_fact kernel "$(uname -r)"
print_fact arch "$(uname -m)"
os=$( { . /etc/os-release && echo "$PRETTY_NAME"; } 2>/dev/null)
print_fact os "$os"
print_field cpu_model /proc/cpuinfo 'model name'
print_field cpu_mhz /proc/cpuinfo 'cpu MHz'
case $(cat /proc/cpuinfo 2>/dev/null) in *hypervisor*) print_fact virtual yes ;; *) print_fact virtual no ;; esac
print_first_line cpus_online /sys/devices/system/cpu/online
print_field cpus_allowed /proc/self/status Cpus_allowed_list
if quotas=$(cgroup_quotas "$$"); then # the smallest, in thousandths of a CPU
    quota=none
    for word in $quotas; do
        case $word in
        */* | none) ;;
        *) [ "$quota" != none ] && [ "$quota" -le "$word" ] || quota=$word ;;
        esac
    done
    print_fact cpu_quota "$quota"
fi
print_first_line cpu_governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
print_first_line cpu_no_turbo /sys/devices/system/cpu/intel_pstate/no_turbo
print_first_line cpu_smt /sys/devices/system/cpu/smt/active
print_first_line clock_source /sys/devices/system/clocksource/clocksource0/current_clocksource
print_first_line transparent_hugepage /sys/kernel/mm/transparent_hugepage/enabled
print_field memory_total /proc/meminfo MemTotal
print_field memory_available /proc/meminfo MemAvailable
print_field swap_total /proc/meminfo SwapTotal
print_first_line boot_id /proc/sys/kernel/random/boot_id
[ ! -r /etc/machine-id ] || print_fact machine "$(sha256sum </etc/machine-id 2>/dev/null)"
print_first_line load /proc/loadavg
case $(cat /proc/self/mountinfo 2>/dev/null) in *" /proc/stat "*lxcfs*) print_fact proc_stat lxcfs ;; *) print_fact proc_stat kernel ;; esac
print_fact nofile_soft "$(ulimit -S -n)"
print_fact nofile_hard "$(ulimit -H -n)"
# these files can only be read in one go, which the shell's own `read` does not do; the arguments are their names
cd /proc/sys && grep -s '' "$@" /dev/null | while IFS=: read -r name value; do print_fact "$name" "$value"; done
