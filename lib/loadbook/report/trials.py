"""Which trials count, and why not: counts, doubts in words, the gate block, the table of every trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadbook.core.gates import RULES, ending, title_of
from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import level as level_text
from loadbook.core.units import percent, seconds
from loadbook.records.rundata import RunData
from loadbook.report.blocks import Block, clean, render
from loadbook.report.show import FigureModule, drawn
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.hygiene import order


@dataclass(frozen=True)
class Spoken:
    """What one gate said: its title, its level, how many trials it hit, and its different sentences."""

    gate: str
    title: str
    level: str
    trials: int
    text: str


def titles(data: RunData) -> dict[str, str]:
    """Return name -> short title of every gate that looked at this run, and of those that tools raised."""
    raised = [name for name in data.problems["name"].unique() if name not in RULES]
    return {name: title_of(name) for name in (*RULES, *raised)}


def spoken(data: RunData, *levels: str) -> list[Spoken]:
    """Return what the gates of these levels said, one entry per gate and level, the most frequent first."""
    problems = data.problems[data.problems["level"].isin(levels)]
    found = [
        Spoken(
            gate, title_of(gate), level, hits["trial"].nunique(), _summed(gate, list(dict.fromkeys(hits["message"])))
        )
        for level, gate, hits in _groups(problems)
    ]
    return sorted(found, key=lambda s: (levels.index(s.level), -s.trials, s.gate))


def _groups(problems: Any) -> list[tuple[str, str, Any]]:
    return [(level, gate, hits) for (level, gate), hits in problems.groupby(["level", "name"], sort=False)]


def each(frame: Any) -> list[Any]:
    """Return a frame's rows as objects with its columns as attributes."""
    return list(frame.itertuples(index=False))


def _summed(gate: str, messages: list[str]) -> str:
    """Return a gate's messages as one text, with why it matters and what to change said once."""
    end = ending(gate)
    seen = [text.removesuffix(end) for text in messages]
    more = f" (and {len(seen) - 1} more like it)" if len(seen) > 1 else ""
    ends = end if end and any(text.endswith(end) for text in messages) else ""
    return seen[0] + more + ends


def doubts(data: RunData) -> list[Spoken]:
    """Return every doubt, and every gate that had nothing to read."""
    return spoken(data, "doubt", "unchecked")


def count(data: RunData) -> dict[str, int]:
    """Return the numbers of planned, executed and valid trials."""
    return {"planned": len(data.plan["trials"]), "trials": len(data.trials), "valid": int(data.trials["valid"].sum())}


def excluded(data: RunData) -> list[tuple[str, int]]:
    """Return (reason, number of trials) of what is not counted, the most frequent first."""
    reasons: dict[str, int] = {}
    for trial in each(data.trials[~data.trials["valid"]]):
        reason = reason_of(data, trial)
        reasons[reason] = reasons.get(reason, 0) + 1
    missing = len(data.plan["trials"]) - len(data.trials)
    if missing:
        reasons["Not executed"] = missing
    return sorted(reasons.items(), key=lambda r: -r[1])


def reason_of(data: RunData, trial: Any) -> str:
    """Return in a few words why a trial is not counted."""
    hits = data.problems[(data.problems["trial"] == trial.trial) & (data.problems["level"] == "invalid")]
    if len(hits):
        return title_of(hits["name"].iloc[0])
    return str(trial.reason or trial.status.replace("_", " "))


def reasons(data: RunData) -> dict[str, str]:
    """Return trial -> short reason for every trial that is not counted (figure 2 writes them beside the ×)."""
    return {t.trial: reason_of(data, t) for t in each(data.trials[~data.trials["valid"]])}


def gate_block(data: RunData, figure: FigureModule, labels: Mapping[str, str], levels: Sequence[str]) -> Block:
    """Return the gate matrix with the sentences of the gates that spoke at these levels."""
    shown = drawn(figure, data.trials, data.problems, titles=titles(data), labels=labels)
    said = spoken(data, *levels)
    html = render("gates.html.j2", figure=shown, spoken=said)
    text = "\n".join([shown.answer, *(f"- {s.title} ({s.level}): {s.text}" for s in said)])
    return Block(str(html), str(clean(text)))


def every_trial(data: RunData, metric: str, labels: Mapping[str, str]) -> Table:
    """Return the table of every trial in order of execution."""
    unit, why, far = metric_of(metric).unit, reasons(data), order.outliers(data.values(metric))
    columns = [
        Column("Slot"), Column("Trial"), Column("Block", numeric=True), Column("Treatment"),
        Column(f"{metric}, {unit}", numeric=True), Column("Errors", numeric=True), Column("Took, s", numeric=True),
        Column("Counts"), Column("Gates", wrap=True),
    ]  # fmt: skip
    errors = data.values("errors")[["trial", "value"]].rename(columns={"value": "errors"})
    told = data.trials[["trial", "duration_s", "gates"]]
    rows = [
        [
            str(t.slot), t.trial, str(t.block), labels[t.treatment], number(t.value, unit), number(t.errors, "1"),
            f"{t.duration_s:.1f}" if t.duration_s == t.duration_s else DASH,
            f"no: {why[t.trial]}" if t.trial in why else _counts(far.get(t.trial)),
            ", ".join(map(title_of, t.gates)) or DASH,
        ]
        for t in each(data.values(metric).merge(errors, on="trial").merge(told, on="trial"))
    ]  # fmt: skip
    return Table("Every trial", columns, rows)


def _counts(far: float | None) -> str:
    """Return "yes", and by how much a trial lies away from the others of its treatment where that is far."""
    return "yes" if far is None else f"yes, far out ({percent(far)})"


def number(value: float, unit: str) -> str:
    """Return a measured value for a table: seconds with their unit, counts and rates with commas."""
    if value != value:
        return "not measured"
    return seconds(value) if unit == "s" else level_text(value)
