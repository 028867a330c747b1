"""oha's text report, read into the form of its report in JSON (oha 0.5 to 1.16).

Every time has four decimals of one unit (`src/printer.rs`): seconds before oha 1.9, later the unit of the longest
time. Counts have all digits, the share of answers two decimals, bytes two decimals of KiB, MiB and so on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from loadbook.tools.line_patterns import LinePattern, TextReport, read_report, restore_indentation

UNIT_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "secs": 1.0, "s": 1.0, "min": 60.0, "hr": 3600.0}
SIZE_B = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
PERCENTS = ("10", "25", "50", "75", "90", "95", "99", "99.9", "99.99")
SUMMARY = ("slowest", "fastest", "average")
DEADLINE = "aborted due to deadline"  # message of attempts under way at the end
OLD_PERCENTS = PERCENTS[:7]  # of oha 0
_TIME = rf"(?P<{{}}>(?:\d+\.\d{{{{4}}}}|-?inf|NaN) (?:{'|'.join(UNIT_S)}))"
_SIZE = r"(?P<{}>\d+(?:\.\d+)? [KMGT]?i?B)"


def _times(*names: str) -> str:
    return ", ".join(_TIME.format(name) for name in names)


PATTERNS = (
    LinePattern("head", "Summary:", r"Summary:"),
    LinePattern("success", "  Success rate:	100.00%", r"  Success rate:(?:\t| +)", r"(?P<share>\d+\.\d+%?|NaN%?)"),
    LinePattern("total", "  Total:	2004.0043 ms", r"  Total:(?:\t| +)", _times("total")),
    LinePattern("slowest", "  Slowest:	22.7283 ms", r"  Slowest:(?:\t| +)", _times("slowest")),
    LinePattern("fastest", "  Fastest:	10.0593 ms", r"  Fastest:(?:\t| +)", _times("fastest")),
    LinePattern("average", "  Average:	11.1951 ms", r"  Average:(?:\t| +)", _times("average")),
    LinePattern("rate", "  Requests/sec:	446.1068", r"  Requests/sec:(?:\t| +)", r"(?P<per_s>\d+\.\d{4})"),
    LinePattern("data", "  Total data:	10.42 KiB", r"  Total data:(?:\t| +)", _SIZE.format("bytes_read")),
    LinePattern("size", "  Size/sec:	5.20 KiB", r"  Size/sec:(?:\t| +)", _SIZE.format("bytes_per_s")),
    LinePattern("histogram", "Response time histogram:", r"Response time histogram:$"),
    LinePattern("distribution", "Response time distribution:", r"Response time distribution:$"),
    LinePattern("details", "Details (average, fastest, slowest):", r"Details \(average, fastest, slowest\):"),
    LinePattern(
        "dialup",
        "  DNS+dialup:	1.5332 ms, 0.0483 ms, 7.2296 ms",
        r"  DNS\+dialup:(?:\t| +)",
        _times("dial_average", "dial_fastest", "dial_slowest"),
    ),
    LinePattern(
        "lookup",
        "  DNS-lookup:	1.4432 ms, 0.0014 ms, 7.1162 ms",
        r"  DNS-lookup:(?:\t| +)",
        _times("look_average", "look_fastest", "look_slowest"),
    ),
    LinePattern("statuses", "Status code distribution:", r"Status code distribution:"),
    LinePattern("errors", "Error distribution:", r"Error distribution:", optional=True),
)
# beginning and whole of a row of each table, with its two values
_BUCKET = re.compile(r" +\S+(?: [a-z]+)? \["), re.compile(r" +(\d+\.\d+|NaN)(?: [a-z]+)? \[(\d+)\] *\|[■ ]*")
_PERCENTILE = (
    re.compile(r"  \d+(?:\.\d+)?%"),
    re.compile(rf"  (\d+(?:\.\d+)?)% in ((?:\d+\.\d{{4}}|NaN) (?:{'|'.join(UNIT_S)}))"),
)
_STATUS = re.compile(r"  \["), re.compile(r"  \[([1-9]\d\d)\] (\d+) responses")
_FAILURE = re.compile(r"  \["), re.compile(r"  \[(\d+)\] (.+)")


ROWS = dict.fromkeys((_BUCKET[1].pattern.lstrip(" +"), r"\d+(?:\.\d+)?% in .*", r"\[\d+\] .*"), "  ")


class OhaText(NamedTuple):
    """A text report in the form of oha's JSON, and its numbers as printed.

    `report` has rates and shares that follow from its counts. `printed` maps average, fastest, slowest, p99 and so on,
    "DNSDialup.average" and so on, and the metrics of bytes and rates to (value in base units, text). Rates are there
    if every attempt was answered, or was answered well.
    """

    report: dict[str, Any]
    printed: dict[str, tuple[float, str]]


def read_text(lines: Sequence[str]) -> OhaText:
    """Return the numbers of a text report; ParseError if it is cut, holds two, or contradicts itself."""
    lines = restore_indentation(lines, PATTERNS, ROWS)
    text = read_report("oha", lines, PATTERNS)
    codes, errors = _counts(text, lines)
    buckets = _rows(text, lines, "histogram", text.line_numbers["distribution"], _BUCKET)
    percentiles = _percentiles(text, lines)
    if any(codes.values()):
        _check_extremes(text, lines, percentiles)
    answered, all_ = sum(codes.values()), sum(codes.values()) + sum(errors.values())
    aborted = errors.get(DEADLINE, 0)
    if sum(int(count) for _, count in buckets) != answered:
        raise text.error_at("histogram", f"the histogram has not the {answered} responses of the statuses")
    _check_share(text, answered, {all_, all_ - aborted} - {0})
    seconds, is_total = _seconds(text, all_)
    texts = {key: text.text(key) for key in SUMMARY} | percentiles
    texts |= {f"DNSDialup.{key}": text.text(f"dial_{key}") for key in SUMMARY}
    times = {key: _time_s(printed) for key, printed in texts.items()}
    if answered and None in {times[key] for key in (*SUMMARY, *percentiles)}:
        raise text.error_at("average", f"a time is no number, in spite of {answered} responses")
    report = {
        "summary": {
            **{key: times[key] for key in SUMMARY},
            "successRate": answered / max(1, all_ - aborted),
            "total": seconds,
            "requestsPerSec": all_ / seconds,
            "totalData": _size(text.text("bytes_read"))[0],
        },
        "latencyPercentiles": {key: times[key] for key in percentiles},
        "details": {
            "DNSDialup": {key: times[f"DNSDialup.{key}"] for key in SUMMARY},
            "DNSLookup": {key: _time_s(text.text(f"look_{key}")) for key in SUMMARY},
        },
        "responseTimeHistogram": {"all": answered},
        "statusCodeDistribution": codes,
        "errorDistribution": errors,
    }
    printed = {key: (value, texts[key]) for key, value in times.items() if value is not None}
    printed |= _printed_sizes(text, seconds)
    if is_total:
        printed["duration"] = (seconds, text.text("total"))
    rate = float(text.text("per_s")), text.text("per_s")
    printed |= {"requests_per_s": rate} if answered == all_ else {}
    printed |= {"ok_per_s": rate} if sum(n for code, n in codes.items() if code[0] in "23") == all_ else {}
    return OhaText(report, printed)


def step_s(text: str) -> float:
    """Return the step in seconds in which a time is printed: 1e-7 for ``10.0593 ms``."""
    return UNIT_S[text.rpartition(" ")[2]] / 1e4


def _counts(text: TextReport, lines: Sequence[str]) -> tuple[dict[str, int], dict[str, int]]:
    """Return the numbers of responses by status, and of failed attempts by message."""
    places = text.line_numbers
    statuses = _rows(text, lines, "statuses", places.get("errors", len(lines)), _STATUS)
    failures = _rows(text, lines, "errors", len(lines), _FAILURE) if "errors" in places else []
    if failures and _FAILURE[0].match(lines[-1]):
        raise text.error_at("errors", "report is not complete: its last line has no end")
    codes = {code: int(count) for code, count in statuses}
    errors = {message: int(count) for count, message in failures}
    if len(codes) < len(statuses) or len(errors) < len(failures):
        raise text.error_at("statuses", "a row is there twice")
    return codes, errors


def _time_s(text: str) -> float | None:
    """Return the seconds of a printed time; None for NaN and inf."""
    number, _, unit = text.partition(" ")
    value = float(number) * UNIT_S[unit]
    return value if math.isfinite(value) else None


def _size(text: str) -> tuple[float, float]:
    """Return a printed number of bytes, and half a unit of its last digit."""
    number, _, unit = text.partition(" ")
    step = 10.0 ** -len(number.partition(".")[2]) if unit != "B" else 1.0
    return float(number) * SIZE_B[unit], 0.5 * step * SIZE_B[unit]


def _rows(
    text: TextReport, lines: Sequence[str], name: str, end: int, row: tuple[re.Pattern[str], re.Pattern[str]]
) -> list[tuple[str, str]]:
    """Return the rows below a heading, to the next empty line or the line `end`; ParseError for one that is cut."""
    rows = []
    for number, line in enumerate(lines[text.line_numbers[name] : end], text.line_numbers[name] + 1):
        if not line and name != "errors":
            break
        if match := row[1].fullmatch(line):
            rows.append((match[1], match[2]))
        elif row[0].match(line):
            raise text.error_at(name, f"line {number} cut or changed: {line[:60]!r}")
    return rows


def _percentiles(text: TextReport, lines: Sequence[str]) -> dict[str, str]:
    """Return {p50: time as printed}; ParseError unless all percentiles are there."""
    rows = _rows(text, lines, "distribution", text.line_numbers["details"], _PERCENTILE)
    percents = tuple(f"{float(percent):g}" for percent, _ in rows)
    if percents not in (PERCENTS, OLD_PERCENTS):
        raise text.error_at("distribution", f"report is not complete: percentiles {', '.join(percents)}")
    return {f"p{percent}": printed for percent, (_, printed) in zip(percents, rows, strict=True)}


def _check_extremes(text: TextReport, lines: Sequence[str], percentiles: dict[str, str]) -> None:
    """Raise ParseError unless percentiles and histogram end at the slowest time, and average times are between."""
    limits = [line for line in lines[text.line_numbers["histogram"] :] if _BUCKET[1].fullmatch(line)]
    limits = limits if len(percentiles) > len(OLD_PERCENTS) else []  # whose limits are not known
    for name, line in (("fastest", limits[0]), ("slowest", limits[-1])) if limits else ():
        limit, own = line.split("[")[0].strip(), text.text(name)
        unit = limit.partition(" ")[2] or "secs"  # before oha 1.9 limits are seconds
        half = 0.5 * 10.0 ** -len(limit.split()[0].partition(".")[2]) * UNIT_S[unit] + step_s(own)
        if abs((_time_s(f"{limit.split()[0]} {unit}") or 0.0) - (_time_s(own) or 0.0)) > 1.001 * half:
            raise text.error_at(name, f"{own}, but the histogram has {limit}")
    slowest, last = _time_s(text.text("slowest")) or 0.0, [*percentiles][-1]
    if (_time_s(percentiles[last]) or 0.0) > slowest + step_s(text.text("slowest")) + step_s(percentiles[last]):
        raise text.error_at("slowest", f"{text.text('slowest')}, but {last} is {percentiles[last]}")
    for prefix, name in (("", "average"), ("dial_", "dialup"), ("look_", "lookup")):
        times = [_time_s(text.text(f"{prefix}{key}")) for key in ("fastest", "average", "slowest")]
        low, mean, high = (math.nan if value is None else value for value in times)
        slack = sum(step_s(text.text(f"{prefix}{key}")) for key in SUMMARY)
        if mean < low - slack or mean > high + slack:
            raise text.error_at(name, f"the average, {text.text(prefix + 'average')}, is not between the extremes")


def _check_share(text: TextReport, answered: int, attempts: Collection[int]) -> None:
    """Raise ParseError unless the share of answers follows from one of the numbers of attempts."""
    printed = text.text("share")
    share = float(printed[:-1]) / 100 if printed.endswith("%") else float(printed)
    if attempts and all(abs(share - answered / n) > 5.1e-5 for n in attempts):
        raise text.error_at("success", f"{answered} of {max(attempts)} attempts were answered, which is not {printed}")


def _seconds(text: TextReport, attempts: int) -> tuple[float, bool]:
    """Return the total time, and whether it is printed: else it is from the rate, which is more exact.

    ParseError unless time and rate fit to the attempts.
    """
    total, half = _time_s(text.text("total")), step_s(text.text("total")) / 2
    rate = float(text.text("per_s"))
    if not total or total <= 0:
        raise text.error_at("total", "a total time of 0 s")
    low, high = max(0.0, rate - 5.1e-5) * (total - half), (rate + 5.1e-5) * (total + half)
    if not low * (1 - 1e-12) <= attempts <= high * (1 + 1e-12):
        raise text.error_at("rate", f"{attempts} attempts in {text.text('total')} are not {rate:g} a second")
    is_total = not rate or 5e-5 / rate >= half / total
    return total if is_total else attempts / rate, is_total


def _printed_sizes(text: TextReport, seconds: float) -> dict[str, tuple[float, str]]:
    """Return bytes and bytes per second with their texts; ParseError unless one follows from the other."""
    sizes = {key: _size(text.text(key)) for key in ("bytes_read", "bytes_per_s")}
    (read, half), (per_s, half_per_s) = sizes.values()
    if abs(per_s - read / seconds) > half / seconds + half_per_s + 1 + 1e-4 * per_s:
        problem = f"{text.text('bytes_read')} in {seconds:.6g} s are not {text.text('bytes_per_s')} a second"
        raise text.error_at("size", problem)
    return {key: (value, text.text(key)) for key, (value, _) in sizes.items()}
