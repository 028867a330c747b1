"""One h2load report as h2load means it: what was answered, how long it took, what its log says, what contradicts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from loadbook.core.errors import ParseError
from loadbook.core.units import BYTE_UNITS, COUNT_UNITS, TIME_UNITS_S
from loadbook.tools import h2load_log, text
from loadbook.tools.base import ToolOutput
from loadbook.tools.h2load_forms import table_row
from loadbook.tools.h2load_log import RequestLog
from loadbook.tools.text import TextReport

MAX_SAMPLES = 1_000_000  # h2load.cc: of more requests, shared by the threads, its statistics are of a sample


def answered_count(report: TextReport) -> int:
    """Return the answers of any status: "done" has streams that the server reset, too, which are errored."""
    return report.count("total") - report.count("errored")


def duration_with_error(report: TextReport) -> tuple[float, float]:
    """Return the seconds that h2load divides by, and how far they may be off: as asked for, if a duration was."""
    if "main" in report:
        return report.value("main", TIME_UNITS_S), 0.0
    return report.value("finished", TIME_UNITS_S), 2 * text.rounding_half_width(report.text("finished"), TIME_UNITS_S)


def check_report(report: TextReport) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5)."""
    total, done, ok, failed, errored = (report.count(f) for f in ("total", "done", "ok", "failed", "errored"))
    if ok + failed != total or errored > failed or done > total or not ok <= answered_count(report) <= done:
        raise report.error_at("requests", "succeeded, failed and errored do not go with the total")
    seconds = duration_with_error(report)
    if seconds[0] <= 0:
        raise report.error_at("finished", "impossible: no time passed")
    text.check_rate(report, (answered_count(report), 0), seconds, "rate")
    text.check_rate(report, (report.count("bytes"), seconds[0]), seconds, "transfer")  # bytes/s are cut, not rounded
    size, exact = report.value("size", BYTE_UNITS), report.count("bytes")
    if abs(size - exact) > text.rounding_half_width(report.text("size"), BYTE_UNITS) * (1 + 1e-6):
        raise report.error_at("traffic", f"{exact} bytes are not {report.text('size')}")
    if answered_count(report) == 0 and table_row(report, "request"):
        raise report.error_at("request", "times of requests without a single answer")


def read_request_log(report: TextReport, output: ToolOutput) -> RequestLog | None:
    """Return the log of the requests, held against the report; None where there is none."""
    name = h2load_log.log_file_name(output.argv)
    source = output.files.get(name, output.paths.get(name)) if name else None
    if name is None or source is None:
        return None
    log = h2load_log.read_log(name, source, report.count("done"))
    if log.answered != answered_count(report):
        raise ParseError("h2load", name, 0, f"{log.answered} answers, but {answered_count(report)} in the report")
    status_counts = {c: log.classes.get(c, 0) for c in (2, 3, 4, 5)}
    if any(n > report.count(f"s{c}") for c, n in status_counts.items()):
        raise ParseError("h2load", name, 0, f"statuses {status_counts} are not those of the report")
    table_times = table_row(report, "request")
    threads = max(1, output.stdout.count(b"spawning thread #"))
    if log.answered and report.count("done") <= MAX_SAMPLES // threads:
        _check_log_times(name, log, table_times)
    return log


def _check_log_times(name: str, log: RequestLog, table_times: Mapping[str, tuple[float, str]]) -> None:
    """Raise ParseError unless extremes and mean of a log are those of the table, within 1 us and its rounding."""
    log_times = {"min": log.times.percentile_s(0), "max": log.times.percentile_s(100), "mean": log.times.mean_s()}
    for statistic, exact in log_times.items():
        value, printed = table_times.get(statistic, (-1.0, "nothing"))
        if abs(value - exact) > 2e-6 + 2 * text.rounding_half_width(printed.replace("nothing", "0s"), TIME_UNITS_S):
            raise ParseError("h2load", name, 0, f"{statistic} {exact * 1e6:g} us is not the {printed} of the report")


def ok_per_s(report: TextReport) -> float:
    """Return ok / duration; through the rate where that shows more digits of the duration."""
    duration, slack = duration_with_error(report)
    rate = report.value("rate", COUNT_UNITS)
    if rate > 0 and 0.005 / rate < slack / duration:
        return rate * (report.count("ok") / answered_count(report))
    return report.count("ok") / duration


def client_count(lines: Sequence[str]) -> int:
    """Return how many clients all threads had, by what h2load prints when it makes them."""
    matches = (re.match(r"spawning thread #\d+: (\d{1,9}) total client", line) for line in lines)
    return sum(int(match[1]) for match in matches if match)
