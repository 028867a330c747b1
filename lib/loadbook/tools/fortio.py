"""fortio 1: its report of http:// and https:// is read, JSON (`-json FILE`) or text; loadbook does not run it.

- `requests` are responses of any status. Calls without one (code -1) are `errors` of no known class, and fortio
  counts them in its times (doubt `unanswered`), which are then `attempt_time`. Where its histogram of errors has only
  such calls, they are subtracted: mean and percentiles of the others are there, and minimum or maximum if it is theirs.
- The text has six digits of percentiles. With `-quiet` it has no buckets: then percentiles are left out.
- Percentiles are interpolated within buckets of 1 ms or more: p50 of 0.1 ms is printed as 0.5 ms. Those of a bucket
  wider than a quarter of the time are left out, as are those below the minimum, which some versions print. Wider than
  5 % they are doubtful (`coarse_times`), as are those that mean and deviation of the same report disprove.
  `-r 0.0001` makes buckets finer.
- At a rate, late calls start late: times are `service_time`, far below the users' wait if a server freezes.

Sources: fortio `periodic/periodic.go`, `fhttp/httprunner.go`, `stats/stats.go`; 1.66.5 measured.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from loadbook.core.bucketed_times import Bucket, BucketedTimes
from loadbook.core.errors import OtherProgram
from loadbook.core.go_programs import duration_s
from loadbook.tools import base, fortio_text, line_patterns
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from loadbook.tools.json_report import JsonReport, printed_load
from loadbook.tools.request_rows import status_rows, timed_load_doubts, with_hardly_moved

TEXT_SLACK = 6e-6  # share by which a number with six digits can be rounded
DEVIATION_SLACK = 1e-3  # share by which a deviation with four digits can be rounded
SUM_SLACK = 1e-6  # below this share of all times, those of answered calls are lost in the rounding of the sums
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
        rows, doubts, bucketed = tuple(report.rows()), tuple(report.doubts()), report.bucketed()
        load = printed_load(report.report, {"connections": "NumThreads"}, "URL")
        parsed = ParsedReport(rows, doubts=doubts, bucketed=bucketed, load=load)
        return with_hardly_moved(parsed, report.answered_metric, report.unanswered, report.calls)


TOOL = Fortio()


class _Separated(NamedTuple):
    """Times of calls with a response: statistics in s as far as known, and {percent: (time, width of its bucket)}."""

    statistics: dict[str, float]
    percentiles: dict[float, tuple[float, float]]


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
        self.separated = self._separated()

    def rows(self) -> Iterator[Measurement]:
        """Yield counts, rates and times."""
        texts = self.text.texts if self.text else {}
        for row in status_rows(self.codes, {}, self.unanswered, self.seconds, self.rate_per_s):
            yield row._replace(text=texts.get(row.metric, row.text))
        if not self.answered:
            return
        if self.separated:
            for statistic, seconds in self.separated.statistics.items():
                yield Measurement(self.answered_metric, statistic, seconds, "s", None)
            for percent, (value, width) in self.separated.percentiles.items():
                if width <= base.LARGEST_STEP * value:
                    yield Measurement(self.answered_metric, f"p{percent:g}", value, "s", None)
        metric = self.time_metric
        for statistic, key in (("mean", "Avg"), ("sd", "StdDev"), ("min", "Min"), ("max", "Max")):
            yield self._time_row(metric, statistic, self.number(self.times, key), texts.get(key))
        for percent, (value, width) in self.percentiles.items():
            if width <= base.LARGEST_STEP * value and not self._is_disproved(percent, value):
                yield self._time_row(metric, f"p{percent:g}", value, texts.get(f"p{percent:g}"))

    @property
    def answered_metric(self) -> str:
        """The metric of the times of attempts with a response."""
        return "service_time" if self.rate_per_s else "latency"

    @property
    def time_metric(self) -> str:
        """The metric of the printed times, which count all attempts."""
        return "attempt_time" if self.unanswered else self.answered_metric

    def bucketed(self) -> dict[str, BucketedTimes]:
        """Return the buckets of the times of all calls, by their metric; fortio interpolates within them."""
        if not self.answered:
            return {}
        return {self.time_metric: BucketedTimes(self.calls, tuple(self._buckets(self.times)))}

    def _time_row(self, metric: str, statistic: str, value: float, text: str | None) -> Measurement:
        return Measurement(metric, statistic, value, "s", text, fortio_text.step_s(statistic, text) if text else None)

    def doubts(self) -> Iterator[tuple[str, str]]:
        """Yield the doubts about the numbers, as (name, sentence)."""
        asked, asked_calls = str(self.report.get("RequestedDuration")), self.count(self.report, "Exactly")
        asked_s = duration_s(asked) or 0.0  # none of a number of calls
        if self.answered and self.unanswered:
            text = f"{self.unanswered} of {self.calls} calls had no response, and fortio's times count them"
            yield "unanswered", f"{text}: subtracted where its histogram of errors allows" if self.separated else text
        if self.answered and (text := self._coarse_text()):
            yield "coarse_times", text
        if asked_calls and self.calls < asked_calls:
            yield "stopped_early", f"{self.calls} calls of the {asked_calls} that were asked for"
        yield from timed_load_doubts(f"{self.calls} calls", self.calls, self.seconds, asked_s, self.rate_per_s)
        if self.output.exit_code:
            yield "exit_code", f"fortio ended with exit code {self.output.exit_code}"

    def _coarse_text(self) -> str:
        """Return what is wrong with percentiles that are interpolated within wide buckets; "" if they are narrow."""
        shares = [width / value for value, width in self.percentiles.values() if value]
        disproved = sum(self._is_disproved(percent, value) for percent, (value, _) in self.percentiles.items())
        if max(shares, default=0) <= base.COARSE_STEP and not disproved:
            return ""
        text = "percentiles are interpolated within buckets that are wider than 5 % of the time"
        if math.inf in shares:
            text = f"{text}, or begin below the minimum"
        wide = sum(share > base.LARGEST_STEP for share in shares)
        either = sum(
            width > base.LARGEST_STEP * value or self._is_disproved(percent, value)
            for percent, (value, width) in self.percentiles.items()
        )
        text = f"{text}; {either} of {len(shares)} left out" if either else text
        return f"{text}, since mean and sd of the same report disprove them" if either > wide == 0 else text

    def _is_disproved(self, percent: float, value: float) -> bool:
        """Return whether a percentile cannot go with mean and deviation of the same times (Cantelli's inequality)."""
        mean, deviation, share = self.number(self.times, "Avg"), self.number(self.times, "StdDev"), percent / 100
        if not 0 < share < 1:
            return False
        low = mean - deviation * math.sqrt((1 - share) / share)
        high = mean + deviation * math.sqrt(share / (1 - share))
        slack = DEVIATION_SLACK * deviation + self.slack * value
        return not low - slack <= value <= high + slack

    def _separated(self) -> _Separated | None:
        """Return the times without those of calls that had no response; None if fortio mixes in failed statuses."""
        errors = self.report.get("ErrorsDurationHistogram")
        if not self.answered or not isinstance(errors, dict) or self.count(errors, "Count") != self.unanswered:
            return None
        if not self.unanswered:
            return None
        (low, high, total), (low_failed, high_failed, failed) = (
            [self.number(table, key) for key in ("Min", "Max", "Sum")] for table in (self.times, errors)
        )
        if low_failed < low * (1 - self.slack) or high_failed > high * (1 + self.slack) or failed > total:
            raise self.refused("the times of the failed calls are not among those of all calls")
        statistics = {"mean": (total - failed) / self.answered} if total - failed > SUM_SLACK * total else {}
        statistics |= {"min": low} if low < low_failed else {}
        statistics |= {"max": high} if high > high_failed else {}
        return _Separated(statistics, self._answered_percentiles(self._buckets(errors)))

    def _answered_percentiles(self, failed: Sequence[Bucket]) -> dict[float, tuple[float, float]]:
        """Return the percentiles of calls with a response, interpolated as fortio does, and the widths of buckets."""
        buckets = self._buckets(self.times)
        left = [bucket.number for bucket in buckets]
        for lost in failed:
            low, high = lost.low * (1 + self.slack), lost.high * (1 - self.slack)
            place = next((at for at, bucket in enumerate(buckets) if bucket.low <= low and high <= bucket.high), None)
            if place is None:  # the limits of the two histograms are others
                return {}
            if left[place] < lost.number:
                raise self.refused("the failed calls are not among those of the histogram")
            left[place] -= lost.number
        percentiles = {}
        for percent in self.percentiles:
            below, target = 0, percent / 100 * self.answered
            for bucket, count in zip(buckets, left, strict=True):
                if count and below + count >= target:
                    width = bucket.high - bucket.low
                    percentiles[percent] = (bucket.low + (target - below) / count * width, width)
                    break
                below += count
        return percentiles

    def _read(self) -> dict[str, Any]:
        """Return the report of stdout or of a file; ParseError if there is none, or several."""
        report = self.read_one({"stdout": self.output.stdout, **self.output.files}, *TOOL.report_keys)
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
        low, buckets = self.number(self.times, "Min") * (1 - self.slack), self._buckets(self.times)
        if sum(count for _, _, count, _ in buckets) != self.calls:
            raise self.refused(f"the histogram has not the {self.calls} calls of its count")
        if any(count and end < low for _, end, count, _ in buckets):
            raise self.refused("the histogram has calls below the minimum")
        percentiles = {}
        for entry in self._list(self.times, "Percentiles"):
            value = self.number(entry, "Value")
            slack = self.slack * value
            widths = [end - start for start, end, *_ in buckets if start - slack <= value <= end + slack]
            if not widths:
                raise self.refused(f"a percentile, {value:g} s, is in no bucket of the histogram")
            percentiles[self.number(entry, "Percentile")] = (value, min(widths) if value >= low else math.inf)
        return dict(sorted(percentiles.items()))

    def _buckets(self, table: Mapping[str, Any]) -> list[Bucket]:
        return [
            Bucket(self.number(bucket, "Start"), self.number(bucket, "End"), self.count(bucket, "Count"))
            for bucket in self._list(table, "Data")
        ]

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
