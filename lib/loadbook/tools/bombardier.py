"""bombardier 1.2: its report is read, JSON (`-o json -p r -l`) or text; loadbook does not run it.

- `requests` are responses of any status. Attempts without one (`others`) are `errors`, by the class that their
  messages tell; bombardier counts them in its times (doubt `unanswered`), which are then `attempt_time`. `attempts`
  and `attempts_per_s` count them, too.
- With `--http1` or `--http2` a body that was cut is a response and an error: it is no `ok` (doubt `cut_answers`). The
  default client asks again, and tells nothing of it.
- The text has no `duration` and no `bytes_read`. Its "Reqs/sec" is a mean of momentary rates, up to 49 % off in our
  captures. It is read only if it is of one interval (Stdev 0.00), with failures as `attempts_per_s`.
- `latency` is in microseconds; percentiles are there with `-l` only. At a rate (`-r`), times are `service_time`:
  requests that are late start late. The default client ignores `-t`.

Sources: bombardier `templates.go` and `bombardier.go`; 1.2.6 measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loadbook.core.go_programs import FAILURE_PATTERNS, number_option
from loadbook.core.metrics import count_error_classes
from loadbook.tools import base, bombardier_text, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.json_report import JsonReport, find_report, printed_load
from loadbook.tools.request_rows import coarse_doubts, is_coarse, status_rows, timed_load_doubts, with_hardly_moved

MARKS = ("spec", "result")  # keys of a report
PERCENTILES = {"p50": "50", "p75": "75", "p90": "90", "p95": "95", "p99": "99"}
US = 1e6  # microseconds in a second


class Bombardier(base.ImportedTool):
    """bombardier; the module docstring defines its metrics."""

    name = "bombardier"
    binary = "bombardier"
    report_keys = MARKS
    report_begin = bombardier_text.REPORT_BEGIN
    report_end = bombardier_text.REPORT_END

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report, in JSON or as text."""
        is_text = any(bombardier_text.FIRST_LINE.match(line) for line in line_patterns.clean_lines(output.stdout))
        has_json = find_report("bombardier", _contents(output), *MARKS) is not None
        report = _TextReport(output) if is_text and not has_json else _Report(output)
        parsed = ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()), load=report.load())
        attempts = report.answered + report.unanswered
        return with_hardly_moved(parsed, report.answered_metric, report.unanswered, attempts)


TOOL = Bombardier()


def _contents(output: ToolOutput) -> dict[str, bytes]:
    """Return the files that may hold the report in JSON: stdout, or one beside it."""
    return {"stdout": output.stdout, **output.files}


class _Report(JsonReport):
    """One report in JSON, after a check that it is complete and does not contradict itself."""

    tool = "bombardier"

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        report = self._read()
        self.spec, self.result = self.table(report, "spec"), self.table(report, "result")
        self.statuses = {100 * digit: self.count(self.result, f"req{digit}xx") for digit in range(1, 6)}
        self.answered, self.unanswered = sum(self.statuses.values()), self.count(self.result, "others")
        self.errors = self._errors()
        self.cut = sum(self.errors.values()) - self.unanswered
        self.seconds = self.number(self.result, "timeTakenSeconds")
        self.rate_per_s = self.number(self.spec, "rate") if "rate" in self.spec else None
        if not self.seconds > 0:
            raise self.refused("a duration of 0 s")
        self.times = self._times() if "latency" in self.result else {}

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        yield from self._status_rows(self.seconds)
        read = self.count(self.result, "bytesRead")
        yield Measurement("bytes_read", "count", read, "B", str(read))
        yield Measurement("bytes_per_s", "value", read / self.seconds, "B/s", None)
        attempts = self.answered + self.unanswered
        if self.unanswered:
            yield Measurement("attempts", "count", attempts, "1", None)
            yield Measurement("attempts_per_s", "value", attempts / self.seconds, "1/s", None)
        if not self.answered:
            return
        metric = self.time_metric
        for statistic, microseconds in self.times.items():
            yield Measurement(metric, statistic, microseconds / US, "s", None)

    @property
    def answered_metric(self) -> str:
        """The metric of the times of attempts with a response."""
        return "service_time" if self.rate_per_s else "latency"

    @property
    def time_metric(self) -> str:
        """The metric of the printed times, which count all attempts."""
        return "attempt_time" if self.unanswered else self.answered_metric

    def load(self) -> dict[str, str]:
        """Return what the report prints of its load."""
        return printed_load(self.spec, {"connections": "numberOfConnections"}, "url")

    def _status_rows(self, seconds: float) -> Iterator[Measurement]:
        """Yield counts and rates. Responses that were cut are errors, and not `ok` if all others are of 2xx or 3xx."""
        ok = self.statuses[200] + self.statuses[300]
        own = {"ok": ok - self.cut, "ok_per_s": (ok - self.cut) / (seconds or 1.0)}
        own["errors"] = self.answered + self.unanswered - own["ok"]
        for row in status_rows(self.statuses, self.errors, self.unanswered, seconds, self.rate_per_s):
            if not self.cut or row.metric not in own:
                yield row
            elif ok == self.answered:
                yield row._replace(value=own[row.metric])

    def _attempt_doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts that JSON and text have in common."""
        attempts = self.answered + self.unanswered
        asked = self.count(self.spec, "numberOfRequests") if "numberOfRequests" in self.spec else 0
        if self.cut:
            text = (
                f"{self.cut} of {self.answered} responses were cut; bombardier counts them by their status, and times"
            )
            yield "cut_answers", f"{text} count them"
        if self.answered and self.unanswered:
            text = f"{self.unanswered} of {attempts} attempts had no response, and bombardier's times count them"
            yield "unanswered", text
        if attempts < asked:
            yield "stopped_early", f"{attempts} attempts of the {asked} requests that were asked for"

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        attempts = self.answered + self.unanswered
        asked_s = self.number(self.spec, "testDurationSeconds") if "testDurationSeconds" in self.spec else 0.0
        yield from self._attempt_doubts()
        yield from timed_load_doubts(f"{attempts} requests", attempts, self.seconds, asked_s, self.rate_per_s)
        if self.output.exit_code:
            yield "exit_code", f"bombardier ended with exit code {self.output.exit_code}"

    def _read(self) -> dict[str, Any]:
        """Return the report; ParseError if there is none, or several."""
        report = self.read_one(_contents(self.output), *MARKS)
        if report is None:
            raise self.refused(self._missing_reason())
        return report

    def _missing_reason(self) -> str:
        """Return the reason why there is no report, derived from the output of bombardier or of another program."""
        lines = line_patterns.clean_lines(self.output.stdout)
        if not any(lines):
            circumstances = line_patterns.exit_text(self.output) + line_patterns.stderr_text(self.output)
            return f"empty: bombardier was killed, could not start, or was told to print nothing{circumstances}"
        if lines[0].startswith(("unknown long flag", "unknown short flag")):
            return f"bombardier refused its arguments{line_patterns.exit_text(self.output)}: {lines[0][:200]}"
        return line_patterns.other_output_text("bombardier", self.output)

    def _errors(self) -> dict[str, int]:
        """Return the failed attempts by class: those without a response, and, of its clients of net/http, cut ones.

        ParseError unless their messages are as many.
        """
        listed = self.result.get("errors", [])
        if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
            raise self.refused("report is not complete: 'errors' is no list")
        messages = ((str(entry.get("description")), self.count(entry, "count")) for entry in listed)
        errors = count_error_classes(messages, FAILURE_PATTERNS)
        is_cut = str(self.spec.get("client", "")).startswith("net/http")
        if not 0 <= sum(errors.values()) - self.unanswered <= (self.answered if is_cut else 0):
            text = f"{sum(errors.values())} errors by message are not the {self.unanswered} attempts without a status"
            raise self.refused(text)
        return errors

    def _times(self) -> dict[str, float]:
        """Return {statistic: microseconds}; ParseError if they contradict each other."""
        latency = self.table(self.result, "latency")
        times = {"mean": self.number(latency, "mean"), "sd": self.number(latency, "stddev")}
        if "percentiles" in latency:
            table = self.table(latency, "percentiles")
            times |= {name: self.number(table, key) for name, key in PERCENTILES.items()}
        times["max"] = self.number(latency, "max")
        ordered = [value for name, value in times.items() if name not in ("mean", "sd")]
        if ordered != sorted(ordered) or times["mean"] > times["max"] * (1 + 1e-9):
            raise self.refused("mean, percentiles and maximum do not ascend")
        return times


class _TextReport(_Report):
    """One text report, which has no duration."""

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        self.text = bombardier_text.read_text(line_patterns.clean_lines(output.stdout))
        self.spec, self.result = self.text.report["spec"], self.text.report["result"]
        self.statuses = {100 * digit: self.count(self.result, f"req{digit}xx") for digit in range(1, 6)}
        self.answered, self.unanswered = sum(self.statuses.values()), self.count(self.result, "others")
        self.errors = self._errors()
        self.cut = sum(self.errors.values()) - self.unanswered
        self.rate_per_s = number_option(output.argv, "r", "rate")
        self.times = self._times() if "latency" in self.result else {}

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, times, and the rate if it is that of the whole load."""
        attempts, per_s = self.answered + self.unanswered, self.text.per_s
        for row in self._status_rows(0.0):
            if row.metric != "duration":
                yield row
        if self.unanswered:
            yield Measurement("attempts", "count", attempts, "1", None)
        if per_s and self.unanswered:
            yield Measurement("attempts_per_s", "value", float(per_s), "1/s", per_s)
        elif per_s and attempts:
            ok = self.statuses[200] + self.statuses[300] - self.cut
            yield Measurement("requests_per_s", "value", float(per_s), "1/s", per_s)
            share = ok / max(1, attempts)
            yield Measurement("ok_per_s", "value", float(per_s) * share, "1/s", per_s if share == 1 else None)
        for row in self._time_rows():
            if not is_coarse(row, base.LARGEST_STEP):
                yield row

    def _time_rows(self) -> Iterator[Measurement]:
        if self.answered:
            metric = self.time_metric
            for statistic, microseconds in self.times.items():
                text = self.text.texts[statistic]
                yield Measurement(metric, statistic, microseconds / US, "s", text, bombardier_text.step_s(text))

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        yield from self._attempt_doubts()
        yield from coarse_doubts("bombardier", self._time_rows())
        if self.output.exit_code:
            yield "exit_code", f"bombardier ended with exit code {self.output.exit_code}"
