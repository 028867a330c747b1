"""Apache JMeter 5 (results of 2.13 to 5.6 are read): closed loop, or open loop, one thread per connection.

- In the lab: `make jmeter`. On your hosts, put it on the PATH of ssh logins or set `JMETER_HOME`, which has
  precedence. **Debian's package 2.13-5 cannot load any plan** (and exits with 0). For the highest rate JMeter
  measures mostly itself: one CPU gave 7,000 requests per second where wrk gave 100,000 (rule `driver_saturated`).
- `extra = ["-Jramp=5"]` starts the threads over 5 s (default 0), `["-Jseed=7"]` repeats the arrivals of an open load.
  Redirects are not followed; a connection lives for at most a minute. A path must be percent-encoded; a header with
  `${` is refused.
- `plan = "mine.jmx"` must read `${__P(host)}`, `${__P(port)}`, `${__P(threads)}` and `${__P(duration)}` (or `loops`
  with `requests`; `rate` for an open load, `think_ms` with a think time). Other parameters: `extra =
  ["-Jname=value"]`.
- **Start-up**: a JVM needs 2 to 10 s, and its first requests are slow (60 ms instead of 1 ms). `warmup_s` uses a JVM
  of its own and counts from its start: below 5 s it has no effect. The measuring JVM always starts cold: plan 30 s or
  more.
- **Open loads** arrive at random times: the requested number at uniformly drawn instants. Latency counts from the
  real start, so a stalled server receives fewer requests (rule `offered_shortfall`).
- `requests` are samples with a response of any status; **`ok`** are samples that JMeter calls a success, with 2xx,
  3xx or no HTTP status. Failed assertions and embedded resources are `errors_other`. Transaction controllers and
  sub-results are in no total.
- **`latency`** is JMeter's elapsed, with connecting, to the last byte, in whole milliseconds, samples without a
  response included (doubts `whole_ms`, `unanswered`). **`ttfb`** is its Latency, of samples with a response, with
  connecting. **`connect_time`** covers connections opened in 1 ms or more; JMeter writes 0 for others. `duration` is
  from the first start to the last end of the samples.
- **Read**: a JTL or a folder with it (docs/explore.md). A JTL without a header needs the recorded properties, or the
  default columns of JMeter 2.x, 3.x, or 4 and 5 in every row. Empty `bytes` cells are refused. A failed sample at time
  0, which never began, is one of `errors_other` and nothing else (doubt `not_begun`).
"""

# The samples are compared with the summary that JMeter printed for its last run, so that a file with the results of
# several runs is detected.

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from loadbook.core.errors import OtherProgram, ParseError, ToolError
from loadbook.core.units import pluralize
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns, request_rows
from loadbook.tools.base import ParsedReport, Target, ToolOutput

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Summary

RESULTS_FILE = "results.jtl"
# damage (request_logs.stream) that stands for lost or unreadable rows
REJECTED_DAMAGE = ("torn", "nul", "header")
# the beginning of a JTL: XML, a CSV header, or a row that begins with a time stamp
_JTL_START = re.compile(
    rb"\s*(?:\"?sep=[,;\t|]\"?\s+)?"  # of a spreadsheet
    rb"(?:(<\?xml|<testResults)|[\w,;\t|\"]*\belapsed\b|\d{13}[,;\t|]|\d{2,4}[/-]\d\d[/-]\d\d)"
)
_END_OF_RUN = re.compile(r"\.\.\. end of run")
_TOTALS = re.compile(r"summary = +(\d+) in .*Avg: +(\d+) Min: +(\d+) Max: +(\d+) Err: +(\d+) ")
_SUMMARY = re.compile(r"summary [+=] +\d+ in ")
_USAGE = re.compile(r"^Version \d+\.\d|^To (?:list|run) .*JMeter|^Usage|^/_/   \\_\\_\| /_/")
_OWN_NAME = re.compile(r"J[Mm]eter|^/_/   \\_\\_\| /_/   \\_\\")  # or the last line of its banner
_FAILED = re.compile(r"An error occurred: |Error in NonGUIDriver ")
# between runs in one file, nothing is under way for long; a load may pause, too, but then between most of its requests
MIN_PAUSE_S, MAX_PAUSE_SHARE = 60.0, 0.05
PLAN_FILE, LOG_FILE = "plan.jmx", "jmeter.log"
RESERVED_OPTIONS = (
    *("-n", "--nongui", "-t", "--testfile", "-l", "--logfile", "-j", "--jmeterlogfile"),
    *("-f", "--forceDeleteResultFile", "-v", "--version", "-h", "--help", "-?"),
    *("-e", "--reportatendofloadtests", "-o", "--reportoutputfolder", "-g", "--reportonly"),
    *("-H", "--proxyHost", "-P", "--proxyPort", "-E", "--proxyScheme"),
    *("-Dhttp.proxy", "-Dhttps.proxy", "-DsocksProxy"),
    *("-r", "--runremote", "-R", "--remotestart", "-s", "--server"),
)
# settings jmeter.save.saveservice.*: columns of each results file, independent of the host's user.properties
SAVED_COLUMNS = (
    *("time", "label", "response_code", "response_message", "thread_name", "successful", "bytes", "thread_counts"),
    *("latency", "connect_time", "assertion_results_failure_message", "subresults"),
)
UNSAVED_COLUMNS = ("data_type", "sent_bytes", "url", "filename", "hostname", "encoding", "idle_time", "sample_count")
SAVE_SETTINGS = {
    "output_format": "csv", "default_delimiter": ",", "print_field_names": "true", "timestamp_format": "ms",
    "autoflush": "false", **dict.fromkeys(SAVED_COLUMNS, "true"), **dict.fromkeys(UNSAVED_COLUMNS, "false"),
}  # fmt: skip
PINNED_PROPERTIES = {
    **{f"jmeter.save.saveservice.{name}": value for name, value in SAVE_SETTINGS.items()},
    "sampleresult.timestamp.start": "true",
    "summariser.name": "summary",
    "httpclient.reset_state_on_thread_group_iteration": "false",
}
OLDEST_MAJOR_VERSION = 5  # timers of the plans and -f are untested with older versions
DEBIAN_NOTE = (
    "Debian's package jmeter 2.13 cannot load any plan (its xstream forbids JMeter's own classes), and ends with 0"
)
# RFC 3986: java.net.URI refuses anything else; a fragment would not be sent
_PATH = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/?-]|%[0-9A-Fa-f]{2})+\Z")
_DOCTYPE = re.compile(rb"<!(DOCTYPE|ENTITY)", re.IGNORECASE)
MAX_STARTS = 10_000_000  # requests of an open load, which JMeter schedules beforehand: 8 bytes of its heap each


def find_results(output: ToolOutput) -> tuple[str, bytes | Path]:
    """Return (name, content or path) of the results: the .jtl file, else "stdout"; ParseError for none or several."""
    files: dict[str, bytes | Path] = {**output.files, **output.paths}
    jtl_files = {name: data for name, data in files.items() if name.endswith(".jtl")}
    if RESULTS_FILE in jtl_files or len(jtl_files) == 1:
        name = RESULTS_FILE if RESULTS_FILE in jtl_files else next(iter(jtl_files))
        return name, jtl_files[name]
    if jtl_files:
        names = ", ".join(jtl_files)
        raise ParseError("jmeter", "stdout", 0, f"several files of results: {names}; name the one to read")
    if "stdout" in output.paths:
        return "stdout", output.paths["stdout"]
    if _JTL_START.match(output.stdout.removeprefix(b"\xef\xbb\xbf").lstrip(b"\0")):
        return "stdout", output.stdout
    raise ParseError("jmeter", "stdout", 0, _missing_results_reason(output))


def command_properties(output: ToolOutput) -> dict[str, str] | None:
    """Return {name: text} of the command line's properties (``-Jname=text``); None if the command is not known."""
    words = [word[2:].partition("=") for word in output.argv if word.startswith("-J")]
    return {name: value for name, _, value in words} if output.argv else None


def summary_totals(output: ToolOutput) -> dict[str, int] | None:
    """Return the last summary on the console; None without a summary or if the run did not finish.

    Keys: samples, errors (counts), mean, min, max (ms). ParseError if the console is that of two runs.
    """
    console = "\n".join(line_patterns.clean_lines(output.stdout))
    if len(_END_OF_RUN.findall(console)) > 1:
        raise ParseError("jmeter", "stdout", 0, "two runs in one output; give each a file of its own")
    summaries = list(_TOTALS.finditer(console))
    if not summaries or not _END_OF_RUN.search(console, summaries[-1].end()):
        return None
    return dict(zip(("samples", "mean", "min", "max", "errors"), map(int, summaries[-1].groups()), strict=True))


def check_against_summary(file: str, figures: Summary, summary: dict[str, int] | None) -> None:
    """Raise ParseError unless number, minimum and maximum of the samples equal those of JMeter's own summary.

    `summary` is from `summary_totals`; if it is None, or the file is damaged, nothing is compared. The same holds
    with transactions: JMeter's summary then omits requests (apache/jmeter Summariser.java).
    """
    from loadbook.request_logs.stream import LogRowKind

    total = figures.total()
    if summary is None or figures.rows[LogRowKind.TRANSACTION] or figures.damage_counts:
        return
    times = total.latency
    totals = {"samples": total.attempts}
    if times.count == total.attempts > 0:
        totals |= {"min": round(times.percentile_s(0) * 1000), "max": round(times.percentile_s(100) * 1000)}
    if different := [name for name, value in totals.items() if value != summary[name]]:
        differences = ", ".join(f"{name} {totals[name]} (summary: {summary[name]})" for name in different)
        text = f"not the samples of JMeter's own summary: {differences}; several runs in one file?"
        raise ParseError("jmeter", file, 0, text)


def pauses_s(figures: Summary) -> list[float]:
    """Return the pauses (s) that are no part of a load: a minute or more, and rare among its requests."""
    gaps = figures.idle_gaps_s(MIN_PAUSE_S)
    return gaps if len(gaps) <= MAX_PAUSE_SHARE * figures.total().attempts else []


def result_doubts(file: str, figures: Summary, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield the doubts about the numbers, as (name, sentence)."""
    from loadbook.request_logs.stream import LogRowKind

    total = figures.total()
    yield from request_rows.damage_doubts(file, figures)
    if total.attempts > total.answered > 0:
        unanswered = total.attempts - total.answered
        yield "unanswered", f"times are also of {unanswered} samples that had no answer, as JMeter counts them"
    if figures.rows[LogRowKind.AGGREGATE]:
        rows = figures.rows[LogRowKind.AGGREGATE]
        yield (
            "aggregated",
            f"{pluralize(rows, 'row stands', 'rows stand')} for several requests each: they have no times",
        )
    if not total.attempts:
        transactions = figures.rows[LogRowKind.TRANSACTION]
        what = f"all {transactions} rows are transactions" if transactions else "the file has no rows"
        yield "no_samples", f"{file} has no samples: {what}"
    if gaps := pauses_s(figures):
        text = f"nothing was under way for {max(gaps) / 60:.3g} min: JMeter appends to a file of results that is there"
        yield "runs_appended", f"{file}: {text}, so these may be {len(gaps) + 1} runs: no duration and no rates"
    elif total.attempts and figures.duration_s is None:
        text = "let JMeter write them in milliseconds for duration and rates"
        yield "no_times", f"{file} has no time stamps: {text}"
    if total.answered and total.latency.count and total.latency.mean_s() < base.COARSE_S:
        yield "whole_ms", "JMeter has whole milliseconds only, too coarse for times this short"
    properties = command_properties(output) or {}
    threads, loops = (properties.get(name, "") for name in ("threads", "loops"))
    is_counted = all(re.fullmatch(r"\d{1,9}", number) for number in (threads, loops))
    expected = int(threads) * int(loops) if is_counted else 0
    console = "\n".join(line_patterns.clean_lines(output.stdout)) if file != "stdout" else ""
    if console and not _END_OF_RUN.search(console):
        yield "stopped_early", "JMeter did not come to the end of its run: samples that it had not written yet are lost"
    elif total.attempts < expected:
        yield "stopped_early", f"{total.attempts} samples, fewer than the {expected} requests that were asked for"
    if output.exit_code:
        yield "exit_code", f"JMeter ended with exit code {output.exit_code}"


def _missing_results_reason(output: ToolOutput) -> str:
    """Return the reason why there are no results, derived from the console output of JMeter or of another program."""
    from loadbook.request_logs.jtl_rows import COLUMN_PROPERTIES

    lines = [line for line in line_patterns.clean_lines(output.stdout) if line and "StatusConsoleListener" not in line]
    code = line_patterns.exit_text(output)
    if not lines:
        return f"empty: the tool was killed or could not start{code}"
    failed = next((line for line in lines if _FAILED.match(line)), None)
    if failed and "ForbiddenClassException" in failed:
        return f"JMeter could not load the plan, as Debian's package 2.13 never can: {failed[:200]}"
    if failed:
        return f"JMeter ended without results{code}: {failed[:200]}"
    known = [name for name in re.split(r"[,;\t|]", lines[0].replace('"', "")) if name in COLUMN_PROPERTIES]
    if len(known) >= 3:
        return f"a header of JMeter results without the column elapsed or timeStamp: {', '.join(known)}"
    head = lines[:12]
    if any(_USAGE.search(line) for line in head) and any(_OWN_NAME.search(line) for line in head):
        return f"JMeter printed its usage or its version, and there is no file with results{code}"
    if any(_SUMMARY.match(line) for line in lines):
        return f"only JMeter's summary on the console, without single samples: read the file of `jmeter -l`{code}"
    encoding = line_patterns.utf_16_text(output.stdout)
    return OtherProgram(f"no report of jmeter in it{encoding}{code}; it begins {lines[0][:60]!r}")


def _load_properties(workload: Workload, target: Target, seconds: int) -> dict[str, str]:
    """Return the workload as JMeter properties; ToolError for values that they cannot express exactly."""
    if not _PATH.match(workload.path):
        raise ToolError(f"JMeter cannot request the path {workload.path!r}", "write it percent-encoded, without '#'")
    properties = {
        "host": target.address, "port": str(target.port), "scheme": target.scheme, "path": workload.path,
        "threads": str(workload.connections), "duration": str(seconds),
        "timeout_ms": str(base.whole_milliseconds(TOOL, "timeout_s", workload.timeout_s)),
    }  # fmt: skip
    if workload.requests is not None:
        loops, rest = divmod(workload.requests, workload.connections)
        if rest:
            shared = f"jmeter shares {workload.requests} requests evenly among {workload.connections} connections"
            hint = f"use requests = {loops * workload.connections} or {(loops + 1) * workload.connections}"
            raise ToolError(f"{shared}, which cannot be done", hint)
        properties["loops"] = str(loops)
    if workload.rate_per_s is not None:
        starts = workload.rate_per_s * seconds
        if starts > MAX_STARTS:
            problem = f"jmeter draws all {starts:g} starts of an open load beforehand, which takes its memory"
            raise ToolError(problem, f"at most {MAX_STARTS} of them: lower duration_s or rate_per_s")
        properties["rate"] = f"{workload.rate_per_s:.15g}"
    if workload.think_time_s:
        properties["think_ms"] = str(base.whole_milliseconds(TOOL, "think_time_s", workload.think_time_s))
    return properties


def _plan_xml(workload: Workload) -> bytes:
    """Return the test plan: the user's own if the workload names one, else one request that every thread repeats."""
    if workload.plan or workload.plan_text:
        return _user_plan(workload)
    import jinja2

    if any(name.lower() == "connection" for name in workload.headers):
        raise ToolError("jmeter sends the header Connection itself", "drop it, and set workload.keepalive")
    headers = {name: value for name, value in base.request_headers(workload).items() if name != "Connection"}
    for name, value in headers.items():
        if "${" in name + value:
            raise ToolError(f"JMeter reads ${{...}} in the header {name} as an expression", "use the tool wrk")
    source = (resources.files(__package__) / "jmeter.jmx.j2").read_text(encoding="utf-8")
    template = jinja2.Template(source, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return template.render(workload=workload, headers={escape(n): escape(v) for n, v in headers.items()}).encode()


def _user_plan(workload: Workload) -> bytes:
    """Return the user's own plan; ToolError unless it is a test plan that reads the load from properties."""
    data, name = (workload.plan_text or "").encode(), f"workload.plan: {workload.plan}"
    try:
        root = None if _DOCTYPE.search(data) else ET.fromstring(data)  # noqa: S314 - no DTD, so no entities
    except ET.ParseError as error:
        raise ToolError(f"{name} is not XML: {error}", "save it again in JMeter") from None
    if root is None or root.tag != "jmeterTestPlan":
        raise ToolError(f"{name} is no JMeter test plan", "name the .jmx that JMeter saved")
    if workload.headers or not workload.keepalive:
        raise ToolError(f"{name} decides on headers and keep-alive itself", "drop both from the workload")
    required = ["host", "port", "threads", "duration" if workload.requests is None else "loops"]
    required += ["rate"] if workload.rate_per_s is not None else []
    required += ["think_ms"] if workload.think_time_s else []
    missing = [p for p in required if not re.search(rf"\$\{{__(P|property)\({p}[,)]".encode(), data)]
    if missing:
        raise ToolError(
            f"{name} does not read {', '.join(missing)}: its load would not be the study's",
            f"write {', '.join(f'${{__P({p})}}' for p in missing)} where the plan has values of its own",
        )
    return data


class JMeter(base.Tool):
    """Apache JMeter; the module docstring defines its metrics."""

    name = "jmeter"
    binary = "jmeter"
    install_hint = "unpack Apache JMeter 5.6.3 and set JMETER_HOME or PATH for ssh logins; in the lab: make jmeter"
    streamed_inputs = ("stdout", "files")
    rows_begin = (
        r"\"?time[sS]tamp\"?[,;\t|]|\"?elapsed\"?[,;\t|]\"?(?:label|response)|\d{13}[,;\t|]\d+[,;\t|]"
        r"|<\?xml |<testResults"
    )
    load_models = frozenset({"closed", "open"})
    known_versions = ("5",)
    version_argv: tuple[str, ...] = ("jmeter", "-v", "-j", "/dev/null")
    extra_timeout_s = 30.0  # start and end of a JVM on one busy CPU

    def version(self, stdout: bytes, stderr: bytes) -> str:
        """Return the version, such as ``5.6.3``; ToolError for a version below 5, such as Debian's 2.13."""
        output = (stdout + stderr).decode(errors="replace")
        match = re.search(r"^(?:Version|.*\\_\\) +(\d+\.\d+\S*)", output, re.MULTILINE)
        if not match:
            raise ToolError(f"jmeter: no version in {output[:80]!r}", self.install_hint)
        if int(match[1].partition(".")[0]) < OLDEST_MAJOR_VERSION:
            broken = f": {DEBIAN_NOTE}" if match[1].startswith("2.") else ""
            raise ToolError(f"jmeter {match[1]} is too old{broken}", self.install_hint)
        return match[1]

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return JMeter's argument list, which passes target and load to the test plan as properties.

        With -f JMeter overwrites the results of the warm-up instead of appending. `extra` may hold further properties
        (``-Jramp=5``), which the user's own plan may read.
        """
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests", "think_time_s", "plan"))
        if workload.threads not in (1, workload.connections):
            raise ToolError("jmeter has a thread for each connection", "leave threads out")
        _plan_xml(workload)
        seconds = base.whole_seconds(self, "duration", duration_s)
        properties = _load_properties(workload, target, seconds)
        for word in workload.extra:
            name = word.removeprefix("-J").partition("=")[0]
            if word.startswith("-J") and name in properties.keys() | PINNED_PROPERTIES.keys():
                raise ToolError(f"workload.extra has {word!r}, but {name} is set by loadbook", "drop it")
        argv = ["jmeter", "-n", "-f", "-t", PLAN_FILE, "-l", RESULTS_FILE, "-j", LOG_FILE]
        argv += [f"-J{name}={value}" for name, value in (PINNED_PROPERTIES | properties).items()]
        return [*argv, *workload.extra]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the test plan: the user's own, or one with a single request."""
        return {PLAN_FILE: _plan_xml(workload)}

    def expected_files(self, workload: Workload) -> Sequence[str]:
        """Return the names of the results file and of JMeter's own log."""
        return (RESULTS_FILE, LOG_FILE)

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one run from its results file (JTL), CSV or XML, written by JMeter 2.13 to 5.6."""
        from loadbook.request_logs.read import summarise

        file, data = find_results(output)
        properties = command_properties(output)
        figures = summarise(data, self.name, file=file, properties=properties)
        check_against_summary(file, figures, summary_totals(output))
        rate = (properties or {}).get("rate", "")
        offered = float(rate) if re.fullmatch(r"\d+(\.\d+)?(e-\d+)?", rate) else None
        doubts = list(result_doubts(file, figures, output))
        if pauses_s(figures):
            figures.last_end_us = None  # the time of several runs together is that of none
        report = request_rows.log_report(figures, "latency", offered, doubts, REJECTED_DAMAGE)
        not_begun = figures.damage_counts["not_begun"]
        more = {"errors": not_begun, "errors_other": not_begun}
        rows = (row._replace(value=row.value + more.get(row.metric, 0)) for row in report.measurements)
        return replace(report, measurements=tuple(rows))


TOOL = JMeter()
