"""Which resource was full while it was measured: by treatment and host, and what therefore was the bottleneck.

A resource is full in a sample from FULL of its capacity on. The CPU's capacity is the mask of the host or, where the
study gives the processes less of it, theirs; the network's is the link rate, the memory's what is installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from loadbook.records.rundata import RunData

FULL = 0.90  # of a capacity
MOSTLY = 0.50  # share of the measured time from which on a full resource is a bottleneck
OWN = 0.50  # share of a full CPU's work that must be that of the role's own processes
BALANCERS = ("balancer", "lb", "proxy")
SOURCES = ("sampler", "sadf", "node-exporter", "munin", "rrd")  # the finer first
MBIT = 1e6 / 8  # bytes per second
COLUMNS = (
    "treatment", "host", "role", "resource", "share_full", "mean", "least", "most", "peak", "capacity",
    "own", "trials", "trials_full", "bottleneck",
)  # fmt: skip
Letter = Literal["C", "N", "W", "D"]
LETTERS: dict[str, str] = {"C": "balancer CPU", "N": "network", "W": "web CPU", "D": "driver"}
Hosts = Mapping[str, Mapping[str, Any]]


class Room(NamedTuple):
    """What a treatment leaves the processes on a host: CPUs (None: all of the host's) and CPUs' worth of time."""

    cpus: tuple[int, ...] | None = None
    quota: float | None = None


Rooms = Mapping[tuple[str, str], Room]


def saturation(
    traces: pd.DataFrame,
    trials: pd.DataFrame,
    hosts: Hosts,
    *,
    windows: Mapping[str, float] | None = None,
    links: Mapping[str, float] | None = None,
    rooms: Rooms | None = None,
) -> pd.DataFrame:
    """Return one row per treatment, host and resource (cpu, network, memory) that was watched in trials that count.

    Parameters
    ----------
    traces, trials : the run's tables.
    hosts : run.json's "hosts": `roles`, `cpus` (None: all), `link_mbit` of each.
    windows : trial -> seconds measured (the metric "duration"); default: to the trace's last sample.
    links : host -> capacity of its network in B/s, where it is known; default: from `link_mbit`.
    rooms : (treatment, host) -> what its processes may use, where that is less than the host.

    Returns
    -------
    DataFrame of COLUMNS: `share_full` is the share of the measured time at which the resource was full, `mean` the
    mean share of its capacity that was used, `least` and `most` the means of the trials that used least and most (all 0
    to 1, NaN where the capacity is not known); `peak` and `capacity` are in B, B/s, or for the CPU as a share; `trials`
    counts those that were watched, `own` is the share of the CPU's work that the watched processes did (NaN: not
    known), `trials_full` those in which it was full at least MOSTLY; `bottleneck` is C (CPU of
    a balancer), W (of another server), D (of a driver), N (any network), None if the resource was not full, or its CPU
    was full of other processes' work.
    """
    known = _measured(traces, trials, windows or {})
    links = links if links is not None else links_of(hosts)
    rows = [
        row
        for (treatment, host), own in known.groupby(["treatment", "host"], sort=True)
        for row in _rows(own, str(treatment), str(host), hosts.get(str(host), {}), links, rooms or {})
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def saturation_of(data: RunData, links: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return `saturation` of a run, with all that its records tell of windows, links and placement."""
    measured = data.values("duration").set_index("trial")["value"].dropna()
    windows = {str(trial): float(value) for trial, value in measured.items()}
    hosts, rooms = data.run_json["hosts"], rooms_of(data)
    return saturation(data.traces, data.trials, hosts, windows=windows, links=links, rooms=rooms)


def bottlenecks(frame: pd.DataFrame) -> dict[str, Letter | None]:
    """Return treatment -> its bottleneck: of the resources that were full, the one that was used most; None: not known.

    `frame` is what `saturation` returned. A treatment that nobody watched is not in it.
    """
    found: dict[str, Letter | None] = {}
    for treatment, rows in frame.groupby("treatment", sort=False):
        full = rows[rows["bottleneck"].notna()]
        # of what was used alike the driver is said first: while it is full nothing is known of the others' limits
        ranked = full.assign(used=full["mean"].round(2), other=full["bottleneck"] != "D")
        ranked = ranked.sort_values(["used", "other"], ascending=[False, True])
        found[str(treatment)] = ranked["bottleneck"].iloc[0] if len(full) else None
    return found


def one_source(traces: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of the finest source of each host and metric: several tell the same, and must not be added."""
    if "source" not in traces or traces["source"].nunique() < 2:
        return traces
    rank = traces["source"].map({name: place for place, name in enumerate(SOURCES)}).fillna(len(SOURCES))
    best = rank.groupby([traces["trial"], traces["host"], traces["metric"]]).transform("min")
    return traces[rank == best]


def hosts_in(traces: pd.DataFrame, hosts: Hosts) -> dict[str, dict[str, Any]]:
    """Return run.json's hosts and, after them, machines that only files of traces know, with the role told there."""
    known = {alias: dict(host) for alias, host in hosts.items()}
    for row in traces[["host", "role"]].drop_duplicates().itertuples():
        known.setdefault(str(row.host), {"roles": [str(row.role)], "cpus": None})
    return known


def rooms_of(data: RunData) -> dict[tuple[str, str], Room]:
    """Return what each treatment leaves the processes on each host, as the study says it."""
    from loadbook.hosts.shell import cpu_list

    found: dict[tuple[str, str], Room] = {}
    for treatment in data.plan["treatments"]:
        for alias, host in data.run_json["hosts"].items():
            settings = [data.study.setting(treatment, role) for role in host["roles"] if role in data.study.roles]
            masks = [s.cpus for s in settings if s.present]
            quotas = [s.cpu_quota for s in settings if s.present and s.cpu_quota]
            own = host.get("cpus")
            cpus = {n for mask in masks for n in _within(cpu_list(mask), own)} if masks and "all" not in masks else None
            found[treatment, alias] = Room(tuple(sorted(cpus)) if cpus else None, sum(quotas) or None)
    return found


def _within(mask: set[int], own: list[int] | None) -> Iterator[int]:
    """Yield the machine's numbers of CPUs that a study counts within those that the host has."""
    for number in mask:
        if own is None:
            yield number
        elif number < len(own):
            yield own[number]


def links_of(hosts: Hosts) -> dict[str, float]:
    """Return host -> rate of its link in B/s, where the hosts file says it."""
    return {alias: host["link_mbit"] * MBIT for alias, host in hosts.items() if host.get("link_mbit")}


def _measured(traces: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float]) -> pd.DataFrame:
    """Return the samples within the windows of trials that count, with their treatment.

    A sample stands for the interval before it: one whose interval began before the window counts only if there is no
    other of its host.
    """
    treatments = trials[trials["valid"]].set_index("trial")["treatment"]
    known = one_source(traces[traces["trial"].isin(list(treatments.index)) & (traces["t_s"] >= 0)])
    ends = known["trial"].map({str(k): v for k, v in windows.items()}).astype(float).fillna(np.inf)
    known = known[known["t_s"] <= ends]
    known = known.assign(treatment=known["trial"].map(treatments.to_dict()))
    first, last = (known.groupby(["trial", "host", "metric"])["t_s"].transform(f) for f in ("min", "max"))
    times = known.groupby(["trial", "host", "metric"])["t_s"].transform("nunique")
    step = ((last - first) / (times - 1).clip(lower=1)).astype(float)
    return known[(times < 2) | (known["t_s"] > first) | (first >= 0.99 * step)]


def _rows(
    own: pd.DataFrame, treatment: str, alias: str, host: Mapping[str, Any], links: Mapping[str, float], rooms: Rooms
) -> Iterator[dict[str, Any]]:
    """Yield the rows of one treatment on one host."""
    roles = host.get("roles") or [str(own["role"].iloc[0])]
    room = rooms.get((treatment, alias), Room())
    used = {
        "cpu": (_cpu(own, room, host.get("cpus")), 1.0),
        "network": (_network(own), links.get(alias)),
        "memory": (_total(own, "memory_used"), _installed(own)),
    }
    for resource, (values, capacity) in used.items():
        if len(values):
            keys = {"treatment": treatment, "host": alias, "role": "/".join(roles), "resource": resource}
            own_share = _own_share(own, room, host.get("cpus")) if resource == "cpu" else np.nan
            yield keys | _row(values, capacity, resource, roles, own_share)


def _row(
    values: pd.Series, capacity: float | None, resource: str, roles: list[str], own_share: float
) -> dict[str, Any]:
    """Summarise samples (index: trial, t_s) of one resource; every trial has the same weight."""
    shares = values / capacity if capacity else values * np.nan
    full = (shares >= FULL).groupby(level="trial").mean() if capacity else pd.Series([np.nan])
    means = shares.groupby(level="trial").mean()
    share = float(full.mean())
    return {
        "share_full": share, "mean": float(means.mean()), "least": float(means.min()), "most": float(means.max()),
        "peak": float(values.max()), "capacity": capacity or np.nan,
        "trials": len(means), "trials_full": int((full >= MOSTLY).sum()),
        "own": own_share,
        "bottleneck": _letter(resource, roles) if share >= MOSTLY and not own_share < OWN else None,
    }  # fmt: skip


def _letter(resource: str, roles: list[str]) -> Letter | None:
    if resource == "network":
        return "N"
    if resource != "cpu":
        return None
    if "driver" in roles:
        return "D"
    return "C" if any(role in BALANCERS for role in roles) else "W"


def _cpu(own: pd.DataFrame, room: Room, cpus: list[int] | None) -> pd.Series:
    """Return the use of a host's CPU: its busiest core's or its processes' share of what they may use, if that is more.

    Processes that move between cores, or have a quota of time, fill no core and still can do no more.
    """
    busiest = _cores(own, room, cpus).groupby(["trial", "t_s"])["value"].max()
    worth = room.quota or (len(room.cpus) if room.cpus else None)
    processes = _total(own, "process_cpu")
    if not worth or processes.empty:
        return busiest
    return pd.concat([busiest, (processes / worth).clip(upper=1.0)]).groupby(level=["trial", "t_s"]).max()


def _cores(own: pd.DataFrame, room: Room, cpus: list[int] | None) -> pd.DataFrame:
    """Return the samples of the cores that the processes may use."""
    cores = own[own["metric"] == "cpu_busy"]
    allowed = room.cpus or cpus
    items = {f"cpu{n}" for n in allowed} if allowed else set(cores["item"]) - {"all"} or {"all"}
    busy = cores[cores["item"].isin(list(items))]
    return busy if len(busy) else cores[cores["item"] == "all"]  # a source that knows no single cores


def _own_share(own: pd.DataFrame, room: Room, cpus: list[int] | None) -> float:
    """Return which share of the cores' work the watched processes did; with a quota all that counts is theirs."""
    busy = _cores(own, room, cpus).groupby(["trial", "t_s"])["value"].sum().mean()
    used = _total(own, "process_cpu")
    if room.quota:
        return 1.0
    return float(min(1.0, used.mean() / busy)) if len(used) and busy else np.nan


def _network(own: pd.DataFrame) -> pd.Series:
    """Return the bytes per second of the busier direction of the busiest interface."""
    flows = own[own["metric"].isin(["net_rx", "net_tx"])]
    return flows.groupby(["trial", "t_s"])["value"].max()


def _total(own: pd.DataFrame, metric: str) -> pd.Series:
    return own[own["metric"] == metric].groupby(["trial", "t_s"])["value"].sum()


def _installed(own: pd.DataFrame) -> float | None:
    total = own.loc[own["metric"] == "memory_total", "value"]
    return float(total.max()) if len(total) else None
