"""Reader of exports of munin's round-robin databases: `rrdtool xport`, `rrdtool dump`, `rrdtool fetch`.

Munin writes each field of a plugin to a file of its own, ``HOST-PLUGIN-FIELD-g.rrd`` (d for counters), with one data
source called 42. The field of a dump or a fetch is known only from its file's name, which must end in the same
``PLUGIN-FIELD-d.xml``; the columns of an xport have it in their legends (``PLUGIN.FIELD`` or ``PLUGIN-FIELD``).
Files of one host are read together, since a CPU's share needs all of its fields. Counted fields are rates already.
The XML is read line by line, never as XML: nothing in it can be expanded, and a torn file gives its whole rows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise

from loadbook.host_metrics.base import GAP_FACTOR, Problem, TraceRow, Traces, median_interval_s, trace_row
from loadbook.host_metrics.munin import memory_bytes
from loadbook.host_metrics.node_exporter import CPU_MODES
from loadbook.host_metrics.sampler import cpu_shares

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
    step = median_interval_s(times)
    rows = [r for t in times for r in _rows_at(t, {f: s[t] for f, s in values_by_field.items() if t in s})]
    problems += [
        Problem("gap", f"{b - a:.0f} s without a sample, {step:.0f} s is usual", b)
        for a, b in pairwise(times)
        if b - a > GAP_FACTOR * step
    ]
    if times and not rows:
        field_names = ", ".join(f"{plugin}.{field}" for plugin, field in sorted(values_by_field))
        message = (
            f"the files have {field_names}: a trace needs all fields of cpu or memory, or up and down of an interface"
        )
        problems.append(Problem("fields_missing", message))
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
    series: RrdSeries = {}
    for t, text in pairs:
        try:
            value = float(text)
        except ValueError:
            continue
        if math.isfinite(value) and 0 <= value < 1e18:
            series[float(t)] = value
    return series


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
