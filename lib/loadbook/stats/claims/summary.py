"""Claims as a reader meets them: the sentence, the article's numbers, and how many claims fare how."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_rounded, format_quantity
from loadbook.design.claim import Claim
from loadbook.stats.claims.finding import ClaimFinding
from loadbook.stats.claims.words import OUTCOMES, CouldShow, ClaimOutcome

_PLURAL_OUTCOMES: dict[ClaimOutcome, str] = {"holds": "hold here", "contradicted": "do not hold here"}
SIZE_TEXTS: dict[bool | None, str] = {True: "in direction and size", False: "in direction, not in size"}
_UNITS = {"requests_per_s": " req/s", "ok_per_s": " req/s"}


def claim_title(claim: Claim) -> str:
    """Return the sentence: in quotation marks where it is the article's own words, else our short form."""
    return f"“{claim.quote}”" if claim.quote else claim.claim


def article_numbers_text(claim: Claim) -> str:
    """Return "17,688 → 23,872 req/s; errors 62,488 → 7,754", as far as the article has numbers."""
    parts = []
    if claim.value is not None and claim.against_value is not None:
        parts.append(_values_text(claim, claim.against_value, claim.value))
    if claim.errors is not None or claim.against_errors is not None:
        before, after = ("–" if e is None else f"{e:,}" for e in (claim.against_errors, claim.errors))
        parts.append(f"errors {before} → {after}")
    return "; ".join(parts) or "no numbers"


def _values_text(claim: Claim, before: float, after: float) -> str:
    metric = get_metric(claim.metric)
    if claim.metric in _UNITS:
        return f"{format_rounded(before)} → {format_rounded(after)}{_UNITS[claim.metric]}"
    name = claim.metric.replace("_", " ") + (f" {claim.statistic}" if claim.statistic else "")
    return f"{name} {format_quantity(before, metric.unit)} → {format_quantity(after, metric.unit)}"


def claims_summary(findings: Sequence[ClaimFinding], could: Sequence[CouldShow]) -> str:
    """Return how many claims fare how, of those that hold how many in size, and how many the article could show."""
    outcomes = [finding.outcome for finding in findings]
    if len(findings) == 1:
        size = SIZE_TEXTS.get(findings[0].size_met)
        return f"The article’s claim: {OUTCOMES[outcomes[0]][1]}{f', {size}' if size else ''}. {_could_show_text(could)}"
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES if outcome in outcomes}
    parts = [f"{n} {_PLURAL_OUTCOMES.get(o, OUTCOMES[o][1]) if n > 1 else OUTCOMES[o][1]}" for o, n in counts.items()]
    sized = [finding.size_met for finding in findings if finding.size_met is not None]
    if sized:
        parts[0] += f" (in size, too: {sum(sized) or 'none'})"
    return f"Of {len(findings)} claims: {'; '.join(parts)}. {_could_show_text(could)}"


def _could_show_text(could: Sequence[CouldShow]) -> str:
    """Return what the article's own numbers are worth."""
    yes, partly = could.count("yes"), could.count("in part")
    if len(could) == 1:
        return f"Could its own numbers have shown it? {could[0].capitalize()}."
    partly_text = f" ({partly}{' more' if yes else ''} in part)" if partly else ""
    return f"The article’s own numbers, one run each, could have shown {yes or 'none'} of them{partly_text}."
