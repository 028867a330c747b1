"""Could the article's own numbers have shown what it says? One run each, by rules that know nothing of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from loadbook.core.metrics import metric as metric_of
from loadbook.design.claim import ERROR_KINDS, Claim
from loadbook.stats.claims import words
from loadbook.stats.claims.words import Could

CHANCE = 0.05


@dataclass(frozen=True)
class Article:
    """The article's evidence: its change (ratio minus 1), and whether it could have shown the claim.

    `at_ceiling`: the value lies at the offered rate, so it is only a lower bound; `blind`: both values do.
    """

    effect: float | None
    at_ceiling: bool
    blind: bool
    could: Could
    sentence: str


def weigh(claim: Claim, ceiling: float, scatter: float | None) -> Article:
    """Return what the article's numbers are worth.

    Parameters
    ----------
    ceiling : share of the offered rate from which a rate is the tool's setting.
    scatter : standard deviation of the paired log ratio of two single trials, as seen here; None: not known.
    """
    value, other, effect = claim.value or 0.0, claim.against_value or 0.0, claim.effect
    limit = ceiling * claim.offered_per_s if claim.offered_per_s else math.inf
    high, blind = value >= limit, min(value, other) >= limit
    could, sentence = _worth(claim, effect, high, blind, scatter)
    return Article(effect, high, blind, could, sentence)


def _worth(claim: Claim, effect: float | None, high: bool, blind: bool, scatter: float | None) -> tuple[Could, str]:
    if claim.check in ERROR_KINDS:
        counted = claim.errors is not None and claim.against_errors is not None
        return ("no", words.ONE_RUN_ERRORS) if counted else ("not known", words.NO_COUNTS)
    if effect is None:
        return "not known", words.NO_NUMBERS
    if blind:
        return "no", words.BOTH_OFFERED
    if claim.check in ("equivalent", "no-loss"):
        return "no", words.ONE_RUN_EXCLUDES_NOTHING
    if claim.check == "slope":
        return "no", words.ONE_RUN_SLOPE
    if _opposite(claim, effect):
        return "no", words.OPPOSITE
    if not scatter:
        return "not known", words.SCATTER_UNKNOWN
    return _against_scatter(claim, effect, high, scatter)


def _opposite(claim: Claim, effect: float) -> bool:
    """Tell whether the article's own numbers point the other way."""
    lower = metric_of(claim.metric).better == "lower"
    return (effect > 0) == ((claim.check == "worse") != lower)


def _against_scatter(claim: Claim, effect: float, high: bool, scatter: float) -> tuple[Could, str]:
    """Compare a single pair's difference with what equal pairs show, their scatter being ours (normal)."""
    chance = math.erfc(abs(math.log1p(effect)) / scatter / math.sqrt(2))
    said = words.by_chance(chance)
    if chance >= CHANCE:
        return "no", said
    if claim.check == "best":
        return "in part", f"{said} {words.LUCKY_LEADER}"
    return ("in part", f"{said} {words.LOWER_BOUND}") if high else ("yes", said)
