"""The page on the hosts of a run: full resources by host, core and process, memory, and the sources of the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.analyses.resources import text as words
from loadbook.core.units import NBSP, format_bytes, format_duration, join_words
from loadbook.report.blocks import Block, answer_box, empty_section, note, note_block
from loadbook.report.nodes import DASH, BulletList, Column, Details, HtmlOnly, Paragraph, Picture, Table
from loadbook.report.page import Page, load_run_data
from loadbook.stats import saturation

if TYPE_CHECKING:
    import pandas as pd

SOURCE_NAMES = {
    "sampler": "our sampler", "sadf": "sysstat", "munin": "munin node", "rrd": "munin’s databases",
    "node-exporter": "node_exporter", "service": "the services’ own counters",
}  # fmt: skip
FILE_PATTERNS = {"sampler": "^monitor-", "munin": "^munin-", "node-exporter": "^node-exporter-"}
METRIC_GROUPS = {
    "CPU": ("cpu_busy", "cpu_user", "cpu_system", "cpu_iowait", "cpu_steal"), "memory": ("memory_used", "memory_total"),
    "network": ("net_rx", "net_tx"), "load": ("load1",), "sockets": ("sockets_tcp_inuse", "sockets_tcp_tw"),
    "processes": ("process_cpu", "process_rss"),
}  # fmt: skip
GROUPED_METRICS = frozenset(metric for metrics in METRIC_GROUPS.values() for metric in metrics)
# problems of a source (docs/traces.md)
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
    sizes = used.groupby("host")["capacity"].max()
    if len(sizes) > 1 and sizes.nunique() == 1:  # exactly the same memory: likely one machine
        lines.append("Hosts of a lab are one machine: each of them sees the memory of all.")
    return Table("Memory", columns, rows), lines


def sources_table(traces: pd.DataFrame, problems: pd.DataFrame) -> Table:
    """Return a row per host and source: interval of its samples, metrics, problems."""
    columns = [Column("Host"), Column("Source"), Column("A sample every", True), Column("Trials", True),
               Column("Samples", True), Column("Notes", True), Column("What it told", wrap=True)]  # fmt: skip
    noted = problems[problems["name"].isin(SOURCE_PROBLEMS)]
    rows = []
    for (host, source), own in traces.groupby(["host", "source"], sort=True):
        times = own[["trial", "t_s"]].drop_duplicates().sort_values(["trial", "t_s"])
        steps = times.groupby("trial")["t_s"].diff().dropna()
        about = noted[
            (noted["host"] == host) & noted["file"].fillna("").str.contains(FILE_PATTERNS.get(str(source), "^traces/"))
        ]
        metrics = set(own["metric"])
        groups = [name for name, known in METRIC_GROUPS.items() if metrics & set(known)] + sorted(
            metrics - GROUPED_METRICS
        )
        step = format_duration(float(steps.median())) if len(steps) else DASH
        name = SOURCE_NAMES.get(str(source), str(source))
        rows.append([host, name, step, own["trial"].nunique(), f"{len(times):,}", len(about), ", ".join(groups)])
    return Table("Sources", columns, [[*map(str, row)] for row in rows])


def source_agreement(traces: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float]) -> str:
    """Return the mean CPU use of each host that has several sources, by source, while trials were measured."""
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


NO_TRACES = "Not known: no monitor recorded anything of this run."


class ResourcesPage(Page):
    """The resources of the hosts and the limit of the run; see `resources_page`."""

    notebook = "resource_traces"

    @property
    def question(self) -> str:
        """The question of the page, which is not that of the study."""
        return "Which host, core or process was the limit?"

    @cached_property
    def hosts(self) -> dict[str, dict[str, Any]]:
        """Every monitored host: those of the run, and machines whose traces were added to it."""
        return saturation.hosts_with_traces(self.data.traces, self.data.run_record.hosts)

    @cached_property
    def resource_usage(self) -> pd.DataFrame:
        """Use of resources by treatment and host."""
        return saturation.saturation_of_run(self.data)

    def answer(self) -> Block:
        """Show the full resources and whether the driver was full, a line per resource."""
        lines = words.host_sentences(self.resource_usage, self.labels)
        return Block(answer_box(self._headline(), BulletList(lines, bullet="") if lines else None))

    def _headline(self) -> str:
        return (
            words.headline(self.resource_usage)
            if len(self.data.traces)
            else f"{NO_TRACES} {self._missing_traces_reason()}"
        )

    def _missing_traces_reason(self) -> str:
        if not self.data.study.monitors.sources:
            return "The study asks for none (monitors.sources)."
        if self.data.run_record.imported:
            return "It was imported; files of sysstat, munin or Prometheus can be added: loadbook traces."
        return "Files of sysstat, munin or Prometheus can be added: loadbook traces."

    def saturation(self) -> Block:
        """Show the use of each resource and the bottleneck by treatment and host."""
        if self.resource_usage.empty:
            return empty_section(NO_TRACES)
        return Block(note(SATURATION_NOTE), saturation_table(self.resource_usage, self.labels))

    def blocks(self) -> Block:
        """Show the block in the middle of the run on one time axis; the first and the last are one click away."""
        from loadbook.report.figures.host_metrics import HostMetricsFigure
        from loadbook.report.figures.tracks import median_block

        if not HostMetricsFigure.has_data(self.data.traces):
            return note_block(NO_TRACES)
        middle = median_block(self.data.trials)
        others = [b for b in sorted({int(b) for b in self.data.trials["block"]}) if b != middle]
        ends = sorted({others[0], others[-1]}) if others else []
        first, *rest = (Picture(HostMetricsFigure.from_run(self.data, number)) for number in (middle, *ends))
        return Block(first, HtmlOnly(Details("The first and the last block", *rest)) if rest else None)

    def all_trials(self) -> Block:
        """Show all trials in one figure, by the time since their measurements began."""
        from loadbook.report.figures.host_metrics import HostMetricsFigure, TrialOverlayFigure

        if not HostMetricsFigure.has_data(self.data.traces):
            return empty_section(NO_TRACES)
        return Block(Details("All trials, one over the other", Picture(TrialOverlayFigure.from_run(self.data))))

    def cores(self) -> Block:
        """Show each core and each process of every host in the block in the middle."""
        from loadbook.report.figures.host_metrics import CoresFigure

        hosts = CoresFigure.hosts_with_cores(self.data.traces, self.hosts)
        if not hosts:
            return empty_section("No monitor reported single cores or processes.")
        first, *rest = (Picture(CoresFigure.from_run(self.data, host=alias)) for alias in hosts)
        return Block(first, Details("The other hosts", *rest) if rest else None)

    def memory(self) -> Block:
        """Show the highest use of memory, and the smallest usual size that would hold it."""
        table, lines = memory_table(self.resource_usage, self.data.traces, self.hosts)
        if not table.rows:
            return empty_section("No monitor reported the memory in use.")
        return Block(Paragraph(" ".join(lines)), table)

    def sources(self) -> Block:
        """Show every source with its metrics, its interval and its problems, and how far several sources agree."""
        table = sources_table(self.data.traces, self.data.problems)
        if not table.rows:
            return note_block(f"{NO_TRACES} {self._missing_traces_reason()}")
        from loadbook.report.figures.host_metrics import values_by_trial

        windows = values_by_trial(self.data, "duration")
        return Block(Paragraph(source_agreement(self.data.traces, self.data.trials, windows)), table)

    def summary(self) -> dict[str, Any]:
        """Return the summary for the index and the command line."""
        lines = words.host_sentences(self.resource_usage, self.labels)
        verdict = {"kind": "undecided", "glyph": "▣", "word": "resources", "sentence": self._headline()}
        return super().summary() | {"verdict": verdict, "sentences": [self._headline(), *lines]}


SATURATION_NOTE = (
    f"CPU: the busiest core that the processes may use, or their share of what they may use if that is more. "
    f"Full: at or above 90{NBSP}% of its capacity, in share of the measured time. Every trial weighs alike; "
    "bottleneck: of what was full at least half of the time, and mostly of the role’s own work, what was used most."
)


def saturation_table(usage: pd.DataFrame, labels: dict[str, str]) -> Table:
    """Return a row per treatment and host; the bottleneck is in the row of its host."""
    columns = [
        Column("Treatment"), Column("Host"), Column("Bottleneck"), Column("CPU, mean", True), Column("CPU full", True),
        Column("Network, at most", True), Column("full", True), Column("Memory, at most", True), Column("Trials", True),
    ]  # fmt: skip
    found, last = saturation.bottleneck_by_treatment(usage), ""
    rows: list[list[str]] = []
    rules: set[int] = set()
    for key, own in usage.groupby(["treatment", "role", "host"], sort=False):
        treatment, role, host = map(str, key)
        of = {str(row.resource): row for row in own.itertuples()}
        letter = found[treatment]
        limit = saturation.BOTTLENECK_NAMES[letter] if letter and letter in set(own["bottleneck"].dropna()) else DASH
        cells = [
            _share_text(of.get("cpu"), "mean"),
            _share_text(of.get("cpu"), "share_full"),
            _peak_text(of.get("network"), "/s"),
        ]
        cells += [_share_text(of.get("network"), "share_full"), _peak_text(of.get("memory"), "")]
        first = treatment != last
        if first and rows:
            rules.add(len(rows))
        name = role if role == host else f"{role} ({host})"
        rows.append([labels.get(treatment, treatment) if first else "", name, limit, *cells, str(own["trials"].max())])
        last = treatment
    return Table("What was used", columns, rows, frozenset(rules))


def _share_text(row: Any, column: str) -> str:
    value = getattr(row, column, float("nan"))
    return words.share_text(value) if value == value else DASH


def _peak_text(row: Any, per: str) -> str:
    return format_bytes(row.peak) + per if row is not None else DASH


def resources_page(study: str, run: str = "latest", metric: str = "") -> ResourcesPage:
    """Return the page on host metrics of a run; see `effects_page` for parameters and errors."""
    return ResourcesPage(load_run_data(study, run), metric=metric)
