"""The page on a run's hosts: saturated resources by host, core and process, memory, and sources of the data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np
import pandas as pd

from loadbook.core.errors import unknown_name_error
from loadbook.core.units import NBSP, PERCENT, format_bytes, format_duration, format_quantity, join_words, pluralize
from loadbook.report import palette
from loadbook.report.blocks import Block, answer_box, empty_section, note, note_block
from loadbook.report.figures import host_metrics
from loadbook.report.figures.base import ReportFigure
from loadbook.report.figures.host_metrics import CoresFigure, HostMetricsFigure, TrialOverlayFigure
from loadbook.report.figures.time_panels import TimePanels
from loadbook.report.figures.tracks import Hosts, median_block
from loadbook.report.nodes import DASH, BulletList, Column, Details, HtmlOnly, Paragraph, Picture, Table
from loadbook.report.page import Page, load_run_data
from loadbook.report.sections import row_tuples
from loadbook.stats import saturation
from loadbook.stats.diagnostics import OTHER_PROCESSES, host_resources, peer_comparison
from loadbook.stats.saturation import BOTTLENECK_NAMES, BOTTLENECK_TIME_SHARE, FULL_SHARE, MIN_OWN_CPU_SHARE
from loadbook.store.run_record import RecordedHost
from loadbook.store.tables import RunData, measured_windows_s

MOST_PANELS = 5
MIB = 2.0**20
ALWAYS_DRAWN = ("CPUs busy", OTHER_PROCESSES)


class PeersFigure(ReportFigure):
    """One panel per resource: a dark line for this trial, grey lines for the other trials of its treatment.

    `traces` and `trials` are tables of the run, `trial` is the id of this trial. `hosts` is the entry "hosts" of
    run.json; `windows` is trial -> length of its measurement in seconds.
    """

    def __init__(
        self, traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str,
        windows: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.trial, self.windows = trial, windows or {}
        samples = host_resources(traces, hosts)
        table = peer_comparison(samples, trials, trial, self.windows)
        unusual = table[table["apart"].notna()][:MOST_PANELS]
        usual = table[table["apart"].isna() & table["resource"].isin(ALWAYS_DRAWN)]
        treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
        peers = trials[(trials["treatment"] == treatment) & (trials["valid"] | (trials["trial"] == trial))]
        self.unusual = row_tuples(unusual)
        self.rows = row_tuples(pd.concat([unusual, usual])[:MOST_PANELS])
        self.samples = samples[samples["trial"].isin(list(peers["trial"]))]

    @classmethod
    def from_run(cls, run: RunData, trial: str) -> Self:
        """Return the figure of one trial of a run; UsageError if the run has no such trial."""
        if trial not in set(run.trials["trial"]):
            raise unknown_name_error("trial", trial, map(str, run.trials["trial"]), f"in run {run.run}")
        return cls(run.traces, run.trials, host_metrics.monitored_hosts(run), trial, measured_windows_s(run))

    def _draw(self) -> TimePanels:
        samples, number = self.samples, len(self.rows)
        limits = (float(samples["t_s"].min()), float(samples["t_s"].max())) if len(samples) else (0.0, 1.0)
        drawing = TimePanels(number, limits, "since the measurement began; shaded = measured")
        if not self.rows:
            drawing.write_title(drawing.panels[0], "no monitor recorded enough to compare")
        for panel, row in zip(drawing.panels, self.rows, strict=False):
            own = samples[(samples["host"] == row.host) & (samples["resource"] == row.resource)]
            divisor = MIB if str(row.unit).startswith("B") else 1.0
            panel.axvspan(0, self.windows.get(self.trial, limits[1]), color=palette.WINDOW_TINT, linewidth=0, zorder=-3)
            for name, of_trial in own.groupby("trial", sort=False):
                colour, width, zorder = (palette.INK, 1.5, 3) if name == self.trial else (palette.OTHERS, 0.7, 2)
                values = of_trial["value"] / divisor
                panel.plot(of_trial["t_s"], values, color=colour, linewidth=width, zorder=zorder)
            drawing.set_values(panel, float(own["value"].max()) / divisor or 1.0)
            unit = f", {'MiB/s' if row.unit == 'B/s' else 'MiB'}" if divisor == MIB else ""
            colour = palette.INK if row.apart == row.apart else palette.SOFT
            drawing.write_title(panel, f"{row.host}: {row.resource}{unit}", _values_text(row), colour)
        return drawing

    @property
    def caption(self) -> str:
        """One sentence on the host metrics of this trial that differ from those of its treatment's other trials."""
        if not self.rows:
            return f"Not known: too little was recorded of {self.trial} or of others of its treatment."
        if not self.unusual:
            return f"{self.trial}’s hosts did what they do in its treatment’s others."
        return f"{self.trial} differs in {join_words([f'{_row_text(row)} ({row.host})' for row in self.unusual])}."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        others = pluralize(self.samples["trial"].nunique() - 1, "other trial")
        return (
            f"Ink: {self.trial}; grey: the {others} of its treatment. Named are resources that lie more than three "
            "usual spreads and a tenth away: they changed together with the result; the figure cannot show whether "
            "they caused it."
        )

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the numbers of every panel."""
        rows = "; ".join(f"{row.host}, {_row_text(row)}" for row in self.rows)
        return "Resources of one trial beside the others of its treatment.", f"{rows}."


def _row_text(row: Any) -> str:
    return f"{row.resource}: {_values_text(row)}"


def _values_text(row: Any) -> str:
    return f"{peer_value_text(row, row.here)} here, usually {peer_value_text(row, row.usual)}"


def peer_value_text(row: Any, value: float) -> str:
    """Return a value as text: CPUs with two decimals, other quantities with three digits and their unit.

    `row` is a row of `peer_comparison`, whose `resource` and `unit` are used.
    """
    return f"{value:.2f}" if row.resource.startswith("CPUs") else format_quantity(float(f"{value:.3g}"), row.unit)


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
RESOURCE_METRICS = {"cpu": ["cpu_busy"], "network": ["net_rx", "net_tx"], "memory": ["memory_used"]}
# names of problems that concern a source of host metrics (docs/import.md)
SOURCE_PROBLEMS = (
    "gap", "torn_sample", "unreadable_sample", "unreadable_line", "counter_went_back", "too_few_samples", "outside",
    "monitor_ended", "no_timestamps", "local_times", "memory_not_told", "munin_says", "changed-file", "clock_not_known",
)  # fmt: skip
NO_TRACES = "Not known: no monitor recorded anything of this run."
SATURATION_NOTE = (
    f"CPU: the busiest core that the processes may use, or their share of what they may use if that is more. "
    f"Full: at or above 90{NBSP}% of its capacity, in share of the measured time. Every trial weighs alike; "
    "bottleneck: of what was full at least half of the time, and mostly of the role’s own work, what was used most."
)
HEADROOM = 1 / FULL_SHARE  # factor on the used memory, so that a host of the proposed size is not full
GIB = 1024**3
MEMORY_SIZES_B = tuple(GIB * n for n in (0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512))


def source_agreement(traces: pd.DataFrame, trials: pd.DataFrame, windows: Mapping[str, float]) -> str:
    """Return a sentence with the mean CPU use by source, for each host that several monitors measured.

    `windows`: trial -> length of its measurement in seconds; samples outside it do not count.
    """
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


class ResourcesPage(Page):
    """The page on the resources of the hosts and the bottleneck of a run, made by `resources_page`."""

    notebook = "resource_traces"

    @property
    def question(self) -> str:
        """The page's question, which is not that of the study."""
        return "Which host, core or process was the limit?"

    @cached_property
    def hosts(self) -> dict[str, RecordedHost]:
        """All monitored hosts: those of the run, and machines whose host metrics were added later."""
        return saturation.hosts_with_traces(self.run_data.traces, self.run_data.run_record.hosts)

    @cached_property
    def resource_usage(self) -> pd.DataFrame:
        """The use of each resource by treatment and host (columns: `stats.saturation.COLUMNS`)."""
        return saturation.saturation_of_run(self.run_data)

    def data(self) -> pd.DataFrame:
        """Return the use of each resource: one row per treatment, host and resource; used shares are from 0 to 1.

        Columns are those of `stats.saturation.saturation`. `source` is the monitor that counts, `metrics` its metrics
        of the resource. `parts` are the parts measured, such as "cpu0"; of CPUs those that the processes may use.
        `cpus` is the number of CPUs that the study gives to the processes, NaN if it gives them all. `peak` and
        `capacity` are in B, or B/s.
        """
        traces = saturation.finest_source_only(self.run_data.traces)
        allowances, rows = saturation.cpu_allowances(self.run_data), []
        for used in self.resource_usage.to_dict("records"):
            allowance = allowances.get((used["treatment"], used["host"]), saturation.CpuAllowance())
            own = traces[(traces["host"] == used["host"]) & traces["metric"].isin(RESOURCE_METRICS[used["resource"]])]
            parts, cpus = set(own["item"]), np.nan
            if used["resource"] == "cpu":
                allowed = allowance.cpus or self.hosts[used["host"]].cpus
                parts = parts & {f"cpu{n}" for n in allowed} if allowed else parts - {"all"}
                cpus = allowance.quota or (len(allowance.cpus) if allowance.cpus else np.nan)
            told = {"source": next(iter(own["source"].mode()), ""), "metrics": RESOURCE_METRICS[used["resource"]]}
            rows.append(used | told | {"parts": sorted(parts) or ["all"], "cpus": cpus})
        return pd.DataFrame(rows, columns=[*saturation.COLUMNS, "source", "metrics", "parts", "cpus"])

    def answer(self) -> Block:
        """Show the saturated resources and whether the driver was saturated, one line per resource."""
        lines = host_sentences(self.resource_usage, self.labels)
        return Block(answer_box(self._headline(), BulletList(lines, bullet="") if lines else None))

    def _headline(self) -> str:
        return headline(self.resource_usage) if len(self.run_data.traces) else self._no_traces_text()

    def _no_traces_text(self) -> str:
        if not self.run_data.study.monitors.sources:
            return f"{NO_TRACES} The study asks for none (monitors.sources)."
        files = "It was imported; files" if self.run_data.run_record.imported else "Files"
        return f"{NO_TRACES} {files} of sysstat, munin or Prometheus can be added: loadbook traces."

    def saturation(self) -> Block:
        """Show the use of each resource by treatment and host; the bottleneck is in the row of the saturated host."""
        usage = self.resource_usage
        if usage.empty:
            return empty_section(NO_TRACES)
        heads = ("CPU, mean", "CPU full", "Network, at most", "full", "Memory, at most", "Trials")
        columns = [*map(Column, ("Treatment", "Host", "Bottleneck")), *(Column(head, True) for head in heads)]
        bottlenecks, last = saturation.bottleneck_by_treatment(usage), ""
        rows: list[list[str]] = []
        rules: set[int] = set()
        for key, own in usage.groupby(["treatment", "role", "host"], sort=False):
            treatment, role, host = map(str, key)
            of = own.set_index("resource")
            letter = bottlenecks[treatment]
            limit = BOTTLENECK_NAMES[letter] if letter and letter in set(own["bottleneck"].dropna()) else DASH
            shares = (("cpu", "mean"), ("cpu", "share_full"), ("network", "share_full"))
            cpu, cpu_full, network_full = (_percent(of[column].get(name, np.nan)) for name, column in shares)
            network, memory = (
                format_bytes(of["peak"][name]) if name in of.index else "" for name in ("network", "memory")
            )
            cells = [cpu, cpu_full, f"{network}/s" if network else DASH, network_full, memory or DASH]
            first = treatment != last
            if first and rows:
                rules.add(len(rows))
            name = role if role == host else f"{role} ({host})"
            label, trials = self.labels.get(treatment, treatment) if first else "", str(own["trials"].max())
            rows.append([label, name, limit, *cells, trials])
            last = treatment
        return Block(note(SATURATION_NOTE), Table("What was used", columns, rows, frozenset(rules)))

    def blocks(self) -> Block:
        """Show the host metrics of the run's middle block on one time axis; a click opens the first and last block."""
        if not HostMetricsFigure.has_data(self.run_data.traces):
            return note_block(NO_TRACES)
        middle = median_block(self.run_data.trials)
        others = [b for b in sorted({int(b) for b in self.run_data.trials["block"]}) if b != middle]
        ends = sorted({others[0], others[-1]}) if others else []
        first, *rest = (Picture(HostMetricsFigure.from_run(self.run_data, number)) for number in (middle, *ends))
        return Block(first, HtmlOnly(Details("The first and the last block", *rest)) if rest else None)

    def all_trials(self) -> Block:
        """Show the host metrics of all trials over one another, by the time since their measurement began."""
        if not HostMetricsFigure.has_data(self.run_data.traces):
            return empty_section(NO_TRACES)
        return Block(Details("All trials, one over the other", Picture(TrialOverlayFigure.from_run(self.run_data))))

    def cores(self) -> Block:
        """Show each core and each process of every host during the middle block."""
        hosts = CoresFigure.hosts_with_cores(self.run_data.traces, self.hosts)
        if not hosts:
            return empty_section("No monitor reported single cores or processes.")
        first, *rest = (Picture(CoresFigure.from_run(self.run_data, host=alias)) for alias in hosts)
        return Block(first, Details("The other hosts", *rest) if rest else None)

    def memory(self) -> Block:
        """Show the highest use of memory, and the smallest common memory size that suffices."""
        used, traces = self.resource_usage[self.resource_usage["resource"] == "memory"], self.run_data.traces
        together = traces[traces["metric"] == "process_rss"].groupby(["host", "trial", "t_s"])["value"].sum()
        watched = {str(host): float(value) for host, value in together.groupby(level="host").max().items()}
        columns = [Column("Host"), Column("Installed", True), Column("In use, at most", True),
                   Column("Of it watched processes", True), Column("Smallest size that would hold it")]  # fmt: skip
        rows, lines = [], []
        for key, group in used.groupby(["role", "host"], sort=False):
            role, host = map(str, key)
            peak, installed = float(group["peak"].max()), float(group["capacity"].max())
            size = memory_size_text(peak, installed if np.isfinite(installed) else None)
            name = str(role) if role == host else f"{role} ({host})"
            sizes = (installed, peak, watched.get(host, np.nan))
            rows.append([name, *(format_bytes(b) if np.isfinite(b) else DASH for b in sizes), size])
            lines.append(f"{name}: {format_bytes(peak)}: {size}.")
        capacities = used.groupby("host")["capacity"].max()
        if len(capacities) > 1 and capacities.nunique() == 1:  # equal to the byte: probably one machine
            lines.append("Hosts of a lab are one machine: each of them sees the memory of all.")
        if not rows:
            return empty_section("No monitor reported the memory in use.")
        return Block(Paragraph(" ".join(lines)), Table("Memory", columns, rows))

    def sources(self) -> Block:
        """Show each source of host metrics: metrics, sampling interval, problems, agreement with other sources."""
        columns = [Column("Host"), Column("Source"), Column("A sample every", True), Column("Trials", True),
                   Column("Samples", True), Column("Notes", True), Column("What it told", wrap=True)]  # fmt: skip
        traces, problems = self.run_data.traces, self.run_data.problems
        noted = problems[problems["name"].isin(SOURCE_PROBLEMS)]
        rows = []
        for (host, source), own in traces.groupby(["host", "source"], sort=True):
            times = own[["trial", "t_s"]].drop_duplicates().sort_values(["trial", "t_s"])
            steps = times.groupby("trial")["t_s"].diff().dropna()
            pattern = FILE_PATTERNS.get(str(source), "^traces/")
            about = noted[(noted["host"] == host) & noted["file"].fillna("").str.contains(pattern)]
            metrics = set(own["metric"])
            groups = [name for name, known in METRIC_GROUPS.items() if metrics & set(known)]
            groups += sorted(metrics.difference(*METRIC_GROUPS.values()))
            step = format_duration(float(steps.median())) if len(steps) else DASH
            name = SOURCE_NAMES.get(str(source), str(source))
            rows.append([host, name, step, own["trial"].nunique(), f"{len(times):,}", len(about), ", ".join(groups)])
        if not rows:
            return note_block(self._no_traces_text())
        agreement = source_agreement(traces, self.run_data.trials, measured_windows_s(self.run_data))
        return Block(Paragraph(agreement), Table("Sources", columns, [[*map(str, row)] for row in rows]))

    def summary(self) -> dict[str, Any]:
        """Return the summary for the index page and the command line."""
        lines = host_sentences(self.resource_usage, self.labels)
        verdict = {"kind": "undecided", "glyph": "▣", "word": "resources", "sentence": self._headline()}
        return super().summary() | {"verdict": verdict, "sentences": [self._headline(), *lines]}


def _percent(share: float, unit: str = PERCENT) -> str:
    return f"{100 * share:.0f}{unit}" if share == share else DASH


def headline(usage: pd.DataFrame) -> str:
    """Return one sentence: saturated resources, in how many treatments, and whether the driver was saturated.

    `usage` is a result of `stats.saturation.saturation`.
    """
    if usage.empty:
        return "Not known: no monitor recorded anything while trials that count were measured."
    bottlenecks, parts = saturation.bottleneck_by_treatment(usage), []
    for letter in BOTTLENECK_NAMES:
        number = sum(own == letter for own in bottlenecks.values())
        roles = join_words(sorted(set(usage.loc[usage["bottleneck"] == letter, "role"])))
        resource = "the network" if letter == "N" else f"the CPU of the {roles}"
        parts += [f"{resource} in {_treatment_count_text(number, len(bottlenecks))}"] if number else []
    foreign = usage[(usage["share_full"] >= BOTTLENECK_TIME_SHARE) & (usage["own"] < MIN_OWN_CPU_SHARE)]
    if parts:
        start = f"At its limit: {join_words(parts)}"
    elif len(foreign):
        start = f"The CPU of the {join_words(sorted(set(foreign['role'])))} was full, mostly of other processes’ work"
    else:
        start = "Nothing that was watched was at its limit"
    return f"{start}; {_driver_phrase(usage)}."


def _treatment_count_text(number: int, total: int) -> str:
    if total == 1:
        return "the one treatment"
    return f"all {total} treatments" if number == total else f"{number} of {total} treatments"


def _driver_phrase(usage: pd.DataFrame) -> str:
    rows = usage[usage["role"].str.contains("driver") & (usage["resource"] == "cpu")]
    shares = rows["share_full"].dropna()
    if shares.empty:
        return "the driver was not watched"
    full = shares.max() >= BOTTLENECK_TIME_SHARE
    if full and not rows["bottleneck"].notna().any():  # others' work, or a generator that fills its CPU by design
        return "nobody’s own limit was seen there"
    if full:
        return "so the tool, not only the server, may have set the numbers"
    seldom = f" except in {max(1, round(100 * shares.max()))}{NBSP}% of the time at most" if shares.max() else ""
    return f"the driver had room{seldom}"


def host_sentences(usage: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """Return a sentence per host with a saturated resource: "balancer: 98 % of its CPU in every trial of small8".

    `usage` is a result of `stats.saturation.saturation`; `labels`: treatment -> display name.
    """
    full = usage[(usage["share_full"] >= BOTTLENECK_TIME_SHARE) & usage["resource"].isin([*saturation.RESOURCE_NOUNS])]
    total = usage["treatment"].nunique()
    order = ["role", "host", "resource", "mean"]
    texts_by_host: dict[tuple[str, str], list[str]] = {}
    for (role, host), rows in full.sort_values(order, ascending=[True, True, True, False]).groupby(["role", "host"]):
        is_foreign = rows["own"] < MIN_OWN_CPU_SHARE
        treatments_by_use: dict[str, list[str]] = {}
        for _, row in rows[~is_foreign].iterrows():
            trials = f"{row['trials_full']} of {row['trials']} trials"
            when = "every trial" if row["trials_full"] == row["trials"] else trials
            use = f"{_percent(row['mean'])} of its {saturation.RESOURCE_NOUNS[str(row['resource'])]} in {when}"
            treatments_by_use.setdefault(use, []).append(labels.get(str(row["treatment"]), str(row["treatment"])))
        texts = [_use_with_treatments(use, names, total) for use, names in treatments_by_use.items()]
        if is_foreign.any():
            means, own = (_range_text(rows.loc[is_foreign, column]) for column in ("mean", "own"))
            treatments = _treatment_count_text(int(is_foreign.sum()), total)
            texts.append(f"{means} of its CPU in {treatments}, but only {own} of that by its own processes")
        texts_by_host[str(role), str(host)] = texts
    roles = [role for role, _ in texts_by_host]
    return [
        f"{role if roles.count(role) == 1 else f'{role} ({host})'}: {join_words(texts)}."
        for (role, host), texts in texts_by_host.items()
    ]


def _range_text(shares: pd.Series) -> str:
    low, high = shares.min(), shares.max()
    return _percent(high) if _percent(low) == _percent(high) else f"{_percent(low, '')} to {_percent(high)}"


def _use_with_treatments(use: str, treatments: list[str], total: int) -> str:
    if len(treatments) == total > 1:
        return f"{use} of all {total} treatments" if "every trial" not in use else use
    return f"{use} of {join_words([f'“{name}”' if ',' in name else name for name in treatments])}"


def memory_size_text(used: float, installed: float | None) -> str:
    """Return a text on the smallest common memory size for the highest use with some room (arguments in bytes).

    `installed` is None if it is not known. If that size is above it, the text is "nearly all that is installed".
    """
    enough = next((s for s in MEMORY_SIZES_B if used * HEADROOM <= s), None)
    text = f"a host of {enough / GIB:g}{NBSP}GiB would have held it" if enough else "no usual size would have held it"
    if installed and enough and enough > installed:
        text = "nearly all that is installed"
    return text


def resources_page(study: str, run: str = "latest", metric: str = "") -> ResourcesPage:
    """Return the page on the host metrics of a run; parameters and errors as of `effects_page`."""
    return ResourcesPage(load_run_data(study, run), metric=metric)
