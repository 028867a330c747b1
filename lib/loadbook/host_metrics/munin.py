"""Reader of the recorded answers of a munin node.

The protocol is munin's own: one request per line on port 4949, an answer of ``field.value NUMBER`` lines, ended by a
dot. In the controller's file, ``> fetch PLUGIN`` stands before each answer. Values of `cpu` count 1/100 s
since boot, of all CPUs together. munin has neither single cores nor MemAvailable: memory in use is the installed memory
without free memory, buffers and cache.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from loadbook.host_metrics.base import Problem, Traces, median_interval_s, read_polls, unreadable_traces
from loadbook.host_metrics.node_exporter import CPU_MODES
from loadbook.host_metrics.sampler import CounterSample, SamplingScale, counters_to_traces

_VALUE = re.compile(r"([A-Za-z_]\w{0,60})\.value (-?\d{1,25}(?:\.\d{1,12})?(?:[eE][+-]?\d{1,3})?|U)", re.ASCII)
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
    polls = read_polls(data, problems)
    if polls is None or polls.source != "munin":
        return unreadable_traces("no_munin_answers", f"starts with {data[:60]!r}")
    samples = [_sample(poll.t, read_values(poll.lines, problems)) for poll in polls.polls]
    # a node needs longer for its plugins than a short interval asks for: what it keeps to is no gap
    interval_s = median_interval_s(sample.t for sample in samples)
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
        elif value := _VALUE.fullmatch(line.strip()):
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
        sample.cpus["all"] = [max(0.0, cpu.get(mode, 0.0)) for mode in CPU_MODES]
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
