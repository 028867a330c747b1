"""The words of a metric: which verb its verdicts take. Known metrics only need an entry in core.metrics."""

from __future__ import annotations

import re
from typing import NamedTuple

from loadbook.core.metrics import METRICS, Direction, MetricKind

METRIC_NOUNS = {"ok_per_s": "rate", "requests_per_s": "rate", "bytes_per_s": "data rate", "ttfb": "time to first byte"}


class DirectionWords(NamedTuple):
    """Direction words of a rise and a fall, and how a sentence about a treatment puts them."""

    up: str
    down: str
    predicate: str


_WORDS_BY_KIND: dict[MetricKind, DirectionWords] = {
    "rate": DirectionWords("faster", "slower", "is {word}"),
    "time": DirectionWords("longer", "shorter", "has a {word} {name}"),
    "errors": DirectionWords("more", "fewer", "has {word} errors"),
    "other": DirectionWords("higher", "lower", "is {word}"),
}

_PLURAL_VERBS = {"is": "are", "has": "have"}


# words in the names of columns that loadbook does not know: latency_p99, p95_ms, response time, errors_total
_TIME_WORD = re.compile(r"latency|latencies|time|ttfb|elapsed|delay|p\d+")
_ERROR_WORD = re.compile(r"errors?|failures?|timeouts?")


def direction(metric: str, better: Direction | None = None) -> Direction:
    """Return which way is better: as asked, else as the registry says, else lower for a name of times or errors."""
    if metric in METRICS:
        return better or METRICS[metric].better or "higher"
    return better or ("lower" if _metric_kind(metric) in ("time", "errors") else "higher")


def metric_noun(metric: str) -> str:
    """Return the metric as a noun in a sentence: rate, latency, connect time."""
    return METRIC_NOUNS.get(metric, metric.replace("_", " "))


def direction_words(metric: str) -> DirectionWords:
    """Return the words of a metric."""
    return _WORDS_BY_KIND[_metric_kind(metric)]


def _metric_kind(metric: str) -> MetricKind:
    if metric in METRICS:
        return METRICS[metric].kind
    parts = re.split(r"[^a-z0-9]+", metric.lower())
    if any(_TIME_WORD.fullmatch(part) for part in parts):
        return "time"
    return "errors" if any(_ERROR_WORD.fullmatch(part) for part in parts) else "other"


def direction_word(metric: str, effect: float) -> str:
    """Return faster, shorter, fewer, ... for an effect of this sign."""
    return direction_words(metric).up if effect > 0 else direction_words(metric).down


def predicate(metric: str, effect: float, number: int = 1) -> str:
    """Return "is faster", "has a shorter latency", "have fewer errors", ... for an effect of this sign."""
    verb, rest = direction_words(metric).predicate.format(word=direction_word(metric, effect), name=metric_noun(metric)).split(" ", 1)
    return f"{verb if number == 1 else _PLURAL_VERBS[verb]} {rest}"
