"""`loadbook studies`: which questions there are to ask, and what asking them takes; touches no network.

`loadbook new`: a study file to begin with; touches no host.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.progress import echo
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.core.units import format_duration
from loadbook.store.paths import Layout, check_name, project_layout

if TYPE_CHECKING:
    from loadbook.hosts.doctor import RequiredProgram
    from loadbook.services import ServiceSpec
    from loadbook.study.model import Study


@click.command()
@click.argument("names", nargs=-1, metavar="[STUDY]...")
@click.option("--packages", is_flag=True, help="Print COMMAND=PACKAGE of what they need, as scripts/setup.sh takes it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per study.")
def studies(names: tuple[str, ...], packages: bool, as_json: bool) -> None:
    """List every STUDY (default: all): question, trials and time, and those of its smoke variant; no network."""
    from loadbook.execution.studies import study_file
    from loadbook.study.reader import study_files

    here = project_layout()
    if packages:
        _print_packages(here, names or tuple(path.stem for path in study_files(here.studies)))
        return
    rows = [_row(path) for path in ([study_file(here, name) for name in names] or study_files(here.studies))]
    if as_json:
        echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    width = max((len(row["study"]) for row in rows), default=0)
    for row in rows:
        for name, said in zip((row["study"], ""), _said(row), strict=False):
            echo(f"{name:{width}}  {said}")


def _print_packages(here: Layout, names: Sequence[str]) -> None:
    """Print what studies need that is a package, a line each; what is none is told on stderr with the way to get it."""
    from loadbook.execution.preflight import package_arguments, required_programs
    from loadbook.execution.studies import load_study, service_folders

    needed: dict[str, RequiredProgram] = {}
    for name in names:
        try:
            found = required_programs(load_study(here, name), service_folders(here))
        except LoadbookError as error:
            echo(f"{name}: {error.message}", err=True)
            continue
        needed |= {program.binary: program for each in found.values() for program in each}
    lines = package_arguments(needed.values())
    for line in sorted(lines):
        echo(line)
    known = {line.partition("=")[0] for line in lines}
    for program in needed.values():
        if program.binary not in known:
            echo(f"{program.binary}: {program.install}", err=True)


def _row(path: Path) -> dict[str, Any]:
    """Return what one study file says; one that cannot be read says why."""
    from loadbook.study.reader import is_variant, read_study, smoke_variant

    try:
        study = read_study(path)
        sizes = {"standard": _size(study), "smoke": None if is_variant(path) else _size(smoke_variant(study))}
    except LoadbookError as error:
        return {"study": path.stem, "error": error.message}
    return {"study": path.stem, "question": study.question, "variant": is_variant(path)} | sizes


def _size(study: Study) -> dict[str, Any]:
    from loadbook.study.plan import make_plan

    plan = make_plan(study)
    return {"trials": len(plan.trials), "blocks": plan.blocks, "arms": len(plan.treatments), "hours": plan.hours}


def _said(row: dict[str, Any]) -> list[str]:
    """Return what a reader wants to know of a study: its question, then its trials and times."""
    if "error" in row:
        return [f"cannot be read: {row['error'].splitlines()[0]}"]
    smoke, whole = row["smoke"], row["standard"]
    trials = f"{whole['trials']} trials ({whole['blocks']} blocks of {whole['arms']})"
    short = f"; smoke variant {format_duration(smoke['hours'] * 3600)}" if smoke else ""
    return [row["question"], f"{trials}, {format_duration(whole['hours'] * 3600)}{short}"]


@click.command()
@click.argument("study")
@click.option(
    "--service",
    "chain",
    multiple=True,
    metavar="[ROLE=]SERVICE",
    help="What answers; the role is web unless you say. Of several the first gets the load, each asks the next.",
)
@click.option("--try", "tried", multiple=True, metavar="[ROLE.]VAR=VALUE", help="Compare this value: a treatment.")
@click.option("--set", "fixed", multiple=True, metavar="[ROLE.]VAR=VALUE", help="What every treatment has.")
@click.option("--control", multiple=True, metavar="[ROLE.]VAR=VALUE", help="A cost that is known to be real.")
def new(
    study: str, chain: tuple[str, ...], tried: tuple[str, ...], fixed: tuple[str, ...], control: tuple[str, ...]
) -> None:
    """Write a study to begin with, studies/STUDY.toml: commented, with every variable of its services.

    For example: loadbook new buffered-log --service nginx --set access_log=unbuffered --try access_log=buffered
    """
    from loadbook.services.check import parse_setting, starter_study
    from loadbook.store.atomic import write_atomic

    here = project_layout()
    path = here.studies / f"{check_name('study', study)}.toml"
    if path.exists():
        raise UsageError(f"{path} is there already", "give the new study another name")
    services = _services(here, chain)
    wishes = [[parse_setting(text, services) for text in texts] for texts in (tried, fixed, control)]
    write_atomic(path, starter_study(study, services, *wishes).encode())
    echo(f"study {path}")
    echo(f"next: look at it, then loadbook plan {study}")


def _services(here: Layout, chain: tuple[str, ...]) -> dict[str, ServiceSpec]:
    """Return role -> service, in the order given."""
    from loadbook.execution.studies import service_folders
    from loadbook.services import known_services, load_service

    if not chain:
        known = ", ".join(known_services(service_folders(here)))
        raise UsageError("nothing is there that could answer", f"--service NAME; services: {known}")
    found: dict[str, ServiceSpec] = {}
    for text in chain:
        role, _, name = text.rpartition("=")
        role = role or "web"
        if role in found or role == "driver" or not role.isidentifier() or role != role.lower():
            raise UsageError(
                f"--service {text}: no role for it", "each its own, in small letters: --service balancer=haproxy"
            )
        found[role] = load_service(name, service_folders(here))
    return found
