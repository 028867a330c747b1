"""Capacity of an arm in one block, from the margins of its probes.

The margin of a probe is ``ln(limit / p)``, with p the percentile of the objective: positive if the objective was met.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.optimize import isotonic_regression

from loadbook.modes.plain.stats import PlainStats
from loadbook.study.model import Study

MOST_MARGIN = 3.0  # in size: a factor of 20 is far enough from the limit


def capacity_from_margins(rates: Sequence[float], margins: Sequence[float]) -> float:
    """Return the rate at which the margin crosses 0, in the unit of `rates`.

    Margins are fitted by a falling function of the rate (isotonic regression), with straight lines between the
    logarithms of the rates. If all probes passed, or failed, it is the highest, or lowest, rate that was tried.

    Parameters
    ----------
    rates, margins : at least one probe, in any order; margins beyond `MOST_MARGIN` are cut
    """
    order = np.argsort(rates, kind="stable")
    logs = np.log(np.asarray(rates, dtype=float))[order]
    fit = isotonic_regression(
        np.clip(np.asarray(margins, dtype=float)[order], -MOST_MARGIN, MOST_MARGIN), increasing=False
    ).x
    passed = int(np.count_nonzero(fit >= 0))
    if passed in (0, len(fit)):
        return float(np.exp(logs[0 if not passed else -1]))
    (low, high), (above, below) = logs[passed - 1 : passed + 1], fit[passed - 1 : passed + 1]
    return float(np.exp(low + (high - low) * above / (above - below)))


class CapacityStats(PlainStats):
    """Statistics of searches for capacity."""

    def no_result_text(self, study: Study) -> str | None:
        """Return that a search found no capacity."""
        return "no capacity was found" if study.capacity and study.capacity.is_search else None


FACET = CapacityStats()
