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
from loadbook.records.layout import Layout, layout

if TYPE_CHECKING:
    from loadbook.design.study import Study
    from loadbook.hosts.checkup import Check, Probe, Program
    from loadbook.hosts.inventory import HostsFile
    from loadbook.hosts.remote import RemoteHost


@click.command()
@click.argument("study", required=False)
@hosts_option
def doctor(study: str | None, hosts_file: Path | None) -> None:
    """Show what is missing, here and on every host, and how to get it; exit code 3 if something needed is.

    With STUDY only what this study needs: hosts, permissions, programs and what builds them, a delay by the kernel.
    """
    from loadbook.hosts.checkup import Check, check_hosts
    from loadbook.trials.studies import load_study

    here = layout()
    checks = [Check("here", "Python", "ok", platform.python_version())]
    checks.append(Check("here", "project", "ok", str(here.root)))
    path, known = read_inventory(hosts_file)
    checks.append(Check("here", "hosts file", "ok", f"{path}: {', '.join(known.hosts)}"))
    echo(f"asking {len(known.hosts)} hosts ...", err=True)
    studies = [load_study(here, study)] if study else _studies(checks)
    probes: dict[str, list[Probe]] = {alias: [] for alias in known.hosts}
    for one in studies if study else ():
        checks += _of_file(here, one, path, known)
        for alias, probe in (*_delay(one, known).items(), *_limits(one, known).items(), *_sources(one, known)):
            probes[alias].append(probe)
    wanted = _wanted(here, studies, known, others=study is None)
    checks += check_hosts(path, known, wanted, probes)
    _print(checks)
    missing = sum(check.state == "missing" for check in checks)
    echo(f"{missing} thing{'s' if missing != 1 else ''} missing" if missing else "nothing is missing", err=True)
    if missing:
        sys.exit(3)


def _studies(checks: list[Check]) -> list[Study]:
    """Return the project's studies; one that cannot be read becomes a doubt."""
    from loadbook.design.gallery import study_files
    from loadbook.hosts.checkup import Check
    from loadbook.trials.studies import load_study

    found = []
    for path in study_files(layout().studies):
        try:
            found.append(load_study(layout(), path.stem))
        except LoadbookError as error:
            checks.append(Check("here", f"study {path.stem}", "doubt", error.message.splitlines()[0], "correct it"))
    return found


def _of_file(here: Layout, study: Study, path: Path, known: HostsFile) -> Iterator[Check]:
    """Yield what the hosts file lacks for a study: hosts of a role, and what they may."""
    from loadbook.design.plan import make_plan
    from loadbook.hosts.checkup import Check
    from loadbook.hosts.lab_plan import lab_kind
    from loadbook.trials.dry_run import lacks_of
    from loadbook.trials.roles import lacking

    plan, said = make_plan(study), dict[str, list[str]]()
    if lab_kind(path) and (short := lacking(plan, known)):
        yield from (Check("lab", study.name, "doubt", lack, "a run adds it to the lab") for lack in short.values())
        return
    for name in plan.treatments:
        for lack in lacks_of(here, plan, name, path, known):
            said.setdefault(lack, []).append(name)
    for lack, names in said.items():
        of = "every treatment" if len(names) == len(plan.treatments) else f"{len(names)} treatments, {names[0]} first"
        yield Check("hosts file", f"{study.name}: {of}", "missing", lack, f"see docs/hosts.md, or change {path.name}")
    if not said:
        yield Check("hosts file", study.name, "ok", f"all {len(plan.treatments)} treatments have their hosts")


def _delay(study: Study, known: HostsFile) -> dict[str, Probe]:
    """Return, where the study asks for a delay, what to ask of each driver: who makes it there."""
    from loadbook.hosts.checkup import Check
    from loadbook.hosts.guard import has_netem
    from loadbook.trials.changes import asks_for_delay

    def ask(host: RemoteHost) -> Check:
        if "tc" not in known.hosts[host.alias].may:
            return Check(host.alias, "delay", "doubt", "made in userspace by delay-line", 'or may = ["tc"] and netem')
        if has_netem(host):
            return Check(host.alias, "delay", "ok", "made by the kernel, netem")
        return Check(host.alias, "delay", "doubt", "no netem in its kernel: made in userspace by delay-line")

    drivers = known.with_role(study.workload.role) if asks_for_delay(study, study.in_subset()) else []
    return dict.fromkeys(drivers, ask)


def _limits(study: Study, known: HostsFile) -> dict[str, Probe]:
    """Return what to ask of each host whose processes are given a number of open files: whether they may have it."""
    settings = [(role, study.setting(name, role)) for role in study.roles for name in study.in_subset()]
    wanted: dict[str, int] = {}
    for role, setting in settings:
        for alias in known.with_role(role) if setting.nofile else ():
            wanted[alias] = max(wanted.get(alias, 0), setting.nofile or 0)
    return {alias: partial(_limit, nofile) for alias, nofile in wanted.items()}


def _limit(nofile: int, host: RemoteHost) -> Check:
    from loadbook.core.errors import HostError
    from loadbook.hosts.checkup import Check
    from loadbook.services.launch import Launch

    try:
        Launch(nofile=nofile).check(host)
    except HostError as error:
        return Check(host.alias, "nofile", "missing", error.message, error.hint or "")
    return Check(host.alias, "nofile", "ok", f"{nofile} open files are allowed")


def _sources(study: Study, known: HostsFile) -> Iterator[tuple[str, Probe]]:
    """Yield what to ask of each host that the study watches by its own monitors: whether they answer."""
    roles = set(study.roles)
    watched = [alias for alias, entry in known.hosts.items() if roles & set(entry.roles)]
    for source in (source for source in study.monitors.sources if source != "sampler"):
        yield from ((alias, partial(_source, known, source)) for alias in watched)


def _source(known: HostsFile, source: str, host: RemoteHost) -> Check:
    from loadbook.core.errors import HostError
    from loadbook.hosts.checkup import Check
    from loadbook.hosts.polling import asker

    try:
        asked = asker(host, known.hosts[host.alias], source)
    except HostError as error:
        return Check(host.alias, source, "missing", error.message, error.hint or "")
    if asked is None:
        return Check(host.alias, source, "doubt", "the hosts file says that it has none")
    asked.close()
    return Check(host.alias, source, "ok", "answers")


def _wanted(here: Layout, studies: Sequence[Study], known: HostsFile, *, others: bool) -> Mapping[str, list[Program]]:
    """Return alias -> the programs that its roles need; with `others` drivers are asked for every tool there is."""
    from loadbook.hosts.checkup import Program
    from loadbook.tools import registry
    from loadbook.trials.needs import programs
    from loadbook.trials.studies import service_folders

    tools = [registry.load(name) for name in registry.names()] if others else []
    found: dict[str, dict[str, Program]] = {alias: {} for alias in known.hosts}
    for study in studies:
        for role, those in programs(study, service_folders(here)).items():
            for alias in known.with_role(role):
                if role == study.workload.role:
                    spare = {tool.binary: Program(tool.binary, tool.get, needed=False) for tool in tools}
                    found[alias] = spare | found[alias]
                found[alias] |= {program.binary: program for program in those}
    return {alias: list(those.values()) for alias, those in found.items()}


def _print(checks: Sequence[Check]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("", "where", "what", "seen", "what to do", box=None, header_style="bold")
    marks = {"ok": Text("ok", "green"), "doubt": Text("?", "yellow"), "missing": Text("MISSING", "bold red")}
    for check in checks:
        table.add_row(marks[check.state], *map(cell, (check.where, check.what, check.seen, check.fix)))
    Console(width=None if sys.stdout.isatty() else 160).print(table)
