"""Saturation of resources per treatment and host, and the bottleneck of each treatment.

A resource is full in a sample if `FULL_SHARE` or more of its capacity is used. The capacity of the CPU is the CPUs of
the host or, if the study gives the processes fewer, those; of the network the link rate, of memory the total size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from loadbook.store.run_record import RecordedHost, host_cpu_quota
from loadbook.store.tables import RunData, measured_windows_s
from loadbook.study.workload import spinning_reason

FULL_SHARE = 0.90  # of the capacity
BOTTLENECK_TIME_SHARE = 0.50  # of the measured time; a resource full for this share or more is a bottleneck
MIN_OWN_CPU_SHARE = 0.50  # share of a full CPU's work that the role's own processes must do
BALANCER_ROLES = ("balancer", "lb", "proxy")
SOURCE_PRECEDENCE = ("sampler", "sadf", "node-exporter", "munin", "rrd")  # from the finest to the coarsest
BYTES_PER_S_PER_MBIT = 1e6 / 8  # bytes per second
COLUMNS = (
    "treatment", "host", "role", "resource", "share_full", "mean", "least", "most", "peak", "capacity",
    "own", "trials", "trials_full", "bottleneck",
)  # fmt: skip
BottleneckCode = Literal["C", "N", "W", "D"]
DRIVER_CODE: BottleneckCode = "D"
BOTTLENECK_NAMES: dict[str, str] = {"C": "balancer CPU", "N": "network", "W": "web CPU", "D": "driver"}
RESOURCE_NOUNS = {"cpu": "CPU", "network": "network", "memory": "memory"}
HostRecords = Mapping[str, RecordedHost]


class CpuAllowance(NamedTuple):
    """CPUs that the processes of a treatment may use on a host.

    `cpus` are the ids of these CPUs (None: all), `quota` is the CPU quota of the processes in CPUs (None: no quota).
    """

    cpus: tuple[int, ...] | None = None
    quota: float | None = None


CpuAllowances = Mapping[tuple[str, str], CpuAllowance]


def saturation(
    traces: pd.DataFrame,
    trials: pd.DataFrame,
    hosts: HostRecords,
    *,
    windows_s: Mapping[str, float] | None = None,
    link_capacities_b_per_s: Mapping[str, float] | None = None,
    allowances: CpuAllowances | None = None,
    spinning: Collection[str] = (),
) -> pd.DataFrame:
    """Return one row per treatment, host and resource (cpu, network, memory) that was monitored in valid trials.

    Parameters
    ----------
    traces, trials : tables of the run.
    hosts : "hosts" of run.json: `roles`, `cpus` (None: all), `link_mbit` of each host.
    windows_s : trial -> seconds of its measurement (`measured_windows_s`); default: until the last sample.
    link_capacities_b_per_s : host -> network capacity in B/s, where known; default: from `link_mbit`.
    allowances : (treatment, host) -> CPUs for the processes of the treatment, where fewer than the host has.
    spinning : treatments whose load generator fills its CPU whatever its load: their driver is no bottleneck.

    Returns
    -------
    DataFrame of COLUMNS. `share_full`: share of the measured time in which the resource was full; `mean`: mean used
    share of the capacity; `least`, `most`: the lowest and highest mean of a trial (all 0 to 1, NaN if the capacity is
    not known); `peak`, `capacity`: in B, B/s, or for the CPU as a share; `trials`: number of monitored trials;
    `trials_full`: those in which the resource was full for BOTTLENECK_TIME_SHARE or more; `own`: share of the CPU time
    used by monitored processes (NaN: not known); `bottleneck`: C (balancer CPU), W (CPU of another server), D (driver
    CPU), N (network), or None if the resource was not full or other processes filled the CPU.
    """
    samples = _samples_within_windows(traces, trials, windows_s or {})
    links = link_capacities_b_per_s if link_capacities_b_per_s is not None else link_capacities(hosts)
    rows: list[dict[str, Any]] = []
    for (treatment, host), own in samples.groupby(["treatment", "host"], sort=True):
        rows += _host_rows(own, str(treatment), str(host), hosts.get(str(host)), links, allowances or {})
    frame = pd.DataFrame(rows, columns=list(COLUMNS))
    frame.loc[frame["treatment"].isin(spinning) & (frame["bottleneck"] == DRIVER_CODE), "bottleneck"] = None
    return frame


def saturation_of_run(data: RunData, links: Mapping[str, float] | None = None) -> pd.DataFrame:
    """Return the saturation of a run, with windows, CPU placement and loads from the run's records.

    `links`: host -> network capacity in B/s; default: the recorded link rates.
    """
    loads = {name: data.study.workload_of(name) for name in data.plan.treatments}
    return saturation(
        data.traces,
        data.trials,
        data.run_record.hosts,
        windows_s=measured_windows_s(data),
        link_capacities_b_per_s=links,
        allowances=cpu_allowances(data),
        spinning=[n for n, load in loads.items() if spinning_reason(load.tool, load.scheme, keepalive=load.keepalive)],
    )


def bottleneck_by_treatment(frame: pd.DataFrame) -> dict[str, BottleneckCode | None]:
    """Return the bottleneck of each treatment: the full resource with the highest use; None if none was full.

    `frame` is a result of `saturation`, whose docstring lists the codes. A driver comes first among resources of
    equal use. Treatments without monitored trials are missing.
    """
    codes: dict[str, BottleneckCode | None] = {}
    for treatment, rows in frame.groupby("treatment", sort=False):
        full = rows[rows["bottleneck"].notna()]
        # of equally used resources a driver comes first: as long as it is full, the other limits are unknown
        ranked = full.assign(used=full["mean"].round(2), other=full["bottleneck"] != "D")
        ranked = ranked.sort_values(["used", "other"], ascending=[False, True])
        codes[str(treatment)] = ranked["bottleneck"].iloc[0] if len(full) else None
    return codes


def finest_source_only(traces: pd.DataFrame) -> pd.DataFrame:
    """Return the samples of one monitor (column `source`) for each trial, host and metric.

    It is the first in `SOURCE_PRECEDENCE`, which lists monitors from detailed to coarse. If two monitors measured the
    same CPU, the sum or mean of their samples would be wrong. Without a column `source` nothing is left out.
    """
    if "source" not in traces or traces["source"].nunique() < 2:
        return traces
    ranks = {name: index for index, name in enumerate(SOURCE_PRECEDENCE)}
    rank = traces["source"].map(ranks).fillna(len(SOURCE_PRECEDENCE))
    finest = rank.groupby([traces["trial"], traces["host"], traces["metric"]]).transform("min")
    return traces[rank == finest]


def hosts_with_traces(traces: pd.DataFrame, hosts: HostRecords) -> dict[str, RecordedHost]:
    """Return the recorded hosts and those that occur only in trace files, the latter with the role given there."""
    records = dict(hosts)
    for row in traces[["host", "role"]].drop_duplicates().itertuples():
        records.setdefault(str(row.host), RecordedHost(roles=[str(row.role)]))
    return records


def cpu_allowances(data: RunData) -> dict[tuple[str, str], CpuAllowance]:
    """Return (treatment, host) -> the CPUs that study and host give to the treatment's processes."""
    from loadbook.hosts.shell import cpu_list

    allowances: dict[tuple[str, str], CpuAllowance] = {}
    for treatment in data.plan.treatments:
        for alias, host in data.run_record.hosts.items():
            settings = [data.study.setting(treatment, role) for role in host.roles if role in data.study.roles]
            masks = [s.cpus for s in settings if s.is_present]
            quotas = [s.cpu_quota for s in settings if s.is_present and s.cpu_quota]
            quota = min((cpus for cpus in (sum(quotas), host_cpu_quota(data.facts, alias)) if cpus), default=None)
            cpus = {n for mask in masks for n in cpu_list(mask)} if "all" not in masks else set()
            if (own := host.cpus) is not None:  # CPU numbers in a study count within the CPUs of the host
                cpus = {own[n] for n in cpus if n < len(own)}
            allowances[treatment, alias] = CpuAllowance(tuple(sorted(cpus)) or None, quota)
    return allowances


def link_capacities(hosts: HostRecords) -> dict[str, float]:
    """Return host -> rate of its network link in B/s, for hosts whose link rate is recorded."""
    return {alias: host.link_mbit * BYTES_PER_S_PER_MBIT for alias, host in hosts.items() if host.link_mbit}


def within_windows(samples: pd.DataFrame, windows_s: Mapping[str, float]) -> pd.DataFrame:
    """Return the samples (columns trial, t_s) that were taken during measurements, from `t_s` 0 on.

    `windows_s`: trial -> seconds of its measurement; of a trial that is not in it, all samples from 0 on are kept.
    """
    ends = samples["trial"].map({str(k): v for k, v in windows_s.items()}).astype(float).fillna(np.inf)
    return samples[(samples["t_s"] >= 0) & (samples["t_s"] <= ends)]


def _samples_within_windows(traces: pd.DataFrame, trials: pd.DataFrame, windows_s: Mapping[str, float]) -> pd.DataFrame:
    """Return the samples within the measurement windows of valid trials, with their treatment.

    A sample covers the interval before it; one whose interval began before the window counts only if its host has no
    other sample.
    """
    treatments = trials[trials["valid"]].set_index("trial")["treatment"]
    samples = finest_source_only(traces[traces["trial"].isin(list(treatments.index)) & (traces["t_s"] >= 0)])
    samples = within_windows(samples, windows_s)
    samples = samples.assign(treatment=samples["trial"].map(treatments.to_dict()))
    first, last = (samples.groupby(["trial", "host", "metric"])["t_s"].transform(f) for f in ("min", "max"))
    times = samples.groupby(["trial", "host", "metric"])["t_s"].transform("nunique")
    step = ((last - first) / (times - 1).clip(lower=1)).astype(float)
    return samples[(times < 2) | (samples["t_s"] > first) | (first >= 0.99 * step)]


def _host_rows(
    own: pd.DataFrame,
    treatment: str,
    alias: str,
    recorded: RecordedHost | None,
    links: Mapping[str, float],
    allowances: CpuAllowances,
) -> Iterator[dict[str, Any]]:
    """Yield one row per resource of a host under one treatment; the role of an unrecorded host is in its samples."""
    host = recorded or RecordedHost(roles=[str(own["role"].iloc[0])])
    allowance = allowances.get((treatment, alias), CpuAllowance())
    flows = own[own["metric"].isin(["net_rx", "net_tx"])]  # the busier direction of the busiest interface counts
    memory = own.loc[own["metric"] == "memory_total", "value"]
    used = {
        "cpu": (_cpu_usage(own, allowance, host.cpus), 1.0),
        "network": (flows.groupby(["trial", "t_s"])["value"].max(), links.get(alias)),
        "memory": (_metric_sum(own, "memory_used"), float(memory.max()) if len(memory) else None),
    }
    for resource, (values, capacity) in used.items():
        if len(values):
            keys = {"treatment": treatment, "host": alias, "role": "/".join(host.roles), "resource": resource}
            own_share = _own_cpu_share(own, allowance, host.cpus) if resource == "cpu" else np.nan
            yield keys | _resource_row(values, capacity, resource, host.roles, own_share)


def _resource_row(
    values: pd.Series, capacity: float | None, resource: str, roles: list[str], own_share: float
) -> dict[str, Any]:
    """Summarise the samples (index: trial, t_s) of one resource; all trials have the same weight."""
    shares = values / capacity if capacity else values * np.nan
    full = (shares >= FULL_SHARE).groupby(level="trial").mean() if capacity else pd.Series([np.nan])
    means = shares.groupby(level="trial").mean()
    share_full = float(full.mean())
    is_bottleneck = share_full >= BOTTLENECK_TIME_SHARE and not own_share < MIN_OWN_CPU_SHARE
    return {
        "share_full": share_full,
        "mean": float(means.mean()),
        "least": float(means.min()),
        "most": float(means.max()),
        "peak": float(values.max()),
        "capacity": capacity or np.nan,
        "trials": len(means),
        "trials_full": int((full >= BOTTLENECK_TIME_SHARE).sum()),
        "own": own_share,
        "bottleneck": _bottleneck_code(resource, roles) if is_bottleneck else None,
    }


def _bottleneck_code(resource: str, roles: list[str]) -> BottleneckCode | None:
    if resource == "network":
        return "N"
    if resource != "cpu":
        return None
    if "driver" in roles:
        return "D"
    return "C" if any(role in BALANCER_ROLES for role in roles) else "W"


def _cpu_usage(own: pd.DataFrame, allowance: CpuAllowance, cpus: list[int] | None) -> pd.Series:
    """Return the use of a host's CPU: the larger of its busiest core and the used share of the processes' allowance.

    Processes that move between cores, or have a CPU quota, can be at their limit while no core is full.
    """
    busiest = _allowed_cores(own, allowance, cpus).groupby(["trial", "t_s"])["value"].max()
    available_cpus = allowance.quota or (len(allowance.cpus) if allowance.cpus else None)
    processes = _metric_sum(own, "process_cpu")
    if not available_cpus or processes.empty:
        return busiest
    return pd.concat([busiest, (processes / available_cpus).clip(upper=1.0)]).groupby(level=["trial", "t_s"]).max()


def _allowed_cores(own: pd.DataFrame, allowance: CpuAllowance, cpus: list[int] | None) -> pd.DataFrame:
    """Return the samples of the cores that the processes may use."""
    cores = own[own["metric"] == "cpu_busy"]
    allowed = allowance.cpus or cpus
    items = {f"cpu{n}" for n in allowed} if allowed else set(cores["item"]) - {"all"} or {"all"}
    busy = cores[cores["item"].isin(list(items))]
    return busy if len(busy) else cores[cores["item"] == "all"]  # if the source has no values per core


def _own_cpu_share(own: pd.DataFrame, allowance: CpuAllowance, cpus: list[int] | None) -> float:
    """Return the share of the busy CPU time used by monitored processes; 1 with a quota, NaN if not known."""
    busy = _allowed_cores(own, allowance, cpus).groupby(["trial", "t_s"])["value"].sum().mean()
    used = _metric_sum(own, "process_cpu")
    if allowance.quota:
        return 1.0
    return float(min(1.0, used.mean() / busy)) if len(used) and busy else np.nan


def _metric_sum(own: pd.DataFrame, metric: str) -> pd.Series:
    return own[own["metric"] == metric].groupby(["trial", "t_s"])["value"].sum()
