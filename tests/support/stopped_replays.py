"""Replayed runs with looks, which a stopping rule ends."""

from __future__ import annotations

import shutil
from pathlib import Path

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.stats.analyse import analyse
from loadbook.stats.results import Analysis
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.tables import load_run
from loadbook.store.trial_record import read_json, write_json
from recorded_run import copy_recorded_run, run_of

CONTROL = 'check = "control"\nexpect = "worse"\n'
# the control of the recorded run, which costs 21 %, as a treatment; and a treatment that is not decided
STUDY = """
include = "plain.toml"
name = "{name}"
subset = "these"
{lines}
[subsets]
these = ["baseline-auto", "{treatment}"]
[validity]
driver_cpu = 1.0
{stopping}
"""
HUGE, SMALL = "control-access-log", "auto-nopush"
TWO, THREE = (
    {"stopping": f'[stopping]\nrule = "looks"\nlooks = {looks}', "lines": f"blocks = {looks[-1]}"}
    for looks in ([5, 10], [5, 10, 15])
)


def lengthen(raw, by: int, arms) -> None:
    """Record every block once more, under a number that is `by` higher."""
    for folder in [*(raw / "trials").iterdir(), *(raw / "failed").iterdir()]:
        record = trial_record.read_trial(folder)
        if record.treatment in arms:
            copy = folder.with_name(folder.name.replace("t0", "t9"))
            shutil.copytree(folder, copy)
            write_json(
                copy / trial_record.RECORD_NAME,
                read_json(folder / trial_record.RECORD_NAME) | {"block": record.block + by},
            )


def events(paths, *names: str):
    return [e for e in read_ledger(paths.ledger) if e["event"] in names]


def project_of_replays(tmp_path: Path) -> Layout:
    """Make a project with the recorded run, whose baseline and treatments have every block twice."""
    made = copy_recorded_run(tmp_path)
    text = (made.studies / "nginx-directives.toml").read_text()
    assert CONTROL in text
    (made.studies / "plain.toml").write_text(text.replace(CONTROL, ""))
    lengthen(run_of(made), 8, arms=("baseline-auto", HUGE, SMALL))
    return made


def replay(
    layout: Layout, name: str, treatment: str, stopping: str = "", lines: str = "", **wish
) -> tuple[RunPaths, list[str]]:
    """Write a study and run it, interrupted after the block `until`; return its paths and the notes that were given."""
    study = STUDY.format(name=name, treatment=treatment, stopping=stopping, lines=lines)
    (layout.studies / f"{name}.toml").write_text(study)
    notes: list[str] = []

    def hear(event) -> None:
        notes.extend([event.message] if event.kind == "note" else [])
        if wish.get("until") and event.kind == "trial-ended" and event.block == wish["until"]:
            raise KeyboardInterrupt

    requested = {key: value for key, value in wish.items() if key != "until"}
    try:
        run = run_study(layout, RunRequest(name, run_of(layout) / "hosts.toml", **requested), on_event=hear)
    except KeyboardInterrupt:
        run = layout.resolve_run(name)
    return layout.run(name, run), notes


def answer(layout: Layout, paths: RunPaths) -> Analysis:
    """Return the analysis of a run, after its ingestion."""
    ingest(paths)
    return analyse(load_run(layout, paths.raw.parent.name, paths.raw.name))
