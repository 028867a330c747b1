"""fortio 1: its report of http:// and https:// is read, JSON (`-json FILE`) or text; loadbook does not run it.

- `requests` are responses of any status. Calls without one (code -1) are `errors` of no known class, and fortio
  counts them in its times (doubt `unanswered`): JSON then has no times, and a text has them as `attempt_time`.
- The text has six digits of percentiles. With `-quiet` it has no buckets: then percentiles are left out.
- Percentiles are interpolated within buckets of 1 ms or more: p50 of 0.1 ms is printed as 0.5 ms. Those of a bucket
  wider than a quarter of the time are left out, as are those below the minimum, which some versions print. Wider than
  5 % they are doubtful (`coarse_times`); `-r 0.0001` makes buckets finer.
- At a rate, late calls start late: times are `service_time`, far below the users' wait if a server freezes.

Sources: fortio `periodic/periodic.go`, `fhttp/httprunner.go`, `stats/stats.go`; 1.66.5 measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from loadbook.core.errors import OtherProgram
from loadbook.core.go_programs import duration_s
from loadbook.tools import base, fortio_text, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.json_report import JsonReport
from loadbook.tools.request_rows import status_rows, timed_load_doubts

TEXT_SLACK = 6e-6  # share by which a number with six digits can be rounded
NO_STATUS = -1  # fortio's code of a call without a response
_TEXT_LINES = re.compile(r"(Aggregated Function Time :|All done \d+ calls|Ended after )")


class Fortio(base.ImportedTool):
    """fortio; the module docstring defines its metrics."""

    name = "fortio"
    binary = "fortio"
    report_keys = ("RunType", "DurationHistogram")
    report_begin = fortio_text.REPORT_BEGIN
    report_end = fortio_text.REPORT_END

    def parse(self, output: ToolOutput) -> ParsedReport:
        """Return the rows of one report: JSON on stdout (`-json -`) or in a file beside it, else the text."""
        report = _Report(output)
        return ParsedReport(tuple(report.rows()), doubts=tuple(report.doubts()))


TOOL = Fortio()


class _Report(JsonReport):
    """One report in JSON, after a check that it is complete and does not contradict itself."""

    tool = "fortio"
    slack = 1e-9  # share by which numbers can differ from what others say
    text: fortio_text.FortioText | None = None

    def __init__(self, output: ToolOutput) -> None:
        self.output, self.line = output, 0
        self.report = report = self._read()
        self.times = self.table(report, "DurationHistogram")
        self.calls, self.seconds = self.count(self.times, "Count"), self.count(report, "ActualDuration") / 1e9
        codes = self.table(report, "RetCodes")
        if not all(re.fullmatch(r"-1|[1-5]\d\d", code) and type(n) is int and n >= 0 for code, n in codes.items()):
            raise self.refused("RetCodes has a count that is no whole number, or an impossible status")
        self.codes = {int(code): n for code, n in codes.items()}
        self.unanswered = self.codes.pop(NO_STATUS, 0)
        self.answered = sum(self.codes.values())
        self.rate_per_s = self._rate()
        self.percentiles = self._percentiles() if self.calls else {}
        self._check()

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        texts = self.text.texts if self.text else {}
        for row in status_rows(self.codes, {}, self.unanswered, self.seconds, self.rate_per_s):
            yield row._replace(text=texts.get(row.metric, row.text))
        if not self.answered or (self.unanswered and not self.text):
            return
        metric = "attempt_time" if self.unanswered else "service_time" if self.rate_per_s else "latency"
        for statistic, key in (("mean", "Avg"), ("sd", "StdDev"), ("min", "Min"), ("max", "Max")):
            yield Measurement(metric, statistic, self.number(self.times, key), "s", texts.get(key))
        for percent, (value, width) in self.percentiles.items():
            if width <= base.LARGEST_STEP * value:
                yield Measurement(metric, f"p{percent:g}", value, "s", texts.get(f"p{percent:g}"))

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        asked, asked_calls = str(self.report.get("RequestedDuration")), self.count(self.report, "Exactly")
        asked_s = duration_s(asked) or 0.0  # none of a number of calls
        if self.answered and self.unanswered:
            text = f"{self.unanswered} of {self.calls} calls had no response, and fortio's times count them"
            yield "unanswered", text if self.text else f"{text}: left out"
        if self.answered and (self.text or not self.unanswered):
            shares = [width / value for value, width in self.percentiles.values() if value]
            if max(shares, default=0) > base.COARSE_STEP:
                lost = sum(share > base.LARGEST_STEP for share in shares)
                text = "percentiles are interpolated within buckets that are wider than 5 % of the time"
                if math.inf in shares:
                    text = f"{text}, or begin below the minimum"
                yield "coarse_times", f"{text}; {lost} of {len(shares)} left out" if lost else text
        if asked_calls and self.calls < asked_calls:
            yield "stopped_early", f"{self.calls} calls of the {asked_calls} that were asked for"
        yield from timed_load_doubts(f"{self.calls} calls", self.calls, self.seconds, asked_s, self.rate_per_s)
        if self.output.exit_code:
            yield "exit_code", f"fortio ended with exit code {self.output.exit_code}"

    def _read(self) -> dict[str, Any]:
        """Return the report of stdout or of a file; ParseError if there is none, or several."""
        report = self.read_one({"stdout": self.output.stdout, **self.output.files}, "RunType", "DurationHistogram")
        if report is None:
            report = self._read_text()
        if report is None:
            raise self.refused(self._missing_reason())
        if report["RunType"] != "HTTP":
            raise self.refused(
                OtherProgram("no report of HTTP: loadbook reads those of `fortio load` for http:// and https://")
            )
        return report

    def _read_text(self) -> dict[str, Any] | None:
        """Return the text, on stderr or stdout, in the form of the JSON; None if there is none."""
        for file, content in (("stdout", self.output.stdout), ("stderr", self.output.stderr)):
            lines = line_patterns.clean_lines(content)
            if any(_TEXT_LINES.match(line) for line in lines):
                self.text = fortio_text.read_text(lines, file)
                self.slack = TEXT_SLACK
                return self.text.report
        return None

    def _missing_reason(self) -> str:
        """Return the reason why there is no report, derived from the output of fortio or of another program."""
        both = (self.output.stdout + b"\n" + self.output.stderr).decode(errors="replace")
        if "Φορτίο" in both and "usage:" in both:
            return f"fortio printed its usage: an argument was wrong{line_patterns.exit_text(self.output)}"
        if not self.output.stdout.strip():
            circumstances = line_patterns.exit_text(self.output) + line_patterns.stderr_text(self.output)
            return f"empty: fortio was killed, could not start, or wrote its JSON to a file{circumstances}"
        return line_patterns.other_output_text("fortio", self.output)

    def _rate(self) -> float | None:
        """Return the rate that was asked for, 1/s; None for a closed loop."""
        text = self.report.get("RequestedQPS")
        if text == "max":
            return None
        try:
            rate = float(text) if isinstance(text, str) else 0.0
        except ValueError:
            rate = 0.0
        if not 0 < rate < 1e12:
            raise self.refused(f"RequestedQPS is missing, or no rate: {str(text)[:60]!r}")
        return rate

    def _percentiles(self) -> dict[float, tuple[float, float]]:
        """Return {percent: (time, width of its bucket)}, s.

        In some versions the first bucket begins below the minimum, and so do percentiles: their width is infinite.
        """
        low = self.number(self.times, "Min") * (1 - self.slack)
        buckets = [
            (self.number(bucket, "Start"), self.number(bucket, "End"), self.count(bucket, "Count"))
            for bucket in self._list(self.times, "Data")
        ]
        if sum(count for _, _, count in buckets) != self.calls:
            raise self.refused(f"the histogram has not the {self.calls} calls of its count")
        if any(count and end < low for _, end, count in buckets):
            raise self.refused("the histogram has calls below the minimum")
        percentiles = {}
        for entry in self._list(self.times, "Percentiles"):
            value = self.number(entry, "Value")
            slack = self.slack * value
            widths = [end - start for start, end, _ in buckets if start - slack <= value <= end + slack]
            if not widths:
                raise self.refused(f"a percentile, {value:g} s, is in no bucket of the histogram")
            percentiles[self.number(entry, "Percentile")] = (value, min(widths) if value >= low else math.inf)
        return dict(sorted(percentiles.items()))

    def _list(self, table: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
        entries = table.get(key)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise self.refused(f"report is not complete: no list {key!r}")
        return entries

    def _check(self) -> None:
        """Raise ParseError if counts, rate or times contradict each other."""
        if not self.seconds > 0:
            raise self.refused("a duration of 0 s")
        if self.answered + self.unanswered != self.calls:
            text = f"{self.answered + self.unanswered} calls by code are not the {self.calls} of the histogram"
            raise self.refused(text)
        printed = self.number(self.report, "ActualQPS")
        if abs(printed - self.calls / self.seconds) > 1e-6 * printed:
            raise self.refused(f"{self.calls} calls in {self.seconds:g} s are not {printed:g} a second")
        if not self.calls:
            return
        low, mean, high = (self.number(self.times, key) for key in ("Min", "Avg", "Max"))
        ordered = [*(value for value, _ in self.percentiles.values()), high]
        if any(after < before * (1 - self.slack) for before, after in pairwise(ordered)):
            raise self.refused("percentiles and maximum do not ascend")
        if not low * (1 - self.slack) <= mean <= high * (1 + self.slack):
            raise self.refused("minimum, mean and maximum do not ascend")
