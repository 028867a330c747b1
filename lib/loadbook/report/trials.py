"""Which trials count, and why not: counts, doubts in words, the gate block, the table of every trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadbook.core.gates import EVALUATED_RULES, rule_advice, rule_title
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_rounded
from loadbook.core.units import format_percent, format_duration
from loadbook.records.rundata import RunData
from loadbook.report.blocks import Block, clean, render
from loadbook.report.show import FigureModule, render_figure
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.hygiene import order


@dataclass(frozen=True)
class ValidityMessage:
    """What one gate said: its title, its level, how many trials it hit, and its different sentences."""

    name: str
    title: str
    level: str
    trials: int
    text: str


def rule_titles(data: RunData) -> dict[str, str]:
    """Return name -> short title of every gate that looked at this run, and of those that tools raised."""
    raised = [name for name in data.problems["name"].unique() if name not in EVALUATED_RULES]
    return {name: rule_title(name) for name in (*EVALUATED_RULES, *raised)}


def validity_messages(data: RunData, *levels: str) -> list[ValidityMessage]:
    """Return what the gates of these levels said, one entry per gate and level, the most frequent first."""
    problems = data.problems[data.problems["level"].isin(levels)]
    found = [
        ValidityMessage(
            gate, rule_title(gate), level, hits["trial"].nunique(), _summarise_messages(gate, list(dict.fromkeys(hits["message"])))
        )
        for level, gate, hits in _by_level_and_rule(problems)
    ]
    return sorted(found, key=lambda s: (levels.index(s.level), -s.trials, s.name))


def _by_level_and_rule(problems: Any) -> list[tuple[str, str, Any]]:
    return [(level, gate, hits) for (level, gate), hits in problems.groupby(["level", "name"], sort=False)]


def row_tuples(frame: Any) -> list[Any]:
    """Return a frame's rows as objects with its columns as attributes."""
    return list(frame.itertuples(index=False))


def _summarise_messages(gate: str, messages: list[str]) -> str:
    """Return a gate's messages as one text, with why it matters and what to change said once."""
    end = rule_advice(gate)
    shortened = [text.removesuffix(end) for text in messages]
    more = f" (and {len(shortened) - 1} more like it)" if len(shortened) > 1 else ""
    ends = end if end and any(text.endswith(end) for text in messages) else ""
    return shortened[0] + more + ends


def doubt_messages(data: RunData) -> list[ValidityMessage]:
    """Return every doubt, and every gate that had nothing to read."""
    return validity_messages(data, "doubt", "unchecked")


def trial_counts(data: RunData) -> dict[str, int]:
    """Return the numbers of planned, executed and valid trials."""
    return {"planned": len(data.plan["trials"]), "trials": len(data.trials), "valid": int(data.trials["valid"].sum())}


def exclusion_counts(data: RunData) -> list[tuple[str, int]]:
    """Return (reason, number of trials) of what is not counted, the most frequent first."""
    reasons: dict[str, int] = {}
    for trial in row_tuples(data.trials[~data.trials["valid"]]):
        reason = exclusion_reason(data, trial)
        reasons[reason] = reasons.get(reason, 0) + 1
    missing = len(data.plan["trials"]) - len(data.trials)
    if missing:
        reasons["Not executed"] = missing
    return sorted(reasons.items(), key=lambda r: -r[1])


def exclusion_reason(data: RunData, trial: Any) -> str:
    """Return in a few words why a trial is not counted."""
    hits = data.problems[(data.problems["trial"] == trial.trial) & (data.problems["level"] == "invalid")]
    if len(hits):
        return rule_title(hits["name"].iloc[0])
    return str(trial.reason or trial.status.replace("_", " "))


def exclusion_reasons(data: RunData) -> dict[str, str]:
    """Return trial -> short reason for every trial that is not counted (figure 2 writes them beside the ×)."""
    return {t.trial: exclusion_reason(data, t) for t in row_tuples(data.trials[~data.trials["valid"]])}


def validity_block(data: RunData, figure: FigureModule, labels: Mapping[str, str], levels: Sequence[str]) -> Block:
    """Return the gate matrix with the sentences of the gates that spoke at these levels."""
    rendered = render_figure(figure, data.trials, data.problems, titles=rule_titles(data), labels=labels)
    messages = validity_messages(data, *levels)
    html = render("gates.html.j2", figure=rendered, messages=messages)
    text = "\n".join([rendered.answer, *(f"- {s.title} ({s.level}): {s.text}" for s in messages)])
    return Block(str(html), str(clean(text)))


def trial_table(data: RunData, metric: str, labels: Mapping[str, str]) -> Table:
    """Return the table of every trial in order of execution."""
    unit, reasons, outliers = get_metric(metric).unit, exclusion_reasons(data), order.find_outliers(data.values(metric))
    columns = [
        Column("Slot"), Column("Trial"), Column("Block", numeric=True), Column("Treatment"),
        Column(f"{metric}, {unit}", numeric=True), Column("Errors", numeric=True), Column("Took, s", numeric=True),
        Column("Counts"), Column("Gates", wrap=True),
    ]  # fmt: skip
    errors = data.values("errors")[["trial", "value"]].rename(columns={"value": "errors"})
    details = data.trials[["trial", "duration_s", "gates"]]
    rows = [
        [
            str(t.slot), t.trial, str(t.block), labels[t.treatment], value_text(t.value, unit), value_text(t.errors, "1"),
            f"{t.duration_s:.1f}" if t.duration_s == t.duration_s else DASH,
            f"no: {reasons[t.trial]}" if t.trial in reasons else _counts_text(outliers.get(t.trial)),
            ", ".join(map(rule_title, t.gates)) or DASH,
        ]
        for t in row_tuples(data.values(metric).merge(errors, on="trial").merge(details, on="trial"))
    ]  # fmt: skip
    return Table("Every trial", columns, rows)


def _counts_text(distance: float | None) -> str:
    """Return "yes", and by how much a trial lies away from the others of its treatment where that is far."""
    return "yes" if distance is None else f"yes, far out ({format_percent(distance)})"


def value_text(value: float, unit: str) -> str:
    """Return a measured value for a table: seconds with their unit, counts and rates with commas."""
    if value != value:
        return "not measured"
    return format_duration(value) if unit == "s" else format_rounded(value)
