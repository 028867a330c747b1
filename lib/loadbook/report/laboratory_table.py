"""The noise of every load that was recorded on the hosts of a run, as a table: a row per study, tool and command."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadbook.core.errors import LoadbookError
from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import MINUS, percent, percent_range, quantity
from loadbook.design.plan import read_plan
from loadbook.design.workload import Workload
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.manifest import read_json
from loadbook.records.rundata import RunData, trial_values
from loadbook.records.schema import read_table
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.hygiene.order import lag_one
from loadbook.stats.noise.scatter import of_one, spread_factors
from loadbook.trials.recorded import on_the_hosts_of, twins

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
MIN_TRIALS, MIN_IN_RUN = 10, 5
TAILS = ("latency", "latency_intended", "service_time")


@dataclass(frozen=True)
class Part:
    """What one run adds to a row: values, and by how much their p99, if there is one, differ from its mean."""

    metric: str
    values: Floats
    tails: Floats

    @property
    def off(self) -> Floats:
        """By how much each value differs from the run's mean, as a ratio minus 1."""
        return np.asarray(self.values / self.values.mean() - 1)

    @property
    def residuals(self) -> Floats:
        """The residuals that the figure draws, too: logs against their median."""
        logs = np.log(self.values)
        return np.asarray(logs - np.median(logs))


def table(data: RunData) -> Table:
    """Return a row per study, tool and command with ten trials of one configuration on the hosts of this run."""
    layout = Layout(data.paths.raw.parents[3])
    rows = []
    for (study, load), parts in _gathered(layout, data.paths).items():
        if sum(len(part.values) for part in parts) >= MIN_TRIALS:
            rows.append([study, load, *_cells(parts)])
    columns = [
        Column("Study"), Column("Tool and load", wrap=True), Column("Mean", True), Column("CV", True),
        Column("95 % interval", True), Column("Lag-1", True), Column("CV of p99", True), Column("Trials", True),
        Column("Runs", True),
    ]  # fmt: skip
    return Table("Noise by load", columns, rows)


def load_words(load: Workload) -> str:
    """Return a load in the words of a command: wrk, 50 connections, 1 s, /index.html."""
    much = f"{load.duration_s:g} s" if load.requests is None else f"{load.requests:,} requests"
    rate = [f"{load.rate_per_s:,.6g} requests/s"] if load.rate_per_s else []
    return ", ".join([load.tool, f"{load.connections} connections", *rate, much, load.path])


def _gathered(layout: Layout, paths: RunPaths) -> dict[tuple[str, str], list[Part]]:
    found: dict[tuple[str, str], list[Part]] = defaultdict(list)
    for run in on_the_hosts_of(layout, paths):
        try:
            study = read_plan(read_json(run.plan), str(run.plan)).study
            trials, measured = (read_table(run.table(name), name) for name in ("trials", "measurements"))
        except LoadbookError:  # of another version, or not ingested: it adds nothing
            continue
        ours = of_one(trial_values(trials, measured, study.metric), twins(study))
        if len(ours) >= MIN_IN_RUN:
            values = ours["value"].to_numpy(float)
            load = load_words(study.workload_of(study.baseline))
            found[(study.name, load)].append(Part(study.metric, values, _tails(trials, measured, ours)))
    return found


def _tails(trials: pd.DataFrame, measured: pd.DataFrame, ours: pd.DataFrame) -> Floats:
    """Return by how much the p99 of these trials differ from their mean; empty where the tool prints none."""
    for name in TAILS:
        every = trial_values(trials, measured, name, "p99").set_index("trial")["value"]
        p99 = every.reindex(ours["trial"]).dropna()
        p99 = p99[p99 > 0]
        if len(p99) >= MIN_IN_RUN:
            return np.asarray(p99 / p99.mean() - 1, float)
    return np.empty(0)


def _cells(parts: list[Part]) -> list[str]:
    off, tails = (np.concatenate([getattr(part, name) for part in parts]) for name in ("off", "tails"))
    sizes = [len(part.values) for part in parts]
    mean = float(np.mean(np.concatenate([part.values for part in parts])))
    tail = percent(float(tails.std(ddof=1)), 1, signed=False) if len(tails) >= MIN_TRIALS else DASH
    return [
        quantity(mean, metric_of(parts[0].metric).unit),
        *_spread(parts, off),
        tail,
        f"{sum(sizes):,}",
        str(len(parts)),
    ]


def _spread(parts: list[Part], off: Floats) -> list[str]:
    """Return the cells of the CV, of its interval, and of the correlation of neighbours."""
    if not np.ptp(off):
        return ["0", DASH, DASH]
    lags = [lag_one(part.residuals) if np.ptp(part.values) else 0.0 for part in parts]
    lag1 = float(np.average(lags, weights=[len(part.values) for part in parts]))
    sd = float(off.std(ddof=1))
    factors = spread_factors(np.concatenate([part.residuals for part in parts]), lag1)
    bounds = percent_range((sd * factor for factor in factors), 1, signed=False)
    return [percent(sd, 1, signed=False), bounds, f"{lag1:+.2f}".replace("-", MINUS)]
