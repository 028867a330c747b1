"""What happened within the trials: whether rates held still, and what they are after the warm-up that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from loadbook.core.units import level, p_value, percent
from loadbook.records.rundata import RunData
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.hygiene.steady import Trend
from loadbook.stats.hygiene.within import NEEDED_S, Series, Settled, series_of, settled, trends

if TYPE_CHECKING:
    import pandas as pd

HEADS = ("Trials", "Seconds", "Moved after 10 s", "p", "Rate, all of it", "Rate, settled", "Left out, s")
METRIC = "requests_per_s"


def table(data: RunData, labels: Mapping[str, str]) -> Table:
    """Return per treatment how its rate moved within trials, and its rate with and without the warm-up.

    Both rates are medians over trials of the mean over whole seconds; the tool's own figure stays as it is, elsewhere.
    """
    counted = data.trials[data.trials["valid"]]
    found, moved = series_of(data.samples, METRIC), trends(data.samples, _treatments(counted))
    rows = [
        [labels[name], *_cells([found[t] for t in own if t in found and len(found[t].values)], moved[name])]
        for name, own in ((str(name), list(frame["trial"])) for name, frame in counted.groupby("treatment", sort=False))
    ]
    return Table("Within trials", [Column("Treatment"), *(Column(head, True) for head in HEADS), Column("Says")], rows)


def sentence(data: RunData) -> str:
    """Return what the table rests on, or why nothing is known."""
    known = series_of(data.samples, METRIC)
    if not known:
        return f"Not known: {' and '.join(data.tools)} told no rates per second."
    return (
        "Rates per second, first and last part of a second left out. Moved: Mann-Kendall at p < 0.01 on means over "
        "5 s of all trials together, after the first 10 s. Settled: without those 10 s and what MSER-5 finds to be "
        f"warm-up. Trials of less than {NEEDED_S:g} s are not judged. No verdict uses the settled rate."
    )


def _treatments(counted: pd.DataFrame) -> dict[str, str]:
    return dict(zip(counted["trial"], counted["treatment"], strict=True))


def _cells(own: Sequence[Series], trend: Trend | None) -> list[str]:
    if not own:
        return [DASH] * len(HEADS) + ["not checked: no rates"]
    cut = [one for one in map(settled, own) if one is not None]
    whole = level(median(float(series.values.mean()) for series in own))
    length = f"{min(series.seconds for series in own):g}"
    if trend is None or not cut:
        return [str(len(own)), length, DASH, DASH, whole, DASH, DASH, "not checked: too short"]
    said = "still moving" if trend.moving else "steady"
    return [str(len(own)), length, percent(trend.change), p_value(trend.p), whole, *_settled(cut), said]


def _settled(cut: Sequence[Settled]) -> list[str]:
    return [level(median(one.rate for one in cut)), f"{median(one.cut_s for one in cut):g}"]
