"""Exports of sysstat's `sadf` (``sadf -j`` and ``sadf -d``) -> rows of traces.

Names and units are those of sadf(1) and sar(1), version 12: percent of each CPU, kilobytes of 1,024 bytes, times in UTC
unless -t was given, whole seconds. sadf has made the rates already, of the interval that ends at their time.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from loadbook.traces.base import GAP, Problem, Row, Traces, nothing, row
from loadbook.traces.counters import cpu_shares

KB = 1024.0
_START = re.compile(r'"statistics"\s*:\s*\[')
_ZONE = re.compile(r'"timezone"\s*:\s*"([^"\n]{0,40})"')
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)( UTC)?", re.ASCII)
Fields = Mapping[str, Any]


@dataclass
class Moment:
    """One sample: its end (epoch s), its length (s), and tables of fields as JSON calls them, percent and kB."""

    t: float
    interval_s: float
    cpus: list[Fields] = field(default_factory=list)
    memory: Fields = field(default_factory=dict)
    net: list[Fields] = field(default_factory=list)
    queue: Fields = field(default_factory=dict)
    sockets: Fields = field(default_factory=dict)


def parse_json(data: bytes) -> Traces:
    """Turn ``sadf -j FILE -- -u ALL -P ALL -r ALL -n DEV,SOCK -q`` (or -A) into rows, whole samples of a torn file."""
    problems: list[Problem] = []
    text = data.decode("utf-8", "replace")
    moments = list(_json_moments(text, problems))
    if not moments and not problems:
        return nothing("no_sadf_output", f"starts with {text[:60]!r}")
    return _traces(moments, problems)


def _json_moments(text: str, problems: list[Problem]) -> Iterator[Moment]:
    zone = _ZONE.search(text)
    for start in _START.finditer(text):
        yield from (
            moment
            for entry in _entries(text, start.end(), problems)
            if (moment := _json_moment(entry, zone[1] if zone else "", problems))
        )


def _entries(text: str, at: int, problems: list[Problem]) -> Iterator[Any]:
    """Yield the elements of a JSON list one by one: those before a tear are whole."""
    decoder = json.JSONDecoder()
    while True:
        at = _skip(text, at)
        if text[at : at + 1] == "]":
            return
        try:
            entry, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            problems.append(Problem("torn_sample", f"the sample at byte {at} has no end"))
            return
        yield entry


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n,":
        at += 1
    return at


def _json_moment(entry: Any, zone: str, problems: list[Problem]) -> Moment | None:
    stamp = entry.get("timestamp") if isinstance(entry, dict) else None
    if not isinstance(stamp, dict):
        problems.append(Problem("unreadable_sample", "a sample without a timestamp"))
        return None
    utc = stamp.get("utc") in (1, "1", True) or zone in ("UTC", "GMT")
    t = _seconds(f"{stamp.get('date')} {stamp.get('time')}{' UTC' if utc else ''}", problems)
    if t is None:
        return None
    network = _table(entry, "network")
    interval_s = _number(stamp.get("interval")) or 0.0
    return Moment(
        t, interval_s, _list(entry, "cpu-load"), _table(entry, "memory"), _list(network, "net-dev"),
        _table(entry, "queue"), _table(network, "net-sock"),
    )  # fmt: skip


def _table(entry: Any, key: str) -> Fields:
    value = entry.get(key) if isinstance(entry, dict) else None
    return value if isinstance(value, dict) else {}


def _list(entry: Any, key: str) -> list[Fields]:
    value = entry.get(key) if isinstance(entry, dict) else None
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def parse_csv(data: bytes) -> Traces:
    """Turn ``sadf -d FILE -- ...`` into rows: blocks of lines, each below a line that names its fields."""
    problems: list[Problem] = []
    text = data.decode("utf-8", "replace")
    moments: dict[float, Moment] = {}
    heads: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        cells = line.split(";")
        if line.startswith("# "):
            heads = [_plain(cell) for cell in line[2:].split(";")]
        elif len(cells) >= 3 and cells[1] == "-1":  # LINUX-RESTART and COMMENT
            problems.append(Problem("host_restarted", ";".join(cells[2:])[:80]))
        elif not heads or len(cells) != len(heads):
            problems.append(Problem("unreadable_line", f"line {number}: {line[:60]!r}"))
        else:
            _csv_line(dict(zip(heads, cells, strict=True)), moments, problems)
    if not moments and not heads:
        return nothing("no_sadf_output", f"starts with {text[:60]!r}")
    return _traces([moments[t] for t in sorted(moments)], problems)


def _plain(cell: str) -> str:
    """Return a field's name as JSON has it: %usr -> usr, kbmemfree -> memfree, rxkB/s -> rxkB."""
    if cell in ("%memused", "%commit"):
        return f"{cell[1:]}-percent"
    return cell.strip().removeprefix("%").removesuffix("/s").removeprefix("kb")


def _csv_line(values: dict[str, str], moments: dict[float, Moment], problems: list[Problem]) -> None:
    stamp = values.get("timestamp", "")
    t = _number(stamp) if stamp.isdigit() else _seconds(stamp, problems)
    if t is None:
        return
    moment = moments.setdefault(t, Moment(t, _number(values.get("interval")) or 0.0))
    if "CPU" in values:
        number = values["CPU"]
        moment.cpus.append(values | {"cpu": "all" if number == "-1" else number})
    elif "IFACE" in values and "rxkB" in values:
        moment.net.append(values | {"iface": values["IFACE"]})
    elif "memfree" in values:
        moment.memory = values
    elif "ldavg-1" in values:
        moment.queue = values
    elif "tcpsck" in values:
        moment.sockets = values


def _seconds(stamp: str, problems: list[Problem]) -> float | None:
    """Read a time; only UTC can be placed, as the zone of another is not told."""
    found = _STAMP.fullmatch(stamp)
    try:
        read = datetime.fromisoformat(f"{found[1]}T{found[2]}") if found else None
    except ValueError:
        read = None
    if found is None or read is None:
        problems.append(Problem("unreadable_sample", f"no time: {stamp[:40]!r}"))
    elif not found[3]:
        problems.append(Problem("local_times", f"{stamp} is local time: export it without -t"))
    else:
        return read.replace(tzinfo=UTC).timestamp()
    return None


def _number(value: Any) -> float | None:
    """Return a number that is finite and not negative."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) and 0 <= number < 1e18 else None


def _traces(moments: list[Moment], problems: list[Problem]) -> Traces:
    ordered: list[Moment] = []
    for moment in moments:
        if ordered and moment.t <= ordered[-1].t:
            problems.append(Problem("unreadable_sample", "a sample is out of order", moment.t))
        else:
            ordered.append(moment)
    lengths = sorted(m.interval_s for m in ordered if m.interval_s > 0)
    usual = lengths[len(lengths) // 2] if lengths else 0.0
    carried = {_name(n, "iface") for m in ordered for n in m.net if _number(n.get("rxkB")) or _number(n.get("txkB"))}
    rows = [r for m in ordered for r in _rows(m, usual, carried, problems)]
    if len(ordered) < 2:
        problems.append(Problem("too_few_samples", f"{len(ordered)} whole samples"))
    return Traces(rows, [m.t for m in ordered], usual, problems)


def _rows(moment: Moment, usual: float, carried: set[str], problems: list[Problem]) -> Iterator[Row]:
    yield from _levels(moment, problems)
    if usual and moment.interval_s > GAP * usual:
        said = f"{moment.interval_s:g} s without a sample, {usual:g} s is usual"
        problems.append(Problem("gap", said, moment.t))
        return
    for fields in moment.cpus:
        item = _name(fields, "cpu")
        yield from _cpu(moment.t, item if item == "all" else f"cpu{item}", fields)
    for fields in moment.net:
        rx, tx = _number(fields.get("rxkB")), _number(fields.get("txkB"))
        if rx is not None and tx is not None and _name(fields, "iface") in carried:
            yield row(moment.t, "net_rx", _name(fields, "iface"), rx * KB)
            yield row(moment.t, "net_tx", _name(fields, "iface"), tx * KB)


def _name(fields: Fields, key: str) -> str:
    return str(fields.get(key, ""))[:60]


def _cpu(t: float, item: str, fields: Fields) -> list[Row]:
    """Return a CPU's rows: with `-u ALL` the parts of user and system stand apart, without they are folded."""
    part: Callable[..., float] = lambda *keys: sum(_number(fields.get(key)) or 0.0 for key in keys)  # noqa: E731
    if _number(fields.get("idle")) is None:
        return []
    user = part("usr", "user", "nice", "guest", "gnice")
    return cpu_shares(t, item, user, part("sys", "system", "irq", "soft"), part("idle"), part("iowait"), part("steal"))


def _levels(moment: Moment, problems: list[Problem]) -> Iterator[Row]:
    known = {"load1": (moment.queue, "ldavg-1"), "sockets_tcp_inuse": (moment.sockets, "tcpsck"),
             "sockets_tcp_tw": (moment.sockets, "tcp-tw")}  # fmt: skip
    for metric, (fields, key) in known.items():
        if (value := _number(fields.get(key))) is not None:
            yield row(moment.t, metric, "all", value)
    if not moment.memory:
        return
    total, free = _installed(moment.memory), _number(moment.memory.get("avail"))
    if total is None or free is None or free > total:
        said = "installed or available memory is not told: export it with -r ALL"
        problems.append(Problem("memory_not_told", said, moment.t))
    else:
        yield row(moment.t, "memory_used", "all", (total - free) * KB)
        yield row(moment.t, "memory_total", "all", total * KB)


def _installed(memory: Fields) -> float | None:
    """Return MemTotal in kB: sar(1) says of what kbmemused is the rest, which `-r ALL` tells whole.

    Before version 11.7.3 it was the rest of kbmemfree alone, which %memused gives away.
    """
    keys = ("memfree", "memused", "buffers", "cached", "slab")
    free, used, *others = (_number(memory.get(key)) for key in keys)
    if free is None or used is None:
        return None
    share = _number(memory.get("memused-percent"))
    if share is not None and free + used > 0 and abs(100 * used / (free + used) - share) <= 0.006:
        return free + used
    return free + used + sum(o or 0.0 for o in others) if None not in others else None
