"""What a recorded run has to say about a claim: verdicts of pairs, errors per trial, values by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.core.metrics import get_metric
from loadbook.records.rundata import trial_values
from loadbook.stats import errors as error_counts
from loadbook.stats.analyse import analyse
from loadbook.stats.claims import words
from loadbook.stats.compare import compare
from loadbook.stats.question import RunTables, treatments_of
from loadbook.stats.reasons import usable_mask
from loadbook.stats.verdict import decide_verdict
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.claim import Claim
    from loadbook.design.study import Study
    from loadbook.stats.result import Analysis, ErrorSummary, Verdict


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
        self.treatments_run = frozenset(n for n in treatments_of(data) if current_study is None or _same_treatment(n, data.study, current_study))
        is_baseline_contrast = analysis is not None and analysis.contrasts == "baseline" and analysis.hypothesis == "difference"
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
        return words.comparison_sentence(verdict, self.label(treatment or claim.treatment), against_label)

    def at_ceiling(self, claim: Claim, value: float | None) -> bool:
        """Tell whether a published value lies at the rate that the article offered."""
        offered = claim.offered_per_s
        return bool(offered and value and value >= self.study.gates.offered_ceiling * offered)

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
            pair_analysis = analyse(pair, baseline=against, metric=analysis.metric, statistic=analysis.statistic, level=self.level)
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
            _geometric_means(self.values(claim), pairs), claim.treatment, claim.against, metric=metric, statistic=statistic,
            level=self.analysis(claim).level,
        )  # fmt: skip
        return decide_verdict(joint, self.margin(claim), direction(metric), reason=reason)

    def errors(self, treatment: str, against: str) -> tuple[ErrorSummary, ErrorSummary]:
        """Return the errors of two arms, those of the first compared with those of the second."""
        treatment_errors, against_errors = (
            error_counts.count_errors(self.data.trials, self.data.measurements, name) for name in (treatment, against)
        )
        return error_counts.summarise_errors(treatment, treatment_errors, against_errors), error_counts.summarise_errors(against, against_errors, None)

    def failing_trials(self, arms: list[str]) -> pd.DataFrame:
        """Return `errors.errors_by_block` of these arms."""
        return error_counts.errors_by_block(self.data.trials, self.data.measurements, arms)

    def _tables_of(self, *arms: str) -> ClaimTables:
        """Return these arms without their checks, or the whole run with them."""
        trials, measurements, plan = self.data.trials, self.data.measurements, dict(getattr(self.data, "plan", {}))
        updates: dict[str, Any] = {"contrasts": "baseline", "asks": "difference"}
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
