"""The words of a metric: which verb its verdicts take. Known metrics only need an entry in core.metrics."""

from __future__ import annotations

import re
from typing import NamedTuple

from loadbook.core.metrics import METRICS, Direction, Kind

NAMES = {"ok_per_s": "rate", "requests_per_s": "rate", "bytes_per_s": "data rate", "ttfb": "time to first byte"}


class Words(NamedTuple):
    """Direction words of a rise and a fall, and how a sentence about a treatment puts them."""

    up: str
    down: str
    predicate: str


_BY_KIND: dict[Kind, Words] = {
    "rate": Words("faster", "slower", "is {word}"),
    "time": Words("longer", "shorter", "has a {word} {name}"),
    "errors": Words("more", "fewer", "has {word} errors"),
    "other": Words("higher", "lower", "is {word}"),
}

_PLURAL = {"is": "are", "has": "have"}


# words in the names of columns that loadbook does not know: latency_p99, p95_ms, response time, errors_total
_TIME = re.compile(r"latency|latencies|time|ttfb|elapsed|delay|p\d+")
_ERRORS = re.compile(r"errors?|failures?|timeouts?")


def direction(metric: str, better: Direction | None = None) -> Direction:
    """Return which way is better: as asked, else as the registry says, else lower for a name of times or errors."""
    if metric in METRICS:
        return better or METRICS[metric].better or "higher"
    return better or ("lower" if _kind(metric) in ("time", "errors") else "higher")


def name(metric: str) -> str:
    """Return the metric as a noun in a sentence: rate, latency, connect time."""
    return NAMES.get(metric, metric.replace("_", " "))


def words(metric: str) -> Words:
    """Return the words of a metric."""
    return _BY_KIND[_kind(metric)]


def _kind(metric: str) -> Kind:
    if metric in METRICS:
        return METRICS[metric].kind
    parts = re.split(r"[^a-z0-9]+", metric.lower())
    if any(_TIME.fullmatch(part) for part in parts):
        return "time"
    return "errors" if any(_ERRORS.fullmatch(part) for part in parts) else "other"


def word(metric: str, effect: float) -> str:
    """Return faster, shorter, fewer, ... for an effect of this sign."""
    return words(metric).up if effect > 0 else words(metric).down


def predicate(metric: str, effect: float, number: int = 1) -> str:
    """Return "is faster", "has a shorter latency", "have fewer errors", ... for an effect of this sign."""
    verb, rest = words(metric).predicate.format(word=word(metric, effect), name=name(metric)).split(" ", 1)
    return f"{verb if number == 1 else _PLURAL[verb]} {rest}"
