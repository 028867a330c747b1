"""Locust 2: closed loop of users in one process.

- `plan = "mine.py"` is a locustfile that is used as it is; users, duration and host come from the study.
- `requests` are responses of any status, `ok` those of 2xx or 3xx. `latency` is from the call to the end of the body,
  with connecting and the wait for the one Python process that all users share: at 500 requests a second that adds 1
  to 3 ms. `duration` is from the first start to the last end. Redirects are not followed.
- **Read**: the output of `--json`. That of another locustfile counts failures of all kinds as requests: with failures
  these are `attempts`, `attempts_per_s` and `attempt_time` (doubt `failed_unknown`), unless the error report on stderr
  tells the status or the class of each. Its times are whole milliseconds, from 100 on in two digits. It tells the end
  of the first request and not its start, for which the mean time stands (doubt `first_start` if that is not exact).
- Without the JSON the tables at the end are read, else the CSV, which is the state of the last flush and not of the end
  (doubt `last_flush`): there, requests with failures are `attempts`, too.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, NamedTuple

from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.core.metrics import count_error_classes, error_class
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns, locust_csv, locust_text
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import Document, find_report, read_json
from loadbook.tools.recipes import recipes
from loadbook.tools.request_rows import STATISTIC_PERCENTS, status_rows, time_rows, with_hardly_moved

LOCUST_FILE, REQUESTS_FILE = "locustfile.py", "requests.json"
RESERVED_OPTIONS = (
    *("-f", "--locustfile", "-H", "--host", "-u", "--users", "-r", "--spawn-rate", "-t", "--run-time", "--headless"),
    *("--json", "--json-file", "--csv", "--only-summary", "--processes", "--master", "--worker", "--expect-workers"),
    *("--exit-code-on-error", "--autostart", "-i", "--iterations", "-s", "--stop-timeout"),
)
# class of an error, pattern in the exception's name and text (gevent, geventhttpclient, requests); the first match wins
ERROR_PATTERNS = (
    ("errors_driver", r"Too many open files|Errno 24\b|Cannot assign requested address|Errno 99\b"),
    ("errors_connect", r"ConnectionRefused|refused|gaierror|unreachable|NewConnectionError"),
    ("errors_timeout", r"[Tt]ime-?d? ?out"),
    ("errors_write", r"BrokenPipe"),
    ("errors_read", r"ConnectionReset|RemoteDisconnected|HTTPParseError|HTTPConnectionClosed|ProtocolError|closed"),
)
FIRST_START_SHARE = 0.01  # of the duration: above it, a start that is not known makes the rate doubtful
_STATUS_ERROR = re.compile(r"HTTPError\(['\"]?([45]\d\d)\b")
ENTRY_KEYS = ("num_requests", "num_failures", "num_none_requests", "total_content_length")


class Locust(base.Tool):
    """Locust; the module docstring defines its metrics."""

    name = "locust"
    binary = "locust"
    report_keys, report_is_list = ("num_requests",), True
    # the last start before a table: with --processes, each process logs one
    report_begin = rf"{locust_text.START}\n(?:(?!{locust_text.START}).*\n)*?{locust_text.TITLE}"
    report_end = locust_text.TITLE
    rows_begin = "Type,Name,Request Count,|Timestamp,User Count,Type,"
    install_hint = recipes()["locust"].hint
    load_models = frozenset({"closed"})
    version_argv: tuple[str, ...] = ("locust", "--version")
    version_pattern = rb"^locust (\d[\w.]*)"
    known_versions = ("2",)
    extra_timeout_s = 30.0  # Python starts, and users end

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return Locust's argument list; all users start at once."""
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("think_time_s", "plan"))
        if workload.threads != 1:
            raise ToolError("loadbook's counts are those of one process of Locust", "leave threads out")
        if not workload.keepalive:
            raise ToolError("Locust cannot open a connection for every request", "leave workload.keepalive out")
        if workload.plan and (workload.headers or workload.think_time_s):
            problem = f"workload.plan: {workload.plan} decides on headers and think time itself"
            raise ToolError(problem, "drop both from the workload")
        variables = {
            "LOAD_PATH": workload.path,
            "LOAD_HEADERS": json.dumps(workload.headers),
            "LOAD_THINK_S": f"{workload.think_time_s:g}",
            "LOAD_TIMEOUT_S": f"{workload.timeout_s:g}",
        }
        users = str(workload.connections)
        argv = ["env", *(f"{name}={value}" for name, value in variables.items())]
        argv += ["locust", "--headless", "--only-summary", "--json", "--exit-code-on-error", "0"]
        argv += ["-f", LOCUST_FILE, "-H", base.target_url(target, ""), "-u", users, "-r", users]
        argv += ["-t", f"{base.whole_seconds(self, 'duration', duration_s)}s"]
        return [*argv, *workload.extra]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the locustfile: the user's own, or one with a single request."""
        if workload.plan:
            return {LOCUST_FILE: (workload.plan_text or "").encode()}
        return {LOCUST_FILE: (resources.files(__package__) / "locust_load.tmpl").read_bytes()}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the name of the file with the counts of loadbook's own locustfile."""
        return () if workload.plan else (REQUESTS_FILE,)

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one run from the counts of loadbook's own locustfile, else from Locust's JSON."""
        for name, data in output.files.items():
            if data.lstrip().startswith(b'{"locust_requests"'):
                return _parse_counts(name, data, output)
        for name, data in {**output.files, "stdout": output.stdout}.items():
            if found := _find_entries(name, data):
                return _parse_report(found, output)
        if tables := locust_text.read_tables(output) or locust_csv.read_csv(output):
            lasted = math.inf if tables.seconds is None else tables.seconds
            report = ParsedReport(tables.rows, doubts=(*tables.doubts, *_run_doubts(lasted, output)))
            counts = {row.metric: int(row.value) for row in tables.rows if row.statistic == "count"}
            return with_hardly_moved(report, "latency", counts["errors"], counts.get("attempts", 0))
        raise ParseError("locust", "stdout", 0, _missing_reason(output))


TOOL = Locust()


def _parse_counts(file: str, data: bytes, output: ToolOutput) -> ParsedReport:
    """Return the rows of the counts of single requests."""
    try:
        counts = read_json(data)
        statuses = {int(code): int(n) for code, n in counts["statuses"].items()}
        times_us = {int(us): int(n) for us, n in counts["times_us"].items()}
        failures = {str(text): int(n) for text, n in counts["failures"].items()}
        span = (float(counts["span"][0]), float(counts["span"][1])) if counts["span"] else None
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        raise ParseError("locust", file, 1, "counts are not complete: the file is cut or was changed") from None
    answered = sum(statuses.values())
    if sum(times_us.values()) != answered or min([0, *times_us, *statuses.values(), *failures.values()]) < 0:
        raise ParseError("locust", file, 1, f"{sum(times_us.values())} times do not go with {answered} responses")
    errors = count_error_classes(failures.items(), ERROR_PATTERNS)
    seconds = span[1] - span[0] if span else 0.0
    rows = [*status_rows(statuses, errors, sum(errors.values()), seconds)]
    if answered:
        rows += _times(times_us)
    doubts = tuple(_run_doubts(seconds, output))
    return ParsedReport(tuple(rows), doubts=doubts, times_us={"latency": times_us} if answered else {}, span=span)


def _parse_report(found: Document, output: ToolOutput) -> ParsedReport:
    """Return the rows of Locust's own JSON: a list with one entry for each name of requests."""
    entries = _entries(found)
    requests, failed, untimed, received = (sum(entry[key] for entry in entries) for key in ENTRY_KEYS)
    if failed > requests:
        raise ParseError("locust", found.file, found.line, f"{failed} failures of {requests} requests")
    load = _load_time([entry for entry in entries if entry["num_requests"]], "--reset-stats" in output.argv)
    failures = _Failures.read(output, failed)
    attempts = requests - failures.unanswered if failures.are_known else requests
    rows = [*_rates("requests" if failures.are_known else "attempts", attempts, requests - failed, load.seconds)]
    rows.append(Measurement("errors", "count", failed, "1", None))
    rows += failures.rows()
    rows.append(Measurement("bytes_read", "count", received, "B", None))
    is_mixed = not failures.are_known or failures.unanswered
    has_times = requests > untimed and attempts
    metric, counts = "attempt_time" if is_mixed else "latency", _rounded_ms(entries)
    times = [*_report_times(metric, entries, counts)] if has_times else []
    bucketed = {metric: locust_text.rounded_times(counts)} if has_times else {}
    doubts = [*failures.doubts(requests), *load.doubts(requests)]
    if any(row.statistic == "mean" and row.value < base.COARSE_S for row in times):
        doubts.append(("whole_ms", "Locust has whole milliseconds only, too coarse for times this short"))
    doubts += _run_doubts(load.seconds, output)
    report = ParsedReport((*rows, *times), doubts=tuple(doubts), span=load.span, bucketed=bucketed)
    mixed = failures.unanswered if failures.are_known else failed
    return with_hardly_moved(report, "latency", mixed, requests)


class _Failures(NamedTuple):
    """Failed requests of Locust's JSON, as far as its error report beside it tells them apart.

    `statuses` maps HTTP statuses to numbers of responses, and `classes` classes of errors to attempts without one.
    """

    failed: int
    statuses: Counter[int]
    classes: Counter[str]

    @classmethod
    def read(cls, output: ToolOutput, failed: int) -> _Failures:
        """Return the failures; nothing is known of them unless each has a status, or a class without a response."""
        statuses, classes = Counter[int](), Counter[str]()
        for message, number in locust_text.read_error_report(output) if failed else ():
            if status := _STATUS_ERROR.search(message):
                statuses[int(status[1])] += number
            else:
                classes[error_class(message, ERROR_PATTERNS)] += number
        return cls(failed, statuses, classes)

    @property
    def unanswered(self) -> int:
        """Number of attempts without a response."""
        return self.classes.total()

    @property
    def are_known(self) -> bool:
        """Whether it is known of each failure if it had a response."""
        return self.statuses.total() + self.unanswered == self.failed and not self.classes["errors_other"]

    def rows(self) -> Iterator[Measurement]:
        """Yield the failures by class, if they are known."""
        if not self.failed or not self.are_known:
            return
        yield Measurement("errors_status", "count", self.statuses.total(), "1", None)
        for name in dict.fromkeys(name for name, _ in ERROR_PATTERNS):
            yield Measurement(name, "count", self.classes[name], "1", None)
        for digit in (4, 5):
            number = sum(n for status, n in self.statuses.items() if status // 100 == digit)
            yield Measurement(f"status_{digit}xx", "count", number, "1", None)

    def doubts(self, attempts: int) -> Iterator[tuple[str, str]]:
        """Yield the doubt about failures among `attempts`, as (name, sentence)."""
        if not self.are_known:
            text = f"{self.failed} of {attempts} requests failed, and the report does not tell which had a response"
            yield "failed_unknown", f"{text}: times and rates are those of all attempts"
        elif self.unanswered:
            yield (
                "unanswered",
                f"{self.unanswered} of {attempts} attempts had no response, and Locust's times count them",
            )


class _LoadTime(NamedTuple):
    """Duration of the load: at least `least` s and at most `most` s, and (first start, last end) in epoch seconds."""

    seconds: float
    least: float
    most: float
    span: tuple[float, float] | None

    def doubts(self, requests: int) -> Iterator[tuple[str, str]]:
        """Yield a doubt if the start of the first request is not known well enough for a rate."""
        if self.most - self.least > FIRST_START_SHARE * self.seconds:
            rates = " to ".join(f"{requests / s:.4g}" if s else "more" for s in (self.most, self.least))
            yield "first_start", f"Locust tells the end of its first request, not its start: {rates} requests a second"


def _load_time(entries: Sequence[Mapping[str, Any]], was_reset: bool) -> _LoadTime:
    """Return the duration of entries with requests.

    An entry's `start_time` is the end of its first request, when Locust logs it (`StatsEntry.reset`). So the load began
    before it by the time of that request, for which the mean stands. With --reset-stats it is the time of the reset.
    """
    if not entries:
        return _LoadTime(0.0, 0.0, 0.0, None)
    first = min(entries, key=lambda entry: entry["start_time"])
    last = float(max(entry["last_request_timestamp"] for entry in entries))
    logged = last - first["start_time"]
    timed = sum(first["response_times"].values())
    if was_reset or not timed:
        return _LoadTime(logged, logged, logged, (float(first["start_time"]), last))
    mean = first["total_response_time"] / timed / 1000
    longest = max(entry["max_response_time"] for entry in entries if entry["response_times"]) / 1000
    least, most = logged + first["min_response_time"] / 1000, logged + longest
    return _LoadTime(logged + mean, least, most, (first["start_time"] - mean, last))


def _entries(found: Document) -> list[dict[str, Any]]:
    """Return the entries of Locust's JSON; ParseError if an entry contradicts itself."""
    file, line, entries = found
    for entry in entries:
        times, name = entry.get("response_times"), str(entry.get("name"))[:60]
        numbers = [entry.get(key) for key in ENTRY_KEYS]
        if not isinstance(times, dict) or not all(type(number) is int and number >= 0 for number in numbers):
            raise ParseError(
                "locust", file, line, OtherProgram(f"no report of locust in it, or a count of {name!r} is missing")
            )
        if not all(re.fullmatch(r"\d{1,9}(\.\d+)?", key) and type(n) is int for key, n in times.items()):
            raise ParseError("locust", file, line, f"a time of {name!r} is no number")
        if sum(times.values()) != entry["num_requests"] - entry["num_none_requests"]:
            raise ParseError("locust", file, line, f"the times of {name!r} are not those of {numbers[0]} requests")
        _check_times(found, name, entry)
    return list(entries)


def _check_times(found: Document, name: str, entry: Mapping[str, Any]) -> None:
    """Raise ParseError if an entry with requests has no sensible times."""
    keys = ["start_time", *(["last_request_timestamp"] if entry["num_requests"] else [])]
    keys += ["total_response_time", "min_response_time", "max_response_time"] if entry["response_times"] else []
    for key in keys:
        if not isinstance(entry.get(key), int | float) or isinstance(entry[key], bool) or entry[key] < 0:
            raise ParseError("locust", found.file, found.line, f"{key} of {name!r} is missing, or no time")
    number = sum(entry["response_times"].values())
    low, high = (number * entry[key] for key in ("min_response_time", "max_response_time")) if number else (0, 0)
    if number and not low * (1 - 1e-9) <= entry["total_response_time"] <= high * (1 + 1e-9):
        raise ParseError("locust", found.file, found.line, f"minimum, mean and maximum of {name!r} do not ascend")
    if entry["num_requests"] and entry["last_request_timestamp"] < entry["start_time"]:
        raise ParseError("locust", found.file, found.line, f"{name!r} ends before it starts")


def _rates(metric: str, number: int, ok: int, seconds: float) -> Iterator[Measurement]:
    for name, count in ((metric, number), ("ok", ok)):
        yield Measurement(name, "count", count, "1", None)
        if seconds > 0 or not count:
            yield Measurement(f"{name}_per_s", "value", count / seconds if seconds > 0 else 0.0, "1/s", None)
    yield Measurement("duration", "value", max(0.0, seconds), "s", None)


def _times(times_us: Mapping[int, int]) -> Iterator[Measurement]:
    """Yield mean, deviation and percentiles (nearest rank) of times that are known to a microsecond."""
    import numpy as np

    from loadbook.request_logs.summary import Histogram

    values = np.array(sorted(times_us), np.int64)
    counts = np.array([times_us[us] for us in values.tolist()], np.int64)
    yield from time_rows("latency", Histogram(values, counts))


def _rounded_ms(entries: Sequence[Mapping[str, Any]]) -> Counter[float]:
    """Return the times of all names together: ms as Locust rounds them -> number."""
    counts: Counter[float] = Counter()
    for entry in entries:
        counts.update({float(ms): n for ms, n in entry["response_times"].items()})
    return counts


def _report_times(metric: str, entries: Sequence[Mapping[str, Any]], counts: Counter[float]) -> Iterator[Measurement]:
    """Yield the times of all names together: mean and extremes exact, percentiles (nearest rank) as Locust rounds."""
    number, ranked = counts.total(), sorted(counts.items())
    yield Measurement(metric, "mean", sum(e["total_response_time"] for e in entries) / number / 1000, "s", None)
    for statistic, pick in (("min", min), ("max", max)):
        extreme = pick(e[f"{statistic}_response_time"] for e in entries if e["response_times"])
        yield Measurement(metric, statistic, extreme / 1000, "s", None)
    for statistic, percent in STATISTIC_PERCENTS.items():
        if statistic in ("min", "max"):
            continue
        rank, below = max(1, math.ceil(number * percent / 100 - 1e-9)), 0
        for ms, count in ranked:
            below += count
            if below >= rank:
                yield Measurement(metric, statistic, ms / 1000, "s", None, locust_text.rounded_step_ms(str(ms)) / 1000)
                break


def _run_doubts(seconds: float, output: ToolOutput) -> Iterator[tuple[str, str]]:
    argv = output.argv
    asked = next((argv[place + 1] for place, word in enumerate(argv[:-1]) if word in ("-t", "--run-time")), "")
    match = re.fullmatch(r"(\d{1,6})s?", asked)
    if match and seconds < base.MIN_DURATION_SHARE * int(match[1]) - 0.5:  # users end within their last request
        yield "stopped_early", f"the load lasted {seconds:.3g} s of the {match[1]} s that were asked for"
    if output.exit_code:
        yield "exit_code", f"Locust ended with exit code {output.exit_code}: a request failed, or the locustfile"


def _find_entries(name: str, data: bytes) -> Document | None:
    """Return Locust's list of names in a file; of a run without requests it is the line "[]"."""
    found = find_report("locust", {name: data}, *TOOL.report_keys, kind=list)
    lines = line_patterns.clean_lines(data)
    return found or (Document(name, lines.index("[]") + 1, []) if "[]" in lines else None)


def _missing_reason(output: ToolOutput) -> str:
    """Return the reason why there is no report, derived from the output of Locust or of another program."""
    lines = [line for line in line_patterns.clean_lines(output.stdout) if line]
    if not lines:
        circumstances = line_patterns.exit_text(output) + line_patterns.stderr_text(output, -1)
        return f"empty: Locust was killed, or its locustfile could not be read{circumstances}"
    return line_patterns.other_output_text("locust", output)
