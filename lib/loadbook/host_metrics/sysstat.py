"""Reader of exports of sysstat's `sadf` (``sadf -j`` and ``sadf -d``).

Names and units are those of sadf(1) and sar(1), version 12: percent of each CPU, kilobytes of 1,024 bytes, times in
whole seconds, in UTC unless -t was given. Rates are computed by sadf, for the interval that ends at their time.
``sadf -d`` writes numbers in the user's locale, and so did ``sadf -j`` before version 11.2.1: a decimal comma is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from loadbook.host_metrics.base import GAP_FACTOR, Problem, TraceRow, Traces, trace_row, unreadable_traces
from loadbook.host_metrics.base import finite_number as _number
from loadbook.host_metrics.sampler import cpu_shares

KB = 1024.0
_START = re.compile(r'"statistics"\s*:\s*\[')
_ZONE = re.compile(r'"timezone"\s*:\s*"([^"\n]{0,40})"')
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)( UTC)?", re.ASCII)
_DECIMAL_COMMA = re.compile(r"-?\d+,\d+", re.ASCII)
# no JSON otherwise: in an object, a name in quotes follows a comma
_JSON_DECIMAL_COMMA = re.compile(r'(":\s*-?\d+),(\d+)(?=\s*[,}\]])', re.ASCII)
REPEATED = "[...]"  # of `sadf -dh`: as often as there are CPUs, interfaces, ...
SadfFields = Mapping[str, Any]


@dataclass
class SadfSample:
    """One sample: its end `t` (epoch s), its length `interval_s`, and fields by their names in sadf's JSON.

    `cpus` and `net` have one mapping for each CPU or interface. Units are those of sadf: percent and kB.
    """

    t: float
    interval_s: float
    cpus: list[SadfFields] = field(default_factory=list)
    memory: SadfFields = field(default_factory=dict)
    net: list[SadfFields] = field(default_factory=list)
    queue: SadfFields = field(default_factory=dict)
    sockets: SadfFields = field(default_factory=dict)


def parse_sadf_json(data: bytes) -> Traces:
    """Convert ``sadf -j FILE -- -u ALL -P ALL -r ALL -n DEV,SOCK -q`` (or -A) to rows; the output may be truncated."""
    problems: list[Problem] = []
    text = _JSON_DECIMAL_COMMA.sub(r"\1.\2", data.decode("utf-8", "replace"))
    zone = _ZONE.search(text)
    entries = (entry for start in _START.finditer(text) for entry in _entries(text, start.end(), problems))
    read = (_json_sample(entry, zone[1] if zone else "", problems) for entry in entries)
    samples = [sample for sample in read if sample]
    if not samples and not problems:
        return unreadable_traces("no_sadf_output", f"starts with {text[:60]!r}")
    return _build_traces(samples, problems)


def _entries(text: str, offset: int, problems: list[Problem]) -> Iterator[Any]:
    """Yield the elements of the JSON list at `offset`; if the text is truncated, the complete elements before."""
    decoder = json.JSONDecoder()
    while True:
        while text[offset : offset + 1] in (" ", "\t", "\r", "\n", ","):
            offset += 1
        if text[offset : offset + 1] == "]":
            return
        try:
            entry, offset = decoder.raw_decode(text, offset)
        except (ValueError, RecursionError):
            problems.append(Problem("torn_sample", f"the sample at byte {offset} has no end"))
            return
        yield entry


def _json_sample(entry: Any, zone: str, problems: list[Problem]) -> SadfSample | None:
    stamp = entry.get("timestamp") if isinstance(entry, dict) else None
    if not isinstance(stamp, dict):
        problems.append(Problem("unreadable_sample", "a sample without a timestamp"))
        return None
    utc = stamp.get("utc") in (1, "1", True) or zone in ("UTC", "GMT")
    t = _parse_time(f"{stamp.get('date')} {stamp.get('time')}{' UTC' if utc else ''}", problems)
    if t is None:
        return None
    network = _table(entry, "network")
    interval_s = _number(stamp.get("interval")) or 0.0
    return SadfSample(
        t, interval_s, _list(entry, "cpu-load"), _table(entry, "memory"), _list(network, "net-dev"),
        _table(entry, "queue"), _table(network, "net-sock"),
    )  # fmt: skip


def _table(entry: Any, key: str) -> SadfFields:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, dict) else {}


def _list(entry: Any, key: str) -> list[SadfFields]:
    value = entry.get(key) if isinstance(entry, dict) else None
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def parse_sadf_csv(data: bytes) -> Traces:
    """Convert the output of ``sadf -d FILE -- ...`` to rows: blocks of lines, each below a line with field names.

    With -h, a line holds all activities of a time. It is read unless more than one of them is repeated in it.
    """
    problems: list[Problem] = []
    text = data.decode("utf-8", "replace")
    samples: dict[float, SadfSample] = {}
    heads: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(";")
        if line.startswith("# "):
            heads = line[2:].split(";")
        elif len(cells) >= 3 and cells[1] == "-1":  # LINUX-RESTART and COMMENT
            problems.append(Problem("host_restarted", ";".join(cells[2:])[:80]))
        else:
            parts = _csv_parts(heads, cells)
            if isinstance(parts, str):
                problems.append(Problem("unreadable_line", f"line {number}: {parts or repr(line[:60])}"))
                continue
            for values in parts:
                _add_csv_line(values, samples, problems)
    if not samples and not heads:
        return unreadable_traces("no_sadf_output", f"starts with {text[:60]!r}")
    return _build_traces([samples[t] for t in sorted(samples)], problems)


def _csv_parts(heads: list[str], cells: list[str]) -> list[dict[str, str]] | str:
    """Return the values of a line by the names of their fields; for `sadf -dh`, a part for each CPU, interface, ...

    A text says why a line cannot be read; it is empty if the number of cells is wrong.
    """
    ends = [k for k, head in enumerate(heads) if head.endswith(REPEATED)]
    if len(ends) > 1:
        return "it holds all activities, more than one of them repeated: export it with sadf -d, without -h"
    names = [_field_name(head.removesuffix(REPEATED)) for head in heads]
    values = [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]
    if not ends:
        return [dict(zip(names, values, strict=True))] if heads and len(cells) == len(heads) else ""
    end = ends[0] + 1
    first = next((k for k in range(ends[0], 2, -1) if heads[k].isupper()), 3)  # CPU, IFACE, ...
    repeats, rest = divmod(len(cells) - len(heads), end - first)
    if rest or repeats < 0:
        return ""
    further = repeats * (end - first)
    whole = names[:first] + names[end:], values[:first] + values[end + further :]
    begins = range(first, end + further, end - first)
    one = [(names[:3] + names[first:end], values[:3] + values[k : k + end - first]) for k in begins]
    return [dict(zip(*part, strict=True)) for part in (*one, whole)]


def _field_name(cell: str) -> str:
    """Return the name in JSON of a field of ``sadf -d``: %usr -> usr, kbmemfree -> memfree, rxkB/s -> rxkB."""
    if cell in ("%memused", "%commit"):
        return f"{cell[1:]}-percent"
    return cell.strip().removeprefix("%").removesuffix("/s").removeprefix("kb")


def _add_csv_line(values: dict[str, str], samples: dict[float, SadfSample], problems: list[Problem]) -> None:
    stamp = values.get("timestamp", "")
    t = _number(stamp) if stamp.isdigit() else _parse_time(stamp, problems)
    if t is None:
        return
    sample = samples.setdefault(t, SadfSample(t, _number(values.get("interval")) or 0.0))
    if "CPU" in values:
        number = values["CPU"]
        sample.cpus.append(values | {"cpu": "all" if number == "-1" else number})
    if "IFACE" in values and "rxkB" in values:
        sample.net.append(values | {"iface": values["IFACE"]})
    if "memfree" in values:
        sample.memory = values
    if "ldavg-1" in values:
        sample.queue = values
    if "tcpsck" in values:
        sample.sockets = values


def _parse_time(stamp: str, problems: list[Problem]) -> float | None:
    """Return a UTC time as epoch seconds; None, with a problem, for local times, since their zone is not recorded."""
    match = _STAMP.fullmatch(stamp)
    try:
        read = datetime.fromisoformat(f"{match[1]}T{match[2]}") if match else None
    except ValueError:
        read = None
    if match is None or read is None:
        problems.append(Problem("unreadable_sample", f"no time: {stamp[:40]!r}"))
    elif not match[3]:
        problems.append(Problem("local_times", f"{stamp} is local time: export it without -t"))
    else:
        return read.replace(tzinfo=UTC).timestamp()
    return None


def _build_traces(samples: list[SadfSample], problems: list[Problem]) -> Traces:
    ordered: list[SadfSample] = []
    for sample in samples:
        if ordered and sample.t <= ordered[-1].t:
            problems.append(Problem("unreadable_sample", "a sample is out of order", sample.t))
        else:
            ordered.append(sample)
    lengths = sorted(m.interval_s for m in ordered if m.interval_s > 0)
    median_interval_s = lengths[len(lengths) // 2] if lengths else 0.0
    interfaces = [fields for m in ordered for fields in m.net]
    active = {_field_text(n, "iface") for n in interfaces if _number(n.get("rxkB")) or _number(n.get("txkB"))}
    rows = [r for m in ordered for r in _sample_rows(m, median_interval_s, active, problems)]
    if len(ordered) < 2:
        problems.append(Problem("too_few_samples", f"{len(ordered)} whole samples"))
    problems += (problem for m in ordered for problem in _not_numbers(m))
    return Traces(rows, [m.t for m in ordered], median_interval_s, problems)


def _not_numbers(sample: SadfSample) -> Iterator[Problem]:
    """Yield a problem for each field of a metric that is in the file, but holds no number of 0 or more."""
    tables = ((_CPU_FIELDS, sample.cpus), (("rxkB", "txkB"), sample.net), (("ldavg-1",), [sample.queue]),
              (("tcpsck", "tcp-tw"), [sample.sockets]), (_MEMORY_FIELDS, [sample.memory]))  # fmt: skip
    for keys, rows in tables:
        for fields in rows:
            wrong = [f"{key} is {fields[key]!r:.40}" for key in keys if _number(fields.get(key, 0)) is None]
            if wrong:
                yield Problem("not_a_number", f"{', '.join(wrong[:3])}: no number; export it with LC_ALL=C", sample.t)


def _sample_rows(
    sample: SadfSample, median_interval_s: float, active_interfaces: set[str], problems: list[Problem]
) -> Iterator[TraceRow]:
    yield from _gauge_rows(sample, problems)
    if median_interval_s and sample.interval_s > GAP_FACTOR * median_interval_s:
        message = f"{sample.interval_s:g} s without a sample, {median_interval_s:g} s is usual"
        problems.append(Problem("gap", message, sample.t))
        return
    for fields in sample.cpus:
        item = _field_text(fields, "cpu")
        yield from _cpu_rows(sample.t, item if item == "all" else f"cpu{item}", fields)
    for fields in sample.net:
        rx, tx = _number(fields.get("rxkB")), _number(fields.get("txkB"))
        if rx is not None and tx is not None and _field_text(fields, "iface") in active_interfaces:
            yield trace_row(sample.t, "net_rx", _field_text(fields, "iface"), rx * KB)
            yield trace_row(sample.t, "net_tx", _field_text(fields, "iface"), tx * KB)


def _field_text(fields: SadfFields, key: str) -> str:
    return str(fields.get(key, ""))[:60]


_CPU_PARTS = (
    ("usr", "user", "nice", "guest", "gnice"),
    ("sys", "system", "irq", "soft"),
    ("idle",),
    ("iowait",),
    ("steal",),
)
_CPU_FIELDS = tuple(key for keys in _CPU_PARTS for key in keys)
_MEMORY_FIELDS = ("avail", "memfree", "memused", "buffers", "cached", "slab", "memused-percent")


def _cpu_rows(t: float, item: str, fields: SadfFields) -> list[TraceRow]:
    """Return the rows of a CPU; `-u ALL` splits user and system time into parts, which are added up here."""
    shares = [sum(_number(fields.get(key)) or 0.0 for key in keys) for keys in _CPU_PARTS]
    return cpu_shares(t, item, *shares) if _number(fields.get("idle")) is not None else []


def _gauge_rows(sample: SadfSample, problems: list[Problem]) -> Iterator[TraceRow]:
    gauges = {"load1": (sample.queue, "ldavg-1"), "sockets_tcp_inuse": (sample.sockets, "tcpsck"),
             "sockets_tcp_tw": (sample.sockets, "tcp-tw")}  # fmt: skip
    for metric, (fields, key) in gauges.items():
        if (value := _number(fields.get(key))) is not None:
            yield trace_row(sample.t, metric, "all", value)
    if not sample.memory:
        return
    total, free = _installed_kb(sample.memory), _number(sample.memory.get("avail"))
    if total is None or free is None or free > total:
        message = "installed or available memory is not in the file: export it with -r ALL"
        problems.append(Problem("memory_not_told", message, sample.t))
    else:
        yield trace_row(sample.t, "memory_used", "all", (total - free) * KB)
        yield trace_row(sample.t, "memory_total", "all", total * KB)


def _installed_kb(memory: SadfFields) -> float | None:
    """Return MemTotal in kB, computed from kbmemused as sar(1) defines it; None without `-r ALL`.

    Before version 11.7.3, kbmemused was MemTotal - kbmemfree, which is detected by %memused.
    """
    free, used, *others = (_number(memory.get(key)) for key in ("memfree", "memused", "buffers", "cached", "slab"))
    if free is None or used is None:
        return None
    share = _number(memory.get("memused-percent"))
    if share is not None and free + used > 0 and abs(100 * used / (free + used) - share) <= 0.006:
        return free + used
    return free + used + sum(o or 0.0 for o in others) if None not in others else None
