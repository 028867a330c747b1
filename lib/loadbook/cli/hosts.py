"""`loadbook hosts trust|list`, and the hosts file that a command means.

`loadbook lab up|down|status|cut|join`: the lab on this machine.

`loadbook doctor`: what is missing, here and on every host, for all studies or for one, and how to get it.

`loadbook restore`: hosts as they were found, after whatever ended a run.
"""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.arguments import hosts_option, optional_study_argument
from loadbook.cli.terminal import cell, echo
from loadbook.core.errors import HostError, HostKeyError, LoadbookError, UsageError
from loadbook.core.text import clean
from loadbook.store.paths import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.hosts.doctor import CheckResult, HostCheck, RequiredProgram
    from loadbook.hosts.inventory import HostsFile
    from loadbook.hosts.keys import Endpoint
    from loadbook.hosts.lab import Lab, LabHostStatus, LabKind
    from loadbook.hosts.remote import RemoteHost
    from loadbook.study.model import Study


@click.group()
def hosts() -> None:
    """Trust host keys; list hosts."""


@hosts.command("list")
@hosts_option
def list_hosts(hosts_file: Path | None) -> None:
    """Show every host: alias, roles, login, address under load, and how many keys are trusted."""
    from loadbook.hosts.keys import trusted_keys

    path, known = read_inventory(hosts_file)
    for alias, end in _endpoints(path, known).items():
        entry = known.hosts[alias]
        keys = trusted_keys(end.known_hosts, end.host_key_alias, end.port)
        trust = f"{len(keys)} trusted key{'s' if len(keys) != 1 else ''}" if keys else "NOT trusted"
        echo(f"{alias}\t{','.join(entry.roles)}\t{end.destination}\t{entry.address or end.host_name}\t{trust}")


@hosts.command()
@click.argument("aliases", nargs=-1)
@hosts_option
@click.option("--yes", is_flag=True, help="Accept what is shown without asking.")
@click.option("--replace", is_flag=True, help="Also accept keys that differ from the trusted ones.")
def trust(aliases: tuple[str, ...], hosts_file: Path | None, yes: bool, replace: bool) -> None:
    """Fetch the keys of hosts (default: all), show their fingerprints, and store those you accept.

    Compare the fingerprints with what the host itself prints: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from loadbook.hosts.remote import known_hosts_path
    from loadbook.hosts.trust import login_chain

    path, known = read_inventory(hosts_file)
    ends = _endpoints(path, known)
    unknown = [alias for alias in aliases if alias not in ends]
    if unknown:
        raise UsageError(f"{path} has no host {unknown[0]!r}", f"hosts: {', '.join(ends)}")
    done: dict[tuple[str, int], bool] = {}
    for alias in aliases or ends:
        for hop in login_chain(ends[alias]):
            if (hop.host_key_alias, hop.port) not in done:
                done[hop.host_key_alias, hop.port] = _trust_one(known_hosts_path(path, known), hop, yes, replace)
            if not done[hop.host_key_alias, hop.port]:
                break  # what lies behind it cannot be asked yet
    if not all(done.values()):
        again = "loadbook hosts trust --yes" + " --replace" * replace + (f" --hosts {hosts_file}" if hosts_file else "")
        raise UsageError("nobody to ask here", f"compare the fingerprints above, then: {again}")


def _trust_one(file: Path, end: Endpoint, yes: bool, replace: bool) -> bool:
    """Show a host's keys and keep them if the user accepts; False where there is nobody to ask."""
    from loadbook.hosts.trust import check_offered_keys, store_keys

    shown = check_offered_keys(end)
    for offer in shown:
        mark = offer.status if offer.status in ("trusted", "new") else offer.status.upper()
        echo(f"{end.alias}\t{end.host_name}:{end.port}\t{mark}\t{offer.description}")
    if revoked := [offer for offer in shown if offer.status == "revoked"]:
        where = f"{end.host_name}:{end.port}"
        hint = "whoever has that key is not to be trusted: give the host new keys, or take its @revoked line out"
        raise HostKeyError(end.alias, f"{where} shows a key that is REVOKED: {revoked[0].description}", hint)
    changed = [offer for offer in shown if offer.status == "changed"]
    if changed and not replace:
        raise HostKeyError(
            end.alias,
            f"{end.host_name}:{end.port} shows ANOTHER key than the trusted one: {changed[0].description}",
            "someone may be in between; if the host was reinstalled: loadbook hosts trust --replace",
        )
    if all(offer.status == "trusted" for offer in shown):
        return True
    if not yes and not sys.stdin.isatty():
        return False
    if not yes:
        click.confirm(f"trust {end.alias} ({end.host_name})?", abort=True, err=True)
    store_keys(file, end, [offer.key for offer in shown], replace=bool(changed))
    echo(f"{end.alias}: stored in {file}", err=True)
    return True


def read_inventory(path: Path | None) -> tuple[Path, HostsFile]:
    """Return the hosts file that is meant, the lab's by default, and what stands in it."""
    from loadbook.hosts.inventory import read_hosts

    if path is None and not (project_layout().lab / "hosts.toml").exists():
        raise UsageError("there is no lab on this machine yet", "loadbook lab up; for hosts of your own: --hosts FILE")
    path = path or project_layout().lab / "hosts.toml"
    known = read_hosts(path)
    if known.replay is not None:
        raise UsageError(f"{path} plays a recorded run back: there is no host to log in to", "loadbook run --hosts")
    return path, known


def _endpoints(path: Path, known: HostsFile) -> dict[str, Endpoint]:
    from loadbook.hosts.keys import read_user_config, resolve_endpoint
    from loadbook.hosts.remote import known_hosts_path

    config = read_user_config()
    return {
        alias: resolve_endpoint(alias, entry, known_hosts_path(path, known), config)
        for alias, entry in known.hosts.items()
    }


CUT_S = 10.0
_COUNT = re.compile(r"([a-z][a-z0-9_-]*)(?:=(\d{1,3}))?")


@click.group()
def lab() -> None:
    """Real sshd processes on this machine, one per host alias.

    On loopback addresses as the invoking user, or as root in network namespaces (docs/lab.md).
    """


@lab.command()
@click.option("--drivers", type=click.IntRange(1, 8), help="Hosts that put load; without it: as many as there are.")
@click.option("--roles", default="", help="Hosts of other roles, such as web=4,balancer; those not named stay.")
@click.option("--kind", type=click.Choice(["loopback", "netns"]), help="Default: as it is; loopback in a new lab.")
def up(drivers: int | None, roles: str, kind: LabKind | None) -> None:
    """Bring the lab up; a lab that runs is left alone, one of the other kind goes down first."""
    from loadbook.hosts.lab import Lab

    ours = Lab.load(project_layout().lab, drivers, _counts(roles), kind=kind)
    states = ours.up()
    _print(states)
    if any(state.cpus is None for state in states):
        echo("note: too few CPUs for masks: driver and server will disturb each other", err=True)
    echo(f"{ours.kind} lab, hosts file: {ours.hosts_file}", err=True)


@lab.command()
def down() -> None:
    """End the lab with everything that runs in it, a run that is under way, too."""
    ours = _lab()
    for owner in ours.owners():
        echo(f"warning: the lab is in use by {owner.description}; its trial ends here", err=True)
    _print(ours.down())


@lab.command()
def status() -> None:
    """Show what is up; exit code 3 if anything is not."""
    states = _lab().status()
    _print(states)
    if not states or any(state.pid is None for state in states):
        echo("next: loadbook lab up", err=True)
        sys.exit(3)


@lab.command()
@click.argument("host")
@click.option("--seconds", default=CUT_S, show_default=True, help="After this time the link is there again by itself.")
def cut(host: str, seconds: float) -> None:
    """Cut a host off from all others, and from us, to see what a study makes of it (namespace lab)."""
    _lab().cut_link(host, seconds)
    echo(f"{host} is cut off for {seconds:g} s, or until: loadbook lab join {host}", err=True)


@lab.command()
@click.argument("host")
def join(host: str) -> None:
    """Give a host that was cut off its link back."""
    _lab().restore_link(host)


def _lab() -> Lab:
    from loadbook.hosts.lab import Lab

    return Lab.load(project_layout().lab)


def _counts(text: str) -> Mapping[str, int]:
    """Read `web=4,balancer`: role -> how many hosts, one where no number stands."""
    found = [_COUNT.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    if None in found:
        raise UsageError(f"--roles {text}: not roles with numbers of hosts", "for example --roles web=4,balancer")
    return {match[1]: int(match[2] or 1) for match in found if match}


def _print(states: Sequence[LabHostStatus]) -> None:
    for state in states:
        mask = "no mask" if state.cpus is None else f"CPU {','.join(map(str, state.cpus))}"
        running = "down" if state.pid is None else f"up, process {state.pid}"
        echo(f"{state.alias}\t{state.address}:{state.port}\t{mask}\t{running}{', cut off' * state.link_cut}")
    if not states:
        echo("there is no lab yet")


@click.command()
@optional_study_argument
@hosts_option
def doctor(study: str | None, hosts_file: Path | None) -> None:
    """Show what is missing, here and on every host, and how to get it; exit code 3 if something needed is.

    With STUDY only what this study needs: hosts, permissions, programs and what builds them, a delay by the kernel.
    """
    from loadbook.execution.studies import load_study
    from loadbook.hosts.doctor import CheckResult, check_hosts

    here = project_layout()
    checks = [CheckResult("here", "Python", "ok", platform.python_version())]
    checks.append(CheckResult("here", "project", "ok", str(here.root)))
    path, known = read_inventory(hosts_file)
    checks.append(CheckResult("here", "hosts file", "ok", f"{path}: {', '.join(known.hosts)}"))
    echo(f"asking {len(known.hosts)} hosts ...", err=True)
    studies = [load_study(here, study)] if study else _studies(checks)
    probes: dict[str, list[HostCheck]] = {alias: [] for alias in known.hosts}
    for one in studies if study else ():
        checks += _of_file(here, one, path, known)
        for alias, probe in (*_delay(one, known).items(), *_limits(one, known).items(), *_sources(one, known)):
            probes[alias].append(probe)
    wanted = _wanted(here, studies, known, others=study is None)
    checks += check_hosts(path, known, wanted, probes)
    _doctor_print(checks)
    missing = sum(check.status == "missing" for check in checks)
    echo(f"{missing} thing{'s' if missing != 1 else ''} missing" if missing else "nothing is missing", err=True)
    if missing:
        sys.exit(3)


def _studies(checks: list[CheckResult]) -> list[Study]:
    """Return the project's studies; one that cannot be read becomes a doubt."""
    from loadbook.execution.studies import load_study
    from loadbook.hosts.doctor import CheckResult
    from loadbook.study.reader import study_files

    found = []
    for path in study_files(project_layout().studies):
        try:
            found.append(load_study(project_layout(), path.stem))
        except LoadbookError as error:
            checks.append(
                CheckResult("here", f"study {path.stem}", "doubt", error.message.splitlines()[0], "correct it")
            )
    return found


def _of_file(here: Layout, study: Study, path: Path, known: HostsFile) -> Iterator[CheckResult]:
    """Yield what the hosts file lacks for a study: hosts of a role, and what they may."""
    from loadbook.execution.dry_run import missing_for_treatment
    from loadbook.execution.testbed import missing_roles
    from loadbook.hosts.doctor import CheckResult
    from loadbook.hosts.lab import lab_kind
    from loadbook.study.plan import make_plan

    plan, said = make_plan(study), dict[str, list[str]]()
    if lab_kind(path) and (short := missing_roles(plan, known)):
        yield from (
            CheckResult("lab", study.name, "doubt", lack, "a run adds it to the lab") for lack in short.values()
        )
        return
    for name in plan.treatments:
        for lack in missing_for_treatment(here, plan, name, path, known):
            said.setdefault(lack, []).append(name)
    for lack, names in said.items():
        of = "every treatment" if len(names) == len(plan.treatments) else f"{len(names)} treatments, {names[0]} first"
        yield CheckResult(
            "hosts file", f"{study.name}: {of}", "missing", lack, f"see docs/hosts.md, or change {path.name}"
        )
    if not said:
        yield CheckResult("hosts file", study.name, "ok", f"all {len(plan.treatments)} treatments have their hosts")


def _delay(study: Study, known: HostsFile) -> dict[str, HostCheck]:
    """Return, where the study asks for a delay, what to ask of each driver: who makes it there."""
    from loadbook.execution.host_changes import uses_delay
    from loadbook.hosts.doctor import CheckResult
    from loadbook.hosts.rollback import has_netem

    def ask(host: RemoteHost) -> CheckResult:
        if "tc" not in known.hosts[host.alias].allow:
            return CheckResult(
                host.alias, "delay", "doubt", "made in userspace by delay-line", 'or allow = ["tc"] and netem'
            )
        if has_netem(host):
            return CheckResult(host.alias, "delay", "ok", "made by the kernel, netem")
        return CheckResult(host.alias, "delay", "doubt", "no netem in its kernel: made in userspace by delay-line")

    drivers = known.with_role(study.workload.role) if uses_delay(study, study.treatments_in()) else []
    return dict.fromkeys(drivers, ask)


def _limits(study: Study, known: HostsFile) -> dict[str, HostCheck]:
    """Return what to ask of each host whose processes are given a number of open files: whether they may have it."""
    settings = [(role, study.setting(name, role)) for role in study.roles for name in study.treatments_in()]
    wanted: dict[str, int] = {}
    for role, setting in settings:
        for alias in known.with_role(role) if setting.nofile else ():
            wanted[alias] = max(wanted.get(alias, 0), setting.nofile or 0)
    return {alias: partial(_limit, nofile) for alias, nofile in wanted.items()}


def _limit(nofile: int, host: RemoteHost) -> CheckResult:
    from loadbook.core.errors import HostError
    from loadbook.hosts.doctor import CheckResult
    from loadbook.services.instance import LaunchOptions

    try:
        LaunchOptions(nofile=nofile).check_limits(host)
    except HostError as error:
        return CheckResult(host.alias, "nofile", "missing", error.message, error.hint or "")
    return CheckResult(host.alias, "nofile", "ok", f"{nofile} open files are allowed")


def _sources(study: Study, known: HostsFile) -> Iterator[tuple[str, HostCheck]]:
    """Yield what to ask of each host that the study watches by its own monitors: whether they answer."""
    roles = set(study.roles)
    watched = [alias for alias, entry in known.hosts.items() if roles & set(entry.roles)]
    for source in (source for source in study.monitors.sources if source != "sampler"):
        yield from ((alias, partial(_source, known, source)) for alias in watched)


def _source(known: HostsFile, source: str, host: RemoteHost) -> CheckResult:
    from loadbook.core.errors import HostError
    from loadbook.hosts.doctor import CheckResult
    from loadbook.hosts.monitors import connect_monitor

    try:
        asked = connect_monitor(host, known.hosts[host.alias], source)
    except HostError as error:
        return CheckResult(host.alias, source, "missing", error.message, error.hint or "")
    if asked is None:
        return CheckResult(host.alias, source, "doubt", "the hosts file says that it has none")
    asked.close()
    return CheckResult(host.alias, source, "ok", "answers")


def _wanted(
    here: Layout, studies: Sequence[Study], known: HostsFile, *, others: bool
) -> Mapping[str, list[RequiredProgram]]:
    """Return alias -> the programs that its roles need; with `others` drivers are asked for every tool there is."""
    from loadbook.execution.preflight import required_programs
    from loadbook.execution.studies import service_folders
    from loadbook.hosts.doctor import RequiredProgram
    from loadbook.tools import base

    tools = [base.load_tool(name) for name in base.tool_names()] if others else []
    found: dict[str, dict[str, RequiredProgram]] = {alias: {} for alias in known.hosts}
    for study in studies:
        for role, those in required_programs(study, service_folders(here)).items():
            for alias in known.with_role(role):
                if role == study.workload.role:
                    spare = {
                        tool.binary: RequiredProgram(tool.binary, tool.install_hint, required=False) for tool in tools
                    }
                    found[alias] = spare | found[alias]
                found[alias] |= {program.binary: program for program in those}
    return {alias: list(those.values()) for alias, those in found.items()}


def _doctor_print(checks: Sequence[CheckResult]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "where", "what", "seen", "what to do", box=None, header_style="bold")
    marks = {"ok": Text("ok", "green"), "doubt": Text("?", "yellow"), "missing": Text("MISSING", "bold red")}
    for check in checks:
        table.add_row(marks[check.status], *map(cell, (check.host, check.subject, check.observation, check.fix)))
    Console(width=None if sys.stdout.isatty() else 160).print(table)


RUN = "restore"


@click.command()
@click.argument("aliases", metavar="[HOST]...", nargs=-1)
@hosts_option
def restore(aliases: tuple[str, ...], hosts_file: Path | None) -> None:
    """Put back what was left changed on hosts (default: all of the file), and say for each what was done.

    Files of a host's own servers, kernel settings, delays, addresses, quotas, packet rules: whatever a run changed
    there and could not put back. What a run that is under way has changed is its own, and stays. It may be given again
    and again. Exit code 3: a host could not be reached, or something of it is left; what, and what to do, is said.
    """
    path, known = read_inventory(hosts_file)
    unknown = [alias for alias in aliases if alias not in known.hosts]
    if unknown:
        raise UsageError(f"{path} has no host {unknown[0]!r}", f"hosts: {', '.join(known.hosts)}")
    fine = [_restore(path, known, alias) for alias in aliases or known.hosts]
    if not all(fine):
        sys.exit(HostError.exit_code)


def _restore(path: Path, known: HostsFile, alias: str) -> bool:
    """Put back what is left on one host, and say it; False when something is left, or nothing can be known."""
    from loadbook.hosts.remote import connect
    from loadbook.hosts.rollback import restore

    try:
        # opening a host ends what a dead controller left running there
        host = connect(path, alias, RUN, hosts=known)
        try:
            done = restore(host, retry=True)
        finally:
            host.close()
    except HostError as error:
        echo(error.message, err=True)
        if error.hint:
            echo(f"  next: {error.hint}", err=True)
        return False
    echo(f"{alias}\t{'put back ' + '; '.join(map(clean, done)) if done else 'nothing was left'}")
    return True
