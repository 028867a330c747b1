"""Programs that a study needs, checks before the first trial (all problems at once), and background load on hosts.

During the trials, validity rules check for background load (CPU use by other programs, stolen CPU time, busy hosts).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from loadbook.core.errors import LoadbookError, PreflightError, ToolError
from loadbook.core.units import format_bytes, shorten_list
from loadbook.execution.background_load import hex_address
from loadbook.execution.deployment import Deployment, all_deployments
from loadbook.execution.host_changes import HostChangeJobs, host_changes_of, missing_permissions
from loadbook.execution.host_state import DISK_FACTOR, HOST_MIN_BYTES, STATE_TIMEOUT_S
from loadbook.execution.load import LoadJobs
from loadbook.execution.placement import CHANGES, DELAY_SERVICE, Placement, job_name, preflight_stem, uses_delay
from loadbook.execution.testbed import Testbed
from loadbook.hosts.doctor import RequiredProgram
from loadbook.hosts.host import CommandResult, Host
from loadbook.hosts.http import FORWARDING_HINT
from loadbook.hosts.monitors import connect_monitor
from loadbook.hosts.script import Script
from loadbook.hosts.shell import cpu_list, search_path
from loadbook.modes.plain.run import run_of
from loadbook.services import ServiceSpec, load_service, version
from loadbook.services.instance import Instance, LaunchOptions
from loadbook.store.atomic import free_bytes
from loadbook.study.model import Study
from loadbook.study.workload import split_load
from loadbook.tools import base
from loadbook.tools.base import Tool

APT_INSTALL = "apt-get install "
BUILT_HERE_NOTE = " (there, or here: what is built is carried)"


def required_programs(study: Study, folders: Sequence[Path]) -> dict[str, list[RequiredProgram]]:
    """Return role -> the programs, without duplicates, that the study's subset needs on that role's hosts.

    `folders` are searched for services before those that come with loadbook.
    Raises UsageError for an unknown service, ToolError for an unknown tool.
    """
    treatments = study.treatments_in()
    tools = [base.load_tool(name) for name in study.tools_of(treatments)]
    by_role = {role: dict[str, RequiredProgram]() for role in (study.workload.role, *study.roles)}
    by_role[study.workload.role] |= {tool.binary: RequiredProgram(tool.binary, tool.install_hint) for tool in tools}
    if uses_delay(study, treatments):
        line = service_programs(load_service(DELAY_SERVICE, folders))
        by_role[study.workload.role] |= {p.binary: p._replace(required=False) for p in line}
    for role in study.roles:
        for service in role_services(study, treatments, role):
            by_role[role] |= {p.binary: p for p in service_programs(load_service(service, folders))}
    return {role: list(needed.values()) for role, needed in by_role.items()}


def role_services(study: Study, treatments: Iterable[str], role: str) -> list[str]:
    """Return the names of all services that a role has in any of the treatments, without duplicates."""
    services = (study.setting(treatment, role).service for treatment in treatments)
    return list(dict.fromkeys(service for service in services if service))


def service_programs(spec: ServiceSpec) -> list[RequiredProgram]:
    """Return the programs that a service needs on its host, and those that build it there.

    A program of the build is not required if the controller has it, since the service can be built on the controller.
    """
    programs = [RequiredProgram(spec.binary, APT_INSTALL + spec.package)] if spec.version else []
    if spec.build:
        get, here = spec.build.get + BUILT_HERE_NOTE, search_path()
        programs += [RequiredProgram(n, get, required=shutil.which(n, path=here) is None) for n in spec.build.needs]
    return programs


def package_arguments(programs: Iterable[RequiredProgram]) -> list[str]:
    """Return "command=package[,package]", as scripts/setup.sh takes it, for each program with apt packages."""
    named = {p.binary: p.install.removesuffix(BUILT_HERE_NOTE) for p in programs}
    return [
        f"{name}={','.join(get.removeprefix(APT_INSTALL).split())}"
        for name, get in named.items()
        if get.startswith(APT_INSTALL)
    ]


RC_NOT_FOUND = 127  # the shell's exit code for a missing program
CHECK_LEASE_S = 60.0
MAX_NAMED_TREATMENTS = 3
PORT_HINT = "stop what listens there, or give the host another service_port in the hosts file"

# $1: a folder that may not exist yet; $2: an address in the format of /proc/net/tcp (empty: any); others: hex ports
PREFLIGHT_SCRIPT = Script(
    """
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
""",
    purpose="free disk, CPUs, and that nothing listens on its ports",
)


def preflight(testbed: Testbed, data: Path) -> None:
    """Check tools, services, every treatment's configuration, ports and disks.

    The testbed receives versions, boot ids, CPUs and the digests of configurations.

    Parameters
    ----------
    data : folder on the controller that will hold the run.

    Raises
    ------
    PreflightError : there are problems; it lists those of all hosts.
    """
    refused = missing_permissions(all_deployments(testbed))
    plan = testbed.plan
    if not plan.execution_chosen:  # else checked when it was chosen
        reasons = run_of(plan.study).reasons_against(testbed)
        refused += [f"{plan.mode.execution} blocks are not possible: {reason}" for reason in reasons]
    if refused:  # raised before any service is checked
        raise PreflightError(refused)
    hosts, drivers = testbed.hosts, testbed.drivers
    checks: list[Check] = [partial(_check_controller, testbed, data)]
    checks += [partial(_check_driver, testbed, alias, tool) for alias in drivers for tool in testbed.tools.values()]
    checks += [partial(launch.check_limits, hosts[alias]) for alias in drivers for launch in load_launches(testbed)]
    checks += [partial(_check_changes, testbed)]
    checks += [partial(_check_forwarding, hosts[alias]) for alias in requesting_hosts(testbed) if hosts[alias].live]
    checks += [partial(_check_monitor_sources, testbed, alias) for alias, host in hosts.items() if host.live]
    # the checks of hosts are first, because services are placed on the CPUs that they find
    found = [*check_hosts(testbed).values()]
    found += [*check_configurations(testbed).values(), *testbed.map(_problems_of, checks).values()]
    problems = [problem for group in found for problem in group]
    if problems := [*problems, *_tool_version_mismatches(testbed)]:
        raise _refusal(problems)


class Problem(NamedTuple):
    """A reason why a run cannot start, and what to do about it ("" if that is not known)."""

    text: str
    hint: str = ""

    @classmethod
    def of(cls, error: LoadbookError) -> Problem:
        """Return an error as a problem."""
        return cls(error.message, error.hint or "")


# a check returns the problems that it finds, or raises them as an error
Check = Callable[[], Iterable[Problem] | None]


def check_hosts(testbed: Testbed) -> dict[str, list[Problem]]:
    """Return host alias -> problems with its disk and its ports, an empty list if there are none.

    The testbed receives the boot ids and CPUs of the hosts.
    """
    return testbed.map(lambda alias: _problems_of(partial(_check_host, testbed, alias)), testbed.hosts)


def check_configurations(testbed: Testbed, *, build: bool = True) -> dict[tuple[str, str], list[Problem]]:
    """Return (role, host alias) -> problems with the versions and configurations of its services.

    The testbed receives both. Nothing is left on the hosts but programs that are built there; without `build`,
    services that have to be built are not checked.
    """
    # all services of a role on a host use the same folder, so they are checked one after the other
    places: dict[tuple[str, str], list[Placement]] = {}
    for placement in testbed.placements:
        if build or not placement.spec.build:
            places.setdefault((placement.role, placement.alias), []).append(placement)

    def check(place: tuple[str, str]) -> list[Problem]:
        return [p for placement in places[place] for p in _problems_of(partial(_check_placement, testbed, placement))]

    return testbed.map(check, places)


def _problems_of(check: Check) -> list[Problem]:
    """Run one check and return its problems."""
    try:
        return list(check() or ())
    except PreflightError as error:
        return [Problem(text) for text in error.problems]
    except LoadbookError as error:
        return [Problem.of(error)]


def _refusal(problems: Sequence[Problem]) -> PreflightError:
    """Return the error that lists problems; a hint that all of them have is its next step, others are in the list."""
    hints = {problem.hint for problem in problems}
    if len(hints) == 1 and (hint := hints.pop()):
        return PreflightError([problem.text for problem in problems], hint)
    listed = []
    for text, hint in problems:
        suffix = f"\nnext: {hint}" if "\n" in text else f" ({hint})"
        listed.append(text + suffix if hint else text)
    return PreflightError(listed)


def _check_controller(testbed: Testbed, data: Path) -> Iterator[Problem]:
    """Check the controller's disk space, and that the tool can generate this load."""
    data.mkdir(parents=True, exist_ok=True)
    free, need = free_bytes(data), testbed.plan.disk_bytes * DISK_FACTOR
    if free < need:
        yield Problem(f"{data}: {format_bytes(free)} free, the plan needs about {format_bytes(need)}", "free some")
        return
    for name in testbed.plan.treatments:
        workload = testbed.plan.study.workload_of(name)
        shares = split_load(workload, testbed.drivers)
        load = LoadJobs(testbed.tools[workload.tool], shares, Deployment(testbed, name).target, "preflight")
        for alias in testbed.drivers:
            load.steps_on(alias)


def load_launches(testbed: Testbed) -> list[LaunchOptions]:
    """Return the launch options of load generators in all treatments of the plan, without duplicates."""
    return list(dict.fromkeys(deployment.load_launch for deployment in all_deployments(testbed)))


def _check_driver(testbed: Testbed, alias: str, tool: Tool) -> None:
    """Read the version of a tool on a driver; ToolError if the tool is missing or unusable."""
    testbed.tool_versions[alias, tool.name] = read_version(testbed.hosts[alias], tool)


def read_version(host: Host, tool: Tool) -> str:
    """Return the version of a tool on a host; ToolError if the tool is missing or unusable."""
    done = host.run(tool.version_argv, timeout_s=STATE_TIMEOUT_S)
    if done.rc == RC_NOT_FOUND:
        problem = f"host {host.alias}: {tool.binary} is not installed, or not on the PATH of ssh logins"
        raise ToolError(problem, tool.install_hint)
    try:
        return tool.version(done.stdout, done.stderr)
    except ToolError as error:
        raise ToolError(f"host {host.alias}: {error.message}", tool.install_hint) from error


def _tool_version_mismatches(testbed: Testbed) -> Iterator[Problem]:
    """Yield a message for each tool with different versions on the drivers, whose results are to be added up."""
    for tool in testbed.tools:
        versions = {alias: version for (alias, name), version in testbed.tool_versions.items() if name == tool}
        if len(set(versions.values())) > 1:
            listed = ", ".join(f"{version} on {alias}" for alias, version in versions.items())
            yield Problem(f"drivers have different versions of {tool}: {listed}", "install the same on all")


def _check_host(testbed: Testbed, alias: str) -> Iterator[Problem]:
    """Read a host's boot id and CPUs; yield problems with its disk space and with service ports in use."""
    host, done = testbed.hosts[alias], run_preflight_script(testbed, alias)
    words = [line.split(" ", 1) for line in done.stdout.decode().splitlines()]
    facts = {name: value for name, value in words if name != "listening"}
    testbed.boot_ids[alias] = facts["boot_id"]
    testbed.host_cpus[alias] = tuple(sorted(cpu_list(facts.get("cpus", "0"))))
    free = int(facts["free_kb"]) * 1024
    for name, port in words:
        if name == "listening":
            yield Problem(f"host {alias}: port {int(port, 16)} is in use", PORT_HINT)
    if free < HOST_MIN_BYTES:
        text = f"host {alias}: {format_bytes(free)} free at {host.workdir}, {format_bytes(HOST_MIN_BYTES)} needed"
        yield Problem(text, "free some")


def run_preflight_script(testbed: Testbed, alias: str) -> CommandResult:
    """Run PREFLIGHT_SCRIPT on a host; it prints free disk space (kB), boot id, CPUs, and the needed ports in use."""
    host = testbed.hosts[alias]
    args = [host.workdir, hex_address(host.address), *needed_ports(testbed, alias)]
    return host.script(PREFLIGHT_SCRIPT, args, timeout_s=STATE_TIMEOUT_S, check=True)


def _check_placement(testbed: Testbed, placement: Placement) -> Iterator[Problem]:
    """Read a service's version, and let it check each different configuration of the treatments."""
    testbed.service_versions[placement] = version(testbed.hosts[placement.alias], placement.spec)
    problems: dict[str, Problem | None] = {}  # digest of a configuration -> what is wrong with it
    warnings: dict[str, list[str]] = {}
    refused: dict[Problem, list[str]] = {}
    for deployment in all_deployments(testbed):
        if placement not in deployment.placements:
            continue
        try:
            instance = deployment.make_instance(placement, preflight_stem(testbed.run), CHECK_LEASE_S)
            digest = instance.rendered.config_sha256
            configuration = (placement.role, placement.alias, placement.spec.name, digest)
            testbed.configurations.setdefault(deployment.treatment, set()).add(configuration)
            if digest not in problems:
                problems[digest] = _configuration_problem(instance)
                warnings[digest] = instance.check_warnings
            for line in warnings[digest]:
                warned = testbed.configuration_warnings.setdefault((placement.role, placement.spec.name, line), [])
                warned += [deployment.treatment] if deployment.treatment not in warned else []
            problem = problems[digest]
        except LoadbookError as error:
            problem = Problem.of(error)
        if problem:
            refused.setdefault(problem, []).append(deployment.treatment)
    for problem, names in refused.items():
        yield Problem(f"{treatments_text(names)}, role {placement.role}: {problem.text}", problem.hint)


def _configuration_problem(instance: Instance) -> Problem | None:
    """Let a service check its files, remove them from the host, and return the problem; None if there is none."""
    try:
        try:
            instance.check()
            instance.read_warnings()
        finally:
            instance.stop()
    except LoadbookError as error:
        return Problem.of(error)
    return None


def treatments_text(names: Sequence[str]) -> str:
    """Return "treatment a" or "treatments a, b"; of many, MAX_NAMED_TREATMENTS are named."""
    return f"{'treatments' if names[1:] else 'treatment'} {', '.join(shorten_list(names, MAX_NAMED_TREATMENTS))}"


def requesting_hosts(testbed: Testbed) -> list[str]:
    """Return the aliases of the hosts through which pages are requested: to check pages, services and their counters.

    Each needs an SSH server that forwards connections.
    """
    aliases = dict.fromkeys(testbed.drivers)
    for deployment in all_deployments(testbed):
        for placement in deployment.placements:
            spec = placement.spec
            for check in (spec.ready, spec.prove, spec.counters):
                if check and not check.argv:
                    client = placement.alias if check.side else deployment.client_host(placement).alias
                    aliases.setdefault(client)
    return list(aliases)


def _check_forwarding(host: Host) -> Iterator[Problem]:
    """Check that a host's sshd forwards connections; else every trial would be invalid, after a wait for its page."""
    if not host.can_forward():
        yield Problem(
            f"host {host.alias}: its sshd refuses to forward connections, by which pages are checked", FORWARDING_HINT
        )


def _check_monitor_sources(testbed: Testbed, alias: str) -> None:
    """Check that the host's own monitors answer, if the study uses them."""
    host, entry = testbed.hosts[alias], testbed.inventory.hosts[alias]
    for source in testbed.plan.study.monitors.sources:
        if source != "sampler" and (connection := connect_monitor(host, entry, source)):
            connection.close()


def _check_changes(testbed: Testbed) -> Iterator[Problem]:
    """Make and undo every host change once, so that refused changes are known before the first trial."""
    checked, name = set(), job_name(preflight_stem(testbed.run), CHANGES)
    for deployment in all_deployments(testbed):
        jobs = HostChangeJobs(deployment, name, CHECK_LEASE_S)
        changes = repr(sorted(host_changes_of(jobs.deployment).items()))
        if changes in checked:
            continue
        checked.add(changes)
        try:
            jobs.apply()
        except LoadbookError as error:
            yield Problem(f"treatment {deployment.treatment}: {error.message}", error.hint or "")
        finally:
            jobs.restore()
    testbed.check_restored()


def needed_ports(testbed: Testbed, alias: str) -> list[str]:
    """Return the ports that must be free on a host, as four hex digits; those of its own servers are left out."""
    placements = [placement for placement in testbed.placements if placement.alias == alias and not placement.spec.tree]
    deployments = [*all_deployments(testbed), *run_of(testbed.plan.study).deployments(testbed)]
    ports = {port for d in deployments for placement in placements for port in placement.spec.ports(d.port(placement))}
    return sorted(f"{port:04X}" for port in ports)
