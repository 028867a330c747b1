"""The lines of an h2load report (nghttp2/nghttp2 `src/h2load.cc`): text through 1.68, the wider table of 1.69 on.

Times are whole us below 1 ms (cut, not rounded), then two decimals of ms or s; bytes count in 1024, exact in brackets.
"""

from __future__ import annotations

from loadbook.core.units import COUNT_UNITS, TIME_UNITS_S
from loadbook.tools.text import LinePattern, TextReport

_TIME = r"\d{1,20}(?:\.\d\d)?(?:us|ms|s)"
_SIZE = r"\d{1,20}(?:\.\d\d)?[KMGT]?B"
_INT = r"\d{1,20}"
_REAL = r"\d{1,20}\.\d\d"
COLUMN_STATISTICS = {"min": "min", "max": "max", "median": "p50", "p95": "p95", "p99": "p99", "mean": "mean", "sd": "sd"}
TIME_ROWS = {"request": "latency", "connect": "connect_time", "ttfb": "ttfb"}


def _row_pattern(name: str, start: str, cell: str) -> LinePattern:
    example = f"time for {name}:       14us      4.87ms       257us       378us    96.40%"
    return LinePattern(name, example, start, rf"(?P<{name}>(?: +{cell})+) +(?P<{name}_within>{_REAL})%")


LINE_PATTERNS = (
    # printed before any worker starts, so nothing can interleave with it
    LinePattern(
        "plan",
        "spawning thread #0: 10 total client(s). 10000 total requests",
        "spawning thread #0: ",
        rf"{_INT} total client\(s\)\. (?:.*{_INT} total requests|"
        r"Timing-based test with \S+ of warm-up time and (?P<main>\d\S*s) of main duration for measurements\.)",
    ),
    LinePattern(
        "finished",
        "finished in 270.64ms, 73899.73 req/s, 16.77MB/s",
        "finished in ",
        rf"(?P<finished>{_TIME}), (?P<rate>{_REAL}) req/s, (?P<transfer>{_SIZE})/s",
    ),
    LinePattern(
        "requests",
        "requests: 20000 total, 20000 started, 20000 done, 20000 succeeded, 0 failed, 0 errored, 0 timeout",
        "requests: ",
        rf"(?P<total>{_INT}) total, (?P<started>{_INT}) started, (?P<done>{_INT}) done, (?P<ok>{_INT}) succeeded, "
        rf"(?P<failed>{_INT}) failed, (?P<errored>{_INT}) errored, (?P<timeout>{_INT}) timeout",
    ),
    LinePattern(
        "status",
        "status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx",
        "status codes: ",
        rf"(?P<s2>{_INT}) 2xx, (?P<s3>{_INT}) 3xx, (?P<s4>{_INT}) 4xx, (?P<s5>{_INT}) 5xx",
    ),
    LinePattern(
        "traffic",
        "traffic: 4.54MB (4760000) total, 3.49MB (3660000) headers (space savings 0.00%), 78.13KB (80000) data",
        "traffic: ",
        rf"(?P<size>{_SIZE}) \((?P<bytes>{_INT})\) total, {_SIZE} \({_INT}\) headers \(space savings -?{_REAL}%\), "
        rf"{_SIZE} \({_INT}\) data",
    ),
    LinePattern(
        "table",
        "                     min         max         mean         sd        +/- sd",
        " +min +max ",
        r" *(?P<columns>\S.*) +\+/- sd",
    ),
    _row_pattern("request", r"(?:time for request:|request +:)", _TIME),
    _row_pattern("connect", r"(?:time for connect:|connect +:)", _TIME),
    _row_pattern("ttfb", r"(?:time to 1st byte:|TTFB +:)", _TIME),
    _row_pattern("clients", r"req/s +:", _REAL),
)


def table_row(report: TextReport, row: str) -> dict[str, tuple[float, str]]:
    """Return a row of the table: our statistic -> value in base units, text; columns are those of the header line.

    An h2load that measured nothing prints zeros, also for the share within one deviation: then there are none.
    """
    names, texts = ["min", "max", *report.text("columns").split()], report.text(row).split()
    if len(names) != len(texts) or not set(names) <= set(COLUMN_STATISTICS) or len(set(names)) != len(names):
        raise report.error_at(row, f"{len(texts)} values under the columns {' '.join(names)}")
    table = COUNT_UNITS if row == "clients" else TIME_UNITS_S
    values = {COLUMN_STATISTICS[n]: (_parse_cell(t, table), t) for n, t in zip(names, texts, strict=True)}
    measured = report.text(f"{row}_within") != "0.00" or any(value for value, _ in values.values())
    order = [values[s][0] for s in ("min", "p50", "p95", "p99", "max") if s in values]
    if order != sorted(order) or not values["min"][0] <= values.get("mean", values["min"])[0] <= values["max"][0]:
        raise report.error_at(row, "minimum, mean, percentiles and maximum do not ascend")
    return values if measured else {}


def _parse_cell(text: str, table: dict[str, float]) -> float:
    number = text.rstrip("mus")
    return float(number) * table[text[len(number) :]]
