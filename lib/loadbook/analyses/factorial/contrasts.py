"""Contrasts of a factorial and their tests, and the pooled least-squares fit.

Each effect is one contrast per block: the mean of the combinations with + less the mean of those with -. Its blocks are
tested like any paired difference: Student's t for 5 to 7 blocks, signed ranks from 8. A main effect is the change from
low to high with all else averaged; the effect of a pair is the change of one factor's effect when the other is high.

The pooled fit is the textbook's analysis with one scatter for all effects. It is sharper than contrasts per block if
every combination scatters alike, and wrong if they do not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from loadbook.stats import paired_tests
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.paired_tests import (
    LOG_DECIMALS,
    RESAMPLES,
    SEED,
    FloatArray,
    PairedTestResult,
    adjust_holm,
    effect_from_log,
    effect_interval_from_logs,
    paired_t,
    signed_rank,
)
from loadbook.stats.results import Comparison, Interval
from loadbook.study.designs import FactorialDesign, effect_sign


def block_contrasts(design: FactorialDesign, logs: FloatArray, effects: Sequence[int] | None = None) -> FloatArray:
    """Return the contrast of effects (default: main effects and pairs) in every block, on the log scale."""
    effects = design.effects if effects is None else effects
    signs = np.array([[effect_sign(effect, cell) for cell in design.cells] for effect in effects], float)
    scale = np.array([2.0 ** effect.bit_count() / len(design.cells) for effect in effects])
    return np.asarray(signs @ logs.T * scale[:, None])


def significant_higher_order(design: FactorialDesign, logs: FloatArray, level: float = 0.95) -> tuple[str, ...]:
    """Return the effects of three and more factors that are shown, although the design takes them to be negligible."""
    effects = design.higher_order_effects
    if not effects or len(logs) < MIN_BLOCKS:
        return ()
    contrasts = block_contrasts(design, logs, effects)
    adjusted = _adjusted_effect_p(design, contrasts, [one_sample_test(row, []).p for row in contrasts], effects)
    return tuple(design.shortest_alias_names(e) for e, p in zip(effects, adjusted, strict=True) if p < 1 - level)


def compare_effects(design: FactorialDesign, logs: FloatArray, level: float = 0.95, **common: Any) -> list[Comparison]:
    """Test every effect of a design.

    `logs` has complete blocks by combinations, in the design's order; `common` are fields that all comparisons share.
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
    """Return an effect as a comparison: its contrasts are treated as paired differences."""
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


def step_down_effects_p(design: FactorialDesign, contrasts: FloatArray, effects: Sequence[int]) -> list[float]:
    """Return p-values adjusted for all effects by the largest statistic of those left (Westfall and Young).

    The order within a block was drawn, so exchanging every combination c for c + m changes nothing if nothing matters;
    it turns the signs of those effects that share an odd number of factors with m. The statistic is Student's, which,
    unlike ranks, still tells a large effect from a small one where all blocks agree. Sampled, with the +1 rule.
    """
    lengths = np.sqrt((contrasts**2).sum(axis=1, keepdims=True))
    # rows of length 1: their sums order sign changes as Student's t does
    z = np.divide(contrasts, lengths, out=np.zeros_like(contrasts), where=lengths > 10.0**-LOG_DECIMALS)
    drawn = np.random.default_rng(SEED).integers(len(design.cells), size=(RESAMPLES, contrasts.shape[1]))
    odd = np.array([[(effect & cell).bit_count() % 2 for cell in design.cells] for effect in effects])
    relabelled = np.abs(np.stack([(1 - 2 * signs)[drawn] @ row for signs, row in zip(odd, z, strict=True)]))
    return paired_tests.step_down_max(np.abs(z.sum(axis=1)), relabelled, exact=False)


@dataclass(frozen=True)
class PooledEffect:
    """One effect by least squares: a ratio minus 1, its interval, and p of the analysis of variance (type 2)."""

    estimate: float
    interval: Interval
    p: float | None


def fit_pooled_effects(design: FactorialDesign, logs: FloatArray, level: float = 0.95) -> list[PooledEffect]:
    """Fit log values by blocks and effects, `logy ~ C(block) + a + b + a:b + ...`.

    `logs` has blocks by combinations, all present. Main effects are high against low, interactions the change of one
    factor's effect by the other.
    """
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    blocks, factors = len(logs), range(len(design.names))
    levels = [[1.0 if cell >> k & 1 else -1.0 for k in factors] for cell in design.cells]
    frame = pd.DataFrame(np.tile(levels, (blocks, 1)), columns=[f"x{k}" for k in factors])
    frame = frame.assign(logy=logs.ravel(), block=np.repeat(np.arange(blocks), len(levels)))
    terms = [":".join(f"x{k}" for k in factors if effect >> k & 1) for effect in design.effects]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a perfect fit, whose intervals are points
        fit = ols(f"logy ~ C(block) + {' + '.join(terms)}", frame).fit()
        tested, bounds = anova_lm(fit, typ=2), fit.conf_int(1 - level)
    pooled = []
    for term, effect in zip(terms, design.effects, strict=True):
        scale, p = 2.0 ** effect.bit_count(), float(tested.loc[term, "PR(>F)"])
        estimate, low, high = (effect_from_log(scale * float(v)) for v in (fit.params[term], *bounds.loc[term]))
        pooled.append(PooledEffect(estimate, (low, high), p if math.isfinite(p) else None))
    return pooled
