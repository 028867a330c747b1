"""Reader of Prometheus node_exporter's text: recorded scrapes, or files whose samples have timestamps.

The format is Prometheus' exposition format (``name{label="value"} number [timestamp in ms]``) and OpenMetrics, whose
timestamps are seconds; ``{__name__="name", ...}``, as `promtool tsdb dump` writes it, is read, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from loadbook.host_metrics import base
from loadbook.host_metrics.base import CPU_MODES, Problem, Traces, finite_number
from loadbook.host_metrics.sampler import CounterSample, SamplingScale, counters_to_traces

_LINE = re.compile(r"([a-zA-Z_:][\w:]{0,200})?(?:\{([^\n]{0,4000})\})?\s+(\S{1,40})(?:\s+(\S{1,30}))?\s*", re.ASCII)
_LABEL = re.compile(r'(\w{1,100})="((?:[^"\\]|\\.){0,1000})"', re.ASCII)
# names of node_exporter since 0.16, and before
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


def parse_node_exporter(data: bytes) -> Traces:
    """Turn scrapes into rows; unreadable parts become problems, never exceptions."""
    problems: list[Problem] = []
    if base.is_polled(data):
        polls = base.read_polls(data, problems)
        if polls is None:
            return base.unreadable_traces("no_scrape", f"starts with {data[:60]!r}")
        times = {poll.t: [p for p, _ in _parse_points(poll.lines, problems)] for poll in polls.polls}
        requested_interval_s = polls.interval_s
    else:
        requested_interval_s, times = 0.0, {}
        found = list(_parse_points(data.decode("utf-8", "replace").splitlines(), problems))
        for point, t in found:
            if t is not None:
                times.setdefault(t, []).append(point)
        if without_time := sum(t is None for _, t in found):
            message = f"{without_time} samples without a timestamp: they cannot be placed in time"
            problems.append(Problem("no_timestamps", message))
    samples = [sample for t, points in sorted(times.items()) if (sample := _sample(t, points, problems))]
    interval_s = max(requested_interval_s, base.median_interval_s(s.t for s in samples))
    return counters_to_traces(samples, SamplingScale(interval_s), problems)


def _parse_points(lines: Iterable[str], problems: list[Problem]) -> Iterator[tuple[MetricPoint, float | None]]:
    """Yield the known samples of a scrape, with their timestamps (epoch s) if they have one."""
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        labels = dict(_LABEL.findall(match[2] or "")) if match else {}
        name = (match[1] or labels.get("__name__", "")) if match else ""
        value, t = (finite_number(match[3], MAX_VALUE), _parse_timestamp(match[4])) if match else (None, None)
        if match is None or not name or (match[4] and t is None):
            problems.append(Problem("unreadable_line", f"line {number}: {line[:60]!r}"))
        elif value is not None and name.startswith("node_"):
            yield (name, labels, value), t


def _parse_timestamp(text: str | None) -> float | None:
    value = finite_number(text, MAX_TIME)
    return (value / 1000 if value >= MILLISECONDS else value) if value else None


def _sample(t: float, points: Iterable[MetricPoint], problems: list[Problem]) -> CounterSample | None:
    """Put the points of one instant together; None if there is nothing in them that traces hold."""
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
