"""The checks of claims about values, one function per kind: a claim and a run in, what was found out.

Direction is judged first, size after it. A claim is contradicted only by evidence against it; what is merely not shown
is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from loadbook.stats.claims import words
from loadbook.stats.claims.errors import check_fewer_errors, check_interaction, check_more_errors
from loadbook.stats.claims.finding import ClaimFinding
from loadbook.stats.claims.resource import check_resource
from loadbook.stats.claims.slope import check_slope
from loadbook.stats.result import Verdict
from loadbook.stats.verdict import decide_verdict, loss_at_margin, forecast_one_sided
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    from loadbook.design.claim import Claim, ClaimKind
    from loadbook.stats.claims.run import ClaimRun

ClaimCheck = Callable[["Claim", "ClaimRun"], ClaimFinding]


def check_direction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X is faster" or "X is slower": holds if a difference of that direction is shown, however small."""
    verdict = run.joint_verdict(claim)
    sentence, claimed = run.sentence(claim, verdict), claim.claimed_effect
    side = _shown_direction(verdict)
    if verdict.kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    if side == claim.effective_kind:
        size = f" {words.size_sentence(claimed, verdict.comparison.ci95 or (0.0, 0.0))}" if claimed is not None else ""
        return ClaimFinding("holds", sentence + size, verdict, _size_met(claim, run, verdict))
    if side:
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and (claimed is None or abs(claimed) > verdict.margin):
        return ClaimFinding("contradicted", sentence, verdict)
    if verdict.kind == "equivalent" and claimed is not None:
        return ClaimFinding("undecided", f"{sentence} {words.small_claim_sentence(claimed)}", verdict)
    return ClaimFinding("undecided", sentence, verdict)


def _shown_direction(verdict: Verdict) -> ClaimKind | None:
    """Return the direction that is shown: that of a small difference counts, too."""
    if verdict.kind == "better":
        return "better"
    if verdict.kind == "worse":
        return "worse"
    if verdict.kind != "small":
        return None
    higher = direction(verdict.comparison.metric) == "higher"
    return "better" if ((verdict.comparison.effect or 0.0) > 0) == higher else "worse"


def _size_met(claim: Claim, run: ClaimRun, verdict: Verdict) -> bool | None:
    """Tell whether the article's size is met; a value at its offered rate is only a lower bound."""
    claimed, comparison = claim.claimed_effect, verdict.comparison
    if claimed is None or comparison.ci95 is None:
        return None
    larger = abs(comparison.effect or 0.0) > abs(claimed)
    return comparison.ci95[0] <= claimed <= comparison.ci95[1] or (larger and run.at_ceiling(claim, claim.value))


def check_best(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X is best": holds if X beats every rival at 5 % (Gutmann and Maymin; statistics.md 3.4).

    Contradicted if a rival is ahead of it, allowing for their number, or if its lead over `against` is
    smaller than the margin. Rivals that were not run leave it undecided.
    """
    rivals = [name for name in dict.fromkeys((claim.against, *claim.among)) if name != claim.treatment]
    verdicts = {name: run.verdict(claim, claim.treatment, name) for name in rivals if name in run.treatments_run}
    main_verdict = verdicts.get(claim.against)
    valid = {name: v for name, v in verdicts.items() if v.kind != "invalid"}
    if not valid:
        sentence = run.sentence(claim, main_verdict, claim.treatment, claim.against) if main_verdict else ""
        return ClaimFinding("unchecked", sentence, main_verdict)
    ahead = _rivals_ahead(valid)
    if ahead:
        rival = min(ahead, key=lambda name: _p_or_one(valid[name]))
        return ClaimFinding("contradicted", words.rival_ahead_sentence(run.sentence(claim, valid[rival], claim.treatment, rival)), main_verdict)
    if main_verdict and main_verdict.kind == "equivalent":
        return ClaimFinding("contradicted", run.sentence(claim, main_verdict, claim.treatment, claim.against), main_verdict)
    return _check_lead(claim, run, rivals, valid, main_verdict)


def _rivals_ahead(verdicts: dict[str, Verdict]) -> list[str]:
    """Return the rivals that are shown to be ahead, p multiplied by their number (Bonferroni)."""
    return [n for n, v in verdicts.items() if not _is_better(v) and _p_or_one(v) * len(verdicts) < 1 - v.comparison.level]


def _p_or_one(verdict: Verdict) -> float:
    return 1.0 if verdict.comparison.p is None else verdict.comparison.p


def _is_better(verdict: Verdict) -> bool:
    higher = direction(verdict.comparison.metric) == "higher"
    return ((verdict.comparison.effect or 0.0) > 0) == higher


def _check_lead(claim: Claim, run: ClaimRun, rivals: list[str], verdicts: dict[str, Verdict], main_verdict: Verdict | None) -> ClaimFinding:
    """Return whether a treatment that no rival beats is itself ahead of all of them."""
    tied = [n for n, v in verdicts.items() if not (_is_better(v) and _p_or_one(v) < 1 - v.comparison.level)]
    missing = [name for name in rivals if name not in verdicts]
    invalid = [name for name in missing if name in run.treatments_run]
    label = run.label(claim.treatment)
    if tied:
        forecasts = [v.forecast for n, v in verdicts.items() if n in tied and v.forecast]
        sentence = words.tied_sentence(label, [run.label(n) for n in tied], len(verdicts), words.joint_forecast_sentence(forecasts))
    else:
        sentence = words.ahead_sentence(label, len(verdicts), max(map(_p_or_one, verdicts.values())))
    for to_sentence, names in ((words.missing_arms_sentence, set(missing) - set(invalid)), (words.not_compared_sentence, invalid)):
        sentence += f" {to_sentence([run.label(n) for n in missing if n in names])}" if names else ""
    if tied or missing:
        return ClaimFinding("undecided", sentence, main_verdict)
    return ClaimFinding("holds", sentence, main_verdict, _size_met(claim, run, main_verdict) if main_verdict else None)


def check_non_inferiority(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X costs nothing": holds if a loss beyond the margin is excluded (non-inferiority, one-sided 5 %)."""
    two_sided = run.joint_verdict(claim)
    better = direction(two_sided.comparison.metric)
    verdict = decide_verdict(two_sided.comparison, run.margin(claim), better, reason=two_sided.reason, hypothesis="no-loss")
    outcomes = {"no-loss": "holds", "worse": "contradicted", "invalid": "unchecked"}
    outcome: words.ClaimOutcome = outcomes.get(verdict.kind, "undecided")  # type: ignore[assignment]
    return ClaimFinding(outcome, run.sentence(claim, verdict), verdict)


def check_equivalence(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X and Y hardly differ": holds if a difference beyond the margin is excluded.

    Contradicted only if the whole 90 % interval lies beyond the margin.
    """
    verdict = run.joint_verdict(claim)
    sentence, kind = run.sentence(claim, verdict), verdict.kind
    if kind in ("equivalent", "small"):
        return ClaimFinding("holds", sentence, verdict)
    if kind == "invalid":
        return ClaimFinding("unchecked", sentence, verdict)
    low, high = verdict.comparison.ci90 or (0.0, 0.0)
    edges = loss_at_margin(verdict.margin, "higher"), loss_at_margin(verdict.margin, "lower")
    if high < edges[0] or low > edges[1]:
        return ClaimFinding("contradicted", sentence, verdict)
    if kind in ("better", "worse"):
        distance = abs(math.log1p(verdict.margin) - abs(math.log1p(verdict.comparison.effect or 0.0)))
        sentence += f" {words.maybe_small_sentence(replace(verdict, forecast=forecast_one_sided(verdict.comparison, distance)))}"
    return ClaimFinding("undecided", sentence, verdict)


CHECKS: dict[ClaimKind, ClaimCheck] = {
    "better": check_direction,
    "worse": check_direction,
    "best": check_best,
    "no-loss": check_non_inferiority,
    "equivalent": check_equivalence,
    "fewer-errors": check_fewer_errors,
    "more-errors": check_more_errors,
    "interaction": check_interaction,
    "slope": check_slope,
    "resource": check_resource,
}
