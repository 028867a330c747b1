"""The noise of every load that was recorded on the hosts of a run, as a table: a row per study, tool and command."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from loadbook.core.errors import LoadbookError
from loadbook.core.metrics import get_metric
from loadbook.core.units import MINUS, format_percent, format_percent_range, format_quantity
from loadbook.design.plan import parse_plan
from loadbook.design.workload import Workload
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.manifest import read_json
from loadbook.records.rundata import RunData, trial_values
from loadbook.records.schema import read_table
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.hygiene.order import lag1_correlation
from loadbook.stats.noise.scatter import trials_of_arms, sd_interval_factors
from loadbook.trials.recorded import runs_on_same_hosts, aa_arms

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]
MIN_TRIALS, MIN_TRIALS_IN_RUN = 10, 5
TAIL_METRICS = ("latency", "latency_intended", "service_time")


@dataclass(frozen=True)
class RunNoise:
    """What one run adds to a row: values, and by how much their p99, if there is one, differ from its mean."""

    metric: str
    values: Floats
    p99_deviations: Floats

    @property
    def relative_deviations(self) -> Floats:
        """By how much each value differs from the run's mean, as a ratio minus 1."""
        return np.asarray(self.values / self.values.mean() - 1)

    @property
    def residuals(self) -> Floats:
        """The residuals that the figure draws, too: logs against their median."""
        logs = np.log(self.values)
        return np.asarray(logs - np.median(logs))


def noise_by_load_table(data: RunData) -> Table:
    """Return a row per study, tool and command with ten trials of one configuration on the hosts of this run."""
    layout = Layout(data.paths.raw.parents[3])
    rows = []
    for (study, load), parts in _collect_run_noise(layout, data.paths).items():
        if sum(len(part.values) for part in parts) >= MIN_TRIALS:
            rows.append([study, load, *_noise_cells(parts)])
    columns = [
        Column("Study"), Column("Tool and load", wrap=True), Column("Mean", True), Column("CV", True),
        Column("95 % interval", True), Column("Lag-1", True), Column("CV of p99", True), Column("Trials", True),
        Column("Runs", True),
    ]  # fmt: skip
    return Table("Noise by load", columns, rows)


def load_text(load: Workload) -> str:
    """Return a load in the words of a command: wrk, 50 connections, 1 s, /index.html."""
    much = f"{load.duration_s:g} s" if load.requests is None else f"{load.requests:,} requests"
    rate = [f"{load.rate_per_s:,.6g} requests/s"] if load.rate_per_s else []
    return ", ".join([load.tool, f"{load.connections} connections", *rate, much, load.path])


def _collect_run_noise(layout: Layout, paths: RunPaths) -> dict[tuple[str, str], list[RunNoise]]:
    found: dict[tuple[str, str], list[RunNoise]] = defaultdict(list)
    for run in runs_on_same_hosts(layout, paths):
        try:
            study = parse_plan(read_json(run.plan_json), str(run.plan_json)).study
            trials, measured = (read_table(run.table(name), name) for name in ("trials", "measurements"))
        except LoadbookError:  # of another version, or not ingested: it adds nothing
            continue
        values_of_arm = trials_of_arms(trial_values(trials, measured, study.metric), aa_arms(study))
        if len(values_of_arm) >= MIN_TRIALS_IN_RUN:
            values = values_of_arm["value"].to_numpy(float)
            load = load_text(study.workload_of(study.baseline))
            found[(study.name, load)].append(RunNoise(study.metric, values, _p99_deviations(trials, measured, values_of_arm)))
    return found


def _p99_deviations(trials: pd.DataFrame, measured: pd.DataFrame, values_of_arm: pd.DataFrame) -> Floats:
    """Return by how much the p99 of these trials differ from their mean; empty where the tool prints none."""
    for name in TAIL_METRICS:
        every = trial_values(trials, measured, name, "p99").set_index("trial")["value"]
        p99 = every.reindex(values_of_arm["trial"]).dropna()
        p99 = p99[p99 > 0]
        if len(p99) >= MIN_TRIALS_IN_RUN:
            return np.asarray(p99 / p99.mean() - 1, float)
    return np.empty(0)


def _noise_cells(parts: list[RunNoise]) -> list[str]:
    deviations, p99_deviations = (np.concatenate([getattr(part, name) for part in parts]) for name in ("relative_deviations", "p99_deviations"))
    sizes = [len(part.values) for part in parts]
    mean = float(np.mean(np.concatenate([part.values for part in parts])))
    tail = format_percent(float(p99_deviations.std(ddof=1)), 1, signed=False) if len(p99_deviations) >= MIN_TRIALS else DASH
    return [
        format_quantity(mean, get_metric(parts[0].metric).unit),
        *_cv_cells(parts, deviations),
        tail,
        f"{sum(sizes):,}",
        str(len(parts)),
    ]


def _cv_cells(parts: list[RunNoise], deviations: Floats) -> list[str]:
    """Return the cells of the CV, of its interval, and of the correlation of neighbours."""
    if not np.ptp(deviations):
        return ["0", DASH, DASH]
    lags = [lag1_correlation(part.residuals) if np.ptp(part.values) else 0.0 for part in parts]
    lag1 = float(np.average(lags, weights=[len(part.values) for part in parts]))
    sd = float(deviations.std(ddof=1))
    factors = sd_interval_factors(np.concatenate([part.residuals for part in parts]), lag1)
    bounds = format_percent_range((sd * factor for factor in factors), 1, signed=False)
    return [format_percent(sd, 1, signed=False), bounds, f"{lag1:+.2f}".replace("-", MINUS)]
