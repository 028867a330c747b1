"""The contrasts of a factorial and their tests: one number per effect and block, p for all effects together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from loadbook.design import aliases
from loadbook.design.factorial import Design
from loadbook.stats import swaps
from loadbook.stats.compare import MIN_BLOCKS, MIN_RANK_BLOCKS
from loadbook.stats.methods import DECIMALS, Tested, paired_t, signed_rank
from loadbook.stats.pairs import ratio, ratios
from loadbook.stats.result import Comparison
from loadbook.stats.swaps import RESAMPLES, SEED, Floats, holm


def contrasts(design: Design, logs: Floats, effects: Sequence[int] | None = None) -> Floats:
    """Return the contrast of effects (default: main effects and pairs) in every block, on the log scale."""
    wanted = _named(design) if effects is None else effects
    signs = np.array([[aliases.sign(effect, cell) for cell in design.cells] for effect in wanted], float)
    scale = np.array([2.0 ** effect.bit_count() / len(design.cells) for effect in wanted])
    return np.asarray(signs @ logs.T * scale[:, None])


def _named(design: Design) -> list[int]:
    return [alike[0] for alike in design.effects]


def three_together(design: Design, logs: Floats, level: float = 0.95) -> tuple[str, ...]:
    """Return the effects of three and more factors that are shown, although the design takes them to be negligible."""
    if not design.higher or len(logs) < MIN_BLOCKS:
        return ()
    each = contrasts(design, logs, design.higher)
    adjusted = _adjusted(design, each, [one_sample(row, []).p for row in each], design.higher)
    return tuple(design.alternatives(e) for e, p in zip(design.higher, adjusted, strict=True) if p < 1 - level)


def tested(design: Design, logs: Floats, level: float = 0.95, **common: Any) -> list[Comparison]:
    """Test every effect of a design.

    Parameters
    ----------
    logs : complete blocks by combinations, in the design's order.
    common : what all comparisons share: baseline, metric, statistic, excluded, flags.
    """
    each = contrasts(design, logs)
    names = [design.name(alike[0]) for alike in design.effects]
    found = [_comparison(d, level, len(each), treatment=n, **common) for n, d in zip(names, each, strict=True)]
    if len(logs) < MIN_BLOCKS:
        return found
    adjusted = _adjusted(design, each, [c.p or 0.0 for c in found], _named(design))
    return [replace(c, p_adjusted=max(p, c.p or 0.0)) for c, p in zip(found, adjusted, strict=True)]


def _comparison(differences: Floats, level: float, family: int, **common: Any) -> Comparison:
    """Return an effect as a comparison: its contrasts are paired differences with nothing else to them."""
    blocks, alpha = len(differences), 1 - level
    known: dict[str, Any] = {"method": None, "effect": None, "ci95": None, "ci90": None, "p": None}
    if blocks:
        known["effect"] = ratio(float(np.median(differences)))
    if blocks >= MIN_BLOCKS:
        found = one_sample(differences, [alpha, 2 * alpha, alpha / family])
        ci95, ci90, widened = (ratios(interval) for interval in found.intervals)
        method = "signed-rank" if blocks >= MIN_RANK_BLOCKS else "paired-t"
        known = {"method": method, "effect": ratio(found.estimate), "ci95": ci95, "ci90": ci90, "p": found.p}
        known["ci_family"] = widened
    sd = float(differences.std(ddof=1)) if blocks > 1 else None
    return Comparison(blocks=blocks, level=level, family=family, sd_log=sd, **common, **known)


def one_sample(differences: Floats, alphas: Sequence[float]) -> Tested:
    """Test contrasts of blocks against 0: Student's t for 5 to 7 blocks, signed ranks from 8."""
    test = signed_rank if len(differences) >= MIN_RANK_BLOCKS else paired_t
    return test(np.zeros(len(differences)), differences, alphas)


def _adjusted(design: Design, each: Floats, plain: Sequence[float], effects: Sequence[int]) -> list[float]:
    if each.shape[1] >= MIN_RANK_BLOCKS:
        return step_down(design, each, effects)
    return holm(plain)


def step_down(design: Design, each: Floats, effects: Sequence[int] | None = None) -> list[float]:
    """Return p-values adjusted for all effects by the largest statistic of those left (Westfall and Young).

    The order within a block was drawn, so exchanging every combination c for c + m changes nothing if nothing matters;
    it turns the signs of those effects that share an odd number of factors with m. The statistic is Student's, which,
    unlike ranks, still tells a large effect from a small one where all blocks agree. Sampled, with the +1 rule.
    """
    z = _standardised(each)
    drawn = np.random.default_rng(SEED).integers(len(design.cells), size=(RESAMPLES, each.shape[1]))
    wanted = _named(design) if effects is None else effects
    odd = np.array([[(effect & cell).bit_count() % 2 for cell in design.cells] for effect in wanted])
    turned = np.abs(np.stack([(1 - 2 * signs)[drawn] @ row for signs, row in zip(odd, z, strict=True)]))
    return swaps.step_down(np.abs(z.sum(axis=1)), turned, exact=False)


def _standardised(each: Floats) -> Floats:
    """Return rows of length 1, of which the sum orders sign changes like Student's t does."""
    lengths = np.sqrt((each**2).sum(axis=1, keepdims=True))
    return np.asarray(np.divide(each, lengths, out=np.zeros_like(each), where=lengths > 10.0**-DECIMALS))
