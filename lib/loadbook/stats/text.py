"""Sentences, words and rounding of comparisons.

Tables, figures and pages take texts from one `ComparisonTexts`, so that each number is rounded once. Decimals follow
from the interval, and all rows of an analysis have the same number. Texts state results and give no advice. Known
metrics have their words in `core.metrics`, the words of others follow from their names.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from loadbook.core.metrics import CAPACITY, Direction, MetricKind, find_metric
from loadbook.core.units import (
    NBSP,
    decimals_for_half_width,
    format_duration,
    format_p_value,
    format_percent,
    format_percent_range,
    format_rounded,
    pluralize,
)
from loadbook.modes.base import block_noun
from loadbook.stats.results import AnalysisRow, Comparison, Verdict
from loadbook.study.model import TrialExecution


class DirectionWords(NamedTuple):
    """Words for a rise and a fall of a metric; verb and pattern of a predicate ("is faster"), pattern of an effect.

    Patterns contain {word} (rise or fall), {name} (of the metric), {predicate}, {than}, {size}: see `effect_phrase`.
    """

    up: str
    down: str
    verb: str
    predicate: str
    effect: str = "{predicate}{than} by {size}"


_WORDS_BY_KIND: dict[MetricKind, DirectionWords] = {
    "rate": DirectionWords("faster", "slower", "is", "{word}"),
    "time": DirectionWords("longer", "shorter", "has", "a {word} {name}"),
    "cost": DirectionWords("more", "less", "needs", "{word} {name}"),
    "errors": DirectionWords("more", "fewer", "has", "{word} errors"),
    "other": DirectionWords("higher", "lower", "is", "{word}"),
}
_CAPACITY_WORDS = DirectionWords("more load", "less load", "sustains", "{word}", "sustains {size} {word}{than}")

_PLURAL_VERBS = {"is": "are", "has": "have", "needs": "need", "sustains": "sustain"}


# words in unknown names of columns that mean a time or errors: latency_p99, p95_ms, response time, errors_total
_TIME_WORD = re.compile(r"latency|latencies|time|times|ttfb|ttlb|rtt|elapsed|delay|duration|durations|p\d+")
_ERROR_WORD = re.compile(r"errors?|failures?|failed|timeouts?")
# words that mean a rate: ok_per_s, Requests/sec, throughput
_RATE_WORDS = re.compile(r"(/ ?|\bper ?)s(ec|econd)?\b|\b(rates?|throughput|rps|qps|tps|ops|bandwidth|capacity)\b")
# words of rates of which less is better, or may be: dropped/s, retries per s, loss rate, cpu_per_s
_UNWANTED_WORDS = re.compile(
    r"\b(drop\w*|loss\w*|lost|reject\w*|refus\w*|abort\w*|cancel\w*|retr\w*|resets?|slow\w*|miss\w*|stall\w*|stolen|steal"
    r"|[45]xx|[45]\d\d|non|not|bad|invalid|faults?|evict\w*|pauses?|gc|cpu|switch\w*|cswch|interrupts?|irqs?|joules?"
    r"|energy|collisions?|conflicts?|crash\w*|exceptions?|kill\w*|shed|throttl\w*|limited|violat\w*|cost)\b"
)


def direction(metric: str, better: Direction | None = None) -> Direction:
    """Return whether higher or lower values are better: `better` if given, else by the metric or its name."""
    if known := find_metric(metric):
        return better or known.better or "higher"
    return better or ("lower" if _metric_kind(metric) in ("time", "errors") else "higher")


def tells_direction(metric: str) -> bool:
    """Return whether the metric, or the words of an unknown name, tell if higher or lower values are better."""
    if known := find_metric(metric):
        return known.better is not None
    words = metric.lower().replace("_", " ")
    is_rate = bool(_RATE_WORDS.search(words)) and not _UNWANTED_WORDS.search(words)
    return _metric_kind(metric) in ("time", "errors") or is_rate


def metric_noun(metric: str) -> str:
    """Return the metric as a noun for a sentence: rate, latency, connect time."""
    known = find_metric(metric)
    return (known.noun if known else "") or metric.replace("_", " ")


def direction_words(metric: str) -> DirectionWords:
    """Return the words for a rise and a fall of a metric."""
    return _CAPACITY_WORDS if metric == CAPACITY else _WORDS_BY_KIND[_metric_kind(metric)]


def _metric_kind(metric: str) -> MetricKind:
    if known := find_metric(metric):
        return known.kind
    parts = re.split(r"[^a-z0-9]+", metric.lower())
    if any(_TIME_WORD.fullmatch(part) for part in parts):
        return "time"
    return "errors" if any(_ERROR_WORD.fullmatch(part) for part in parts) else "other"


def direction_word(metric: str, effect: float) -> str:
    """Return faster, shorter, fewer, ... for an effect with this sign."""
    return direction_words(metric).up if effect > 0 else direction_words(metric).down


def predicate(metric: str, effect: float, number: int = 1) -> str:
    """Return "is faster", "has a shorter latency", "have fewer errors", ... for an effect with this sign.

    `number` is that of the subjects: from 2 on the verb is in the plural.
    """
    words = direction_words(metric)
    rest = words.predicate.format(word=direction_word(metric, effect), name=metric_noun(metric))
    return f"{words.verb if number == 1 else _PLURAL_VERBS[words.verb]} {rest}"


def effect_phrase(metric: str, effect: float, size: str, than: str = "", *, brief: bool = False) -> str:
    """Return "is faster than another by 6.0 %", "sustains 6.0 % more load", ... for an effect of this size.

    `effect` gives only the direction; `size` is its size as text, "6.0 %". `than` names the reference with its
    preposition (" than another"); "" for the baseline of a page. A brief phrase has the word in place of the
    predicate: "faster by 6.0 %".
    """
    word = direction_word(metric, effect)
    does = word if brief else predicate(metric, effect)
    return direction_words(metric).effect.format(predicate=does, word=word, than=than, size=size)


ABSENT = "–"
MAX_DECIMALS = 3


@dataclass(frozen=True)
class ComparisonTexts:
    """Texts of one comparison or row; an en dash if something does not apply.

    Texts ending in `_number` have no percent sign, for columns with it in their header. `size` and `bounds` have no
    sign, for sentences in which `direction_word` gives the direction. `worst` and `best` are one-sided bounds.
    `level` is the median of the row's trials in the metric's unit; `trials_with_errors` is such as "3 of 12".
    """

    direction_word: str = ABSENT
    change: str = ABSENT
    change_number: str = ABSENT
    interval: str = ABSENT
    interval_number: str = ABSENT
    interval90: str = ABSENT
    size: str = ABSENT
    bounds: str = ABSENT
    worst: str = ABSENT
    worst_number: str = ABSENT
    best: str = ABSENT
    p: str = ABSENT
    p_adjusted: str = ABSENT
    blocks: str = ABSENT
    level: str = ABSENT
    trials_with_errors: str = ABSENT


def row_texts(row: AnalysisRow) -> ComparisonTexts:
    """Return all texts of one row: baseline, treatment or check."""
    texts = comparison_texts(row.verdict) if row.verdict else ComparisonTexts(blocks=str(row.valid_trials))
    level = format_rounded(row.median, row.mean_half_width) if row.median is not None else ABSENT
    errors = f"{row.errors.trials_with_errors} of {row.errors.trials}" if row.errors.trials else ABSENT
    return replace(texts, level=level, trials_with_errors=errors)


def comparison_texts(verdict: Verdict) -> ComparisonTexts:
    """Return the texts of a verdict's comparison; an invalid one has only its number of blocks."""
    comparison = verdict.comparison
    if verdict.kind == "invalid" or comparison.effect is None or comparison.ci95 is None:
        return ComparisonTexts(blocks=str(comparison.blocks))
    digits, low, high = verdict_decimals(verdict), *comparison.ci95
    interval, distances = format_percent_range((low, high), digits), sorted((abs(low), abs(high)))
    ends = verdict.one_sided_bounds
    return ComparisonTexts(
        direction_word=direction_word(comparison.metric, comparison.effect),
        change=format_percent(comparison.effect, digits),
        change_number=format_percent(comparison.effect, digits, unit=""),
        interval=interval,
        interval_number=format_percent_range((low, high), digits, unit=""),
        interval90=format_percent_range(comparison.ci90, digits) if comparison.ci90 else ABSENT,
        size=format_percent(abs(comparison.effect), digits, signed=False),
        bounds=interval if low < 0 < high else format_percent_range(distances, digits, signed=False),
        worst=format_percent(ends[0], digits) if ends else ABSENT,
        worst_number=format_percent(ends[0], digits, unit="") if ends else ABSENT,
        best=format_percent(ends[1], digits) if ends else ABSENT,
        p=format_p_value(comparison.p),
        p_adjusted=format_p_value(comparison.p_adjusted),
        blocks=str(comparison.blocks),
    )


def verdict_decimals(verdict: Verdict) -> int:
    """Return the number of decimals for the percentages of a verdict: that of the analysis, else of its interval.

    More are used if rounding would show an end of an interval without 0 as 0, or the deciding bound at the margin.
    """
    digits = verdict.decimals if verdict.decimals is not None else interval_decimals(verdict.comparison)
    bounds = [abs(bound) for bound in verdict.comparison.ci95 or () if verdict.kind in ("better", "worse", "small")]
    while bounds and digits < MAX_DECIMALS and round(min(bounds) * 100, digits) == 0:
        digits += 1
    decides = (
        verdict.one_sided_bounds[verdict.kind == "worse"]
        if verdict.one_sided_bounds and verdict.kind != "undecided"
        else math.inf
    )
    while digits < MAX_DECIMALS and round(abs(decides) * 100, digits) == round(verdict.margin * 100, digits):
        digits += 1
    return digits


def interval_decimals(comparison: Comparison) -> int:
    """Return the number of decimals that the width of a comparison's interval justifies."""
    low, high = comparison.ci95 or (0.0, 0.0)
    return min(decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)


def common_decimals(comparisons: Iterable[Comparison]) -> int | None:
    """Return the most frequent number of decimals, of equally frequent ones the largest; None without intervals."""
    votes = Counter(interval_decimals(c) for c in comparisons if c.ci95)
    return max(votes, key=lambda digits: (votes[digits], digits), default=None)


MAX_TIED_NAMES = 4  # in a sentence on treatments that do not differ detectably


def best_sentence(labels: list[str], best: str | None, ties_lead: bool = False, noun: str = "treatment") -> str | None:
    """Return the sentence on the label `best`, else that `labels` (leader first) may be best; None if fewer than two.

    `ties_lead`: whether all of `labels` are ahead of the rest.
    """
    if best is not None:
        return f"{best} is ahead of every other {noun}; its own gain is likely a little overstated."
    if len(labels) < 2:
        return None
    if len(labels) > MAX_TIED_NAMES:
        labels = [*labels[: MAX_TIED_NAMES - 1], f"{len(labels) - MAX_TIED_NAMES + 1} others"]
    sentence = f"{alternatives_text(labels, capital=True)} may be best"
    return f"{sentence}; all are ahead of the rest." if ties_lead else f"{sentence}."


def alternatives_text(labels: Sequence[str], *, capital: bool = False) -> str:
    """Return the labels as alternatives: "either A or B", "any of A, B and C"."""
    *others, last = labels
    text = f"either {others[0]} or {last}" if len(others) == 1 else f"any of {', '.join(others)} and {last}"
    return text[0].upper() + text[1:] if capital else text


def evidence_text(
    blocks: int,
    look: tuple[int, int] | None = None,
    added: int = 0,
    execution: TrialExecution | None = None,
) -> str:
    """Return the number of blocks behind a verdict, its planned look, and whether added blocks make it exploratory.

    `look` is the number of this look, from 1, and that of all looks. `execution` is given if the run
    has interleaved and plain blocks, and then named: "15 interleaved blocks".
    """
    counted = pluralize(blocks, f"{execution} block" if execution else "block")
    if added:
        return f"{counted} (exploratory: {added_blocks_text(added)})"
    return f"look {look[0]} of {look[1]} ({counted})" if look else counted


def forecast_text(verdict: Verdict, block_s: float | None = None) -> str:
    """Return how many more blocks would decide a comparison, and their time if a block takes `block_s` seconds.

    It has no full stop.
    """
    if verdict.resolution:
        low, high = verdict.comparison.ci95 or (0.0, 0.0)
        perhaps = "It may be small: d" if low > 0 or high < 0 else "D"
        return f"{perhaps}{resolution_text(verdict.resolution)[1:]}"
    forecast = verdict.forecast
    if forecast is None or forecast.about is None:
        remedy = "widen the margin or quieten the host" if verdict.margin else "quieten the host"
        return f"Not reachable at this noise (over 60 blocks): {remedy}"
    about, noun = forecast.about, block_noun(verdict.comparison.execution)
    if verdict.comparison.runs:
        return f"About {pluralize(about, 'more run')} of each would decide (up to {forecast.high})"
    takes = "takes" if about == 1 else "take"
    time = f"; {pluralize(about, noun)} {takes} {format_duration(about * block_s)}" if block_s else ""
    return f"About {pluralize(about, f'more {noun}')} would decide (up to {forecast.high}){time}"


def resolution_text(resolution: float) -> str:
    """Return the statement on the resolution (a ratio) of a run: in percent, rounded up, without a full stop."""
    digits = 0 if resolution >= 0.1 else 1
    rounded = math.ceil(resolution * 100 * 10**digits - 1e-9) / 10**digits
    return f"Differences below {rounded:g}{NBSP}% cannot be told here"


def margin_text(margin: float) -> str:
    """Return a margin (ratio) with its own number of decimals (at most two): 0.02 as 2 %, 0.005 as 0.5 %."""
    digits = next(d for d in range(3) if d == 2 or abs(margin * 100 - round(margin * 100, d)) < 1e-9)
    return format_percent(margin, digits, signed=False)


def multiplicity_note(verdict: Verdict, among: str = "comparisons") -> str:
    """Return why an interval that excludes 0 is nevertheless undecided (many comparisons); "" if it includes 0.

    It has no full stop. `among` is the noun for the comparisons.
    """
    low, high = verdict.comparison.ci95 or (0.0, 0.0)
    if low <= 0 <= high:
        return ""
    return f"That differs if looked at alone, but not among {verdict.comparison.family_size} {among}"


def added_blocks_text(blocks: int) -> str:
    """Return the part of a sentence on added blocks, which make a run exploratory."""
    return f"{pluralize(blocks, 'block')} {'was' if blocks == 1 else 'were'} added after looking"


def comparison_evidence(comparison: Comparison) -> str:
    """Return the number of blocks of a comparison, its planned look, and whether added blocks make it exploratory."""
    if comparison.runs:
        first, second = comparison.runs
        return f"{first} and {second} runs"
    return evidence_text(comparison.blocks, comparison.interim_analysis, comparison.added_blocks, comparison.execution)


def confidence_text(level: float, *, one_sided: bool = False) -> str:
    """Return a level as text, such as 95 %; `one_sided`: the two-sided level with one-sided ends at `level`."""
    return f"{(1 - 2 * (1 - level) if one_sided else level) * 100:.4g}{NBSP}%"
