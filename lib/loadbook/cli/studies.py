"""`loadbook studies`: which questions there are to ask, and what asking them takes; touches no network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.core.errors import LoadbookError
from loadbook.core.units import seconds
from loadbook.records.layout import layout

if TYPE_CHECKING:
    from loadbook.design.study import Study


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON: one object per study.")
def studies(as_json: bool) -> None:
    """List every study: question, trials and time of its smoke variant and of the study itself; no network."""
    from loadbook.design.gallery import study_files

    rows = [_row(path) for path in study_files(layout().studies)]
    if as_json:
        click.echo(json.dumps(rows, indent=1, ensure_ascii=False))
        return
    width = max((len(row["study"]) for row in rows), default=0)
    for row in rows:
        for name, said in zip((row["study"], ""), _said(row), strict=False):
            click.echo(f"{name:{width}}  {said}")


def _row(path: Path) -> dict[str, Any]:
    """Return what one study file says; one that cannot be read says why."""
    from loadbook.design.gallery import is_variant
    from loadbook.design.study_file import read_study, smoke

    try:
        study = read_study(path)
        sizes = {"standard": _size(study), "smoke": None if is_variant(path) else _size(smoke(study))}
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
    short = f"; smoke variant {seconds(smoke['hours'] * 3600)}" if smoke else ""
    return [row["question"], f"{trials}, {seconds(whole['hours'] * 3600)}{short}"]
