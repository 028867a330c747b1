"""CPU time of services: of all processes of their jobs, also of those that were forked later or have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from loadbook.core.errors import CommandError
from loadbook.hosts.host import Host
from loadbook.hosts.script import Script

CPU_TIMEOUT_S = 20.0

# Prints the machine (boot id and namespace of process ids), then for each argument the CPU time (ns) used so far by
# the processes whose session or process group has this leader. A process counts with its threads (schedstat, ns; in
# ticks of 10 ms, which hold its ended threads, if that is more) and with its children that have ended (ticks).
CPU_TIME_SCRIPT = Script(
    """: loadbook reads the CPU time of services
read -r boot </proc/sys/kernel/random/boot_id
echo "$boot $(readlink /proc/self/ns/pid)"
leaders=" $* "
for leader; do eval "total_$leader=0"; done
for file in /proc/[0-9]*/stat; do
  { read -r line <"$file"; } 2>/dev/null || continue
  pid=${line%% *}
  set -- ${line##*\\) }
  case $leaders in *" $4 "*) leader=$4 ;; *" $3 "*) leader=$3 ;; *) continue ;; esac
  total=0 ticks=$(((${12} + ${13}) * 10000000)) children=$(((${14} + ${15}) * 10000000))
  for file in /proc/$pid/task/*/schedstat; do
    { read -r used rest <"$file"; } 2>/dev/null && total=$((total + used))
  done
  [ "$total" -ge "$ticks" ] || total=$ticks
  eval "total_$leader=\\$((total_$leader + total + children))"
done
for leader in $leaders; do eval "echo \\$total_$leader"; done
""",
    purpose="the CPU time of every service",
    answer=lambda args: "- -\n" + "0\n" * len(args),
)


class CpuReading(NamedTuple):
    """CPU time (ns) used so far by each service, in the order of the leaders that were given.

    `machine` (boot id and namespace of process ids) is equal for hosts that share their processes.
    """

    machine: str
    used_ns: list[int]


def read_cpu_time(host: Host, leaders: Sequence[int]) -> CpuReading:
    """Return the CPU time used so far by services on a host; `leaders` are the process ids of their jobs' leaders.

    Raises
    ------
    CommandError : the script failed, or did not print one number per leader.
    """
    done = host.script(CPU_TIME_SCRIPT, [str(leader) for leader in leaders], timeout_s=CPU_TIMEOUT_S, check=True)
    machine, *values = done.text.splitlines()
    try:
        used_ns = [int(value) for value in values]
    except ValueError:
        used_ns = []
    if len(used_ns) != len(leaders):
        raise CommandError(host.alias, f"CPU time of {len(leaders)} services: unexpected output {done.text[:200]!r}")
    return CpuReading(machine, used_ns)
