"""weighttp 0.3 to 0.5: closed loop, a number of requests (lighttpd/weighttp `src/weighttp.c`, formats.md section 5).

`requests` are answers, by their status, never attempts: weighttp's own req/s counts refused connections too, so where
attempts got no answer the rate is `requests` / `duration` instead. `latency` is 0.5's total time, connecting included,
as ab's; `ttfb` starts when the request is sent. 0.3 and 0.4 print no times. Percentiles include failed attempts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import ParseError, ToolError
from loadbook.design.workload import Workload
from loadbook.tools import plan, text
from loadbook.tools.base import Captured, Measurement, Parsed, Target
from loadbook.tools.text import Report
from loadbook.tools.weighttp_forms import STATISTICS, TIMES, read_json, read_text

OWNED = ("-n", "-c", "-t", "-k", "-6", "-h", "-v", "-V")
HELP = "weighttp <options> <"


class Weighttp:
    """The tool weighttp; see the module's first lines for what its numbers mean."""

    name = "weighttp"
    binary = "weighttp"
    get = "in no package registry: build github.com/lighttpd/weighttp"
    load_models = frozenset({"closed"})
    known = ("0.3", "0.4", "0.5")
    version_argv: tuple[str, ...] = ("weighttp", "-h")  # -v and -V differ between versions; -h prints help in all

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version; builds that do not print it are told apart by their help (0.5 says URI)."""
        said = stdout + stderr
        match = re.search(rb"^weighttp +(\d[\w.-]*) - ", said, re.MULTILINE)
        if match:
            return match[1].decode()
        if b"weighttp <options> <" not in said:
            raise ToolError(
                f"weighttp: no version in {said[:80]!r}", "build it from source, or use the tools wrk, ab or h2load"
            )
        return "0.5 or newer" if b"weighttp <options> <URI>" in said else "0.3 or older"

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return weighttp's argument list. It ends after a number of requests, which the workload must give.

        0.3 and 0.4 know no duration. 0.5 has ``-a`` seconds, but counts the time in which it makes room for -n requests
        as measurement; so it is not used, `duration_s` is not met, and the rates are over weighttp's own duration.
        """
        plan.check(self, workload, OWNED, able=("requests",))
        plan.check_no_timeout(self, workload)
        for wrong, what, hint in _cannot(workload, target):
            if wrong:
                raise ToolError(what, hint)
        argv = ["weighttp", "-n", str(workload.requests), "-c", str(workload.connections), "-t", str(workload.threads)]
        argv += ["-k"] if workload.keepalive else []
        for name, value in plan.headers(workload).items():
            if name.lower() != "connection":  # weighttp sends its own, by -k
                argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, plan.url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return nothing: weighttp needs no files."""
        return {}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return nothing: weighttp writes no files that are read."""
        return ()

    def parse(self, captured: Captured) -> Parsed:
        """Return the rows of one report, text or JSON."""
        lines = text.lines(captured.stdout)
        if any(line.startswith(HELP) for line in lines):
            raise ParseError(self.name, "stdout", 0, f"the tool printed its usage{_said(captured)}")
        text.require(self.name, captured, lines, BEGIN, r"traffic: |\}$")
        report = _read(lines)
        _check(report)
        return Parsed((*_count_rows(report), *_time_rows(report)), (), tuple(_doubts(report, captured)))


TOOL = Weighttp()
BEGIN = r"weighttp .*lightweight and simple webserver benchmarking tool|\{$|finished in \d+ sec, "


def _cannot(workload: Workload, target: Target) -> Iterator[tuple[bool, str, str]]:
    """Yield what weighttp cannot do: whether it is asked for, what, and what to do instead."""
    untold = workload.requests is None
    yield untold, "weighttp ends after a number of requests, not after a time", "set requests, such as 200000"
    few = workload.connections < workload.threads
    yield few, f"weighttp needs a connection for each of {workload.threads} threads", "raise connections"
    yield target.scheme != "http", f"weighttp does not speak {target.scheme}", "use the tools wrk, ab or h2load"
    yield ":" in target.address, "loadbook does not drive weighttp over IPv6", "use an IPv4 address, or the tool wrk"


def _said(captured: Captured) -> str:
    """Return what weighttp said on stderr, for an error message."""
    said = [line for line in text.lines(captured.stderr[:10_000]) if line]
    return f"; stderr: {said[0][:200]}" if said else ""


def _read(lines: Sequence[str]) -> Report:
    """Return the report in whichever of the two forms it has."""
    if "{" not in lines:
        return read_text(lines)
    if any(line.startswith(("finished in ", "requests: ")) for line in lines):
        raise ParseError("weighttp", "stdout", lines.index("{") + 1, "two reports in one: text and JSON")
    return read_json(lines)


def _microseconds(report: Report) -> int:
    """Return the duration in us, from the three parts of 0.4 or the seconds of 0.5."""
    if "sec" in report:
        parts = [report.count(part) for part in ("sec", "ms", "us")]
        return parts[0] * 1_000_000 + parts[1] * 1000 + parts[2]
    return int(report.text("duration").replace(".", ""))


def _answers(report: Report) -> int:
    """Return the requests that got an answer; the last ones of a stopped run may be answered and not done."""
    return min(report.count("done"), sum(report.count(f"s{c}") for c in range(2, 6)))


def _check(report: Report) -> None:
    """Raise ParseError where the report contradicts itself (formats.md 6.5).

    0.5 sends a request again when its connection closes, so its connections and status codes may exceed its requests.
    """
    done, ok = report.count("done"), report.count("ok")
    if ok + report.count("failed") not in (done, done - report.count("errored")):
        raise report.wrong("ok", "succeeded and failed requests do not add up to those done")
    if "asked" in report and not done <= report.count("started") <= report.count("asked"):
        raise report.wrong("started", "more requests done than started, or started than asked for")
    if ok > report.count("s2") + report.count("s3"):
        raise report.wrong("s2", "fewer answers of status 2xx and 3xx than requests that succeeded")
    if report.count("http") + report.count("data") != report.count("bytes"):
        raise report.wrong("bytes", "headers and data do not add up to the bytes in total")
    _check_rate(report, "rate", done, 0)
    _check_rate(report, "kbytes", report.count("bytes") / 1024, 1)
    for section in _sections(report):
        _check_times(report, section)


def _check_rate(report: Report, field: str, total: float, below: int) -> None:
    """Raise ParseError unless total / duration is the printed rate; both are cut to whole numbers, not rounded."""
    us, printed = _microseconds(report), report.count(field)
    low = max(0.0, total - below) * 1e6 / (us + 1) - 1
    if printed < low * (1 - 1e-9) or (us > 1 and printed > total * 1e6 / (us - 1) * (1 + 1e-9)):
        raise report.wrong(field, f"{printed} does not follow from {total:g} in {us / 1e6:g} s")


def _sections(report: Report) -> list[str]:
    """Return the sections of times, none in text; connect times are a sample only while no request was sent again."""
    again = report.count("connect_times.num") > report.count("done")
    return [s for s in TIMES if f"{s}.num" in report and not (again and s == "connect_times")]


def _check_times(report: Report, section: str) -> None:
    """Raise ParseError unless times ascend."""
    shown = [s for s in ("min", *(s for s in STATISTICS.values() if s[0] == "p"), "max") if f"{section}.{s}" in report]
    for order in (shown, ["min", "mean", "max"]):
        values = [report.count(f"{section}.{s}") for s in order]
        if values != sorted(values):
            raise report.wrong(f"{section}.mean", f"{section} do not ascend to their maximum")


def _count_rows(report: Report) -> Iterator[Measurement]:
    """Yield counts and rates; texts are weighttp's own."""
    requests, ok, duration = _answers(report), report.count("ok"), _microseconds(report) / 1e6
    all_ = requests == report.count("done")
    yield Measurement("requests", "count", requests, "1", report.text("done") if all_ else None)
    yield Measurement("ok", "count", ok, "1", report.text("ok"))
    if all_:
        yield Measurement("requests_per_s", "value", report.count("rate"), "1/s", report.text("rate"))
    elif duration:
        yield Measurement("requests_per_s", "value", requests / duration, "1/s", None)
    if duration or not ok:
        yield Measurement("ok_per_s", "value", ok / duration if ok else 0.0, "1/s", None)
    yield Measurement("duration", "value", duration, "s", report.text("duration"))
    yield from _error_rows(report)
    for c in range(2, 6):
        yield Measurement(f"status_{c}xx", "count", report.count(f"s{c}"), "1", report.text(f"s{c}"))
    yield Measurement("bytes_read", "count", report.count("bytes"), "B", report.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.count("kbytes") * 1024, "B/s", report.text("kbytes"))


def _error_rows(report: Report) -> Iterator[Measurement]:
    """Yield errors: failed by status, and all other failures, which weighttp does not tell apart."""
    failed, status = report.count("done") - report.count("ok"), report.count("s4") + report.count("s5")
    printed = report.text("failed") if failed == report.count("failed") else None
    yield Measurement("errors", "count", failed, "1", printed)
    yield Measurement("errors_status", "count", min(status, failed), "1", None)
    yield Measurement("errors_other", "count", failed - min(status, failed), "1", None)


def _time_rows(report: Report) -> Iterator[Measurement]:
    """Yield times, of 0.5 only; weighttp prints whole microseconds."""
    if not _answers(report):
        return
    for section in _sections(report):
        metric = TIMES[section]
        for statistic in STATISTICS.values() if metric else ():
            field = f"{section}.{statistic}"
            if field in report and "nan" not in report.text(field):
                printed = report.text(field)
                yield Measurement(str(metric), statistic, float(f"{printed}e-6"), "s", printed)


def _doubts(report: Report, captured: Captured) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    done, answers = report.count("done"), _answers(report)
    if answers < done:
        times = ", and their times among the latencies" if _sections(report) else ""
        counted = f"weighttp counts them in its {report.text('rate')} req/s{times}"
        yield "unanswered", f"{done - answers} of {done} attempts got no answer; {counted}"
    elif report.count("failed") > report.count("s4") + report.count("s5"):
        yield "cut_answers", "some answers failed although their status was good: their bodies were cut short"
    asked = report.count("asked") or _spawned(captured)
    if done < asked:
        yield "stopped_early", f"{done} of {asked} requests were done when weighttp was stopped"
    if captured.rc:
        yield "exit_code", f"weighttp ended with exit code {captured.rc} although its report is complete"


def _spawned(captured: Captured) -> int:
    """Return the requests that the threads were given, as 0.5 prints it above its JSON; 0 with -q."""
    line = re.compile(r"spawning thread #\d+: \d+ concurrent requests, (\d{1,18}) total requests")
    return sum(int(m[1]) for m in map(line.fullmatch, text.lines(captured.stdout)) if m)
