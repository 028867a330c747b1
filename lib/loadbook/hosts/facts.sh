# Prints one line "NAME<tab>VALUE" per fact of this host that may matter to a web benchmark; no value, no fact.
# POSIX sh, nothing installed, one process for each `uname`; holds no host name, no address, no raw machine id.

say() {
    [ -z "$2" ] || printf '%s\t%s\n' "$1" "$2"
}

first() { # NAME FILE: the file's first line
    value=
    { read -r value <"$2"; } 2>/dev/null
    say "$1" "$value"
}

field() { # NAME FILE KEY: what follows "KEY:" in the file
    while IFS= read -r line; do
        case $line in
        "$3"[:\	\ ]*)
            value=${line#*:}
            say "$1" "${value#"${value%%[![:space:]]*}"}"
            return
            ;;
        esac
    done 2>/dev/null <"$2"
}

say kernel "$(uname -r)"
say arch "$(uname -m)"
os=$( { . /etc/os-release && echo "$PRETTY_NAME"; } 2>/dev/null)
say os "$os"
field cpu_model /proc/cpuinfo 'model name'
field cpu_mhz /proc/cpuinfo 'cpu MHz'
case $(cat /proc/cpuinfo 2>/dev/null) in *hypervisor*) say virtual yes ;; *) say virtual no ;; esac
first cpus_online /sys/devices/system/cpu/online
field cpus_allowed /proc/self/status Cpus_allowed_list
first cpu_governor /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor
first cpu_no_turbo /sys/devices/system/cpu/intel_pstate/no_turbo
first cpu_smt /sys/devices/system/cpu/smt/active
first clock_source /sys/devices/system/clocksource/clocksource0/current_clocksource
first transparent_hugepage /sys/kernel/mm/transparent_hugepage/enabled
field memory_total /proc/meminfo MemTotal
field memory_available /proc/meminfo MemAvailable
field swap_total /proc/meminfo SwapTotal
first boot_id /proc/sys/kernel/random/boot_id
[ ! -r /etc/machine-id ] || say machine "$(sha256sum </etc/machine-id 2>/dev/null)"
first load /proc/loadavg
say nofile_soft "$(ulimit -S -n)"
say nofile_hard "$(ulimit -H -n)"
# these files can only be read in one go, which the shell's own `read` does not do; the arguments are their names
cd /proc/sys && grep -s '' "$@" /dev/null | while IFS=: read -r name value; do say "$name" "$value"; done
