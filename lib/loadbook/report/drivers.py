"""Runs with several drivers: how far apart they started, and latencies that are each driver's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP, format_duration
from loadbook.records.rundata import RunData
from loadbook.report.tables import DASH, Column, Table

if TYPE_CHECKING:
    import pandas as pd

TOTAL_DRIVER = "*"


def driver_scope(data: RunData) -> list[str]:
    """Return how many drivers shared the load and how far apart they started at worst; nothing for one driver."""
    most = int(data.trials["drivers"].max()) if len(data.trials) else 0
    if most < 2:
        return []
    skews = data.values("start_skew")["value"].dropna()
    return [f"{most} drivers" + (f" that started within {format_duration(float(skews.max()))}" if len(skews) else "")]


def driver_latency_table(data: RunData, labels: Mapping[str, str], names: tuple[str, ...], percentiles: tuple[str, ...]) -> Table:
    """Return each driver's percentiles, medians over the trials that count, where no total can be had.

    `names` are metrics of which the first that a treatment has is shown.
    """
    rows = _rows_without_total(data, percentiles)
    statistics = [p for p in percentiles if p in set(rows["statistic"])]
    cells = []
    for treatment in data.plan["treatments"]:
        own_rows = rows[rows["treatment"] == treatment]
        metric = next((name for name in names if name in set(own_rows["metric"])), None)
        for driver, own in own_rows[own_rows["metric"] == metric].groupby("driver"):
            medians = own.groupby("statistic")["value"].median()
            values = [format_duration(float(medians[p])) if p in medians else DASH for p in statistics]
            cells.append([labels[treatment], str(driver), str(own["trial"].nunique()), *values])
    head = [Column("Treatment", wrap=True), Column("Driver"), Column("Trials", numeric=True)]
    return Table("Latency of each driver", [*head, *(Column(p, numeric=True) for p in statistics)], cells)


def driver_latency_note(data: RunData) -> str:
    """Return why latency is shown for each driver by itself."""
    tools, drivers = " and ".join(data.tools), int(data.trials["drivers"].max())
    return (
        f"Latency is each driver’s own: {tools} told percentiles, not the time of every request, and percentiles of "
        f"{drivers}{NBSP}drivers can be neither added nor averaged. So there is no verdict on it; shown are medians "
        "over each driver’s trials."
    )


def _rows_without_total(data: RunData, percentiles: tuple[str, ...]) -> pd.DataFrame:
    """Return the drivers' rows of times, in trials that count, that have no total."""
    counted = data.trials.loc[data.trials["valid"], ["trial", "treatment"]]
    wanted = data.measurements[data.measurements["statistic"].isin(percentiles)]
    rows = wanted.merge(counted, on="trial")
    totals = rows.loc[rows["driver"] == TOTAL_DRIVER, ["trial", "metric"]].drop_duplicates().assign(whole=True)
    joined = rows[rows["driver"] != TOTAL_DRIVER].merge(totals, on=["trial", "metric"], how="left")
    return joined[joined["whole"].isna()]
