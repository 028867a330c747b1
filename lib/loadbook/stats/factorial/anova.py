"""The textbook's analysis of a factorial in blocks: one scatter pooled over all effects (statistics.md 3.6).

It is sharper than per-block contrasts where every combination scatters alike, and wrong where they do not.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadbook.stats.result import Interval
from loadbook.stats.swaps import FloatArray


@dataclass(frozen=True)
class PooledEffect:
    """One effect by least squares: log ratio, its interval, and p of the analysis of variance (type 2)."""

    estimate: float
    interval: Interval
    p: float | None


def fit_pooled_effects(logs: FloatArray, levels: FloatArray, effects: Sequence[Sequence[int]], level: float = 0.95) -> list[PooledEffect]:
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
        effects_found.append(PooledEffect(scale * float(fit.params[term]), (low, high), p if math.isfinite(p) else None))
    return effects_found
