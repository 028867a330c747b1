"""Background load on the hosts before a run: CPU use and by which program, connections, package managers, other runs.

One script per host reads /proc twice; its answer becomes sentences for the terminal.
"""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from loadbook.core.units import format_duration, format_percent
from loadbook.execution.host_state import STATE_TIMEOUT_S
from loadbook.execution.testbed import Testbed
from loadbook.hosts.host import CommandResult
from loadbook.hosts.other_runs import OTHER_RUNS_SCRIPT, parse_other_runs, without_other_runs
from loadbook.hosts.script import Script
from loadbook.hosts.shell import cpu_list

_PROCESS_STAT = re.compile(r"(?P<pid>\d+) \((?P<name>.*)\) [A-Za-z] (?P<rest>[-\d ]+)")
WHOLE_CPU = 0.95  # from this share on
# $1: an address in the format of /proc/net/tcp (empty: any); others: hex ports; CPU times are read twice
BACKGROUND_LOAD_SCRIPT = Script(
    """
address=${1:-[0-9A-F]*}
shift
reading() { grep '^cpu[0-9]' /proc/stat; cat /proc/[0-9]*/stat 2>/dev/null | cut -c1-300; }
reading
echo again
sleep 0.5 2>/dev/null || sleep 1
reading
while read -r key value; do if [ "$key" = Cpus_allowed_list: ]; then echo "cpus $value"; fi; done </proc/$$/status
read -r load rest </proc/loadavg
echo "load $load"
for port; do
  open=" ([0-9A-F]{24})?$address:$port [0-9A-F]+:[0-9A-F]{4} 01 "
  seen=$(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -cE "$open")
  [ "$seen" = 0 ] || echo "connected $port $seen"
done
for process in /proc/[0-9]*; do
  { read -r name <"$process/comm"; } 2>/dev/null || continue
  case $name in
  apt|apt-get|aptitude|dpkg|dnf|yum|rpm|zypper|apk|pacman|unattended-upgr)
    line=$(tr '\\0' ' ' <"$process/cmdline" 2>/dev/null)
    case $line in ''|*--wait-for-signal*) ;; *) echo "packages $name" ;; esac ;;
  esac
done
date '+now %s'
for timer in apt-daily apt-daily-upgrade dnf-makecache dnf-automatic packagekit-offline-update; do
  next=$(systemctl show -p NextElapseUSecRealtime --value "$timer.timer" 2>/dev/null)
  [ -z "$next" ] || echo "timer $timer $next"
done
"""
    + OTHER_RUNS_SCRIPT,
    purpose="do other programs use it?",
)


def background_load(testbed: Testbed) -> Iterator[tuple[str, str]]:
    """Yield (host, sentence) for each sign of load: other runs, CPU use, open connections, package managers."""
    plan, live = testbed.plan, [alias for alias, host in testbed.hosts.items() if host.live]
    named: set[str] = set()
    for alias, done in testbed.map(partial(run_background_load_script, testbed), live).items():
        answer = done.stdout.decode("utf-8", "replace")
        for other in parse_other_runs(answer):
            if other.id not in named:  # once, as several hosts may be one machine
                named.add(other.id)
                yield alias, f"on its machine is {other.description}. The two loads disturb each other."
        for sentence in parse_background_load(without_other_runs(answer), plan.study.validity.foreign_cpu, plan.hours):
            yield alias, sentence


def run_background_load_script(testbed: Testbed, alias: str) -> CommandResult:
    """Run BACKGROUND_LOAD_SCRIPT on a host with the host's address and the ports of its services."""
    host = testbed.hosts[alias]
    ports = sorted({f"{placement.port:04X}" for placement in testbed.placements if placement.alias == alias})
    return host.script(BACKGROUND_LOAD_SCRIPT, [hex_address(host.address), *ports], timeout_s=STATE_TIMEOUT_S)


def parse_background_load(answer: str, foreign_cpu: float, hours: float) -> Iterator[str]:
    """Yield sentences on other load from `answer`, the output of BACKGROUND_LOAD_SCRIPT; none on an idle host.

    Reported are CPU use above `foreign_cpu` (number of CPUs), a high load average, open connections, running package
    managers, and timers that start one within `hours` hours.
    """
    first, _, rest = answer.partition("again\n")
    lines = [line.split() for line in rest.splitlines()]
    values = {fields[0]: fields[1:] for fields in lines if fields}
    mask = cpu_list(values["cpus"][0]) if "cpus" in values else set()
    used = _cpus_in_use(first, rest, mask)
    load = float(values["load"][0]) if "load" in values else 0.0
    if used > foreign_cpu:
        most = _busiest_process(first, rest, mask)
        which = f", most of it {most}. Results will be vague" if most else ". Results will be vague; `top` shows which"
        yield f"other programs use {_cpus_text(used, len(mask))} now{which}."
    elif load > max(1, len(_cpu_ticks(first))):  # of the whole machine
        yield f"its load average is {load:g}: a program used it until now, or waits for its disks"
    for fields in lines:
        if fields[:1] == ["connected"]:
            yield f"{fields[2]} connections to port {int(fields[1], 16)} are open, which are not ours"
    if names := sorted({fields[1] for fields in lines if fields[:1] == ["packages"]}):
        yield f"a package manager is at work: {', '.join(names)}"
    now = float(values["now"][0]) if "now" in values else 0.0
    for fields in lines:
        left_s = _seconds_until(fields[2:], now) if fields[:1] == ["timer"] else None
        if left_s is not None and left_s < hours * 3600:
            wait = format_duration(left_s)
            yield f"{fields[1]}.timer starts a package manager in {wait}, during the run: systemctl stop it"


def _cpus_text(used: float, number: int) -> str:
    """Return how many of a host's CPUs are used: the whole CPU, 80 % of its CPU, 1.3 of its 4 CPUs."""
    if used >= WHOLE_CPU * number:
        return "the whole CPU" if number == 1 else f"all {number} CPUs"
    if number == 1:
        return f"{format_percent(used, decimals=0, signed=False)} of its CPU"
    return f"{used:.1f} of its {number} CPUs"


def _cpus_in_use(first: str, second: str, mask: set[int]) -> float:
    """Return the mean number of CPUs in use between two readings of /proc/stat, without stolen time."""
    before, after = _cpu_ticks(first), _cpu_ticks(second)
    total = sum(sum(after[cpu]) - sum(before[cpu]) for cpu in mask if cpu in before and cpu in after)
    # idle, iowait and steal are fields 4, 5 and 8 (indices 3, 4 and 7)
    spare = sum(after[cpu][k] - before[cpu][k] for cpu in mask if cpu in before and cpu in after for k in (3, 4, 7))
    return len(mask) * (total - spare) / total if total > 0 else 0.0


class _Process(NamedTuple):
    """A line of /proc/PID/stat: name, clock ticks of CPU time, and the CPU that it ran on last."""

    name: str
    ticks: int
    cpu: int


def _busiest_process(first: str, second: str, mask: set[int]) -> str:
    """Return "python (pid 4711)", the process with half of the CPU time between two readings; "" if there is none."""
    before, after = _processes(first), _processes(second)
    spent = {
        pid: process.ticks - (before[pid].ticks if pid in before else 0)
        for pid, process in after.items()
        if process.cpu in mask
    }
    pid = max(spent, key=spent.__getitem__, default="")
    return f"{after[pid].name} (pid {pid})" if pid and spent[pid] and 2 * spent[pid] >= sum(spent.values()) else ""


def _processes(text: str) -> dict[str, _Process]:
    """Return pid -> its process, of lines of /proc/PID/stat (fields by proc(5))."""
    found = {}
    for line in text.splitlines():
        if match := _PROCESS_STAT.match(line):
            fields = match["rest"].split()  # from the fourth on
            if len(fields) > 35:
                found[match["pid"]] = _Process(match["name"], int(fields[10]) + int(fields[11]), int(fields[35]))
    return found


def _cpu_ticks(text: str) -> dict[int, list[int]]:
    ticks = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(fields) >= 8:
            ticks[int(name[3:])] = [int(field) for field in fields[:8]]
    return ticks


def _seconds_until(fields: list[str], now: float) -> float | None:
    """Return the seconds until a time printed by systemd ("Sun 2026-11-22 16:32:11 UTC"); None if unreadable."""
    try:
        at = datetime.strptime(" ".join(fields[1:3]), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    left_s = at.timestamp() - now
    return left_s if left_s >= 0 else None


def hex_address(address: str) -> str:
    """Return an IPv4 address in the format of /proc/net/tcp; "" for other addresses and names."""
    try:
        return socket.inet_pton(socket.AF_INET, address)[:: 1 if sys.byteorder == "big" else -1].hex().upper()
    except OSError:
        return ""
