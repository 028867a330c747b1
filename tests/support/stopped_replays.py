"""Replayed runs with looks, which a stopping rule ends."""

from __future__ import annotations

import shutil

from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger
from loadbook.store.trial_record import read_json, write_json

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
