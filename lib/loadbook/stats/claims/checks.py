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
from loadbook.stats.claims.errors import fewer_errors, interaction, more_errors
from loadbook.stats.claims.finding import Finding
from loadbook.stats.claims.resource import resource
from loadbook.stats.claims.slope import slope
from loadbook.stats.result import Verdict
from loadbook.stats.verdict import decide, largest_loss, to_reach
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    from loadbook.design.claim import Claim, ClaimKind
    from loadbook.stats.claims.run import ClaimRun

Check = Callable[["Claim", "ClaimRun"], Finding]


def moved(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "X is faster" or "X is slower": holds if a difference of that direction is shown, however small."""
    verdict = run.joint_verdict(claim)
    said, claimed = run.sentence(claim, verdict), claim.effect
    side = _side(verdict)
    if verdict.kind == "invalid":
        return Finding("unchecked", said, verdict)
    if side == claim.check:
        size = f" {words.size(claimed, verdict.comparison.ci95 or (0.0, 0.0))}" if claimed is not None else ""
        return Finding("holds", said + size, verdict, _size_met(claim, run, verdict))
    if side:
        return Finding("contradicted", said, verdict)
    if verdict.kind == "equivalent" and (claimed is None or abs(claimed) > verdict.margin):
        return Finding("contradicted", said, verdict)
    if verdict.kind == "equivalent" and claimed is not None:
        return Finding("undecided", f"{said} {words.too_small(claimed)}", verdict)
    return Finding("undecided", said, verdict)


def _side(verdict: Verdict) -> ClaimKind | None:
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
    claimed, found = claim.effect, verdict.comparison
    if claimed is None or found.ci95 is None:
        return None
    larger = abs(found.effect or 0.0) > abs(claimed)
    return found.ci95[0] <= claimed <= found.ci95[1] or (larger and run.at_ceiling(claim, claim.value))


def best(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "X is best": holds if X beats every rival at 5 % (Gutmann and Maymin; statistics.md 3.4).

    Contradicted if a rival is ahead of it, allowing for their number, or if its lead over `against` is
    smaller than the margin. Rivals that were not run leave it undecided.
    """
    rivals = [name for name in dict.fromkeys((claim.against, *claim.among)) if name != claim.treatment]
    found = {name: run.verdict(claim, claim.treatment, name) for name in rivals if name in run.ran}
    shown = found.get(claim.against)
    judged = {name: v for name, v in found.items() if v.kind != "invalid"}
    if not judged:
        said = run.sentence(claim, shown, claim.treatment, claim.against) if shown else ""
        return Finding("unchecked", said, shown)
    ahead = _ahead_of(judged)
    if ahead:
        rival = min(ahead, key=lambda name: _p(judged[name]))
        return Finding("contradicted", words.beaten(run.sentence(claim, judged[rival], claim.treatment, rival)), shown)
    if shown and shown.kind == "equivalent":
        return Finding("contradicted", run.sentence(claim, shown, claim.treatment, claim.against), shown)
    return _lead(claim, run, rivals, judged, shown)


def _ahead_of(judged: dict[str, Verdict]) -> list[str]:
    """Return the rivals that are shown to be ahead, p multiplied by their number (Bonferroni)."""
    return [n for n, v in judged.items() if not _leads(v) and _p(v) * len(judged) < 1 - v.comparison.level]


def _p(verdict: Verdict) -> float:
    return 1.0 if verdict.comparison.p is None else verdict.comparison.p


def _leads(verdict: Verdict) -> bool:
    higher = direction(verdict.comparison.metric) == "higher"
    return ((verdict.comparison.effect or 0.0) > 0) == higher


def _lead(claim: Claim, run: ClaimRun, rivals: list[str], judged: dict[str, Verdict], shown: Verdict | None) -> Finding:
    """Return whether a treatment that no rival beats is itself ahead of all of them."""
    tied = [n for n, v in judged.items() if not (_leads(v) and _p(v) < 1 - v.comparison.level)]
    missing = [name for name in rivals if name not in judged]
    invalid = [name for name in missing if name in run.ran]
    label = run.label(claim.treatment)
    if tied:
        forecasts = [v.forecast for n, v in judged.items() if n in tied and v.forecast]
        said = words.tied(label, [run.label(n) for n in tied], len(judged), words.most_blocks(forecasts))
    else:
        said = words.ahead(label, len(judged), max(map(_p, judged.values())))
    for told, names in ((words.lacks, set(missing) - set(invalid)), (words.not_compared, invalid)):
        said += f" {told([run.label(n) for n in missing if n in names])}" if names else ""
    if tied or missing:
        return Finding("undecided", said, shown)
    return Finding("holds", said, shown, _size_met(claim, run, shown) if shown else None)


def no_loss(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "X costs nothing": holds if a loss beyond the margin is excluded (non-inferiority, one-sided 5 %)."""
    whole = run.joint_verdict(claim)
    better = direction(whole.comparison.metric)
    verdict = decide(whole.comparison, run.margin(claim), better, reason=whole.reason, asks="no-loss")
    outcomes = {"no-loss": "holds", "worse": "contradicted", "invalid": "unchecked"}
    outcome: words.Outcome = outcomes.get(verdict.kind, "undecided")  # type: ignore[assignment]
    return Finding(outcome, run.sentence(claim, verdict), verdict)


def equivalent(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "X and Y hardly differ": holds if a difference beyond the margin is excluded.

    Contradicted only if the whole 90 % interval lies beyond the margin.
    """
    verdict = run.joint_verdict(claim)
    said, kind = run.sentence(claim, verdict), verdict.kind
    if kind in ("equivalent", "small"):
        return Finding("holds", said, verdict)
    if kind == "invalid":
        return Finding("unchecked", said, verdict)
    low, high = verdict.comparison.ci90 or (0.0, 0.0)
    edges = largest_loss(verdict.margin, "higher"), largest_loss(verdict.margin, "lower")
    if high < edges[0] or low > edges[1]:
        return Finding("contradicted", said, verdict)
    if kind in ("better", "worse"):
        room = abs(math.log1p(verdict.margin) - abs(math.log1p(verdict.comparison.effect or 0.0)))
        said += f" {words.may_be_small(replace(verdict, forecast=to_reach(verdict.comparison, room)))}"
    return Finding("undecided", said, verdict)


CHECKS: dict[ClaimKind, Check] = {
    "better": moved,
    "worse": moved,
    "best": best,
    "no-loss": no_loss,
    "equivalent": equivalent,
    "fewer-errors": fewer_errors,
    "more-errors": more_errors,
    "interaction": interaction,
    "slope": slope,
    "resource": resource,
}
