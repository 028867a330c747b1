"""Claim replay: what articles say, judged by what a run found (statistics.md 5.12). Frames in, values out."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, cast

from loadbook.design.claim import ERROR_CLAIM_KINDS
from loadbook.stats.claims import words
from loadbook.stats.claims.article import ArticleEvidence, assess_article
from loadbook.stats.claims.checks import CHECKS
from loadbook.stats.claims.finding import ClaimFinding
from loadbook.stats.claims.run import ClaimRun
from loadbook.stats.parts import strata_of

if TYPE_CHECKING:
    from loadbook.design.claim import Claim
    from loadbook.design.study import Study
    from loadbook.records.rundata import RunData
    from loadbook.stats.question import RunTables
    from loadbook.stats.result import Analysis


@dataclass(frozen=True)
class ClaimResult:
    """One claim with what was found here, what the article's numbers are worth, and the check in words."""

    claim: Claim
    check: str
    finding: ClaimFinding
    article: ArticleEvidence


def check_claims(
    study: Study, data: RunTables | None = None, analysis: Analysis | None = None, level: float = 0.95
) -> list[ClaimResult]:
    """Judge every claim that a study publishes, under the condition that it is about where those are judged apart.

    Parameters
    ----------
    study : gives the claims, in its order. A treatment that it has changed since the run counts as not run.
    data : a run of that study; None if there is none, and every claim is then not yet run.
    analysis : an analysis of `data` at `level` that was made already, whose metric and baseline are used.
    level : confidence of the intervals.
    """
    claims = study.published.claims if study.published else ()
    runs = _claim_runs(data, analysis, level, study) if data is not None else []
    return [_check_claim(study, _run_for(runs, required_arms(claim)), claim) for claim in claims]


def _claim_runs(data: RunTables, analysis: Analysis | None, level: float, study: Study) -> list[ClaimRun]:
    """Return the run under each condition that is judged apart, last as a whole."""
    stratified = data.study.apart is not None and analysis is None
    parts = strata_of(cast("RunData", data)).values() if stratified else ()
    return [*(ClaimRun(part, None, level, study) for part in parts), ClaimRun(data, analysis, level, study)]


def _run_for(runs: list[ClaimRun], arms: tuple[str, ...]) -> ClaimRun | None:
    """Return the first that has these arms, else the last."""
    return next((run for run in runs if set(arms) <= run.treatments_run), runs[-1] if runs else None)


def _check_claim(study: Study, run: ClaimRun | None, claim: Claim) -> ClaimResult:
    finding = _find(study, run, claim)
    article = assess_article(claim, study.gates.offered_ceiling, _pair_sd_log(claim, finding, run))
    margin = run.margin(claim) if run else claim.margin or study.margin
    return ClaimResult(claim, words.criterion_text(claim, margin), finding, article)


def _find(study: Study, run: ClaimRun | None, claim: Claim) -> ClaimFinding:
    if run is None:
        return ClaimFinding("not-run", words.no_run_sentence(study.name, _smallest_subset(study, claim)))
    missing = [name for name in required_arms(claim) if name not in run.treatments_run]
    if missing:
        return ClaimFinding("not-run", words.not_run_sentence(list(map(study.label, missing)), study.name, _smallest_subset(study, claim)))
    if claim.effective_kind == "resource":  # it rests on traces, not on a comparison
        return CHECKS[claim.effective_kind](claim, run)
    if claim.effective_kind not in ERROR_CLAIM_KINDS and not run.has_values(claim):
        return ClaimFinding("unchecked", words.not_measured_sentence(*run.metric(claim), study.tools_of(run.treatments_run)))
    analysis = run.analysis(claim)
    if analysis.aa_failure and claim.effective_kind not in ERROR_CLAIM_KINDS:
        return ClaimFinding("unchecked", analysis.aa_failure)
    if analysis.stopping_state.pending_reason:
        return ClaimFinding("unchecked", f"{analysis.stopping_state.pending_reason[0].upper()}{analysis.stopping_state.pending_reason[1:]}.")
    return CHECKS[claim.effective_kind](claim, run)


def required_arms(claim: Claim) -> tuple[str, ...]:
    """Return the arms without which there is nothing to say; of rivals to the best, some may be missing."""
    return (claim.treatment, claim.against) if claim.effective_kind == "best" else claim.treatments


def _smallest_subset(study: Study, claim: Claim) -> str | None:
    """Return the smallest subset of the study with all of the claim's arms; None if the study's own has them."""
    wanted = set(claim.treatments)
    if wanted <= set(study.treatments_in()):
        return None
    candidates = [name for name, arms in study.subsets.items() if wanted <= set(arms)]
    return min(candidates, key=lambda name: len(study.subsets[name]), default="all")


def _pair_sd_log(claim: Claim, finding: ClaimFinding, run: ClaimRun | None) -> float | None:
    """Return the scatter of a pair of trials: that of the claim's own comparison, else the usual one of the run."""
    if finding.verdict and finding.verdict.comparison.sd_log:
        return finding.verdict.comparison.sd_log
    rows = run.analysis(claim).rows if run else ()
    sds = [sd for row in rows if row.verdict and (sd := row.verdict.comparison.sd_log)]
    return median(sds) if sds else None
