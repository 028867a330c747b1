"""Comparisons of a run for checks of claims, results in words, and the evidence in an article's own numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
import pandas as pd

from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_bytes, format_percent, format_quantity, format_rounded
from loadbook.stats import errors as error_counts
from loadbook.stats.analyse import analyse
from loadbook.stats.comparability import usable_mask
from loadbook.stats.compare import compare
from loadbook.stats.phrases import verdict_parts
from loadbook.stats.saturation import RESOURCE_NOUNS
from loadbook.stats.text import direction, margin_text
from loadbook.stats.verdict import decide_verdict
from loadbook.store.tables import RunData, RunTables, treatments_of, trial_values
from loadbook.study.model import ERROR_CLAIM_KINDS, Claim

if TYPE_CHECKING:
    from loadbook.stats.results import Analysis, ErrorSummary, Verdict
    from loadbook.study.model import Study

MAX_CHANCE = 0.05
ClaimOutcome = Literal["holds", "contradicted", "undecided", "unchecked", "not-run"]
CouldShow = Literal["yes", "in part", "no", "not known"]

OUTCOMES: dict[ClaimOutcome, tuple[str, str]] = {
    "holds": ("✓", "holds here"),
    "contradicted": ("✗", "does not hold here"),
    "undecided": ("?", "undecided here"),
    "unchecked": ("–", "cannot be checked here"),
    "not-run": ("·", "not yet run here"),
}


@dataclass(frozen=True)
class ClaimFinding:
    """The outcome of a check and its explanation.

    `verdict` is the comparison to draw beside the article's two values; without one, `short_evidence` is a short text
    to write instead. `size_met`: for a claim that holds, whether the run also shows the article's size of the effect
    (None: no size was claimed, or the kind of the claim is none of "better", "worse" and "best").
    """

    outcome: ClaimOutcome
    evidence: str
    verdict: Verdict | None = None
    size_met: bool | None = None
    short_evidence: str = ""


@dataclass(frozen=True)
class ArticleEvidence:
    """The article's change (ratio minus 1; None if it gives no two numbers), and whether these could show the claim.

    `at_ceiling`: the value lies at the offered rate, so it is only a lower bound; `both_at_ceiling`: both values do.
    `sentence` is the reason for `could_show`.
    """

    effect: float | None
    at_ceiling: bool
    both_at_ceiling: bool
    could_show: CouldShow
    sentence: str


@dataclass(frozen=True)
class ClaimResult:
    """One claim: its check in words, the finding of this run, and the evidence in the article's own numbers."""

    claim: Claim
    check: str
    finding: ClaimFinding
    article: ArticleEvidence


class ClaimRun:
    """One run with the comparisons, errors and values that checks of claims need.

    Verdicts against the run's baseline are those of the whole analysis, so that a claim never contradicts the rest of
    the page. Verdicts against another treatment are separate comparisons, as each claim declares its pair in advance.
    `analysis` is an existing analysis of `data` at `level`; its metric and baseline are used. Treatments that were
    changed in `current_study` after the run count as not run.
    """

    def __init__(
        self, data: RunTables, analysis: Analysis | None = None, level: float = 0.95, current_study: Study | None = None
    ) -> None:
        self.data, self.study, self.level = data, data.study, level
        self.treatments_run = frozenset(
            n for n in treatments_of(data) if current_study is None or _same_treatment(n, data.study, current_study)
        )
        self._baseline = data.study.baseline
        self._metric = analysis.metric if analysis else data.study.metric
        self._analyses: dict[tuple[str, str], Analysis] = {}
        if analysis is not None and analysis.contrasts == "baseline" and analysis.hypothesis == "difference":
            self._baseline = analysis.baseline
            self._analyses[analysis.metric, analysis.statistic] = analysis
        self._verdicts: dict[tuple[str, ...], Verdict] = {}

    def metric(self, claim: Claim) -> tuple[str, str]:
        """Return metric and statistic by which a claim is checked.

        They are the run's if its metric is of the same kind and the claim names no statistic. Otherwise they are the
        claim's, with `ok_per_s` (successful responses only) for any rate.
        """
        if get_metric(claim.metric).kind == get_metric(self._metric).kind and claim.statistic is None:
            return self._metric, get_metric(self._metric).default_statistic
        name = "ok_per_s" if get_metric(claim.metric).kind == "rate" else claim.metric
        return name, claim.statistic or get_metric(name).default_statistic

    def analysis(self, claim: Claim) -> Analysis:
        """Return the run's analysis on the claim's metric."""
        metric, statistic = key = self.metric(claim)
        if key not in self._analyses:
            tables, baseline = self._tables_of(), self._baseline
            self._analyses[key] = analyse(
                tables, baseline=baseline, metric=metric, statistic=statistic, level=self.level, limited=False
            )
        return self._analyses[key]

    def margin(self, claim: Claim) -> float:
        """Return the margin of a claim, the smallest difference that matters: its own, else the analysis's."""
        return claim.margin or self.analysis(claim).margin

    def values(self, claim: Claim) -> pd.DataFrame:
        """Return the values of the claim's metric, one row per trial; `valid`: whether the trial counts."""
        rows = trial_values(self.data.trials, self.data.measurements, *self.metric(claim))
        return rows.assign(valid=usable_mask(rows))

    def label(self, treatment: str) -> str:
        """Return a treatment's display name."""
        return self.study.label(treatment) if treatment in self.study.treatments else treatment

    def sentence(self, claim: Claim, verdict: Verdict, against: str = "") -> str:
        """Return the sentence on a comparison of the claim's treatment with `against` (default: the claim's)."""
        other = against or claim.against
        against_label = None if other == self._baseline else self.label(other)
        return f"{self.label(claim.treatment)}{verdict_parts(verdict, against=against_label).after_name}"

    def mostly_at_ceiling(self, treatment: str) -> bool:
        """Return whether most trials of a treatment served the whole offered load, so that their rate is a setting."""
        gates = self.data.trials.loc[self.data.trials["treatment"] == treatment, "gates"]
        return bool(sum("offered_ceiling" in hit for hit in gates) > len(gates) / 2)

    def verdict(self, claim: Claim, treatment: str, against: str) -> Verdict:
        """Return the verdict on one treatment compared with another, with the claim's margin."""
        key = (*self.metric(claim), treatment, against)
        if key not in self._verdicts:
            analysis = self.analysis(claim)
            row = next((r for r in analysis.of_kind("treatment") if r.treatment == treatment), None)
            if row is None or against != analysis.baseline:
                row = analyse(
                    self._tables_of(treatment, against), baseline=against, metric=analysis.metric,
                    statistic=analysis.statistic, level=self.level, limited=False,
                ).row(treatment)  # fmt: skip
            assert row.verdict is not None
            self._verdicts[key] = row.verdict
        verdict, margin = self._verdicts[key], self.margin(claim)
        if verdict.margin == margin or verdict.kind == "invalid":
            return verdict
        return decide_verdict(verdict.comparison, margin, direction(verdict.comparison.metric))

    def joint_verdict(self, claim: Claim) -> Verdict:
        """Return one verdict on all pairs of treatments of a claim, from the geometric mean of their ratios per block.

        If one of the pairs must not be compared, the verdict is invalid.
        """
        pairs = [(claim.treatment, claim.against), *claim.further]
        if len(pairs) == 1:
            return self.verdict(claim, *pairs[0])
        reason = next((r for pair in pairs if (r := self.verdict(claim, *pair).reason)), None)
        metric, statistic = self.metric(claim)
        joint = compare(
            _geometric_means(self.values(claim), pairs), claim.treatment, claim.against,
            metric=metric, statistic=statistic, level=self.analysis(claim).level,
        )  # fmt: skip
        return decide_verdict(joint, self.margin(claim), direction(metric), reason=reason)

    def errors(self, treatment: str, against: str) -> tuple[ErrorSummary, ErrorSummary]:
        """Return the errors of two treatments, those of the first compared with those of the second."""
        counts = error_counts.count_errors(self.data.trials, self.data.measurements, (treatment, against))
        compared = error_counts.summarise_errors(treatment, counts[treatment], counts[against])
        return compared, error_counts.summarise_errors(against, counts[against], None)

    def _tables_of(self, *arms: str) -> RunTables:
        """Return tables for two-sided comparisons with a baseline: `arms` as plain treatments, or the whole run."""
        trials, measurements, plan = self.data.trials, self.data.measurements, self.data.plan
        updates: dict[str, Any] = {"contrasts": "baseline", "hypothesis": "difference"}
        if arms:
            trials, plan = trials[trials["treatment"].isin(arms)], replace(plan, treatments=arms)
            measurements = measurements[measurements["trial"].isin(trials["trial"])]
            study_treatments = self.study.treatments.items()
            updates["treatments"] = {name: t.model_copy(update={"check": None}) for name, t in study_treatments}
        study = self.study.model_copy(update=updates)
        data = cast("RunData", self.data)
        return replace(data, study=study, plan=plan, trials=trials, measurements=measurements)


def _same_treatment(treatment: str, then: Study, now: Study) -> bool:
    """Return whether a treatment has the same load and factor levels in both versions of the study."""
    if treatment not in now.treatments:
        return False
    old, new = then.levels_of(treatment), now.levels_of(treatment)
    levels = all(old[factor] == new[factor] for factor in old.keys() & new.keys())
    return levels and then.workload_of(treatment) == now.workload_of(treatment)


def _geometric_means(values: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Return values of two treatments named as the first pair: geometric means over all pairs, by block."""
    usable = values[values["valid"] & (values["value"] > 0)]
    logs = usable.assign(value=np.log(usable["value"])).pivot(index="block", columns="treatment", values="value")
    sides = zip(*pairs, strict=True)
    means = {names[0]: np.exp(logs.reindex(columns=list(names)).mean(axis=1, skipna=False)) for names in sides}
    return pd.concat([m.rename("value").reset_index().assign(treatment=name) for name, m in means.items()])


def assess_article(claim: Claim, ceiling: float, sd_log: float | None) -> ArticleEvidence:
    """Return whether the article's own numbers, one run each, could have shown the claim.

    A rate of at least `ceiling` (a share of the offered rate) only shows the tool's setting. `sd_log` is the standard
    deviation of the log ratio of two single trials, as observed here (None: not known).
    """
    value, other, effect = claim.value or 0.0, claim.against_value or 0.0, claim.claimed_effect
    limit = ceiling * claim.offered_per_s if claim.offered_per_s else math.inf
    at_ceiling, both_at_ceiling = value >= limit, min(value, other) >= limit
    could: CouldShow = "no"
    if claim.effective_kind in ERROR_CLAIM_KINDS:
        has_counts = claim.errors is not None and claim.against_errors is not None
        sentence = "One run each, and errors come in bursts: two equal treatments can differ like that."
        if not has_counts:
            could, sentence = "not known", "The article gives no counts of errors for both."
    elif effect is None:
        could, sentence = "not known", "The article gives no two numbers for it."
    elif both_at_ceiling:
        sentence = "Both values lie at the offered rate, which is the tool’s setting: no evidence either way."
    elif claim.effective_kind in ("equivalent", "no-loss"):
        sentence = "One run each: without an interval no difference is excluded."
    elif claim.effective_kind == "slope":
        sentence = "One run for each size: a slope without an interval."
    elif (effect > 0) == ((claim.effective_kind == "worse") != claim.is_lower_better):
        sentence = "Its own two numbers point the other way."
    elif not sd_log:
        could, sentence = "not known", "One run each; how much runs scatter is not known."
    else:
        chance = math.erfc(abs(math.log1p(effect)) / sd_log / math.sqrt(2))  # if both are equal, normal scatter
        often = format_percent(chance, 0, signed=False) if chance >= 0.01 else f"less than 1{NBSP}%"
        sentence = f"One run each: with the scatter seen here, equal treatments differ by as much in {often} of pairs."
        could = "yes" if chance < MAX_CHANCE else "no"
        if could == "yes" and claim.effective_kind == "best":
            could = "in part"
            sentence += " That it leads is the largest of several single runs, and in part luck."
        elif could == "yes" and at_ceiling:
            could = "in part"
            sentence += " Its value lies at the offered rate, so that the size is a lower bound."
    return ArticleEvidence(effect, at_ceiling, both_at_ceiling, could, sentence)


def criterion_text(claim: Claim, margin: float) -> str:
    """Return the condition of a claim as text, "holds if ..."; `margin` is a ratio minus 1."""
    least = margin_text(margin)
    texts = {
        "better": "it is shown to be better",
        "worse": "it is shown to be worse",
        "best": "it is shown to be ahead of every rival",
        "no-loss": f"a loss beyond {least} is excluded",
        "equivalent": f"a difference larger than {least} is excluded",
        "fewer-errors": "it has errors in fewer trials",
        "more-errors": "it has errors in more trials",
        "interaction": "the one removes errors that the other brings",
    }
    if claim.used:
        low, high = (usage_value_text(claim, bound) for bound in claim.used)
        noun = RESOURCE_NOUNS[claim.resource or ""]
        return f"holds if the {claim.role} uses {low} to {high} of its {noun} in every trial"
    if claim.slope:
        return f"holds if the log-log slope lies in {' to '.join(map(number_text, claim.slope))}"
    joint = f" (geometric mean of {len(claim.further) + 1} ratios)" if claim.further else ""
    return f"holds if {texts[claim.effective_kind]}{joint}"


def usage_value_text(claim: Claim, value: float) -> str:
    """Return the use of a claim's resource as a short text; `value` is in bytes for memory, else a share (0 to 1)."""
    return format_bytes(value) if claim.resource == "memory" else f"{100 * value:.0f}{NBSP}%"


def number_text(value: float) -> str:
    """Return a number with two decimals and U+2212 for minus."""
    return f"{value:.2f}".replace("-", "−")


_PLURAL_OUTCOMES: dict[ClaimOutcome, str] = {"holds": "hold here", "contradicted": "do not hold here"}
SIZE_TEXTS: dict[bool | None, str] = {True: "in direction and size", False: "in direction, not in size"}
_UNITS = {"requests_per_s": " req/s", "ok_per_s": " req/s"}


def claim_title(claim: Claim) -> str:
    """Return the claim: the article's own words in quotation marks, else a short form."""
    return f"“{claim.quote}”" if claim.quote else claim.claim


def article_numbers_text(claim: Claim) -> str:
    """Return the article's numbers as "17,688 → 23,872 req/s; errors – → 7,754", or "no numbers".

    The value of the claim's treatment is at the right; a dash replaces a missing number of errors.
    """
    parts = []
    before, after = claim.against_value, claim.value
    if before is not None and after is not None and claim.metric in _UNITS:
        parts.append(f"{format_rounded(before)} → {format_rounded(after)}{_UNITS[claim.metric]}")
    elif before is not None and after is not None:
        unit = get_metric(claim.metric).unit
        name = claim.metric.replace("_", " ") + (f" {claim.statistic}" if claim.statistic else "")
        parts.append(f"{name} {format_quantity(before, unit)} → {format_quantity(after, unit)}")
    if claim.errors is not None or claim.against_errors is not None:
        counts = ("–" if number is None else f"{number:,}" for number in (claim.against_errors, claim.errors))
        parts.append(f"errors {' → '.join(counts)}")
    return "; ".join(parts) or "no numbers"


def claims_summary(findings: Sequence[ClaimFinding], could: Sequence[CouldShow]) -> str:
    """Return sentences with the number of claims by outcome, and of those that the article's numbers could show.

    `could` has one value per finding, in the same order.
    """
    outcomes = [finding.outcome for finding in findings]
    if len(findings) == 1:
        size = SIZE_TEXTS.get(findings[0].size_met)
        outcome = f"{OUTCOMES[outcomes[0]][1]}{f', {size}' if size else ''}"
        return f"The article’s claim: {outcome}. Could its own numbers have shown it? {could[0].capitalize()}."
    counts = {outcome: outcomes.count(outcome) for outcome in OUTCOMES if outcome in outcomes}
    parts = [f"{n} {_PLURAL_OUTCOMES.get(o, OUTCOMES[o][1]) if n > 1 else OUTCOMES[o][1]}" for o, n in counts.items()]
    sized = [finding.size_met for finding in findings if finding.size_met is not None]
    if sized:
        some = 0 < sum(sized) < counts.get("holds", 0)
        parts[0] += f" ({f'{sum(sized)} of them in size, too' if some else SIZE_TEXTS[all(sized)]})"
    yes, partly = could.count("yes"), could.count("in part")
    partly_text = f" ({partly}{' more' if yes else ''} in part)" if partly else ""
    return (
        f"Of {len(findings)} claims: {'; '.join(parts)}. "
        f"The article’s own numbers, one run each, could have shown {yes or 'none'} of them{partly_text}."
    )
