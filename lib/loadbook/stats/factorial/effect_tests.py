"""The contrasts of a factorial and their tests: one number per effect and block, p for all effects together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loadbook.design import aliases
from loadbook.design.factorial import FactorialDesign
from loadbook.stats import swaps
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.methods import LOG_DECIMALS, PairedTestResult, paired_t, signed_rank
from loadbook.stats.pairs import effect_from_log, effect_interval_from_logs
from loadbook.stats.result import Comparison
from loadbook.stats.swaps import RESAMPLES, SEED, FloatArray, adjust_holm


def block_contrasts(design: FactorialDesign, logs: FloatArray, effects: Sequence[int] | None = None) -> FloatArray:
    """Return the contrast of effects (default: main effects and pairs) in every block, on the log scale."""
    chosen = _estimable_effects(design) if effects is None else effects
    signs = np.array([[aliases.effect_sign(effect, cell) for cell in design.cells] for effect in chosen], float)
    scale = np.array([2.0 ** effect.bit_count() / len(design.cells) for effect in chosen])
    return np.asarray(signs @ logs.T * scale[:, None])


def _estimable_effects(design: FactorialDesign) -> list[int]:
    return [alike[0] for alike in design.alias_sets]


def significant_higher_order(design: FactorialDesign, logs: FloatArray, level: float = 0.95) -> tuple[str, ...]:
    """Return the effects of three and more factors that are shown, although the design takes them to be negligible."""
    if not design.higher_order_effects or len(logs) < MIN_BLOCKS:
        return ()
    contrasts = block_contrasts(design, logs, design.higher_order_effects)
    adjusted = _adjusted_effect_p(design, contrasts, [one_sample_test(row, []).p for row in contrasts], design.higher_order_effects)
    return tuple(design.shortest_alias_names(e) for e, p in zip(design.higher_order_effects, adjusted, strict=True) if p < 1 - level)


def compare_effects(design: FactorialDesign, logs: FloatArray, level: float = 0.95, **common: Any) -> list[Comparison]:
    """Test every effect of a design.

    Parameters
    ----------
    logs : complete blocks by combinations, in the design's order.
    common : what all comparisons share: baseline, metric, statistic, excluded, flags.
    """
    contrasts = block_contrasts(design, logs)
    names = [design.effect_name(alike[0]) for alike in design.alias_sets]
    comparisons = [_effect_comparison(d, level, len(contrasts), treatment=n, **common) for n, d in zip(names, contrasts, strict=True)]
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


def _adjusted_effect_p(design: FactorialDesign, contrasts: FloatArray, plain: Sequence[float], effects: Sequence[int]) -> list[float]:
    if contrasts.shape[1] >= MIN_RANK_BLOCKS:
        return step_down_effects_p(design, contrasts, effects)
    return adjust_holm(plain)


def step_down_effects_p(design: FactorialDesign, contrasts: FloatArray, effects: Sequence[int] | None = None) -> list[float]:
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
    return swaps.step_down_max(np.abs(z.sum(axis=1)), relabelled, exact=False)


def _standardised_contrasts(contrasts: FloatArray) -> FloatArray:
    """Return rows of length 1, of which the sum orders sign changes like Student's t does."""
    lengths = np.sqrt((contrasts**2).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(contrasts, lengths, out=np.zeros_like(contrasts), where=lengths > 10.0**-LOG_DECIMALS))
