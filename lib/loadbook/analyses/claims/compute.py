"""What a recorded run has to say about a claim: verdicts of pairs, errors per trial, values by block.

Claim replay: what articles say, judged by what a run found (statistics.md 5.12). Frames in, values out.

Claims as a reader meets them: the sentence, the article's numbers, and how many claims fare how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from loadbook.analyses.claims import text
from loadbook.analyses.claims.checks import CHECKS, ArticleEvidence, ClaimFinding, assess_article
from loadbook.analyses.claims.text import OUTCOMES, ClaimOutcome, CouldShow
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_quantity, format_rounded
from loadbook.stats import errors as error_counts
from loadbook.stats.analyse import RunTables, analyse, strata_of, treatments_of
from loadbook.stats.compare import compare
from loadbook.stats.text import direction
from loadbook.stats.verdict import decide_verdict, usable_mask
from loadbook.store.tables import trial_values
from loadbook.study.claims import ERROR_CLAIM_KINDS, Claim

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import Analysis, ErrorSummary, Verdict
    from loadbook.store.tables import RunData
    from loadbook.study.model import Study


@dataclass(frozen=True)
class ClaimTables:
    """Some arms of a run as tables of their own, each compared with a baseline, two-sided."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: dict[str, Any]
    problems: pd.DataFrame | None
    samples: pd.DataFrame | None


class ClaimRun:
    """One run, asked for what claims need; `analysis` is an analysis of it that was made already, at `level`.

    `treatments_run` are its treatments, without those that `current_study` has changed since.

    Verdicts against the run's baseline are those of the whole analysis, so that a claim never contradicts the rest of
    the page; those against another treatment are comparisons of their own, as each claim names them beforehand.
    """

    def __init__(
        self, data: RunTables, analysis: Analysis | None = None, level: float = 0.95, current_study: Study | None = None
    ) -> None:
        self.data, self.study, self.level = data, data.study, level
        self.treatments_run = frozenset(
            n for n in treatments_of(data) if current_study is None or _same_treatment(n, data.study, current_study)
        )
        is_baseline_contrast = (
            analysis is not None and analysis.contrasts == "baseline" and analysis.hypothesis == "difference"
        )
        self._baseline = analysis.baseline if analysis and is_baseline_contrast else data.study.baseline
        self._metric = analysis.metric if analysis else data.study.metric
        self._analyses = {(analysis.metric, analysis.statistic): analysis} if analysis and is_baseline_contrast else {}
        self._verdicts: dict[tuple[str, ...], Verdict] = {}

    def metric(self, claim: Claim) -> tuple[str, str]:
        """Return metric and statistic that judge a claim: of rates the study's own, successes only."""
        if get_metric(claim.metric).kind == get_metric(self._metric).kind and claim.statistic is None:
            return self._metric, get_metric(self._metric).default_statistic
        name = "ok_per_s" if get_metric(claim.metric).kind == "rate" else claim.metric
        return name, claim.statistic or get_metric(name).default_statistic

    def analysis(self, claim: Claim) -> Analysis:
        """Return the run's analysis on the claim's metric."""
        key = self.metric(claim)
        if key not in self._analyses:
            metric, statistic = key
            self._analyses[key] = analyse(
                self._tables_of(), baseline=self._baseline, metric=metric, statistic=statistic, level=self.level
            )
        return self._analyses[key]

    def margin(self, claim: Claim) -> float:
        """Return the smallest difference that matters to a claim about values."""
        return claim.margin or self.analysis(claim).margin

    def has_values(self, claim: Claim) -> bool:
        """Tell whether any trial has a value of the claim's metric."""
        return bool(self.values(claim)["value"].notna().any())

    def values(self, claim: Claim) -> pd.DataFrame:
        """Return the claim's metric, one row per trial, with whether it counts."""
        rows = trial_values(self.data.trials, self.data.measurements, *self.metric(claim))
        return rows.assign(valid=usable_mask(rows))

    def label(self, treatment: str) -> str:
        """Return a treatment as readers see it."""
        return self.study.label(treatment) if treatment in self.study.treatments else treatment

    def sentence(self, claim: Claim, verdict: Verdict, treatment: str = "", against: str = "") -> str:
        """Return the sentence on a comparison of the claim's two arms, or of two others."""
        other = against or claim.against
        against_label = None if other == self._baseline else self.label(other)
        return text.comparison_sentence(verdict, self.label(treatment or claim.treatment), against_label)

    def at_ceiling(self, claim: Claim, value: float | None) -> bool:
        """Tell whether a published value lies at the rate that the article offered."""
        offered = claim.offered_per_s
        return bool(offered and value and value >= self.study.validity.offered_ceiling * offered)

    def mostly_at_ceiling(self, treatment: str) -> bool:
        """Tell whether most trials of a treatment served all of an open load: their rate is the tool's setting."""
        gates = self.data.trials.loc[self.data.trials["treatment"] == treatment, "gates"]
        return bool(sum("offered_ceiling" in hit for hit in gates) > len(gates) / 2)

    def verdict(self, claim: Claim, treatment: str, against: str) -> Verdict:
        """Return what may be said of one arm against another, with the claim's margin."""
        key = (*self.metric(claim), treatment, against)
        if key not in self._verdicts:
            self._verdicts[key] = self._comparison_verdict(self.analysis(claim), treatment, against)
        return self._with_margin(claim, self._verdicts[key])

    def _comparison_verdict(self, analysis: Analysis, treatment: str, against: str) -> Verdict:
        row = next((r for r in analysis.of_kind("treatment") if r.treatment == treatment), None)
        if row is None or against != analysis.baseline:
            pair = self._tables_of(treatment, against)
            pair_analysis = analyse(
                pair, baseline=against, metric=analysis.metric, statistic=analysis.statistic, level=self.level
            )
            row = pair_analysis.row(treatment)
        assert row.verdict is not None
        return row.verdict

    def _with_margin(self, claim: Claim, verdict: Verdict) -> Verdict:
        margin = self.margin(claim)
        if verdict.margin == margin or verdict.kind == "invalid":
            return verdict
        return decide_verdict(verdict.comparison, margin, direction(verdict.comparison.metric))

    def joint_verdict(self, claim: Claim) -> Verdict:
        """Return the verdict on the geometric mean of the ratios of the claim's pairs, block by block.

        Where one of the pairs must not be compared, none is.
        """
        pairs = [(claim.treatment, claim.against), *claim.further]
        if len(pairs) == 1:
            return self.verdict(claim, *pairs[0])
        single = [self.verdict(claim, *pair) for pair in pairs]
        reason = next((v.reason for v in single if v.reason), None)
        metric, statistic = self.metric(claim)
        joint = compare(
            _geometric_means(self.values(claim), pairs),
            claim.treatment,
            claim.against,
            metric=metric,
            statistic=statistic,
            level=self.analysis(claim).level,
        )
        return decide_verdict(joint, self.margin(claim), direction(metric), reason=reason)

    def errors(self, treatment: str, against: str) -> tuple[ErrorSummary, ErrorSummary]:
        """Return the errors of two arms, those of the first compared with those of the second."""
        treatment_errors, against_errors = (
            error_counts.count_errors(self.data.trials, self.data.measurements, name) for name in (treatment, against)
        )
        return error_counts.summarise_errors(
            treatment, treatment_errors, against_errors
        ), error_counts.summarise_errors(against, against_errors, None)

    def failing_trials(self, arms: list[str]) -> pd.DataFrame:
        """Return `errors.errors_by_block` of these arms."""
        return error_counts.errors_by_block(self.data.trials, self.data.measurements, arms)

    def _tables_of(self, *arms: str) -> ClaimTables:
        """Return these arms without their checks, or the whole run with them."""
        trials, measurements, plan = self.data.trials, self.data.measurements, dict(getattr(self.data, "plan", {}))
        updates: dict[str, Any] = {"contrasts": "baseline", "hypothesis": "difference"}
        if arms:
            trials, plan["treatments"] = trials[trials["treatment"].isin(arms)], list(arms)
            measurements = measurements[measurements["trial"].isin(trials["trial"])]
            study_treatments = self.study.treatments.items()
            updates["treatments"] = {name: t.model_copy(update={"check": None}) for name, t in study_treatments}
        problems, samples = (getattr(self.data, name, None) for name in ("problems", "samples"))
        study = self.study.model_copy(update=updates)
        return ClaimTables(study, trials, measurements, plan, problems, samples)


def _same_treatment(treatment: str, then: Study, now: Study) -> bool:
    """Tell whether two versions of a study give a treatment one meaning: levels of the factors that both have, load."""
    if treatment not in now.treatments:
        return False
    old, new = then.levels_of(treatment), now.levels_of(treatment)
    levels = all(old[factor] == new[factor] for factor in old.keys() & new.keys())
    return levels and then.workload_of(treatment) == now.workload_of(treatment)


def _geometric_means(values: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Return rows of two arms, named as the first pair: each block's geometric mean over the pairs' arms."""
    import pandas as pd

    usable = values[values["valid"] & (values["value"] > 0)]
    logs = usable.assign(value=np.log(usable["value"])).pivot(index="block", columns="treatment", values="value")
    sides = zip(*pairs, strict=True)
    means = {names[0]: np.exp(logs.reindex(columns=list(names)).mean(axis=1, skipna=False)) for names in sides}
    return pd.concat([m.rename("value").reset_index().assign(treatment=name) for name, m in means.items()])


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
    stratified = data.study.stratify_by is not None and analysis is None
    parts = strata_of(cast("RunData", data)).values() if stratified else ()
    return [*(ClaimRun(part, None, level, study) for part in parts), ClaimRun(data, analysis, level, study)]


def _run_for(runs: list[ClaimRun], arms: tuple[str, ...]) -> ClaimRun | None:
    """Return the first that has these arms, else the last."""
    return next((run for run in runs if set(arms) <= run.treatments_run), runs[-1] if runs else None)


def _check_claim(study: Study, run: ClaimRun | None, claim: Claim) -> ClaimResult:
    finding = _find(study, run, claim)
    article = assess_article(claim, study.validity.offered_ceiling, _pair_sd_log(claim, finding, run))
    margin = run.margin(claim) if run else claim.margin or study.margin
    return ClaimResult(claim, text.criterion_text(claim, margin), finding, article)


def _find(study: Study, run: ClaimRun | None, claim: Claim) -> ClaimFinding:
    if run is None:
        return ClaimFinding("not-run", text.no_run_sentence(study.name, _smallest_subset(study, claim)))
    missing = [name for name in required_arms(claim) if name not in run.treatments_run]
    if missing:
        return ClaimFinding(
            "not-run",
            text.not_run_sentence(list(map(study.label, missing)), study.name, _smallest_subset(study, claim)),
        )
    if claim.effective_kind == "resource":  # it rests on traces, not on a comparison
        return CHECKS[claim.effective_kind](claim, run)
    if claim.effective_kind not in ERROR_CLAIM_KINDS and not run.has_values(claim):
        return ClaimFinding(
            "unchecked", text.not_measured_sentence(*run.metric(claim), study.tools_of(run.treatments_run))
        )
    analysis = run.analysis(claim)
    if analysis.aa_failure and claim.effective_kind not in ERROR_CLAIM_KINDS:
        return ClaimFinding("unchecked", analysis.aa_failure)
    if analysis.stopping_state.pending_reason:
        return ClaimFinding(
            "unchecked",
            f"{analysis.stopping_state.pending_reason[0].upper()}{analysis.stopping_state.pending_reason[1:]}.",
        )
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
        return (
            f"The article’s claim: {OUTCOMES[outcomes[0]][1]}{f', {size}' if size else ''}. {_could_show_text(could)}"
        )
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
