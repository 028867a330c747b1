"""Readers of monitors that a host already runs: munin and Prometheus' node_exporter, polled or exported.

During a trial the controller polls such a monitor and stores the answers in a file, in order. Its first line is
``loadbook-poll 1 SOURCE INTERVAL_S``. Each answer is enclosed by ``@ BEGUN ENDED`` (epoch seconds, controller's clock)
and ``@end``; without ``@end`` it is incomplete.

munin: a node on port 4949 answers each request with lines ``field.value NUMBER``, ended by a dot. In the controller's
file each answer follows a line ``> fetch PLUGIN``. Values of `cpu` count 1/100 s since boot, summed over all CPUs.
munin has neither single CPUs nor MemAvailable: memory used is the installed memory minus free memory, buffers and
cache.

munin's databases are read as `rrdtool xport`, `rrdtool dump` or `rrdtool fetch` prints them. Munin writes each field of
a plugin to a file of its own, ``HOST-PLUGIN-FIELD-g.rrd`` (d for counters), with one data source called 42. The field
of a dump or a fetch is known only from the name of its file, which must end in ``PLUGIN-FIELD-d.xml``; an xport names
the fields in its legends (``PLUGIN.FIELD`` or ``PLUGIN-FIELD``). Files of one host are read together, since a CPU's
share needs all of its fields. Counters are stored as rates. The XML is read with regular expressions, not parsed, so
that no entity is expanded and a truncated file gives its complete rows.

node_exporter: Prometheus' exposition format (``name{label="value"} number [timestamp in ms]``), OpenMetrics (timestamps
in seconds), and lines ``{__name__="name", ...}`` as `promtool tsdb dump` writes them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from loadbook.core.units import pluralize
from loadbook.host_metrics import base
from loadbook.host_metrics.base import CPU_MODES, Problem, TraceRow, Traces, finite_number, trace_row
from loadbook.host_metrics.sampler import CounterSample, SamplingScale, counters_to_traces, cpu_shares

_HEAD = re.compile(r"loadbook-poll 1 ([a-z-]{1,30}) (\d{1,5}(?:\.\d{1,6})?)", re.ASCII)
_BEGIN = re.compile(r"@ (\d{1,12}\.\d{1,9}) (\d{1,12}\.\d{1,9})", re.ASCII)
# munin
_FIELD_VALUE = re.compile(r"([A-Za-z_]\w{0,60})\.value (-?\d{1,25}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?|U)", re.ASCII)
_INTERFACE = re.compile(r"if_(?!err_)(\S{1,60})")
# the parts of MemTotal in munin's plugin `memory` (from its source code; swap is not part of it)
MEMORY_PARTS = ("apps", "free", "buffers", "cached", "shmem", "slab", "page_tables", "per_cpu", "swap_cache")
FREE_PARTS = ("free", "buffers", "cached")
PluginValues = dict[str, dict[str, float]]  # plugin -> field -> value
# exports of munin's databases
_NAME = re.compile(r"(?:.*[-.])?(cpu|memory|if_\w+)[-.]([a-z_]+?)(?:-[gdca])?(?:\.(?:rrd|xml|txt))*", re.ASCII)
_DUMP = re.compile(r"<!--[^>]{0,60}/ (\d{1,12}) -->\s*<row><v>\s*([^<\s]{1,30})\s*</v></row>")
_FUNCTION = re.compile(r"<cf>\s*(\w{1,20})\s*</cf>")
_LEGEND = re.compile(r"<entry>([^<]{0,200})</entry>")
_XPORT = re.compile(r"<row>(?:<t>\s*(\d{1,12})\s*</t>)?((?:<v>[^<]{0,40}</v>){1,500})</row>")
_META = re.compile(r"<(start|step)>\s*(\d{1,12})\s*</")
_VALUE = re.compile(r"<v>\s*([^<\s]{0,40})\s*</v>")
_FETCH = re.compile(r"(\d{1,12}):\s+(\S{1,40})\s*", re.ASCII)
RrdSeries = dict[float, float]  # epoch s -> value
PluginField = tuple[str, str]  # plugin, field
# node_exporter
_LINE = re.compile(r"([a-zA-Z_:][\w:]{0,200})?(?:\{([^\n]{0,4000})\})?\s+(\S{1,40})(?:\s+(\S{1,30}))?\s*", re.ASCII)
_LABEL = re.compile(r'(\w{1,100})="((?:[^"\\]|\\.){0,1000})"', re.ASCII)
# names of metrics in node_exporter since 0.16, and before
CPU_METRICS = ("node_cpu_seconds_total", "node_cpu")
RX_METRICS = ("node_network_receive_bytes_total", "node_network_receive_bytes")
TX_METRICS = ("node_network_transmit_bytes_total", "node_network_transmit_bytes")
MEMORY_METRICS = {
    "node_memory_MemTotal_bytes": "MemTotal", "node_memory_MemTotal": "MemTotal",
    "node_memory_MemAvailable_bytes": "MemAvailable", "node_memory_MemAvailable": "MemAvailable",
}  # fmt: skip
GAUGE_METRICS = {
    "node_load1": "load1", "node_sockstat_TCP_inuse": "sockets_tcp_inuse", "node_sockstat_TCP_tw": "sockets_tcp_tw",
}  # fmt: skip
MILLISECONDS = 1e11  # a timestamp from here on counts milliseconds: as seconds it would be the year 5138
MAX_TIME, MAX_VALUE = 1e15, 1e20  # more than a clock or a kernel counter can show
MetricPoint = tuple[str, dict[str, str], float]


class Poll(NamedTuple):
    """Lines of one answer; `t` (epoch s) is halfway between request and answer."""

    t: float
    lines: list[str]


class Polls(NamedTuple):
    """The complete answers of one source, such as munin, in order of time; `interval_s` is the requested interval."""

    source: str
    interval_s: float
    polls: list[Poll]


def header_line(source: str, interval_s: float) -> str:
    """Return the first line of a file of polled answers."""
    return f"loadbook-poll 1 {source} {interval_s:g}\n"


def format_poll(begun: float, ended: float, answer: str) -> str:
    """Return one answer as it is stored, between ``@ BEGUN ENDED`` (epoch s) and ``@end``."""
    return f"@ {begun:.6f} {ended:.6f}\n{answer}{'' if answer.endswith(chr(10)) else chr(10)}@end\n"


def is_polled(data: bytes) -> bool:
    """Return whether a file holds polled answers."""
    return data.startswith(b"loadbook-poll 1 ")


def read_polls(data: bytes, problems: list[Problem]) -> Polls | None:
    """Read a file of polled answers; None if it is another file. Incomplete answers are added to `problems`."""
    lines = data.decode("utf-8", "replace").split("\n")
    head = _HEAD.fullmatch(lines[0])
    if head is None or float(head[2]) <= 0:
        return None
    return Polls(head[1], float(head[2]), list(_polls(lines[1:], problems)))


def _polls(lines: Iterable[str], problems: list[Problem]) -> Iterable[Poll]:
    opened: Poll | None = None
    last = 0.0
    for number, line in enumerate([*lines, "@ 0.0 0.0"], 2):
        if line == "@end" and opened is not None:
            if opened.t <= last:
                problems.append(Problem("unreadable_sample", f"the answer that ends in line {number} is out of order"))
            else:
                last = opened.t
                yield opened
            opened = None
        elif begun := _BEGIN.fullmatch(line):
            if opened is not None:
                problems.append(Problem("torn_sample", f"the answer before line {number} has no end"))
            opened = Poll((float(begun[1]) + float(begun[2])) / 2, [])
        elif opened is not None:
            opened.lines.append(line)


def usable_plugins(plugins: Iterable[str]) -> list[str]:
    """Return those of a munin node's plugins that loadbook reads: cpu, memory and the interfaces (if_NAME)."""
    return [p for p in plugins if p in ("cpu", "memory") or _INTERFACE.fullmatch(p)]


def parse_munin(data: bytes) -> Traces:
    """Convert the stored answers of a munin node to rows; unreadable parts become problems, never exceptions."""
    problems: list[Problem] = []
    polls = read_polls(data, problems)
    if polls is None or polls.source != "munin":
        return base.unreadable_traces("no_munin_answers", f"starts with {data[:60]!r}")
    samples = [_munin_sample(poll.t, read_values(poll.lines, problems)) for poll in polls.polls]
    # if the node needs longer than the requested interval, its own usual interval is no gap
    interval_s = base.median_interval_s(sample.t for sample in samples)
    return counters_to_traces(samples, SamplingScale(max(polls.interval_s, interval_s)), problems)


def read_values(lines: Iterable[str], problems: list[Problem]) -> PluginValues:
    """Return {plugin: {field: value}} of one poll, without unknown values; other lines are added to `problems`."""
    values: PluginValues = {}
    plugin = ""
    for line in lines:
        if line.startswith("> fetch "):
            plugin = line.removeprefix("> fetch ").strip()
        elif line.startswith("multigraph "):
            plugin = line.removeprefix("multigraph ").strip()
        elif value := _FIELD_VALUE.fullmatch(line.strip()):
            if value[2] != "U":
                values.setdefault(plugin, {})[value[1]] = float(value[2])
        elif line.strip() not in ("", ".") and not line.startswith(("#", ">")):
            problems.append(Problem("unreadable_line", f"{plugin}: {line[:60]!r}"))
        elif line.startswith("# ") and "munin node at" not in line:
            problems.append(Problem("munin_says", f"{plugin}: {line[2:80]}"))
    return values


def _munin_sample(t: float, values: PluginValues) -> CounterSample:
    sample = CounterSample(t)
    cpu = values.get("cpu", {})
    if "idle" in cpu:
        sample.cpus["all"] = [max(0.0, cpu.get(mode, 0.0)) for mode in CPU_MODES]
    if memory := memory_bytes(values.get("memory", {})):
        sample.memory = {"MemTotal": memory[0], "MemAvailable": memory[1]}
    for plugin, flow in values.items():
        name = _INTERFACE.fullmatch(plugin)
        if name and "down" in flow and "up" in flow:
            sample.net[name[1]] = (max(0.0, flow["down"]), max(0.0, flow["up"]))
    return sample


def memory_bytes(fields: Mapping[str, float]) -> tuple[float, float] | None:
    """Return (installed, free + buffers + cached) bytes by the fields of plugin `memory`; None if one is missing."""
    if not {"apps", *FREE_PARTS} <= set(fields):
        return None
    return sum(fields.get(part, 0.0) for part in MEMORY_PARTS), sum(fields[part] for part in FREE_PARTS)


def is_rrd(data: bytes) -> bool:
    """Return whether a file is an export of a round-robin database (xport, dump or fetch)."""
    head = data[:4000].decode("utf-8", "replace")
    fetched = re.match(r"\s*\S+[ \t]*\n\s*\n\d{6,12}: ", head)
    return any(mark in head for mark in ("<xport>", "<!DOCTYPE rrd", "<rrd>")) or bool(fetched)


def parse_rrd(files: Mapping[str, bytes]) -> Traces:
    """Convert the exports of one host, {file name: data}, to rows; unreadable parts become problems."""
    problems: list[Problem] = []
    values_by_field: dict[PluginField, RrdSeries] = {}
    for name, data in files.items():
        for field, series in _read_file(name, data.decode("utf-8", "replace"), problems):
            values_by_field.setdefault(field, {}).update(series)
    times = sorted({t for series in values_by_field.values() for t in series})
    step = base.median_interval_s(times)
    rows = [r for t in times for r in _rows_at(t, {f: s[t] for f, s in values_by_field.items() if t in s})]
    problems += [
        Problem("gap", f"{b - a:.0f} s without a sample, {step:.0f} s is usual", b)
        for a, b in pairwise(times)
        if b - a > base.GAP_FACTOR * step
    ]
    if times and not rows:
        field_names = ", ".join(f"{plugin}.{field}" for plugin, field in sorted(values_by_field))
        needed = "a trace needs all fields of cpu or memory, or up and down of an interface"
        problems.append(Problem("fields_missing", f"the files have {field_names}: {needed}"))
    elif len(times) < 2:
        problems.append(Problem("too_few_samples", f"{len(times)} whole samples"))
    return Traces(rows, times, step, problems)


def _read_file(name: str, text: str, problems: list[Problem]) -> Iterator[tuple[PluginField, RrdSeries]]:
    """Yield (field, its values) for each field in one file."""
    if "<xport>" in text[:4000]:
        yield from _read_xport(name, text, problems)
        return
    field = parse_field_name(name)
    if field is None:
        message = f"{name}: the name does not end in PLUGIN-FIELD-d.xml, as munin names its databases"
        problems.append(Problem("unknown_field", message))
        return
    series = _read_dump(text) if "<rrd>" in text[:4000] else _known_values(_FETCH.findall(text))
    if not series:
        problems.append(Problem("no_values", f"{name} holds no known value"))
    yield field, series


def parse_field_name(name: str) -> PluginField | None:
    """Return (plugin, field) from a name such as HOST-cpu-user-d.rrd or cpu.user; None for another name."""
    match = _NAME.fullmatch(name.rpartition("/")[2].strip())
    return (match[1], match[2]) if match else None


def _read_xport(name: str, text: str, problems: list[Problem]) -> Iterator[tuple[PluginField, RrdSeries]]:
    legends, meta = _LEGEND.findall(text), dict(_META.findall(text[:4000]))
    start, step = int(meta.get("start", 0)), int(meta.get("step", 0))
    rows = [
        (t or str(start + number * step), _VALUE.findall(values))
        for number, (t, values) in enumerate(_XPORT.findall(text))
        if t or (start and step)
    ]
    if not rows:
        problems.append(Problem("no_values", f"{name}: no row that has a time"))
    for column, legend in enumerate(legends):
        field = parse_field_name(legend)
        if field is None:
            problems.append(Problem("unknown_field", f"{name}: the column {legend[:60]!r} is not called PLUGIN.FIELD"))
        else:
            yield field, _known_values([(t, values[column]) for t, values in rows if column < len(values)])


def _read_dump(text: str) -> RrdSeries:
    """Read the averages of a dump: from the finest archive, and from coarser ones for earlier times."""
    series: RrdSeries = {}
    for archive in text.split("<rra>")[1:]:
        function = _FUNCTION.search(archive)
        if function and function[1] == "AVERAGE":
            begins = min(series, default=math.inf)
            series |= {t: value for t, value in _known_values(_DUMP.findall(archive)).items() if t < begins}
    return series


def _known_values(pairs: list[tuple[str, str]]) -> RrdSeries:
    """Return {epoch s: value} without unknown values, for which RRDtool writes nan."""
    return {float(t): value for t, text in pairs if (value := finite_number(text)) is not None}


def _rows_at(t: float, values: Mapping[PluginField, float]) -> Iterator[TraceRow]:
    cpu = {name: value for (plugin, name), value in values.items() if plugin == "cpu"}
    if {"user", "system", "idle"} <= set(cpu):
        user, nice, system, idle, iowait, irq, softirq, steal = (cpu.get(mode, 0.0) for mode in CPU_MODES)
        yield from cpu_shares(t, "all", user + nice, system + irq + softirq, idle, iowait, steal)
    fields = {name: value for (plugin, name), value in values.items() if plugin == "memory"}
    if {"slab", "page_tables"} <= set(fields) and (memory := memory_bytes(fields)):
        yield trace_row(t, "memory_used", "all", memory[0] - memory[1])
        yield trace_row(t, "memory_total", "all", memory[0])
    for (plugin, name), value in values.items():
        item, other = plugin.removeprefix("if_"), {"down": "up", "up": "down"}.get(name)
        if item != plugin and (plugin, other) in values and not item.startswith("err_"):
            yield trace_row(t, "net_rx" if name == "down" else "net_tx", item, value)


def parse_node_exporter(data: bytes) -> Traces:
    """Convert scrapes of a node_exporter to rows; unreadable parts become problems, never exceptions."""
    problems: list[Problem] = []
    if is_polled(data):
        polls = read_polls(data, problems)
        if polls is None:
            return base.unreadable_traces("no_scrape", f"starts with {data[:60]!r}")
        times = {poll.t: [p for p, _ in _parse_points(poll.lines, problems)] for poll in polls.polls}
        requested_interval_s = polls.interval_s
    else:
        requested_interval_s, times = 0.0, {}
        timed_points = list(_parse_points(data.decode("utf-8", "replace").splitlines(), problems))
        for point, t in timed_points:
            if t is not None:
                times.setdefault(t, []).append(point)
        if without_time := sum(t is None for _, t in timed_points):
            message = f"{pluralize(without_time, 'sample')} without a timestamp: they cannot be placed in time"
            problems.append(Problem("no_timestamps", message))
    samples = [sample for t, points in sorted(times.items()) if (sample := _node_sample(t, points, problems))]
    interval_s = max(requested_interval_s, base.median_interval_s(s.t for s in samples))
    return counters_to_traces(samples, SamplingScale(interval_s), problems)


def _parse_points(lines: Iterable[str], problems: list[Problem]) -> Iterator[tuple[MetricPoint, float | None]]:
    """Yield (sample, its timestamp in epoch s or None) for the samples of a scrape whose names begin with ``node_``."""
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        labels = dict(_LABEL.findall(match[2] or "")) if match else {}
        name = (match[1] or labels.get("__name__", "")) if match else ""
        value, t = (finite_number(match[3], MAX_VALUE), finite_number(match[4], MAX_TIME)) if match else (None, None)
        if match is None or not name or (match[4] and not t):
            problems.append(Problem("unreadable_line", f"line {number}: {line[:60]!r}"))
        elif value is not None and name.startswith("node_"):
            yield (name, labels, value), t / 1000 if t and t >= MILLISECONDS else t


def _node_sample(t: float, points: Iterable[MetricPoint], problems: list[Problem]) -> CounterSample | None:
    """Return the points of one instant as one sample; None if it has no metric that loadbook uses."""
    sample, cpus = CounterSample(t), dict[str, dict[str, float]]()
    flows: dict[str, list[float | None]] = {}
    for name, labels, value in points:
        if name in CPU_METRICS and "cpu" in labels:
            cpus.setdefault(f"cpu{labels['cpu'].removeprefix('cpu')}", {})[labels.get("mode", "")] = value
        elif name in MEMORY_METRICS:
            sample.memory[MEMORY_METRICS[name]] = value
        elif name in GAUGE_METRICS:
            sample.gauges[GAUGE_METRICS[name]] = value
        elif name in RX_METRICS + TX_METRICS and "device" in labels:
            flows.setdefault(labels["device"], [None, None])[name in TX_METRICS] = value
    sample.net = {device: (rx, tx) for device, (rx, tx) in flows.items() if rx is not None and tx is not None}
    sample.cpus = {
        item: [modes.get(mode, 0.0) for mode in CPU_MODES] for item, modes in cpus.items() if "idle" in modes
    }
    if len(sample.cpus) < len(cpus):
        problems.append(Problem("torn_sample", "a CPU's times lack idle", t))
    if sample.cpus:
        sample.cpus["all"] = [sum(parts) for parts in zip(*sample.cpus.values(), strict=True)]
    return sample if sample.cpus or sample.memory or sample.net or sample.gauges else None
