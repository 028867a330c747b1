"""Rows of a report computed from the summary of a log of single requests, for every tool that writes such a log."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from loadbook.tools.base import (
    COARSE_STEP,
    MIN_ACHIEVED_SHARE,
    MIN_DURATION_SHARE,
    Measurement,
    ParsedReport,
    Sample,
)

if TYPE_CHECKING:
    from loadbook.request_logs.summary import Histogram, Summary

# attempts without a response, as a share of those beyond a percentile, that may be among its times
FEW_SHARE = 0.02
STATISTIC_PERCENTS = {"min": 0.0, **{f"p{p:g}": p for p in (50.0, 75.0, 90.0, 95.0, 99.0, 99.9)}, "max": 100.0}


def measurements(figures: Summary, time_metric: str, offered_per_s: float | None) -> Iterator[Measurement]:
    """Yield counts, rates and times; all are computed from the log, so `text` is None.

    `time_metric` is the metric of the log's times of requests: "latency" or "service_time". `offered_per_s` is the
    requested rate (1/s), None for a closed loop.
    """
    from loadbook.request_logs.stream import OUTCOMES

    total, duration_s = figures.total(), figures.duration_s
    yield Measurement("requests", "count", total.answered, "1", None)
    yield Measurement("ok", "count", total.ok, "1", None)
    if duration_s or not total.attempts:
        for metric, n in (("requests_per_s", total.answered), ("ok_per_s", total.ok)):
            yield Measurement(metric, "value", n / duration_s if duration_s else 0.0, "1/s", None)
    if offered_per_s is not None:
        yield Measurement("offered_per_s", "value", offered_per_s, "1/s", None)
    if duration_s is not None:
        yield Measurement("duration", "value", duration_s, "s", None)
    counts = {"errors": total.errors}
    # no tool with such a log checks the length of responses, except JMeter by assertions
    counts |= {name: total.outcomes[name] for name in OUTCOMES if name not in ("ok", "errors_length")}
    if total.classes[0] < total.answered:  # requests have a status
        counts |= {f"status_{digit}xx": total.classes[digit] for digit in range(1, 6)}
    yield from (Measurement(metric, "count", n, "1", None) for metric, n in counts.items())
    received = total.received if total.received is not None else figures.received_apart
    if received is not None:
        yield Measurement("bytes_read", "count", received, "B", None)
        if duration_s:
            yield Measurement("bytes_per_s", "value", received / duration_s, "B/s", None)
    for metric, times in _time_histograms(figures, time_metric).items():
        yield from time_rows(metric, times)


def with_hardly_moved(report: ParsedReport, metric: str, unanswered: int, attempts: int) -> ParsedReport:
    """Return the report with percentiles of all attempts also as `metric`, that of answered ones, where this is so.

    The rank of a percentile among the answered attempts differs from that among all by at most `unanswered`. It must be
    at most FEW_SHARE of the attempts beyond the percentile, on the side with fewer of them: 20 of 100,000 for p99.
    """
    present = {(row.metric, row.statistic) for row in report.measurements}
    kept = []
    for row in report.measurements:
        percent = re.fullmatch(r"p(\d+(?:\.\d+)?)", row.statistic)
        if not percent or row.metric != "attempt_time" or (metric, row.statistic) in present:
            continue
        beyond = attempts * min(float(percent[1]), 100.0 - float(percent[1])) / 100.0
        if unanswered <= FEW_SHARE * beyond:
            kept.append(row._replace(metric=metric))
    if not kept:
        return report
    names = ", ".join(row.statistic for row in kept)
    doubts = tuple(
        (name, f"{text}; {names} stand as {metric}, too, since so few hardly move them")
        if name in ("unanswered", "failed_unknown")
        else (name, text)
        for name, text in report.doubts
    )
    return replace(report, measurements=(*report.measurements, *kept), doubts=doubts)


def per_second_samples(figures: Summary) -> Iterator[Sample]:
    """Yield rates (requests, ok; 1/s) and errors by the clock second in which requests ended.

    x counts seconds from the first one, which is 0; the first and the last are usually partial. Where a log has over a
    day of seconds without requests, these are left out.
    """
    for second, answered, ok, errors in figures.per_second_counts():
        yield Sample("ended", "requests_per_s", second, "s", answered, "1/s")
        yield Sample("ended", "ok_per_s", second, "s", ok, "1/s")
        yield Sample("ended", "errors", second, "s", errors, "1")


def time_rows(metric: str, times: Histogram) -> Iterator[Measurement]:
    """Yield mean, sd, min, max and percentiles (nearest rank) in s; ValueError if `times` is empty."""
    statistics = {"mean": times.mean_s(), "sd": times.sd_s()}
    statistics |= {name: times.percentile_s(percent) for name, percent in STATISTIC_PERCENTS.items()}
    for name, value in statistics.items():
        if value is not None:
            yield Measurement(metric, name, value, "s", None)


def status_rows(
    statuses: Mapping[int, int],
    failures: Mapping[str, int],
    unanswered: int,
    seconds: float | None,
    offered_per_s: float | None = None,
) -> Iterator[Measurement]:
    """Yield counts and rates of responses by status, and of `unanswered` attempts without one.

    Parameters
    ----------
    statuses : HTTP status -> number of responses.
    failures : class of errors, such as `errors_timeout` -> number of attempts without a response, as far as known.
        Responses of status 1xx are added to `errors_other` if that is a key.
    seconds : duration of the load; if it is 0, rates are left out, or are 0 without responses. None if it is not
        known: neither rates nor a duration.
    offered_per_s : requested rate (1/s); None or 0 for a closed loop.
    """
    by_class = {digit: sum(n for code, n in statuses.items() if code // 100 == digit) for digit in range(1, 6)}
    answered, ok = sum(statuses.values()), by_class[2] + by_class[3]
    failed_status = sum(n for code, n in statuses.items() if code >= 400)
    yield Measurement("requests", "count", answered, "1", None)
    yield Measurement("ok", "count", ok, "1", None)
    if seconds is not None and (seconds > 0 or not answered):
        for metric, n in (("requests_per_s", answered), ("ok_per_s", ok)):
            yield Measurement(metric, "value", n / seconds if seconds > 0 else 0.0, "1/s", None)
    if offered_per_s:
        yield Measurement("offered_per_s", "value", offered_per_s, "1/s", None)
    if seconds is not None:
        yield Measurement("duration", "value", max(0.0, seconds), "s", None)
    yield Measurement("errors", "count", unanswered + answered - ok, "1", None)
    yield Measurement("errors_status", "count", failed_status, "1", None)
    for name, count in failures.items():
        other = answered - ok - failed_status if name == "errors_other" else 0
        yield Measurement(name, "count", count + other, "1", None)
    for digit, count in by_class.items():
        codes = {code: n for code, n in statuses.items() if n and code // 100 == digit >= 4}
        text = ", ".join(f"{code}: {codes[code]}" for code in sorted(codes, key=lambda code: -codes[code]))
        yield Measurement(f"status_{digit}xx", "count", count, "1", text or None)


def is_coarse(row: Measurement, share: float = COARSE_STEP) -> bool:
    """Return whether the step to which the tool rounded a time is larger than this share of it."""
    return (row.resolution or 0.0) > share * row.value


def coarse_doubts(tool: str, times: Iterable[Measurement]) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) of the doubt that a tool's text rounds some of these times too much to tell them apart."""
    if coarse := next(filter(is_coarse, times), None):
        yield "coarse_times", f"{tool}'s text rounds times by more than {COARSE_STEP:.0%}, such as {coarse.text!r}"


def timed_load_doubts(
    made: str,
    attempts: int,
    seconds: float,
    asked_s: float,
    rate_per_s: float | None,
    why_late: str = "all connections were waiting",
) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) of the doubt that a load ended early, or else that it fell behind its rate.

    Parameters
    ----------
    made : the number of attempts with its noun, such as "95 calls", for the sentence.
    seconds, asked_s : measured and requested duration in s; `asked_s` is 0 if not known, and then there is no doubt.
    rate_per_s : requested rate (1/s); None for a closed loop.
    why_late : the reason in the sentence about the rate.
    """
    due = (rate_per_s or 0.0) * asked_s
    if seconds < MIN_DURATION_SHARE * asked_s:
        yield "stopped_early", f"the load lasted {seconds:.3g} s of the {asked_s:g} s that were asked for"
    elif attempts < MIN_ACHIEVED_SHARE * due - 1:
        yield "offered_shortfall", f"{made} in {asked_s:g} s, of {due:.0f} that were due: {why_late}"


def damage_doubts(file: str, figures: Summary) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) of a doubt for each kind of damage in a log, with the line of the first, if any."""
    for name, count in figures.damage_counts.items():
        first = next(damage for damage in figures.damage if damage.name == name)
        more = f" (the first of {count})" if count > 1 else ""
        place = f"{file}:{first.line}" if first.line else file
        yield name, f"{place}: {first.message}{more}"


def log_report(
    figures: Summary,
    time_metric: str,
    offered_per_s: float | None,
    doubts: Iterable[tuple[str, str]],
    rejected: Collection[str],
) -> ParsedReport:
    """Return the report of a log; `rejected` has the names of damage that means lost or unreadable rows."""
    return ParsedReport(
        tuple(measurements(figures, time_metric, offered_per_s)),
        tuple(per_second_samples(figures)),
        tuple(doubts),
        times_us(figures, time_metric),
        span(figures),
        {name: n for name, n in figures.damage_counts.items() if name in rejected},
    )


def times_us(figures: Summary, time_metric: str) -> dict[str, dict[int, int]]:
    """Return {metric: {time in us: number of requests}}; adding the numbers merges several drivers."""
    return {metric: times.times_us() for metric, times in _time_histograms(figures, time_metric).items()}


def span(figures: Summary) -> tuple[float, float] | None:
    """Return (first start, last end) of the requests in epoch seconds; None if the log has no exact times of day."""
    if figures.first_start_us is None or figures.last_end_us is None:
        return None
    return figures.first_start_us / 1e6, figures.last_end_us / 1e6


def _time_histograms(figures: Summary, time_metric: str) -> dict[str, Histogram]:
    """Return a histogram for each metric of time that was measured; an empty result if no request got a response.

    `ttfb` is absent if it is 0 in every row, as with JMeter's samplers that do not measure it (Apiritif, UDP, SOAP).
    """
    total = figures.total()
    if not total.answered:
        return {}
    histograms = {
        time_metric: total.latency,
        "latency_intended": figures.intended,
        "ttfb": total.first_byte,
        "connect_time": total.connect,
    }
    if total.first_byte.count and total.first_byte.percentile_s(100) == 0:
        del histograms["ttfb"]
    return {metric: times for metric, times in histograms.items() if times.count}
