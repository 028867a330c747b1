"""Claims as a reader meets them: the sentence, the article's numbers, and how many claims fare how."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import level, quantity
from loadbook.design.claim import Claim
from loadbook.stats.claims.finding import Finding
from loadbook.stats.claims.words import OUTCOMES, Could, Outcome

_SEVERAL: dict[Outcome, str] = {"holds": "hold here", "contradicted": "do not hold here"}
SIZES: dict[bool | None, str] = {True: "in direction and size", False: "in direction, not in size"}
_UNITS = {"requests_per_s": " req/s", "ok_per_s": " req/s"}


def title(claim: Claim) -> str:
    """Return the sentence: in quotation marks where it is the article's own words, else our short form."""
    return f"“{claim.quote}”" if claim.quote else claim.claim


def numbers(claim: Claim) -> str:
    """Return "17,688 → 23,872 req/s; errors 62,488 → 7,754", as far as the article has numbers."""
    said = []
    if claim.value is not None and claim.against_value is not None:
        said.append(_values(claim, claim.against_value, claim.value))
    if claim.errors is not None or claim.against_errors is not None:
        before, after = ("–" if e is None else f"{e:,}" for e in (claim.against_errors, claim.errors))
        said.append(f"errors {before} → {after}")
    return "; ".join(said) or "no numbers"


def _values(claim: Claim, before: float, after: float) -> str:
    metric = metric_of(claim.metric)
    if claim.metric in _UNITS:
        return f"{level(before)} → {level(after)}{_UNITS[claim.metric]}"
    name = claim.metric.replace("_", " ") + (f" {claim.statistic}" if claim.statistic else "")
    return f"{name} {quantity(before, metric.unit)} → {quantity(after, metric.unit)}"


def tally(findings: Sequence[Finding], could: Sequence[Could]) -> str:
    """Return how many claims fare how, of those that hold how many in size, and how many the article could show."""
    outcomes = [finding.outcome for finding in findings]
    if len(findings) == 1:
        size = SIZES.get(findings[0].sized)
        return f"The article’s claim: {OUTCOMES[outcomes[0]][1]}{f', {size}' if size else ''}. {_shown(could)}"
    counted = {outcome: outcomes.count(outcome) for outcome in OUTCOMES if outcome in outcomes}
    said = [f"{n} {_SEVERAL.get(o, OUTCOMES[o][1]) if n > 1 else OUTCOMES[o][1]}" for o, n in counted.items()]
    sized = [finding.sized for finding in findings if finding.sized is not None]
    if sized:
        said[0] += f" (in size, too: {sum(sized) or 'none'})"
    return f"Of {len(findings)} claims: {'; '.join(said)}. {_shown(could)}"


def _shown(could: Sequence[Could]) -> str:
    """Return what the article's own numbers are worth."""
    yes, partly = could.count("yes"), could.count("in part")
    if len(could) == 1:
        return f"Could its own numbers have shown it? {could[0].capitalize()}."
    also = f" ({partly}{' more' if yes else ''} in part)" if partly else ""
    return f"The article’s own numbers, one run each, could have shown {yes or 'none'} of them{also}."
