"""Locust 2: closed loop of users in one process.

- `plan = "mine.py"` is a locustfile that is used as it is; users, duration and host come from the study.
- `requests` are responses of any status, `ok` those of 2xx or 3xx. `latency` is from the call to the end of the body,
  with connecting and the wait for the one Python process that all users share: at 500 requests a second that adds 1
  to 3 ms. `duration` is from the first start to the last end. Redirects are not followed.
- **Read**: the output of `--json`. That of another locustfile counts failures of all kinds as requests: with failures
  there are no `requests` and no times (doubt `failed_unknown`). Its times are whole milliseconds, from 100 on in two
  digits. Without it the tables at the end are read, else the CSV, which is the state of the last flush and not of the
  end (doubt `last_flush`): there, requests with failures are `attempts`, `attempts_per_s` and `attempt_time`.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from typing import Any

from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.core.metrics import count_error_classes
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns, locust_csv, locust_text
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import Document, find_report, read_json
from loadbook.tools.recipes import recipes
from loadbook.tools.request_rows import STATISTIC_PERCENTS, status_rows, time_rows

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
ENTRY_KEYS = ("num_requests", "num_failures", "num_none_requests", "total_content_length")


class Locust(base.Tool):
    """Locust; the module docstring defines its metrics."""

    name = "locust"
    binary = "locust"
    report_keys, report_is_list = ("num_requests",), True
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
            return ParsedReport(tables.rows, doubts=(*tables.doubts, *_run_doubts(lasted, output)))
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
    requests, failed, _, received = (sum(entry[key] for entry in entries) for key in ENTRY_KEYS)
    if failed > requests:
        raise ParseError("locust", found.file, found.line, f"{failed} failures of {requests} requests")
    starts, ends = ([float(entry[key] or 0) for entry in entries] for key in ("start_time", "last_request_timestamp"))
    seconds = max(ends) - min(starts) if entries else 0.0
    rows = [*_rates(requests if not failed else None, requests - failed, seconds)]
    rows.append(Measurement("errors", "count", failed, "1", None))
    rows.append(Measurement("bytes_read", "count", received, "B", None))
    times = [*_report_times(entries)] if requests and not failed else []
    mean_s = next((row.value for row in times if row.statistic == "mean"), None)
    doubts = [*_report_doubts(requests, failed, mean_s), *_run_doubts(seconds, output)]
    span = (min(starts), max(ends)) if requests else None
    return ParsedReport((*rows, *times), doubts=tuple(doubts), span=span)


def _report_doubts(requests: int, failed: int, mean_s: float | None) -> Iterator[tuple[str, str]]:
    if failed:
        text = f"{failed} of {requests} requests failed, and the report does not tell which had a response: no times"
        yield "failed_unknown", text
    if mean_s is not None and mean_s < base.COARSE_S:
        yield "whole_ms", "Locust has whole milliseconds only, too coarse for times this short"


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


def _rates(answered: int | None, ok: int, seconds: float) -> Iterator[Measurement]:
    for metric, count in (("requests", answered), ("ok", ok)):
        if count is not None:
            yield Measurement(metric, "count", count, "1", None)
            if seconds > 0 or not count:
                yield Measurement(f"{metric}_per_s", "value", count / seconds if seconds > 0 else 0.0, "1/s", None)
    yield Measurement("duration", "value", max(0.0, seconds), "s", None)


def _times(times_us: Mapping[int, int]) -> Iterator[Measurement]:
    """Yield mean, deviation and percentiles (nearest rank) of times that are known to a microsecond."""
    import numpy as np

    from loadbook.request_logs.summary import Histogram

    values = np.array(sorted(times_us), np.int64)
    counts = np.array([times_us[us] for us in values.tolist()], np.int64)
    yield from time_rows("latency", Histogram(values, counts))


def _report_times(entries: Sequence[Mapping[str, Any]]) -> Iterator[Measurement]:
    """Yield the times of all names together: mean and extremes exact, percentiles (nearest rank) as Locust rounds."""
    counts: Counter[float] = Counter()
    for entry in entries:
        counts.update({float(ms): n for ms, n in entry["response_times"].items()})
    number, ranked = counts.total(), sorted(counts.items())
    yield Measurement("latency", "mean", sum(e["total_response_time"] for e in entries) / number / 1000, "s", None)
    for statistic, pick in (("min", min), ("max", max)):
        extreme = pick(e[f"{statistic}_response_time"] for e in entries if e["response_times"])
        yield Measurement("latency", statistic, extreme / 1000, "s", None)
    for statistic, percent in STATISTIC_PERCENTS.items():
        if statistic in ("min", "max"):
            continue
        rank, below = max(1, math.ceil(number * percent / 100 - 1e-9)), 0
        for ms, count in ranked:
            below += count
            if below >= rank:
                yield Measurement("latency", statistic, ms / 1000, "s", None)
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
    found = find_report("locust", {name: data}, "num_requests", kind=list)
    lines = line_patterns.clean_lines(data)
    return found or (Document(name, lines.index("[]") + 1, []) if "[]" in lines else None)


def _missing_reason(output: ToolOutput) -> str:
    """Return the reason why there is no report, derived from the output of Locust or of another program."""
    lines = [line for line in line_patterns.clean_lines(output.stdout) if line]
    if not lines:
        circumstances = line_patterns.exit_text(output) + line_patterns.stderr_text(output, -1)
        return f"empty: Locust was killed, or its locustfile could not be read{circumstances}"
    return line_patterns.other_output_text("locust", output)
