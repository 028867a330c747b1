"""Host metrics (CPU, memory, network) from loadbook's sampler and from other monitors: file formats and their readers.

- `base`: metrics and their units, and the common result of all readers
- `sampler`: output of loadbook's own sampler (hosts/sampler.sh)
- `sysstat`: sar data exported by sadf as JSON or CSV
- `polled`: answers of munin nodes and node_exporters, and exports of their databases
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

from loadbook.host_metrics import polled, sampler, sysstat
from loadbook.host_metrics.base import UNITS, Problem, TraceRow, Traces, limit_repeats

HEAD_BYTES = 4000
SYSSTAT_MAGIC = b"\xd5\x96"  # first two bytes of sar's data file: 0xd596, big or little endian


@dataclass(frozen=True)
class TraceFormat:
    """One file format: `source` is its name in tables, `read` parses all files of one host, given as {name: data}."""

    name: str
    source: str
    description: str
    read: Callable[[Mapping[str, bytes]], Traces]


def _read_each(parse: Callable[[bytes], Traces]) -> Callable[[Mapping[str, bytes]], Traces]:
    """Return a function that reads several files with `parse`, one by one, and merges the results."""

    def read(files: Mapping[str, bytes]) -> Traces:
        parts = [parse(data) for data in files.values()]
        times = sorted({t for part in parts for t in part.times})
        steps = [part.interval_s for part in parts if part.interval_s]
        rows, problems = [r for part in parts for r in part.rows], [p for part in parts for p in part.problems]
        return Traces(rows, times, min(steps, default=0.0), problems)

    return read


_KINDS = (
    TraceFormat("sadf-json", "sadf", "sysstat: sadf -j FILE -- -A", _read_each(sysstat.parse_sadf_json)),
    TraceFormat("sadf-csv", "sadf", "sysstat: sadf -d FILE -- -u ALL -P ALL", _read_each(sysstat.parse_sadf_csv)),
    TraceFormat("node-exporter", "node-exporter", "Prometheus text with timestamps",
                _read_each(polled.parse_node_exporter)),
    TraceFormat("rrd", "rrd", "munin: rrdtool xport, dump or fetch of its databases", polled.parse_rrd),
    TraceFormat("munin", "munin", "answers of a munin node, kept by loadbook", _read_each(polled.parse_munin)),
    TraceFormat("sampler", "sampler", "output of loadbook's own sampler", _read_each(sampler.parse_sampler)),
)  # fmt: skip
FORMATS = {kind.name: kind for kind in _KINDS}


def detect_format(data: bytes) -> str | None:
    """Return the name of a file's format, from its beginning; "sysstat" for sar's binary data, None if unknown."""
    head = data[:HEAD_BYTES]
    if head[:2] in (SYSSTAT_MAGIC, SYSSTAT_MAGIC[::-1]):
        return "sysstat"
    marks = {
        "sampler": head.startswith(b"loadbook-sampler "),
        "munin": head.startswith(b"loadbook-poll 1 munin "),
        "sadf-json": b'"sysstat"' in head,
        "sadf-csv": head.startswith(b"# hostname;interval;timestamp"),
        "rrd": polled.is_rrd(head),
        "node-exporter": head.startswith(b"loadbook-poll 1 node-exporter ") or b"node_" in data[: 100 * HEAD_BYTES],
    }
    return next((kind for kind, is_marked in marks.items() if is_marked), None)


def read_traces(kind: str, files: Mapping[str, bytes]) -> Traces:
    """Read the files of one host in one format; raises nothing except KeyError for a format that is not in FORMATS.

    Of values that occur twice (two files of one day) the first is used.
    """
    traces = FORMATS[kind].read(files)
    rows: dict[tuple[object, ...], TraceRow] = {}
    for point in traces.rows:
        rows.setdefault((point["t"], point["metric"], point["item"]), point)
    problems = limit_repeats(traces.problems)
    if not rows and not problems:
        problems = [Problem("no_metrics", f"it holds none of the metrics that are read: {', '.join(UNITS)}")]
    return Traces(list(rows.values()), traces.times, traces.interval_s, problems)


def files_by_format(files: Mapping[str, bytes]) -> dict[str | None, list[str]]:
    """Return {format, or None if unknown: names of the files in it}."""
    named = sorted(((detect_format(data) or "", name) for name, data in files.items()))
    return {kind or None: [name for _, name in group] for kind, group in groupby(named, lambda pair: pair[0])}
