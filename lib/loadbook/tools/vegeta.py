"""vegeta 12: open loop at an even rate, with as many workers as it takes, or closed loop.

- In an open loop `connections` is the number of workers at the start, in a closed one the highest number. With
  `max_connections`, `offered_shortfall` is the only sign that the load was not open. Above capacity, vegeta goes on
  starting requests while others wait. HTTP/2: `extra = ["-http2=true"]`. Redirects are not followed.
- `plan = "targets.txt"`: targets in vegeta's http or json format. Every host in them is connected to the study's
  target. Bodies in further files (`@`) are refused.
- `requests` are responses of any status, `ok` those of 2xx or 3xx; an attempt without a whole response is an error.
  Go repeats a request that an idle connection loses at once; such a reset is seen nowhere. There is no `bytes_read`.
- **Times** are those of answered requests, connecting included, to the end of the body: `latency` of a closed loop,
  `service_time` of an open one. `latency_intended` counts from the request's place in the schedule of vegeta's pacer
  (`lib/pacer.go`), whose start the least late request marks; it includes the lateness of vegeta's own timer.
  `duration` is from the first start to the last end.
- **Read**: the results that `vegeta attack` leaves, or its rows by `vegeta encode` in CSV or JSON lines (exact
  percentiles, nearest rank); or `vegeta report`, as JSON or as text (times in four digits or more, rates in two
  decimals). Percentiles of a report are estimates. Its times count attempts that had no answer: then they are
  `attempt_time`. Results of several attacks in one file are refused.
- **Shared**: one attack on several targets by turns (`vegeta_shared.pl`): vegeta takes its targets in the order of
  their file. The results of a target tell its own requests; the file `part` has the start of the common schedule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from loadbook.core.bucketed_times import BucketedTimes
from loadbook.core.errors import ParseError, ToolError
from loadbook.core.go_programs import FAILURE_PATTERNS, GOB_RESULT, UNIT_NS, duration_s, option
from loadbook.core.metrics import error_class
from loadbook.study.workload import Workload, matching_option
from loadbook.tools import base, line_patterns, request_rows, vegeta_text
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import Document, find_report
from loadbook.tools.recipes import recipes
from loadbook.tools.shared_load import part_doubts, part_of, part_properties

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Summary

SCRIPT_FILE, TARGETS_FILE, GOB_FILE, ALL_FILE, RESULTS_FILE = (
    "vegeta.sh", "targets.txt", "results.gob", "all.csv", "results.csv"
)  # fmt: skip
SHARED_PROGRAM = "vegeta_shared.pl"
LATE_END_S = 5.0  # a shared attack ends with its last request, which may be so late
# Its arguments are the URL of the target and options of the attack. The last column of the rows, the response headers
# in base64, is most of a row and is not used.
SCRIPT = f"""url=$1; shift
[ -z "$url" ] || echo "GET $url" > {TARGETS_FILE}
vegeta attack -targets={TARGETS_FILE} -output={GOB_FILE} "$@" || exit
vegeta encode -to csv -output {ALL_FILE} {GOB_FILE} || exit
sed 's/[^,]*$//' {ALL_FILE} > {RESULTS_FILE} && rm {ALL_FILE} {GOB_FILE}
"""
RESERVED_OPTIONS = (
    *("-rate", "-duration", "-targets", "-format", "-lazy", "-output", "-workers", "-max-workers", "-timeout"),
    *("-keepalive", "-insecure", "-name", "-redirects", "-header", "-unix-socket", "-connect-to", "-proxy-header"),
)
SECRET_OPTIONS = ("-key", "-cert")
HTTP2_OPTIONS = ("-http2", "-h2c")
_ROW = re.compile(rb"\d{19},\d{1,3},\d+,")
_JSON_ROW = re.compile(rb'\s*\{"attack":')
_DISTRIBUTION = re.compile(r"Bucket +#|Value\(ms\) +Percentile")
_RATE = re.compile(r"(\d{1,12})(?:/(\d{0,9}(?:\.\d{1,9})?)(ns|us|ms|s|m|h))?")
# keys of a JSON report -> their types
_REPORT_KEYS: dict[str, Any] = {
    "latencies": dict, "bytes_in": dict, "status_codes": dict, "errors": list, "earliest": str, "end": str,
    "duration": int, "wait": int, "requests": int, "rate": (int, float), "success": (int, float),
}  # fmt: skip
_SINCE_7 = ("earliest", "end")  # vegeta up to 6 prints neither; min and 90th came with 12
_TIME_KEYS = {"mean": "mean", "min": "min", "p50": "50th", "p90": "90th", "p95": "95th", "p99": "99th", "max": "max"}


def offered_rate(argv: Sequence[str]) -> tuple[int, int] | None:
    """Return (requests, in how many ns) of option -rate; None for a closed loop, or if the rate is not known."""
    match = _RATE.fullmatch(option(argv, "rate") or "")
    if match is None or int(match[1]) == 0:
        return None
    period_ns = int(float(match[2] or 1) * UNIT_NS[match[3] or "s"])
    return (int(match[1]), period_ns) if period_ns >= int(match[1]) else None


def offered_per_s(argv: Sequence[str]) -> float | None:
    """Return the requests per second that are asked for; None for a closed loop, or if the rate is not known."""
    rate = offered_rate(argv)
    return rate and rate[0] * 1e9 / rate[1]


class Vegeta(base.Tool):
    """vegeta; the module docstring defines its metrics."""

    name = "vegeta"
    binary = "vegeta"
    report_keys = ("latencies", "bytes_in")
    report_begin = r"Requests +\[total, rate"
    report_end = r"Error Set:"
    install_hint = recipes()["vegeta"].hint
    load_models = frozenset({"closed", "open"})
    version_argv: tuple[str, ...] = ("vegeta", "-version")
    version_pattern = rb"^Version: v?(\d[\w.+-]*)$"
    known_versions = ("12",)
    streamed_inputs = ("stdout", "files")
    rows_begin = r"\d{19},\d{1,3},\d+,|\{\"attack\":"
    opens_connections_at_rate = True
    shares_load = True
    extra_timeout_s = 30.0  # the results of millions of requests are written again as CSV

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version that was printed, or "12" for a build by `go install`, which prints an empty version.

        `go install` builds major version 12 from the module path. ToolError if nothing was printed.
        """
        if re.search(rb"^Version: *$", stdout, re.MULTILINE) and b"Runtime: go" in stdout:
            return "12"
        return super().version(stdout, stderr)

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list: a script that attacks and encodes the results, the URL, and options of the attack.

        In an open loop `connections` is the number of workers at the start; more are added as they are needed, up to
        `max_connections`. The URL is empty if the study has a targets file of its own, whose hosts are all connected to
        the target.
        """
        options = self._options(workload, target, duration_s)
        return ["sh", SCRIPT_FILE, "" if workload.plan else base.target_url(target, workload.path), *options]

    def shared_command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the argument list of a perl program that attacks, and divides the results by target.

        The attack ends with the last request of the schedule, at most LATE_END_S after `duration_s`.
        """
        options = self._options(workload, target, duration_s + LATE_END_S)
        rate = offered_rate(options)
        if rate is None or workload.plan:
            raise ToolError("vegeta puts a load on several targets at a rate only, and without a targets file", "")
        return ["perl", SHARED_PROGRAM, str(rate[1] // rate[0]), *options]

    def shared_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the perl program."""
        return {SHARED_PROGRAM: (resources.files(__package__) / SHARED_PROGRAM).read_bytes()}

    def _options(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return the options of an attack."""
        fields = ("plan", "max_connections", "request_times")
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=fields, secret_options=SECRET_OPTIONS)
        base.refuse_threads(self, workload)
        argv = [f"-rate={_rate_text(workload.rate_per_s)}", f"-duration={duration_s:g}s"]
        argv += [f"-timeout={workload.timeout_s:g}s", f"-workers={workload.connections}"]
        most = workload.connections if workload.model == "closed" else workload.max_connections
        argv += [] if most is None else [f"-max-workers={most}"]
        argv += ["-redirects=-1", "-max-body=0"]
        argv += [] if workload.keepalive else ["-keepalive=false"]
        argv += ["-insecure"] if target.scheme == "https" else []
        argv += [] if any(matching_option(word, HTTP2_OPTIONS) for word in workload.extra) else ["-http2=false"]
        argv += [f"-header={name}: {value}" for name, value in workload.headers.items()]
        if workload.plan:
            argv += [
                f"-connect-to={host}:{target.address}:{target.port}" for host in self._plan_hosts(workload, target)
            ]
            argv += ["-format=json"] if _is_json(workload) else []
        return [*argv, *workload.extra]

    def _plan_hosts(self, workload: Workload, target: Target) -> list[str]:
        """Return the distinct host:port of a targets file; ToolError for a file whose load cannot go to the target."""
        text, name = workload.plan_text or "", f"workload.plan: {workload.plan}"
        if ":" in target.address:
            raise ToolError(f"{name}: vegeta cannot connect the hosts of a targets file to an IPv6 address", "use IPv4")
        if re.search(r"^\s*@", text, re.MULTILINE):
            raise ToolError(f"{name} reads bodies from other files (@)", "write targets in JSON, with their bodies")
        urls = re.findall(r'"url"\s*:\s*"([^"]*)"' if _is_json(workload) else r"^\s*[A-Z]+ +(\S+)", text, re.MULTILINE)
        parts = [urlsplit(url) for url in urls]
        if not parts or any(part.scheme != target.scheme or not part.hostname for part in parts):
            problem = f"{name} has no target, or one that does not begin with {target.scheme}://"
            raise ToolError(problem, "write targets as `GET http://host/path`, one a line (vegeta -format=http)")
        port = 443 if target.scheme == "https" else 80
        return list(dict.fromkeys(f"{part.hostname}:{part.port or port}" for part in parts))

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the script, and the targets file if the study has one."""
        plan = {TARGETS_FILE: (workload.plan_text or "").encode()} if workload.plan else {}
        return {SCRIPT_FILE: SCRIPT.encode(), **plan}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the name of the file with the results of single requests."""
        return (RESULTS_FILE,)

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one attack from the results of its requests, else from its report in JSON."""
        sources: dict[str, bytes | Path] = {**output.files, **output.paths}
        sources.setdefault("stdout", output.stdout)
        rows = next((name for name, data in sources.items() if _has_rows(data)), None)
        return _parse_rows(rows, sources[rows], output) if rows else _parse_summary(sources, output)


TOOL = Vegeta()


def _parse_rows(file: str, data: bytes | Path, output: ToolOutput) -> ParsedReport:
    """Return the rows of an attack whose single requests are known."""
    from loadbook.request_logs.read import summarise
    from loadbook.request_logs.vegeta_rows import INTERVAL_PROPERTY
    from loadbook.tools.shared_slices import with_slices

    rate, part = offered_rate(output.argv), part_of("vegeta", output)
    properties = {INTERVAL_PROPERTY: str(rate[1] // rate[0])} if rate else {}  # whole, as in lib/pacer.go
    properties |= part_properties(part)
    figures = summarise(data, "vegeta", file=file, properties=properties)
    metric, rejected = _time_metric(output.argv), ("torn", "lost")
    if part is None or rate is None:
        doubts = _log_doubts(file, figures, output)
        report = request_rows.log_report(figures, metric, offered_per_s(output.argv), doubts, rejected)
    else:
        own = [*request_rows.damage_doubts(file, figures), *part_doubts("vegeta", part, figures, output)]
        report = request_rows.log_report(figures, metric, None, own, rejected)
        report = with_slices(report, "vegeta", data, part, properties, output, rate[1] // rate[0] / 1000)
    if option(output.argv, "max-body") == "0":  # then vegeta counts no bytes
        told = tuple(row for row in report.measurements if not row.metric.startswith("bytes_"))
        return replace(report, measurements=told)
    return report


def _rate_text(rate_per_s: float | None) -> str:
    """Return a rate as vegeta takes it; without a rate 0, which is as fast as workers are free."""
    if rate_per_s is None:
        return "0"
    ratio = base.whole_rate(TOOL, rate_per_s)
    return f"{ratio.numerator}/{ratio.denominator}s"


def _is_json(workload: Workload) -> bool:
    return (workload.plan_text or "").lstrip().startswith("{")


def _time_metric(argv: Sequence[str]) -> str:
    return "latency" if (option(argv, "rate") or "").partition("/")[0] == "0" else "service_time"


def _has_rows(data: bytes | Path) -> bool:
    head = base.head_of(data)
    return any(pattern.match(head) for pattern in (_ROW, _JSON_ROW, GOB_RESULT))


def _parse_summary(sources: Mapping[str, bytes | Path], output: ToolOutput) -> ParsedReport:
    """Return the rows of a report in JSON, else of the text on stdout."""
    for name, data in sources.items():
        if isinstance(data, bytes) and (found := find_report("vegeta", {name: data}, *TOOL.report_keys)):
            return _parse_report(found, output)
    lines = line_patterns.clean_lines(output.stdout)
    if not any(vegeta_text.FIRST_LINE.match(line) for line in lines):
        raise ParseError("vegeta", "stdout", 0, _missing_results_reason(lines, output))
    return _parse_text(vegeta_text.read_text(lines), output)


def _missing_results_reason(lines: Sequence[str], output: ToolOutput) -> str:
    """Return the reason why there are no results, derived from the output of vegeta or of another program."""
    circumstances = line_patterns.exit_text(output) + line_patterns.stderr_text(output)
    if any(re.match(rf" +{vegeta_text.FIRST_LINE.pattern}", line) for line in lines):
        return "the report is indented: remove the blanks before its lines"
    if any(_DISTRIBUTION.match(line) for line in lines):
        return "only a distribution of times: read `vegeta encode -to csv` or `vegeta report -type=json`"
    if b"Usage of vegeta" in output.stderr or b"usage: vegeta" in output.stdout.lower():
        return f"vegeta printed its usage: an argument was wrong{circumstances}"
    if not output.stdout.strip():
        return f"empty: vegeta was killed or could not start{circumstances}"
    return line_patterns.other_output_text("vegeta", output)


def _log_doubts(file: str, figures: Summary, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers of an attack whose single requests are known, as (name, sentence)."""
    yield from request_rows.damage_doubts(file, figures)
    yield from _run_doubts(figures.total().attempts, figures.duration_s or 0.0, output)


def _run_doubts(attempts: int, seconds: float, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about an attack with so many attempts in so many seconds."""
    rate_per_s, asked_s = offered_per_s(output.argv), duration_s(option(output.argv, "duration") or "")
    due = (asked_s or 0.0) * (rate_per_s or 0.0)
    if asked_s and seconds < base.MIN_DURATION_SHARE * asked_s - (1 / rate_per_s if rate_per_s else 0.0):
        yield "stopped_early", f"the attack lasted {seconds:.3g} s of the {asked_s:g} s that were asked for"
    elif attempts < base.MIN_ACHIEVED_SHARE * due - 1:
        text = f"{attempts} requests were started in {asked_s:g} s, of {due:.0f} that were due"
        yield "offered_shortfall", f"{text}: the load was not open"
    if output.exit_code:
        yield "exit_code", f"vegeta ended with exit code {output.exit_code}"


def _parse_report(found: Document, output: ToolOutput) -> ParsedReport:
    """Return the rows of a report in JSON."""
    report = _read_report(found)
    numbers = {name: report["latencies"][key] for name, key in _TIME_KEYS.items() if key in report["latencies"]}
    times = {name: (number / 1e9, str(number), 1e-9) for name, number in numbers.items()}
    statuses = {int(code): count for code, count in report["status_codes"].items()}
    seconds, read = (report["duration"] + report["wait"]) / 1e9, report["bytes_in"]["total"]
    parsed = _summary_report(statuses, report["errors"], seconds, read, times, output)
    return replace(parsed, span=_span(report))


def _parse_text(text: vegeta_text.VegetaText, output: ToolOutput) -> ParsedReport:
    """Return the rows of a text report; its rates are those that vegeta prints where these are more exact."""
    times = {name: (value, printed, vegeta_text.step_s(printed)) for name, (value, printed) in text.times.items()}
    parsed = _summary_report(text.statuses, text.messages, text.seconds, text.bytes_read, times, output)
    if (printed := text.ok_per_s) is None:
        return parsed
    answered = sum(n for code, n in text.statuses.items() if code)
    exact = {
        "ok_per_s": Measurement("ok_per_s", "value", float(printed), "1/s", printed),
        "requests_per_s": Measurement("requests_per_s", "value", float(printed) * answered / text.ok, "1/s", None),
    }
    return replace(parsed, measurements=tuple(exact.get(row.metric, row) for row in parsed.measurements))


def _summary_report(
    statuses: Mapping[int, int],
    messages: Sequence[str],
    seconds: float,
    bytes_read: int,
    times: Mapping[str, tuple[float, str, float]],
    output: ToolOutput,
) -> ParsedReport:
    """Return the rows of a report without single requests.

    `statuses` has 0 for attempts without a response, and `messages` those of the errors; `times` maps a statistic to
    (seconds, text, step in s).
    """
    answers, attempts = {code: n for code, n in statuses.items() if code}, sum(statuses.values())
    unanswered = attempts - sum(answers.values())
    # messages have no counts: of several classes, it is not known how many attempts each has
    classes = {error_class(text, FAILURE_PATTERNS) for text in messages if not re.match(r"\d{3} ", text)}
    failures = {classes.pop(): unanswered} if unanswered and len(classes) == 1 else {}
    rate_per_s = offered_per_s(output.argv)
    rows = [*request_rows.status_rows(answers, failures, unanswered, seconds, rate_per_s)]
    if option(output.argv, "max-body") != "0":
        rows.append(Measurement("bytes_read", "count", bytes_read, "B", str(bytes_read)))
        rows += [Measurement("bytes_per_s", "value", bytes_read / seconds, "B/s", None)] if seconds else []
    timed = {}
    if any(answers.values()):
        metric = "attempt_time" if unanswered else _time_metric(output.argv)
        rows += [Measurement(metric, name, value, "s", text, step) for name, (value, text, step) in times.items()]
        timed = {metric: BucketedTimes(attempts)}
    doubts = tuple(_report_doubts(attempts, unanswered, seconds, output))
    report = ParsedReport(tuple(rows), doubts=doubts, bucketed=timed)
    return request_rows.with_hardly_moved(report, _time_metric(output.argv), unanswered, attempts)


def _read_report(found: Document) -> dict[str, Any]:
    """Return a report in JSON; ParseError if it lacks a key or contradicts itself."""
    report = dict(found.value)

    def refuse(problem: str) -> ParseError:
        return ParseError("vegeta", found.file, found.line, problem)

    left_out = () if any(key in report for key in _SINCE_7) else _SINCE_7
    for key, kind in ((key, kind) for key, kind in _REPORT_KEYS.items() if key not in left_out):
        if not isinstance(report.get(key), kind) or isinstance(report[key], bool):
            raise refuse(f"report is not complete: no {key!r}")
    optional = ("min", "90th")
    times = report["latencies"]
    numbers = {name: times.get(key) for name, key in _TIME_KEYS.items() if key in times or key not in optional}
    counts = [*report["status_codes"].values(), report["bytes_in"].get("total"), report["requests"], report["duration"]]
    counts += [report["wait"], *numbers.values()]
    if not all(type(number) is int and number >= 0 for number in counts):
        raise refuse("report is not complete: a count or a time is missing or no whole number")
    if not all(isinstance(text, str) for text in report["errors"]):
        raise refuse("an error is no text")
    if not all(re.fullmatch(r"0|[1-9]\d\d", code) for code in report["status_codes"]):
        raise refuse("a status code is impossible")
    ok = sum(count for code, count in report["status_codes"].items() if code[0] in "23")
    if sum(report["status_codes"].values()) != report["requests"]:
        raise refuse(f"the counts of the status codes do not add up to {report['requests']} requests")
    if report["requests"] and abs(report["success"] - ok / report["requests"]) > 1e-6:
        raise refuse(f"success is {report['success']}, but {ok} of {report['requests']} have status 2xx or 3xx")
    if (
        report["duration"]
        and abs(report["rate"] - report["requests"] * 1e9 / report["duration"]) > 1e-6 * report["rate"]
    ):
        raise refuse("the rate does not follow from requests and duration")
    try:
        span = _span(report)
    except ValueError:
        raise refuse("earliest or end is no time") from None
    total_ns = report["duration"] + report["wait"]
    if span and abs((span[1] - span[0]) * 1e9 - total_ns) > 5000:  # the texts are read to a microsecond
        raise refuse("duration and wait do not lead from the first start to the last end")
    ordered = [numbers[name] for name in ("min", "p50", "p90", "p95", "p99", "max") if name in numbers]
    if ordered != sorted(ordered) or not numbers.get("min", 0) <= numbers["mean"] <= numbers["max"]:
        raise refuse("the latencies do not ascend")
    return report


def _span(report: Mapping[str, Any]) -> tuple[float, float] | None:
    """Return (first start, last end) in epoch seconds; None for a report of vegeta up to 6, which has neither."""
    if "earliest" not in report:
        return None
    start, end = (datetime.fromisoformat(report[key]).timestamp() for key in _SINCE_7)
    return start, end


def _report_doubts(attempts: int, unanswered: int, seconds: float, output: ToolOutput) -> Iterator[tuple[str, str]]:
    if attempts > unanswered > 0:
        text = f"{unanswered} of {attempts} attempts had no answer, and the report's times count them"
        yield "unanswered", f"{text}; `vegeta encode -to csv` tells each"
    yield from _run_doubts(attempts, seconds, output)
