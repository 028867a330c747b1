"""The two files that ab writes besides its report, recognised by their first lines.

The file of -e has the percentiles of the total time, in 0.001 ms. That of -g has one row per request in whole ms,
sorted by total time, not by start.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path

from loadbook.core.errors import ParseError
from loadbook.tools import line_patterns
from loadbook.tools.ab_report import AbReport, FileSources
from loadbook.tools.base import Sample

CSV_HEAD, CSV_LINE = "Percentage served,Time in ms", re.compile(r"(\d{1,3}),(\d{1,12}\.\d{3})")
TSV_HEAD = "starttime\tseconds\tctime\tdtime\tttime\twait"
MAX_SPAN_S = 7 * 86400
MAX_CSV_BYTES = 10_000  # the file has 101 lines


def _head(source: bytes | Path) -> bytes:
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
        return file.read(MAX_CSV_BYTES)


def _matching_file(files: FileSources, head: str, option_value: str | None) -> str | None:
    """Return the name of the one file that begins with the line `head`; None if no file does.

    `option_value` is the value of the option (-e or -g) that makes ab write the file; None if it was not given.
    """
    matching = [name for name, data in files.items() if _head(data).startswith(head.encode())]
    expected_name = (option_value or "").rpartition("/")[2]
    if expected_name in files and expected_name not in matching:
        raise ParseError("ab", expected_name, 1, f"does not begin {head!r}: empty, cut, or another file")
    if len(matching) > 1:
        raise ParseError("ab", matching[1], 1, f"a second file like {matching[0]}: which belongs to this report?")
    return matching[0] if matching else None


def read_percentiles(run: AbReport) -> dict[int, str]:
    """Return {percentile: milliseconds as printed} of the -e file (0: minimum, 100: maximum); {} without that file.

    For percentile p the file shows element ``round(count * p / 100)`` of the sorted times, the report's table element
    ``floor(count * p / 100)``, so the file may be one element ahead. For small counts and high p the file's index is
    past the last element, and ab prints memory contents behind the array: there the maximum is returned instead.
    """
    name, count = _matching_file(run.files, CSV_HEAD, run.options.get("-e")), run.timed_requests
    if name is None:
        return {}
    data = _head(run.files[name])
    lines = [line for line in line_patterns.clean_lines(data)[1:] if line]
    for number, line in enumerate(lines, 2):
        match = CSV_LINE.fullmatch(line)
        if match is None or int(match[1]) != number - 2:
            raise ParseError("ab", name, number, f"expected percentile {number - 2} and a time, not {line[:60]!r}")
    if len(lines) != 101 or not data.endswith(b"\n"):
        raise ParseError("ab", name, 0, f"not complete: {len(lines)} of 101 percentiles")
    times = {p: line.partition(",")[2] for p, line in enumerate(lines) if count > 1 or p in (0, 100)}
    times |= {p: times[100] for p in times if p and count * (100 - p) <= 50}
    if list(times.values()) != sorted(times.values(), key=float):
        raise ParseError("ab", name, 0, "percentiles do not ascend")
    whole_ms = run.percentiles_ms
    for p in (p for p in whole_ms if p in times):
        rounded = (int(times[p].replace(".", "")) + 500) // 1000  # three decimals
        next_ms = next((whole_ms[q] for q in sorted(whole_ms) if q > p), whole_ms[p])
        same_element = p in (0, 100) or count * p % 100 < 50
        if rounded != whole_ms[p] if same_element else not whole_ms[p] <= rounded <= next_ms:
            raise ParseError("ab", name, p + 2, f"{times[p]} ms is not the {whole_ms[p]} ms of the report")
    return times


def started_per_second(run: AbReport) -> Iterator[Sample]:
    """Yield the requests started in each second (1/s), counted in the -g file; nothing without that file."""
    name, count = _matching_file(run.files, TSV_HEAD, run.options.get("-g")), run.timed_requests
    if name is None:
        return
    import numpy as np

    from loadbook.request_logs.read import read_batches

    batches = list(read_batches(run.files[name], "ab", file=name))
    rows = sum(len(batch) + len(batch.damage) for batch in batches)
    if rows != count or any(batch.damage for batch in batches):
        raise ParseError("ab", name, 0, f"not complete: {rows} rows for {count} requests")
    if not rows:
        return
    times_ms = np.concatenate([batch.elapsed for batch in batches])
    for p, printed_ms in run.percentiles_ms.items():
        if p and times_ms[min(count * p // 100, count - 1)] != printed_ms:
            raise ParseError("ab", name, 0, f"its percentile {p} is not the {printed_ms} ms of the report")
    seconds = np.concatenate([batch.start_us for batch in batches if batch.start_us is not None]) // 1_000_000
    first, last = int(seconds.min()), int(seconds.max())
    if last - first > MAX_SPAN_S:
        raise ParseError("ab", name, 0, f"its rows start over {last - first} s")
    for second, started in enumerate(np.bincount(seconds - first).tolist()):
        yield Sample("started", "requests_per_s", second, "s", started, "1/s")
