"""The analysis of a factorial run: the effect of every factor and pair, and trials with errors by factor and pair.

Each effect has one contrast per block: the mean of the combinations with sign + minus the mean of those with sign -.
Contrasts are tested like paired differences: Student's t for 5 to 7 blocks, signed ranks from 8. A main effect is the
change from low to high, averaged over the other factors; a pair's effect is the change of one main effect by the other.

The pooled fit is the textbook analysis (least squares, one residual variance). It is more precise than contrasts per
block if all combinations scatter equally, and wrong if they do not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.stats import binomtest, t

from loadbook.stats import paired_tests
from loadbook.stats.analyse import AnalysisSpec, analyse, resolve_spec
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.errors import ALPHA, zero_error_upper_bound
from loadbook.stats.errors import errors_by_block as failing_trials
from loadbook.stats.paired_tests import FloatArray, adjust_holm, effect_from_log, effect_interval_from_logs
from loadbook.stats.results import VERDICT_ORDER, Analysis, AnalysisRow, Comparison, ErrorSummary, Interval, Verdict
from loadbook.stats.text import common_decimals
from loadbook.stats.verdict import decide_verdict, excludes_zero
from loadbook.store.tables import RunTables
from loadbook.study.designs import FactorialDesign, effect_sign, factorial_design, level_labels, switch_label


def block_contrasts(design: FactorialDesign, logs: FloatArray, effects: Sequence[int] | None = None) -> FloatArray:
    """Return an array effects x blocks of contrasts of the logs (default: of all main effects and pairs).

    `logs` is an array blocks x combinations, in the design's order. An effect is a number whose bit k is set if the
    factor `design.names[k]` belongs to it.
    """
    effects = design.effects if effects is None else effects
    signs = np.array([[effect_sign(effect, cell) for cell in design.cells] for effect in effects], float)
    scale = np.array([2.0 ** effect.bit_count() / len(design.cells) for effect in effects])
    return np.asarray(signs @ logs.T * scale[:, None])


def significant_higher_order(design: FactorialDesign, logs: FloatArray, level: float = 0.95) -> tuple[str, ...]:
    """Return names of the significant effects of three or more factors, which the design assumes to be negligible.

    `logs` is as in `compare_effects`; with fewer than 5 blocks the result is empty.
    """
    effects = design.higher_order_effects
    if not effects or len(logs) < MIN_BLOCKS:
        return ()
    contrasts = block_contrasts(design, logs, effects)
    adjusted = _adjusted_effect_p(design, contrasts, [one_sample_test(row, []).p for row in contrasts], effects)
    return tuple(design.shortest_alias_names(e) for e, p in zip(effects, adjusted, strict=True) if p < 1 - level)


def compare_effects(design: FactorialDesign, logs: FloatArray, level: float = 0.95, **common: Any) -> list[Comparison]:
    """Test every effect of a design and return one comparison per effect, in the order of `design.effects`.

    `logs` is an array complete blocks x combinations, in the design's order; `common` are fields of all comparisons.
    With fewer than 5 blocks there are no intervals and no p-values.
    """
    contrasts, effects = block_contrasts(design, logs), design.effects
    comparisons = [
        _effect_comparison(row, level, len(contrasts), treatment=design.effect_name(effect), **common)
        for effect, row in zip(effects, contrasts, strict=True)
    ]
    if len(logs) < MIN_BLOCKS:
        return comparisons
    adjusted = _adjusted_effect_p(design, contrasts, [c.p or 0.0 for c in comparisons], effects)
    return [replace(c, p_adjusted=max(p, c.p or 0.0)) for c, p in zip(comparisons, adjusted, strict=True)]


def _effect_comparison(differences: FloatArray, level: float, family: int, **common: Any) -> Comparison:
    """Return the comparison of an effect from its contrasts, which are tested like paired differences."""
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


def one_sample_test(differences: FloatArray, alphas: Sequence[float]) -> paired_tests.PairedTestResult:
    """Test whether the contrasts of blocks differ from 0: Student's t for 5 to 7 blocks, signed ranks from 8.

    The result has one interval for each of `alphas`, of confidence 1 - alpha.
    """
    test = paired_tests.signed_rank if len(differences) >= MIN_RANK_BLOCKS else paired_tests.paired_t
    return test(np.zeros(len(differences)), differences, alphas)


def _adjusted_effect_p(
    design: FactorialDesign, contrasts: FloatArray, plain: Sequence[float], effects: Sequence[int]
) -> list[float]:
    if contrasts.shape[1] >= MIN_RANK_BLOCKS:
        return step_down_effects_p(design, contrasts, effects)
    return adjust_holm(plain)


def step_down_effects_p(design: FactorialDesign, contrasts: FloatArray, effects: Sequence[int]) -> list[float]:
    """Return p-values adjusted for all effects by the step-down maximum statistic (Westfall and Young).

    `contrasts` is the array effects x blocks that `block_contrasts` returns; the result has the order of `effects`.

    The order within a block is random, so under the null hypothesis every combination c may be relabelled c xor m: that
    flips the signs of effects that share an odd number of factors with m. The statistic is Student's t, which, unlike
    ranks, still separates large from small effects if all blocks agree. Relabellings are sampled, with the +1 rule.
    """
    lengths = np.sqrt((contrasts**2).sum(axis=1, keepdims=True))
    # rows scaled to length 1: their sums rank sign changes in the same order as Student's t
    z = np.divide(contrasts, lengths, out=np.zeros_like(contrasts), where=lengths > 10.0**-paired_tests.LOG_DECIMALS)
    drawn = np.random.default_rng(paired_tests.SEED).integers(
        len(design.cells), size=(paired_tests.RESAMPLES, contrasts.shape[1])
    )
    odd = np.array([[(effect & cell).bit_count() % 2 for cell in design.cells] for effect in effects])
    relabelled = np.abs(np.stack([(1 - 2 * signs)[drawn] @ row for signs, row in zip(odd, z, strict=True)]))
    return paired_tests.step_down_max(np.abs(z.sum(axis=1)), relabelled, exact=False)


@dataclass(frozen=True)
class PooledEffect:
    """One effect by least squares: a ratio minus 1, its interval, and the p-value of the ANOVA (type 2).

    `p` is None if the fit is perfect.
    """

    estimate: float
    interval: Interval
    p: float | None


def fit_pooled_effects(design: FactorialDesign, logs: FloatArray, level: float = 0.95) -> list[PooledEffect]:
    """Fit log values by least squares on blocks and effects: `logy ~ C(block) + a + b + a:b + ...`.

    `logs` is an array blocks x combinations without gaps. Main effects compare high with low; interactions are the
    change of one factor's effect by the other. The result is in the order of `design.effects`.
    """
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    blocks, factors = len(logs), range(len(design.names))
    levels = [[1.0 if cell >> k & 1 else -1.0 for k in factors] for cell in design.cells]
    frame = pd.DataFrame(np.tile(levels, (blocks, 1)), columns=[f"x{k}" for k in factors])
    frame = frame.assign(logy=logs.ravel(), block=np.repeat(np.arange(blocks), len(levels)))
    terms = [":".join(f"x{k}" for k in factors if effect >> k & 1) for effect in design.effects]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a perfect fit, whose intervals have width 0
        fit = ols(f"logy ~ C(block) + {' + '.join(terms)}", frame).fit()
        tested, bounds = anova_lm(fit, typ=2), fit.conf_int(1 - level)
    pooled = []
    for term, effect in zip(terms, design.effects, strict=True):
        scale, p = 2.0 ** effect.bit_count(), float(tested.loc[term, "PR(>F)"])
        estimate, low, high = (effect_from_log(scale * float(v)) for v in (fit.params[term], *bounds.loc[term]))
        pooled.append(PooledEffect(estimate, (low, high), p if math.isfinite(p) else None))
    return pooled


@dataclass(frozen=True)
class FactorialEffect:
    """One main effect (one name) or interaction of a pair (two names): its verdict and its effect by the pooled fit.

    `aliases` are the effects that this design cannot separate from it. `pooled` has ratios minus 1, like the verdict.
    """

    names: tuple[str, ...]
    label: str
    aliases: tuple[str, ...]
    verdict: Verdict
    pooled: PooledEffect | None = None

    @property
    def log_size(self) -> float:
        """The absolute value of the log ratio; 0 if there is no estimate."""
        return abs(math.log1p(self.verdict.comparison.effect or 0.0))

    @property
    def pooled_agrees(self) -> bool:
        """Whether the intervals by contrasts and by the pooled fit both exclude 0, or both include it."""
        own = self.verdict.comparison.ci95
        return own is None or self.pooled is None or excludes_zero(own) == excludes_zero(self.pooled.interval)


@dataclass(frozen=True)
class FactorLabels:
    """The display name of a factor or group of factors, and the names of its low and high level."""

    label: str
    low: str
    high: str


@dataclass(frozen=True)
class InteractionPlot:
    """The numbers of an interaction plot of two factors.

    `cell_means`: (first is high, second is high) -> mean of the metric with its within-block interval.
    `conditional_effects`: second is high -> effect of the first factor (ratio minus 1) with its interval.
    """

    effect: FactorialEffect
    cell_means: Mapping[tuple[bool, bool], tuple[float, Interval]]
    conditional_effects: Mapping[bool, tuple[float, Interval | None]]


@dataclass(frozen=True)
class FactorialAnalysis:
    """The answer to a factorial study; `main_effects` and `interactions` are in the order in which pages list them.

    `analysis` has the main effects as rows, with the baseline, the A/A arm and the positive control. `adjustment` names
    the method that adjusted p for all effects. `higher_order` names significant effects of three or more factors, which
    the design assumes to be negligible.
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
        """The number of trials from which the effects are computed."""
        return self.blocks * len(self.design.cells)


def one_factor_at_a_time_trials(design: FactorialDesign, trials: int) -> int:
    """Return how many trials give equally precise main effects if one factor is varied at a time.

    A factorial design uses all trials for every effect: variance 4 s^2 / trials. With one factor at a time, each of k
    treatments is compared with the baseline: variance 2 s^2 / blocks, (k + 1) blocks trials.
    """
    return math.ceil(trials / 2) * (len(design.names) + 1)


def analyse_factorial(data: RunTables, metric: str | None = None, level: float = 0.95) -> FactorialAnalysis | None:
    """Analyse a factorial study on one metric; None for a study without [factorial].

    Only blocks in which every combination has a valid value count. p is adjusted for all effects: step-down over
    relabellings from 8 blocks, Holm with fewer.
    """
    study = data.study
    if study.factorial is None:
        return None
    base = analyse(data, metric=metric, level=level, limited=False)
    spec, design = resolve_spec(data, None, metric, None, None, level), factorial_design(study.factorial)
    cells = design.cell_by_treatment(study.baseline)
    rows = spec.values[spec.values["treatment"].isin(list(cells))]
    table = paired_tests.complete_blocks(rows, list(cells))
    logs = np.log(table.to_numpy(float))
    excluded = max(spec.planned_blocks or 0, rows["block"].nunique()) - len(table)
    flags = (f"blocks left out, in which not all {len(cells)} combinations count: {excluded}",) if excluded else ()
    comparisons = compare_effects(
        design, logs, spec.level, baseline=spec.baseline, metric=spec.metric, statistic=spec.statistic,
        excluded=excluded, flags=flags, added_blocks=base.stopping_state.added_blocks,
    )  # fmt: skip
    reason = _no_analysis_reason(base, cells)
    enough = len(logs) >= MIN_BLOCKS
    pooled = fit_pooled_effects(design, logs, spec.level) if enough else [None] * len(comparisons)
    effects = _factorial_effects(spec, design, comparisons, pooled, reason)
    main_effects, interactions = (tuple(e for e in effects if len(e.names) == n) for n in (1, 2))
    main_rows = (*base.of_kind("baseline"), *map(effect_row, main_effects), *base.of_kind("aa", "control"))
    return FactorialAnalysis(
        design=design,
        factor_labels={n: FactorLabels(switch_label(study, n), *level_labels(study, n)) for n in design.names},
        analysis=replace(base, rows=main_rows, best=None, tied_with_best=(), ties_beat_rest=False, noun="factor"),
        main_effects=main_effects,
        interactions=interactions,
        interaction_plots=tuple(
            _interaction_plot(design, logs, e, spec.level)
            for e in interactions
            if e.verdict.kind != "invalid" and e.verdict.comparison.ci95 and excludes_zero(e.verdict.comparison.ci95)
        ),
        blocks=len(logs),
        adjustment="joint step-down" if len(logs) >= MIN_RANK_BLOCKS else "Holm",
        higher_order=significant_higher_order(design, logs, spec.level) if reason is None else (),
    )


def _interaction_plot(
    design: FactorialDesign, logs: FloatArray, effect: FactorialEffect, level: float
) -> InteractionPlot:
    """Return the four means of two crossed factors, averaged over all other factors.

    Intervals are t intervals of deviations from the block means, shifted by the mean of the run.
    """
    first, second = (design.names.index(name) for name in effect.names)
    levels = [(bool(cell >> first & 1), bool(cell >> second & 1)) for cell in design.cells]
    within_blocks = logs - logs.mean(axis=1, keepdims=True)
    means = {both: within_blocks[:, [own == both for own in levels]].mean(axis=1) for both in set(levels)}
    centre, values = float(logs.mean()), {}
    for both, own in means.items():
        log_mean = float(own.mean()) + centre
        half = float(t.ppf((1 + level) / 2, len(own) - 1) * own.std(ddof=1) / math.sqrt(len(own)))
        values[both] = math.exp(log_mean), (math.exp(log_mean - half), math.exp(log_mean + half))
    conditional_effects: dict[bool, tuple[float, Interval | None]] = {}
    for high in (False, True):
        test = one_sample_test(means[True, high] - means[False, high], [1 - level])
        conditional_effects[high] = effect_from_log(test.estimate), effect_interval_from_logs(test.intervals[0])
    return InteractionPlot(effect, values, conditional_effects)


def _no_analysis_reason(base: Analysis, cells: Mapping[str, int]) -> str | None:
    """Return why the run has no answer: the A/A arm differs, a combination is missing or not comparable; else None."""
    rows = {row.treatment: row for row in base.rows}
    missing = [name for name in cells if name not in rows]
    if missing:
        present = f"{len(cells) - len(missing)} of the {len(cells)} combinations"
        return f"the run holds {present}, and a factorial needs all of them"
    for row in (rows[name] for name in cells):
        if row.verdict and row.verdict.kind == "invalid":
            return row.verdict.reason if base.is_void else f"{row.label}: {row.verdict.reason}"
    return None


def _factorial_effects(
    spec: AnalysisSpec,
    design: FactorialDesign,
    comparisons: Sequence[Comparison],
    pooled: Sequence[PooledEffect | None],
    reason: str | None,
) -> list[FactorialEffect]:
    """Return main effects, then pairs, both sorted by verdict and then by the size of the effect."""
    effects, decimals = [], common_decimals(comparisons)
    for alias_set, comparison, pooled_effect in zip(design.alias_sets, comparisons, pooled, strict=True):
        names = design.switch_names(alias_set[0])
        label = switch_label(spec.study, names[0]) if len(names) == 1 else design.effect_name(alias_set[0])
        verdict = replace(decide_verdict(comparison, spec.margin, spec.better, reason=reason), decimals=decimals)
        aliases = tuple(design.effect_name(e) for e in alias_set[1:])
        effect = FactorialEffect(names, label, aliases, verdict, pooled_effect)
        if not effect.pooled_agrees:
            does = "excludes" if pooled_effect and excludes_zero(pooled_effect.interval) else "does not exclude"
            pooled_text = f"with the scatter pooled over all effects its interval {does} 0"
            flags = (*comparison.flags, f"{pooled_text}; combinations may scatter differently")
            verdict = replace(verdict, comparison=replace(verdict.comparison, flags=flags))
            effect = replace(effect, verdict=verdict)
        effects.append(effect)
    return sorted(effects, key=lambda e: (len(e.names), VERDICT_ORDER.index(e.verdict.kind), -e.log_size))


def effect_row(effect: FactorialEffect) -> AnalysisRow:
    """Return an effect as a row of an analysis, without errors (`count_factorial_errors` counts them)."""
    name = effect.verdict.comparison.treatment
    none = ErrorSummary(name, 0, 0, 0, 0, {})
    return AnalysisRow(name, effect.label, "treatment", None, None, 0, 0, effect.verdict, none)


def combinations_by_sign(design: FactorialDesign, baseline: str, names: Sequence[str]) -> dict[int, list[str]]:
    """Return sign (+1, -1) -> the combinations that enter the effect of a factor or pair with this sign."""
    effect = sum(1 << design.names.index(name) for name in names)
    cells = design.cell_by_treatment(baseline)
    return {sign: [name for name, cell in cells.items() if effect_sign(effect, cell) == sign] for sign in (1, -1)}


@dataclass(frozen=True)
class ErrorEffect:
    """Errors by one factor or pair of factors.

    `trials_with_errors`: level of each factor of `names` (True: high) -> (trials with errors, all trials). `p` is
    adjusted for all effects (Holm). `kind` compares high with low; for a pair, "fewer" means fewer than its factors'
    separate effects predict.
    """

    names: tuple[str, ...]
    trials_with_errors: Mapping[tuple[bool, ...], tuple[int, int]]
    p: float
    kind: Literal["more", "fewer", "undecided"]


@dataclass(frozen=True)
class FactorialErrors:
    """Errors of a factorial run; `effects` is empty if no trial had errors.

    In that case `upper_share` is the upper bound of the share of trials with errors among trials with a factor high.
    """

    trials: int
    trials_with_errors: int
    blocks: int
    upper_share: float | None
    effects: tuple[ErrorEffect, ...] = ()


def count_factorial_errors(data: RunTables) -> FactorialErrors | None:
    """Count trials with errors by factor and pair; None without [factorial] or if no trial counted errors.

    "A brings errors and B removes them" is an interaction: each block gives one contrast of trials with errors, and the
    signs of the contrasts are tested (exact sign test). Trials excluded from the analysis of rates count here; blocks
    that lack a combination do not.
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
    contrasts = block_contrasts(design, failed)
    signs = [(int((row > 1e-9).sum()), int((row < -1e-9).sum())) for row in contrasts]
    adjusted = adjust_holm([float(binomtest(up, up + down).pvalue) if up + down else 1.0 for up, down in signs])
    effects = []
    for effect, (up, down), p in zip(design.effects, signs, adjusted, strict=True):
        kind: Literal["more", "fewer", "undecided"] = "undecided"
        if p < ALPHA:
            kind = "more" if up > down else "fewer"
        columns = [k for k in range(len(design.names)) if effect >> k & 1]
        levels = [tuple(bool(cell >> k & 1) for k in columns) for cell in design.cells]
        counts = {}
        for level in dict.fromkeys(levels):
            own = failed[:, [cell_levels == level for cell_levels in levels]]
            counts[level] = (int(own.sum()), own.size)
        effects.append(ErrorEffect(design.switch_names(effect), counts, p, kind))
    return effects
