"""What JMeter left behind: which of its files holds the samples, what its console says, and the rows of both.

The samples are read by `loadbook.requests`, as exact figures of any number of them; the console's summary is held
against them. It is JMeter's own count of the last run: results of several runs in one file do not agree with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from loadbook.core.errors import ParseError
from loadbook.tools import text
from loadbook.tools.base import ToolOutput, Measurement

if TYPE_CHECKING:
    from loadbook.requests.histogram import Histogram
    from loadbook.requests.summary import Summary, Tally

RESULTS_FILE = "results.jtl"
STATISTIC_PERCENTS = {"min": 0.0, **{f"p{p:g}": p for p in (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)}, "max": 100.0}
# damage (requests.rows) where something was that is no row
REJECTED_DAMAGE = ("torn", "nul", "header")
COARSE_S = 0.010  # under this, a rounding of half a millisecond is more than the margin of 5 % for times
# header, XML, or a row that begins with a time stamp
_JTL_START = re.compile(rb"\s*(<\?xml|<testResults)|[\w,;\t|\"]*\belapsed\b|\d{13}[,;\t|]|\d{2,4}[/-]\d\d[/-]\d\d")
_END_OF_RUN = re.compile(r"\.\.\. end of run")
_TOTALS = re.compile(r"summary = +(\d+) in .*Avg: +(\d+) Min: +(\d+) Max: +(\d+) Err: +(\d+) ")
_FAILED = re.compile(r"An error occurred: |Error in NonGUIDriver ")


def find_results(output: ToolOutput) -> tuple[str, bytes | Path]:
    """Return the name of the file with the samples, and its content or place; ParseError if there is none."""
    files: dict[str, bytes | Path] = {**output.files, **output.paths}
    jtl_files = {name: data for name, data in files.items() if name.endswith(".jtl")}
    if RESULTS_FILE in jtl_files or len(jtl_files) == 1:
        name = RESULTS_FILE if RESULTS_FILE in jtl_files else next(iter(jtl_files))
        return name, jtl_files[name]
    if jtl_files:
        raise ParseError("jmeter", "stdout", 0, f"several files of results: {', '.join(jtl_files)}; name the one to read")
    if "stdout" in output.paths:
        return "stdout", output.paths["stdout"]
    if _JTL_START.match(output.stdout.removeprefix(b"\xef\xbb\xbf").lstrip(b"\0")):
        return "stdout", output.stdout
    raise ParseError("jmeter", "stdout", 0, _missing_results_reason(output))


def command_properties(output: ToolOutput) -> dict[str, str] | None:
    """Return the properties of the command line, None where that is not known."""
    words = [word[2:].partition("=") for word in output.argv if word.startswith("-J")]
    return {name: value for name, _, value in words} if output.argv else None


def summary_totals(output: ToolOutput) -> dict[str, int] | None:
    """Return the console's last summary by name, None unless it is there and the run came to its end."""
    console = "\n".join(text.clean_lines(output.stdout))
    if len(_END_OF_RUN.findall(console)) > 1:
        raise ParseError("jmeter", "stdout", 0, "two runs in one output; give each a file of its own")
    summaries = list(_TOTALS.finditer(console))
    if not summaries or not _END_OF_RUN.search(console, summaries[-1].end()):
        return None
    return dict(zip(("samples", "mean", "min", "max", "errors"), map(int, summaries[-1].groups()), strict=True))


def check_against_summary(file: str, figures: Summary, summary: dict[str, int] | None) -> None:
    """Raise ParseError unless samples and times are those of JMeter's own summary.

    With transactions they are not compared: JMeter's summary then leaves requests out (apache/jmeter Summariser.java).
    """
    from loadbook.requests.rows import LogRowKind

    total = figures.total()
    if summary is None or figures.rows[LogRowKind.TRANSACTION] or figures.damage_counts:
        return
    times = total.latency
    totals = {"samples": total.attempts}
    if times.count == total.attempts > 0:
        totals |= {"min": round(times.percentile_s(0) * 1000), "max": round(times.percentile_s(100) * 1000)}
    if different := [name for name, value in totals.items() if value != summary[name]]:
        differences = ", ".join(f"{name} {totals[name]} (summary: {summary[name]})" for name in different)
        raise ParseError(
            "jmeter", file, 0, f"not the samples of JMeter's own summary: {differences}; several runs in one file?"
        )


def measurements(figures: Summary, offered_per_s: float | None) -> Iterator[Measurement]:
    """Yield counts, rates and times; all are derived from samples, so that none has a text."""
    total, duration_s = figures.total(), figures.duration_s
    yield _count_row("requests", total.answered)
    yield _count_row("ok", total.ok)
    if duration_s or not total.attempts:
        for metric, n in (("requests_per_s", total.answered), ("ok_per_s", total.ok)):
            yield Measurement(metric, "value", n / duration_s if duration_s else 0.0, "1/s", None)
    if offered_per_s is not None:
        yield Measurement("offered_per_s", "value", offered_per_s, "1/s", None)
    if duration_s is not None:
        yield Measurement("duration", "value", duration_s, "s", None)
    yield from _outcome_rows(total)
    if total.received is not None:
        yield Measurement("bytes_read", "count", total.received, "B", None)
        if duration_s:
            yield Measurement("bytes_per_s", "value", total.received / duration_s, "B/s", None)
    for metric, times in _time_histograms(total).items():
        yield from (Measurement(metric, s, v, "s", None) for s, v in _time_statistics(times))


def _count_row(metric: str, value: int) -> Measurement:
    return Measurement(metric, "count", value, "1", None)


def _outcome_rows(total: Tally) -> Iterator[Measurement]:
    """Yield errors by class, and answers by class of status where the samples have any."""
    from loadbook.requests.rows import OUTCOMES

    yield _count_row("errors", total.errors)
    for name in OUTCOMES:
        if name not in ("ok", "errors_length"):  # a length JMeter checks only by assertions
            yield _count_row(name, total.outcomes[name])
    if total.classes[0] < total.answered:
        for digit in range(1, 6):
            yield _count_row(f"status_{digit}xx", total.classes[digit])


def _time_histograms(total: Tally) -> dict[str, Histogram]:
    """Return the distributions that are there; none without an answer."""
    if not total.answered:
        return {}
    histograms = {"latency": total.latency, "ttfb": total.first_byte, "connect_time": total.connect}
    return {metric: times for metric, times in histograms.items() if times.count}


def _time_statistics(times: Histogram) -> Iterator[tuple[str, float]]:
    yield "mean", times.mean_s()
    if (deviation := times.sd_s()) is not None:
        yield "sd", deviation
    for statistic, percent in STATISTIC_PERCENTS.items():
        yield statistic, times.percentile_s(percent)


def times_us(figures: Summary) -> dict[str, dict[int, int]]:
    """Return how often each time occurred, by metric, so that drivers can be put together."""
    cells = {metric: times.cells for metric, times in _time_histograms(figures.total()).items()}
    return {metric: dict(zip(v.tolist(), n.tolist(), strict=True)) for metric, (v, n) in cells.items()}


def sample_span(figures: Summary) -> tuple[float, float] | None:
    """Return first start and last end of the samples, epoch seconds; None where the file has no times of day."""
    if figures.first_start_us is None or figures.last_end_us is None:
        return None
    return figures.first_start_us / 1e6, figures.last_end_us / 1e6


def result_doubts(file: str, figures: Summary, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield what makes the numbers mean less than they seem to."""
    from loadbook.requests.rows import LogRowKind

    total = figures.total()
    for name, n in figures.damage_counts.items():
        first = next(damage for damage in figures.damage if damage.name == name)
        more = f" (the first of {n})" if n > 1 else ""
        yield name, f"{file}:{first.line}: {first.message}{more}"
    if total.attempts > total.answered > 0:
        unanswered = total.attempts - total.answered
        yield "unanswered", f"times are also of {unanswered} samples that had no answer, as JMeter counts them"
    if figures.rows[LogRowKind.AGGREGATE]:
        yield "aggregated", f"{figures.rows[LogRowKind.AGGREGATE]} rows stand for several requests each: they have no times"
    if total.attempts and figures.duration_s is None:
        yield "no_times", f"{file} has no time stamps: neither duration nor rates are known"
    if total.answered and total.latency.count and total.latency.mean_s() < COARSE_S:
        yield "whole_ms", "JMeter has whole milliseconds only, too coarse for times this short"
    yield from _ending_doubts(file, total, output)


def _ending_doubts(file: str, total: Tally, output: ToolOutput) -> Iterator[tuple[str, str]]:
    """Yield doubts about how the run ended, where that is known."""
    properties = command_properties(output) or {}
    threads_and_loops = [properties.get(name, "") for name in ("threads", "loops")]
    expected = int(threads_and_loops[0]) * int(threads_and_loops[1]) if all(re.fullmatch(r"\d{1,9}", word) for word in threads_and_loops) else 0
    if file != "stdout" and output.stdout and not _END_OF_RUN.search("\n".join(text.clean_lines(output.stdout))):
        yield "stopped_early", "JMeter did not come to the end of its run: samples that it had not written yet are lost"
    elif total.attempts < expected:
        yield "stopped_early", f"{total.attempts} samples, fewer than the {expected} requests that were asked for"
    if output.exit_code:
        yield "exit_code", f"JMeter ended with exit code {output.exit_code}"


def _missing_results_reason(output: ToolOutput) -> str:
    """Return why there are no results, from what JMeter or another program printed."""
    lines = [line for line in text.clean_lines(output.stdout) if line and "StatusConsoleListener" not in line]
    code = f" (exit code {output.exit_code})" if output.exit_code else ""
    if not lines:
        return f"empty: the tool was killed or could not start{code}"
    failed = next((line for line in lines if _FAILED.match(line)), None)
    if failed and "ForbiddenClassException" in failed:
        return f"JMeter could not load the plan, as Debian's package 2.13 never can: {failed[:200]}"
    if failed:
        return f"JMeter ended without results{code}: {failed[:200]}"
    if any("_ \\" in line or "JMeter" in line for line in lines[:8]):
        return f"JMeter printed its usage or its version, and there is no file with results{code}"
    return f"no report of jmeter in it{code}; it begins {lines[0][:60]!r}"
