"""One trial beside the others of its treatment: what did its hosts do that they did not do in those? A description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.stats.saturation import finest_source_only

if TYPE_CHECKING:
    import pandas as pd

MIN_PEERS = 3  # other trials, below which nothing is called usual
MIN_RELATIVE_DIFFERENCE = 0.1  # a difference below this share of what is usual, or of a CPU, is not told
MIN_SCALED_DISTANCE = 3.0  # how many times the usual spread of the others a value must lie away
MAD_TO_SD = 1.4826  # median absolute deviation -> standard deviation of normal values
# traffic is left out: it follows the rate
LEVEL_METRICS = {
    "memory_used": "memory in use",
    "sockets_tcp_tw": "sockets in TIME-WAIT",
    "sockets_tcp_inuse": "sockets in use",
}
PEER_COLUMNS = ["host", "resource", "unit", "here", "usual", "spread", "apart"]


def host_resources(traces: pd.DataFrame, hosts: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return every host's resources over time: trial, host, resource, unit, t_s, value.

    CPUs are those that the host may use (run.json "hosts"), summed; processes are summed by label, as ids are others in
    every trial. "other processes" is CPU time that no watched process used: what a stranger on the host takes.
    """
    import pandas as pd

    own = finest_source_only(traces)
    parts = [_cpu_resources(own[own["host"] == host], about.get("cpus")).assign(host=host) for host, about in hosts.items()]
    levels = own[own["metric"].isin(list(LEVEL_METRICS))]
    parts.append(levels.assign(resource=levels["metric"].map(LEVEL_METRICS)))
    columns = ["trial", "host", "resource", "unit", "t_s", "value"]
    values = pd.concat([part for part in parts if len(part)] or [pd.DataFrame(columns=columns)])[columns]
    return values.groupby(columns[:5], sort=False)["value"].sum().reset_index()


def _cpu_resources(own: pd.DataFrame, cpus: list[int] | None) -> pd.DataFrame:
    """Return a host's CPUs in all, those that others stole, each process label's, and what no watched process used."""
    import pandas as pd

    items = {f"cpu{n}" for n in cpus} if cpus else set(own["item"]) - {"all"}
    cores = own[own["item"].isin(list(items))]
    keys = ["trial", "t_s"]
    sums = {name: cores[cores["metric"] == f"cpu_{name}"].groupby(keys)["value"].sum() for name in ("busy", "steal")}
    process = own[own["metric"] == "process_cpu"]
    labels = process["item"].str.rpartition(":")[0]
    by_label = process.assign(label=labels).groupby([*keys, "label"])["value"].sum()
    parts = [sums["busy"].reset_index().assign(resource="CPUs busy")]
    if len(sums["steal"]) and float(sums["steal"].max()) > 0:
        parts.append(sums["steal"].reset_index().assign(resource="CPUs stolen"))
    if len(by_label):
        labelled = by_label.reset_index()
        parts.append(labelled.assign(resource="CPUs of " + labelled["label"]))
        unexplained = sums["busy"].sub(sums["steal"], fill_value=0.0) - by_label.groupby(keys).sum()
        parts.append(unexplained.dropna().clip(lower=0.0).rename("value").reset_index().assign(resource=OTHER_PROCESSES))
    return pd.concat(parts).assign(unit="1")


OTHER_PROCESSES = "CPUs of other processes"


def peer_comparison(resources: pd.DataFrame, trials: pd.DataFrame, trial: str, windows_s: Mapping[str, float]) -> pd.DataFrame:
    """Return what one trial's hosts did beside the other counting trials of its treatment, what differs most first.

    Parameters
    ----------
    resources : what `host_resources` returned.
    windows_s : trial -> seconds of its measurement; samples outside do not count.

    Returns
    -------
    host, resource, unit; `here` the mean in this trial, `usual` the median of the others' means, `spread` their scaled
    median absolute deviation, `apart` how far this one is away in such spreads, with its sign; NaN where it is nothing
    to tell (less than a tenth of what is usual, or of one CPU).
    """
    import pandas as pd

    treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
    others = trials[(trials["treatment"] == treatment) & (trials["trial"] != trial) & trials["valid"]]["trial"]
    own = resources[resources["trial"].isin([trial, *others])]
    ends = own["trial"].map(dict(windows_s)).astype(float).fillna(np.inf)
    means = own[(own["t_s"] >= 0) & (own["t_s"] <= ends)].groupby(["host", "resource", "unit", "trial"])["value"].mean()
    rows = []
    for key, values in means.groupby(level=["host", "resource", "unit"], sort=False):
        by_trial = values.droplevel([0, 1, 2])
        peers = by_trial.drop(trial, errors="ignore")
        if trial in by_trial.index and len(peers) >= MIN_PEERS:
            rows.append([*key, float(by_trial[trial]), *_median_and_mad_sd(peers)])  # type: ignore[misc]
    table = pd.DataFrame([[*row, _scaled_distance(*row[2:])] for row in rows], columns=PEER_COLUMNS)
    order = table["apart"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _median_and_mad_sd(others: pd.Series) -> tuple[float, float]:
    median = float(others.median())
    return median, MAD_TO_SD * float((others - median).abs().median())


def _scaled_distance(unit: str, here: float, usual: float, spread: float) -> float:
    """Return how many spreads a value lies away; a spread is at least a third of what is told at all."""
    min_difference = MIN_RELATIVE_DIFFERENCE if unit == "1" and usual < 1 else MIN_RELATIVE_DIFFERENCE * abs(usual)
    difference = here - usual
    if abs(difference) < max(min_difference, np.finfo(float).tiny):
        return float("nan")
    distance = difference / max(spread, min_difference / MIN_SCALED_DISTANCE)
    return distance if abs(distance) >= MIN_SCALED_DISTANCE else float("nan")
