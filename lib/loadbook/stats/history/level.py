"""Where an effect stands, from several runs of it: each run scatters by itself, and runs scatter among each other.

A random-effects mean: the variance between runs by Paule and Mandel, the scale by Hartung, Knapp, Sidik and Jonkman
(both statsmodels'). Runs of equal errors then give mean and standard deviation over the runs, and a prediction
interval that is exactly the usual one: what the blocks of a run say of its error only moves weight between runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from loadbook.stats.result import Interval
from loadbook.stats.swaps import FloatArray


@dataclass(frozen=True)
class EffectLevel:
    """Logs of ratios: the mean of `runs` runs, its standard error, and the standard deviation between runs.

    `scale` multiplies the variance that the runs' own errors and `between` give a run. Of one run the error is its own.
    """

    runs: int
    mean: float
    error: float
    sd_between_runs: float
    scale: float

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval of the mean (Student's t; of a single run the normal one)."""
        from scipy.special import ndtri, stdtrit

        p = (1 + level) / 2
        half = float(stdtrit(self.runs - 1, p) if self.runs > 1 else ndtri(p)) * self.error
        return self.mean - half, self.mean + half

    def prediction_error(self, error: float) -> float:
        """Return the standard error of the difference between another run, of this error of its own, and the mean."""
        return math.sqrt(self.scale * (error**2 + self.sd_between_runs**2) + self.error**2)


def estimate_level(logs: Sequence[tuple[float, float]]) -> EffectLevel:
    """Return the level of runs: the log of each one's ratio with its standard error (> 0)."""
    y, errors = np.array(logs, float).T
    if len(y) == 1:
        return EffectLevel(1, float(y[0]), float(errors[0]), 0.0, 1.0)
    between = sd_between_runs(y, errors)
    share = 1 / (errors**2 + between**2)
    mean = float(share @ y / share.sum())
    scale = float(share @ (y - mean) ** 2) / (len(y) - 1)
    scale = scale if scale > 1e-12 else 1.0  # runs that are exactly alike: no more is known than each said of itself
    return EffectLevel(len(y), mean, math.sqrt(scale / share.sum()), between, scale)


def sd_between_runs(values: FloatArray, errors: FloatArray) -> float:
    """Return the standard deviation between runs, beyond what their own errors explain."""
    from statsmodels.stats.meta_analysis import combine_effects

    unit = float(np.median(errors))  # statsmodels stops at absolute tolerances
    with np.errstate(divide="ignore", invalid="ignore"):  # its figures of heterogeneity, of runs that are all alike
        return unit * math.sqrt(combine_effects(values / unit, (errors / unit) ** 2, method_re="iterated").tau2)
