"""`loadbook studies`: which questions there are to ask, and what asking them takes; touches no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli.say import echo
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_duration
from loadbook.records.layout import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.design.study import Study
    from loadbook.hosts.checkup import RequiredProgram


@click.command()
@click.argument("names", nargs=-1, metavar="[STUDY]...")
@click.option("--packages", is_flag=True, help="Print COMMAND=PACKAGE of what they need, as scripts/setup.sh takes it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per study.")
def studies(names: tuple[str, ...], packages: bool, as_json: bool) -> None:
    """List every STUDY (default: all): question, trials and time, and those of its smoke variant; no network."""
    from loadbook.design.gallery import study_files
    from loadbook.trials.studies import study_file

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
    from loadbook.trials.needs import package_arguments, required_programs
    from loadbook.trials.studies import load_study, service_folders

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
    from loadbook.design.gallery import is_variant
    from loadbook.design.study_file import read_study, smoke_variant

    try:
        study = read_study(path)
        sizes = {"standard": _size(study), "smoke": None if is_variant(path) else _size(smoke_variant(study))}
    except LoadbookError as error:
        return {"study": path.stem, "error": error.message}
    return {"study": path.stem, "question": study.question, "variant": is_variant(path)} | sizes


def _size(study: Study) -> dict[str, Any]:
    from loadbook.design.plan import make_plan

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
