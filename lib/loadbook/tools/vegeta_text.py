"""vegeta's text report, read into the form of its report in JSON.

vegeta rounds each duration to the next smaller unit (`lib/reporters.go`, `round`): 1.991 s to a millisecond, 4.314 ms
to a microsecond; versions before 12 print all digits. Rates have two decimals, counts all digits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

from loadbook.core.go_programs import parse_duration_s, printed_duration_s
from loadbook.tools.line_patterns import LinePattern, TextReport, read_report

FIRST_LINE = re.compile(r"Requests +\[total, rate")
_NUMBER = r"\d+(?:\.\d+)?"
PATTERNS = [
    LinePattern(
        "requests",
        "Requests      [total, rate, throughput]         200, 100.50, 100.49",
        r"Requests +\[",
        rf"total, rate(?:, throughput)?\] +(?P<total>\d+), (?P<rate>{_NUMBER})(?:, (?P<throughput>{_NUMBER}))?",
    ),
    LinePattern(
        "duration",
        "Duration      [total, attack, wait]             1.991s, 1.99s, 590.7µs",
        r"Duration +\[",
        r"total, attack, wait\] +(?P<all>\S+), (?P<attack>\S+), (?P<wait>\S+)",
    ),
    LinePattern(
        "latencies",
        "Latencies     [min, mean, 50, 90, 95, 99, max]  402.936µs, 669.113µs, 568.852µs, ...",
        r"Latencies +\[",
        r"(?P<names>[\w, ]+)\] +(?P<times>\S.*)",
    ),
    LinePattern(
        "bytes_in",
        "Bytes In      [total, mean]                     2400, 12.00",
        r"Bytes In +\[",
        rf"total, mean\] +(?P<bytes>\d+), (?P<mean_bytes>{_NUMBER})",
    ),
    LinePattern(
        "success",
        "Success       [ratio]                           100.00%",
        r"Success +\[",
        rf"ratio\] +(?P<success>{_NUMBER})%",
    ),
    LinePattern(
        "codes",
        "Status Codes  [code:count]                      200:200",
        r"Status Codes +\[",
        r"code:count\](?P<codes>(?: +\d+:\d+)*)",
    ),
    LinePattern("errors", "Error Set:", "Error Set:"),
]
STATISTICS = {"min": "min", "mean": "mean", "50": "p50", "90": "p90", "95": "p95", "99": "p99", "max": "max"}
ROUNDED = 0.0051  # a number with two decimals is nearer than this
SMALLER_UNIT_S = {"h": 60.0, "m": 1.0, "s": 1e-3, "ms": 1e-6, "µs": 1e-9, "μs": 1e-9, "us": 1e-9, "ns": 1e-9}


class VegetaText(NamedTuple):
    """Numbers of a text report.

    `statuses` maps each status to the number of attempts, 0 for those without a response. `seconds` is the time from
    the first start to the last end, and `step_s` the step in s to which it was rounded. `throughput` is the printed
    number of good responses per second, None before vegeta 12. `times` maps a statistic (mean, p99, ...) to (seconds,
    printed text). `messages` are those of the errors.
    """

    statuses: dict[int, int]
    seconds: float
    step_s: float
    throughput: str | None
    bytes_read: int
    times: dict[str, tuple[float, str]]
    messages: list[str]

    @property
    def ok(self) -> int:
        """Number of responses of 2xx or 3xx."""
        return sum(n for code, n in self.statuses.items() if 200 <= code < 400)

    @property
    def ok_per_s(self) -> str | None:
        """The printed throughput (1/s) if it is more exact than `ok` / `seconds`, else None."""
        rate = float(self.throughput or 0)
        return self.throughput if 0.005 * self.seconds < 0.5 * self.step_s * rate else None


def read_text(lines: Sequence[str]) -> VegetaText:
    """Return the numbers of a text report; ParseError if it is cut, holds two, or contradicts itself."""
    report = read_report("vegeta", lines, PATTERNS)
    statuses = {int(code): int(count) for code, count in re.findall(r"(\d+):(\d+)", report.text("codes"))}
    messages = [*takewhile(bool, lines[report.line_numbers["errors"] :])]
    text = VegetaText(
        statuses, _seconds(report, "all"), step_s(report.text("all")), report.fields.get("throughput", (0, None))[1],
        report.count("bytes"), _times(report), messages,
    )  # fmt: skip
    _check_counts(report, text)
    _check_durations(report, text)
    if text.statuses.get(0) and not messages:
        raise report.error_at("errors", "report is not complete: no message of the attempts without a response")
    return text


def step_s(text: str) -> float:
    """Return the step in seconds to which vegeta rounds a duration of this size: 1e-6 for ``4.314ms``."""
    first, last = (re.sub(r"[\d.]", " ", text).split()[at] for at in (0, -1))
    decimals = len(text.rpartition(".")[2].rstrip("hmnsuµμ")) if "." in text else 0
    unit_s = parse_duration_s(f"1{last}") or 1.0
    return min(SMALLER_UNIT_S[first], unit_s / 10**decimals)


def _seconds(report: TextReport, field: str, text: str | None = None) -> float:
    text = text or report.text(field)
    value = printed_duration_s(text)
    if value is None:
        raise report.error_at(field, f"{text!r} is no duration")
    return value


def _times(report: TextReport) -> dict[str, tuple[float, str]]:
    """Return {statistic: (seconds, text)} of the latencies; ParseError if they do not ascend."""
    names, texts = report.text("names").split(", "), report.text("times").split(", ")
    if len(names) != len(texts) or len({*names}) < len(names) or not {"max"} <= {*names} <= {*STATISTICS}:
        raise report.error_at("latencies", f"line cut or changed; expected {PATTERNS[2].example!r}")
    times = {STATISTICS[name]: (_seconds(report, "times", text), text) for name, text in zip(names, texts, strict=True)}
    ordered = [times[name][0] for name in STATISTICS.values() if name in times and name != "mean"]
    mean_s, mean_text = times.get("mean", (ordered[-1], texts[-1]))
    lowest = times["min"][0] if "min" in times else 0.0
    if ordered != sorted(ordered) or not lowest <= mean_s <= ordered[-1] + step_s(mean_text):
        raise report.error_at("latencies", "the latencies do not ascend")
    return times


def _check_counts(report: TextReport, text: VegetaText) -> None:
    """Raise ParseError unless the status codes, the share of successes and the mean size follow from one another."""
    total = report.count("total")
    if any(code != 0 and not 100 <= code <= 999 for code in text.statuses):
        raise report.error_at("codes", "a status code is impossible")
    if sum(text.statuses.values()) != total or len(text.statuses) != report.text("codes").count(":"):
        raise report.error_at("codes", f"the counts of the status codes do not add up to {total} requests")
    if total and abs(float(report.text("success")) - 100 * text.ok / total) > ROUNDED:
        problem = f"success is {report.text('success')} %, but {text.ok} of {total} have status 2xx or 3xx"
        raise report.error_at("success", problem)
    if total and abs(float(report.text("mean_bytes")) - text.bytes_read / total) > ROUNDED:
        raise report.error_at("bytes", "the mean does not follow from total and requests")


def _check_durations(report: TextReport, text: VegetaText) -> None:
    """Raise ParseError unless durations and rates follow from one another within their rounding."""
    attack_s, wait_s = _seconds(report, "attack"), _seconds(report, "wait")
    steps = {name: step_s(report.text(name)) for name in ("all", "attack", "wait")}
    if abs(text.seconds - attack_s - wait_s) > sum(steps.values()):
        raise report.error_at("duration", "attack and wait do not add up to the total")
    if text.times["max"][0] > text.seconds + sum(steps.values()) + step_s(text.times["max"][1]):
        raise report.error_at("latencies", "the longest request is longer than the attack")
    for name, count, field, seconds in (
        ("rate", report.count("total"), "attack", attack_s),
        ("throughput", text.ok, "all", text.seconds),
    ):
        if name not in report or not attack_s:
            continue
        least, most = (count / max(1e-9, seconds + sign * steps[field]) for sign in (1, -1))
        if not least - ROUNDED <= float(report.text(name)) <= most + ROUNDED:
            raise report.error_at(name, f"{report.text(name)} does not follow from {count} in {report.text(field)}")
