"""`loadbook plan` and `run`: from a study file to a run."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.core.errors import LoadbookError
from loadbook.core.units import percent, seconds, size
from loadbook.records.layout import Layout, layout

if TYPE_CHECKING:
    from loadbook.design.plan import Plan
    from loadbook.design.workload import Workload

# scatter of one trial in the pinned lab (lab_facts.md section 6: 2 to 3 %), and of a paired difference of two
ASSUMED_CV = 0.025
ASSUMED_SD = ASSUMED_CV * 2**0.5

_study = click.argument("study")
_subset = click.option("--subset", help="Treatments of this subset; all: every one.")
_blocks = click.option("--blocks", type=click.IntRange(min=1), help="Blocks instead of the study's own number.")


@click.command()
@_study
@_subset
@_blocks
@click.option("--json", "as_json", is_flag=True, help="The whole plan as JSON.")
def plan(study: str, subset: str | None, blocks: int | None, as_json: bool) -> None:
    """Trials, hours, disk and the difference that so many blocks can detect; touches no network."""
    from loadbook.design.plan import make_plan
    from loadbook.trials.studies import load_study

    here = layout()
    made = make_plan(load_study(here, study), subset, blocks)
    sd, source = _scatter(here, made)
    found = _detectable(made.blocks, sd)
    if as_json:
        estimate = {"hours": made.hours, "disk_bytes": made.disk_bytes, "detectable": found, "assumed_sd": sd}
        click.echo(json.dumps(made.to_json() | {"estimate": estimate}, indent=1))
        return
    for line in _summary(made, sd, source, found):
        click.echo(line)


def _summary(made: Plan, sd: float, source: str, found: float | None) -> list[str]:
    work, margin = made.study.workload, made.study.margin
    difference = "no difference: a comparison needs 2 blocks or more" if found is None else percent(found, signed=False)
    lines = [
        f"{made.study.name}: {made.study.question}",
        f"trials      {len(made.trials)}: {made.blocks} blocks of {', '.join(made.treatments)}",
        f"each        {seconds(made.trial_s)}: {work.warmup_s:g} s warm-up, {_length(work)}",
        f"time        {seconds(made.hours * 3600)}",
        f"disk        {size(made.disk_bytes)} on this machine",
        f"detectable  {difference} (power 80 %, margin of the study {percent(margin, signed=False)})",
        f"            for a paired scatter of {percent(sd, signed=False)}, {source}",
    ]
    if made.blocks < 5:
        lines.append("verdicts    none: fewer than 5 blocks")
    return lines


def _length(work: Workload) -> str:
    timed = f"{work.duration_s:g} s load"
    return timed if work.requests is None else f"{work.requests:,} requests, expected to be a {timed}"


def _detectable(blocks: int, sd: float) -> float | None:
    from loadbook.stats.plan import detectable

    return detectable(blocks, sd) if blocks >= 2 else None


def _scatter(here: Layout, made: Plan) -> tuple[float, str]:
    """Return the paired scatter (sd of log ratios) of the study's last run, else an assumed one, and which it is."""
    from loadbook.records.rundata import load_run
    from loadbook.trials.scatter import paired_sd

    for run in reversed(here.runs(made.study.name)):
        try:
            sd = paired_sd(load_run(here, made.study.name, run))
        except LoadbookError:
            continue
        if sd:
            return sd, f"as seen in run {run}"
    return ASSUMED_SD, f"assumed: {percent(ASSUMED_CV, signed=False)} per trial, as in the pinned lab"


@click.command()
@_study
@click.option("--hosts", type=click.Path(path_type=Path), help="Hosts file; without it: the loopback lab.")
@_subset
@_blocks
@click.option("--resume", metavar="RUN", help="Go on with this unfinished run; without it: with the latest.")
@click.option("--new", is_flag=True, help="Start a new run although the last one is unfinished.")
def run(study: str, hosts: Path | None, subset: str | None, blocks: int | None, resume: str | None, new: bool) -> None:
    """Run a study's plan on hosts, or go on with the unfinished run; then make the tables.

    STUDY is a name in studies/, a .toml file, or <name>-smoke. Ctrl-C stops the load and the service, records the
    trial as cancelled, and the same command goes on later.
    """
    from loadbook.cli.ingest import make_tables
    from loadbook.cli.progress import Reporter
    from loadbook.trials.api import run_study
    from loadbook.trials.studies import load_study

    signal.signal(signal.SIGTERM, _interrupt)
    here = layout()
    try:
        with Reporter(sys.stderr) as reporter:
            done = run_study(here, study, hosts, subset, blocks, new, resume, reporter)
    except KeyboardInterrupt:
        click.echo("stopped; the same command goes on with the next trial", err=True)
        raise
    name = load_study(here, study).name
    click.echo(make_tables(here, name, done))
    click.echo(f"run {done}")
    click.echo(f"data {here.run(name, done).raw}")


def _interrupt(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt
