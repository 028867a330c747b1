"""The textbook's analysis of a factorial in blocks: one scatter pooled over all effects (statistics.md 3.6).

It is sharper than per-block contrasts where every combination scatters alike, and wrong where they do not.

Which factor, or which pair, brings errors: trials with any error, contrasted within blocks (statistics.md 3.7).

"A brings errors and B removes them" is a claim about a pair: each block gives one number, the trials with errors that
the combinations with + have more than those with -, and only its sign is used (exact sign test).

The contrasts of a factorial and their tests: one number per effect and block, p for all effects together.

Where two factors of a factorial meet: the metric at both levels of both, and what the first does at each.

One run of a factorial study -> the effect of every factor and of every pair (statistics.md 3.6).

Each effect is one contrast per block (mean of the combinations with + less mean of those with -), so that its blocks
are judged like any paired difference: Student's t for 5 to 7 blocks, signed ranks from 8. A main effect is the change
from low to high with all else averaged; a pair's is the change that one factor's effect undergoes when the other is
high. Effects are ratios minus 1.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from loadbook.stats import tests
from loadbook.stats.analyse import AnalysisSpec, RunTables, analyse, resolve_spec
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.errors import ALPHA, zero_error_upper_bound
from loadbook.stats.errors import errors_by_block as failing_trials
from loadbook.stats.results import VERDICT_ORDER, Analysis, AnalysisRow, Comparison, ErrorSummary, Interval, Verdict
from loadbook.stats.tests import (
    LOG_DECIMALS,
    RESAMPLES,
    SEED,
    FloatArray,
    PairedTestResult,
    adjust_holm,
    complete_blocks,
    effect_from_log,
    effect_interval_from_logs,
    paired_t,
    signed_rank,
)
from loadbook.stats.text import common_decimals
from loadbook.stats.verdict import decide_verdict, excludes_zero
from loadbook.study import factorial
from loadbook.study.factorial import FactorialDesign, factorial_design, level_labels, switch_label

if TYPE_CHECKING:
    from loadbook.study.model import Study


@dataclass(frozen=True)
class PooledEffect:
    """One effect by least squares: log ratio, its interval, and p of the analysis of variance (type 2)."""

    estimate: float
    interval: Interval
    p: float | None


def fit_pooled_effects(
    logs: FloatArray, levels: FloatArray, effects: Sequence[Sequence[int]], level: float = 0.95
) -> list[PooledEffect]:
    """Fit log values by blocks and effects, `logy ~ C(block) + a + b + a:b + ...`.

    Parameters
    ----------
    logs : blocks by combinations, all present.
    levels : combinations by factors, +1 high and -1 low.
    effects : of each effect the columns of `levels` that it multiplies: one for a main effect, two for an interaction.

    Returns
    -------
    Main effects as high against low, interactions as the change of one factor's effect by the other.
    """
    import pandas as pd
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    blocks, cells = logs.shape
    frame = pd.DataFrame(np.tile(levels, (blocks, 1)), columns=[f"x{k}" for k in range(levels.shape[1])])
    frame = frame.assign(logy=logs.ravel(), block=np.repeat(np.arange(blocks), cells))
    terms = [":".join(f"x{k}" for k in sorted(effect)) for effect in effects]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a perfect fit, whose intervals are points
        fit = ols(f"logy ~ C(block) + {' + '.join(terms)}", frame).fit()
        tested, bounds = anova_lm(fit, typ=2), fit.conf_int(1 - level)
    effects_found = []
    for term, effect in zip(terms, effects, strict=True):
        scale, p = 2.0 ** len(effect), float(tested.loc[term, "PR(>F)"])
        low, high = (scale * float(bound) for bound in bounds.loc[term])
        effects_found.append(
            PooledEffect(scale * float(fit.params[term]), (low, high), p if math.isfinite(p) else None)
        )
    return effects_found


Levels = tuple[bool, ...]


@dataclass(frozen=True)
class ErrorEffect:
    """One factor or pair: trials with errors, and of how many, by whether each of its factors is high.

    `p` is adjusted for all effects (Holm). For a pair "fewer" means: fewer together than each alone would give.
    """

    names: tuple[str, ...]
    trials_with_errors: Mapping[Levels, tuple[int, int]]
    p: float
    kind: Literal["more", "fewer", "undecided"]


@dataclass(frozen=True)
class FactorialErrors:
    """Errors of a factorial run; `effects` is empty where no trial had any.

    `upper_share` bounds the share of trials with a factor high that could have errors although none did.
    """

    trials: int
    trials_with_errors: int
    blocks: int
    upper_share: float | None
    effects: tuple[ErrorEffect, ...] = ()


def count_factorial_errors(data: RunTables) -> FactorialErrors | None:
    """Count trials with errors by factor and pair; None without [factorial] or without any count of errors.

    All trials that reported count, also those that a gate excluded from the rates; a block needs all combinations.
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

    contrasts_by_effect = block_contrasts(design, failed)
    unadjusted = [_sign_test(row) for row in contrasts_by_effect]
    adjusted = adjust_holm(unadjusted)
    effects = []
    for alias_set, row, p in zip(design.alias_sets, contrasts_by_effect, adjusted, strict=True):
        kind: Literal["more", "fewer", "undecided"] = "undecided"
        if p < ALPHA:
            kind = "more" if np.sign(row).sum() > 0 else "fewer"
        names = design.switch_names(alias_set[0])
        effects.append(ErrorEffect(names, _error_counts_by_level(design, failed, names), p, kind))
    return effects


def _sign_test(differences: FloatArray) -> float:
    from scipy.stats import binomtest

    up, down = int((differences > 1e-9).sum()), int((differences < -1e-9).sum())
    return float(binomtest(up, up + down).pvalue) if up + down else 1.0


def _error_counts_by_level(
    design: FactorialDesign, failed: FloatArray, names: tuple[str, ...]
) -> dict[Levels, tuple[int, int]]:
    columns = [design.names.index(name) for name in names]
    levels = [tuple(bool(cell >> k & 1) for k in columns) for cell in design.cells]
    counts = {}
    for level in dict.fromkeys(levels):
        own = failed[:, [cell_levels == level for cell_levels in levels]]
        counts[level] = (int(own.sum()), own.size)
    return counts


def block_contrasts(design: FactorialDesign, logs: FloatArray, effects: Sequence[int] | None = None) -> FloatArray:
    """Return the contrast of effects (default: main effects and pairs) in every block, on the log scale."""
    chosen = _estimable_effects(design) if effects is None else effects
    signs = np.array([[factorial.effect_sign(effect, cell) for cell in design.cells] for effect in chosen], float)
    scale = np.array([2.0 ** effect.bit_count() / len(design.cells) for effect in chosen])
    return np.asarray(signs @ logs.T * scale[:, None])


def _estimable_effects(design: FactorialDesign) -> list[int]:
    return [alike[0] for alike in design.alias_sets]


def significant_higher_order(design: FactorialDesign, logs: FloatArray, level: float = 0.95) -> tuple[str, ...]:
    """Return the effects of three and more factors that are shown, although the design takes them to be negligible."""
    if not design.higher_order_effects or len(logs) < MIN_BLOCKS:
        return ()
    contrasts = block_contrasts(design, logs, design.higher_order_effects)
    adjusted = _adjusted_effect_p(
        design, contrasts, [one_sample_test(row, []).p for row in contrasts], design.higher_order_effects
    )
    return tuple(
        design.shortest_alias_names(e)
        for e, p in zip(design.higher_order_effects, adjusted, strict=True)
        if p < 1 - level
    )


def compare_effects(design: FactorialDesign, logs: FloatArray, level: float = 0.95, **common: Any) -> list[Comparison]:
    """Test every effect of a design.

    Parameters
    ----------
    logs : complete blocks by combinations, in the design's order.
    common : what all comparisons share: baseline, metric, statistic, excluded, flags.
    """
    contrasts = block_contrasts(design, logs)
    names = [design.effect_name(alike[0]) for alike in design.alias_sets]
    comparisons = [
        _effect_comparison(d, level, len(contrasts), treatment=n, **common)
        for n, d in zip(names, contrasts, strict=True)
    ]
    if len(logs) < MIN_BLOCKS:
        return comparisons
    adjusted = _adjusted_effect_p(design, contrasts, [c.p or 0.0 for c in comparisons], _estimable_effects(design))
    return [replace(c, p_adjusted=max(p, c.p or 0.0)) for c, p in zip(comparisons, adjusted, strict=True)]


def _effect_comparison(differences: FloatArray, level: float, family: int, **common: Any) -> Comparison:
    """Return an effect as a comparison: its contrasts are paired differences with nothing else to them."""
    blocks, alpha = len(differences), 1 - level
    results: dict[str, Any] = {"method": None, "effect": None, "ci95": None, "ci90": None, "p": None}
    if blocks:
        results["effect"] = effect_from_log(float(np.median(differences)))
    if blocks >= MIN_BLOCKS:
        test = one_sample_test(differences, [alpha, 2 * alpha, alpha / family])
        ci95, ci90, family_interval = (effect_interval_from_logs(interval) for interval in test.intervals)
        method = "signed-rank" if blocks >= MIN_RANK_BLOCKS else "paired-t"
        results = {"method": method, "effect": effect_from_log(test.estimate), "ci95": ci95, "ci90": ci90, "p": test.p}
        results["ci_family"] = family_interval
    sd = float(differences.std(ddof=1)) if blocks > 1 else None
    return Comparison(blocks=blocks, level=level, family_size=family, sd_log=sd, **common, **results)


def one_sample_test(differences: FloatArray, alphas: Sequence[float]) -> PairedTestResult:
    """Test contrasts of blocks against 0: Student's t for 5 to 7 blocks, signed ranks from 8."""
    test = signed_rank if len(differences) >= MIN_RANK_BLOCKS else paired_t
    return test(np.zeros(len(differences)), differences, alphas)


def _adjusted_effect_p(
    design: FactorialDesign, contrasts: FloatArray, plain: Sequence[float], effects: Sequence[int]
) -> list[float]:
    if contrasts.shape[1] >= MIN_RANK_BLOCKS:
        return step_down_effects_p(design, contrasts, effects)
    return adjust_holm(plain)


def step_down_effects_p(
    design: FactorialDesign, contrasts: FloatArray, effects: Sequence[int] | None = None
) -> list[float]:
    """Return p-values adjusted for all effects by the largest statistic of those left (Westfall and Young).

    The order within a block was drawn, so exchanging every combination c for c + m changes nothing if nothing matters;
    it turns the signs of those effects that share an odd number of factors with m. The statistic is Student's, which,
    unlike ranks, still tells a large effect from a small one where all blocks agree. Sampled, with the +1 rule.
    """
    z = _standardised_contrasts(contrasts)
    drawn = np.random.default_rng(SEED).integers(len(design.cells), size=(RESAMPLES, contrasts.shape[1]))
    chosen = _estimable_effects(design) if effects is None else effects
    odd = np.array([[(effect & cell).bit_count() % 2 for cell in design.cells] for effect in chosen])
    relabelled = np.abs(np.stack([(1 - 2 * signs)[drawn] @ row for signs, row in zip(odd, z, strict=True)]))
    return tests.step_down_max(np.abs(z.sum(axis=1)), relabelled, exact=False)


def _standardised_contrasts(contrasts: FloatArray) -> FloatArray:
    """Return rows of length 1, of which the sum orders sign changes like Student's t does."""
    lengths = np.sqrt((contrasts**2).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(contrasts, lengths, out=np.zeros_like(contrasts), where=lengths > 10.0**-LOG_DECIMALS))


CellMeans = dict[tuple[bool, bool], tuple[float, Interval]]
ConditionalEffects = dict[bool, tuple[float, Interval | None]]


def cell_means(
    design: FactorialDesign, logs: FloatArray, names: Sequence[str], level: float = 0.95
) -> tuple[CellMeans, ConditionalEffects]:
    """Return the four combinations of two factors, and the effect of the first at each level of the second.

    Parameters
    ----------
    logs : complete blocks by combinations, in the design's order; all other factors are averaged over.

    Returns
    -------
    cell_means : (first high, second high) -> value of the metric, on the level of the whole run, with a t interval
        of what
        is left when each block's mean is taken out.
    conditional_effects : second high -> ratio minus 1, with the interval of its test.
    """
    columns = [design.names.index(name) for name in names]
    levels = [(bool(cell >> columns[0] & 1), bool(cell >> columns[1] & 1)) for cell in design.cells]
    within_blocks = logs - logs.mean(axis=1, keepdims=True)
    means = {both: within_blocks[:, [own == both for own in levels]].mean(axis=1) for both in set(levels)}
    values = {both: _mean_with_interval(own, float(logs.mean()), level) for both, own in means.items()}
    conditional_effects: ConditionalEffects = {}
    for second in (False, True):
        test = one_sample_test(means[True, second] - means[False, second], [1 - level])
        conditional_effects[second] = effect_from_log(test.estimate), effect_interval_from_logs(test.intervals[0])
    return values, conditional_effects


def _mean_with_interval(means: FloatArray, centre: float, level: float) -> tuple[float, Interval]:
    from scipy.stats import t

    half_width = float(t.ppf((1 + level) / 2, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means)))
    log_mean = float(means.mean()) + centre
    return math.exp(log_mean), (math.exp(log_mean - half_width), math.exp(log_mean + half_width))


MISSING_COMBINATIONS = "the run holds {there} of the {all} combinations, and a factorial needs all of them"
POOLED_DISAGREES = (
    "with the scatter pooled over all effects its interval {does} 0; combinations may scatter differently"
)
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

    `cell_means`: levels of both (high or not) -> value of the metric with its interval within blocks.
    `conditional_effects`: whether the
    second is high -> what the first does then, ratio minus 1, with its interval.
    """

    effect: FactorialEffect
    cell_means: Mapping[tuple[bool, bool], tuple[float, Interval]]
    conditional_effects: Mapping[bool, tuple[float, Interval | None]]


@dataclass(frozen=True)
class FactorialAnalysis:
    """The answer to a factorial study: `main_effects` and `interactions` in the order in which they are shown.

    `analysis` holds the main effects as rows of a usual analysis, with the baseline and the checks of the laboratory,
    so that whatever shows one can show them. `adjustment` says how p was adjusted for all effects together.
    `higher_order` names
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
    effects = _factorial_effects(
        spec, design, comparisons, _pooled_ratios(design, logs, spec.level), _no_analysis_reason(base, cells)
    )
    main_effects, interactions = ([e for e in effects if len(e.names) == n] for n in (1, 2))
    return FactorialAnalysis(
        design=design,
        factor_labels={name: _factor_labels(study, name) for name in design.names},
        analysis=replace(
            base, rows=_rows_with_main_effects(base, main_effects), best=None, tied_with_best=(), ties_beat_rest=False
        ),
        main_effects=tuple(main_effects),
        interactions=tuple(interactions),
        interaction_plots=tuple(
            InteractionPlot(e, *cell_means(design, logs, e.names, spec.level))
            for e in interactions
            if _excludes_zero(e)
        ),
        blocks=len(logs),
        adjustment="joint step-down" if len(logs) >= MIN_RANK_BLOCKS else "Holm",
        higher_order=significant_higher_order(design, logs, spec.level)
        if _no_analysis_reason(base, cells) is None
        else (),
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
    return [
        PooledEffect(effect_from_log(p.estimate), (effect_from_log(p.interval[0]), effect_from_log(p.interval[1])), p.p)
        for p in pooled_logs
    ]


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
    return AnalysisRow(
        name, effect.label, "treatment", None, None, 0, 0, effect.verdict, ErrorSummary(name, 0, 0, 0, 0, {})
    )
