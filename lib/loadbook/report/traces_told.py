"""Tables on traces: how much memory was needed, who recorded what, how far several sources agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.core.units import NBSP, join_words, format_duration, format_bytes
from loadbook.report.tables import DASH, Column, Table
from loadbook.stats.wording import saturation as words

if TYPE_CHECKING:
    import pandas as pd

SOURCE_NAMES = {
    "sampler": "our sampler", "sadf": "sysstat", "munin": "munin node", "rrd": "munin’s databases",
    "node-exporter": "node_exporter", "service": "the services’ own counters",
}  # fmt: skip
METRIC_GROUPS = {
    "CPU": ("cpu_busy", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal"), "memory": ("memory_used", "memory_total"),
    "network": ("net_rx", "net_tx"), "load": ("load1",), "sockets": ("sockets_tcp_inuse", "sockets_tcp_tw"),
    "processes": ("process_cpu", "process_rss"),
}  # fmt: skip
GROUPED_METRICS = frozenset(metric for metrics in METRIC_GROUPS.values() for metric in metrics)
# notes on traces (docs/traces.md), which count as what was wrong with a source
SOURCE_PROBLEMS = (
    "gap", "torn_sample", "unreadable_sample", "unreadable_line", "counter_went_back", "too_few_samples", "outside",
    "monitor_ended", "no_timestamps", "local_times", "memory_not_told", "munin_says", "changed-file", "clock_not_known",
)  # fmt: skip


def memory_table(full: pd.DataFrame, traces: pd.DataFrame, hosts: Mapping[str, Any]) -> tuple[Table, list[str]]:
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
        text = words.memory_size_text(peak, installed if np.isfinite(installed) else None)
        name = str(role) if role == host else f"{role} ({host})"
        rows.append(
            [
                name,
                format_bytes(installed) if np.isfinite(installed) else DASH,
                format_bytes(peak),
                format_bytes(watched[host]) if host in watched else DASH,
                text.partition(": ")[2],
            ]
        )
        lines.append(f"{name}: {text}.")
    shared = " Hosts of a lab are one machine: each of them sees the memory of all." if _share_one_machine(full) else ""
    return Table("Memory", columns, rows), [*lines, *([shared.strip()] if shared else [])]


def _share_one_machine(full: pd.DataFrame) -> bool:
    """Tell whether hosts have exactly the same memory, so that they are likely one machine."""
    sizes = full.loc[full["resource"] == "memory"].groupby("host")["capacity"].max()
    return len(sizes) > 1 and sizes.nunique() == 1


def sources_table(traces: pd.DataFrame, problems: pd.DataFrame) -> Table:
    """Return a row per host and source: how often it was sampled, what it told, what was wrong."""
    columns = [Column("Host"), Column("Source"), Column("A sample every", True), Column("Trials", True),
               Column("Samples", True), Column("Notes", True), Column("What it told", wrap=True)]  # fmt: skip
    noted = problems[problems["name"].isin(SOURCE_PROBLEMS)]
    rows = []
    for (host, source), own in traces.groupby(["host", "source"], sort=True):
        times = own[["trial", "t_s"]].drop_duplicates().sort_values(["trial", "t_s"])
        steps = times.groupby("trial")["t_s"].diff().dropna()
        about = noted[(noted["host"] == host) & noted["file"].fillna("").str.contains(_source_file_pattern(str(source)))]
        metrics = set(own["metric"])
        groups = [name for name, known in METRIC_GROUPS.items() if metrics & set(known)] + sorted(metrics - GROUPED_METRICS)
        step = format_duration(float(steps.median())) if len(steps) else DASH
        name = SOURCE_NAMES.get(str(source), str(source))
        rows.append([host, name, step, own["trial"].nunique(), f"{len(times):,}", len(about), ", ".join(groups)])
    return Table("Sources", columns, [[*map(str, row)] for row in rows])


def _source_file_pattern(source: str) -> str:
    """Return how the files of a source are called."""
    return {"sampler": "^monitor-", "munin": "^munin-", "node-exporter": "^node-exporter-"}.get(source, "^traces/")


def source_agreement(traces: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float]) -> str:
    """Return how much busy CPU each of several sources of a host saw while trials were measured."""
    ends = traces["trial"].map(dict(windows)).astype(float)
    cpu = traces[(traces["metric"] == "cpu_busy") & (traces["t_s"] > 0) & (traces["t_s"] <= ends)]
    cpu = cpu[cpu["item"] == "all"]
    texts = []
    for host, own in cpu.groupby("host"):
        means = own.groupby("source")["value"].mean()
        if len(means) > 1:
            shares = [f"{SOURCE_NAMES.get(str(s), s)} {100 * v:.0f}{NBSP}%" for s, v in means.items()]
            texts.append(f"{host}: {join_words(shares)}")
    if not texts:
        return "One source for each host."
    return f"CPU of all cores while measured, as each source saw it: {'; '.join(texts)}."
