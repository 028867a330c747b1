"""siege 2 to 4: run with a configuration of its own, not the user's; text and JSON are read.

- `requests` are siege's transactions: answers of any status but 408 and 500 to 509. `ok` are its successful ones:
  status below 400, and 401 and 407. Other 4xx and 510 or more count as neither, so they are `errors_status`.
- Failed transactions are refused or cut connections and answers 408 and 500 to 509, which it does not tell apart. With
  any, the report has `attempts` instead of `requests`, and no mean, since siege divides all times by transactions
  (measured: 0.07 s for answers of 0.05 s, a fifth of them 500).
- Status 418, and replies without a status line, count as transaction and as failed. A report with failures and other
  4xx thus has no `attempts` and no `errors`.
- With `follow-location`, each redirect is a transaction. loadbook's command follows none. A 401 is asked five times.
- Times have steps of 10 ms. Those below 40 ms are left out, and the smallest and largest cover answers of any status.
- `-t` ends at a whole second of the clock, up to 1 s early, and drops requests under way. A user that has just got
  its answer may then count it as successful only: `ok` is not more than `requests`.
- `timeout` covers connecting alone: an answer after 3 s counts as successful with a time-out of 1 s.
- `-d` waits a random time, so there is no think time. With keep-alive it waits for a body of 204 until the server
  closes: refused.

Sources: siege `src/browser.c`, `data.c`, `init.c`, `main.c`, `response.c` and `timer.c` of 3.0.8 to 4.2; 4.0.7
measured. 2.x: not seen; the lines of 3.0.8 are assumed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from loadbook.core import units
from loadbook.core.errors import ParseError, ToolError
from loadbook.core.go_programs import option
from loadbook.study.workload import Workload
from loadbook.tools import base, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, Target, ToolOutput
from loadbook.tools.json_report import find_report
from loadbook.tools.line_patterns import LinePattern, TextReport

CONFIG_FILE = "siege.conf"
STEP_S = 0.01  # of siege's clock, and of all times that it adds up
MB = 1024.0**2
NO_BODY = (204, 304)
OWN_HEADERS = ("accept-encoding", "user-agent", "connection")
RESERVED_OPTIONS = (
    *("-R", "-b", "-c", "-d", "-f", "-g", "-H", "-i", "-j", "-l", "-m", "-p", "-q", "-r", "-t", "-v", "-C", "-V", "-h"),
    *("--rc", "--benchmark", "--concurrent", "--delay", "--file", "--get", "--header", "--internet", "--json-output"),
    *("--log", "--mark", "--print", "--quiet", "--reps", "--time", "--verbose", "--config", "--version", "--help"),
    *("-D", "--debug"),
)
_CONFIG = """\
verbose = false
quiet = false
color = off
json_output = true
show-logfile = false
logging = false
parser = false
cache = false
cookies = false
internet = false
benchmark = true
delay = 0
failures = 0
attempts = 1
follow-location = false
url-escaping = false
zero-data-ok = true
chunked = true
protocol = HTTP/1.1
accept-encoding = identity
connection = {connection}
limit = {users}
"""
_NUMBER = r"\s+(?P<{0}>\d+\.\d\d)"
_TIME = _NUMBER + r"(?: (?P<{0}_unit>secs|ms))?"
_COUNT = r"\s*(?P<{}>\d+)"
_LINES = (
    LinePattern("transactions", "Transactions:  1000 hits", "Transactions:", _COUNT.format("transactions") + " +hits"),
    LinePattern("availability", "Availability:  100.00 %", "Availability:", _NUMBER.format("availability") + " %"),
    LinePattern("elapsed", "Elapsed time:  6.58 secs", "Elapsed time:", _NUMBER.format("elapsed_time") + " secs"),
    LinePattern("data", "Data transferred:  4.93 MB", "Data transferred:", _NUMBER.format("data_transferred") + " MB"),
    LinePattern("response", "Response time:  0.93 secs", "Response time:", _TIME.format("response_time")),
    LinePattern(
        "rate",
        "Transaction rate:  151.98 trans/sec",
        "Transaction rate:",
        _NUMBER.format("transaction_rate") + " trans/sec",
    ),
    LinePattern("throughput_", "Throughput:  0.75 MB/sec", "Throughput:", _NUMBER.format("throughput") + " MB/sec"),
    LinePattern("concurrency", "Concurrency:  141.34", "Concurrency:", _NUMBER.format("concurrency")),
    LinePattern(
        "good", "Successful transactions:  1000", "Successful transactions:", _COUNT.format("successful_transactions")
    ),
    LinePattern(
        "received", "HTTP OK received:  1000", "HTTP OK received:", _COUNT.format("http_ok_received"), optional=True
    ),
    LinePattern("failed", "Failed transactions:  0", "Failed transactions:", _COUNT.format("failed_transactions")),
    LinePattern("longest", "Longest transaction:  3.51", "Longest transaction:", _TIME.format("longest_transaction")),
    LinePattern(
        "shortest", "Shortest transaction:  0.00", "Shortest transaction:", _TIME.format("shortest_transaction")
    ),
)
_COUNTS = ("transactions", "successful_transactions", "failed_transactions")
_NUMBERS = (
    *("availability", "elapsed_time", "data_transferred", "response_time", "transaction_rate", "throughput"),
    *("concurrency", "longest_transaction", "shortest_transaction"),
)
_TIME_FACTORS = {"secs": 1.0, "ms": 1e-3}


class Siege(base.Tool):
    """siege; the module docstring defines its metrics."""

    name = "siege"
    binary = "siege"
    report_keys = ("transactions",)
    install_hint = "apt-get install siege"
    load_models = frozenset({"closed"})
    known_versions = ("2", "3", "4")
    version_argv: tuple[str, ...] = ("siege", "-V")
    version_pattern = rb"^SIEGE (\d[\w.-]*)"
    has_timeout = False
    report_begin = r"Transactions:"
    report_end = r"Shortest transaction:"
    hang_cause = "siege 4.0.7 may never end with hundreds of users: lower connections, or use another tool"

    def command(self, workload: Workload, target: Target, duration_s: float) -> list[str]:
        """Return siege's argument list; its other settings are in the file of `extra_files`."""
        base.check_workload(self, workload, RESERVED_OPTIONS, supported_fields=("requests",))
        base.refuse_threads(self, workload)
        if workload.keepalive and workload.expect_status in NO_BODY:
            problem = f"siege waits for a body after status {workload.expect_status} until the server closes"
            raise ToolError(problem, "set keepalive = false, or use another tool")
        replaced = [
            name for name in workload.headers if name.lower() in ("accept-encoding", "user-agent", "connection")
        ]
        if replaced:
            problem = f"siege sends a header {replaced[0]} of its own, and would send both"
            raise ToolError(problem, "leave it out of workload.headers, or use another tool")
        if workload.requests is None:
            load = f"-t{base.whole_seconds(self, 'duration', duration_s)}S"
        elif workload.requests % workload.connections:
            problem = f"siege makes as many requests on each of {workload.connections} connections"
            raise ToolError(problem, f"let requests be a multiple of {workload.connections}")
        else:
            load = f"-r{workload.requests // workload.connections}"
        argv = ["siege", "-R", CONFIG_FILE, "-b", f"-c{workload.connections}", load]
        base.request_headers(workload)  # checks their names; siege adds Connection itself
        for name, value in workload.headers.items():
            argv += ["-H", f"{name}: {value}"]
        return [*argv, *workload.extra, base.target_url(target, workload.path)]

    def extra_files(self, workload: Workload) -> Mapping[str, bytes]:
        """Return the configuration that the command names."""
        connection = "keep-alive" if workload.keepalive else "close"
        return {CONFIG_FILE: _CONFIG.format(connection=connection, users=workload.connections).encode()}

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report in JSON or text; siege prints its text on stderr."""
        report = _Report(output)
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()))


TOOL = Siege()


class _Report:
    """One report, after a check that it is complete and does not contradict itself."""

    def __init__(self, output: ToolOutput) -> None:
        self.output = output
        self.text = text = _read_json_report(output) or _read_text_report(output)
        self.made, self.good, self.failed = (text.count(name) for name in _COUNTS)
        self.seconds = self._number("elapsed_time")
        times = {"mean": "response_time", "min": "shortest_transaction", "max": "longest_transaction"}
        self.times = {statistic: (self._time(name), text.text(name)) for statistic, name in times.items()}
        self._check()

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times; `attempts` instead of `requests` if some transactions failed."""
        text, ok, attempts = self.text, self.good, self.made + self.failed
        # fewer successes: some may be counted twice; more: redirects were followed to failures, and counted apart
        is_known = not self.failed or ok == self.made
        if not self.failed:
            ok = min(self.good, self.made)
            yield Measurement("requests", "count", self.made, "1", text.text("transactions"))
        elif is_known:
            yield Measurement("attempts", "count", attempts, "1", None)
        yield Measurement("ok", "count", ok, "1", text.text_if("successful_transactions", ok))
        if self.seconds:
            if not self.failed:
                rate = self._number("transaction_rate")
                yield Measurement("requests_per_s", "value", rate, "1/s", text.text("transaction_rate"))
            elif is_known:
                yield Measurement("attempts_per_s", "value", attempts / self.seconds, "1/s", None)
            yield Measurement("ok_per_s", "value", ok / self.seconds, "1/s", None)
        yield Measurement("duration", "value", self.seconds, "s", text.text("elapsed_time"))
        if is_known:
            yield Measurement("errors", "count", attempts - ok, "1", None)
        if not self.failed:
            yield Measurement("errors_status", "count", self.made - ok, "1", None)
        if read := self._number("data_transferred"):
            yield Measurement("bytes_read", "count", read * MB, "B", text.text("data_transferred"))
        if received := self._number("throughput"):
            yield Measurement("bytes_per_s", "value", received * MB, "B/s", text.text("throughput"))
        for statistic, (value, printed) in self._fine_times():
            yield Measurement("latency", statistic, value, "s", printed)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        if self.failed:
            text = f"{self.failed} failed transactions: no connection, no answer, or status 408 or 500 to 509"
            yield "failed_unknown", f"{text}; siege does not tell which, so that the number of answers is not known"
        if self.made and self.times["mean"][0] < STEP_S / base.COARSE_STEP:
            text = f"siege's times have steps of 10 ms; those below {STEP_S / base.LARGEST_STEP:g} s are left out"
            yield "coarse_times", text
        asked_s = re.fullmatch(r"(\d+)[sS]", option(self.output.argv, "t") or "")
        if asked_s and self.seconds < base.MIN_DURATION_SHARE * int(asked_s[1]) - 1:
            text = f"the load lasted {self.seconds:.3g} s of the {asked_s[1]} s that were asked for"
            yield "stopped_early", text
        elif b"aborted due to excessive socket failure" in self.output.stdout + self.output.stderr:
            yield "stopped_early", "siege gave up after too many failed connections (failures in siege.conf)"
        if self.output.exit_code:
            yield "exit_code", f"siege ended with exit code {self.output.exit_code}"

    def _number(self, name: str) -> float:
        return self.text.value(name, units.COUNT_UNITS)

    def _time(self, name: str) -> float:
        """Return a time in seconds."""
        unit = self.text.text(f"{name}_unit") if f"{name}_unit" in self.text else "secs"
        return self._number(name) * _TIME_FACTORS[unit]

    def _fine_times(self) -> Iterator[tuple[str, tuple[float, str]]]:
        """Yield the times that are much longer than a step of siege's clock, without a mean that failures spoil."""
        for statistic, (value, printed) in self.times.items():
            if value >= STEP_S / base.LARGEST_STEP and not (self.failed and statistic == "mean"):
                yield statistic, (value, printed)

    def _check(self) -> None:
        """Raise ParseError if numbers contradict each other."""
        text, half, duration = self.text, STEP_S / 2, (self.seconds, STEP_S / 2)
        exact = (self.seconds, 1e-6 * self.seconds)  # it is a whole number of steps
        attempts = self.made + self.failed
        share = 100 * self.made / attempts if attempts else 0.0
        if abs(self._number("availability") - share) > half + 1e-6:
            raise text.error_at("availability", f"{text.text('availability')} % is not {self.made} of {attempts}")
        if self.seconds:
            line_patterns.check_rate(text, (self.made, 1e-6 * self.made), exact, "transaction_rate")
            line_patterns.check_rate(text, (self._number("data_transferred"), half), duration, "throughput")
        elif any(self._number(name) for name in ("transaction_rate", "throughput", "concurrency")):
            raise text.error_at("elapsed_time", "a rate without a duration")
        concurrency = self._number("concurrency")
        if not self.failed and self.good > self.made + 2 * concurrency + 1:
            raise text.error_at("successful_transactions", "more successful transactions than transactions")
        (mean, printed), (low, _), (high, _) = self.times.values()
        rounding = half * (1.0 if self.text.text("response_time") and mean == self._number("response_time") else 1e-3)
        if self.made and self.seconds:
            least, most = ((concurrency + sign * half) * (self.seconds + sign * half) / self.made for sign in (-1, 1))
            if not least - rounding - 1e-9 <= mean <= most + rounding + 1e-9:
                raise text.error_at("response_time", f"{printed} does not follow from concurrency and rate")
        mean_known = self.made and not self.failed
        if low > high or (mean_known and not low - half <= mean <= high + half):
            raise text.error_at("shortest_transaction", "shortest, mean and longest time do not ascend")
        if high > self.seconds + 2 * STEP_S:
            raise text.error_at("longest_transaction", "longer than the whole load")


def _read_json_report(output: ToolOutput) -> TextReport | None:
    """Return the fields of the JSON on stdout as siege prints them; None if there is none."""
    if (found := find_report("siege", {"stdout": output.stdout}, *TOOL.report_keys)) is None:
        return None
    fields = {}
    for name in (*_COUNTS, *_NUMBERS):
        value = found.value.get(name)
        is_count = type(value) is int and value >= 0
        is_number = type(value) in (int, float) and 0 <= value < math.inf and abs(round(value, 2) - value) < 1e-9
        if not (is_count if name in _COUNTS else is_number):
            problem = f"{name} is missing, or none of siege's: {str(value)[:60]!r}"
            raise ParseError("siege", found.file, found.line, problem)
        fields[name] = (found.line, {name: str(value) if name in _COUNTS else f"{value:.2f}"})
    return TextReport("siege", found.file, fields)


def _read_text_report(output: ToolOutput) -> TextReport:
    """Return the fields of the text on stderr or, if a shell joined them, stdout; ParseError if it is not complete."""
    streams = {"stderr": line_patterns.clean_lines(output.stderr), "stdout": line_patterns.clean_lines(output.stdout)}
    for file, lines in streams.items():
        if any(re.match(Siege.report_begin, line) for line in lines):
            return line_patterns.read_report("siege", lines, _LINES, file)
    if any(line.startswith("Usage: siege") for line in streams["stdout"]):
        reason = f"siege printed its usage: an argument was wrong{line_patterns.exit_text(output)}"
        raise ParseError("siege", "stdout", 0, reason)
    line_patterns.require_report("siege", output, streams["stdout"], Siege.report_begin, Siege.report_end)
    raise AssertionError("require_report raises without a report")
