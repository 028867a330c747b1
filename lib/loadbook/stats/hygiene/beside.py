"""One trial beside the others of its treatment: what did its hosts do that they did not do in those? A description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.stats.saturation import one_source

if TYPE_CHECKING:
    import pandas as pd

FEWEST = 3  # other trials, below which nothing is called usual
LEAST = 0.1  # a difference below this share of what is usual, or of a CPU, is not told
SPREADS = 3.0  # how many times the usual spread of the others a value must lie away
TO_SIGMA = 1.4826  # median absolute deviation -> standard deviation of normal values
# traffic is left out: it follows the rate
LEVELS = {
    "memory_used": "memory in use",
    "sockets_tcp_tw": "sockets in TIME-WAIT",
    "sockets_tcp_inuse": "sockets in use",
}
COLUMNS = ["host", "resource", "unit", "here", "usual", "spread", "apart"]


def resources(traces: pd.DataFrame, hosts: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return every host's resources over time: trial, host, resource, unit, t_s, value.

    CPUs are those that the host may use (run.json "hosts"), summed; processes are summed by label, as ids are others in
    every trial. "other processes" is CPU time that no watched process used: what a stranger on the host takes.
    """
    import pandas as pd

    own = one_source(traces)
    parts = [_cpu(own[own["host"] == host], about.get("cpus")).assign(host=host) for host, about in hosts.items()]
    levels = own[own["metric"].isin(list(LEVELS))]
    parts.append(levels.assign(resource=levels["metric"].map(LEVELS)))
    columns = ["trial", "host", "resource", "unit", "t_s", "value"]
    found = pd.concat([part for part in parts if len(part)] or [pd.DataFrame(columns=columns)])[columns]
    return found.groupby(columns[:5], sort=False)["value"].sum().reset_index()


def _cpu(own: pd.DataFrame, cpus: list[int] | None) -> pd.DataFrame:
    """Return a host's CPUs in all, those that others stole, each process label's, and what no watched process used."""
    import pandas as pd

    items = {f"cpu{n}" for n in cpus} if cpus else set(own["item"]) - {"all"}
    cores = own[own["item"].isin(list(items))]
    keys = ["trial", "t_s"]
    sums = {name: cores[cores["metric"] == f"cpu_{name}"].groupby(keys)["value"].sum() for name in ("busy", "steal")}
    process = own[own["metric"] == "process_cpu"]
    labels = process["item"].str.rpartition(":")[0]
    by_label = process.assign(label=labels).groupby([*keys, "label"])["value"].sum()
    found = [sums["busy"].reset_index().assign(resource="CPUs busy")]
    if len(sums["steal"]) and float(sums["steal"].max()) > 0:
        found.append(sums["steal"].reset_index().assign(resource="CPUs stolen"))
    if len(by_label):
        told = by_label.reset_index()
        found.append(told.assign(resource="CPUs of " + told["label"]))
        strange = sums["busy"].sub(sums["steal"], fill_value=0.0) - by_label.groupby(keys).sum()
        found.append(strange.dropna().clip(lower=0.0).rename("value").reset_index().assign(resource=OTHERS))
    return pd.concat(found).assign(unit="1")


OTHERS = "CPUs of other processes"


def beside(found: pd.DataFrame, trials: pd.DataFrame, trial: str, windows: Mapping[str, float]) -> pd.DataFrame:
    """Return what one trial's hosts did beside the other counting trials of its treatment, what differs most first.

    Parameters
    ----------
    found : what `resources` returned.
    windows : trial -> seconds of its measurement; samples outside do not count.

    Returns
    -------
    host, resource, unit; `here` the mean in this trial, `usual` the median of the others' means, `spread` their scaled
    median absolute deviation, `apart` how far this one is away in such spreads, with its sign; NaN where it is nothing
    to tell (less than a tenth of what is usual, or of one CPU).
    """
    import pandas as pd

    treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
    others = trials[(trials["treatment"] == treatment) & (trials["trial"] != trial) & trials["valid"]]["trial"]
    own = found[found["trial"].isin([trial, *others])]
    ends = own["trial"].map(dict(windows)).astype(float).fillna(np.inf)
    means = own[(own["t_s"] >= 0) & (own["t_s"] <= ends)].groupby(["host", "resource", "unit", "trial"])["value"].mean()
    rows = []
    for key, values in means.groupby(level=["host", "resource", "unit"], sort=False):
        by_trial = values.droplevel([0, 1, 2])
        rest = by_trial.drop(trial, errors="ignore")
        if trial in by_trial.index and len(rest) >= FEWEST:
            rows.append([*key, float(by_trial[trial]), *_usual(rest)])  # type: ignore[misc]
    table = pd.DataFrame([[*row, _apart(*row[2:])] for row in rows], columns=COLUMNS)
    order = table["apart"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _usual(rest: pd.Series) -> tuple[float, float]:
    middle = float(rest.median())
    return middle, TO_SIGMA * float((rest - middle).abs().median())


def _apart(unit: str, here: float, usual: float, spread: float) -> float:
    """Return how many spreads a value lies away; a spread is at least a third of what is told at all."""
    least = LEAST if unit == "1" and usual < 1 else LEAST * abs(usual)
    away = here - usual
    if abs(away) < max(least, np.finfo(float).tiny):
        return float("nan")
    found = away / max(spread, least / SPREADS)
    return found if abs(found) >= SPREADS else float("nan")
