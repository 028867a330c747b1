"""Registry of metrics: unit, better direction and meaning (docs/reference/tables.md is made from it).

Tables, colours and words such as "faster" are derived from this registry. Base units are s, B, 1/s, B/s and 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from loadbook.core.errors import unknown_name_error

Direction = Literal["higher", "lower"]
MetricKind = Literal["rate", "time", "cost", "errors", "other"]


@dataclass(frozen=True)
class Metric:
    """One metric that loadbook knows.

    ``better`` is None if neither direction is better; ``kind`` selects the words (faster, shorter, less, fewer).
    ``noun`` is the metric's name in a sentence ("has a shorter NOUN"), ``label`` the one on axes; default of both:
    the name. ``margin`` is the default of the smallest difference that matters (a ratio). ``is_compared`` is False
    for a metric that is held against an objective, not compared between treatments.
    """

    name: str
    unit: str
    better: Direction | None
    meaning: str
    kind: MetricKind = "other"
    default_statistic: str = "value"
    margin: float = 0.02
    noun: str = ""
    label: str = ""
    is_compared: bool = True


CPU_PER_RESPONSE = "cpu_per_response"
CAPACITY = "capacity_per_s"
OBJECTIVE_TIME = "objective_time"
_METRIC_LIST = (
    Metric("requests", "1", "higher", "completed responses of any status", "other", "count"),
    Metric("ok", "1", "higher", "responses of status 2xx or 3xx that the tool does not call failed", "other", "count"),
    Metric(
        "requests_per_s",
        "1/s",
        "higher",
        "`requests` / `duration` as the tool defines it",
        "rate",
        noun="rate",
        label="requests per second",
    ),
    Metric(
        "ok_per_s",
        "1/s",
        "higher",
        "`ok` / `duration`: the throughput that verdicts use",
        "rate",
        noun="rate",
        label="ok responses per second",
    ),
    Metric(
        "attempts",
        "1",
        None,
        "requests that were made, answered or not, where a report does not tell these apart",
        "other",
        "count",
    ),
    Metric(
        "attempts_per_s",
        "1/s",
        "higher",
        "`attempts` / `duration`: a rate that includes failures",
        "rate",
        noun="rate of attempts",
        label="attempts per second",
    ),
    Metric("offered_per_s", "1/s", None, "the rate asked for (open loop only)"),
    Metric(
        CAPACITY,
        "1/s",
        "higher",
        "the highest offered rate within the objective of `[capacity]`, found by a search in every block",
        "rate",
        margin=0.02,
        noun="capacity",
        label="capacity, requests per second",
    ),
    Metric(
        OBJECTIVE_TIME,
        "s",
        "lower",
        "time within which the share of `[capacity]` of the offered requests was answered well, at the load's rate",
        "time",
        margin=0.05,
        noun="time of the objective's share",
        label="time of the objective's share",
        is_compared=False,
    ),
    Metric("duration", "s", None, "seconds of measurement, as the tool counts them"),
    Metric("errors", "1", "lower", "failed attempts, all classes together", "errors", "count"),
    Metric("errors_connect", "1", "lower", "connect failed or refused", "errors", "count"),
    Metric("errors_timeout", "1", "lower", "time-outs", "errors", "count"),
    Metric("errors_read", "1", "lower", "reset or failed receive", "errors", "count"),
    Metric("errors_write", "1", "lower", "failed send", "errors", "count"),
    Metric("errors_status", "1", "lower", "responses with status >= 400", "errors", "count"),
    Metric("errors_length", "1", "lower", "responses of the wrong length", "errors", "count"),
    Metric("errors_driver", "1", "lower", "the driver's own limits (file descriptors, ports)", "errors", "count"),
    Metric("errors_other", "1", "lower", "every other failed attempt", "errors", "count"),
    *(Metric(f"status_{c}xx", "1", None, f"responses of class {c}xx", "other", "count") for c in range(1, 6)),
    Metric("bytes_read", "B", None, "bytes received, as the tool counts them", "other", "count"),
    Metric(
        "bytes_per_s",
        "B/s",
        "higher",
        "bytes received per second, as the tool counts them",
        "rate",
        noun="data rate",
        label="bytes received per second",
    ),
    Metric("latency", "s", "lower", "request latency of a closed-loop tool as it prints it", "time", "p50", 0.05),
    Metric(
        "latency_intended",
        "s",
        "lower",
        "latency from the intended start of a request (open loads)",
        "time",
        "p50",
        0.05,
        label="latency from the intended start",
    ),
    Metric(
        "attempt_time",
        "s",
        "lower",
        "time of an attempt, where a report does not tell answered ones from failed ones",
        "time",
        "p50",
        0.05,
        noun="time of an attempt",
        label="time of an attempt",
    ),
    Metric("service_time", "s", "lower", "time from the actual start of a request (open loads)", "time", "p50", 0.05),
    Metric("connect_time", "s", "lower", "time to open a connection", "time", "mean", 0.05, label="time to connect"),
    Metric(
        "ttfb",
        "s",
        "lower",
        "time to the first byte",
        "time",
        "mean",
        0.05,
        noun="time to first byte",
        label="time to the first byte",
    ),
    Metric(
        "connection_time",
        "s",
        "lower",
        "life of a connection (httperf)",
        "time",
        "p50",
        0.05,
        label="life of a connection",
    ),
    Metric(
        "start_skew", "s", "lower", "from the first to the last start of several drivers, by corrected clocks", "time"
    ),
    Metric(
        CPU_PER_RESPONSE,
        "s",
        "lower",
        "CPU seconds of all services per response that counts; `cpu_per_response.ROLE`: of the services of one role",
        "cost",
        noun="CPU time per response",
        label="CPU time per response",
    ),
    Metric("driver_cpu", "1", None, "share of one CPU that the driver process used"),
)

METRICS: dict[str, Metric] = {m.name: m for m in _METRIC_LIST}
ERROR_CLASSES = tuple(m.name for m in _METRIC_LIST if m.name.startswith("errors_"))


def error_class(text: str, patterns: Iterable[tuple[str, str]]) -> str:
    """Return the class of the first of `patterns`, (class, regular expression), found in text; else errors_other."""
    return next((name for name, pattern in patterns if re.search(pattern, text)), "errors_other")


def count_error_classes(failures: Iterable[tuple[str, int]], patterns: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return class -> number of failures, given as (text, number); `patterns` as in `error_class`.

    The keys are all classes of `patterns` and errors_other; a class without failures has 0.
    """
    counts = dict.fromkeys((*(name for name, _ in patterns), "errors_other"), 0)
    for text, number in failures:
        counts[error_class(text, patterns)] += number
    return counts


def find_metric(name: str) -> Metric | None:
    """Return the metric called `name`, also of one role such as ``cpu_per_response.web``; None if there is none."""
    of_all, dot, role = name.partition(".")
    if not dot or of_all != CPU_PER_RESPONSE or not role:
        return METRICS.get(name)
    noun, meaning = f"CPU time of {role} per response", f"CPU seconds of the services of role {role} per response"
    return replace(METRICS[of_all], name=name, noun=noun, label=noun, meaning=meaning)


def get_metric(name: str) -> Metric:
    """Return the metric called `name` as `find_metric` does; raise UsageError with the known names if there is none."""
    if (metric := find_metric(name)) is None:
        raise unknown_name_error("metric", name, METRICS)
    return metric


def metric_names(roles: Iterable[str]) -> list[str]:
    """Return the names of all metrics, and CPU time per response of each role: `cpu_per_response.web`."""
    return [*METRICS, *(f"{CPU_PER_RESPONSE}.{role}" for role in roles)]
