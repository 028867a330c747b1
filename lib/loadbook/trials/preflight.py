"""Everything that can be known before the first trial, and all that is wrong with it at once."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from loadbook.core.errors import LoadbookError, ToolError
from loadbook.core.units import size
from loadbook.design.sharing import share
from loadbook.hosts.polling import asker
from loadbook.hosts.shell import cpu_list
from loadbook.records.atomic import free_bytes
from loadbook.services import Instance, version
from loadbook.services.launch import Launch
from loadbook.tools.base import Tool
from loadbook.trials.bench import Bench
from loadbook.trials.changes import Guards, changes_of, forbidden
from loadbook.trials.load import Load
from loadbook.trials.names import guard_name, preflight_stem
from loadbook.trials.room import DISK_FACTOR, HOST_MIN_BYTES
from loadbook.trials.stage import Seat, make_instance

PROBE_S = 20.0
NOT_THERE = 127  # of a shell that does not find a program
CHECK_LEASE_S = 60.0
PORT_HINT = "stop what listens there, or give the host another service_port in the hosts file"

# $1 is a folder that may not exist yet, $2 an address as /proc/net/tcp has it (empty: any), the rest ports likewise
STATE = """
folder=$1
while [ ! -d "$folder" ]; do folder=$(dirname "$folder"); done
df -Pk "$folder" | tail -n 1 | { read -r device total used free rest; echo "free_kb $free"; }
echo "boot_id $(cat /proc/sys/kernel/random/boot_id)"
while read -r key value; do if [ "$key" = Cpus_allowed_list: ]; then echo "cpus $value"; fi; done </proc/$$/status
address=${2:-[0-9A-F]*}
shift 2
for port; do
  if cat /proc/net/tcp /proc/net/tcp6 2>/dev/null |
    grep -qE " (0{8}|0{32}|$address):$port [0-9A-F]+:0000 0A "; then echo "listening $port"; fi
done
"""


class PreflightError(LoadbookError):
    """The run cannot start; every reason is in the message, a line each."""

    def __init__(self, problems: list[str], hint: str = "set that right; loadbook doctor [--hosts FILE] helps") -> None:
        super().__init__("\n".join(["the run cannot start:", *(f"  {p}" for p in problems)]), hint)
        self.problems = problems


def preflight(bench: Bench, data: Path) -> None:
    """Check tools, services, every treatment's configuration, ports and disks; fill in versions and boot ids.

    Parameters
    ----------
    data : folder on our side that will receive the run.

    Raises
    ------
    PreflightError : with everything that is wrong, on all hosts.
    """
    refused = forbidden(bench.stage(treatment) for treatment in bench.plan.treatments)
    if refused:  # before anything is touched that may not be
        raise PreflightError(refused)
    hosts = [partial(_check_host, bench, alias) for alias in bench.hosts]
    checks: list[Callable[[], None]] = [lambda: _check_ours(bench, data)]
    checks += [partial(_check_driver, bench, alias, tool) for alias in bench.drivers for tool in bench.tools.values()]
    checks += [partial(launch.check, bench.hosts[alias]) for alias in bench.drivers for launch in load_launches(bench)]
    # the services that one role may have on a host use one folder, one after the other
    places = dict.fromkeys((seat.role, seat.alias) for seat in bench.seats)
    checks += [partial(_check_place, bench, role, alias) for role, alias in places]
    checks += [partial(_check_changes, bench)]
    checks += [partial(_check_sources, bench, alias) for alias, host in bench.hosts.items() if host.live]
    # services are placed on the CPUs that hosts have, so hosts come first
    problems = [*_found(bench, hosts), *_found(bench, checks), *_unlike_tools(bench)]
    if problems:
        raise PreflightError(problems)


def _found(bench: Bench, checks: Sequence[Callable[[], None]]) -> list[str]:
    """Do checks at the same time and return what they found wrong."""
    return [problem for group in bench.each(_problems, checks).values() for problem in group]


def _problems(check: Callable[[], None]) -> list[str]:
    """Run one check and return what it found wrong."""
    try:
        check()
    except PreflightError as error:
        return error.problems
    except LoadbookError as error:
        return [f"{error.message} ({error.hint})" if error.hint else error.message]
    return []


def _check_ours(bench: Bench, data: Path) -> None:
    """See that our disk has room and that the tool can put this load on the target."""
    data.mkdir(parents=True, exist_ok=True)
    free, need = free_bytes(data), bench.plan.disk_bytes * DISK_FACTOR
    if free < need:
        raise PreflightError([f"{data}: {size(free)} free, the plan needs about {size(need)}"])
    for name in bench.plan.treatments:
        workload = bench.plan.study.workload_of(name)
        shares = share(workload, bench.drivers)
        load = Load(bench.tools[workload.tool], shares, bench.stage(name).target, "preflight")
        for alias in bench.drivers:
            load.steps_on(alias)


def load_launches(bench: Bench) -> list[Launch]:
    """Return the ways in which load generators are started under the plan's treatments."""
    return list(dict.fromkeys(bench.stage(name).load_launch for name in bench.plan.treatments))


def _check_driver(bench: Bench, alias: str, tool: Tool) -> None:
    """Learn the version of a tool on a driver; ToolError when it is missing or cannot be used."""
    done = bench.hosts[alias].run(tool.version_argv, timeout_s=PROBE_S)
    if done.rc == NOT_THERE:
        raise ToolError(f"host {alias}: {tool.binary} is not installed", tool.get)
    try:
        bench.tool_versions[alias, tool.name] = tool.version(done.stdout, done.stderr)
    except ToolError as error:
        raise ToolError(f"host {alias}: {error.message}", tool.get) from error


def _unlike_tools(bench: Bench) -> Iterator[str]:
    """Yield the tools of which drivers have different versions: what they report is added up."""
    for tool in bench.tools:
        found = {alias: version for (alias, name), version in bench.tool_versions.items() if name == tool}
        if len(set(found.values())) > 1:
            said = ", ".join(f"{version} on {alias}" for alias, version in found.items())
            yield f"drivers have different versions of {tool}: {said} (install the same on all)"


def _check_host(bench: Bench, alias: str) -> None:
    """Learn the boot id of a host and see that its disk has room and its service ports are free."""
    host = bench.hosts[alias]
    ports = needed_ports(bench, alias)
    done = host.script(STATE, [host.workdir, hex_address(host.address), *ports], timeout_s=PROBE_S, check=True)
    words = [line.split(" ", 1) for line in done.stdout.decode().splitlines()]
    facts = {name: value for name, value in words if name != "listening"}
    bench.boot_ids[alias] = facts["boot_id"]
    bench.host_cpus[alias] = tuple(sorted(cpu_list(facts.get("cpus", "0"))))
    problems = [f"host {alias}: port {int(p, 16)} is in use ({PORT_HINT})" for name, p in words if name == "listening"]
    free = int(facts["free_kb"]) * 1024
    if free < HOST_MIN_BYTES:
        problems.append(f"host {alias}: {size(free)} free at {host.workdir}, {size(HOST_MIN_BYTES)} needed")
    if problems:
        raise PreflightError(problems)


def _check_place(bench: Bench, role: str, alias: str) -> None:
    """Check all services that a role may have on a host."""
    seats = [seat for seat in bench.seats if (seat.role, seat.alias) == (role, alias)]
    if problems := [problem for seat in seats for problem in _problems(partial(_check_seat, bench, seat))]:
        raise PreflightError(problems)


def _check_seat(bench: Bench, seat: Seat) -> None:
    """Learn a service's version and let it check the configuration of every treatment, each once."""
    host, stem = bench.hosts[seat.alias], preflight_stem(bench.run)
    bench.service_versions[seat] = version(host, seat.spec)
    problems, seen = [], set()
    for treatment in bench.plan.treatments:
        stage = bench.stage(treatment)
        if seat not in stage.seats:
            continue
        try:
            instance = make_instance(stage, seat, stem, CHECK_LEASE_S)
            if instance.rendered.config_sha256 not in seen:
                seen.add(instance.rendered.config_sha256)
                _syntax(instance)
        except LoadbookError as error:
            problems.append(f"treatment {treatment}, role {seat.role}: {error.message}")
    if problems:
        raise PreflightError(problems)


def _check_sources(bench: Bench, alias: str) -> None:
    """See that a host's own monitors answer that the study wants to be asked."""
    for source in bench.plan.study.monitors.sources:
        if source != "sampler" and (asked := asker(bench.hosts[alias], bench.inventory.hosts[alias], source)):
            asked.close()


def _check_changes(bench: Bench) -> None:
    """Make every change of a host once and put it back: what a host refuses is known before the first trial."""
    problems, seen = [], set()
    for treatment in bench.plan.treatments:
        guards = Guards(bench.stage(treatment), guard_name(preflight_stem(bench.run)), CHECK_LEASE_S)
        wanted = repr(sorted(changes_of(guards.stage).items()))
        if wanted in seen:
            continue
        seen.add(wanted)
        try:
            guards.set_up()
        except LoadbookError as error:
            problems.append(f"treatment {treatment}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        finally:
            guards.restore()
    bench.must_be_restored()
    if problems:
        raise PreflightError(problems)


def _syntax(instance: Instance) -> None:
    try:
        instance.check()
    finally:
        instance.stop()


def needed_ports(bench: Bench, alias: str) -> list[str]:
    """Return the ports (hex) on which nothing may listen yet; a host's own server may be there already."""
    own = [seat for seat in bench.seats if seat.alias == alias and not seat.spec.tree]
    return sorted({f"{port:04X}" for seat in own for port in seat.spec.ports(seat.port)})


def hex_address(address: str) -> str:
    """Return an IPv4 address as /proc/net/tcp writes it, empty for anything else."""
    try:
        return socket.inet_pton(socket.AF_INET, address)[:: 1 if sys.byteorder == "big" else -1].hex().upper()
    except OSError:
        return ""
