"""One h2load report as h2load means it: what was answered, how long it took, what its log says, what contradicts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from loadbook.core.errors import ParseError
from loadbook.core.units import BYTES, COUNT, TIME_S
from loadbook.tools import h2load_log, text
from loadbook.tools.base import Captured
from loadbook.tools.h2load_forms import cells
from loadbook.tools.h2load_log import Log
from loadbook.tools.text import Report

MAX_SAMPLES = 1_000_000  # h2load.cc: of more requests, shared by the threads, its statistics are of a sample


def answered(report: Report) -> int:
    """Return the answers of any status: "done" has streams that the server reset, too, which are errored."""
    return report.count("total") - report.count("errored")


def lasted(report: Report) -> tuple[float, float]:
    """Return the seconds that h2load divides by, and how far they may be off: as asked for, if a duration was."""
    if "main" in report:
        return report.value("main", TIME_S), 0.0
    return report.value("finished", TIME_S), 2 * text.half_width(report.text("finished"), TIME_S)


def check(report: Report) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5)."""
    total, done, ok, failed, errored = (report.count(f) for f in ("total", "done", "ok", "failed", "errored"))
    if ok + failed != total or errored > failed or done > total or not ok <= answered(report) <= done:
        raise report.wrong("requests", "succeeded, failed and errored do not go with the total")
    seconds = lasted(report)
    if seconds[0] <= 0:
        raise report.wrong("finished", "impossible: no time passed")
    text.check_ratio(report, (answered(report), 0), seconds, "rate")
    text.check_ratio(report, (report.count("bytes"), seconds[0]), seconds, "transfer")  # bytes/s are cut, not rounded
    size, exact = report.value("size", BYTES), report.count("bytes")
    if abs(size - exact) > text.half_width(report.text("size"), BYTES) * (1 + 1e-6):
        raise report.wrong("traffic", f"{exact} bytes are not {report.text('size')}")
    if answered(report) == 0 and cells(report, "request"):
        raise report.wrong("request", "times of requests without a single answer")


def log_of(report: Report, captured: Captured) -> Log | None:
    """Return the log of the requests, held against the report; None where there is none."""
    name = h2load_log.name(captured.argv)
    source = captured.files.get(name, captured.paths.get(name)) if name else None
    if name is None or source is None:
        return None
    log = h2load_log.read(name, source, report.count("done"))
    if log.answered != answered(report):
        raise ParseError("h2load", name, 0, f"{log.answered} answers, but {answered(report)} in the report")
    seen = {c: log.classes.get(c, 0) for c in (2, 3, 4, 5)}
    if any(n > report.count(f"s{c}") for c, n in seen.items()):
        raise ParseError("h2load", name, 0, f"statuses {seen} are not those of the report")
    shown = cells(report, "request")
    threads = max(1, captured.stdout.count(b"spawning thread #"))
    if log.answered and report.count("done") <= MAX_SAMPLES // threads:
        _check_times(name, log, shown)
    return log


def _check_times(name: str, log: Log, shown: Mapping[str, tuple[float, str]]) -> None:
    """Raise ParseError unless extremes and mean of a log are those of the table, within 1 us and its rounding."""
    ours = {"min": log.times.percentile_s(0), "max": log.times.percentile_s(100), "mean": log.times.mean_s()}
    for statistic, exact in ours.items():
        value, printed = shown.get(statistic, (-1.0, "nothing"))
        if abs(value - exact) > 2e-6 + 2 * text.half_width(printed.replace("nothing", "0s"), TIME_S):
            raise ParseError("h2load", name, 0, f"{statistic} {exact * 1e6:g} us is not the {printed} of the report")


def ok_per_s(report: Report) -> float:
    """Return ok / duration; through the rate where that shows more digits of the duration."""
    duration, slack = lasted(report)
    rate = report.value("rate", COUNT)
    if rate > 0 and 0.005 / rate < slack / duration:
        return rate * (report.count("ok") / answered(report))
    return report.count("ok") / duration


def clients(lines: Sequence[str]) -> int:
    """Return how many clients all threads had, by what h2load prints when it makes them."""
    found = (re.match(r"spawning thread #\d+: (\d{1,9}) total client", line) for line in lines)
    return sum(int(match[1]) for match in found if match)
