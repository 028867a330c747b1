"""Could the article's own numbers have shown what it says? One run each, by rules that know nothing of ours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from loadbook.core.metrics import get_metric
from loadbook.design.claim import ERROR_CLAIM_KINDS, Claim
from loadbook.stats.claims import words
from loadbook.stats.claims.words import CouldShow

MAX_CHANCE = 0.05


@dataclass(frozen=True)
class ArticleEvidence:
    """The article's evidence: its change (ratio minus 1), and whether it could have shown the claim.

    `at_ceiling`: the value lies at the offered rate, so it is only a lower bound; `both_at_ceiling`: both values do.
    """

    effect: float | None
    at_ceiling: bool
    both_at_ceiling: bool
    could_show: CouldShow
    sentence: str


def assess_article(claim: Claim, ceiling: float, scatter: float | None) -> ArticleEvidence:
    """Return what the article's numbers are worth.

    Parameters
    ----------
    ceiling : share of the offered rate from which a rate is the tool's setting.
    scatter : standard deviation of the paired log ratio of two single trials, as seen here; None: not known.
    """
    value, other, effect = claim.value or 0.0, claim.against_value or 0.0, claim.claimed_effect
    limit = ceiling * claim.offered_per_s if claim.offered_per_s else math.inf
    high, blind = value >= limit, min(value, other) >= limit
    could, sentence = _article_worth(claim, effect, high, blind, scatter)
    return ArticleEvidence(effect, high, blind, could, sentence)


def _article_worth(claim: Claim, effect: float | None, high: bool, blind: bool, scatter: float | None) -> tuple[CouldShow, str]:
    if claim.effective_kind in ERROR_CLAIM_KINDS:
        has_counts = claim.errors is not None and claim.against_errors is not None
        return ("no", words.ONE_RUN_ERRORS) if has_counts else ("not known", words.NO_COUNTS)
    if effect is None:
        return "not known", words.NO_NUMBERS
    if blind:
        return "no", words.BOTH_OFFERED
    if claim.effective_kind in ("equivalent", "no-loss"):
        return "no", words.ONE_RUN_EXCLUDES_NOTHING
    if claim.effective_kind == "slope":
        return "no", words.ONE_RUN_SLOPE
    if _points_other_way(claim, effect):
        return "no", words.OPPOSITE
    if not scatter:
        return "not known", words.SCATTER_UNKNOWN
    return _worth_against_scatter(claim, effect, high, scatter)


def _points_other_way(claim: Claim, effect: float) -> bool:
    """Tell whether the article's own numbers point the other way."""
    lower = get_metric(claim.metric).better == "lower"
    return (effect > 0) == ((claim.effective_kind == "worse") != lower)


def _worth_against_scatter(claim: Claim, effect: float, high: bool, scatter: float) -> tuple[CouldShow, str]:
    """Compare a single pair's difference with what equal pairs show, their scatter being ours (normal)."""
    chance = math.erfc(abs(math.log1p(effect)) / scatter / math.sqrt(2))
    sentence = words.chance_sentence(chance)
    if chance >= MAX_CHANCE:
        return "no", sentence
    if claim.effective_kind == "best":
        return "in part", f"{sentence} {words.LARGEST_OF_SEVERAL}"
    return ("in part", f"{sentence} {words.LOWER_BOUND}") if high else ("yes", sentence)
