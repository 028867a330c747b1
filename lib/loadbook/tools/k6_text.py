"""k6's end-of-test text, read as a summary (up to k6 2.2).

k6 cuts times to two decimals of their unit (`internal/js/summary.js`: `toFixedNoTrailingZerosTrunc`), and above a
minute to whole seconds; it prints counts in full, rates with six decimals and bytes with two digits. Before 0.31 it
did not count failed requests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from loadbook.core.errors import ParseError
from loadbook.core.go_programs import printed_duration_s
from loadbook.tools import line_patterns

FIRST_LINE = re.compile(r" *(?:[✓✗] )?(?:http_reqs|http_req_duration|iterations)\.*: ")
_METRIC = re.compile(r" *(?P<mark>[✓✗] )?(?P<name>[A-Za-z_](?:[\w :/()-]|\.(?!\.))*|{ .+ })\.{3,}: *(?P<values>\S.*)")
_HEADING = re.compile(r" *█ (?P<title>.+)")
_THRESHOLD = re.compile(r" *(?P<mark>[✓✗]) '(?P<condition>.+)' \S+=\S*")
_SHARE = re.compile(
    r"(?P<percent>\d+\.\d\d)% +(?:✓ *(?P<hits>\d+) +✗ *(?P<misses>\d+)|(?P<hits_of>\d+) out of (?P<total>\d+))"
)
_COUNTER = re.compile(r"(?P<count>\d+) +(?P<rate>\d+(?:\.\d{1,6})?)/s")
_TREND_VALUE = re.compile(r"(avg|min|med|max|count|p\(\d{1,2}(?:\.\d+)?\))=(\S+)")
UNIT_S = {"µs": 1e-6, "μs": 1e-6, "us": 1e-6, "ms": 1e-3, "s": 1.0}
RATE_ROUNDED = 6e-7  # a rate with six decimals is nearer than this
REQUEST_METRICS = ("http_reqs", "http_req_duration", "http_req_failed")
EXPECTED = "http_req_duration{expected_response:true}"  # in every text from 0.31 on, as is http_req_failed
# lines of every text with requests, beside http_reqs; the last one is the end of a text of k6 1
EXAMPLES = {
    "http_req_duration": "http_req_duration...: avg=11.24ms min=10.07ms med=10.83ms max=66.92ms p(90)=11.31ms",
    "http_req_failed": "http_req_failed...: 0.00% 0 out of 883",
    "data_sent": "data_sent...: 72 kB 36 kB/s",
}


class TextSummary(NamedTuple):
    """Metrics and thresholds of a text in the form of k6's summary in JSON, and its times as printed.

    `metrics` is {metric: {key such as "count" or "p(95)": value}}, with times in ms. `thresholds` maps the text of a
    threshold, or its metric in older texts, to whether it was met. `texts` is {metric: {key: time as printed}}, `lines`
    {metric: number of its line}.
    """

    metrics: dict[str, dict[str, Any]]
    thresholds: dict[str, bool]
    texts: dict[str, dict[str, str]]
    lines: dict[str, int]


def read_text(lines: Sequence[str]) -> TextSummary:
    """Return the summary in the lines of a text; ParseError if it is cut, occurs twice, or has an invalid number."""
    summary = TextSummary({}, {}, {}, {})
    line_of = summary.lines
    parent = last = ""
    for number, line in _lines_of_total(lines):
        if threshold := _THRESHOLD.fullmatch(line):
            summary.thresholds[f"{last}: {threshold['condition']}"] = threshold["mark"] == "✓"
            continue
        last = line.strip() or last
        if (match := _METRIC.fullmatch(line)) is None:
            continue
        is_part = match["name"].startswith("{")
        name = f"{parent}{{{match['name'][2:-2]}}}" if is_part else match["name"]
        parent = parent if is_part else name
        if name in line_of:
            raise ParseError("k6", "stdout", number, line_patterns.second_report(line))
        line_of[name] = number
        try:
            _add_metric(summary, name, match["values"])
        except ValueError:
            raise ParseError("k6", "stdout", number, f"line cut or changed: {line.strip()[:60]!r}") from None
        if match["mark"]:
            summary.thresholds[name] = match["mark"] == "✓ "
    return _checked(summary, line_of)


def _lines_of_total(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of the whole test, without those of single groups and scenarios."""
    in_part = False
    for number, line in enumerate(lines, 1):
        if heading := _HEADING.match(line):
            in_part = heading["title"].startswith(("GROUP: ", "SCENARIO: "))
        if not in_part:
            yield number, line


def _add_metric(summary: TextSummary, name: str, text: str) -> None:
    """Add one metric by its values as printed; ValueError if those of a metric of requests cannot be read."""
    if share := _SHARE.fullmatch(text):
        hits = int(share["hits"] or share["hits_of"])
        total = int(share["total"] or hits + int(share["misses"] or 0))
        if hits > total or abs(float(share["percent"]) - 100 * hits / max(1, total)) > 0.011:
            raise ValueError(text)
        summary.metrics[name] = {"passes": hits, "fails": total - hits}
    elif counter := _COUNTER.fullmatch(text):
        summary.metrics[name] = {"count": int(counter["count"]), "rate": float(counter["rate"])}
    elif (printed := _trend(text)) and None not in (times := [printed_duration_s(time) for time in printed.values()]):
        summary.metrics[name] = {key: 1000 * (time or 0.0) for key, time in zip(printed, times, strict=True)}
        summary.texts[name] = printed
    elif name.partition("{")[0] in REQUEST_METRICS:
        raise ValueError(text)


def _trend(text: str) -> dict[str, str]:
    """Return {key: value as printed} of the times of a trend; {} for a line that is none."""
    printed = dict(_TREND_VALUE.findall(text))
    whole = " ".join(f"{key}={time}" for key, time in printed.items()) == " ".join(text.split())
    return {key: time for key, time in printed.items() if key != "count"} if whole else {}


def step_s(text: str) -> float:
    """Return the step in seconds to which k6 rounds a time of this size: 1e-5 for ``8.1ms``, 1 for ``1m30s``."""
    if text == "0s" or text.endswith("ns"):
        return 1e-9
    return 1.0 if re.match(r"[0-9]+[mh](?!s)", text) else UNIT_S[text.lstrip("0123456789.")] / 100


def _checked(summary: TextSummary, line_of: Mapping[str, int]) -> TextSummary:
    """Return a summary with the checks of k6 1 under their former name; ParseError if it contradicts itself."""
    metrics = summary.metrics
    if "http_reqs" not in line_of:
        raise ParseError("k6", "stdout", 0, "no requests in it: no line like 'http_reqs...: 883 439.454444/s'")
    is_old = not ({"http_req_failed", EXPECTED} & line_of.keys())
    for name, example in EXAMPLES.items():
        if name not in line_of and not (is_old and name == "http_req_failed"):
            raise ParseError("k6", "stdout", 0, f"text is not complete: no line like {example!r}")
    requests = metrics["http_reqs"]
    failed = {"passes": 0, "fails": requests["count"]} if is_old else metrics["http_req_failed"]
    if failed["passes"] + failed["fails"] != requests["count"]:
        text = f"{failed['passes'] + failed['fails']} requests, but {requests['count']} of http_reqs"
        raise ParseError("k6", "stdout", line_of["http_req_failed"], text)
    timed, texts = "http_req_duration", summary.texts
    if requests["count"] and not failed["passes"] and EXPECTED in texts and texts[EXPECTED] != texts.get(timed):
        text = f"no request failed, but the times of line {line_of[timed]} are others"
        raise ParseError("k6", "stdout", line_of[EXPECTED], text)
    for name, counter in metrics.items():
        if not _same_duration(requests, counter) and not (is_old and name == "dropped_iterations"):
            text = f"its rate and that of http_reqs (line {line_of['http_reqs']}) are over different times"
            raise ParseError("k6", "stdout", line_of[name], text)
    if "checks_succeeded" in metrics:
        metrics["checks"] = metrics.pop("checks_succeeded")
    return summary


def _same_duration(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether two counters can have rates over the same time, within their rounding; true for other metrics."""
    if not other.get("count") or "rate" not in other or not one["count"]:
        return True
    difference = abs(other["count"] * one["rate"] - one["count"] * other["rate"])
    return bool(difference <= RATE_ROUNDED * (one["count"] + other["count"]))
