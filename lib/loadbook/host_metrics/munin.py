"""Readers of munin: the recorded answers of a node, and exports of its round-robin databases.

A node's protocol is munin's own: one request per line on port 4949, an answer of ``field.value NUMBER`` lines, ended by
a dot. In the controller's file, ``> fetch PLUGIN`` stands before each answer. Values of `cpu` count 1/100 s since boot,
of all CPUs together. munin has neither single cores nor MemAvailable: memory in use is the installed memory without
free memory, buffers and cache.

Databases are read as `rrdtool xport`, `rrdtool dump` or `rrdtool fetch` prints them. Munin writes each field of a
plugin to a file of its own, ``HOST-PLUGIN-FIELD-g.rrd`` (d for counters), with one data source called 42. The field of
a dump or a fetch is known only from its file's name, which must end in the same ``PLUGIN-FIELD-d.xml``; the columns of
an xport have it in their legends (``PLUGIN.FIELD`` or ``PLUGIN-FIELD``). Files of one host are read together, since a
CPU's share needs all of its fields. Counted fields are rates already. The XML is read line by line, never as XML:
nothing in it can be expanded, and a torn file gives its whole rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise

from loadbook.host_metrics import base
from loadbook.host_metrics.base import Problem, TraceRow, Traces, finite_number, trace_row
from loadbook.host_metrics.sampler import CounterSample, SamplingScale, counters_to_traces, cpu_shares

_FIELD_VALUE = re.compile(r"([A-Za-z_]\w{0,60})\.value (-?\d{1,25}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?|U)", re.ASCII)
_INTERFACE = re.compile(r"if_(?!err_)(\S{1,60})")
# the parts of MemTotal that the plugin `memory` tells apart (its source; swap is beside them)
MEMORY_PARTS = ("apps", "free", "buffers", "cached", "shmem", "slab", "page_tables", "per_cpu", "swap_cache")
FREE_PARTS = ("free", "buffers", "cached")

PluginValues = dict[str, dict[str, float]]  # plugin -> field -> value


def usable_plugins(plugins: Iterable[str]) -> list[str]:
    """Return the plugins of a node that provide known metrics."""
    return [p for p in plugins if p in ("cpu", "memory") or _INTERFACE.fullmatch(p)]


def parse_munin(data: bytes) -> Traces:
    """Turn the stored answers of a node into rows; unreadable parts become problems, never exceptions."""
    problems: list[Problem] = []
    polls = base.read_polls(data, problems)
    if polls is None or polls.source != "munin":
        return base.unreadable_traces("no_munin_answers", f"starts with {data[:60]!r}")
    samples = [_sample(poll.t, read_values(poll.lines, problems)) for poll in polls.polls]
    # a node needs longer for its plugins than a short interval asks for: what it keeps to is no gap
    interval_s = base.median_interval_s(sample.t for sample in samples)
    return counters_to_traces(samples, SamplingScale(max(polls.interval_s, interval_s)), problems)


def read_values(lines: Iterable[str], problems: list[Problem]) -> PluginValues:
    """Read one round of answers: plugin -> field -> value; unknown ("U") values are left out."""
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


def _sample(t: float, values: PluginValues) -> CounterSample:
    sample = CounterSample(t)
    cpu = values.get("cpu", {})
    if "idle" in cpu:
        sample.cpus["all"] = [max(0.0, cpu.get(mode, 0.0)) for mode in base.CPU_MODES]
    if memory := memory_bytes(values.get("memory", {})):
        sample.memory = {"MemTotal": memory[0], "MemAvailable": memory[1]}
    for plugin, flow in values.items():
        name = _INTERFACE.fullmatch(plugin)
        if name and "down" in flow and "up" in flow:
            sample.net[name[1]] = (max(0.0, flow["down"]), max(0.0, flow["up"]))
    return sample


def memory_bytes(fields: Mapping[str, float]) -> tuple[float, float] | None:
    """Return installed and not used bytes from the fields of the plugin `memory`, None if it lacks some."""
    if not {"apps", *FREE_PARTS} <= set(fields):
        return None
    return sum(fields.get(part, 0.0) for part in MEMORY_PARTS), sum(fields[part] for part in FREE_PARTS)


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


def is_rrd(data: bytes) -> bool:
    """Tell whether a file is an export of a round-robin database."""
    head = data[:4000].decode("utf-8", "replace")
    fetched = re.match(r"\s*\S+[ \t]*\n\s*\n\d{6,12}: ", head)
    return any(mark in head for mark in ("<xport>", "<!DOCTYPE rrd", "<rrd>")) or bool(fetched)


def parse_rrd(files: Mapping[str, bytes]) -> Traces:
    """Turn the exports of one host (by file name) into rows; unreadable parts become problems."""
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
    """Yield the fields of one file with their values."""
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
    """Return plugin and field of a file or legend that is named as munin names them, None if it is not."""
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
    """Read the averages of a dump: the finest archive, and coarser ones for earlier times."""
    series: RrdSeries = {}
    for archive in text.split("<rra>")[1:]:
        function = _FUNCTION.search(archive)
        if function and function[1] == "AVERAGE":
            begins = min(series, default=math.inf)
            series |= {t: value for t, value in _known_values(_DUMP.findall(archive)).items() if t < begins}
    return series


def _known_values(pairs: list[tuple[str, str]]) -> RrdSeries:
    """Return the values that are known; RRDtool writes nan where it has none."""
    return {float(t): value for t, text in pairs if (value := finite_number(text)) is not None}


def _rows_at(t: float, values: Mapping[PluginField, float]) -> Iterator[TraceRow]:
    cpu = {name: value for (plugin, name), value in values.items() if plugin == "cpu"}
    if {"user", "system", "idle"} <= set(cpu):
        user, nice, system, idle, iowait, irq, softirq, steal = (cpu.get(mode, 0.0) for mode in base.CPU_MODES)
        yield from cpu_shares(t, "all", user + nice, system + irq + softirq, idle, iowait, steal)
    fields = {name: value for (plugin, name), value in values.items() if plugin == "memory"}
    if {"slab", "page_tables"} <= set(fields) and (memory := memory_bytes(fields)):
        yield trace_row(t, "memory_used", "all", memory[0] - memory[1])
        yield trace_row(t, "memory_total", "all", memory[0])
    for (plugin, name), value in values.items():
        item, other = plugin.removeprefix("if_"), {"down": "up", "up": "down"}.get(name)
        if item != plugin and (plugin, other) in values and not item.startswith("err_"):
            yield trace_row(t, "net_rx" if name == "down" else "net_tx", item, value)
