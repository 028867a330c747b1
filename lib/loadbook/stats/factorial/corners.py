"""Where two factors of a factorial meet: the metric at both levels of both, and what the first does at each."""

from __future__ import annotations

import math
from collections.abc import Sequence

from loadbook.design.factorial import Design
from loadbook.stats.factorial.effect_tests import one_sample
from loadbook.stats.pairs import ratio, ratios
from loadbook.stats.result import Interval
from loadbook.stats.swaps import Floats

Values = dict[tuple[bool, bool], tuple[float, Interval]]
Given = dict[bool, tuple[float, Interval | None]]


def corners(design: Design, logs: Floats, names: Sequence[str], level: float = 0.95) -> tuple[Values, Given]:
    """Return the four combinations of two factors, and the effect of the first at each level of the second.

    Parameters
    ----------
    logs : complete blocks by combinations, in the design's order; all other factors are averaged over.

    Returns
    -------
    values : (first high, second high) -> value of the metric, on the level of the whole run, with a t interval of what
        is left when each block's mean is taken out.
    given : second high -> ratio minus 1, with the interval of its test.
    """
    places = [design.names.index(name) for name in names]
    levels = [(bool(cell >> places[0] & 1), bool(cell >> places[1] & 1)) for cell in design.cells]
    inside = logs - logs.mean(axis=1, keepdims=True)
    means = {both: inside[:, [own == both for own in levels]].mean(axis=1) for both in set(levels)}
    values = {both: _within(own, float(logs.mean()), level) for both, own in means.items()}
    given: Given = {}
    for second in (False, True):
        found = one_sample(means[True, second] - means[False, second], [1 - level])
        given[second] = ratio(found.estimate), ratios(found.intervals[0])
    return values, given


def _within(means: Floats, centre: float, level: float) -> tuple[float, Interval]:
    from scipy.stats import t

    half = float(t.ppf((1 + level) / 2, len(means) - 1) * means.std(ddof=1) / math.sqrt(len(means)))
    middle = float(means.mean()) + centre
    return math.exp(middle), (math.exp(middle - half), math.exp(middle + half))
