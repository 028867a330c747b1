"""Where two factors of a factorial meet: the metric at both levels of both, and what the first does at each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loadbook.design.factorial import FactorialDesign
from loadbook.stats.factorial.effect_tests import one_sample_test
from loadbook.stats.pairs import effect_from_log, effect_interval_from_logs
from loadbook.stats.result import Interval
from loadbook.stats.swaps import FloatArray

CellMeans = dict[tuple[bool, bool], tuple[float, Interval]]
ConditionalEffects = dict[bool, tuple[float, Interval | None]]


def cell_means(design: FactorialDesign, logs: FloatArray, names: Sequence[str], level: float = 0.95) -> tuple[CellMeans, ConditionalEffects]:
    """Return the four combinations of two factors, and the effect of the first at each level of the second.

    Parameters
    ----------
    logs : complete blocks by combinations, in the design's order; all other factors are averaged over.

    Returns
    -------
    cell_means : (first high, second high) -> value of the metric, on the level of the whole run, with a t interval of what
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
