"""The files that ab writes beside its report: -e (percentiles to 0.001 ms) and -g (one row per request, whole ms).

Both are recognised by their first line, whatever their names; the files that the command names must begin so.
ab sorts the rows of -g by total time, not by start.
"""

from __future__ import annotations

import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from loadbook.core.errors import ParseError
from loadbook.tools import text
from loadbook.tools.ab_forms import PERCENTILES

CSV_HEAD = "Percentage served,Time in ms"
TSV_HEAD = "starttime\tseconds\tctime\tdtime\tttime\twait"
MAX_SPAN_S = 7 * 86400
MAX_LINE, MAX_PERCENTILES = 10_000, 1_000
CSV_LINE = re.compile(r"(\d{1,3}),(\d{1,12}\.\d{3})")
TSV_LINE = re.compile(r"[^\t]+\t(\d{1,12})\t\d+\t\d+\t(\d{1,12})\t\d+")


FileSource = bytes | Path
FileSources = Mapping[str, FileSource]


def _file_lines(source: FileSource) -> Iterator[str]:
    """Yield the lines of a file with their ends."""
    with source.open("rb") if isinstance(source, Path) else io.BytesIO(source) as file:
        while line := file.readline(MAX_LINE):
            yield line.decode(errors="replace")


def _matching_file(files: FileSources, head: str, option_value: str | None) -> str | None:
    """Return the name of the one file that begins with this line, None if there is none; `option_value` is the option's."""
    matching = [name for name, data in files.items() if next(_file_lines(data), "").startswith(head)]
    expected_name = (option_value or "").rpartition("/")[2]
    if expected_name in files and expected_name not in matching:
        raise ParseError("ab", expected_name, 1, f"does not begin {head!r}: empty, cut, or another file")
    if len(matching) > 1:
        raise ParseError("ab", matching[1], 1, f"a second file like {matching[0]}: which belongs to this report?")
    return matching[0] if matching else None


def percentiles(files: FileSources, count: int, option_value: str | None) -> dict[int, str]:
    """Return percentile -> milliseconds as printed, with 0 the minimum and 100 the maximum; {} without such a file.

    ab reads element ``0.5 + count * p / 100`` of the sorted times, which for small counts and high percentiles is one
    past the last: there it prints what lies behind them in memory, and the last, which the table shows, is returned.
    """
    name = _matching_file(files, CSV_HEAD, option_value)
    if name is None:
        return {}
    data = b"".join(line.encode() for line in itertools.islice(_file_lines(files[name]), MAX_PERCENTILES))
    lines = [line for line in text.clean_lines(data)[1:] if line]
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
    return times


def to_microseconds(milliseconds: str) -> int:
    """Return a time printed as milliseconds with three decimals exactly."""
    return int(milliseconds.replace(".", ""))


def check_percentiles(name: str, exact: Mapping[int, str], whole_ms: Mapping[int, int], count: int) -> None:
    """Raise ParseError unless percentiles to 0.001 ms are what the table shows in whole milliseconds.

    The table reads element ``count * p / 100``, rounded down where the file's index is rounded to nearest: so the file
    may be one element ahead, unless both are whole.
    """
    for p, printed_ms in whole_ms.items():
        if p not in exact:
            continue
        rounded = (to_microseconds(exact[p]) + 500) // 1000
        next_ms = next((whole_ms[q] for q in sorted(whole_ms) if q > p), printed_ms)
        same_element = p in (0, 100) or count * p % 100 < 50
        if rounded != printed_ms if same_element else not printed_ms <= rounded <= next_ms:
            raise ParseError("ab", name, p + 2, f"{exact[p]} ms is not the {printed_ms} ms of the report")


def started_per_second(files: FileSources, count: int, whole_ms: Mapping[int, int], option_value: str | None) -> list[tuple[int, int]]:
    """Return (second since the first start, requests started in it) from the rows of -g; [] without such a file."""
    name = _matching_file(files, TSV_HEAD, option_value)
    if name is None:
        return []
    seconds, ranks = Counter[int](), {min(count * p // 100, count - 1) for p in (*PERCENTILES, 100)}
    times: dict[int, int] = {}
    number, ended = 0, True
    for number, line in enumerate(itertools.islice(_file_lines(files[name]), 1, None), 1):
        match, ended = TSV_LINE.fullmatch(line.rstrip("\r\n")), line.endswith("\n")
        if match is None:
            raise ParseError("ab", name, number + 1, f"not a row of six columns: {line.rstrip()[:60]!r}")
        seconds[int(match[1])] += 1
        if number - 1 in ranks:
            times[number - 1] = int(match[2])
    if number != count or not ended:
        raise ParseError("ab", name, 0, f"not complete: {number} rows for {count} requests")
    for p in (*PERCENTILES, 100):
        if p in whole_ms and times[min(count * p // 100, count - 1)] != whole_ms[p]:
            raise ParseError("ab", name, 0, f"its percentile {p} is not the {whole_ms[p]} ms of the report")
    first = min(seconds)
    if max(seconds) - first > MAX_SPAN_S:
        raise ParseError("ab", name, 0, f"its rows start over {max(seconds) - first} s")
    return [(second - first, seconds[second]) for second in range(first, max(seconds) + 1)]
