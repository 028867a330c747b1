"""What happened within the trials: whether rates held still, and what they are after the warm-up that was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import TYPE_CHECKING

from loadbook.core.units import format_rounded, format_p_value, format_percent
from loadbook.records.rundata import RunData
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.hygiene.steady import RateTrend
from loadbook.stats.hygiene.within import MIN_SERIES_S, RateSeries, SettledRate, rate_series, settled_rate, rate_trends

if TYPE_CHECKING:
    import pandas as pd

STATIONARITY_HEADERS = ("Trials", "Seconds", "Moved after 10 s", "p", "Rate, all of it", "Rate, settled", "Left out, s")
STATIONARITY_METRIC = "requests_per_s"


def stationarity_table(data: RunData, labels: Mapping[str, str]) -> Table:
    """Return per treatment how its rate moved within trials, and its rate with and without the warm-up.

    Both rates are medians over trials of the mean over whole seconds; the tool's own figure stays as it is, elsewhere.
    """
    counted = data.trials[data.trials["valid"]]
    found, moved = rate_series(data.samples, STATIONARITY_METRIC), rate_trends(data.samples, _treatment_by_trial(counted))
    rows = [
        [labels[name], *_stationarity_cells([found[t] for t in own if t in found and len(found[t].values)], moved[name])]
        for name, own in ((str(name), list(frame["trial"])) for name, frame in counted.groupby("treatment", sort=False))
    ]
    return Table("Within trials", [Column("Treatment"), *(Column(head, True) for head in STATIONARITY_HEADERS), Column("Says")], rows)


def stationarity_note(data: RunData) -> str:
    """Return what the table rests on, or why nothing is known."""
    known = rate_series(data.samples, STATIONARITY_METRIC)
    if not known:
        return f"Not known: {' and '.join(data.tools)} told no rates per second."
    return (
        "Rates per second, first and last part of a second left out. Moved: Mann-Kendall at p < 0.01 on means over "
        "5 s of all trials together, after the first 10 s. Settled: without those 10 s and what MSER-5 finds to be "
        f"warm-up. Trials of less than {MIN_SERIES_S:g} s are not judged. No verdict uses the settled rate."
    )


def _treatment_by_trial(counted: pd.DataFrame) -> dict[str, str]:
    return dict(zip(counted["trial"], counted["treatment"], strict=True))


def _stationarity_cells(own: Sequence[RateSeries], trend: RateTrend | None) -> list[str]:
    if not own:
        return [DASH] * len(STATIONARITY_HEADERS) + ["not checked: no rates"]
    steady = [one for one in map(settled_rate, own) if one is not None]
    whole = format_rounded(median(float(series.values.mean()) for series in own))
    length = f"{min(series.duration_s for series in own):g}"
    if trend is None or not steady:
        return [str(len(own)), length, DASH, DASH, whole, DASH, DASH, "not checked: too short"]
    state = "still moving" if trend.moving else "steady"
    return [str(len(own)), length, format_percent(trend.change), format_p_value(trend.p), whole, *_steady_cells(steady), state]


def _steady_cells(cut: Sequence[SettledRate]) -> list[str]:
    return [format_rounded(median(one.rate_per_s for one in cut)), f"{median(one.warmup_s for one in cut):g}"]
