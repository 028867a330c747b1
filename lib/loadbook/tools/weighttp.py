"""weighttp 0.3 to 0.5: closed loop, a number of requests (lighttpd/weighttp `src/weighttp.c`).

- The command follows weighttp's help and has not been run by us; the parser is tested on captures of 0.3, 0.4 (text)
  and 0.5 (JSON). weighttp hangs (0.5) or crashes (0.4) if a server closes without a response. It has no time-out.
- `requests` are responses, counted by status, `ok` those of 2xx and 3xx with a whole body. weighttp's own req/s
  includes attempts without a response; `requests_per_s` does not.
- Times exist in 0.5 only, failed attempts included. `latency` includes connecting, `ttfb` starts when the request is
  sent.
"""

# Text and JSON, detected by content, become a `TextReport` with the same fields. The counter `keep-alive` of 0.5
# wraps below zero beyond 63 bits and is not read.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import find_report
from loadbook.tools.line_patterns import LinePattern, TextReport

_N = r"\d{1,18}"

TEXT_PATTERNS = (
    LinePattern("finished", "finished in 0 sec, 424 millisec and 448 microsec, 47120 req/s, 10721 kbyte/s",
                "finished in ",
                rf"(?P<duration>(?P<sec>{_N}) sec, (?P<ms>\d{{1,3}}) millisec and (?P<us>\d{{1,3}}) microsec), "
                rf"(?P<rate>{_N}) req/s, (?P<kbytes>{_N}) kbyte/s"),
    LinePattern("requests", "requests: 1000 total, 1000 started, 1000 done, 0 succeeded, 1000 failed, 0 errored",
                "requests: ", rf"(?P<asked>{_N}) total, (?P<started>{_N}) started, (?P<done>{_N}) done, "
                rf"(?P<ok>{_N}) succeeded, (?P<failed>{_N}) failed, (?P<errored>{_N}) errored"),
    LinePattern("status", "status codes: 20000 2xx, 0 3xx, 0 4xx, 0 5xx", "status codes: ",
                rf"(?P<s2>{_N}) 2xx, (?P<s3>{_N}) 3xx, (?P<s4>{_N}) 4xx, (?P<s5>{_N}) 5xx"),
    LinePattern("traffic", "traffic: 4660000 bytes total, 4580000 bytes http, 80000 bytes data", "traffic: ",
                rf"(?P<bytes>{_N}) bytes total, (?P<http>{_N}) bytes http, (?P<data>{_N}) bytes data"),
)  # fmt: skip

# field -> key of the JSON
JSON_KEYS = {
    "rate": "reqs_per_sec", "kbytes": "kBps_per_sec", "duration": "secs_elapsed",
    "started": "request_counts.started", "done": "request_counts.retired",
    "ok": "response_counts.pass", "failed": "response_counts.fail", "errored": "response_counts.errs",
    "s2": "status_codes.2xx", "s3": "status_codes.3xx", "s4": "status_codes.4xx", "s5": "status_codes.5xx",
    "bytes": "traffic.bytes_total", "http": "traffic.bytes_headers", "data": "traffic.bytes_body",
}  # fmt: skip
# section of the JSON -> metric; response_times are total_times without the time to connect
TIME_SECTIONS = {
    "connect_times": "connect_time", "time_to_first_byte": "ttfb", "response_times": None, "total_times": "latency",
}  # fmt: skip
BASIC_STATISTICS = {"0%": "min", "50%": "p50", "100%": "max"}  # the only ones printed with -d
PERCENTILES = {f"{p}%": f"p{p}" for p in (66, 75, 80, 90, 95, 98, 99)}
STATISTICS = {"avg": "mean", "stddev": "sd"} | BASIC_STATISTICS | PERCENTILES
_JSON_LINE = re.compile(r'[^"{}]*\{|\s*\},?|\s*"[^"]+": *(?:\{|"[^"]*",?|-?[\d.]+,?|-?nan,?)')
_RATE_KEY = f'"{JSON_KEYS["rate"]}"'  # the first of a report
RESERVED_OPTIONS = ("-n", "-c", "-t", "-k", "-6", "-h", "-v", "-V")
REPORT_START = r"weighttp .*lightweight and simple webserver benchmarking tool|finished in \d+ sec, "
USAGE_LINE = "weighttp <options> <"


def read_json(lines: Sequence[str]) -> TextReport:
    """Return the JSON report of 0.5 in any layout; lines that are not JSON between those of the report are skipped."""
    own = [line if _JSON_LINE.fullmatch(line) or _RATE_KEY in line else "" for line in lines]
    text = re.sub(r'(": *)(-?nan)\b', r'\1"\2"', "\n".join(own))
    if (found := find_report("weighttp", {"stdout": text.encode()}, JSON_KEYS["rate"])) is None:
        reason = OtherProgram("no report of weighttp in it: JSON without reqs_per_sec")
        raise ParseError("weighttp", "stdout", 0, reason)
    numbers = {key: n for n, line in enumerate(own, 1) for key in re.findall(r'"([^"]+)" *:', line)}
    return _build_report(dict(_flatten(found.value)), numbers)


def _flatten(read: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (dotted key, value) of nested JSON objects; values are text, with decimals as weighttp prints them."""
    if isinstance(read, dict):
        for key, value in read.items():
            yield from _flatten(value, f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, f"{read:.6f}" if isinstance(read, float) else str(read)


def _build_report(values: Mapping[str, str], numbers: Mapping[str, int]) -> TextReport:
    """Return the report with the fields of `JSON_KEYS` and ``section.statistic`` for times; `numbers` are lines."""
    expected: dict[str, tuple[str, str]] = {
        field: (key, r"\d{1,9}\.\d{6}" if field == "duration" else _N) for field, key in JSON_KEYS.items()
    }
    for section in TIME_SECTIONS:
        all_ = f"{section}.66%" in values
        keys = [key for key in STATISTICS if all_ or key in BASIC_STATISTICS or key in ("avg", "stddev")]
        expected |= {f"{section}.{STATISTICS[key]}": (f"{section}.{key}", _N) for key in keys}
        expected |= {f"{section}.sd": (f"{section}.stddev", rf"{_N}|-?nan")}
        expected |= {f"{section}.num": (f"{section}.num", _N), f"{section}.unit": (f"{section}.unit", "us")}
    matches = {}
    for field, (key, pattern) in expected.items():
        number = numbers.get(key.rpartition(".")[2], 0)
        if not re.fullmatch(pattern, values.get(key, "")):
            problem = f"unexpected {values[key]!r} as" if key in values else "report is not complete: no"
            raise ParseError("weighttp", "stdout", number if key in values else 0, f"{problem} {key}")
        matches[field] = (number, {field: values[key]})
    # a line missing from JSON leaves no visible gap, so all sections must have the same keys
    if len({frozenset(k.partition(".")[2] for k in values if k.startswith(f"{name}.")) for name in TIME_SECTIONS}) != 1:
        raise ParseError("weighttp", "stdout", 0, "report is not complete: its times have different percentiles")
    return TextReport("weighttp", "stdout", matches)


class Weighttp(base.Tool):
    """weighttp; the module docstring defines its metrics."""

    name = "weighttp"
    binary = "weighttp"
    report_begin = r"weighttp .*lightweight and simple"
    report_end = r'finished in \d+ sec, |  "reqs_per_sec"'
    install_hint = "in no package registry: build github.com/lighttpd/weighttp"
    load_models = frozenset({"closed"})
    has_timeout = False
    known_versions = ("0.3", "0.4", "0.5")
    version_argv: tuple[str, ...] = ("weighttp", "-h")  # -v and -V differ between versions; -h prints help in all

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version; of builds that do not print it "0.5 or newer" or "0.3 or older", by their help text."""
        output = stdout + stderr
        match = re.search(rb"^weighttp +(\d[\w.-]*) - ", output, re.MULTILINE)
        if match:
            return match[1].decode()
        if USAGE_LINE.encode() not in output:
            hint = "build it from source, or use the tools wrk, ab or h2load"
            raise ToolError(f"weighttp: no version in {output[:80]!r}", hint)
        return "0.5 or newer" if b"weighttp <options> <URI>" in output else "0.3 or older"

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return weighttp's argument list. weighttp ends after `requests` requests, which the workload must set.

        `duration_s` is ignored: 0.3 and 0.4 have no option for it, and ``-a`` of 0.5 includes the time to allocate
        memory for -n requests. Rates refer to weighttp's own duration.
        """
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests",))
        if workload.requests is None:
            problem = "weighttp ends after a number of requests, not after a time"
            raise ToolError(problem, "set requests, such as 200000")
        if workload.connections < workload.threads:
            raise ToolError(f"weighttp needs a connection for each of {workload.threads} threads", "raise connections")
        if target.scheme != "http":
            raise ToolError(f"weighttp does not speak {target.scheme}", "use the tools wrk, ab or h2load")
        if ":" in target.address:
            raise ToolError("loadbook does not drive weighttp over IPv6", "use an IPv4 address, or the tool wrk")
        argv = ["weighttp", "-n", str(workload.requests), "-c", str(workload.connections), "-t", str(workload.threads)]
        argv += ["-k"] if workload.keepalive else []
        for name, value in base.request_headers(workload).items():
            if name.lower() != "connection":  # weighttp sends its own, by -k
                argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, text or JSON."""
        lines = line_patterns.clean_lines(output.stdout)
        if any(line.startswith(USAGE_LINE) for line in lines):
            stderr_lines = [line for line in line_patterns.clean_lines(output.stderr[:10_000]) if line]
            stderr = f"; stderr: {stderr_lines[0][:200]}" if stderr_lines else ""
            raise ParseError(self.name, "stdout", 0, f"the tool printed its usage{stderr}")
        number = next((n for n, line in enumerate(lines, 1) if _RATE_KEY in line), 0)
        if not number:
            line_patterns.require_report(self.name, output, lines, REPORT_START, "traffic: ")
            report = line_patterns.read_report(self.name, lines, TEXT_PATTERNS)
        elif any(line.startswith(("finished in ", "requests: ")) for line in lines):
            raise ParseError(self.name, "stdout", number, "two reports in one: text and JSON")
        else:
            report = read_json(lines)
        _check_report(report)
        return ParsedReport((*_count_rows(report), *_time_rows(report)), (), tuple(_doubts(report, output)))


TOOL = Weighttp()


def _duration_us(report: TextReport) -> int:
    """Return the duration in us, which 0.4 prints in three parts (s, ms, us) and 0.5 in seconds."""
    if "sec" in report:
        parts = [report.count(part) for part in ("sec", "ms", "us")]
        return parts[0] * 1_000_000 + parts[1] * 1000 + parts[2]
    return int(report.text("duration").replace(".", ""))


def _answer_count(report: TextReport) -> int:
    """Return the number of requests that got a response; a stopped run may have responses that are not "done" yet."""
    return min(report.count("done"), sum(report.count(f"s{c}") for c in range(2, 6)))


def _check_report(report: TextReport) -> None:
    """Raise ParseError if the report contradicts itself.

    0.5 repeats a request when its connection closes, so it may count more connections and status codes than requests.
    """
    done, ok = report.count("done"), report.count("ok")
    if ok + report.count("failed") not in (done, done - report.count("errored")):
        raise report.error_at("ok", "succeeded and failed requests do not add up to those done")
    if "asked" in report and not done <= report.count("started") <= report.count("asked"):
        raise report.error_at("started", "more requests done than started, or started than asked for")
    if ok > report.count("s2") + report.count("s3"):
        raise report.error_at("s2", "fewer answers of status 2xx and 3xx than requests that succeeded")
    if report.count("http") + report.count("data") != report.count("bytes"):
        raise report.error_at("bytes", "headers and data do not add up to the bytes in total")
    _check_rate(report, "rate", done, 0)
    _check_rate(report, "kbytes", report.count("bytes") / 1024, 1)
    for section in _time_sections(report):
        ordered = ("min", *(s for s in STATISTICS.values() if s[0] == "p"), "max")
        present = [s for s in ordered if f"{section}.{s}" in report]
        for order in (present, ["min", "mean", "max"]):
            values = [report.count(f"{section}.{s}") for s in order]
            if values != sorted(values):
                raise report.error_at(f"{section}.mean", f"{section} do not ascend to their maximum")


def _check_rate(report: TextReport, field: str, total: float, below: int) -> None:
    """Raise ParseError unless total / duration is the printed rate, truncated; weighttp's total may be `below` less."""
    us, printed = _duration_us(report), report.count(field)
    low = max(0.0, total - below) * 1e6 / (us + 1) - 1
    if printed < low * (1 - 1e-9) or (us > 1 and printed > total * 1e6 / (us - 1) * (1 + 1e-9)):
        raise report.error_at(field, f"{printed} does not follow from {total:g} in {us / 1e6:g} s")


def _time_sections(report: TextReport) -> list[str]:
    """Return the JSON sections of times (none in text); without connect times if requests were repeated."""
    again = report.count("connect_times.num") > report.count("done")
    return [s for s in TIME_SECTIONS if f"{s}.num" in report and not (again and s == "connect_times")]


def _count_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield the measurements of counts and rates; `text` is the value as weighttp printed it."""
    requests, ok, duration = _answer_count(report), report.count("ok"), _duration_us(report) / 1e6
    all_ = requests == report.count("done")
    yield Measurement("requests", "count", requests, "1", report.text_if("done", requests))
    yield Measurement("ok", "count", ok, "1", report.text("ok"))
    if all_:
        yield Measurement("requests_per_s", "value", report.count("rate"), "1/s", report.text("rate"))
    elif duration:
        yield Measurement("requests_per_s", "value", requests / duration, "1/s", None)
    if duration or not ok:
        yield Measurement("ok_per_s", "value", ok / duration if ok else 0.0, "1/s", None)
    yield Measurement("duration", "value", duration, "s", report.text("duration"))
    # weighttp separates failures only into bad statuses and all others
    failed = report.count("done") - ok
    status = min(report.count("s4") + report.count("s5"), failed)
    yield Measurement("errors", "count", failed, "1", report.text_if("failed", failed))
    yield Measurement("errors_status", "count", status, "1", None)
    yield Measurement("errors_other", "count", failed - status, "1", None)
    for c in range(2, 6):
        yield Measurement(f"status_{c}xx", "count", report.count(f"s{c}"), "1", report.text(f"s{c}"))
    yield Measurement("bytes_read", "count", report.count("bytes"), "B", report.text("bytes"))
    yield Measurement("bytes_per_s", "value", report.count("kbytes") * 1024, "B/s", report.text("kbytes"))


def _time_rows(report: TextReport) -> Iterator[Measurement]:
    """Yield the statistics of times, which only 0.5 prints, in whole microseconds."""
    if not _answer_count(report):
        return
    for section in _time_sections(report):
        metric = TIME_SECTIONS[section]
        for statistic in STATISTICS.values() if metric else ():
            field = f"{section}.{statistic}"
            if field in report and "nan" not in report.text(field):
                printed = report.text(field)
                yield Measurement(str(metric), statistic, float(f"{printed}e-6"), "s", printed)


def _doubts(report: TextReport, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    done, answers = report.count("done"), _answer_count(report)
    if answers < done:
        times = ", and their times among the latencies" if _time_sections(report) else ""
        counted = f"weighttp counts them in its {report.text('rate')} req/s{times}"
        yield "unanswered", f"{done - answers} of {done} attempts got no answer; {counted}"
    elif report.count("failed") > report.count("s4") + report.count("s5"):
        yield "cut_answers", "some answers failed although their status was good: their bodies were cut short"
    # 0.5 prints the number of requests of each thread above its JSON, except with -q
    spawned = re.compile(r"spawning thread #\d+: \d+ concurrent requests, (\d{1,18}) total requests")
    threads = map(spawned.fullmatch, line_patterns.clean_lines(output.stdout))
    requested = report.count("asked") or sum(int(match[1]) for match in threads if match)
    if done < requested:
        yield "stopped_early", f"{done} of {requested} requests were done when weighttp was stopped"
    if output.exit_code:
        yield "exit_code", f"weighttp ended with exit code {output.exit_code} although its report is complete"
