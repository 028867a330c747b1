"""The latency blocks of a wrk2 report (giltene/wrk2 `src/wrk.c`, `src/hdr_histogram.c`), and its options.

A block is a short list of percentiles with units, then a spectrum in milliseconds without a unit, whose percentiles are
fractions. `-U` prints a second block of the same lines, so every block is read by itself, under its heading.
"""

from __future__ import annotations

import getopt
import re
from collections.abc import Sequence
from typing import NamedTuple

from loadbook.core.errors import ParseError
from loadbook.core.units import TIME_UNITS_S
from loadbook.tools import text
from loadbook.tools.text import LinePattern, TextReport
from loadbook.tools.wrk_forms import HEAD_PATTERNS, TAIL_PATTERNS, TIME_PATTERN

# field in the patterns below -> percent, as the short list prints it
PERCENT_FIELDS = {
    "p50": "50.000",
    "p75": "75.000",
    "p90": "90.000",
    "p99": "99.000",
    "p999": "99.900",
    "p9999": "99.990",
    "p99999": "99.999",
    "p100": "100.000",
}
LONG_OPTIONS = "connections= duration= threads= script= header= latency u_latency batch_latency timeout= help version rate="
_MS = r"\d{1,20}\.\d{3}"


def _heading_pattern(name: str, kind: str) -> LinePattern:
    example = f"  Latency Distribution (HdrHistogram - {kind})"
    return LinePattern(name, example, re.escape(example[:-1]), r".*\)", optional=True)


LINE_PATTERNS = (
    *HEAD_PATTERNS,
    _heading_pattern("recorded", "Recorded Latency"),
    _heading_pattern("uncorrected", "Uncorrected Latency"),
    *TAIL_PATTERNS,
)
BLOCK_PATTERNS = (
    *(
        LinePattern(field, f"{percent:>7}%  836.00us", rf" {{0,2}}{re.escape(percent)}%", rf" +(?P<{field}>{TIME_PATTERN})")
        for field, percent in PERCENT_FIELDS.items()
    ),
    LinePattern("spectrum", "  Detailed Percentile spectrum:", "  Detailed Percentile spectrum:"),
    LinePattern(
        "columns",
        "       Value   Percentile   TotalCount 1/(1-Percentile)",
        " +Value ",
        r" +Percentile +TotalCount +1/\(1-Percentile\)",
    ),
    LinePattern(
        "moments",
        "#[Mean    =        0.876, StdDeviation   =        0.458]",
        r"#\[Mean ",
        rf" +=  *(?P<mean>{_MS}|-?nan), StdDeviation +=  *(?P<sd>{_MS}|-?nan)\]",
    ),
    LinePattern(
        "max",
        "#[Max     =        4.876, Total count    =         2948]",
        r"#\[Max ",
        rf" +=  *(?P<max>{_MS}), Total count +=  *(?P<count>\d{{1,20}})\]",
    ),
    LinePattern(
        "buckets",
        "#[Buckets =           27, SubBuckets     =         2048]",
        r"#\[Buckets ",
        r"= *\d+, SubBuckets += *\d+\]",
    ),
)
_SPECTRUM_ROW = re.compile(
    rf" *(?P<ms>{_MS}) +(?P<share>[01]\.\d{{6}}) +(?P<count>\d{{1,20}}) +(?P<inverse>\d{{1,20}}\.\d\d|inf)"
)


class SpectrumRow(NamedTuple):
    """One row of a spectrum: `requests` of them took at most `upper_s` seconds."""

    upper_s: float
    requests: int


def command_options(argv: Sequence[str]) -> dict[str, str]:
    """Return wrk2's options by their short names, the last of a name; {} for a command that wrk2 would not take."""
    try:
        parsed, _ = getopt.gnu_getopt(list(argv[1:]), "t:c:d:s:H:T:R:LUBv", LONG_OPTIONS.split())
    except getopt.GetoptError:
        return {}
    short_names = {"--rate": "-R", "--latency": "-L", "--u_latency": "-U"}
    return {short_names.get(name, name): value for name, value in parsed}


def offered_rate(argv: Sequence[str]) -> tuple[float, str] | None:
    """Return requests per second asked for, and their text; None where the command is not known."""
    value = command_options(argv).get("-R", "")
    match = re.fullmatch(r"(\d{1,15})([kKmMgG]?)", value)
    return (float(match[1]) * {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}[match[2].lower()], value) if match else None


def read_spectrum(report: TextReport, lines: Sequence[str], first: int) -> list[SpectrumRow]:
    """Return the rows of a block's spectrum; `lines` are numbered from `first`, `report` is the block as read.

    Raises ParseError for a row that is cut or out of order, or a spectrum without its last row.
    """
    edges: list[SpectrumRow] = []
    last = (-1.0, -1, 0.0)
    for number in range(report.line_numbers["columns"] + 1, report.line_numbers["moments"]):
        line = lines[number - first]
        if not re.match(rf" *{_MS} ", line):
            continue
        row = _SPECTRUM_ROW.fullmatch(line)
        if row is None:
            raise ParseError("wrk2", "stdout", number, "row of the spectrum cut or changed")
        current = (float(row["ms"]), int(row["count"]), float(row["inverse"]))
        if current[0] < last[0] or current[1] < last[1] or current[2] <= last[2]:
            raise ParseError("wrk2", "stdout", number, "rows of the spectrum do not ascend")
        last = current
        edges.append(SpectrumRow(current[0] / 1e3, current[1]))
    if last[1:] != (report.count("count"), float("inf")):
        raise report.error_at("spectrum", "the spectrum does not end with all requests counted")
    return edges


def check_block(report: TextReport, edges: Sequence[SpectrumRow]) -> None:
    """Raise ParseError unless mean, maximum, short list and spectrum of one block go together."""
    total = report.count("count")
    if total == 0:
        return
    if report.value("mean", TIME_UNITS_S, "ms") > report.value("max", TIME_UNITS_S, "ms"):
        raise report.error_at("moments", "the mean is above the maximum")
    for field, percent in PERCENT_FIELDS.items():
        rank = max(1, int(float(percent) / 100 * total + 0.5))  # hdr_value_at_percentile
        low = max((e.upper_s for e in edges if e.requests < rank), default=0.0)
        high = min(e.upper_s for e in edges if e.requests >= rank)
        slack = text.rounding_half_width(report.text(field), TIME_UNITS_S) * (1 + 1e-9) + 1e-9
        if not low - slack <= report.value(field, TIME_UNITS_S) <= high + slack:
            raise report.error_at(field, f"{report.text(field)} for {percent} % is not what the spectrum below it says")
    if report.value("max", TIME_UNITS_S, "ms") > edges[-1].upper_s + 1e-9:
        raise report.error_at("max", "the maximum is above the spectrum")
