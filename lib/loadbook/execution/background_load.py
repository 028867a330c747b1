"""Signs of other programs on the hosts before a run: CPU use, connections, package managers and their timers.

During the trials the validity rules check for them (foreign and stolen CPU, hosts that are not at rest).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from loadbook.core.units import format_duration
from loadbook.execution.preflight import hex_address
from loadbook.execution.testbed import Testbed
from loadbook.hosts.shell import cpu_list

SCRIPT_TIMEOUT_S = 20.0
# $1: an address as in /proc/net/tcp (empty: any); the rest: ports as there; CPU times are read twice
BACKGROUND_LOAD_SCRIPT = """
address=${1:-[0-9A-F]*}
shift
grep '^cpu[0-9]' /proc/stat
echo again
sleep 0.5 2>/dev/null || sleep 1
grep '^cpu[0-9]' /proc/stat
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


def background_load(testbed: Testbed) -> Iterator[str]:
    """Yield a sentence for each sign of other programs: CPU use, connections, package managers."""
    live = [alias for alias, host in testbed.hosts.items() if host.live]
    answers = testbed.map(
        lambda alias: (
            testbed.hosts[alias]
            .script(BACKGROUND_LOAD_SCRIPT, script_arguments(testbed, alias), timeout_s=SCRIPT_TIMEOUT_S)
            .stdout
        ),
        live,
    )
    for alias, answer in answers.items():
        for sentence in parse_background_load(
            answer.decode("utf-8", "replace"), testbed.plan.study.validity.foreign_cpu, testbed.plan.hours
        ):
            yield f"host {alias}: {sentence}"


def script_arguments(testbed: Testbed, alias: str) -> list[str]:
    """Return the arguments of BACKGROUND_LOAD_SCRIPT: address and service ports of a host."""
    ports = sorted({f"{placement.port:04X}" for placement in testbed.placements if placement.alias == alias})
    return [hex_address(testbed.hosts[alias].address), *ports]


def parse_background_load(answer: str, foreign_cpu: float, hours: float) -> Iterator[str]:
    """Yield sentences from the script's output: CPU use above `foreign_cpu` CPUs, timers within `hours`."""
    first, _, rest = answer.partition("again\n")
    lines = [line.split() for line in rest.splitlines()]
    values = {fields[0]: fields[1:] for fields in lines if fields}
    mask = cpu_list(values["cpus"][0]) if "cpus" in values else set()
    used = _cpus_in_use(first, rest, mask)
    load = float(values["load"][0]) if "load" in values else 0.0
    if used > foreign_cpu:
        yield f"others use {used:.1f} of its {len(mask)} CPUs now (load average {load:g}): run top there to see which"
    elif load > max(1, len(mask)):
        yield f"its load average is {load:g}: a program used it until now, or waits for its disks"
    for fields in lines:
        if fields[:1] == ["connected"]:
            yield f"{fields[2]} connections to port {int(fields[1], 16)} are open, which are not ours"
    if names := sorted({fields[1] for fields in lines if fields[:1] == ["packages"]}):
        yield f"a package manager is at work: {', '.join(names)}"
    now = float(values["now"][0]) if "now" in values else 0.0
    for fields in lines:
        if (
            fields[:1] == ["timer"]
            and (left_s := _seconds_until(fields[2:], now)) is not None
            and left_s < hours * 3600
        ):
            yield (
                f"{fields[1]}.timer starts a package manager in {format_duration(left_s)}, during the run: "
                "systemctl stop it"
            )


def _cpus_in_use(first: str, second: str, mask: set[int]) -> float:
    """Return the CPUs in use between two readings; stolen time is left to its own rule."""
    before, after = _cpu_ticks(first), _cpu_ticks(second)
    total = sum(sum(after[cpu]) - sum(before[cpu]) for cpu in mask if cpu in before and cpu in after)
    # idle, iowait and steal are fields 4, 5 and 8
    spare = sum(after[cpu][k] - before[cpu][k] for cpu in mask if cpu in before and cpu in after for k in (3, 4, 7))
    return len(mask) * (total - spare) / total if total > 0 else 0.0


def _cpu_ticks(text: str) -> dict[int, list[int]]:
    ticks = {}
    for line in text.splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and len(fields) >= 8:
            ticks[int(name[3:])] = [int(field) for field in fields[:8]]
    return ticks


def _seconds_until(fields: list[str], now: float) -> float | None:
    """Return the seconds until a time such as "Sun 2026-11-22 16:32:11 UTC", as systemd prints it."""
    try:
        at = datetime.strptime(" ".join(fields[1:3]), "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    left_s = at.timestamp() - now
    return left_s if left_s >= 0 else None
