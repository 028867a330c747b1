"""The kinds of files that traces are read from: what wrote them, how they are recognised, who reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

from loadbook.traces import munin, node_exporter, rrd, sadf, sampler
from loadbook.traces.base import Row, Traces, brief

HEAD = 4000
SYSSTAT_MAGIC = b"\xd5\x96"  # sa(5): the first two bytes of a data file, 0xd596 in the byte order of its machine


@dataclass(frozen=True)
class Kind:
    """One kind: `source` is what its rows name, `read` takes files of one host by name."""

    name: str
    source: str
    about: str
    read: Callable[[Mapping[str, bytes]], Traces]


def _each(parse: Callable[[bytes], Traces]) -> Callable[[Mapping[str, bytes]], Traces]:
    """Return a reader of several files that are read one by one."""

    def read(files: Mapping[str, bytes]) -> Traces:
        found = [parse(data) for data in files.values()]
        times = sorted({t for one in found for t in one.times})
        steps = [one.interval_s for one in found if one.interval_s]
        rows, problems = [r for one in found for r in one.rows], [p for one in found for p in one.problems]
        return Traces(rows, times, min(steps, default=0.0), problems)

    return read


KINDS = {
    kind.name: kind
    for kind in (
        Kind("sadf-json", "sadf", "sysstat: sadf -j FILE -- -A", _each(sadf.parse_json)),
        Kind("sadf-csv", "sadf", "sysstat: sadf -d FILE -- -u ALL -P ALL", _each(sadf.parse_csv)),
        Kind("node-exporter", "node-exporter", "Prometheus text with timestamps", _each(node_exporter.parse)),
        Kind("rrd", "rrd", "munin: rrdtool xport, dump or fetch of its databases", rrd.parse),
        Kind("munin", "munin", "answers of a munin node, kept by loadbook", _each(munin.parse)),
        Kind("sampler", "sampler", "output of loadbook's own sampler", _each(sampler.parse)),
    )
}
LIVE = ("munin", "node-exporter")  # sources that the controller can ask while a trial runs


def detect(data: bytes) -> str | None:
    """Return the kind of a file by how it begins, "sysstat" for sar's binary data, None if it is none of ours."""
    head = data[:HEAD]
    if head[:2] in (SYSSTAT_MAGIC, SYSSTAT_MAGIC[::-1]):
        return "sysstat"
    marks = {
        "sampler": head.startswith(b"loadbook-sampler "),
        "munin": head.startswith(b"loadbook-poll 1 munin "),
        "node-exporter": head.startswith(b"loadbook-poll 1 node-exporter ") or b"node_" in data[: 100 * HEAD],
        "sadf-json": b'"sysstat"' in head,
        "sadf-csv": head.startswith(b"# hostname;interval;timestamp"),
        "rrd": rrd.is_rrd(head),
    }
    return next(
        (kind for kind in ("sampler", "munin", "sadf-json", "sadf-csv", "rrd", "node-exporter") if marks[kind]), None
    )


def read(kind: str, files: Mapping[str, bytes]) -> Traces:
    """Read files of one kind and one host; never raises but KeyError for a kind that is not in KINDS.

    Of what is told twice (two files of one day) the first counts.
    """
    found = KINDS[kind].read(files)
    rows: dict[tuple[object, ...], Row] = {}
    for point in found.rows:
        rows.setdefault((point["t"], point["metric"], point["item"]), point)
    return Traces(list(rows.values()), found.times, found.interval_s, brief(found.problems))


def kinds_in(files: Mapping[str, bytes]) -> dict[str | None, list[str]]:
    """Return the names of files by their kind."""
    named = sorted(((detect(data) or "", name) for name, data in files.items()))
    return {kind or None: [name for _, name in group] for kind, group in groupby(named, lambda pair: pair[0])}
