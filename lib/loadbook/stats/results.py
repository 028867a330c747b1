"""Values that statistics return. Effects and interval bounds are ratios to the baseline minus 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from loadbook.study.limits import StoppingRuleName

Interval = tuple[float, float]
Method = Literal["blocked-rank", "paired-t", "signed-rank", "always-valid-t"]
VerdictKind = Literal["better", "worse", "small", "no-loss", "equivalent", "undecided", "invalid"]
RowKind = Literal["baseline", "treatment", "aa", "control"]
# of an A/A arm or a positive control: inconclusive is too noisy to tell, unchecked was not compared
CheckState = Literal["passed", "failed", "inconclusive", "unchecked"]
# reference of each treatment: the baseline, the treatment before it, or the arm observed best
Contrasts = Literal["baseline", "adjacent", "best"]
# two-sided, or whether a loss beyond the margin is excluded
Hypothesis = Literal["difference", "non-inferiority"]

# order of comparisons in figure, sentences and table
VERDICT_ORDER: tuple[VerdictKind, ...] = (
    "better", "worse", "small", "no-loss", "equivalent", "undecided", "invalid",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """A treatment against a baseline over complete blocks; None where it could not be computed.

    `ci95` and `p` belong together: 0 is outside `ci95` when p <= 1 - `level`. `ci90` is the interval of two one-sided
    tests and decides equivalence. `level` is 0.95 unless the user asked for another; the two intervals are then at
    `level` and 1 - 2 (1 - `level`). `ci_family` is at level 1 - (1 - `level`) / `family_size` where so many blocks can
    have one. `sd_log` is the standard deviation of the paired log ratios, from which forecasts are made. At a planned
    look (`interim_analysis` of how many) `level` is that of one look. `added_blocks`, which were not declared, make it
    exploratory.
    """

    treatment: str
    baseline: str
    metric: str
    statistic: str
    blocks: int
    excluded: int
    method: Method | None
    effect: float | None
    ci95: Interval | None
    ci90: Interval | None
    p: float | None
    p_adjusted: float | None = None
    ci_family: Interval | None = None
    flags: tuple[str, ...] = ()
    level: float = 0.95
    family_size: int = 1
    sd_log: float | None = None
    interim_analysis: tuple[int, int] | None = None
    added_blocks: int = 0


@dataclass(frozen=True)
class StoppingState:
    """State of a run by the stopping rule of its study (see `sequential.compute_stopping_state`).

    `level` is that of each interval, `blocks` the number of blocks that count, `interim_analysis` the number of this
    look and of all looks. `pending_reason` is why there is no verdict yet. `added_blocks`, which the rule does not
    provide for, make a run exploratory.
    """

    rule: StoppingRuleName = "fixed"
    level: float = 0.95
    blocks: int | None = None
    interim_analysis: tuple[int, int] | None = None
    pending_reason: str | None = None
    added_blocks: int = 0


@dataclass(frozen=True)
class Forecast:
    """Number of further blocks that would decide: `about`, in the range `low` to `high`; all None: not reachable."""

    about: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Verdict:
    """Verdict on a comparison, given the margin (ratio minus 1) declared before the run.

    A margin of 0 means that none was declared. `decimals` is the number that the analysis gives to every percentage,
    None to follow the interval. `one_sided_bounds` are the effect at worst and at best (each one-sided at the level of
    the comparison) of a non-inferiority test; None for a two-sided one.
    """

    kind: VerdictKind
    comparison: Comparison
    margin: float
    forecast: Forecast | None = None
    reason: str | None = None
    decimals: int | None = None
    one_sided_bounds: Interval | None = None


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of one treatment: trials with any error of trials in all, and the verdict on runs against the baseline.

    `upper_share` bounds the share of trials that could have errors although none did (one-sided 95 %). `rate_ratio`
    (errors per request against the baseline's, with its 95 % interval) is known only where both have at least five
    trials with errors. `p_blocks` checks both: signs of the differences of root counts flipped by block.
    """

    treatment: str
    trials: int
    trials_with_errors: int
    errors: int
    requests: int
    by_class: dict[str, int]
    p: float | None = None
    kind: Literal["more", "fewer", "undecided", "none", "baseline"] = "none"
    upper_share: float | None = None
    rate_ratio: float | None = None
    rate_ci95: Interval | None = None
    p_blocks: float | None = None


@dataclass(frozen=True)
class AnalysisRow:
    """Results of one treatment, unrounded: every view takes its numbers from here.

    `reference_label` is the label of the reference, None where that is the study's baseline.
    `check_state` is that of an A/A arm or a control, None of other rows; `half_width_limit` is the half-width of the
    interval (ratio) below which an A/A arm passes.
    """

    treatment: str
    label: str
    kind: RowKind
    median: float | None
    mean_half_width: float | None
    trials: int
    valid_trials: int
    verdict: Verdict | None
    errors: ErrorSummary
    check_state: CheckState | None = None
    expected_effect: float | None = None
    reference_label: str | None = None
    half_width_limit: float | None = None

    @property
    def is_compared(self) -> bool:
        """Whether the row has an effect that may be reported."""
        verdict = self.verdict
        return verdict is not None and verdict.kind != "invalid" and verdict.comparison.effect is not None

    @property
    def passed(self) -> bool | None:
        """Whether a check passed or failed; None where it could not tell, and of rows that are no checks."""
        return {"passed": True, "failed": False}.get(self.check_state or "")


@dataclass(frozen=True)
class Analysis:
    """The answer to a study's question on one metric: rows in display order, checks last.

    `best` is named only if it beats every other arm; else `tied_with_best` lists, leader first, the arms that do not
    differ detectably from the leader, and `ties_beat_rest` says whether all of those are ahead of all the rest.
    `baseline` is the row without a comparison: with contrasts "best" the arm observed best. `driver_saturated_share` is
    the share of the trials in which a driver was at its limit; None where that is not known.
    """

    baseline: str
    metric: str
    statistic: str
    margin: float
    level: float
    rows: tuple[AnalysisRow, ...]
    best: str | None = None
    tied_with_best: tuple[str, ...] = ()
    ties_beat_rest: bool = False
    planned_blocks: int = 0
    stopping_state: StoppingState = StoppingState()
    contrasts: Contrasts = "baseline"
    hypothesis: Hypothesis = "difference"
    driver_saturated_share: float | None = None

    @property
    def demoting_check(self) -> AnalysisRow | None:
        """The check that forbids a headline: the worst that did not pass, A/A arms first; None where all passed.

        Where every treatment is undecided the headline claims nothing, and only a check that failed forbids it.
        """
        states, order = ("failed", "inconclusive", "unchecked") if self._has_claims else ("failed",), ("aa", "control")
        open_checks = [row for row in self.of_kind("aa", "control") if row.check_state in states]
        return min(open_checks, key=lambda r: (states.index(r.check_state), order.index(r.kind)), default=None)

    @property
    def is_void(self) -> bool:
        """Whether the demoting check is an A/A arm that differs, which leaves no treatment a verdict."""
        check, verdicts = self.demoting_check, [row.verdict for row in self.of_kind("treatment") if row.verdict]
        failed = check is not None and (check.kind, check.check_state) == ("aa", "failed")
        return failed and all(verdict.kind == "invalid" for verdict in verdicts)

    @property
    def _has_claims(self) -> bool:
        kinds = {row.verdict.kind for row in self.of_kind("treatment") if row.verdict}
        return not kinds or bool(kinds - {"undecided", "invalid"})

    @property
    def driver_saturated(self) -> bool:
        """Whether a driver was at its limit in more than half of the trials."""
        return (self.driver_saturated_share or 0.0) > 0.5

    @property
    def allows_headline(self) -> bool:
        """Whether a verdict may stand as the headline.

        Every A/A arm and every control of the run passed, and a driver was at its limit in at most half of the trials.
        """
        return self.demoting_check is None and not (self.driver_saturated and self._has_claims)

    @property
    def best_is_reference(self) -> bool:
        """Whether everything is compared with the arm observed best."""
        return self.contrasts == "best" and bool(self.best or self.tied_with_best)

    def row(self, treatment: str) -> AnalysisRow:
        """Return one treatment's row."""
        return next(r for r in self.rows if r.treatment == treatment)

    def of_kind(self, *kinds: RowKind) -> tuple[AnalysisRow, ...]:
        """Return the rows of these kinds, in order."""
        return tuple(r for r in self.rows if r.kind in kinds)
