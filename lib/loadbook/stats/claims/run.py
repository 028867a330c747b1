"""What a recorded run has to say about a claim: verdicts of pairs, errors per trial, values by block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.core.metrics import metric as metric_of
from loadbook.records.rundata import trial_values
from loadbook.stats import errors as error_counts
from loadbook.stats.analyse import analyse
from loadbook.stats.claims import words
from loadbook.stats.compare import compare
from loadbook.stats.question import RunTables, treatments_of
from loadbook.stats.reasons import counts
from loadbook.stats.verdict import decide
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.claim import Claim
    from loadbook.design.study import Study
    from loadbook.stats.result import Analysis, ErrorSummary, Verdict


@dataclass(frozen=True)
class Part:
    """Some arms of a run as tables of their own, each compared with a baseline, two-sided."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: dict[str, Any]
    problems: pd.DataFrame | None
    samples: pd.DataFrame | None


class ClaimRun:
    """One run, asked for what claims need; `known` is an analysis of it that was made already, at `level`.

    `ran` are its treatments, without those that the study `asked` has changed since.

    Verdicts against the run's baseline are those of the whole analysis, so that a claim never contradicts the rest of
    the page; those against another treatment are comparisons of their own, as each claim names them beforehand.
    """

    def __init__(
        self, data: RunTables, known: Analysis | None = None, level: float = 0.95, asked: Study | None = None
    ) -> None:
        self.data, self.study, self.level = data, data.study, level
        self.ran = frozenset(n for n in treatments_of(data) if asked is None or _alike(n, data.study, asked))
        usual = known is not None and known.contrasts == "baseline" and known.asks == "difference"
        self._baseline = known.baseline if known and usual else data.study.baseline
        self._metric = known.metric if known else data.study.metric
        self._known = {(known.metric, known.statistic): known} if known and usual else {}
        self._pairs: dict[tuple[str, ...], Verdict] = {}

    def metric(self, claim: Claim) -> tuple[str, str]:
        """Return metric and statistic that judge a claim: of rates the study's own, successes only."""
        if metric_of(claim.metric).kind == metric_of(self._metric).kind and claim.statistic is None:
            return self._metric, metric_of(self._metric).default_statistic
        name = "ok_per_s" if metric_of(claim.metric).kind == "rate" else claim.metric
        return name, claim.statistic or metric_of(name).default_statistic

    def analysis(self, claim: Claim) -> Analysis:
        """Return the run's analysis on the claim's metric."""
        key = self.metric(claim)
        if key not in self._known:
            metric, statistic = key
            self._known[key] = analyse(
                self._part(), baseline=self._baseline, metric=metric, statistic=statistic, level=self.level
            )
        return self._known[key]

    def margin(self, claim: Claim) -> float:
        """Return the smallest difference that matters to a claim about values."""
        return claim.margin or self.analysis(claim).margin

    def measured(self, claim: Claim) -> bool:
        """Tell whether any trial has a value of the claim's metric."""
        return bool(self.values(claim)["value"].notna().any())

    def values(self, claim: Claim) -> pd.DataFrame:
        """Return the claim's metric, one row per trial, with whether it counts."""
        found = trial_values(self.data.trials, self.data.measurements, *self.metric(claim))
        return found.assign(valid=counts(found))

    def label(self, treatment: str) -> str:
        """Return a treatment as readers see it."""
        return self.study.label(treatment) if treatment in self.study.treatments else treatment

    def sentence(self, claim: Claim, verdict: Verdict, treatment: str = "", against: str = "") -> str:
        """Return the sentence on a comparison of the claim's two arms, or of two others."""
        other = against or claim.against
        beside = None if other == self._baseline else self.label(other)
        return words.compared(verdict, self.label(treatment or claim.treatment), beside)

    def at_ceiling(self, claim: Claim, value: float | None) -> bool:
        """Tell whether a published value lies at the rate that the article offered."""
        offered = claim.offered_per_s
        return bool(offered and value and value >= self.study.gates.offered_ceiling * offered)

    def full(self, treatment: str) -> bool:
        """Tell whether most trials of a treatment served all of an open load: their rate is the tool's setting."""
        gates = self.data.trials.loc[self.data.trials["treatment"] == treatment, "gates"]
        return bool(sum("offered_ceiling" in hit for hit in gates) > len(gates) / 2)

    def verdict(self, claim: Claim, treatment: str, against: str) -> Verdict:
        """Return what may be said of one arm against another, with the claim's margin."""
        key = (*self.metric(claim), treatment, against)
        if key not in self._pairs:
            self._pairs[key] = self._compared(self.analysis(claim), treatment, against)
        return self._with_margin(claim, self._pairs[key])

    def _compared(self, whole: Analysis, treatment: str, against: str) -> Verdict:
        row = next((r for r in whole.of_kind("treatment") if r.treatment == treatment), None)
        if row is None or against != whole.baseline:
            pair = self._part(treatment, against)
            alone = analyse(pair, baseline=against, metric=whole.metric, statistic=whole.statistic, level=self.level)
            row = alone.row(treatment)
        assert row.verdict is not None
        return row.verdict

    def _with_margin(self, claim: Claim, found: Verdict) -> Verdict:
        margin = self.margin(claim)
        if found.margin == margin or found.kind == "invalid":
            return found
        return decide(found.comparison, margin, direction(found.comparison.metric))

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
            _geometric(self.values(claim), pairs), claim.treatment, claim.against, metric=metric, statistic=statistic,
            level=self.analysis(claim).level,
        )  # fmt: skip
        return decide(joint, self.margin(claim), direction(metric), reason=reason)

    def errors(self, treatment: str, against: str) -> tuple[ErrorSummary, ErrorSummary]:
        """Return the errors of two arms, those of the first compared with those of the second."""
        ours, theirs = (
            error_counts.count(self.data.trials, self.data.measurements, name) for name in (treatment, against)
        )
        return error_counts.summarise(treatment, ours, theirs), error_counts.summarise(against, theirs, None)

    def failing(self, arms: list[str]) -> pd.DataFrame:
        """Return `errors.failing` of these arms."""
        return error_counts.failing(self.data.trials, self.data.measurements, arms)

    def _part(self, *arms: str) -> Part:
        """Return these arms without their checks, or the whole run with them."""
        trials, found, plan = self.data.trials, self.data.measurements, dict(getattr(self.data, "plan", {}))
        changed: dict[str, Any] = {"contrasts": "baseline", "asks": "difference"}
        if arms:
            trials, plan["treatments"] = trials[trials["treatment"].isin(arms)], list(arms)
            found = found[found["trial"].isin(trials["trial"])]
            named = self.study.treatments.items()
            changed["treatments"] = {name: t.model_copy(update={"check": None}) for name, t in named}
        problems, samples = (getattr(self.data, name, None) for name in ("problems", "samples"))
        study = self.study.model_copy(update=changed)
        return Part(study, trials, found, plan, problems, samples)


def _alike(treatment: str, then: Study, now: Study) -> bool:
    """Tell whether two versions of a study give a treatment one meaning: levels of the factors that both have, load."""
    if treatment not in now.treatments:
        return False
    old, new = then.levels_of(treatment), now.levels_of(treatment)
    levels = all(old[factor] == new[factor] for factor in old.keys() & new.keys())
    return levels and then.workload_of(treatment) == now.workload_of(treatment)


def _geometric(values: pd.DataFrame, pairs: list[tuple[str, str]]) -> pd.DataFrame:
    """Return rows of two arms, named as the first pair: each block's geometric mean over the pairs' arms."""
    import pandas as pd

    usable = values[values["valid"] & (values["value"] > 0)]
    logs = usable.assign(value=np.log(usable["value"])).pivot(index="block", columns="treatment", values="value")
    sides = zip(*pairs, strict=True)
    means = {names[0]: np.exp(logs.reindex(columns=list(names)).mean(axis=1, skipna=False)) for names in sides}
    return pd.concat([m.rename("value").reset_index().assign(treatment=name) for name, m in means.items()])
