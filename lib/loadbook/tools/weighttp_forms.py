"""The reports of weighttp (lighttpd/weighttp): lines of text up to 0.4, JSON from 0.5 on, told apart by their content.

Both become one `TextReport` with the same fields. Only integers are counters; 0.5 wraps ``keep-alive`` below zero to
numbers beyond 63 bits, and it is not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ParseError
from loadbook.tools import text
from loadbook.tools.text import LinePattern, TextReport

_N = r"\d{1,18}"

TEXT_PATTERNS = (
    LinePattern(
        "finished",
        "finished in 0 sec, 424 millisec and 448 microsec, 47120 req/s, 10721 kbyte/s",
        "finished in ",
        rf"(?P<duration>(?P<sec>{_N}) sec, (?P<ms>\d{{1,3}}) millisec and (?P<us>\d{{1,3}}) microsec), "
        rf"(?P<rate>{_N}) req/s, (?P<kbytes>{_N}) kbyte/s",
    ),
    LinePattern(
        "requests",
        "requests: 1000 total, 1000 started, 1000 done, 0 succeeded, 1000 failed, 0 errored",
        "requests: ",
        rf"(?P<asked>{_N}) total, (?P<started>{_N}) started, (?P<done>{_N}) done, "
        rf"(?P<ok>{_N}) succeeded, (?P<failed>{_N}) failed, (?P<errored>{_N}) errored",
    ),
    LinePattern(
        "status",
        "status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx",
        "status codes: ",
        rf"(?P<s2>{_N}) 2xx, (?P<s3>{_N}) 3xx, (?P<s4>{_N}) 4xx, (?P<s5>{_N}) 5xx",
    ),
    LinePattern(
        "traffic",
        "traffic: 4660000 bytes total, 4580000 bytes http, 80000 bytes data",
        "traffic: ",
        rf"(?P<bytes>{_N}) bytes total, (?P<http>{_N}) bytes http, (?P<data>{_N}) bytes data",
    ),
)

JSON_KEYS = {  # field -> key of the JSON
    "rate": "reqs_per_sec",
    "kbytes": "kBps_per_sec",
    "duration": "secs_elapsed",
    "started": "request_counts.started",
    "done": "request_counts.retired",
    "ok": "response_counts.pass",
    "failed": "response_counts.fail",
    "errored": "response_counts.errs",
    "s2": "status_codes.2xx",
    "s3": "status_codes.3xx",
    "s4": "status_codes.4xx",
    "s5": "status_codes.5xx",
    "bytes": "traffic.bytes_total",
    "http": "traffic.bytes_headers",
    "data": "traffic.bytes_body",
}
TIME_SECTIONS = {  # section of the JSON -> metric
    "connect_times": "connect_time",
    "time_to_first_byte": "ttfb",
    "response_times": None,  # total_times without the time to connect
    "total_times": "latency",
}
BASIC_STATISTICS = {"0%": "min", "50%": "p50", "100%": "max"}  # all that is left with -d
STATISTICS = {"avg": "mean", "stddev": "sd", **BASIC_STATISTICS, **{f"{p}%": f"p{p}" for p in (66, 75, 80, 90, 95, 98, 99)}}
_JSON_LINE = re.compile(r'\{|\}|  \},?| *"[^"]+": *(?:\{|"[^"]*",?|-?[\d.]+,?|-?nan,?)')


def read_text(lines: Sequence[str]) -> TextReport:
    """Return the report of 0.3 and 0.4."""
    return text.read_report("weighttp", lines, TEXT_PATTERNS)


def read_json(lines: Sequence[str]) -> TextReport:
    """Return the report of 0.5: from the line ``{`` to the last ``}``, passing over lines that are not JSON."""
    first = lines.index("{")
    block = [(n, line) for n, line in enumerate(lines[first:], first + 1) if _JSON_LINE.fullmatch(line)]
    try:
        joined = re.sub(r": *(-?nan)", r': "\1"', "\n".join(line for _, line in block))
        read = json.loads(joined, object_pairs_hook=_object_with_unique_keys, parse_int=str, parse_float=str)
    except json.JSONDecodeError as error:
        number = block[min(error.lineno, len(block)) - 1][0]
        raise ParseError("weighttp", "stdout", number, f"the JSON is not whole: {error.msg}") from None
    except ValueError as error:
        raise ParseError("weighttp", "stdout", first + 1, str(error)) from None
    return _build_report(dict(_flatten(read)), {key: n for n, line in block for key in re.findall(r'"([^"]+)":', line)})


def _object_with_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; ValueError if a key occurs twice."""
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError(f"a key of the JSON occurs twice among {', '.join(key for key, _ in pairs)}")
    return values


def _flatten(read: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield values by their dotted keys; numbers are still text."""
    if isinstance(read, dict):
        for key, value in read.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, str(read)


def _build_report(values: Mapping[str, str], numbers: Mapping[str, int]) -> TextReport:
    """Return the report with the fields of `JSON_KEYS` and, for times, ``section.statistic``."""
    expected: dict[str, tuple[str, str]] = {
        field: (key, r"\d{1,9}\.\d{6}" if field == "duration" else _N) for field, key in JSON_KEYS.items()
    }
    for section in TIME_SECTIONS:
        all_ = f"{section}.66%" in values
        keys = [key for key in STATISTICS if all_ or key in BASIC_STATISTICS or key in ("avg", "stddev")]
        expected |= {f"{section}.{STATISTICS[key]}": (f"{section}.{key}", _N) for key in keys}
        expected |= {f"{section}.sd": (f"{section}.stddev", rf"{_N}|-?nan")}
        expected |= {f"{section}.num": (f"{section}.num", _N), f"{section}.unit": (f"{section}.unit", "us")}
    matches = {}
    for field, (key, pattern) in expected.items():
        number = numbers.get(key.rpartition(".")[2], 0)
        if not re.fullmatch(pattern, values.get(key, "")):
            problem = f"unexpected {values[key]!r} as" if key in values else "report is not complete: no"
            raise ParseError("weighttp", "stdout", number if key in values else 0, f"{problem} {key}")
        matches[field] = (number, {field: values[key]})
    _check_percentiles(values)
    return TextReport("weighttp", "stdout", matches)


def _check_percentiles(values: Mapping[str, str]) -> None:
    """Raise ParseError unless every section has the same percentiles: a dropped line leaves no gap in JSON."""
    keys_of_sections = {frozenset(key.partition(".")[2] for key in values if key.startswith(f"{name}.")) for name in TIME_SECTIONS}
    if len(keys_of_sections) != 1:
        raise ParseError("weighttp", "stdout", 0, "report is not complete: its times have different percentiles")
