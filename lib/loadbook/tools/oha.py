"""oha 1: closed loop, or open loop at an even rate with at most `connections` requests at once.

- HTTP/2: `extra = ["--http2"]`. Redirects are not followed. The number of threads follows the CPUs that oha may use.
- `requests` are responses of any status, `ok` those of 2xx or 3xx, rates those over the total time. oha's own rate
  counts failed attempts and those that it aborts at its end. An aborted attempt is neither a request nor an error.
- **Times** are those of responses (`src/result_data.rs`): `latency` of a closed loop; at a rate `latency_intended`,
  from the instant at which the rate asks for the request, and `service_time` in reports without
  `--latency-correction`. The first request on a connection includes DNS and connecting (`connect_time`). `ttfb`
  counts from the actual start. A percentile p is element floor(n p) of the sorted times, counted from 0.
- **Read**: the JSON of versions 1.0 to 1.16, and the text from 0.5 on, with four decimals of one unit: times whose step
  is above 5 % are doubtful (`coarse_times`), above a quarter left out. The CSV has no failed attempts, so that there
  are no `errors` (doubt `failed_missing`); its `duration` is from the first start to the last end, its percentiles are
  elements ceil(n p), counted from 1. SIGTERM loses the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from loadbook.core.bucketed_times import BucketedTimes
from loadbook.core.metrics import count_error_classes
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns, oha_text, response_csv
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import JsonReport, find_report
from loadbook.tools.recipes import recipes
from loadbook.tools.request_rows import coarse_doubts, is_coarse, status_rows

RESERVED_OPTIONS = (
    *("-n", "-c", "-z", "-q", "-t", "-r", "--redirect", "-o", "--output", "--output-format", "-j", "--json", "-u"),
    *("--time-unit", "--no-tui", "--latency-correction", "--disable-keepalive", "--insecure", "--debug", "--dump-urls"),
    *("--rand-regex-url", "--urls-from-file", "--db-url", "--connect-to", "--unix-socket", "--burst-delay"),
    *("--burst-rate", "-x", "--proxy", "-H", "-w", "--wait-ongoing-requests-after-deadline"),
)
SECRET_OPTIONS = ("-a", "--aws-session", "--key", "--cert")
# class of an error, pattern in its text (hyper, tokio and the operating system); the first match wins
ERROR_PATTERNS = (
    ("errors_driver", r"(?i)Too many open files|os error 24\b|Cannot assign requested address|os error 99\b"),
    ("errors_connect", r"(?i)refused|os error 111\b|unreachable|dns|lookup|failed to connect"),
    ("errors_timeout", r"(?i)time-?out|timed out"),
    ("errors_write", r"(?i)Broken pipe|os error 32\b"),
    ("errors_read", r"(?i)connection (?:error|closed)|reset|os error 104\b|incomplete|unexpected end|body"),
)
PERCENTILES = ("p50", "p75", "p90", "p95", "p99", "p99.9")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def option(argv: Sequence[str], name: str) -> str | None:
    """Return the last value of the short option `name`, written as `-q 5` or `-q5`; None without it."""
    value = None
    for place, word in enumerate(argv):
        if word == name:
            value = argv[place + 1] if place + 1 < len(argv) else None
        elif word.startswith(name) and not word.startswith("--"):
            value = word.removeprefix(name).removeprefix("=")
    return value


def offered_rate(argv: Sequence[str]) -> float | None:
    """Return the rate of option -q in requests per second; None for a closed loop, or if it is not known."""
    text = option(argv, "-q") or ""
    return float(text) if re.fullmatch(r"\d{1,12}(\.\d+)?", text) else None


def asked_duration_s(argv: Sequence[str]) -> float | None:
    """Return the seconds of option -z; None if it is not there, or not known."""
    match = _DURATION.fullmatch(option(argv, "-z") or "")
    return float(match[1]) * _SECONDS[match[2]] if match else None


def time_metric(argv: Sequence[str]) -> str:
    """Return the metric of the times of requests: `latency` of a closed loop, else by the start they count from."""
    if not offered_rate(argv):
        return "latency"
    return "latency_intended" if "--latency-correction" in argv else "service_time"


def is_text_report(lines: Sequence[str]) -> bool:
    """Return whether lines are of the text that oha prints without ``--output-format json``."""
    return any(re.match(r" {0,2}Success rate:(?:\t| +)", line) for line in lines)


MARKS = ("summary", "latencyPercentiles")  # keys of a report


class Oha(base.Tool):
    """oha; the module docstring defines its metrics."""

    name = "oha"
    binary = "oha"
    report_keys = MARKS
    install_hint = recipes()["oha"].hint
    load_models = frozenset({"closed", "open"})
    version_argv: tuple[str, ...] = ("oha", "--version")
    version_pattern = rb"^oha (\d[\w.+-]*)$"
    known_versions = ("1",)
    streamed_inputs = ("stdout", "files")
    rows_begin = "request-start,DNS"
    report_begin = r"Summary:"
    report_end = r"Status code distribution:"

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return oha's argument list; redirects are not followed, and an open loop has corrected latencies."""
        base.check_workload(
            self, workload, RESERVED_OPTIONS, supported_fields=("requests",), secret_options=SECRET_OPTIONS
        )
        base.refuse_threads(self, workload)
        argv = ["oha", "--no-tui", "--output-format", "json", "-c", str(workload.connections)]
        argv += (
            ["-z", f"{base.whole_milliseconds(self, 'duration_s', duration_s)}ms"] if workload.requests is None else []
        )
        argv += ["-n", str(workload.requests)] if workload.requests is not None else []
        argv += ["-t", f"{base.whole_milliseconds(self, 'timeout_s', workload.timeout_s)}ms", "--redirect", "0"]
        argv += ["-q", f"{workload.rate_per_s:.12g}", "--latency-correction"] if workload.rate_per_s else []
        argv += [] if workload.keepalive else ["--disable-keepalive"]
        argv += ["--insecure"] if target.scheme == "https" else []
        for name, value in workload.headers.items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, in JSON or as text, or of one CSV."""
        if found := response_csv.find_csv(response_csv.OHA, output):
            number, rate = option(output.argv, "-n") or "", offered_rate(output.argv)
            seconds = asked_duration_s(output.argv) or 0.0
            load = response_csv.Load(seconds, int(number) if number.isdecimal() and not seconds else 0.0, rate)
            return response_csv.parse(response_csv.OHA, *found, time_metric(output.argv), load, output)
        report = _TextReport(output) if _has_text_alone(output) else _Report(output)
        # its histogram of eleven bins is too coarse for percentiles
        timed = {time_metric(output.argv): BucketedTimes(report.answered)} if report.answered else {}
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()), bucketed=timed)


TOOL = Oha()


def _has_text_alone(output: ToolOutput) -> bool:
    """Return whether stdout has a text report, and no file beside it a report in JSON."""
    is_text = is_text_report(line_patterns.clean_lines(output.stdout))
    return is_text and find_report("oha", {"stdout": output.stdout, **output.files}, *MARKS) is None


class _Report(JsonReport):
    """One report in JSON, after a check that it is complete and does not contradict itself."""

    tool = "oha"
    percentile_names: Sequence[str] = PERCENTILES

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        report = self._read()
        self.summary, self.percentiles = self.table(report, "summary"), self.table(report, "latencyPercentiles")
        self.details = self._details(report)
        self.codes = {int(code): n for code, n in self._counts(report, "statusCodeDistribution").items()}
        failed = self._counts(report, "errorDistribution")
        self.aborted = failed.pop(oha_text.DEADLINE, 0)
        self.errors = count_error_classes(failed.items(), ERROR_PATTERNS)
        self.answered = sum(self.codes.values())
        self.seconds = self.number(self.summary, "total")
        self._check(report)

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        unanswered, rate = sum(self.errors.values()), offered_rate(self.output.argv)
        yield from status_rows(self.codes, self.errors, unanswered, self.seconds, rate)
        read = self.number(self.summary, "totalData")
        yield Measurement("bytes_read", "count", read, "B", None)
        yield Measurement("bytes_per_s", "value", read / self.seconds, "B/s", None)
        yield from self._times()

    def _times(self) -> Iterator[Measurement]:
        if not self.answered:
            return
        metric = time_metric(self.output.argv)
        for statistic, key in (("mean", "average"), ("min", "fastest"), ("max", "slowest")):
            yield Measurement(metric, statistic, self.number(self.summary, key), "s", None)
        for percentile in self.percentile_names:
            yield Measurement(metric, percentile, self.number(self.percentiles, percentile), "s", None)
        for metric, detail in (("ttfb", "firstByte"), ("connect_time", "DNSDialup")):
            values = self.details.get(detail, {})
            for statistic, key in (("mean", "average"), ("min", "fastest"), ("max", "slowest")):
                if values.get(key) is not None:
                    yield Measurement(metric, statistic, self.number(values, key), "s", None)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        argv, asked_s = self.output.argv, asked_duration_s(self.output.argv)
        attempts, number = self.answered + sum(self.errors.values()), option(argv, "-n") or ""
        due = (offered_rate(argv) or 0.0) * (asked_s or 0.0)
        if asked_s and self.seconds < base.MIN_DURATION_SHARE * asked_s:
            yield "stopped_early", f"the load lasted {self.seconds:.3g} s of the {asked_s:g} s that were asked for"
        elif number.isdecimal() and attempts < int(number):
            yield "stopped_early", f"{attempts} attempts, fewer than the {number} requests that were asked for"
        elif attempts + self.aborted < base.MIN_ACHIEVED_SHARE * due - 1:
            text = f"{attempts + self.aborted} requests were started in {asked_s:g} s, of {due:.0f} that were due"
            yield "offered_shortfall", f"{text}: all connections were waiting"
        if self.output.exit_code:
            yield "exit_code", f"oha ended with exit code {self.output.exit_code}"

    def _read(self) -> dict[str, Any]:
        """Return the report; ParseError if there is none, or several."""
        report = self.read_one({"stdout": self.output.stdout, **self.output.files}, *MARKS)
        if report is None:
            raise self.refused(self._missing_reason())
        return report

    def _missing_reason(self) -> str:
        """Return the reason why there is no report, derived from the output of oha or of another program."""
        text = [line for line in line_patterns.clean_lines(self.output.stdout) if line]
        if not text:
            usage = b"Usage: oha" in self.output.stderr
            reason = (
                "oha printed its usage: an argument was wrong" if usage else "empty: oha was killed, or did not start"
            )
            return reason + line_patterns.exit_text(self.output) + line_patterns.stderr_text(self.output)
        return line_patterns.other_output_text("oha", self.output)

    def _check(self, report: Mapping[str, Any]) -> None:
        """Raise ParseError if counts, rate, share of successes, histogram or percentiles contradict each other."""
        if not self.seconds > 0:
            raise self.refused("a total time of 0 s")
        attempts = self.answered + sum(self.errors.values())
        rate = self.number(self.summary, "requestsPerSec")
        if abs(rate - (attempts + self.aborted) / self.seconds) > 1e-6 * rate + 1e-9:
            raise self.refused(f"{attempts + self.aborted} attempts in {self.seconds:g} s are not {rate:g} a second")
        if attempts and abs(self.number(self.summary, "successRate") - self.answered / attempts) > 1e-9:
            raise self.refused(f"{self.answered} of {attempts} attempts were answered, which is not the success rate")
        if not self.answered:
            return
        counted = sum(self._counts(report, "responseTimeHistogram").values())
        if counted != self.answered:
            raise self.refused(f"the histogram has {counted} of {self.answered} responses")
        low, mean, high = (self.number(self.summary, key) for key in ("fastest", "average", "slowest"))
        ordered = [low, *(self.number(self.percentiles, name) for name in self.percentile_names), high]
        if ordered != sorted(ordered) or not low <= mean * (1 + 1e-9) or not mean <= high * (1 + 1e-9):
            raise self.refused("fastest, percentiles, average and slowest do not ascend")

    def _details(self, report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the table of times to connect and to the first byte; ParseError unless each is complete."""
        details = self.table(report, "details")
        names = {"DNSDialup", "DNSLookup"} | ({"firstByte"} if "firstBytePercentiles" in report else set())
        tables = {name: self.table(details, name) for name in sorted(names)}
        if set(details) != names or any(set(table) != {"average", "fastest", "slowest"} for table in tables.values()):
            raise self.refused("report is not complete: its details are not those of oha")
        return tables

    def _counts(self, report: Mapping[str, Any], key: str) -> dict[str, int]:
        table = self.table(report, key)
        pattern = r"[1-9]\d\d" if key == "statusCodeDistribution" else r"(?s).*"
        if not all(type(n) is int and n >= 0 and re.fullmatch(pattern, name) for name, n in table.items()):
            raise self.refused(f"{key} has a count that is no whole number, or an impossible status")
        return table


class _TextReport(_Report):
    """One text report; a time whose step is too large is left out."""

    def _read(self) -> dict[str, Any]:
        """Return the text in the form of the JSON."""
        report, self.printed = oha_text.read_text(line_patterns.clean_lines(self.output.stdout))
        self.percentile_names = tuple(name for name in PERCENTILES if name in self.printed)
        return report

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times as printed; times to connect only if their step is at most 5 %."""
        for row in map(self._as_printed, super().rows()):
            largest = base.COARSE_STEP if row.metric == "connect_time" else base.LARGEST_STEP
            if row.unit != "s" or not is_coarse(row, largest):
                yield row

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        yield from super().doubts()
        yield from coarse_doubts(
            "oha", (self._as_printed(row) for row in self._times() if row.metric != "connect_time")
        )

    def _as_printed(self, row: Measurement) -> Measurement:
        value, text = self.printed.get(_text_key(row), (row.value, row.text))
        step = oha_text.step_s(text) if text and row.unit == "s" else None
        return row._replace(value=value, text=text, step=step)


def _text_key(row: Measurement) -> str:
    """Return the key of a row in `OhaText.printed`."""
    if row.statistic in ("count", "value"):
        return row.metric
    key = {"mean": "average", "min": "fastest", "max": "slowest"}.get(row.statistic, row.statistic)
    return f"DNSDialup.{key}" if row.metric == "connect_time" else key
