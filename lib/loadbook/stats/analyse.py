"""One run's tables -> the Analysis that every view shows. Frames in, values out; no files, no host."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from loadbook.stats import errors as error_counts
from loadbook.stats.compare import compare
from loadbook.stats.contrasts import DeclaredComparisons, compare_declared
from loadbook.stats.family import BestArm, find_best_arm
from loadbook.stats.question import AnalysisSpec, RunTables, resolve_spec, apply_stopping_rule, treatments_of
from loadbook.stats.reasons import BASELINE_TEXT, invalid_reason
from loadbook.stats.result import (
    VERDICT_ORDER,
    Analysis,
    Hypothesis,
    Comparison,
    Contrasts,
    ErrorSummary,
    AnalysisRow,
    RowKind,
    Verdict,
)
from loadbook.stats.verdict import decide_verdict, is_significant
from loadbook.stats.wording.sentences import aa_failure_sentence
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
    spec = apply_stopping_rule(data, resolve_spec(data, baseline, metric, statistic, margin, level))
    checks = {name: t.check for name, t in spec.study.treatments.items() if t.check}
    names = treatments_of(data)
    treatments = [name for name in names if name != spec.baseline and name not in checks]
    comparisons = _compare_treatments(spec, treatments)
    rows = [_build_row(spec, c.treatment, "treatment", _with_planned_blocks(spec, c)) for c in comparisons.comparisons]
    check_rows = [_check_row(spec, name) for name in names if name in checks and name != spec.baseline]
    aa_failure = next((aa_failure_sentence(r) for r in check_rows if r.kind == "aa" and r.passed is False), None)
    if aa_failure:
        rows = [_invalidated(row) for row in rows]
    reference_row = _build_row(spec, comparisons.reference, "baseline", None)
    rows = _sorted_rows([reference_row, *_with_common_decimals(rows), *_with_common_decimals(check_rows)], spec.contrasts)
    return _build_analysis(spec, rows, aa_failure, spec.planned_blocks or spec.study.blocks, comparisons.best_arm)


def _compare_treatments(spec: AnalysisSpec, treatments: list[str]) -> DeclaredComparisons:
    return compare_declared(
        spec.values,
        spec.baseline,
        treatments,
        spec.contrasts,
        better=spec.better,
        metric=spec.metric,
        statistic=spec.statistic,
        level=spec.level,
        rule=spec.stopping_state.rule,
        comparable=lambda c: _invalid_reason(spec, _with_planned_blocks(spec, c)) is None,
    )


def _with_planned_blocks(spec: AnalysisSpec, comparison: Comparison) -> Comparison:
    """Count blocks that were planned and not run as incomplete: a verdict belongs to the whole plan, or to its look."""
    missing, state = (spec.planned_blocks or 0) - comparison.blocks, spec.stopping_state
    return replace(comparison, excluded=max(comparison.excluded, missing), interim_analysis=state.interim_analysis, added_blocks=state.added_blocks)


def _build_row(spec: AnalysisSpec, name: str, kind: RowKind, comparison: Comparison | None) -> AnalysisRow:
    reference = comparison.baseline if comparison else None
    reference_label = spec.study.label(reference) if reference and kind == "treatment" and spec.contrasts != "baseline" else None
    hypothesis: Hypothesis = spec.hypothesis if kind == "treatment" else "difference"
    invalid = _invalid_reason(spec, comparison, reference_label) if comparison else None
    verdict = decide_verdict(comparison, spec.margin, spec.better, reason=invalid, hypothesis=hypothesis) if comparison else None
    own = spec.values[spec.values["treatment"] == name]
    level, half_width = _median_and_half_width(own.loc[own["valid"], "value"].dropna(), spec.level)
    treatment = spec.study.treatments[name]
    return AnalysisRow(
        treatment=name,
        label=spec.study.label(name),
        kind=kind,
        median=level,
        mean_half_width=half_width,
        trials=len(own),
        valid_trials=int(own["valid"].sum()),
        verdict=verdict,
        errors=_error_summary(spec, name, reference),
        expected_effect=treatment.expect_effect if spec.metric == spec.study.metric else None,
        reference_label=reference_label,
    )


def _invalid_reason(spec: AnalysisSpec, comparison: Comparison, reference_label: str | None = None) -> str | None:
    if spec.stopping_state.pending_reason:
        return spec.stopping_state.pending_reason
    errors = _error_summary(spec, comparison.treatment, comparison.baseline)
    return invalid_reason(spec.trials, comparison, errors, _varied_workload_fields(spec.study, comparison), reference_label or BASELINE_TEXT)


def _error_summary(spec: AnalysisSpec, name: str, reference: str | None) -> ErrorSummary:
    return error_counts.summarise_errors(name, spec.errors[name], spec.errors[reference] if reference else None)


def _varied_workload_fields(study: Study, comparison: Comparison) -> set[str]:
    """Return the fields of the workload in which the study itself makes two arms differ."""
    own, other = (study.workload_of(name).model_dump() for name in (comparison.treatment, comparison.baseline))
    return {field for field, value in own.items() if value != other[field]}


def _check_row(spec: AnalysisSpec, name: str) -> AnalysisRow:
    """Return the row of a check, compared with the arm that it checks, and whether it passed (None: cannot tell)."""
    treatment = spec.study.treatments[name]
    if treatment.check == "aa":
        original = spec.study.repeated_treatment(name) or spec.study.baseline
        row = _build_row(spec, name, "aa", _compare_with_reference(spec, name, original))
        return replace(row, passed=_aa_passed(row, spec.study.gates.aa_p))
    row = _build_row(spec, name, "control", _compare_with_reference(spec, name, spec.study.baseline_of(name)))
    return replace(row, passed=_control_passed(row, _expected_sign(spec, name)))


def _compare_with_reference(spec: AnalysisSpec, name: str, reference: str) -> Comparison:
    rule, level = spec.stopping_state.rule, spec.level
    comparison = compare(spec.values, name, reference, metric=spec.metric, statistic=spec.statistic, level=level, rule=rule)
    return _with_planned_blocks(spec, comparison)


def _aa_passed(row: AnalysisRow, limit: float) -> bool | None:
    """Return whether an A/A arm agrees; one that differs counts even where it may not be compared otherwise."""
    if row.verdict is None or row.verdict.comparison.p is None:
        return None
    if row.verdict.comparison.p < limit:
        return False
    return None if row.verdict.kind == "invalid" else True


def _control_passed(row: AnalysisRow, sign: int | None) -> bool | None:
    if row.verdict is None or row.verdict.kind == "invalid" or row.verdict.comparison.effect is None:
        return None
    return is_significant(row.verdict.comparison) and (sign is None or row.verdict.comparison.effect * sign > 0)


def _expected_sign(spec: AnalysisSpec, name: str) -> int | None:
    """Return the sign that a control's effect must have on this metric, None where the study expects none."""
    treatment = spec.study.treatments[name]
    if treatment.expect:
        return 1 if (treatment.expect == "better") == (spec.better == "higher") else -1
    if not treatment.expect_effect:
        return None
    same_direction = direction(spec.study.metric) == spec.better
    return 1 if (treatment.expect_effect > 0) == same_direction else -1


def _invalidated(row: AnalysisRow) -> AnalysisRow:
    if row.verdict is None or row.verdict.kind == "invalid":
        return row
    reason = "the laboratory contradicts itself (the duplicate of the baseline differs from it)"
    return replace(row, verdict=Verdict("invalid", row.verdict.comparison, row.verdict.margin, reason=reason))


def _with_common_decimals(rows: list[AnalysisRow]) -> list[AnalysisRow]:
    digits = common_decimals(r.verdict.comparison for r in rows if r.verdict and r.verdict.kind != "invalid")
    return [replace(r, verdict=replace(r.verdict, decimals=digits)) if r.verdict else r for r in rows]


def _median_and_half_width(values: pd.Series, confidence: float) -> tuple[float | None, float | None]:
    """Return the median and the half-width of the interval of the mean (t), in the metric's unit."""
    if values.empty:
        return None, None
    if len(values) < 2:
        return float(values.median()), None
    from scipy.stats import t

    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.median()), float(t.ppf((1 + confidence) / 2, len(values) - 1)) * error


def _sorted_rows(rows: list[AnalysisRow], contrasts: Contrasts) -> list[AnalysisRow]:
    """Sort rows for every view: baseline, treatments by verdict and falling size (rungs as they are), A/A, controls."""
    kinds = ("baseline", "treatment", "aa", "control")

    def key(row: AnalysisRow) -> tuple[int, int, float]:
        if row.kind != "treatment" or row.verdict is None or contrasts == "adjacent":
            return kinds.index(row.kind), 0, 0.0
        log_effect = abs(math.log1p(row.verdict.comparison.effect or 0.0))
        return kinds.index(row.kind), VERDICT_ORDER.index(row.verdict.kind), -log_effect

    return sorted(rows, key=key)


def _build_analysis(
    spec: AnalysisSpec, rows: list[AnalysisRow], aa_failure: str | None, planned_blocks: int, best: BestArm | None
) -> Analysis:
    arms = [r.treatment for r in rows if r.kind == "treatment" and r.verdict and r.verdict.kind != "invalid"]
    if best is None:
        all_arms, rule, level = [spec.baseline, *arms], spec.stopping_state.rule, spec.level
        best = find_best_arm(spec.values, all_arms, spec.baseline, better=spec.better, level=level, rule=rule)
    return Analysis(
        baseline=rows[0].treatment,
        metric=spec.metric,
        statistic=spec.statistic,
        margin=spec.margin,
        level=spec.level,
        rows=tuple(rows),
        best=None if aa_failure else best.best,
        tied_with_best=() if aa_failure else best.tied,
        ties_beat_rest=best.ties_beat_rest and not aa_failure,
        aa_failure=aa_failure,
        planned_blocks=planned_blocks,
        stopping_state=spec.stopping_state,
        contrasts=spec.contrasts,
        hypothesis=spec.hypothesis,
    )
