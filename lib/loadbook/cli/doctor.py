"""`loadbook doctor`: what is missing, here and on every host, for all studies or for one, and how to get it."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.hosts import hosts_option, read_inventory
from loadbook.cli.say import cell, echo
from loadbook.core.errors import LoadbookError
from loadbook.records.layout import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.design.study import Study
    from loadbook.hosts.checkup import CheckResult, HostCheck, RequiredProgram
    from loadbook.hosts.inventory import HostsFile
    from loadbook.hosts.remote import RemoteHost


@click.command()
@click.argument("study", required=False)
@hosts_option
def doctor(study: str | None, hosts_file: Path | None) -> None:
    """Show what is missing, here and on every host, and how to get it; exit code 3 if something needed is.

    With STUDY only what this study needs: hosts, permissions, programs and what builds them, a delay by the kernel.
    """
    from loadbook.hosts.checkup import CheckResult, check_hosts
    from loadbook.trials.studies import load_study

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
    _print(checks)
    missing = sum(check.status == "missing" for check in checks)
    echo(f"{missing} thing{'s' if missing != 1 else ''} missing" if missing else "nothing is missing", err=True)
    if missing:
        sys.exit(3)


def _studies(checks: list[CheckResult]) -> list[Study]:
    """Return the project's studies; one that cannot be read becomes a doubt."""
    from loadbook.design.gallery import study_files
    from loadbook.hosts.checkup import CheckResult
    from loadbook.trials.studies import load_study

    found = []
    for path in study_files(project_layout().studies):
        try:
            found.append(load_study(project_layout(), path.stem))
        except LoadbookError as error:
            checks.append(CheckResult("here", f"study {path.stem}", "doubt", error.message.splitlines()[0], "correct it"))
    return found


def _of_file(here: Layout, study: Study, path: Path, known: HostsFile) -> Iterator[CheckResult]:
    """Yield what the hosts file lacks for a study: hosts of a role, and what they may."""
    from loadbook.design.plan import make_plan
    from loadbook.hosts.checkup import CheckResult
    from loadbook.hosts.lab_plan import lab_kind
    from loadbook.trials.dry_run import missing_for_treatment
    from loadbook.trials.roles import missing_roles

    plan, said = make_plan(study), dict[str, list[str]]()
    if lab_kind(path) and (short := missing_roles(plan, known)):
        yield from (CheckResult("lab", study.name, "doubt", lack, "a run adds it to the lab") for lack in short.values())
        return
    for name in plan.treatments:
        for lack in missing_for_treatment(here, plan, name, path, known):
            said.setdefault(lack, []).append(name)
    for lack, names in said.items():
        of = "every treatment" if len(names) == len(plan.treatments) else f"{len(names)} treatments, {names[0]} first"
        yield CheckResult("hosts file", f"{study.name}: {of}", "missing", lack, f"see docs/hosts.md, or change {path.name}")
    if not said:
        yield CheckResult("hosts file", study.name, "ok", f"all {len(plan.treatments)} treatments have their hosts")


def _delay(study: Study, known: HostsFile) -> dict[str, HostCheck]:
    """Return, where the study asks for a delay, what to ask of each driver: who makes it there."""
    from loadbook.hosts.checkup import CheckResult
    from loadbook.hosts.guard import has_netem
    from loadbook.trials.changes import uses_delay

    def ask(host: RemoteHost) -> CheckResult:
        if "tc" not in known.hosts[host.alias].may:
            return CheckResult(host.alias, "delay", "doubt", "made in userspace by delay-line", 'or may = ["tc"] and netem')
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
    from loadbook.hosts.checkup import CheckResult
    from loadbook.services.launch import LaunchOptions

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
    from loadbook.hosts.checkup import CheckResult
    from loadbook.hosts.polling import connect_monitor

    try:
        asked = connect_monitor(host, known.hosts[host.alias], source)
    except HostError as error:
        return CheckResult(host.alias, source, "missing", error.message, error.hint or "")
    if asked is None:
        return CheckResult(host.alias, source, "doubt", "the hosts file says that it has none")
    asked.close()
    return CheckResult(host.alias, source, "ok", "answers")


def _wanted(here: Layout, studies: Sequence[Study], known: HostsFile, *, others: bool) -> Mapping[str, list[RequiredProgram]]:
    """Return alias -> the programs that its roles need; with `others` drivers are asked for every tool there is."""
    from loadbook.hosts.checkup import RequiredProgram
    from loadbook.tools import registry
    from loadbook.trials.needs import required_programs
    from loadbook.trials.studies import service_folders

    tools = [registry.load_tool(name) for name in registry.tool_names()] if others else []
    found: dict[str, dict[str, RequiredProgram]] = {alias: {} for alias in known.hosts}
    for study in studies:
        for role, those in required_programs(study, service_folders(here)).items():
            for alias in known.with_role(role):
                if role == study.workload.role:
                    spare = {tool.binary: RequiredProgram(tool.binary, tool.install_hint, required=False) for tool in tools}
                    found[alias] = spare | found[alias]
                found[alias] |= {program.binary: program for program in those}
    return {alias: list(those.values()) for alias, those in found.items()}


def _print(checks: Sequence[CheckResult]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "where", "what", "seen", "what to do", box=None, header_style="bold")
    marks = {"ok": Text("ok", "green"), "doubt": Text("?", "yellow"), "missing": Text("MISSING", "bold red")}
    for check in checks:
        table.add_row(marks[check.status], *map(cell, (check.host, check.subject, check.observation, check.fix)))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
