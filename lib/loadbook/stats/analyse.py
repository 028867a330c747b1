"""One run's tables -> the Analysis that every view shows. Frames in, values out; no files, no host."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from loadbook.stats import errors as error_counts
from loadbook.stats.compare import compare
from loadbook.stats.contrasts import Contrasted, contrasted
from loadbook.stats.family import Leader, lead
from loadbook.stats.question import Question, RunTables, ask, by_rule, treatments_of
from loadbook.stats.reasons import BASELINE, reason
from loadbook.stats.result import (
    VERDICT_ORDER,
    Analysis,
    Asks,
    Comparison,
    Contrasts,
    ErrorSummary,
    Row,
    RowKind,
    Verdict,
)
from loadbook.stats.verdict import decide, differs
from loadbook.stats.wording.sentences import laboratory_sentence
from loadbook.stats.wording.shown import common_decimals
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.study import Study


def analyse(
    data: RunTables,
    *,
    baseline: str | None = None,
    metric: str | None = None,
    statistic: str | None = None,
    margin: float | None = None,
    level: float = 0.95,
) -> Analysis:
    """Answer the study's question on one metric.

    Parameters
    ----------
    baseline, metric, margin : default: the study's (a metric that is not the study's has its own default margin).
    statistic : of the metric; default: the metric's own.
    level : confidence of the intervals.

    Returns
    -------
    Rows in the order in which they are shown: baseline, treatments by verdict and size, checks. Only trials with
    status ok that no gate called invalid enter a comparison; errors are counted in all trials that reported.

    Raises
    ------
    UsageError : a baseline, metric or level that there is not.
    """
    asked = by_rule(data, ask(data, baseline, metric, statistic, margin, level))
    checks = {name: t.check for name, t in asked.study.treatments.items() if t.check}
    present = treatments_of(data)
    treatments = [name for name in present if name != asked.baseline and name not in checks]
    found = _contrasted(asked, treatments)
    rows = [_row(asked, c.treatment, "treatment", _by_plan(asked, c)) for c in found.comparisons]
    tests = [_check(asked, name) for name in present if name in checks and name != asked.baseline]
    laboratory = next((laboratory_sentence(r) for r in tests if r.kind == "aa" and r.passed is False), None)
    if laboratory:
        rows = [_void(row) for row in rows]
    reference = _row(asked, found.reference, "baseline", None)
    rows = _in_order([reference, *_same_decimals(rows), *_same_decimals(tests)], asked.contrasts)
    return _answer(asked, rows, laboratory, asked.blocks or asked.study.blocks, found.leader)


def _contrasted(asked: Question, treatments: list[str]) -> Contrasted:
    return contrasted(
        asked.values,
        asked.baseline,
        treatments,
        asked.contrasts,
        better=asked.better,
        metric=asked.metric,
        statistic=asked.statistic,
        level=asked.level,
        rule=asked.stand.rule,
        comparable=lambda c: _reason(asked, _by_plan(asked, c)) is None,
    )


def _by_plan(asked: Question, comparison: Comparison) -> Comparison:
    """Count blocks that were planned and not run as incomplete: a verdict belongs to the whole plan, or to its look."""
    missing, stand = (asked.blocks or 0) - comparison.blocks, asked.stand
    return replace(comparison, excluded=max(comparison.excluded, missing), look=stand.look, added=stand.added)


def _row(asked: Question, name: str, kind: RowKind, comparison: Comparison | None) -> Row:
    base = comparison.baseline if comparison else None
    against = asked.study.label(base) if base and kind == "treatment" and asked.contrasts != "baseline" else None
    asks: Asks = asked.asks if kind == "treatment" else "difference"
    why = _reason(asked, comparison, against) if comparison else None
    verdict = decide(comparison, asked.margin, asked.better, reason=why, asks=asks) if comparison else None
    own = asked.values[asked.values["treatment"] == name]
    level, half_width = _level(own.loc[own["valid"], "value"].dropna(), asked.level)
    spec = asked.study.treatments[name]
    return Row(
        treatment=name,
        label=asked.study.label(name),
        kind=kind,
        level=level,
        level_half_width=half_width,
        trials=len(own),
        valid_trials=int(own["valid"].sum()),
        verdict=verdict,
        errors=_errors(asked, name, base),
        expected_effect=spec.expect_effect if asked.metric == asked.study.metric else None,
        against=against,
    )


def _reason(asked: Question, comparison: Comparison, against: str | None = None) -> str | None:
    if asked.stand.waiting:
        return asked.stand.waiting
    errors = _errors(asked, comparison.treatment, comparison.baseline)
    return reason(asked.trials, comparison, errors, _varied(asked.study, comparison), against or BASELINE)


def _errors(asked: Question, name: str, against: str | None) -> ErrorSummary:
    return error_counts.summarise(name, asked.errors[name], asked.errors[against] if against else None)


def _varied(study: Study, comparison: Comparison) -> set[str]:
    """Return the fields of the workload in which the study itself makes two arms differ."""
    ours, theirs = (study.workload_of(name).model_dump() for name in (comparison.treatment, comparison.baseline))
    return {field for field, value in ours.items() if value != theirs[field]}


def _check(asked: Question, name: str) -> Row:
    """Return the row of a check, compared with the arm that it checks, and whether it passed (None: cannot tell)."""
    spec = asked.study.treatments[name]
    if spec.check == "aa":
        twin = asked.study.repeats(name) or asked.study.baseline
        row = _row(asked, name, "aa", _compare(asked, name, twin))
        return replace(row, passed=_aa_passed(row, asked.study.gates.aa_p))
    row = _row(asked, name, "control", _compare(asked, name, asked.study.baseline_of(name)))
    return replace(row, passed=_control_passed(row, _expected_sign(asked, name)))


def _compare(asked: Question, name: str, against: str) -> Comparison:
    rule, level = asked.stand.rule, asked.level
    found = compare(asked.values, name, against, metric=asked.metric, statistic=asked.statistic, level=level, rule=rule)
    return _by_plan(asked, found)


def _aa_passed(row: Row, limit: float) -> bool | None:
    """Return whether an A/A arm agrees; one that differs counts even where it may not be compared otherwise."""
    if row.verdict is None or row.verdict.comparison.p is None:
        return None
    if row.verdict.comparison.p < limit:
        return False
    return None if row.verdict.kind == "invalid" else True


def _control_passed(row: Row, sign: int | None) -> bool | None:
    if row.verdict is None or row.verdict.kind == "invalid" or row.verdict.comparison.effect is None:
        return None
    return differs(row.verdict.comparison) and (sign is None or row.verdict.comparison.effect * sign > 0)


def _expected_sign(asked: Question, name: str) -> int | None:
    """Return the sign that a control's effect must have on this metric, None where the study expects none."""
    spec = asked.study.treatments[name]
    if spec.expect:
        return 1 if (spec.expect == "better") == (asked.better == "higher") else -1
    if not spec.expect_effect:
        return None
    same = direction(asked.study.metric) == asked.better
    return 1 if (spec.expect_effect > 0) == same else -1


def _void(row: Row) -> Row:
    if row.verdict is None or row.verdict.kind == "invalid":
        return row
    why = "the laboratory contradicts itself (the duplicate of the baseline differs from it)"
    return replace(row, verdict=Verdict("invalid", row.verdict.comparison, row.verdict.margin, reason=why))


def _same_decimals(rows: list[Row]) -> list[Row]:
    digits = common_decimals(r.verdict.comparison for r in rows if r.verdict and r.verdict.kind != "invalid")
    return [replace(r, verdict=replace(r.verdict, decimals=digits)) if r.verdict else r for r in rows]


def _level(values: pd.Series, level: float) -> tuple[float | None, float | None]:
    """Return the median and the half-width of the interval of the mean (t), in the metric's unit."""
    if values.empty:
        return None, None
    if len(values) < 2:
        return float(values.median()), None
    from scipy.stats import t

    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.median()), float(t.ppf((1 + level) / 2, len(values) - 1)) * error


def _in_order(rows: list[Row], contrasts: Contrasts) -> list[Row]:
    """Sort rows for every view: baseline, treatments by verdict and falling size (rungs as they are), A/A, controls."""
    kinds = ("baseline", "treatment", "aa", "control")

    def key(row: Row) -> tuple[int, int, float]:
        if row.kind != "treatment" or row.verdict is None or contrasts == "adjacent":
            return kinds.index(row.kind), 0, 0.0
        size = abs(math.log1p(row.verdict.comparison.effect or 0.0))
        return kinds.index(row.kind), VERDICT_ORDER.index(row.verdict.kind), -size

    return sorted(rows, key=key)


def _answer(
    asked: Question, rows: list[Row], laboratory: str | None, planned_blocks: int, leader: Leader | None
) -> Analysis:
    arms = [r.treatment for r in rows if r.kind == "treatment" and r.verdict and r.verdict.kind != "invalid"]
    if leader is None:
        everyone, rule, level = [asked.baseline, *arms], asked.stand.rule, asked.level
        leader = lead(asked.values, everyone, asked.baseline, better=asked.better, level=level, rule=rule)
    return Analysis(
        baseline=rows[0].treatment,
        metric=asked.metric,
        statistic=asked.statistic,
        margin=asked.margin,
        level=asked.level,
        rows=tuple(rows),
        best=None if laboratory else leader.best,
        tied_with_best=() if laboratory else leader.tied,
        ties_lead=leader.ties_lead and not laboratory,
        laboratory=laboratory,
        planned_blocks=planned_blocks,
        stand=asked.stand,
        contrasts=asked.contrasts,
        asks=asked.asks,
    )
