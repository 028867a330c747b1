"""Analysis of a run: from its tables to values, comparisons, checks and verdicts, with the study's defaults.

A run under several conditions (for example a near and a remote client) is analysed per condition, called stratum:
treatments of different strata are never compared. This module neither reads nor writes files.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.core.metrics import Direction, get_metric
from loadbook.core.validity_rules import ExclusionCause
from loadbook.stats import diagnostics, results
from loadbook.stats import errors as error_counts
from loadbook.stats.comparability import BASELINE_TEXT, ArmTrials, arms_of, invalid_reason, rate_moving, usable_mask
from loadbook.stats.compare import (
    NO_BEST_ARM,
    BestArm,
    ComparisonOptions,
    DeclaredComparisons,
    compare,
    compare_declared,
    find_best_arm,
)
from loadbook.stats.errors import ErrorCounts
from loadbook.stats.exclusions import exclusion_text, unfinished_text, with_causes
from loadbook.stats.sequential import compute_stopping_state
from loadbook.stats.steady_state import SETTLED, settled_rates
from loadbook.stats.text import common_decimals, direction
from loadbook.stats.verdict import (
    aa_half_width_limit,
    aa_margin,
    aa_state,
    control_state,
    decide_verdict,
    drop_forecast,
    limit_to_resolution,
)
from loadbook.store.tables import (
    RunData,
    RunTables,
    strata_of,
    treatments_of,
    trial_values,
    trials_telling,
)

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.study.model import Study, TrialExecution

SATURATION_RULE = "driver_saturated"


@dataclass(frozen=True)
class AnalysisSpec:
    """Settings of one analysis, defaults from the study filled in; `values` are those of the metric, a row per trial.

    `planned_blocks` is None if the run has no plan. `execution` is that of the compared trials if the run has
    interleaved and plain blocks, else None. The study's `contrasts` apply to its own baseline and metric ("adjacent":
    to every metric), its `hypothesis` to its own metric. Otherwise the defaults below apply.
    """

    study: Study
    baseline: str
    metric: str
    statistic: str
    margin: float
    level: float
    better: Direction
    values: pd.DataFrame
    trials: pd.DataFrame
    errors: dict[str, ErrorCounts]
    planned_blocks: int | None
    execution: TrialExecution | None = None
    contrasts: results.Contrasts = "baseline"
    hypothesis: results.Hypothesis = "difference"
    stopping_state: results.StoppingState = field(default_factory=results.StoppingState)
    refusals: Mapping[str, results.Refusal] = field(default_factory=dict)

    @property
    def options(self) -> ComparisonOptions:
        """Return the options of each comparison."""
        rule = self.stopping_state.rule
        return {"metric": self.metric, "statistic": self.statistic, "level": self.level, "rule": rule}

    @cached_property
    def arms(self) -> dict[str, ArmTrials]:
        """Return treatment -> its trials, for each treatment that ran and for the baseline."""
        return arms_of(self.trials, self.errors)


def resolve_spec(
    data: RunTables, baseline: str | None, metric: str | None, statistic: str | None, margin: float | None, level: float
) -> AnalysisSpec:
    """Fill in the study's defaults for None; UsageError: unknown baseline or metric, or level not within 0.5 to 1."""
    study, metric_name = data.study, metric or data.study.metric
    metric_info = get_metric(metric_name)
    baseline_name = baseline or study.baseline
    if baseline_name not in study.treatments:
        raise unknown_name_error("treatment", baseline_name, study.treatments, f"in study {study.name!r}")
    if not 0.5 < level < 1:
        raise UsageError(f"level {level} is not between 0.5 and 1", "the usual level is 0.95")
    if margin is None:
        margin = study.margin if metric_name == study.metric else metric_info.margin
    statistic_name = statistic or metric_info.default_statistic
    values = trial_values(data.trials, data.measurements, metric_name, statistic_name)
    if statistic_name == SETTLED and data.samples is not None:
        values["value"] = values["trial"].map(settled_rates(data.samples, metric_name))
    short = diagnostics.short_tails(data, values["trial"], metric_name, statistic_name)
    values["value"] = values["value"].mask(short)
    every_trial = with_causes(data).assign(
        at_ceiling=["offered_ceiling" in gates for gates in data.trials["gates"]], moving=rate_moving(data)
    )
    trials = trials_telling(every_trial, metric_name)
    trials = trials.assign(short_tail=trials["trial"].isin(values.loc[short, "trial"]))
    values = values.assign(valid=usable_mask(values))
    arms = {*treatments_of(data), baseline_name}
    errors = error_counts.count_errors(data.trials, data.measurements, arms)
    refusals = {}
    if data.problems is not None:
        refusals = error_counts.find_refusals(every_trial, data.measurements, data.problems, arms)
    own_metric = metric_name == study.metric
    blocks = data.plan.mode.blocks_telling(data.plan, metric_name)
    declares = not baseline and (own_metric or study.contrasts == "adjacent")
    return AnalysisSpec(
        study=study,
        baseline=baseline_name,
        metric=metric_name,
        statistic=statistic_name,
        margin=margin,
        level=level,
        better=direction(metric_name),
        values=values,
        trials=trials,
        errors=errors,
        planned_blocks=blocks.number or None,
        execution=blocks.execution,
        contrasts=study.contrasts if declares else "baseline",
        hypothesis=study.hypothesis if own_metric else "difference",
        refusals=refusals,
    )


def apply_stopping_rule(data: RunTables, spec: AnalysisSpec) -> AnalysisSpec:
    """Return the settings with the stopping rule's level and blocks; UsageError if it forbids the given level."""
    blocks = data.plan.mode.blocks_telling(data.plan, spec.metric)
    if blocks.is_fixed:
        return replace(spec, stopping_state=results.StoppingState(level=spec.level, blocks=spec.planned_blocks))
    last_block = int(data.trials["block"].max()) if len(data.trials) else 0
    last_is_complete = int((data.trials["block"] == last_block).sum()) >= len(treatments_of(data))
    started_blocks = max(0, last_block - blocks.before)
    state = compute_stopping_state(
        spec.study.stopping,
        started=started_blocks,
        complete=started_blocks if last_is_complete else max(0, started_blocks - 1),
        planned=spec.planned_blocks,
        added=data.plan.added,
        level=spec.level,
    )
    return replace(spec, level=state.level, planned_blocks=state.blocks, stopping_state=state)


def analyse(
    data: RunTables,
    *,
    baseline: str | None = None,
    metric: str | None = None,
    statistic: str | None = None,
    margin: float | None = None,
    level: float = 0.95,
    limited: bool = True,
) -> results.Analysis:
    """Compare the treatments of a study on one metric.

    Parameters
    ----------
    baseline, metric, margin (ratio) : default: those of the study (for another metric, that metric's margin).
    statistic : statistic of the metric, such as "p99"; default: the usual one of the metric.
    level : confidence level of the intervals, such as 0.95.
    limited : whether a wide A/A arm limits the verdicts on single treatments (`Analysis.resolution`). False for what
        is judged on the whole and asks for a narrower A/A arm: build gates, claims, factors, runs beside each other.

    Returns
    -------
    Rows in display order: baseline, treatments by verdict and size of the effect, checks. Comparisons use only trials
    with status ok that no validity rule excluded; errors are counted in all trials that have a report.

    Raises
    ------
    UsageError : an unknown baseline or metric, or a level out of range.
    """
    spec = apply_stopping_rule(data, resolve_spec(data, baseline, metric, statistic, margin, level))
    checks = {name: t.check for name, t in spec.study.treatments.items() if t.check}
    names = treatments_of(data)
    treatments = [name for name in names if name != spec.baseline and name not in checks]
    comparisons = _compare_treatments(spec, treatments)
    rows = [_build_row(spec, c.treatment, "treatment", _with_planned_blocks(spec, c)) for c in comparisons.comparisons]
    check_names = [name for name in names if name in checks and name != spec.baseline]
    control_rows = {name: _control_row(spec, name) for name in check_names if checks[name] == "control"}
    half_width_limit = aa_half_width_limit(aa_margin(spec.margin, spec.metric), control_rows.values())
    check_rows = [control_rows.get(name) or _aa_row(spec, name, half_width_limit) for name in check_names]
    if any(row.kind == "aa" and row.check_state == "failed" for row in check_rows):
        rows = [_invalidated(row) for row in rows]
    resolution = results.find_resolution(check_rows)
    limit = limit_to_resolution if limited else drop_forecast
    rows = [replace(r, verdict=r.verdict and limit(r.verdict, resolution)) for r in rows]
    causes = sum((arm.exclusion_causes for arm in spec.arms.values()), Counter[ExclusionCause]())
    reference_row = _build_row(spec, comparisons.reference, "baseline", None)
    rows = [reference_row, *_with_common_decimals(rows), *_with_common_decimals(check_rows)]
    analysis = results.Analysis(
        baseline=reference_row.treatment,
        metric=spec.metric,
        statistic=spec.statistic,
        margin=spec.margin,
        level=spec.level,
        rows=tuple(_sorted_rows(rows, spec.contrasts)),
        planned_blocks=spec.planned_blocks or spec.study.blocks,
        stopping_state=spec.stopping_state,
        contrasts=spec.contrasts,
        hypothesis=spec.hypothesis,
        driver_saturated_share=_saturated_share(data),
        limited=limited,
        unfinished=unfinished_text(data),
        exclusions=results.Exclusions(exclusion_text(causes), causes.most_common(1)[0][0].remedy) if causes else None,
        block_s=_typical_block_s(data.trials),
    )
    best = NO_BEST_ARM if analysis.is_void else _find_best_arm(spec, analysis, comparisons.best_arm)
    return replace(analysis, best=best.best, tied_with_best=best.tied, ties_beat_rest=best.ties_beat_rest)


def _compare_treatments(spec: AnalysisSpec, treatments: list[str]) -> DeclaredComparisons:
    return compare_declared(
        spec.values,
        spec.baseline,
        treatments,
        spec.contrasts,
        better=spec.better,
        comparable=lambda c: _invalid_reason(spec, _with_planned_blocks(spec, c)) is None,
        **spec.options,
    )


def _with_planned_blocks(spec: AnalysisSpec, comparison: results.Comparison) -> results.Comparison:
    """Count planned blocks that did not run as incomplete: a verdict needs all blocks of the plan or look."""
    missing, state = (spec.planned_blocks or 0) - comparison.blocks, spec.stopping_state
    return replace(
        comparison,
        excluded=max(comparison.excluded, missing),
        interim_analysis=state.interim_analysis,
        added_blocks=state.added_blocks,
        execution=spec.execution,
    )


def _build_row(
    spec: AnalysisSpec, name: str, kind: results.RowKind, comparison: results.Comparison | None
) -> results.AnalysisRow:
    reference, reference_label, verdict = comparison.baseline if comparison else None, None, None
    if reference and kind == "treatment" and spec.contrasts != "baseline":
        reference_label = spec.study.label(reference)
    if comparison:
        hypothesis: results.Hypothesis = spec.hypothesis if kind == "treatment" else "difference"
        invalid = _invalid_reason(spec, comparison, reference_label)
        verdict = decide_verdict(comparison, spec.margin, spec.better, reason=invalid, hypothesis=hypothesis)
    own = spec.values[spec.values["treatment"] == name]
    level, half_width = _median_and_half_width(own.loc[own["valid"], "value"].dropna(), spec.level)
    treatment = spec.study.treatments[name]
    return results.AnalysisRow(
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


def _invalid_reason(
    spec: AnalysisSpec, comparison: results.Comparison, reference_label: str | None = None
) -> str | None:
    if spec.stopping_state.pending_reason:
        return spec.stopping_state.pending_reason
    errors = _error_summary(spec, comparison.treatment, comparison.baseline)
    arms = (comparison.treatment, comparison.baseline)
    own, other = (spec.study.workload_of(name).model_dump() for name in arms)
    varied = {name for name, value in own.items() if value != other[name]}  # by the study itself
    own_trials, base_trials = (spec.arms[name] for name in arms)
    return invalid_reason(own_trials, base_trials, comparison, errors, varied, reference_label or BASELINE_TEXT)


def _error_summary(spec: AnalysisSpec, name: str, reference: str | None) -> results.ErrorSummary:
    summary = error_counts.summarise_errors(name, spec.errors[name], spec.errors[reference] if reference else None)
    return replace(summary, refusal=spec.refusals.get(name))


def _aa_row(spec: AnalysisSpec, name: str, half_width_limit: float) -> results.AnalysisRow:
    original = spec.study.repeated_treatment(name) or spec.study.baseline
    row = _build_row(spec, name, "aa", _compare_with_reference(spec, name, original))
    state = aa_state(row.verdict, spec.study.validity.aa_p, aa_margin(spec.margin, spec.metric))
    return replace(row, check_state=state, half_width_limit=half_width_limit)


def _control_row(spec: AnalysisSpec, name: str) -> results.AnalysisRow:
    row = _build_row(spec, name, "control", _compare_with_reference(spec, name, spec.study.baseline_of(name)))
    return replace(row, check_state=control_state(row.verdict, _expected_sign(spec, name), row.expected_effect))


def _compare_with_reference(spec: AnalysisSpec, name: str, reference: str) -> results.Comparison:
    return _with_planned_blocks(spec, compare(spec.values, name, reference, **spec.options))


def _expected_sign(spec: AnalysisSpec, name: str) -> int | None:
    """Return the sign that a control's effect must have on this metric; None if the study expects none."""
    treatment = spec.study.treatments[name]
    if treatment.expect:
        return 1 if (treatment.expect == "better") == (spec.better == "higher") else -1
    if not treatment.expect_effect:
        return None
    same_direction = direction(spec.study.metric) == spec.better
    return 1 if (treatment.expect_effect > 0) == same_direction else -1


def _invalidated(row: results.AnalysisRow) -> results.AnalysisRow:
    if row.verdict is None or row.verdict.kind == "invalid":
        return row
    reason = "the A/A arm differs from the baseline"
    return replace(row, verdict=results.Verdict("invalid", row.verdict.comparison, row.verdict.margin, reason=reason))


def _with_common_decimals(rows: list[results.AnalysisRow]) -> list[results.AnalysisRow]:
    digits = common_decimals(r.verdict.comparison for r in rows if r.verdict and r.verdict.kind != "invalid")
    return [replace(r, verdict=replace(r.verdict, decimals=digits)) if r.verdict else r for r in rows]


def _median_and_half_width(values: pd.Series, confidence: float) -> tuple[float | None, float | None]:
    """Return the median of values and the half-width of the t interval of their mean, in the metric's unit."""
    if values.empty:
        return None, None
    if len(values) < 2:
        return float(values.median()), None
    from scipy.stats import t

    error = float(values.std(ddof=1)) / math.sqrt(len(values))
    return float(values.median()), float(t.ppf((1 + confidence) / 2, len(values) - 1)) * error


def _sorted_rows(rows: list[results.AnalysisRow], contrasts: results.Contrasts) -> list[results.AnalysisRow]:
    """Sort rows: baseline, treatments by verdict and size (adjacent ones in study order), A/A arms, controls."""
    kinds = ("baseline", "treatment", "aa", "control")

    def key(row: results.AnalysisRow) -> tuple[int, int, float]:
        if row.kind != "treatment" or row.verdict is None or contrasts == "adjacent":
            return kinds.index(row.kind), 0, 0.0
        log_effect = abs(math.log1p(row.verdict.comparison.effect or 0.0))
        return kinds.index(row.kind), results.VERDICT_ORDER.index(row.verdict.kind), -log_effect

    return sorted(rows, key=key)


def _find_best_arm(spec: AnalysisSpec, analysis: results.Analysis, declared: BestArm | None) -> BestArm:
    """Find the best arm among the baseline and the treatments that could be compared with it, unless it is declared.

    In a limited run with a resolution it is known only where treatments are compared with it.
    """
    kinds = {r.treatment: r.verdict.kind for r in analysis.of_kind("treatment") if r.verdict}
    arms = [spec.baseline, *(name for name, kind in kinds.items() if kind != "invalid")]
    rule, level = spec.stopping_state.rule, spec.level
    best = declared or find_best_arm(spec.values, arms, spec.baseline, better=spec.better, level=level, rule=rule)
    if not analysis.limited or analysis.resolution is None:
        return best
    if analysis.contrasts != "best" or not (best.best or best.tied):
        return NO_BEST_ARM
    tied = [name for name, kind in kinds.items() if kind not in ("worse", "invalid")]
    return BestArm(None, (analysis.baseline, *tied), False) if tied else best


def analyse_strata(
    data: RunData,
    *,
    baseline: str | None = None,
    metric: str | None = None,
    statistic: str | None = None,
    level: float = 0.95,
    fixed: bool = False,
    limited: bool = True,
) -> results.Analysis:
    """Analyse each stratum (condition) of a run on its own, and return all rows in one analysis.

    If `baseline` is given, treatments of all strata are compared with it. `fixed` compares with the study's baseline
    also where the study declares contrasts "best", whose reference differs from run to run. `limited`: see `analyse`.
    """
    analyses = {}
    for name, stratum in ({"": data} if baseline else strata_of(data)).items():
        stratum_baseline = stratum.study.baseline if fixed and stratum.study.contrasts == "best" else None
        analyses[name] = analyse(
            stratum,
            baseline=baseline or stratum_baseline,
            metric=metric,
            statistic=statistic,
            level=level,
            limited=limited,
        )
    return combine_strata(analyses) if len(analyses) > 1 else next(iter(analyses.values()))


def combine_strata(analysis_by_level: dict[str, results.Analysis]) -> results.Analysis:
    """Return one analysis with the rows of all strata (keys: their levels, which are put before the rows' labels)."""
    analyses = list(analysis_by_level.values())
    rows = tuple(
        replace(row, label=f"{level}: {row.label}") if level else row
        for level, analysis in analysis_by_level.items()
        for row in analysis.rows
    )
    return replace(
        analyses[0],
        rows=rows,
        best=None,
        tied_with_best=(),
        driver_saturated_share=max((a.driver_saturated_share or 0.0 for a in analyses), default=None),
    )


def _typical_block_s(trials: pd.DataFrame) -> float | None:
    """Return the median time in seconds from the start of a block to that of the next; None without such times."""
    if "measures" in trials:
        trials = trials[trials["measures"] != "latencies"]
    starts = trials.reindex(columns=["block", "started"]).groupby("block")["started"].min().diff().iloc[1:]
    return float(starts.median()) if len(starts) and bool((starts > 0).all()) else None


def _saturated_share(data: RunTables) -> float | None:
    """Return the share of the trials in which a driver was at its limit; None if problems were not recorded."""
    problems, trials = data.problems, data.trials["trial"]
    if problems is None or not len(trials):
        return None
    saturated = (problems["name"] == SATURATION_RULE) & problems["level"].isin(["invalid", "doubt"])
    return float(trials.isin(problems.loc[saturated, "trial"].dropna()).mean())
