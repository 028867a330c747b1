"""Commands on hosts: `hosts trust` and `list`, `lab`, `doctor`, `restore`."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.terminal import (
    CommandGroup,
    echo,
    echo_next_step,
    hosts_option,
    json_option,
    optional_study_argument,
    print_json,
    print_table,
)
from loadbook.core.errors import HostError, HostKeyError, LoadbookError, UsageError
from loadbook.core.text import clean
from loadbook.core.units import pluralize
from loadbook.hosts.doctor import CheckResult, HostCheck, RequiredProgram, check_hosts
from loadbook.hosts.inventory import HostsFile, read_hosts
from loadbook.hosts.keys import Endpoint, resolve_endpoint, trusted_keys
from loadbook.hosts.lab import Lab, LabHostStatus, LabKind, lab_kind
from loadbook.hosts.remote import RemoteHost, connect, known_hosts_path
from loadbook.hosts.ssh_config import read_user_config
from loadbook.store.paths import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.study.model import Study

CUT_S = 10.0
RESTORE_RUN_ID = "restore"
_ROLE_COUNT = re.compile(r"([a-z][a-z0-9_-]*)(?:=(\d{1,3}))?")


@click.group(cls=CommandGroup)
def hosts() -> None:
    """Trust host keys; list hosts."""


@hosts.command("list")
@hosts_option
@json_option("one object per host")
def list_hosts(hosts_file: Path | None, as_json: bool) -> None:
    """Show every host: alias, roles, login, address under load, and how many keys are trusted."""
    path, inventory = read_inventory(hosts_file)
    records: list[dict[str, Any]] = []
    for alias, end in _endpoints(path, inventory).items():
        entry = inventory.hosts[alias]
        keys, address = len(trusted_keys(end.known_hosts, end.host_key_alias, end.port)), entry.address or end.host_name
        trust = pluralize(keys, "trusted key") if keys else "NOT trusted"
        echo(f"{alias}\t{','.join(entry.roles)}\t{end.destination}\t{address}\t{trust}")
        record = {"host": alias, "roles": list(entry.roles), "login": end.destination, "address": address}
        records.append(record | {"trusted_keys": keys})
    if as_json:
        print_json(records)


@hosts.command()
@click.argument("aliases", nargs=-1)
@hosts_option
@click.option("--yes", is_flag=True, help="Accept what is shown without asking.")
@click.option("--replace", is_flag=True, help="Also accept keys that differ from the trusted ones.")
def trust(aliases: tuple[str, ...], hosts_file: Path | None, yes: bool, replace: bool) -> None:
    """Fetch the keys of hosts (default: all), show their fingerprints, and store those you accept.

    Compare the fingerprints with what the host itself prints: ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub
    """
    from loadbook.hosts.ssh import login_chain

    path, inventory = read_inventory(hosts_file)
    ends = _endpoints(path, inventory)
    done: dict[tuple[str, int], bool] = {}
    for alias in _selected_aliases(path, inventory, aliases):
        for hop in login_chain(ends[alias]):
            if (hop.host_key_alias, hop.port) not in done:
                done[hop.host_key_alias, hop.port] = _trust_one(known_hosts_path(path, inventory), hop, yes, replace)
            if not done[hop.host_key_alias, hop.port]:
                break  # hosts behind this jump host cannot be reached before its key is trusted
    if not all(done.values()):
        again = "loadbook hosts trust --yes" + " --replace" * replace + (f" --hosts {hosts_file}" if hosts_file else "")
        raise UsageError("nobody to ask here", f"compare the fingerprints above, then: {again}")


def _trust_one(file: Path, end: Endpoint, yes: bool, replace: bool) -> bool:
    """Show a host's keys and store them if the user accepts; return whether its keys are trusted now."""
    from loadbook.hosts.ssh import check_offered_keys, store_keys

    offers = check_offered_keys(end)
    where = f"{end.host_name}:{end.port}"
    for offer in offers:
        mark = offer.status if offer.status in ("trusted", "new") else offer.status.upper()
        echo(f"{end.alias}\t{where}\t{mark}\t{offer.description}")
    if revoked := [offer for offer in offers if offer.status == "revoked"]:
        hint = "whoever has that key is not to be trusted: give the host new keys, or take its @revoked line out"
        raise HostKeyError(end.alias, f"{where} shows a key that is REVOKED: {revoked[0].description}", hint)
    changed = [offer for offer in offers if offer.status == "changed"]
    if changed and not replace:
        hint = "someone may be in between; if the host was reinstalled: loadbook hosts trust --replace"
        message = f"{where} shows ANOTHER key than the trusted one: {changed[0].description}"
        raise HostKeyError(end.alias, message, hint)
    if all(offer.status == "trusted" for offer in offers):
        return True
    if not yes and not sys.stdin.isatty():
        return False
    if not yes:
        click.confirm(f"trust {end.alias} ({end.host_name})?", abort=True, err=True)
    store_keys(file, end, [offer.key for offer in offers], replace=bool(changed))
    echo(f"{end.alias}: stored in {file}", err=True)
    return True


def read_inventory(path: Path | None) -> tuple[Path, HostsFile]:
    """Return the path of a hosts file (None: the lab's) and its content.

    UsageError if there is no lab, or if the file has no hosts but replays a recorded run.
    """
    if path is None and not (project_layout().lab / "hosts.toml").exists():
        raise UsageError("there is no lab on this machine yet", "loadbook lab up; for hosts of your own: --hosts FILE")
    path = path or project_layout().lab / "hosts.toml"
    inventory = read_hosts(path)
    if inventory.replay is not None:
        raise UsageError(f"{path} plays a recorded run back: there is no host to log in to", "loadbook run --hosts")
    return path, inventory


def _selected_aliases(path: Path, inventory: HostsFile, aliases: Sequence[str]) -> Sequence[str]:
    """Return the given aliases, or all of the hosts file if none is given; UsageError for an unknown alias."""
    unknown = [alias for alias in aliases if alias not in inventory.hosts]
    if unknown:
        raise UsageError(f"{path} has no host {unknown[0]!r}", f"hosts: {', '.join(inventory.hosts)}")
    return aliases or list(inventory.hosts)


def _endpoints(path: Path, inventory: HostsFile) -> dict[str, Endpoint]:
    config, trusted = read_user_config(), known_hosts_path(path, inventory)
    return {alias: resolve_endpoint(alias, entry, trusted, config) for alias, entry in inventory.hosts.items()}


@click.group(cls=CommandGroup)
def lab() -> None:
    """Real sshd processes on this machine, one per host alias.

    On loopback addresses as the invoking user, or as root in network namespaces (docs/installation.md).
    """


@lab.command()
@click.option("--drivers", type=click.IntRange(1, 8), help="Hosts that put load; without it: as many as there are.")
@click.option("--roles", default="", help="Hosts of other roles, such as web=4,balancer; those not named stay.")
@click.option("--kind", type=click.Choice(["loopback", "netns"]), help="Default: as it is; loopback in a new lab.")
def up(drivers: int | None, roles: str, kind: LabKind | None) -> None:
    """Start the lab; a lab that runs is left alone, one of the other kind is stopped first."""
    matches = [_ROLE_COUNT.fullmatch(part.strip()) for part in roles.split(",") if part.strip()]
    if None in matches:
        raise UsageError(f"--roles {roles}: not roles with numbers of hosts", "for example --roles web=4,balancer")
    counts = {match[1]: int(match[2] or 1) for match in matches if match}
    own_lab = Lab.load(project_layout().lab, drivers, counts, kind=kind)
    states = own_lab.up()
    _print_lab(states)
    if any(state.cpus is None for state in states):
        echo("note: too few CPUs for masks: driver and server will disturb each other", err=True)
    echo(f"{own_lab.kind} lab, hosts file: {own_lab.hosts_file}", err=True)


@lab.command()
def down() -> None:
    """Stop the lab and all processes in it, including a run that is under way."""
    own_lab = _load_lab()
    for owner in own_lab.owners():
        echo(f"warning: the lab is in use by {owner.description}; its trial ends here", err=True)
    _print_lab(own_lab.down())


@lab.command()
@json_option("one object per host")
def status(as_json: bool) -> None:
    """Show which hosts of the lab are up; exit code 3 if one of them is down."""
    states = _load_lab().status()
    _print_lab(states)
    if as_json:
        print_json([
            {"host": state.alias, "address": state.address, "port": state.port, "pid": state.pid,
             "up": state.pid is not None, "cpus": state.cpus, "link_cut": state.link_cut}
            for state in states
        ])  # fmt: skip
    if not states or any(state.pid is None for state in states):
        echo("next: loadbook lab up", err=True)
        sys.exit(3)


@lab.command()
@click.argument("host")
@click.option("--seconds", default=CUT_S, show_default=True, help="After this time the link is there again by itself.")
def cut(host: str, seconds: float) -> None:
    """Disconnect a host from all others and from this controller, to try out a fault (namespace lab)."""
    _load_lab().cut_link(host, seconds)
    echo(f"{host} is cut off for {seconds:g} s, or until: loadbook lab join {host}", err=True)


@lab.command()
@click.argument("host")
def join(host: str) -> None:
    """Reconnect a host that was disconnected by `lab cut`."""
    _load_lab().restore_link(host)


def _load_lab() -> Lab:
    return Lab.load(project_layout().lab)


def _print_lab(states: Sequence[LabHostStatus]) -> None:
    for state in states:
        mask = "no mask" if state.cpus is None else f"CPU {','.join(map(str, state.cpus))}"
        running = "down" if state.pid is None else f"up, process {state.pid}"
        echo(f"{state.alias}\t{state.address}:{state.port}\t{mask}\t{running}{', cut off' * state.link_cut}")
    if not states:
        echo("there is no lab yet")


@click.command()
@optional_study_argument
@hosts_option
@json_option("one object per line of the table")
def doctor(study: str | None, hosts_file: Path | None, as_json: bool) -> None:
    """Show what is missing, here and on every host, and how to get it; exit code 3 if something required is missing.

    With STUDY only what this study needs: hosts, permissions, programs and their compilers, a delay by the kernel.
    Each host then also checks its ports and, with the server's own command, the configurations of all treatments.
    """
    from rich.text import Text

    from loadbook.execution.studies import load_study

    layout = project_layout()
    checks = [CheckResult("here", "Python", "ok", platform.python_version())]
    checks.append(CheckResult("here", "project", "ok", str(layout.root)))
    path, inventory = read_inventory(hosts_file)
    checks.append(CheckResult("here", "hosts file", "ok", f"{path}: {', '.join(inventory.hosts)}"))
    echo(f"asking {pluralize(len(inventory.hosts), 'host')} ...", err=True)
    studies = [load_study(layout, study)] if study else _readable_studies(layout, checks)
    probes: dict[str, list[HostCheck]] = {alias: [] for alias in inventory.hosts}
    for one in studies if study else ():
        checks += _check_hosts_file(layout, one, path, inventory)
        for alias, probe in _study_probes(one, inventory):
            probes[alias].append(probe)
    programs = _programs_by_host(layout, studies, inventory, all_tools=study is None)
    checks += check_hosts(path, inventory, programs, probes)
    for one in studies if study else ():
        checks += _check_as_run_does(layout, one, path, inventory, any(check.status == "missing" for check in checks))
    marks = {"ok": Text("ok", "green"), "doubt": Text("?", "yellow"), "missing": Text("MISSING", "bold red")}
    headings = ("", "where", "what", "seen", "what to do")
    rows = [(marks[check.status], check.host, check.subject, check.observation, check.fix) for check in checks]
    if as_json:
        print_json([check._asdict() for check in checks])
    else:  # wide, so that no command is wrapped in a file or pipe
        print_table(headings, rows, fold=headings[1:], width=320)
    missing = sum(check.status == "missing" for check in checks)
    doubts = sum(check.status == "doubt" for check in checks)
    noted = f"; {pluralize(doubts, 'doubt')}, marked ?" if doubts else ""
    echo(f"{pluralize(missing, 'thing')} missing{noted}" if missing else f"nothing is missing{noted}", err=True)
    if missing:
        sys.exit(3)


def _readable_studies(layout: Layout, checks: list[CheckResult]) -> list[Study]:
    """Return the project's studies; for one that cannot be read, add a result with the status "doubt" to `checks`."""
    from loadbook.execution.studies import load_study
    from loadbook.study.reader import study_files

    studies = []
    for path in study_files(layout.studies):
        try:
            studies.append(load_study(layout, path.stem))
        except LoadbookError as error:
            reason = error.message.splitlines()[0]
            checks.append(CheckResult("here", f"study {path.stem}", "doubt", reason, "correct it"))
    return studies


def _check_hosts_file(layout: Layout, study: Study, path: Path, inventory: HostsFile) -> Iterator[CheckResult]:
    """Yield a result for each requirement of a study that the hosts file does not meet: hosts or permissions."""
    from loadbook.execution.dry_run import missing_for_treatment
    from loadbook.execution.studies import missing_roles, plan_study

    plan = plan_study(layout, study)
    if lab_kind(path) and (missing := missing_roles(plan, inventory)):
        for lack in missing.values():
            yield CheckResult("lab", study.name, "doubt", lack, "a run adds it to the lab")
        return
    treatments_by_lack: dict[str, list[str]] = {}
    for name in plan.treatments:
        for lack in missing_for_treatment(layout, plan, name, path, inventory):
            treatments_by_lack.setdefault(lack, []).append(name)
    fix = f"see docs/hosts.md, or change {path.name}"
    for lack, names in treatments_by_lack.items():
        of = "every treatment" if len(names) == len(plan.treatments) else f"{len(names)} treatments, {names[0]} first"
        yield CheckResult("hosts file", f"{study.name}: {of}", "missing", lack, fix)
    if not treatments_by_lack:
        yield CheckResult("hosts file", study.name, "ok", f"all {len(plan.treatments)} treatments have their hosts")


def _check_as_run_does(
    layout: Layout, study: Study, path: Path, inventory: HostsFile, something_missing: bool
) -> Iterator[CheckResult]:
    """Yield the results of a run's own checks of ports and configurations, for which nothing else may be missing."""
    from loadbook.execution.study_check import check_study

    if something_missing:
        fix = "get what is missing, then ask again"
        yield CheckResult("hosts", "ports, files", "doubt", "ports and configurations were not checked", fix)
        return
    yield from check_study(layout, study, path, inventory)


def _study_probes(study: Study, inventory: HostsFile) -> Iterator[tuple[str, HostCheck]]:
    """Yield alias and check function for a study's other requirements: a delay, open files, the host's monitors."""
    from loadbook.execution.placement import uses_delay

    if uses_delay(study, study.treatments_in()):
        yield from ((alias, partial(_check_delay, inventory)) for alias in inventory.with_role(study.workload.role))
    limits: dict[str, int] = {}
    for role in study.roles:
        for name in study.treatments_in():
            nofile = study.setting(name, role).nofile
            for alias in inventory.with_role(role) if nofile else ():
                limits[alias] = max(limits.get(alias, 0), nofile or 0)
    yield from ((alias, partial(_check_open_files, nofile)) for alias, nofile in limits.items())
    monitored = [alias for alias, entry in inventory.hosts.items() if set(study.roles) & set(entry.roles)]
    for source in (source for source in study.monitors.sources if source != "sampler"):
        yield from ((alias, partial(_check_monitor, inventory, source)) for alias in monitored)


def _check_delay(inventory: HostsFile, host: RemoteHost) -> CheckResult:
    from loadbook.hosts.rollback import has_netem

    allowed = "tc" in inventory.hosts[host.alias].allow
    if allowed and has_netem(host):
        return CheckResult(host.alias, "delay", "ok", "made by the kernel, netem")
    seen = "made in userspace by delay-line"
    if allowed:
        return CheckResult(host.alias, "delay", "doubt", f"no netem in its kernel: {seen}")
    return CheckResult(host.alias, "delay", "doubt", seen, 'or allow = ["tc"] and netem')


def _check_open_files(nofile: int, host: RemoteHost) -> CheckResult:
    from loadbook.services.instance import LaunchOptions

    try:
        LaunchOptions(nofile=nofile).check_limits(host)
    except HostError as error:
        return CheckResult(host.alias, "nofile", "missing", error.message, error.hint or "")
    return CheckResult(host.alias, "nofile", "ok", f"{nofile} open files are allowed")


def _check_monitor(inventory: HostsFile, source: str, host: RemoteHost) -> CheckResult:
    from loadbook.hosts.monitors import connect_monitor

    try:
        monitor = connect_monitor(host, inventory.hosts[host.alias], source)
    except HostError as error:
        return CheckResult(host.alias, source, "missing", error.message, error.hint or "")
    if monitor is None:
        return CheckResult(host.alias, source, "doubt", "the hosts file says that it has none")
    monitor.close()
    return CheckResult(host.alias, source, "ok", "answers")


def _programs_by_host(
    layout: Layout, studies: Sequence[Study], inventory: HostsFile, *, all_tools: bool
) -> Mapping[str, list[RequiredProgram]]:
    """Return alias -> programs that its roles need; with `all_tools`, drivers are checked for every load generator."""
    from loadbook.execution.preflight import required_programs
    from loadbook.execution.studies import service_folders
    from loadbook.tools import base

    tools = base.run_tools().values() if all_tools else ()
    optional = {tool.binary: RequiredProgram(tool.binary, tool.install_hint, required=False) for tool in tools}
    programs: dict[str, dict[str, RequiredProgram]] = {alias: {} for alias in inventory.hosts}
    for study in studies:
        for role, required in required_programs(study, service_folders(layout)).items():
            for alias in inventory.with_role(role):
                if role == study.workload.role:
                    programs[alias] = optional | programs[alias]
                programs[alias] |= {program.binary: program for program in required}
    return {alias: list(by_binary.values()) for alias, by_binary in programs.items()}


@click.command()
@click.argument("aliases", metavar="[HOST]...", nargs=-1)
@hosts_option
def restore(aliases: tuple[str, ...], hosts_file: Path | None) -> None:
    """Undo changes that runs left on hosts (default: all in the hosts file), and print what was done on each.

    Files of a host's own servers, kernel settings, delays, addresses, quotas, packet rules: all that a run changed
    there and could not undo. Changes of a run that is under way are kept. The command can be repeated. Exit code 3: a
    host was unreachable, or a change could not be undone; the message says which, and what to do.
    """
    path, inventory = read_inventory(hosts_file)
    results = [_restore(path, inventory, alias) for alias in _selected_aliases(path, inventory, aliases)]
    if not all(results):
        sys.exit(HostError.exit_code)


def _restore(path: Path, inventory: HostsFile, alias: str) -> bool:
    """Restore the changes left on one host and print the result; False if not everything was restored."""
    from loadbook.hosts.rollback import restore

    try:
        # connecting to a host ends jobs that a dead controller left running there
        host = connect(path, alias, RESTORE_RUN_ID, hosts=inventory)
        try:
            done = restore(host, retry=True)
        finally:
            host.close()
    except HostError as error:
        echo(error.message, err=True)
        echo_next_step(error.hint)
        return False
    echo(f"{alias}\t{'put back ' + '; '.join(map(clean, done)) if done else 'nothing was left'}")
    return True
