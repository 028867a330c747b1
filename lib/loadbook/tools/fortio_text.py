"""fortio's text report, read into the form of its report in JSON (`stats/stats.go`, `periodic/periodic.go`).

Minimum and maximum have all digits (ns); the mean has eight, percentiles and limits of buckets have six, the deviation
has four, all without zeros at their end. With `-quiet` the text has no buckets and no time of the load, which then
follows from the rate with one decimal. Every histogram but that of sleep times has the same percentiles. The calls of
"Error cases" are those without a status of 2xx or 418.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from loadbook.core.go_programs import parse_duration_s
from loadbook.tools.line_patterns import LinePattern, TextReport, read_report

REPORT_BEGIN = r"Fortio \S+ running at "
REPORT_END = r"All done \d+ calls"
_NUMBER = r"-?\d+(?:\.\d+)?(?:e[-+]\d+)?"
PATTERNS = (
    LinePattern(
        "head",
        "Fortio 1.66.5 running at 100 queries per second, 2->2 procs, for 2s: http://...",
        REPORT_BEGIN,
        rf"(?P<rate>{_NUMBER}) queries per second, \d+->\d+ procs, (?:for (?P<asked>[^:]+)|until interrupted): .*",
    ),
    LinePattern(
        "ended",
        "Ended after 2.00139682s : 200 calls. qps=99.93",
        r"Ended after ",
        rf"(?P<seconds>\S+) : (?P<ended>\d+) calls\. qps=(?P<qps>{_NUMBER})",
        optional=True,
    ),
    LinePattern(
        "times",
        "Aggregated Function Time : count 200 avg 0.00054381469 +/- 0.0006801 min 9.571e-05 max 0.004868813 sum 0.10",
        r"Aggregated Function Time : ",
        rf"count (?P<count>\d+) avg (?P<Avg>{_NUMBER}) \+/- (?P<StdDev>{_NUMBER}) min (?P<Min>{_NUMBER})"
        rf" max (?P<Max>{_NUMBER}) sum (?P<Sum>{_NUMBER})",
    ),
    LinePattern(
        "errors",
        "Error cases : no data",
        r"Error cases : ",
        rf"(?:no data|count (?P<failed>\d+) avg {_NUMBER} \+/- {_NUMBER} min (?P<failed_min>{_NUMBER})"
        rf" max (?P<failed_max>{_NUMBER}) sum (?P<failed_sum>{_NUMBER}))",
        optional=True,
    ),
    LinePattern(
        "connecting",
        "Connection time histogram (s) : count 4 avg 0.00032516525 +/- 0.0001849 min 0.0001 max 0.0006 sum 0.0013",
        r"Connection time histogram \(s\) : ",
        r".*",
        optional=True,
    ),
    LinePattern("sockets", "Sockets used: 4 (for perfect keepalive, would be 4)", r"Sockets used: ", r"\d+.*"),
    LinePattern(
        "done",
        "All done 200 calls (plus 4 warmup) 0.544 ms avg, 99.9 qps",
        r"All done ",
        rf"(?P<done_calls>\d+) calls \(plus \d+ warmup\) (?P<mean_ms>{_NUMBER}) ms avg, (?P<done_qps>\d+\.\d) qps",
    ),
)
DIGITS, PERCENTILE_DIGITS = {"mean": 8, "sd": 4}, 6
_BUCKET = re.compile(r">=? "), re.compile(rf">=? ({_NUMBER}) <= ({_NUMBER}) , ({_NUMBER}) , \d+\.\d\d, (\d+)")
_PERCENTILE = re.compile(r"# target "), re.compile(rf"# target (\d+(?:\.\d+)?)% ({_NUMBER})")
_THREAD = re.compile(r"\[\d+\] +\d+ socket used")
RATE_SLACK = 0.8  # of the time between calls, which -jitter changes by 10 %
_CODE = re.compile(r"Code "), re.compile(r"Code +(-1|[1-5]\d\d) : (\d+) \((\d+\.\d) %\)")


class FortioText(NamedTuple):
    """A text report in the form of fortio's JSON, and its numbers as printed: {Avg, Min, p50, ...: text}.

    Rates have a text if no time of the load is printed and every call had status 200.
    """

    report: dict[str, Any]
    texts: dict[str, str]


def read_text(lines: Sequence[str], file: str) -> FortioText:
    """Return the numbers of a text report; ParseError if it is cut, holds two, or contradicts itself."""
    text = read_report("fortio", lines, PATTERNS, file)
    first = text.line_numbers["times"]
    # percentiles of sleep times stand above, those of errors and of connections below
    after = next((number for number, line in enumerate(lines[first:], first) if not line.startswith(("#", ">"))), first)
    buckets = text.rows(lines, first, after, _BUCKET)
    percentiles = text.rows(lines, first, after, _PERCENTILE)
    codes = text.rows(lines, text.line_numbers["sockets"], len(lines), _CODE)
    calls = text.count("count")
    if len({code for code, *_ in codes}) < len(codes) or sum(int(count) for _, count, _ in codes) != calls:
        raise text.error_at("times", f"the calls by code are not the {calls} of the times")
    _check_failures(text, codes)
    for code, count, share in codes:
        if abs(float(share) - 100 * int(count) / max(1, calls)) > 0.051:
            raise text.error_at("times", f"{count} of {calls} calls have code {code}, which are not {share} %")
    if buckets:
        _check_buckets(text, buckets, calls)
    _check_percentiles(text, lines, percentiles)
    seconds = _seconds(text, calls)
    _check_times(text, calls)
    _check_room(text, lines, calls, seconds)
    asked = text.fields.get("asked", (0, ""))[1]
    rate = float(text.text("rate"))
    numbers = {key: float(text.text(key)) for key in ("Avg", "StdDev", "Min", "Max", "Sum")}
    report: dict[str, Any] = {
        "RunType": "HTTP",
        "RequestedQPS": text.text("rate") if rate > 0 else "max",
        "RequestedDuration": asked,
        "Exactly": int(asked.split()[0]) if asked.endswith(" calls") else 0,
        "ActualDuration": round(seconds * 1e9),
        "ActualQPS": calls / (round(seconds * 1e9) / 1e9),
        "RetCodes": {code: int(count) for code, count, _ in codes},
        "DurationHistogram": {
            "Count": calls,
            **numbers,
            "Data": [
                {"Start": float(start), "End": float(end), "Count": int(count)} for start, end, _, count in buckets
            ] or [{"Start": 0.0, "End": numbers["Max"], "Count": calls}],
            "Percentiles": [{"Percentile": float(percent), "Value": float(time)} for percent, time in percentiles],
        },
    }  # fmt: skip
    if "failed" in text:
        report["ErrorsDurationHistogram"] = _errors(text, lines)
    texts = {key: text.text(key) for key in ("Avg", "StdDev", "Min", "Max")}
    texts |= {f"p{float(percent):g}": time for percent, time in percentiles}
    if "ended" not in text and set(report["RetCodes"]) == {"200"}:
        texts |= dict.fromkeys(("requests_per_s", "ok_per_s"), text.text("done_qps"))
    return FortioText(report, texts)


def step_s(statistic: str, text: str) -> float:
    """Return the step in seconds to which fortio rounds a time: 1e-9 for a p50 of ``0.0025``, which has six digits."""
    if statistic in ("min", "max"):
        return 1e-9
    exponent = math.floor(math.log10(float(text))) if float(text) > 0 else 0
    return float(10.0 ** (exponent + 1 - DIGITS.get(statistic, PERCENTILE_DIGITS)))


def _errors(text: TextReport, lines: Sequence[str]) -> dict[str, Any]:
    """Return the histogram of failed calls."""
    first = text.line_numbers["errors"]
    own = [*takewhile(lambda line: line.startswith(("#", ">")), lines[first:])]
    rows = text.rows(lines, first, first + len(own), _BUCKET)
    table: dict[str, Any] = {key: float(text.text(f"failed_{key.lower()}")) for key in ("Min", "Max", "Sum")}
    buckets = [(float(start), float(end), int(count)) for start, end, _, count in rows]
    buckets = buckets or [(table["Min"], table["Max"], text.count("failed"))]
    if sum(count for *_, count in buckets) != text.count("failed"):
        raise text.error_at("errors", f"its histogram has not the {text.text('failed')} calls of its count")
    data = [{"Start": start, "End": end, "Count": count} for start, end, count in buckets]
    return table | {"Count": text.count("failed"), "Data": data}


def _seconds(text: TextReport, calls: int) -> float:
    """Return the time of the load; ParseError unless counts and rates follow from it."""
    done, rate = text.count("done_calls"), float(text.text("done_qps"))
    if done != calls:
        raise text.error_at("done", f"{done} calls are not the {calls} of the times")
    if "ended" not in text:
        if not rate:
            raise text.error_at("done", "a rate of 0, and no duration")
        return calls / rate
    seconds = parse_duration_s(text.text("seconds"))
    if not seconds or text.count("ended") != calls:
        raise text.error_at("ended", f"{text.text('ended')} calls in {text.text('seconds')} are not the {calls} calls")
    for name, printed, rounded in (("done", rate, 0.051), ("ended", float(text.text("qps")), 6e-5 * calls / seconds)):
        if abs(printed - calls / seconds) > rounded:
            raise text.error_at(name, f"{calls} calls in {seconds:g} s are not {printed:g} a second")
    return seconds


def _check_buckets(text: TextReport, buckets: Sequence[tuple[str, ...]], calls: int) -> None:
    """Raise ParseError unless buckets have all calls, ascend from minimum to maximum, and have their mid points."""
    edges = [float(edge) for start, end, *_ in buckets for edge in (start, end)]
    ends_differ = [abs(edges[at] / float(text.text(key)) - 1) > 6e-6 for at, key in ((0, "Min"), (-1, "Max"))]
    middles = [(float(start) + float(end), 2 * float(middle)) for start, end, middle, _ in buckets]
    if sum(int(count) for *_, count in buckets) != calls:
        raise text.error_at("times", f"the histogram has not the {calls} calls of its count")
    if edges != sorted(edges) or any(abs(one - other) > 1e-5 * one for one, other in middles):
        raise text.error_at("times", "the limits of the buckets do not ascend, or contradict their mid points")
    if any(ends_differ):
        raise text.error_at("times", "the buckets do not reach from minimum to maximum")


def _check_failures(text: TextReport, codes: Sequence[tuple[str, ...]]) -> None:
    """Raise ParseError unless the calls of "Error cases" are those with other statuses."""
    other = {code: int(count) for code, count, _ in codes if not code.startswith("2")}
    most = sum(other.values())
    if "errors" in text and not most - other.get("418", 0) <= text.count("failed") <= most:
        named = ", ".join(f"{count} of code {code}" for code, count in other.items()) or "all codes are 2xx"
        raise text.error_at("errors", f"{text.count('failed')} error cases, but {named}")


def _check_percentiles(text: TextReport, lines: Sequence[str], percentiles: Sequence[tuple[str, ...]]) -> None:
    """Raise ParseError if another histogram of the text has other percentiles, since lines are lost then."""
    expected = [percent for percent, _ in percentiles]
    for name in ("errors", "connecting"):
        first = text.line_numbers.get(name, len(lines))
        after = next(
            (at for at, line in enumerate(lines[first:], first) if not line.startswith(("#", ">"))), len(lines)
        )
        # "# Socket and IP" is below the percentiles of failed calls
        found = [percent for percent, _ in text.rows(lines, first, after, _PERCENTILE)]
        if after > first + 1 and found != expected and (found or name == "connecting"):
            few, many = sorted((expected, found), key=len)
            lost = ", ".join(f"{percent}%" for percent in many if percent not in few) or "others"
            raise text.error_at("times", f"report is not complete: {lost} are in one of its histograms only")


def _check_room(text: TextReport, lines: Sequence[str], calls: int, seconds: float) -> None:
    """Raise ParseError if the calls take longer than the load, or came sooner than the rate allows."""
    threads = sum(bool(_THREAD.match(line)) for line in lines)
    longest, total, rate = float(text.text("Max")), float(text.text("Sum")), float(text.text("rate"))
    if longest > 1.01 * seconds or (threads and total > 1.01 * threads * seconds):
        raise text.error_at("times", f"the calls take longer than the {seconds:g} s of the load")
    if threads and rate > 0 and seconds < RATE_SLACK * (calls / threads - 1) * threads / rate:
        name = "ended" if "ended" in text else "done"
        raise text.error_at(name, f"{calls} calls in {seconds:g} s are more than the rate of {text.text('rate')}")


def _check_times(text: TextReport, calls: int) -> None:
    """Raise ParseError unless mean and sum follow from one another."""
    mean, total = float(text.text("Avg")), float(text.text("Sum"))
    if abs(total - mean * calls) > 1e-6 * total:
        raise text.error_at("times", "the mean does not follow from sum and count")
    if abs(1000 * mean - float(text.text("mean_ms"))) > 5.1e-4:
        raise text.error_at("done", f"{text.text('mean_ms')} ms are not the mean of the times")
