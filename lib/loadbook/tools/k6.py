"""k6 1 and 2 (and 0.52): closed loop of virtual users, or open loop with at most `connections` users.

- For the highest rate k6 measures mostly itself: a user is a JavaScript interpreter (rule `driver_saturated`). Over
  TLS it uses HTTP/2 if the server offers it. Redirects are not followed.
- `plan = "mine.js"` must read `__ENV.URL`, and for an open load `__ENV.RATE`; in a closed loop its users and duration
  come from the study. It costs the driver more, as k6 then writes every request (`--out csv`).
- `requests` are responses of any status, `ok` those of 2xx or 3xx. `duration` is k6's own time of the run.
- **Times** are `http_req_duration`: no DNS, connecting or TLS, and no waiting for a free user. They are `latency` of a
  closed loop and `service_time` at a rate. Points have those of all responses. A summary with failures has those of
  expected ones (200 to 399, doubt `expected_only`), and those of all attempts as `attempt_time`.
- With too few users an open load becomes a closed one, and only `dropped_iterations` says so (`offered_shortfall`).
- **Arrivals** are even (`constant-arrival-rate`), and do not tell the starts that k6 missed, except with
  `request_times`. With `poisson` each user has its share of the requests at independent, uniform times of the load;
  late ones start at once, and `latency_intended` counts from the time at which they were due. With `users` each user
  waits an exponential time after a response.
- **Shared**: one k6 on several targets by turns (`k6_shared.pl`), as with `request_times`; the points of a target tell
  its own requests.
- **Read**: points in CSV or JSON, `handleSummary`, `--summary-export`, `--new-machine-readable-summary`, and the text
  on stdout, which cuts times to two decimals (doubt `coarse_times` above 5 %) and has no `bytes_read`. Before 0.31 it
  does not tell failed requests: then there are `attempts` and `attempt_time` alone.
  Points in CSV have no duration (doubt `no_times`), unless K6_CSV_TIME_FORMAT is `unix_micro`. A summary of another
  script tells a refused connection and a status of 500 as one number: then there are `attempts` and
  `attempts_per_s` instead of `requests` (doubt `failed_unknown`).
"""

# With `request_times` the users share even arrivals as Poisson ones, as k6 does not tell which start a request
# missed. The script then writes the intended start of each request into k6's points (`due_us`); the least late
# request marks the start of the schedule, as with vegeta.

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from loadbook.core.bucketed_times import BucketedTimes
from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, k6_text, line_patterns, request_rows
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import Document, find_report
from loadbook.tools.recipes import recipes
from loadbook.tools.shared_load import part_doubts, part_of, part_properties

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Summary

SCRIPT_FILE, SUMMARY_FILE, POINTS_FILE = "load.js", "summary.json", "points.csv"
LEAD_MS = 500  # of a load with request times: its users are ready before the first request is due
SHELL_FILE, ALL_POINTS_FILE = "k6.sh", "all.csv"
SHARED_PROGRAM = "k6_shared.pl"
# Its arguments are those of k6. Of 14 points of a request, one is used.
SHELL_SCRIPT = f"""K6_CSV_TIME_FORMAT=unix_micro k6 "$@"; status=$?
sed -n '1p; /^http_req_duration,/p; /^dropped_iterations,/p' {ALL_POINTS_FILE} > {POINTS_FILE}
rm -f {ALL_POINTS_FILE}
exit $status
"""
RESERVED_OPTIONS = (
    *("-u", "--vus", "-d", "--duration", "-i", "--iterations", "-s", "--stage", "--rps", "-o", "--out", "-e", "--env"),
    *("--summary-export", "--summary-trend-stats", "--summary-mode", "--new-machine-readable-summary", "--no-summary"),
    *("-q", "--quiet", "--no-usage-report", "--execution-segment", "--insecure-skip-tls-verify", "--max-redirects"),
    *("--no-connection-reuse", "-p", "--paused"),
)
# statistic -> k6's names of it, in old and in new summaries
STATISTICS = {
    "mean": ("avg",), "min": ("min",), "p50": ("med", "p(50)", "p50"), "p75": ("p(75)", "p75"),
    "p90": ("p(90)", "p90"), "p95": ("p(95)", "p95"), "p99": ("p(99)", "p99"), "p99.9": ("p(99.9)", "p99.9"),
    "max": ("max",),
}  # fmt: skip
SUPPORTED_FIELDS = ("requests", "think_time_s", "arrivals", "plan", "max_connections", "request_times")
EXPECTED_TIMES = "http_req_duration{expected_response:true}"
INTENDED_METRIC = "intended_duration"  # of our script: time from the intended start
ERROR_CLASSES = ("errors_connect", "errors_timeout", "errors_read", "errors_write", "errors_other")
EXIT_THRESHOLDS, EXIT_STOPPED = 99, 105
_CSV_HEADER = b"metric_name,timestamp,metric_value,"


class RunSummary(NamedTuple):
    """k6's end-of-run summary; k6 writes it in three JSON schemas or as text, which all become this form.

    `metrics` is {metric: {key such as "count" or "p(95)": value}}, with times in ms. `thresholds` maps the text of a
    threshold to whether it was met. `duration_s` is None if the summary does not have it. `texts` is {metric: {key:
    time as printed}} and `lines` {metric: number of its line}, both empty for JSON.
    """

    metrics: Mapping[str, Mapping[str, Any]]
    thresholds: Mapping[str, bool]
    duration_s: float | None
    texts: Mapping[str, Mapping[str, str]] = {}
    lines: Mapping[str, int] = {}


class K6(base.Tool):
    """k6; the module docstring defines its metrics."""

    name = "k6"
    binary = "k6"
    report_keys = ("metrics",)
    report_begin = r" */\\      "
    report_end = " *█ TOTAL RESULTS"  # of k6 1
    install_hint = recipes()["k6"].hint
    load_models = frozenset({"closed", "open"})
    version_argv: tuple[str, ...] = ("k6", "version")
    version_pattern = rb"^k6(?:\.exe)? v?(\d[\w.+-]*)"
    known_versions = ("0.52", "1", "2")
    streamed_inputs = ("stdout", "files")
    rows_begin = r"metric_name,timestamp,metric_value,|\{\"(?:type\":\"Metric|metric\":\")"
    shares_load = True
    extra_timeout_s = 30.0  # users that are started, and a summary of millions of values

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return k6's argument list, which passes the load to the script by its environment."""
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=SUPPORTED_FIELDS)
        base.refuse_threads(self, workload)
        self.extra_files(workload)
        argv = ["k6", "run", "--no-usage-report", "--quiet"]
        if workload.request_times:
            argv = ["sh", SHELL_FILE, *argv[1:], f"--out=csv={ALL_POINTS_FILE}"]
        if workload.plan:
            argv = ["env", "K6_CSV_TIME_FORMAT=unix_micro", *argv, f"--summary-export={SUMMARY_FILE}"]
            argv += [f"--out=csv={POINTS_FILE}", "--insecure-skip-tls-verify"]
            if not workload.rate_per_s:
                requests = workload.requests
                load = ["--duration", f"{duration_s:g}s"] if requests is None else ["--iterations", str(requests)]
                argv += ["--vus", str(workload.connections), *load]
        for name, value in self._environment(workload, target, duration_s).items():
            argv += ["-e", f"{name}={value}"]
        return [*argv, *workload.extra, SCRIPT_FILE]

    def shared_command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list of a perl program that runs k6, and divides the points by target."""
        load = workload.model_copy(update={"request_times": True})
        argv = self.command(load, target, duration_s)
        if workload.plan or workload.arrivals != "even" or not workload.rate_per_s:
            raise ToolError("k6 puts a load on several targets by its own script and at an even rate only", "")
        options = argv[argv.index(SHELL_FILE) + 1 : -1]
        return ["perl", SHARED_PROGRAM, "k6", *options, "-e", "SHARED=true", SCRIPT_FILE]

    def shared_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the script and the perl program."""
        return {name: (resources.files(__package__) / name).read_bytes() for name in (SHARED_PROGRAM,)} | {
            SCRIPT_FILE: (resources.files(__package__) / "k6.js").read_bytes()
        }

    def _environment(self, workload: Workload, target: Target, duration_s: float) -> dict[str, str]:
        """Return the variables that the script reads; CONNECTIONS are users."""
        variables = {
            "URL": base.target_url(target, workload.path), "CONNECTIONS": str(workload.connections),
            "DURATION": f"{duration_s:g}s", "TIMEOUT": f"{workload.timeout_s:g}s",
            "HEADERS": json.dumps(workload.headers), "KEEPALIVE": str(workload.keepalive).lower(),
        }  # fmt: skip
        if workload.requests is not None:
            variables["ITERATIONS"] = str(workload.requests)
        if workload.think_time_s:
            variables["THINK"] = f"{workload.think_time_s:g}"
        if workload.rate_per_s:
            ratio = base.whole_rate(self, workload.rate_per_s)
            variables |= {"RATE": str(ratio.numerator), "RATE_UNIT": f"{ratio.denominator}s"}
        if workload.max_connections is not None:
            variables["MAX_CONNECTIONS"] = str(workload.max_connections)
        if workload.arrivals != "even" or workload.request_times:
            variables["ARRIVALS"] = workload.arrivals
        if workload.request_times:
            variables["LEAD_MS"] = str(LEAD_MS)
        return variables

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the script: the user's own, which must read the load, or one with a single request."""
        if workload.request_times and (workload.plan or workload.arrivals == "users"):
            told = "a script of your own does" if workload.plan else "users who wait after a response do"
            raise ToolError(
                f"k6 does not tell the time of every request from its intended start: {told} not have one",
                'use arrivals = "even" or "poisson", without workload.plan',
            )
        if not workload.plan:
            shell = {SHELL_FILE: SHELL_SCRIPT.encode()} if workload.request_times else {}
            return {SCRIPT_FILE: (resources.files(__package__) / "k6.js").read_bytes(), **shell}
        text, name = workload.plan_text or "", f"workload.plan: {workload.plan}"
        required = ["URL", *(["RATE"] if workload.rate_per_s else []), *(["THINK"] if workload.think_time_s else [])]
        required += ["ARRIVALS"] if workload.arrivals != "even" else []
        if missing := [variable for variable in required if not re.search(rf"__ENV\W+{variable}\b", text)]:
            raise ToolError(
                f"{name} does not read {', '.join(missing)}: its load would not be the study's",
                f"use {', '.join(f'__ENV.{variable}' for variable in missing)} where it has values of its own",
            )
        if workload.headers or not workload.keepalive:
            raise ToolError(f"{name} decides on headers and keep-alive itself", "drop both from the workload")
        return {SCRIPT_FILE: text.encode()}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the names of the summary and, for a user's own script or `request_times`, of the requests."""
        return (SUMMARY_FILE, POINTS_FILE) if workload.plan or workload.request_times else (SUMMARY_FILE,)

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one run from the points of its requests, else from its summary."""
        sources: dict[str, bytes | Path] = {**output.files, **output.paths}
        sources.setdefault("stdout", output.stdout)
        points = [name for name, data in sources.items() if _has_points(data)]
        summaries = (_find_summary(name, data) for name, data in sources.items() if isinstance(data, bytes))
        found = next((document for document in summaries if document), None)
        summary = _read_summary(found) if found else None
        if points:
            return _parse_points(points[0], sources[points[0]], summary, output)
        if found and summary:
            return _parse_summary(found.file, summary, output)
        lines = line_patterns.clean_lines(output.stdout)
        if not any(k6_text.FIRST_LINE.match(line) for line in lines):
            raise ParseError("k6", "stdout", 0, _missing_results_reason(output))
        text = k6_text.read_text(lines)
        summary = RunSummary(text.metrics, text.thresholds, None, text.texts, text.lines)
        is_old = "http_req_failed" not in text.metrics
        return _parse_old_text(summary, output) if is_old else _parse_summary("stdout", summary, output)


TOOL = K6()


def offered_rate(argv: Sequence[str]) -> float | None:
    """Return the requests per second that the command asks for by RATE and RATE_UNIT; None if it is not known."""
    variables = dict(word.split("=", 1) for word in argv if re.match(r"[A-Z_]+=", word))
    rate, unit = variables.get("RATE", ""), variables.get("RATE_UNIT", "1s")
    if not re.fullmatch(r"\d{1,9}", rate) or not re.fullmatch(r"[1-9]\d{0,3}s", unit):
        return None
    return int(rate) / int(unit.removesuffix("s"))


def _has_points(data: bytes | Path) -> bool:
    head = base.head_of(data)
    return head.startswith(_CSV_HEADER) or bool(re.match(rb'\s*\{"(type":"Metric|metric":")', head))


def _find_summary(file: str, data: bytes) -> Document | None:
    """Return the summary in a file, in any of k6's three schemas; ParseError for two, or for one that is cut."""
    named = find_report("k6", {file: data}, "results", "config")
    return named or find_report("k6", {file: data}, *TOOL.report_keys)


def _missing_results_reason(output: ToolOutput) -> str:
    """Return the reason why there are no results, derived from the output of k6 or of another program."""
    if not any(line_patterns.clean_lines(output.stdout)):
        circumstances = line_patterns.exit_text(output) + line_patterns.stderr_text(output)
        return f"empty: k6 was killed, or its script could not start{circumstances}"
    return line_patterns.other_output_text("k6", output)


def _read_summary(found: Document) -> RunSummary:
    """Return the summary in any of k6's three schemas; ParseError if it is of another program."""
    report = found.value
    try:
        if "results" in report:
            metrics = {row["name"]: row["values"] for row in report["results"]["metrics"]}
            met = {row["source"]: not row["failed"] for row in report["results"].get("thresholds", [])}
            return _checked_summary(RunSummary(metrics, met, float(report["config"]["duration"])))
        nested = "state" in report
        metrics = {name: table["values"] if nested else table for name, table in report["metrics"].items()}
        met = {
            f"{name}: {text}": bool(state["ok"]) if nested else not state
            for name, table in report["metrics"].items()
            for text, state in table.get("thresholds", {}).items()
        }
        duration_s = report["state"]["testRunDurationMs"] / 1000 if nested else None
        return _checked_summary(RunSummary(metrics, met, duration_s))
    except (KeyError, TypeError, AttributeError, ValueError):
        reason = OtherProgram("no report of k6 in it: JSON without its metrics")
        raise ParseError("k6", found.file, found.line, reason) from None


def _checked_summary(summary: RunSummary) -> RunSummary:
    """Return the summary; TypeError if a metric is no table, or the duration is not above 0."""
    if not all(isinstance(values, dict) for values in summary.metrics.values()):
        raise TypeError("a metric is no table")
    if summary.duration_s is not None and summary.duration_s <= 0:
        raise TypeError("no duration")
    return summary


class _Values:
    """The values of a summary, checked when they are asked for."""

    def __init__(self, file: str, summary: RunSummary) -> None:
        self.file, self.metrics, self.texts = file, summary.metrics, summary.texts
        self.lines = summary.lines

    def refused(self, metric: str, problem: str) -> ParseError:
        """Return a ParseError with the line of a metric in a text; that of the summary in JSON is not known."""
        return ParseError("k6", self.file, self.lines.get(metric, 0 if self.lines else 1), f"{metric}: {problem}")

    def count(self, metric: str, key: str = "count") -> int:
        """Return a counter; 0 if there is no such metric."""
        value = self.metrics.get(metric, {key: 0}).get(key)
        if type(value) is not int or value < 0:
            raise self.refused(metric, f"{key} is missing, or no count: {str(value)[:60]!r}")
        return value

    def failed(self) -> int:
        """Return the number of failed requests: passes of http_req_failed, in new summaries its matches."""
        return self.count("http_req_failed", "matches" if "matches" in self.metrics["http_req_failed"] else "passes")

    def times_s(self, metric: str) -> dict[str, float]:
        """Return {statistic: seconds} of a trend, whose values are ms; ParseError if they do not ascend."""
        values = self.metrics.get(metric, {})
        times_ms = {s: values[key] for s, keys in STATISTICS.items() for key in keys if key in values}
        if not all(type(value) in (int, float) and value >= 0 for value in times_ms.values()):
            raise self.refused(metric, "a time is no number")
        ordered = [times_ms[s] for s in STATISTICS if s in times_ms and s != "mean"]
        if ordered != sorted(ordered):
            raise self.refused(metric, "minimum, percentiles and maximum do not ascend")
        slack = max(map(k6_text.step_s, self.texts.get(metric, {}).values()), default=0.0) * 1000 + 1e-9
        mean, low, high = times_ms.get("mean"), times_ms.get("min", 0.0), times_ms.get("max", math.inf)
        if mean is not None and not low - slack <= mean <= high + slack:
            raise self.refused(metric, "the mean is not between minimum and maximum")
        return {statistic: value / 1000 for statistic, value in times_ms.items()}

    def time_rows(self, name: str, metric: str) -> Iterator[Measurement]:
        """Yield the times of a trend as those of the metric `name`, also as printed if they are of a text."""
        texts = self.texts.get(metric, {})
        for statistic, seconds in self.times_s(metric).items():
            text = next((texts[key] for key in STATISTICS[statistic] if key in texts), None)
            yield Measurement(name, statistic, seconds, "s", text, k6_text.step_s(text) if text else None)


def _parse_summary(file: str, summary: RunSummary, output: ToolOutput) -> ParsedReport:
    """Return the rows of a summary; with loadbook's own script it tells statuses and classes of errors."""
    values = _Values(file, summary)
    if "http_reqs" not in summary.metrics or "http_req_failed" not in summary.metrics:
        raise ParseError("k6", file, 1, "no requests in it: http_reqs or http_req_failed is missing")
    attempts, failed = values.count("http_reqs"), values.failed()
    if failed > attempts:
        raise values.refused("http_req_failed", f"{failed} failed requests of {attempts}")
    own = any(name in ERROR_CLASSES or re.fullmatch(r"status_[1-5]xx", name) for name in summary.metrics)
    seconds = summary.duration_s or _duration_from_rate(values, attempts)
    rate = offered_rate(output.argv)
    rows = [*(_own_rows if own else _count_rows)(values, attempts, failed, seconds, rate)]
    if "data_received" in summary.metrics:  # a text has two digits of it
        rows.append(Measurement("bytes_read", "count", values.count("data_received"), "B", None))
    timed = [*_summary_times(values, attempts, failed, own, _time_metric(output))]
    rows += [row for row in timed if not request_rows.is_coarse(row, base.LARGEST_STEP)]
    doubts = [*_run_doubts(attempts, values.count("dropped_iterations"), summary, output)]
    doubts += _failure_doubts(timed, attempts, failed, own)
    doubts += request_rows.coarse_doubts("k6", timed)
    numbers = {"attempt_time": BucketedTimes(attempts), _time_metric(output): BucketedTimes(attempts - failed)}
    return ParsedReport(tuple(rows), doubts=tuple(doubts), bucketed=numbers)


def _parse_old_text(summary: RunSummary, output: ToolOutput) -> ParsedReport:
    """Return the rows of a text of k6 before 0.31, which does not tell failed requests."""
    values = _Values("stdout", summary)
    attempts, per_s = values.count("http_reqs"), summary.metrics["http_reqs"]["rate"]
    rows = [Measurement("attempts", "count", attempts, "1", None)]
    rows.append(Measurement("attempts_per_s", "value", per_s, "1/s", None))
    if seconds := _duration_from_rate(values, attempts):
        rows.append(Measurement("duration", "value", seconds, "s", None))
    timed = [*values.time_rows("attempt_time", "http_req_duration")] if attempts else []
    rows += [row for row in timed if not request_rows.is_coarse(row, base.LARGEST_STEP)]
    doubts = [*_run_doubts(attempts, values.count("dropped_iterations"), summary, output)]
    text = f"k6 before 0.31 does not tell how many of the {attempts} requests failed"
    doubts += [("failed_unknown", text), *request_rows.coarse_doubts("k6", timed)]
    return ParsedReport(tuple(rows), doubts=tuple(doubts))


def _failure_doubts(timed: Sequence[Measurement], attempts: int, failed: int, own: bool) -> Iterator[tuple[str, str]]:
    if failed and not own:
        text = f"{failed} of {attempts} requests failed, and the summary does not tell which had a response"
        yield "failed_unknown", text
    if failed and any(row.metric not in ("attempt_time", "latency_intended") for row in timed):
        text = f"times are those of {attempts - failed} expected responses (200 to 399), without the {failed} others"
        yield "expected_only", text


def _summary_times(values: _Values, attempts: int, failed: int, own: bool, metric: str) -> Iterator[Measurement]:
    """Yield times: with failures those of the expected responses, and those of all attempts as `attempt_time`."""
    if attempts > failed and (not failed or EXPECTED_TIMES in values.metrics):
        yield from values.time_rows(metric, EXPECTED_TIMES if failed else "http_req_duration")
    if attempts > failed:
        yield from values.time_rows("latency_intended", INTENDED_METRIC)
    of_attempts = [*values.time_rows("attempt_time", "http_req_duration")] if failed else []
    # without a connection k6 has a duration of 0
    if any(row.value for row in of_attempts) and not (own and attempts == failed):
        yield from of_attempts


def _duration_from_rate(values: _Values, attempts: int) -> float | None:
    rate = values.metrics["http_reqs"].get("rate")
    return attempts / rate if attempts and isinstance(rate, int | float) and rate > 0 else None


def _own_rows(
    values: _Values, attempts: int, failed: int, seconds: float | None, rate_per_s: float | None
) -> Iterator[Measurement]:
    """Yield counts and rates by the counters of loadbook's own script, which have the first digits of statuses."""
    statuses = {100 * digit: values.count(f"status_{digit}xx") for digit in range(1, 6)}
    errors = {name: values.count(name) for name in ERROR_CLASSES}
    answered, unanswered = sum(statuses.values()), sum(errors.values())
    if answered + unanswered != attempts:
        text = f"{answered} responses and {unanswered} failures are not {attempts} requests"
        raise values.refused("http_reqs", text)
    yield from request_rows.status_rows(statuses, errors, unanswered, seconds or 0.0, rate_per_s)


def _count_rows(
    values: _Values, attempts: int, failed: int, seconds: float | None, rate_per_s: float | None
) -> Iterator[Measurement]:
    """Yield counts and rates of a script without such counters: with failures, attempts instead of responses."""
    for metric, count in (("attempts" if failed else "requests", attempts), ("ok", attempts - failed)):
        yield Measurement(metric, "count", count, "1", None)
        if seconds:
            yield Measurement(f"{metric}_per_s", "value", count / seconds, "1/s", None)
    if seconds:
        yield Measurement("duration", "value", seconds, "s", None)
    yield Measurement("errors", "count", failed, "1", None)
    if rate_per_s:
        yield Measurement("offered_per_s", "value", rate_per_s, "1/s", None)


def _parse_points(file: str, data: bytes | Path, summary: RunSummary | None, output: ToolOutput) -> ParsedReport:
    """Return the rows of single requests; checks and thresholds come from the summary beside them, if there is one."""
    from loadbook.request_logs.read import summarise
    from loadbook.tools.shared_slices import with_slices

    part, rate = part_of("k6", output), offered_rate(output.argv)
    properties = part_properties(part)
    figures = summarise(data, "k6", file=file, properties=properties)
    doubts = [*_log_doubts(file, figures)]
    if part is None or rate is None:
        doubts += _run_doubts(figures.total().attempts, figures.not_started, summary, output)
        return request_rows.log_report(figures, _time_metric(output), rate, doubts, ("torn",))
    doubts += part_doubts("k6", part, figures, output)
    report = request_rows.log_report(figures, _time_metric(output), None, doubts, ("torn",))
    return with_slices(report, "k6", data, part, properties, output, 1e6 / rate)


def _time_metric(output: ToolOutput) -> str:
    return "service_time" if offered_rate(output.argv) else "latency"


def _log_doubts(file: str, figures: Summary) -> Iterator[tuple[str, str]]:
    yield from request_rows.damage_doubts(file, figures)
    if figures.duration_s is None:
        yield "no_times", "the points have whole seconds only: set K6_CSV_TIME_FORMAT=unix_micro for duration and rates"


def _run_doubts(
    attempts: int, not_started: int, summary: RunSummary | None, output: ToolOutput
) -> Iterator[tuple[str, str]]:
    """Yield the doubts about a run with so many attempts, and so many that no user was free for."""
    if not_started and attempts < base.MIN_ACHIEVED_SHARE * (attempts + not_started):
        text = f"{not_started} of {attempts + not_started} requests were not started: all users were waiting"
        yield "offered_shortfall", text
    checks = summary.metrics.get("checks", {}) if summary else {}
    passes, fails = checks.get("passes", 0), checks.get("fails", 0)
    if type(fails) is type(passes) is int and fails:
        yield "checks_failed", f"{fails} of {passes + fails} checks of the script failed"
    crossed = [text for text, met in (summary.thresholds if summary else {}).items() if not met]
    if crossed or output.exit_code == EXIT_THRESHOLDS:
        yield "thresholds_crossed", f"thresholds of the script were crossed: {'; '.join(crossed) or 'see stderr'}"
    if output.exit_code == EXIT_STOPPED:
        yield "stopped_early", "k6 was stopped by a signal"
    elif output.exit_code not in (0, None, EXIT_THRESHOLDS):
        yield "exit_code", f"k6 ended with exit code {output.exit_code}"
