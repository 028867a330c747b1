"""The points of the scaling figure: each treatment's number of nodes and its ratio to the baseline."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from loadbook.core.units import decimals_for_half_width
from loadbook.report.figures.effect_rows import compared
from loadbook.stats.results import Analysis, AnalysisRow, Interval


@dataclass(frozen=True)
class Point:
    """One treatment: its number of nodes and its ratio to the baseline (1 for that itself) with its interval."""

    row: AnalysisRow
    series: str
    nodes: int
    ratio: float
    interval: Interval | None
    decides: Interval | None = None
    at_least: bool = False

    @property
    def text(self) -> str:
        """The ratio and its interval, "at least" where the load that was offered was the limit."""
        if self.interval is None:
            return f"{self.ratio:g}"
        digits = decimals_for_half_width((self.interval[1] - self.interval[0]) / 2)
        low, high = (f"{bound:.{digits}f}" for bound in self.interval)
        return ("at least " if self.at_least else "") + f"{self.ratio:.{digits}f} ({low} to {high})"


def points(
    analysis: Analysis, nodes: Mapping[str, int], series: Mapping[str, str], limited: Collection[str] = ()
) -> list[Point]:
    """Return the points of the figure, by series and number of nodes.

    Parameters
    ----------
    nodes, series : treatment -> how many nodes it has, what stands before them.
    limited : treatments that answered all of what was offered: they could have answered more.
    """
    found = []
    for row in analysis.of_kind("baseline", "treatment"):
        if not nodes.get(row.treatment) or row.treatment not in series:
            continue
        place = (row, series[row.treatment], nodes[row.treatment])
        if row.kind == "baseline":
            found.append(Point(*place, 1.0, None))
        elif compared(row) and row.verdict and row.verdict.comparison.ci95:
            own = row.verdict.comparison
            low, high = (1 + bound for bound in own.ci95 or (0.0, 0.0))
            limit = row.treatment in limited
            found.append(Point(*place, 1 + (own.effect or 0.0), (low, high), own.ci90, limit))
    order = list(dict.fromkeys(p.series for p in found))
    return sorted(found, key=lambda p: (order.index(p.series), p.nodes))
