"""The analysis of a factorial run: the effect of every factor and pair, and trials with errors by factor and pair."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from loadbook.analyses.factorial.contrasts import (
    PooledEffect,
    block_contrasts,
    cell_means,
    compare_effects,
    fit_pooled_effects,
    significant_higher_order,
)
from loadbook.stats.analyse import AnalysisSpec, analyse, resolve_spec
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.errors import ALPHA, zero_error_upper_bound
from loadbook.stats.errors import errors_by_block as failing_trials
from loadbook.stats.paired_tests import FloatArray, adjust_holm, complete_blocks, effect_from_log
from loadbook.stats.results import VERDICT_ORDER, Analysis, AnalysisRow, Comparison, ErrorSummary, Interval, Verdict
from loadbook.stats.text import common_decimals
from loadbook.stats.verdict import decide_verdict, excludes_zero
from loadbook.store.tables import RunTables
from loadbook.study.factorial import FactorialDesign, factorial_design, level_labels, switch_label

MISSING_COMBINATIONS = "the run holds {there} of the {all} combinations, and a factorial needs all of them"
POOLED_DISAGREES = (
    "with the scatter pooled over all effects its interval {does} 0; combinations may scatter differently"
)
INCOMPLETE_BLOCKS = "blocks left out, in which not all {cells} combinations count: {blocks}"


@dataclass(frozen=True)
class FactorialEffect:
    """One main effect (one name) or pair (two): its verdict, and the pooled analysis beside it.

    `aliases` are the effects that this design cannot tell from it. `pooled` has ratios minus 1, like the verdict.
    """

    names: tuple[str, ...]
    label: str
    aliases: tuple[str, ...]
    verdict: Verdict
    pooled: PooledEffect | None = None

    @property
    def pooled_agrees(self) -> bool:
        """Whether both analyses exclude 0, or neither does."""
        own = self.verdict.comparison.ci95
        return own is None or self.pooled is None or excludes_zero(own) == excludes_zero(self.pooled.interval)


@dataclass(frozen=True)
class FactorLabels:
    """The name of a factor or group for readers, and both of its levels on an axis."""

    label: str
    low: str
    high: str


@dataclass(frozen=True)
class InteractionPlot:
    """Two crossed factors.

    `cell_means`: levels of both (high or not) -> value of the metric with its interval within blocks.
    `conditional_effects`: whether the second is high -> effect of the first then, a ratio minus 1, with its interval.
    """

    effect: FactorialEffect
    cell_means: Mapping[tuple[bool, bool], tuple[float, Interval]]
    conditional_effects: Mapping[bool, tuple[float, Interval | None]]


@dataclass(frozen=True)
class FactorialAnalysis:
    """The answer to a factorial study: `main_effects` and `interactions` in the order in which pages list them.

    `analysis` has the main effects as rows of a usual analysis, with the baseline, the A/A arm and the known effect.
    `adjustment` is the method by which p was adjusted for all effects together. `higher_order` names significant
    effects of three and more factors, which the design supposes to be negligible.
    """

    design: FactorialDesign
    factor_labels: Mapping[str, FactorLabels]
    analysis: Analysis
    main_effects: tuple[FactorialEffect, ...]
    interactions: tuple[FactorialEffect, ...]
    interaction_plots: tuple[InteractionPlot, ...]
    blocks: int
    adjustment: str
    higher_order: tuple[str, ...] = ()

    @property
    def effects(self) -> tuple[FactorialEffect, ...]:
        """All effects, main effects first."""
        return self.main_effects + self.interactions

    @property
    def trials(self) -> int:
        """Trials that the effects rest on."""
        return self.blocks * len(self.design.cells)


def one_factor_at_a_time_trials(design: FactorialDesign, trials: int) -> int:
    """Return how many trials give the same certainty about main effects one factor at a time.

    A factorial uses all its trials for every effect: variance 4 s^2 / trials. One at a time, each arm of k + 1 is
    compared with the baseline: 2 s^2 / blocks.
    """
    return math.ceil(trials / 2) * (len(design.names) + 1)


def analyse_factorial(
    data: RunTables, *, metric: str | None = None, level: float = 0.95, margin: float | None = None
) -> FactorialAnalysis | None:
    """Answer a factorial study on one metric; None for a study without [factorial].

    Only blocks count in which every combination has a valid value. p is adjusted for all effects together: from 8
    blocks step-down over relabellings that the random order within blocks allows, below by Holm.
    """
    study = data.study
    if study.factorial is None:
        return None
    base = analyse(data, metric=metric, level=level, margin=margin)
    spec, design = resolve_spec(data, None, metric, None, margin, level), factorial_design(study.factorial)
    cells = design.cell_by_treatment(study.baseline)
    rows = spec.values[spec.values["treatment"].isin(list(cells))]
    table = complete_blocks(rows, list(cells))
    logs = np.log(table.to_numpy(float))
    excluded = max(spec.planned_blocks or 0, rows["block"].nunique()) - len(table)
    flags = (INCOMPLETE_BLOCKS.format(blocks=excluded, cells=len(cells)),) if excluded else ()
    comparisons = compare_effects(
        design, logs, spec.level, baseline=spec.baseline, metric=spec.metric, statistic=spec.statistic,
        excluded=excluded, flags=flags, added_blocks=base.stopping_state.added_blocks,
    )  # fmt: skip
    reason = _no_analysis_reason(base, cells)
    effects = _factorial_effects(spec, design, comparisons, _pooled_ratios(design, logs, spec.level), reason)
    main_effects, interactions = (tuple(e for e in effects if len(e.names) == n) for n in (1, 2))
    main_rows = (*base.of_kind("baseline"), *map(effect_row, main_effects), *base.of_kind("aa", "control"))
    return FactorialAnalysis(
        design=design,
        factor_labels={n: FactorLabels(switch_label(study, n), *level_labels(study, n)) for n in design.names},
        analysis=replace(base, rows=main_rows, best=None, tied_with_best=(), ties_beat_rest=False),
        main_effects=main_effects,
        interactions=interactions,
        interaction_plots=tuple(
            InteractionPlot(e, *cell_means(design, logs, e.names, spec.level))
            for e in interactions
            if e.verdict.kind != "invalid" and e.verdict.comparison.ci95 and excludes_zero(e.verdict.comparison.ci95)
        ),
        blocks=len(logs),
        adjustment="joint step-down" if len(logs) >= MIN_RANK_BLOCKS else "Holm",
        higher_order=significant_higher_order(design, logs, spec.level) if reason is None else (),
    )


def _pooled_ratios(design: FactorialDesign, logs: FloatArray, level: float) -> list[PooledEffect | None]:
    """Return the pooled analysis of every effect as ratios minus 1; None below 5 blocks."""
    if len(logs) < MIN_BLOCKS:
        return [None] * len(design.alias_sets)
    factors = range(len(design.names))
    levels = np.array([[1.0 if cell >> k & 1 else -1.0 for k in factors] for cell in design.cells])
    terms = [[k for k in factors if alias_set[0] >> k & 1] for alias_set in design.alias_sets]
    return [
        PooledEffect(effect_from_log(p.estimate), (effect_from_log(p.interval[0]), effect_from_log(p.interval[1])), p.p)
        for p in fit_pooled_effects(logs, levels, terms, level)
    ]


def _no_analysis_reason(base: Analysis, cells: Mapping[str, int]) -> str | None:
    """Return why the run has no answer: the A/A arm differs, or a combination is missing or not comparable."""
    rows = {row.treatment: row for row in base.rows}
    missing = [name for name in cells if name not in rows]
    if missing:
        return MISSING_COMBINATIONS.format(there=len(cells) - len(missing), all=len(cells))
    own = (rows[name] for name in cells)
    invalid = (row for row in own if row.verdict and row.verdict.kind == "invalid")
    return next((row.verdict.reason if base.is_void else f"{row.label}: {row.verdict.reason}"
                 for row in invalid if row.verdict), None)  # fmt: skip


def _factorial_effects(
    spec: AnalysisSpec,
    design: FactorialDesign,
    comparisons: Sequence[Comparison],
    pooled: Sequence[PooledEffect | None],
    reason: str | None,
) -> list[FactorialEffect]:
    effects, decimals = [], common_decimals(comparisons)
    for alias_set, comparison, pooled_effect in zip(design.alias_sets, comparisons, pooled, strict=True):
        names = design.switch_names(alias_set[0])
        label = switch_label(spec.study, names[0]) if len(names) == 1 else design.effect_name(alias_set[0])
        verdict = replace(decide_verdict(comparison, spec.margin, spec.better, reason=reason), decimals=decimals)
        aliases = tuple(design.effect_name(e) for e in alias_set[1:])
        effect = FactorialEffect(names, label, aliases, verdict, pooled_effect)
        if not effect.pooled_agrees:
            does = "excludes" if pooled_effect and excludes_zero(pooled_effect.interval) else "does not exclude"
            flags = (*comparison.flags, POOLED_DISAGREES.format(does=does))
            verdict = replace(verdict, comparison=replace(verdict.comparison, flags=flags))
            effect = replace(effect, verdict=verdict)
        effects.append(effect)
    return sorted(effects, key=_effect_sort_key)


def _effect_sort_key(effect: FactorialEffect) -> tuple[int, int, float]:
    verdict = effect.verdict
    return len(effect.names), VERDICT_ORDER.index(verdict.kind), -abs(math.log1p(verdict.comparison.effect or 0.0))


def effect_row(effect: FactorialEffect) -> AnalysisRow:
    """Return an effect as a row of an analysis; its errors are counted by `count_factorial_errors`."""
    name = effect.verdict.comparison.treatment
    return AnalysisRow(
        name, effect.label, "treatment", None, None, 0, 0, effect.verdict, ErrorSummary(name, 0, 0, 0, 0, {})
    )


Levels = tuple[bool, ...]


@dataclass(frozen=True)
class ErrorEffect:
    """One factor or pair: trials with errors and all trials, by whether each of its factors is high.

    `p` is adjusted for all effects (Holm). "fewer" of a pair: fewer together than each alone would give.
    """

    names: tuple[str, ...]
    trials_with_errors: Mapping[Levels, tuple[int, int]]
    p: float
    kind: Literal["more", "fewer", "undecided"]


@dataclass(frozen=True)
class FactorialErrors:
    """Errors of a factorial run; `effects` is empty if no trial had any.

    `upper_share` is then the upper bound of the share of trials with errors among those with a factor high.
    """

    trials: int
    trials_with_errors: int
    blocks: int
    upper_share: float | None
    effects: tuple[ErrorEffect, ...] = ()


def count_factorial_errors(data: RunTables) -> FactorialErrors | None:
    """Count trials with errors by factor and pair; None without [factorial] or without any count of errors.

    "A brings errors and B removes them" is a claim about a pair: each block gives one contrast of trials with errors,
    of which only the sign is used (exact sign test). Trials that a validity rule excluded from the rates count, too; a
    block needs all combinations.
    """
    study = data.study
    if study.factorial is None:
        return None
    design = factorial_design(study.factorial)
    cells = list(design.cell_by_treatment(study.baseline))
    failed = failing_trials(data.trials, data.measurements, cells).to_numpy(float)
    if not failed.size:
        return None
    trials, trials_with_errors = failed.size, int(failed.sum())
    if not trials_with_errors:
        return FactorialErrors(trials, 0, len(failed), zero_error_upper_bound(trials // 2))
    return FactorialErrors(trials, trials_with_errors, len(failed), None, tuple(_error_effects(design, failed)))


def _error_effects(design: FactorialDesign, failed: FloatArray) -> list[ErrorEffect]:
    from scipy.stats import binomtest

    contrasts = block_contrasts(design, failed)
    signs = [(int((row > 1e-9).sum()), int((row < -1e-9).sum())) for row in contrasts]
    adjusted = adjust_holm([float(binomtest(up, up + down).pvalue) if up + down else 1.0 for up, down in signs])
    effects = []
    for alias_set, (up, down), p in zip(design.alias_sets, signs, adjusted, strict=True):
        kind: Literal["more", "fewer", "undecided"] = "undecided"
        if p < ALPHA:
            kind = "more" if up > down else "fewer"
        names = design.switch_names(alias_set[0])
        columns = [design.names.index(name) for name in names]
        levels = [tuple(bool(cell >> k & 1) for k in columns) for cell in design.cells]
        counts = {}
        for level in dict.fromkeys(levels):
            own = failed[:, [cell_levels == level for cell_levels in levels]]
            counts[level] = (int(own.sum()), own.size)
        effects.append(ErrorEffect(names, counts, p, kind))
    return effects
