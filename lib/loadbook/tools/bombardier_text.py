"""bombardier's text report, read into the form of its report in JSON (`templates.go`, `format.go`).

Times have two decimals of us, ms, s, m or h, from 850 us on in ms. Codes have all digits. The text has no time of the
load; its "Reqs/sec" is a mean of momentary rates, which was up to 49 % off the rate of the whole load, and is that rate
only if there was one interval (Stdev 0.00, Avg as Max). "Throughput" adds what was sent to what was received.
Where a load is too short for rates or times, a sentence ("wasn't enough data") stands for them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from loadbook.core import units
from loadbook.core.errors import ParseError
from loadbook.core.go_programs import parse_duration_s
from loadbook.tools.line_patterns import LinePattern, TextReport, read_report, restore_indentation, rounding_half_width

REPORT_BEGIN = r"Bombarding \S+ (?:for|with) "
REPORT_END = r"(?:  )?Throughput: +[\d.]+(?:[KMGTP]B)?/s"
FIRST_LINE = re.compile(r"Statistics +Avg +Stdev +Max")
_TIME = r"(?P<{}>\d+\.\d\d(?:us|ms|s|m|h))"
PATTERNS = (
    LinePattern(
        "head",
        "Bombarding http://127.0.0.1:8080/ for 2s using 5 connection(s)",
        REPORT_BEGIN,
        r"(?:(?<=for )(?P<asked>\S+)|(?<=with )(?P<asked_requests>\d+) request\(s\)) using"
        r" (?P<connections>\d+) connection\(s\)",
        optional=True,
    ),
    LinePattern("statistics", "Statistics        Avg      Stdev        Max", FIRST_LINE.pattern),
    LinePattern(
        "rates",
        "  Reqs/sec     16786.38       0.00   16786.38",
        r"  Reqs/sec ",
        r" *(?P<rate>\d+\.\d\d) +(?P<rate_sd>\d+\.\d\d) +(?P<rate_max>\d+\.\d\d)",
        optional=True,
    ),
    LinePattern(
        "latency",
        "  Latency      226.66us    81.37us   736.00us",
        r"  Latency +(?=\d)",
        rf"{_TIME.format('mean')} +{_TIME.format('sd')} +{_TIME.format('max')}",
        optional=True,
    ),
    LinePattern("distribution", "  Latency Distribution", r"  Latency Distribution", optional=True),
    LinePattern("codes", "  HTTP codes:", r"  HTTP codes:"),
    LinePattern(
        "statuses",
        "    1xx - 0, 2xx - 200, 3xx - 0, 4xx - 0, 5xx - 0",
        r"    1xx - ",
        r"(?P<s1>\d+), 2xx - (?P<s2>\d+), 3xx - (?P<s3>\d+), 4xx - (?P<s4>\d+), 5xx - (?P<s5>\d+)",
    ),
    LinePattern("others", "    others - 0", r"    others - ", r"(?P<other>\d+)"),
    LinePattern("errors", "  Errors:", r"  Errors:", optional=True),
    LinePattern(
        "throughput", "  Throughput:    14.62MB/s", r"  Throughput: ", r" *(?P<sent_and_read>\d+\.\d\d(?:[KMGTP]B)?)/s"
    ),
)
_PERCENTILE = re.compile(r" +\d+% "), re.compile(r" +(\d+)% +(\d+\.\d\d(?:us|ms|s|m|h))")
_TOO_FEW = re.compile(r" *There wasn't enough data to compute statistics for requests")
_FAILURE = re.compile(r" "), re.compile(r" +(.+) - (\d+)")
PERCENTS = ("50", "75", "90", "95", "99")


ROWS = {r"\d+% .*": "     ", r".+ - \d+": "    "}


class BombardierText(NamedTuple):
    """A text report in the form of bombardier's JSON, without its duration, and its numbers as printed.

    `texts` maps mean, sd, max, p50 and so on to times as printed. `per_s` is the rate of all attempts as printed, None
    if it is a mean of several momentary ones.
    """

    report: dict[str, Any]
    texts: dict[str, str]
    per_s: str | None


def read_text(lines: Sequence[str]) -> BombardierText:
    """Return the numbers of a text report; ParseError if it is cut, holds two, or contradicts itself."""
    lines = restore_indentation(lines, PATTERNS, ROWS)
    text = read_report("bombardier", lines, PATTERNS)
    places = text.line_numbers
    _require_lines(text, lines)
    percentiles = (
        text.rows(lines, places["distribution"], places["codes"] - 1, _PERCENTILE) if "distribution" in text else []
    )
    if "distribution" in text and tuple(percent for percent, _ in percentiles) != PERCENTS:
        raise text.error_at("distribution", f"{len(percentiles)} percentiles instead of {len(PERCENTS)}")
    failures = text.rows(lines, places["errors"], places["throughput"] - 1, _FAILURE) if "errors" in places else []
    attempts = sum(text.count(name) for name in ("s1", "s2", "s3", "s4", "s5", "other"))
    if attempts and "latency" not in text:
        raise text.error_at("codes", f"report is not complete: no line like {PATTERNS[3].example.strip()!r}")
    if "asked_requests" in text.fields and attempts > text.count("asked_requests"):
        raise text.error_at("statuses", f"{attempts} attempts of {text.text('asked_requests')} requests")
    texts = {name: text.text(name) for name in ("mean", "sd", "max")} if "latency" in text else {}
    texts |= {f"p{percent}": time for percent, time in percentiles}
    us = {name: units.parse_quantity(printed, units.TIME_UNITS_S) * 1e6 for name, printed in texts.items()}
    if us and us["mean"] > us["max"] + 1e6 * step_s(texts["mean"]):
        raise text.error_at("latency", "the mean is above the maximum")
    asked_s = parse_duration_s(text.text("asked")) if "asked" in text.fields else None
    if us and asked_s and attempts * us["mean"] > 1.05e6 * text.count("connections") * (asked_s + us["max"] / 1e6):
        given = f"{text.text('asked')} of {text.text('connections')} connections"
        raise text.error_at("statuses", f"{attempts} attempts of {text.text('mean')} take longer than {given}")
    spec = {"testDurationSeconds": asked_s} if asked_s else {}
    spec |= {"numberOfRequests": text.count("asked_requests")} if "asked_requests" in text.fields else {}
    result: dict[str, Any] = {f"req{digit}xx": text.count(f"s{digit}") for digit in range(1, 6)}
    result |= {"others": text.count("other")}
    result["errors"] = [{"description": message, "count": int(count)} for message, count in failures]
    if us:
        result["latency"] = {"mean": min(us["mean"], us["max"]), "stddev": us["sd"], "max": us["max"]}
    if percentiles:
        result["latency"]["percentiles"] = {percent: us[f"p{percent}"] for percent in PERCENTS}
    return BombardierText({"spec": spec, "result": result}, texts, _whole_rate(text))


def _require_lines(text: TextReport, lines: Sequence[str]) -> None:
    """Raise ParseError if the line of the rates or the heading of the percentiles is lost."""
    if "rates" not in text and not any(_TOO_FEW.match(line) for line in lines):
        raise text.error_at("statistics", f"report is not complete: no line like {PATTERNS[2].example.strip()!r}")
    for number, line in enumerate(lines[: text.line_numbers["codes"]], 1):
        if "distribution" not in text and number > text.line_numbers["statistics"] and _PERCENTILE[1].fullmatch(line):
            raise ParseError("bombardier", text.file, number, "report is not complete: no line 'Latency Distribution'")


def step_s(text: str) -> float:
    """Return the step in seconds in which a time is printed: 1e-8 for ``226.66us``."""
    return 2 * rounding_half_width(text, units.TIME_UNITS_S)


def _whole_rate(text: TextReport) -> str | None:
    """Return the printed rate if it is that of one interval; ParseError if the mean is above the maximum."""
    if "rates" not in text:
        return None
    mean, deviation, most = (float(text.text(name)) for name in ("rate", "rate_sd", "rate_max"))
    if mean > most:
        raise text.error_at("rates", "the mean of the rate is above its maximum")
    return text.text("rate") if deviation == 0 and mean == most else None  # of two intervals, Stdev is 0, too
