"""Probes of a run of searches for capacity, and the capacity of each treatment in its blocks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from loadbook.core.metrics import CAPACITY, CPU_PER_RESPONSE
from loadbook.modes.capacity.mode import objective_of
from loadbook.store.tables import RunData
from loadbook.store.trial_record import PROBE_SERIES

PROBE_COLUMNS = ["trial", "treatment", "block", "series", "rate_per_s", "time_s", "share_within", "met"]


@dataclass(frozen=True)
class Capacity:
    """Capacity of one treatment (1/s): the median of its blocks, and their lowest and highest.

    `blocks` is the number of its valid trials, `probes` that of its probes. `cpu_s` is the median of the services'
    CPU seconds per response at capacity; None if not measured.
    """

    treatment: str
    typical_per_s: float
    lowest_per_s: float
    highest_per_s: float
    blocks: int
    probes: int
    cpu_s: float | None


def probes_of(data: RunData) -> pd.DataFrame:
    """Return one row per probe (a load at one rate) that counts, in columns PROBE_COLUMNS.

    `rate_per_s` is the offered rate, `met` whether the objective was met, `share_within` the share (0 to 1) of the
    requests that were answered without error within its limit (NaN: not recorded). `time_s` is the time within which
    the objective's share of the requests was answered; for a probe that missed the objective by errors or by too few
    answers, some time above the limit.
    """
    objective, samples = objective_of(data.study), data.samples
    own = samples[samples["series"].isin(PROBE_SERIES.values()) & (samples["driver"] == "*")]
    if own.empty:
        return pd.DataFrame(columns=PROBE_COLUMNS)
    wide = own.pivot_table(index=["trial", "series", "x"], columns="metric", values="value", aggfunc="last")
    wide = wide.reset_index().rename(columns={"x": "rate_per_s"})
    wide["time_s"] = [objective.time_s(margin) for margin in wide["margin"]]
    wide["met"] = wide["margin"] >= 0
    if "share_within" not in wide:
        wide["share_within"] = math.nan
    trials = data.trials[["trial", "treatment", "block"]]
    return wide.merge(trials, on="trial").sort_values(["block", "trial", "rate_per_s"])[PROBE_COLUMNS]


def capacities_of(data: RunData, probes: pd.DataFrame) -> dict[str, Capacity]:
    """Return treatment -> its capacity, for treatments with a valid trial, in the order of the plan.

    `probes` is the result of `probes_of`.
    """
    values, costs = data.values(CAPACITY), data.values(CPU_PER_RESPONSE)
    capacities: dict[str, Capacity] = {}
    for name in data.plan.treatments:
        own = values.loc[(values["treatment"] == name) & values["valid"], "value"].dropna()
        cost = costs.loc[(costs["treatment"] == name) & costs["valid"], "value"].dropna()
        if len(own):
            made = int((probes["treatment"] == name).sum())
            cpu_s = float(cost.median()) if len(cost) else None
            bounds = float(own.min()), float(own.max())
            capacities[name] = Capacity(name, float(own.median()), *bounds, len(own), made, cpu_s)
    return capacities
