"""Reader of the output of loadbook's own sampler, and conversion of kernel counters to rates.

hosts/sampler.pl samples, or sampler.sh on hosts without perl; proc(5) defines the counters. A rate is that of the
interval that ends at its time. A gap, or a counter that decreased, becomes a problem without a row; nothing is
interpolated.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from loadbook.host_metrics.base import CPU_MODES, GAP_FACTOR, Problem, TraceRow, Traces, trace_row, unreadable_traces

_HUGE = 1e15
_NET = re.compile(r"\s*(\S+):((?:\s+\d+){16})\s*")
_MEMORY = re.compile(r"(\w+):\s+(\d+) kB")
_SCHEDSTAT = re.compile(r"(\d+) \d+ \d+", re.ASCII)
_QUEUE = re.compile(r"((?:[0-9a-f]{8}){1,4}):(\d{1,5})=(\d{1,10})", re.ASCII)
_LOAD = re.compile(r"(\d+\.\d+) \d+\.\d+ \d+\.\d+ \d+/\d+ \d+")


class ProcessCounters(NamedTuple):
    """CPU time in ticks, resident pages, and start time (ticks since boot), which reveals a reused process id."""

    ticks: float
    pages: int
    start_ticks: int


class QuotaCounters(NamedTuple):
    """Counters of one CPU quota above a process: periods, those in which it stopped processes, seconds stopped.

    `cpus` is the quota in CPUs.
    """

    cpus: float
    periods: int
    throttled_periods: int
    throttled_s: float


class Unaccepted(NamedTuple):
    """Connections to a socket that no process accepted since the last look: number, and how long half of them wait."""

    number: int
    wait_s: float


@dataclass
class CounterSample:
    """One complete sample at `t` (epoch seconds, host clock).

    Parameters
    ----------
    cpus : "all", cpu0, ... -> time in each of `base.CPU_MODES` since boot, in any one unit.
    memory : name in /proc/meminfo -> bytes; only MemTotal and MemAvailable are used, and may be missing.
    accept_queues : "address:port" -> connections that wait for a process to accept them, of listening sockets where any
        do; None if not read, with `hides_queues` because it cannot be.
    unaccepted : "address:port" -> those of them that waited at the look before, too, if that was looked at.
    net : interface -> (received, sent) bytes since boot.
    gauges : metric of the whole host that needs no conversion to a rate, such as load1 -> value.
    processes : "<label>:<pid>" -> counters.
    quotas : (label of watched processes, number of a control group) -> counters of its quota.
    unknown_quotas : labels of watched processes whose quotas cannot be read.
    """

    t: float
    cpus: dict[str, Sequence[float]] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)
    net: dict[str, tuple[float, float]] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    accept_queues: dict[str, int] | None = None
    hides_queues: bool = False
    unaccepted: dict[str, Unaccepted] = field(default_factory=dict)
    processes: dict[str, ProcessCounters] = field(default_factory=dict)
    quotas: dict[tuple[str, str], QuotaCounters] = field(default_factory=dict)
    unknown_quotas: set[str] = field(default_factory=set)


class SamplingScale(NamedTuple):
    """Requested seconds between samples, ticks per second (`hz`), bytes per page, and two clocks.

    `now` (epoch s) and `uptime` (s since boot) are of the same instant.
    """

    interval_s: float
    hz: float = 100.0
    page_bytes: float = 4096.0
    now: float = 0.0
    uptime: float = 0.0


def counters_to_traces(samples: Sequence[CounterSample], scale: SamplingScale, problems: list[Problem]) -> Traces:
    """Convert samples, in order of time, to rows; gaps and counters that decreased are added to `problems`.

    Rates and shares are over the time since the sample before, so the first sample has none.
    """
    rows: list[TraceRow] = []
    for before, now in zip([None, *samples], samples, strict=False):
        rows += _gauge_rows(now, scale)
        if before is not None:
            rows += _rate_rows(before, now, scale, problems)
    if len(samples) < 2:
        problems.append(Problem("too_few_samples", f"{len(samples)} whole samples"))
    return Traces(rows, [s.t for s in samples], scale.interval_s, problems)


def _gauge_rows(now: CounterSample, scale: SamplingScale) -> Iterator[TraceRow]:
    for metric, value in now.gauges.items():
        yield trace_row(now.t, metric, "all", value)
    total, free = now.memory.get("MemTotal"), now.memory.get("MemAvailable")
    if total is not None and free is not None:
        yield trace_row(now.t, "memory_used", "all", total - free)
        yield trace_row(now.t, "memory_total", "all", total)
    for item, process in now.processes.items():
        yield trace_row(now.t, "process_rss", item, process.pages * scale.page_bytes)
    if now.accept_queues is not None:
        for item, waiting in {"all": sum(now.accept_queues.values()), **now.accept_queues}.items():
            yield trace_row(now.t, "accept_queue", item, waiting)
    for item, (number, wait_s) in now.unaccepted.items():
        yield trace_row(now.t, "unaccepted", item, number)
        yield trace_row(now.t, "accept_wait", item, wait_s)


def _rate_rows(
    before: CounterSample, now: CounterSample, scale: SamplingScale, problems: list[Problem]
) -> list[TraceRow]:
    passed = now.t - before.t
    if passed > GAP_FACTOR * scale.interval_s:
        message = f"{passed:.2f} s without a sample, {scale.interval_s:g} s were asked for"
        problems.append(Problem("gap", message, now.t))
        return list(_throttling_rows(before, now, passed))  # a quota may have stopped the sampler, too
    rows = []
    for item, counters in now.cpus.items():
        rows += _cpu_rows(now.t, item, before.cpus.get(item), counters, problems)
    for item, (rx, tx) in now.net.items():
        old = before.net.get(item, (rx, tx))
        if rx < old[0] or tx < old[1]:
            problems.append(Problem("counter_went_back", f"bytes of interface {item}", now.t))
        elif item in before.net and rx + tx > 0:  # without interfaces that never carried a byte
            rows.append(trace_row(now.t, "net_rx", item, (rx - old[0]) / passed))
            rows.append(trace_row(now.t, "net_tx", item, (tx - old[1]) / passed))
    for item, last in before.processes.items():
        process = now.processes.get(item)
        if process is None or process.start_ticks != last.start_ticks:
            problems.append(Problem("process_gone", f"{item} has ended", before.t))
        elif process.ticks < last.ticks:
            problems.append(Problem("counter_went_back", f"CPU time of {item}", now.t))
        else:
            rows.append(trace_row(now.t, "process_cpu", item, (process.ticks - last.ticks) / scale.hz / passed))
    return [*rows, *_throttling_rows(before, now, passed)]


def _throttling_rows(before: CounterSample, now: CounterSample, passed: float) -> Iterator[TraceRow]:
    """Yield, for each label, the quota above it that stopped it longest, with its share of the periods and the time."""
    shares: dict[str, list[tuple[float, float, float]]] = {}
    for (label, group), quota in now.quotas.items():
        last = before.quotas.get((label, group))
        if last is None:
            continue
        periods, seconds = quota.periods - last.periods, quota.throttled_s - last.throttled_s
        throttled = quota.throttled_periods - last.throttled_periods
        if periods >= throttled >= 0 and seconds >= 0:
            shares.setdefault(label, []).append((seconds / passed, throttled / periods if periods else 0.0, quota.cpus))
    for label, values in shares.items():
        time_share, period_share, cpus = max(values, key=lambda value: (value[0], -value[2]))
        yield trace_row(now.t, "cpu_quota", label, cpus)
        yield trace_row(now.t, "throttled_periods", label, period_share)
        yield trace_row(now.t, "throttled_time", label, time_share)


def _cpu_rows(
    t: float, item: str, before: Sequence[float] | None, now: Sequence[float], problems: list[Problem]
) -> list[TraceRow]:
    if before is None or not len(now) == len(before) == len(CPU_MODES):
        return []
    user, nice, system, idle, iowait, irq, softirq, steal = (b - a for a, b in zip(before, now, strict=True))
    idle, iowait = max(0, idle), max(0, iowait)  # proc(5): these two may decrease
    if min(user, nice, system, irq, softirq, steal) < 0:
        problems.append(Problem("counter_went_back", f"time of {item}", t))
        return []
    return cpu_shares(t, item, user + nice, system + irq + softirq, idle, iowait, steal)


def cpu_shares(
    t: float, item: str, user: float, system: float, idle: float, iowait: float, steal: float
) -> list[TraceRow]:
    """Return the rows of one CPU: shares (0 to 1) from the times in each state, all in the same unit.

    `t` is in epoch seconds; `item` is the CPU, "all" for their sum. The result is empty if all times are 0.
    """
    busy = user + system + steal
    parts = {"cpu_user": user, "cpu_system": system, "cpu_iowait": iowait, "cpu_steal": steal, "cpu_busy": busy}
    total = busy + idle + iowait
    return [trace_row(t, metric, item, part / total) for metric, part in parts.items()] if total else []


def parse_sampler(data: bytes) -> Traces:
    """Convert the output of the sampler to rows; every error in it becomes a problem, never an exception.

    Metrics: cpu_busy, cpu_user, cpu_system, cpu_iowait, cpu_steal (share of one CPU, or with item "all" of all CPUs),
    memory_used, memory_total (B), net_rx, net_tx (B/s), load1, sockets_tcp_inuse, sockets_tcp_tw (1),
    process_cpu (1 is one CPU busy; item "<label>:<pid>"), process_rss (B), accept_queue (1; item "address:port", only
    where connections wait, and "all"), unaccepted (1; of them, those that waited half a second before, too),
    accept_wait (s; how long half of those have waited), cpu_quota (CPUs), throttled_periods and throttled_time (shares;
    item "<label>").
    """
    lines = data.decode("utf-8", "replace").split("\n")
    header = _read_header(lines[0])
    if header is None:
        return unreadable_traces("no_sampler_output", f"starts with {lines[0][:60]!r}")
    problems: list[Problem] = []
    samples = list(_read_samples(lines[1:], header, problems))
    if any(sample.hides_queues for sample in samples):
        problems.append(Problem("queue_unknown", "the kernel does not list the host's connections, or perl is missing"))
    for label in sorted({label for sample in samples for label in sample.unknown_quotas}):
        problems.append(Problem("quota_unknown", f"the control group of {label} cannot be read on this host"))
    return counters_to_traces(samples, header, problems)


def _read_header(line: str) -> SamplingScale | None:
    """Read the first line: clock, uptime, ticks per s, bytes per page, interval; None for another line."""
    numbers = re.fullmatch(r"loadbook-sampler 1((?: \d+(?:\.\d+)?){5})", line, re.ASCII)
    if not numbers:
        return None
    now, uptime, *scale = map(float, numbers[1].split())
    if max(now, uptime, *scale) >= _HUGE or min(scale) <= 0:
        return None
    hz, page_bytes, interval_s = scale
    return SamplingScale(interval_s, hz, page_bytes, now, uptime)


def _read_samples(lines: Sequence[str], header: SamplingScale, problems: list[Problem]) -> Iterator[CounterSample]:
    """Yield the complete samples in order of time; truncated or unreadable ones are added to `problems`."""
    last = -math.inf
    block: list[str] = []
    for number, line in enumerate([*lines, "@"], 2):
        if line == "." and block:
            sample = _sample(block, header)
            if sample is None or sample.t <= last:
                problems.append(Problem("unreadable_sample", f"the sample that ends in line {number}"))
            else:
                last = sample.t
                yield sample
            block = []
        elif line.startswith("@"):
            if block:
                problems.append(Problem("torn_sample", f"the sample before line {number} has no end"))
            block = [line]
        elif block:
            block.append(line)


def _sample(block: list[str], header: SamplingScale) -> CounterSample | None:
    """Read the lines of one sample; None if it has no time or CPU, or text in place of a number."""
    watched_processes = [word.rpartition(":") for word in block[0].split()[2:]]
    labels = {pid: label for label, _, pid in watched_processes}
    try:
        sample = CounterSample(header.now + _seconds(block[1].split()[0]) - header.uptime)
        for line in block[2:]:
            _read_line(line, sample, labels)
            _read_finer(line, sample, header.hz)
    except (ValueError, IndexError):
        return None
    return sample if sample.cpus else None


def _read_line(line: str, sample: CounterSample, labels: Mapping[str, str]) -> None:
    word = line.partition(" ")[0]
    if line.startswith("cpu"):
        sample.cpus["all" if word == "cpu" else word] = [_count(n) for n in line.split()[1:9]]
    # cheap tests before each regular expression, since there are millions of lines and most match none
    elif line.endswith("kB") and (match := _MEMORY.fullmatch(line)):
        sample.memory[match[1]] = _count(match[2]) * 1024
    elif ":" in line and (match := _NET.fullmatch(line)):
        counters = match[2].split()
        sample.net[match[1]] = (_count(counters[0]), _count(counters[8]))
    elif "." in word and (match := _LOAD.fullmatch(line)):
        sample.gauges["load1"] = _seconds(match[1])
    elif line.startswith("TCP:"):
        fields = line.split()
        sample.gauges["sockets_tcp_inuse"] = _count(fields[fields.index("inuse") + 1])
        sample.gauges["sockets_tcp_tw"] = _count(fields[fields.index("tw") + 1])
    elif word in labels and ") " in line:
        rest = line.rpartition(") ")[2].split()
        ticks = _count(rest[11]) + _count(rest[12])
        sample.processes[f"{labels[word]}:{word}"] = ProcessCounters(ticks, _count(rest[21]), _count(rest[19]))
    elif word == "accept_queues":
        sample.hides_queues = line.endswith(" ?")
        sample.accept_queues = None if sample.hides_queues else _accept_queues(line.split()[1:])
    elif word == "unaccepted":
        waits = [item.partition("/") for item in line.split()[1:]]
        numbers = _accept_queues([item for item, _, _ in waits])
        seconds = {next(iter(_accept_queues([item]))): _seconds(text) for item, _, text in waits}
        sample.unaccepted = {item: Unaccepted(number, seconds[item]) for item, number in numbers.items()}
    elif word == "quota":
        _read_quota(line.split()[1:], sample)


def _read_quota(words: Sequence[str], sample: CounterSample) -> None:
    """Read LABEL GROUP MILLI PERIODS THROTTLED NS, or LABEL ? for processes whose quotas cannot be read."""
    if words[1:] == ["?"]:
        sample.unknown_quotas.add(words[0])
        return
    label, group, *counts = words
    milli, periods, throttled, stopped_ns = map(_count, counts)
    sample.quotas[label, group] = QuotaCounters(milli / 1000, periods, throttled, stopped_ns / 1e9)


def _accept_queues(items: Sequence[str]) -> dict[str, int]:
    """Return "address:port" -> waiting connections; several sockets of one port (SO_REUSEPORT) are added up."""
    queues: dict[str, int] = {}
    for item in items:
        if not (match := _QUEUE.fullmatch(item)):
            raise ValueError(item)
        address = ipaddress.ip_address(bytes.fromhex(match[1]))
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped  # of a socket for both versions
        place = f"{address}:{match[2]}" if address.version == 4 else f"[{address}]:{match[2]}"
        queues[place] = queues.get(place, 0) + int(match[3])
    return queues


def _read_finer(line: str, sample: CounterSample, hz: float) -> None:
    """Read /proc/<pid>/schedstat, which follows the line of its process, for CPU times of less than a tick.

    With hundreds of workers, each may use less than a tick between two samples. schedstat covers only the first thread
    (proc(5)), so the larger of both CPU times is used.
    """
    if line[:1].isdigit() and sample.processes and (match := _SCHEDSTAT.fullmatch(line)):
        item, process = sample.processes.popitem()
        ticks = max(process.ticks, _count(match[1]) / 1e9 * hz)
        sample.processes[item] = process._replace(ticks=ticks)


def _count(text: str) -> int:
    """Return the value of one kernel counter; ValueError if it is not a number."""
    if not (text.isascii() and text.isdigit() and len(text) <= 20):
        raise ValueError(text)
    return int(text)


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value < _HUGE:
        raise ValueError(text)
    return value
