"""Claim replay: what articles say, judged by what a run found (statistics.md 5.12). Frames in, values out."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, cast

from loadbook.design.claim import ERROR_KINDS
from loadbook.stats.claims import words
from loadbook.stats.claims.article import Article, weigh
from loadbook.stats.claims.checks import CHECKS
from loadbook.stats.claims.finding import Finding
from loadbook.stats.claims.run import ClaimRun
from loadbook.stats.parts import parts_of

if TYPE_CHECKING:
    from loadbook.design.claim import Claim
    from loadbook.design.study import Study
    from loadbook.records.rundata import RunData
    from loadbook.stats.question import RunTables
    from loadbook.stats.result import Analysis


@dataclass(frozen=True)
class Judged:
    """One claim with what was found here, what the article's numbers are worth, and the check in words."""

    claim: Claim
    check: str
    finding: Finding
    article: Article


def replay(
    study: Study, data: RunTables | None = None, known: Analysis | None = None, level: float = 0.95
) -> list[Judged]:
    """Judge every claim that a study publishes, under the condition that it is about where those are judged apart.

    Parameters
    ----------
    study : gives the claims, in its order. A treatment that it has changed since the run counts as not run.
    data : a run of that study; None if there is none, and every claim is then not yet run.
    known : an analysis of `data` at `level` that was made already, whose metric and baseline are used.
    level : confidence of the intervals.
    """
    claims = study.published.claims if study.published else ()
    runs = _runs(data, known, level, study) if data is not None else []
    return [_judge(study, _run_with(runs, needed(claim)), claim) for claim in claims]


def _runs(data: RunTables, known: Analysis | None, level: float, study: Study) -> list[ClaimRun]:
    """Return the run under each condition that is judged apart, last as a whole."""
    apart = data.study.apart is not None and known is None
    parts = parts_of(cast("RunData", data)).values() if apart else ()
    return [*(ClaimRun(part, None, level, study) for part in parts), ClaimRun(data, known, level, study)]


def _run_with(runs: list[ClaimRun], arms: tuple[str, ...]) -> ClaimRun | None:
    """Return the first that has these arms, else the last."""
    return next((run for run in runs if set(arms) <= run.ran), runs[-1] if runs else None)


def _judge(study: Study, run: ClaimRun | None, claim: Claim) -> Judged:
    finding = _finding(study, run, claim)
    article = weigh(claim, study.gates.offered_ceiling, _scatter(claim, finding, run))
    margin = run.margin(claim) if run else claim.margin or study.margin
    return Judged(claim, words.check(claim, margin), finding, article)


def _finding(study: Study, run: ClaimRun | None, claim: Claim) -> Finding:
    if run is None:
        return Finding("not-run", words.nowhere(study.name, _subset(study, claim)))
    missing = [name for name in needed(claim) if name not in run.ran]
    if missing:
        return Finding("not-run", words.not_run(list(map(study.label, missing)), study.name, _subset(study, claim)))
    if claim.check == "resource":  # it rests on traces, not on a comparison
        return CHECKS[claim.check](claim, run)
    if claim.check not in ERROR_KINDS and not run.measured(claim):
        return Finding("unchecked", words.not_measured(*run.metric(claim), study.tools_of(run.ran)))
    whole = run.analysis(claim)
    if whole.laboratory and claim.check not in ERROR_KINDS:
        return Finding("unchecked", whole.laboratory)
    if whole.stand.waiting:
        return Finding("unchecked", f"{whole.stand.waiting[0].upper()}{whole.stand.waiting[1:]}.")
    return CHECKS[claim.check](claim, run)


def needed(claim: Claim) -> tuple[str, ...]:
    """Return the arms without which there is nothing to say; of rivals to the best, some may be missing."""
    return (claim.treatment, claim.against) if claim.check == "best" else claim.arms


def _subset(study: Study, claim: Claim) -> str | None:
    """Return the smallest subset of the study with all of the claim's arms; None if the study's own has them."""
    wanted = set(claim.arms)
    if wanted <= set(study.in_subset()):
        return None
    have = [name for name, arms in study.subsets.items() if wanted <= set(arms)]
    return min(have, key=lambda name: len(study.subsets[name]), default="all")


def _scatter(claim: Claim, finding: Finding, run: ClaimRun | None) -> float | None:
    """Return the scatter of a pair of trials: that of the claim's own comparison, else the usual one of the run."""
    if finding.verdict and finding.verdict.comparison.sd_log:
        return finding.verdict.comparison.sd_log
    rows = run.analysis(claim).rows if run else ()
    seen = [sd for row in rows if row.verdict and (sd := row.verdict.comparison.sd_log)]
    return median(seen) if seen else None
