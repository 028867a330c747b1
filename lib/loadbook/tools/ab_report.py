"""One ab report as ab means it: what it tells, what it leaves open, and where it contradicts itself."""

from __future__ import annotations

import getopt
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from loadbook.core.errors import ParseError
from loadbook.core.units import COUNT_UNITS, TIME_UNITS_S
from loadbook.tools import text
from loadbook.tools.ab_files import FileSource
from loadbook.tools.ab_forms import ERROR_CLASSES, PERCENTILES, RATE_LINES, TIME_METRICS
from loadbook.tools.base import ToolOutput
from loadbook.tools.text import TextReport

TIMED_REQUESTS = 50_000  # what -t makes of -n
GETOPT_STRING = "n:c:t:s:b:T:p:u:v:lrkVhwiIx:y:z:C:H:P:A:g:X:de:SqB:m:Z:f:E:W:R:"  # ab.c, 2.4.x and trunk
PROGRESS_PREFIXES = (b"Completed ", b"Finished ", b"\n", b"\r\n")  # on stderr


def command_options(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options of an ab command line in their order; [] where there is none or one that ab does not know."""
    try:
        return getopt.getopt(list(argv[1:]), GETOPT_STRING)[0]
    except getopt.GetoptError:
        return []


@dataclass(frozen=True)
class AbReport:
    """One report and what its command asked for."""

    report: TextReport
    output: ToolOutput
    lines: Sequence[str]

    @property
    def files(self) -> dict[str, FileSource]:
        """The files beside the report: their content, or where those lie that are too big to be held."""
        return {**self.output.files, **self.output.paths}

    @property
    def options(self) -> dict[str, str]:
        """Options of the command line; -n as ab understands it: -t sets it to 50,000, a later -n to another number."""
        values: dict[str, str] = {}
        for name, value in command_options(self.output.argv):
            values[name] = value
            if name == "-t":
                values["-n"] = str(TIMED_REQUESTS)
        return values

    def count(self, field: str) -> int:
        """Return a counter of the report."""
        return self.report.count(field)

    @property
    def complete(self) -> int:
        """Requests that ab calls complete: answered, and failed ones too."""
        return self.count("complete")

    @property
    def answered(self) -> int:
        """Requests that may have been answered: none where not a byte came back, whatever ab calls complete."""
        return self.complete if self.count("bytes") else 0

    @property
    def timed_requests(self) -> int:
        """How many times the statistics are made of: all, or in trunk a window of them."""
        return min(self.complete, self.count("window") or self.complete)

    @property
    def failures(self) -> dict[str, int]:
        """Failures by our classes."""
        return {error_class: self.count(field) for field, error_class in ERROR_CLASSES.items()} | {"write": self.count("write")}

    @property
    def percentiles_ms(self) -> dict[int, int]:
        """Percentiles in whole milliseconds, 0 the minimum and 100 the maximum, as far as they are printed."""
        rows = {0: "total_min", **{p: f"p{p}" for p in PERCENTILES}, 100: "total_max"}
        return {p: self.count(field) for p, field in rows.items() if field in self.report}

    @property
    def status_classes(self) -> Counter[str]:
        """Classes of the answers that were not 2xx, which ab prints from -v 2 on; empty unless all were printed."""
        matches = (re.fullmatch(r"WARNING: Response code not 2xx \((.)..\)", line) for line in self.lines)
        classes = Counter(match[1] for match in matches if match)
        return classes if sum(classes.values()) == self.count("non2xx") else Counter()

    @property
    def status_errors(self) -> int | None:
        """Answers of status 400 and above; None where ab does not tell them from redirects."""
        if not self.count("non2xx"):
            return 0
        return sum(n for code, n in self.status_classes.items() if code not in "123") if self.status_classes else None

    @property
    def ok(self) -> int | None:
        """Good answers; None where ab does not tell: classes that overlap, or answers that were not 2xx."""
        if not self.answered:
            return 0
        failed = [n for n in (*self.failures.values(), self.status_errors) if n != 0]
        if None in failed or len(failed) > 1:
            return None
        ok = self.complete - (failed[0] or 0 if failed else 0)
        return ok if ok >= 0 else None


def require_ab_report(output: ToolOutput, lines: Sequence[str]) -> None:
    """Raise a ParseError that says why there is no report; progress on stderr is not a reason."""
    if any(re.match(r" *This is ApacheBench, Version \S+ <i>", line) for line in lines):
        raise ParseError("ab", "stdout", 0, "this is the HTML of ab -w, which lacks the percentiles: run without -w")
    stderr = b"".join(line for line in output.stderr[:100_000].splitlines(True) if not line.startswith(PROGRESS_PREFIXES))
    try:
        text.require_report("ab", replace(output, stderr=stderr.lstrip()), lines, "This is ApacheBench", "HTML transferred:")
    except ParseError as error:
        for line in lines:
            if match := re.fullmatch(r"Total of (\d+) requests completed", line):
                what = f"ab gave up after {match[1]} requests: {error.reason}"
                raise ParseError("ab", "stdout", 0, what) from None
        raise


def check_report(run: AbReport) -> None:
    """Raise ParseError where the report is not whole or contradicts itself (formats.md 6.5)."""
    report, complete = run.report, run.complete
    if run.count("failed") and "classes" not in report:
        raise report.error_at("failed", "report is not complete: the line with the classes of failures is missing")
    overlapping = run.count("failed") != sum(run.count(field) for field in ERROR_CLASSES)
    if overlapping and "workers" not in report:  # trunk counts requests, 2.4 the sum
        raise report.error_at("classes", "the classes of failures do not add up to their total")
    if run.count("non2xx") > complete + run.count("concurrency"):  # the last ones may have been left half read
        raise report.error_at("non2xx", "more answers that are not 2xx than requests")
    present = [line_name in report for line_name in RATE_LINES]
    if any(present) != all(present) or (not present[0] and complete and report.value("duration", TIME_UNITS_S, "s") > 0):
        raise report.error_at("complete", "report is not complete: the lines with rates are missing")
    if present[0]:
        _check_rates(report)
    if complete:
        _check_times(run)


def _check_rates(report: TextReport) -> None:
    """Raise ParseError unless rates follow from counts and duration."""
    lasted = (report.value("duration", TIME_UNITS_S, "s"), 0.0005)
    text.check_rate(report, (report.count("complete"), 0), lasted, "rate")
    text.check_rate(report, (report.count("bytes") / 1024, 0), lasted, "transfer")
    per_request = report.count("bytes") / 1024 / report.count("complete")  # known better than by the duration
    rate, transfer = report.value("rate", COUNT_UNITS), report.value("transfer", COUNT_UNITS)
    if abs(rate * per_request - transfer) > 0.00501 * (1 + per_request) + 1e-9 * transfer:
        raise report.error_at("transfer", f"{report.text('transfer')} does not follow from {per_request:g} KB a request")


def _check_times(run: AbReport) -> None:
    """Raise ParseError unless the percentiles are all there, or all absent for a reason, and times ascend."""
    report = run.report
    present = [line_name in report for line_name in ("table", *(f"row{p}" for p in (*PERCENTILES, 100)))]
    absent = run.timed_requests == 1 or "-d" in run.options
    if any(present) != all(present) or not (present[0] or absent):
        raise report.error_at("total_times", "report is not complete: the table of percentiles is missing or cut")
    for row in TIME_METRICS:
        fields = [f"{row}_{statistic}" for statistic in ("min", "p50", "max")]
        for order in ([f for f in fields if f in report], [f"{row}_min", f"{row}_mean", f"{row}_max"]):
            if (values := [report.count(f) for f in order]) != sorted(values):
                raise report.error_at(f"{row}_times", "minimum, mean, median and maximum do not ascend")
    percentiles = list(run.percentiles_ms.values())
    if percentiles != sorted(percentiles) or (present[0] and report.count("p100") != report.count("total_max")):
        raise report.error_at("total_times", "percentiles do not ascend to the maximum")
    if present[0] and "total_p50" in report and report.count("total_p50") < report.count("p50"):
        raise report.error_at("total_times", "the median is below the table's 50 %")
