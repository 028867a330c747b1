"""One run of a factorial study -> the effect of every factor and of every pair (statistics.md 3.6).

Each effect is one contrast per block (mean of the combinations with + less mean of those with -), so that its blocks
are judged like any paired difference: Student's t for 5 to 7 blocks, signed ranks from 8. A main effect is the change
from low to high with all else averaged; a pair's is the change that one factor's effect undergoes when the other is
high. Effects are ratios minus 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from loadbook.design.factorial import FactorialDesign, factorial_design, level_labels, switch_label
from loadbook.stats.analyse import analyse
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.factorial.anova import PooledEffect, fit_pooled_effects
from loadbook.stats.factorial.corners import cell_means
from loadbook.stats.factorial.effect_tests import compare_effects, significant_higher_order
from loadbook.stats.pairs import complete_blocks, effect_from_log
from loadbook.stats.question import AnalysisSpec, RunTables, resolve_spec
from loadbook.stats.result import VERDICT_ORDER, Analysis, Comparison, ErrorSummary, Interval, AnalysisRow, Verdict
from loadbook.stats.swaps import FloatArray
from loadbook.stats.verdict import decide_verdict, excludes_zero
from loadbook.stats.wording.shown import common_decimals

if TYPE_CHECKING:
    from loadbook.design.study import Study

MISSING_COMBINATIONS = "the run holds {there} of the {all} combinations, and a factorial needs all of them"
POOLED_DISAGREES = "with the scatter pooled over all effects its interval {does} 0; combinations may scatter differently"
INCOMPLETE_BLOCKS = "blocks left out, in which not all {cells} combinations count: {blocks}"


@dataclass(frozen=True)
class FactorialEffect:
    """One main effect (one name) or pair (two): what may be said of it, and the pooled analysis beside it.

    `aliases` are the effects that this design cannot tell from it. `pooled` holds ratios minus 1, like the verdict.
    """

    names: tuple[str, ...]
    label: str
    aliases: tuple[str, ...]
    verdict: Verdict
    pooled: PooledEffect | None = None

    @property
    def pooled_agrees(self) -> bool:
        """Whether both analyses say alike whether 0 is excluded."""
        own = self.verdict.comparison.ci95
        return own is None or self.pooled is None or excludes_zero(own) == excludes_zero(self.pooled.interval)


@dataclass(frozen=True)
class FactorLabels:
    """How readers meet a factor or group: what its high level is called, and both levels as an axis has them."""

    label: str
    low: str
    high: str


@dataclass(frozen=True)
class InteractionPlot:
    """Where two factors meet.

    `cell_means`: levels of both (high or not) -> value of the metric with its interval within blocks. `conditional_effects`: whether the
    second is high -> what the first does then, ratio minus 1, with its interval.
    """

    effect: FactorialEffect
    cell_means: Mapping[tuple[bool, bool], tuple[float, Interval]]
    conditional_effects: Mapping[bool, tuple[float, Interval | None]]


@dataclass(frozen=True)
class FactorialAnalysis:
    """The answer to a factorial study: `main_effects` and `interactions` in the order in which they are shown.

    `analysis` holds the main effects as rows of a usual analysis, with the baseline and the checks of the laboratory,
    so that whatever shows one can show them. `adjustment` says how p was adjusted for all effects together. `higher_order` names
    effects of three and more factors that are shown, against what the design supposes.
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
    """Return how many trials give the same certainty about main effects one factor at a time (statistics.md 3.1).

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
    logs, excluded = _complete_block_logs(spec, list(cells))
    flags = (INCOMPLETE_BLOCKS.format(blocks=excluded, cells=len(cells)),) if excluded else ()
    comparisons = compare_effects(
        design, logs, spec.level, baseline=spec.baseline, metric=spec.metric, statistic=spec.statistic,
        excluded=excluded, flags=flags, added_blocks=base.stopping_state.added_blocks,
    )  # fmt: skip
    effects = _factorial_effects(spec, design, comparisons, _pooled_ratios(design, logs, spec.level), _no_analysis_reason(base, cells))
    main_effects, interactions = ([e for e in effects if len(e.names) == n] for n in (1, 2))
    return FactorialAnalysis(
        design=design,
        factor_labels={name: _factor_labels(study, name) for name in design.names},
        analysis=replace(base, rows=_rows_with_main_effects(base, main_effects), best=None, tied_with_best=(), ties_beat_rest=False),
        main_effects=tuple(main_effects),
        interactions=tuple(interactions),
        interaction_plots=tuple(InteractionPlot(e, *cell_means(design, logs, e.names, spec.level)) for e in interactions if _excludes_zero(e)),
        blocks=len(logs),
        adjustment="joint step-down" if len(logs) >= MIN_RANK_BLOCKS else "Holm",
        higher_order=significant_higher_order(design, logs, spec.level) if _no_analysis_reason(base, cells) is None else (),
    )


def _factor_labels(study: Study, name: str) -> FactorLabels:
    return FactorLabels(switch_label(study, name), *level_labels(study, name))


def _complete_block_logs(spec: AnalysisSpec, treatments: list[str]) -> tuple[FloatArray, int]:
    """Return logs of values, complete blocks by combinations, and how many blocks of the plan are not complete."""
    rows = spec.values[spec.values["treatment"].isin(treatments)]
    table = complete_blocks(rows, treatments)
    planned = max(spec.planned_blocks or 0, rows["block"].nunique())
    return np.log(table.to_numpy(float)), planned - len(table)


def _pooled_ratios(design: FactorialDesign, logs: FloatArray, level: float) -> list[PooledEffect | None]:
    """Return the pooled analysis of every effect as ratios minus 1; None below 5 blocks."""
    if len(logs) < MIN_BLOCKS:
        return [None] * len(design.alias_sets)
    factors = range(len(design.names))
    levels = np.array([[1.0 if cell >> k & 1 else -1.0 for k in factors] for cell in design.cells])
    terms = [[k for k in factors if alias_set[0] >> k & 1] for alias_set in design.alias_sets]
    pooled_logs = fit_pooled_effects(logs, levels, terms, level)
    return [PooledEffect(effect_from_log(p.estimate), (effect_from_log(p.interval[0]), effect_from_log(p.interval[1])), p.p) for p in pooled_logs]


def _no_analysis_reason(base: Analysis, cells: Mapping[str, int]) -> str | None:
    """Return why the run answers nothing: the laboratory, a combination that is not there or not comparable."""
    rows = {row.treatment: row for row in base.rows}
    missing = [name for name in cells if name not in rows]
    if missing:
        return MISSING_COMBINATIONS.format(there=len(cells) - len(missing), all=len(cells))
    own = (rows[name] for name in cells)
    invalid = (row for row in own if row.verdict and row.verdict.kind == "invalid")
    return next((row.verdict.reason if base.aa_failure else f"{row.label}: {row.verdict.reason}"
                 for row in invalid if row.verdict), None)  # fmt: skip


def _factorial_effects(
    spec: AnalysisSpec,
    design: FactorialDesign,
    comparisons: Sequence[Comparison],
    pooled: Sequence[PooledEffect | None],
    reason: str | None,
) -> list[FactorialEffect]:
    effects = []
    for alias_set, comparison, pooled_effect in zip(design.alias_sets, comparisons, pooled, strict=True):
        names = design.switch_names(alias_set[0])
        label = switch_label(spec.study, names[0]) if len(names) == 1 else design.effect_name(alias_set[0])
        effect = FactorialEffect(names, label, tuple(design.effect_name(e) for e in alias_set[1:]),
                        decide_verdict(comparison, spec.margin, spec.better, reason=reason), pooled_effect)  # fmt: skip
        effects.append(effect if effect.pooled_agrees else _with_disagreement_flag(effect))
    return [_with_decimals(e, common_decimals(c for c in comparisons)) for e in sorted(effects, key=_effect_sort_key)]


def _with_disagreement_flag(effect: FactorialEffect) -> FactorialEffect:
    does = "excludes" if effect.pooled and excludes_zero(effect.pooled.interval) else "does not exclude"
    comparison = effect.verdict.comparison
    flagged = replace(comparison, flags=(*comparison.flags, POOLED_DISAGREES.format(does=does)))
    return replace(effect, verdict=replace(effect.verdict, comparison=flagged))


def _with_decimals(effect: FactorialEffect, decimals: int | None) -> FactorialEffect:
    return replace(effect, verdict=replace(effect.verdict, decimals=decimals))


def _effect_sort_key(effect: FactorialEffect) -> tuple[int, int, float]:
    verdict = effect.verdict
    return len(effect.names), VERDICT_ORDER.index(verdict.kind), -abs(math.log1p(verdict.comparison.effect or 0.0))


def _excludes_zero(effect: FactorialEffect) -> bool:
    """Whether a pair's interval excludes 0, whatever the family says: worth a picture."""
    interval = effect.verdict.comparison.ci95
    return effect.verdict.kind != "invalid" and interval is not None and excludes_zero(interval)


def _rows_with_main_effects(base: Analysis, main_effects: Sequence[FactorialEffect]) -> tuple[AnalysisRow, ...]:
    return (*base.of_kind("baseline"), *map(effect_row, main_effects), *base.of_kind("aa", "control"))


def effect_row(effect: FactorialEffect) -> AnalysisRow:
    """Return an effect as the row of an analysis, for what draws rows; its errors are counted elsewhere."""
    name = effect.verdict.comparison.treatment
    return AnalysisRow(name, effect.label, "treatment", None, None, 0, 0, effect.verdict, ErrorSummary(name, 0, 0, 0, 0, {}))
