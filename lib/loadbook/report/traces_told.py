"""Tables on traces: how much memory was needed, who recorded what, how far several sources agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.core.units import NBSP, joined, seconds, size
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.wording import saturation as words

if TYPE_CHECKING:
    import pandas as pd

NAMES = {
    "sampler": "our sampler", "sadf": "sysstat", "munin": "munin node", "rrd": "munin’s databases",
    "node-exporter": "node_exporter", "service": "the services’ own counters",
}  # fmt: skip
TOLD = {
    "CPU": ("cpu_busy", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal"), "memory": ("memory_used", "memory_total"),
    "network": ("net_rx", "net_tx"), "load": ("load1",), "sockets": ("sockets_tcp_inuse", "sockets_tcp_tw"),
    "processes": ("process_cpu", "process_rss"),
}  # fmt: skip
ALL_TOLD = frozenset(metric for metrics in TOLD.values() for metric in metrics)
# notes on traces (docs/traces.md), which count as what was wrong with a source
NOTES = (
    "gap", "torn_sample", "unreadable_sample", "unreadable_line", "counter_went_back", "too_few_samples", "outside",
    "monitor_ended", "no_timestamps", "local_times", "memory_not_told", "munin_says", "changed-file", "clock_not_known",
)  # fmt: skip


def memory(full: pd.DataFrame, traces: pd.DataFrame, hosts: Mapping[str, Any]) -> tuple[Table, list[str]]:
    """Return a row per host with the highest use of memory, and a sentence for each role."""
    used = full[full["resource"] == "memory"]
    together = traces[traces["metric"] == "process_rss"].groupby(["host", "trial", "t_s"])["value"].sum()
    watched = {str(host): float(value) for host, value in together.groupby(level="host").max().items()}
    columns = [Column("Host"), Column("Installed", True), Column("In use, at most", True),
               Column("Of it watched processes", True), Column("Smallest size that would hold it")]  # fmt: skip
    rows, lines = [], []
    for key, group in used.groupby(["role", "host"], sort=False):
        role, host = map(str, key)
        peak, installed = float(group["peak"].max()), float(group["capacity"].max())
        told = words.memory(peak, installed if np.isfinite(installed) else None)
        name = str(role) if role == host else f"{role} ({host})"
        rows.append(
            [
                name,
                size(installed) if np.isfinite(installed) else DASH,
                size(peak),
                size(watched[host]) if host in watched else DASH,
                told.partition(": ")[2],
            ]
        )
        lines.append(f"{name}: {told}.")
    shared = " Hosts of a lab are one machine: each of them sees the memory of all." if _one_machine(full) else ""
    return Table("Memory", columns, rows), [*lines, *([shared.strip()] if shared else [])]


def _one_machine(full: pd.DataFrame) -> bool:
    """Tell whether hosts have exactly the same memory, so that they are likely one machine."""
    sizes = full.loc[full["resource"] == "memory"].groupby("host")["capacity"].max()
    return len(sizes) > 1 and sizes.nunique() == 1


def sources(traces: pd.DataFrame, problems: pd.DataFrame) -> Table:
    """Return a row per host and source: how often it was sampled, what it told, what was wrong."""
    columns = [Column("Host"), Column("Source"), Column("A sample every", True), Column("Trials", True),
               Column("Samples", True), Column("Notes", True), Column("What it told", wrap=True)]  # fmt: skip
    noted = problems[problems["name"].isin(NOTES)]
    rows = []
    for (host, source), own in traces.groupby(["host", "source"], sort=True):
        times = own[["trial", "t_s"]].drop_duplicates().sort_values(["trial", "t_s"])
        steps = times.groupby("trial")["t_s"].diff().dropna()
        about = noted[(noted["host"] == host) & noted["file"].fillna("").str.contains(_file(str(source)))]
        metrics = set(own["metric"])
        told = [name for name, known in TOLD.items() if metrics & set(known)] + sorted(metrics - ALL_TOLD)
        step = seconds(float(steps.median())) if len(steps) else DASH
        name = NAMES.get(str(source), str(source))
        rows.append([host, name, step, own["trial"].nunique(), f"{len(times):,}", len(about), ", ".join(told)])
    return Table("Sources", columns, [[*map(str, row)] for row in rows])


def _file(source: str) -> str:
    """Return how the files of a source are called."""
    return {"sampler": "^monitor-", "munin": "^munin-", "node-exporter": "^node-exporter-"}.get(source, "^traces/")


def agreement(traces: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float]) -> str:
    """Return how much busy CPU each of several sources of a host saw while trials were measured."""
    ends = traces["trial"].map(dict(windows)).astype(float)
    seen = traces[(traces["metric"] == "cpu_busy") & (traces["t_s"] > 0) & (traces["t_s"] <= ends)]
    seen = seen[seen["item"] == "all"]
    said = []
    for host, own in seen.groupby("host"):
        means = own.groupby("source")["value"].mean()
        if len(means) > 1:
            told = [f"{NAMES.get(str(s), s)} {100 * v:.0f}{NBSP}%" for s, v in means.items()]
            said.append(f"{host}: {joined(told)}")
    if not said:
        return "One source for each host."
    return f"CPU of all cores while measured, as each source saw it: {'; '.join(said)}."
