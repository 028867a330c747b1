"""Data classes of statistical results. Effects and ends of intervals are ratios to the baseline minus 1."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from loadbook.core.metrics import Direction
from loadbook.study.limits import StoppingRuleName
from loadbook.study.model import TrialExecution

Interval = tuple[float, float]
Method = Literal["blocked-rank", "paired-t", "signed-rank", "always-valid-t", "rank-sum", "welch-t", "rank-sum-and-t"]
VerdictKind = Literal["better", "worse", "small", "no-loss", "equivalent", "undecided", "invalid"]
RowKind = Literal["baseline", "treatment", "aa", "control"]
# state of an A/A arm or positive control; inconclusive: the arm is wider than the margin, the known effect neither
# found nor excluded; unchecked: not compared
CheckState = Literal["passed", "failed", "inconclusive", "unchecked"]
# reference of each treatment: the baseline, the treatment before it, or the arm observed best
Contrasts = Literal["baseline", "adjacent", "best"]
# two-sided test, or one-sided test whether a loss beyond the margin is excluded
Hypothesis = Literal["difference", "non-inferiority"]

# order of verdicts in figure, sentences and table
VERDICT_ORDER: tuple[VerdictKind, ...] = (
    "better", "worse", "small", "no-loss", "equivalent", "undecided", "invalid",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """Comparison of a treatment with a baseline over complete blocks; fields are None if they cannot be computed.

    `blocks` is the number of complete blocks, `excluded` that of the others. A positive `effect` means larger values
    of the treatment. `flags` are remarks without full stops.

    `ci95` and `p` agree: `ci95` excludes 0 if p <= 1 - `level`. `ci90` is the interval of two one-sided tests and
    decides equivalence. `level` is 0.95 unless the user chose another; the levels of both intervals are then `level`
    and 1 - 2 (1 - `level`). `ci_family` has the level 1 - (1 - `level`) / `family_size`, if the blocks suffice.
    `sd_log` is the standard deviation of the paired log ratios, used for forecasts. At a planned look,
    `interim_analysis` (number, number of all looks), `level` is that of one look. `added_blocks` were not declared and
    make the comparison exploratory. `execution` is that of the compared trials, if the run has trials of both kinds.
    Of arms without blocks (`unpaired`), `runs` has the numbers of runs, the baseline's first, and `blocks` the smaller.
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
    execution: TrialExecution | None = None
    runs: tuple[int, int] | None = None


@dataclass(frozen=True)
class StoppingState:
    """State of a run under the stopping rule of its study; a look is an analysis after a planned number of blocks.

    `level` is that of each interval, `blocks` the number of blocks that count, `interim_analysis` the number of this
    look and of all looks. `pending_reason` is the reason if there is no verdict yet. `added_blocks` are those beyond
    the stopping rule, which make a run exploratory.
    """

    rule: StoppingRuleName = "fixed"
    level: float = 0.95
    blocks: int | None = None
    interim_analysis: tuple[int, int] | None = None
    pending_reason: str | None = None
    added_blocks: int = 0


@dataclass(frozen=True)
class Forecast:
    """Number of further blocks that would decide: `about`, within `low` to `high`; all None if out of reach."""

    about: int | None
    low: int | None
    high: int | None


@dataclass(frozen=True)
class Verdict:
    """Verdict on a comparison, given the margin (ratio minus 1) that was declared before the run.

    A margin of 0 means that none was declared. `decimals` is common to all percentages of an analysis; None derives it
    from the interval. `one_sided_bounds` are the worst and best effect of a non-inferiority test (each one-sided at the
    level of the comparison); None for a two-sided test. `resolution` (ratio) is set if the verdict is undecided only
    because the run cannot tell such small differences (`verdict.limit_to_resolution`). An undecided verdict has no
    `forecast` if the A/A arm limits the run: that arm has one.
    """

    kind: VerdictKind
    comparison: Comparison
    margin: float
    forecast: Forecast | None = None
    reason: str | None = None
    decimals: int | None = None
    one_sided_bounds: Interval | None = None
    resolution: float | None = None


@dataclass(frozen=True)
class Refusal:
    """Why most trials of a treatment do not count: its requests were answered with errors.

    `share` is that of all responses in these trials, None if not counted. `statuses` are such as "503", or "5xx" if
    the tool reports only classes, most frequent first, empty if not known. `log` is the reason in the service's log,
    else "".
    """

    share: float | None
    statuses: tuple[str, ...] = ()
    log: str = ""


@dataclass(frozen=True)
class ErrorSummary:
    """Errors of one treatment: trials with errors among all its trials, and the verdict against the baseline.

    `by_class` maps classes such as "errors_timeout" to numbers of errors. `p` is that of Fisher's test on trials with
    errors. `kind`, if no difference is shown, is "undecided" for a treatment with errors, else "none".
    `upper_share` is the upper limit (one-sided 95 %) of the share of trials with errors if none had any. `rate_ratio`
    (errors per request over the baseline's, with 95 % interval) needs five trials with errors in both arms. `p_blocks`
    is a second test of both results: the differences of root counts under sign flips by block. `refusal` is set if most
    trials do not count because of error responses.
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
    refusal: Refusal | None = None


@dataclass(frozen=True)
class AnalysisRow:
    """Unrounded results of one treatment, from which tables, figures and sentences take their numbers.

    `median` and `mean_half_width` (of the interval of the mean) are in the metric's unit. `expected_effect` is the
    known effect of a control (ratio minus 1), None for other metrics than the study's. `reference_label` is the label
    of the reference, None if that is the study's baseline. `check_state` is the state of an A/A arm or control, None
    for other rows; with an A/A arm whose interval's half-width is less than `half_width_limit` (ratio), build gates,
    published claims and factorial effects are judged, too.
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
        """Return whether a check passed; None for other rows, and if the check was inconclusive or not done."""
        return {"passed": True, "failed": False}.get(self.check_state or "")

    @property
    def half_width(self) -> float:
        """Half of the width of the row's interval (ratio); infinity without one."""
        low, high = (self.verdict and self.verdict.comparison.ci95) or (-math.inf, math.inf)
        return (high - low) / 2

    @property
    def largest_effect(self) -> float:
        """The largest difference (ratio, either way) that the row's interval leaves possible; infinity without one."""
        low, high = (self.verdict and self.verdict.comparison.ci95) or (-1.0, math.inf)
        return max(high, 1 / (1 + low) - 1 if low > -1 else math.inf)

    @property
    def is_narrow(self) -> bool:
        """Whether an A/A arm is narrower than `half_width_limit`."""
        return self.half_width < (self.half_width_limit or 0.0)


@dataclass(frozen=True)
class Exclusions:
    """Trials that do not count, in words: causes with numbers of trials, and the remedy for the most frequent one."""

    causes: str
    remedy: str


@dataclass(frozen=True)
class Analysis:
    """Results of a study on one metric: rows in display order, harness checks last.

    `best` is set only if it beats every other arm; else `tied_with_best` lists the arms that do not differ detectably
    from the leader (first), and `ties_beat_rest` says whether all of them beat all others. `baseline` is the row
    without a comparison: with contrasts "best" the arm observed best. `driver_saturated_share` is the share of the
    trials in which a driver was at its limit; None if unknown. `limited`: the verdicts are limited to the resolution.
    `unfinished` says how far a run is that is not finished, and which command goes on; "" for other runs.
    `exclusions` are those of the trials of all arms; None if all count. `block_s` is the typical time from the start of
    a block to that of the next, in seconds; None if the times of trials are not known. `noun`: what a row is called.
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
    limited: bool = True
    unfinished: str = ""
    exclusions: Exclusions | None = None
    block_s: float | None = None
    noun: str = "treatment"

    @property
    def demoting_check(self) -> AnalysisRow | None:
        """Return the check that forbids a headline: the worst that did not pass, A/A arms first; None if none does.

        If every treatment is undecided the headline claims nothing; then only a failed check forbids it. An A/A arm
        that is wider than the margin forbids none where it limits the verdicts instead (`limited`).
        """
        states, order = ("failed", "inconclusive", "unchecked") if self._has_claims else ("failed",), ("aa", "control")
        harmless = [row for row in self.wide_arms if self.limited or row.is_narrow]
        open_checks = [r for r in self.of_kind("aa", "control") if r.check_state in states and r not in harmless]
        return min(open_checks, key=lambda r: (states.index(r.check_state), order.index(r.kind)), default=None)

    @property
    def wide_arms(self) -> list[AnalysisRow]:
        """Return the A/A arms that are wider than the margin; first the one that leaves the largest effect possible."""
        return sort_wide_arms(self.rows)

    @property
    def resolution(self) -> float | None:
        """Return the difference (ratio) below which the run shows nothing; None if no A/A arm is too wide."""
        return find_resolution(self.rows)

    @property
    def is_void(self) -> bool:
        """Return whether an A/A arm differs from its original, so that no treatment gets a verdict."""
        check, verdicts = self.demoting_check, [row.verdict for row in self.of_kind("treatment") if row.verdict]
        failed = check is not None and (check.kind, check.check_state) == ("aa", "failed")
        return failed and all(verdict.kind == "invalid" for verdict in verdicts)

    @property
    def _has_claims(self) -> bool:
        kinds = {row.verdict.kind for row in self.of_kind("treatment") if row.verdict}
        return not kinds or bool(kinds - {"undecided", "invalid"})

    @property
    def driver_saturated(self) -> bool:
        """Return whether a driver was at its limit in more than half of the trials."""
        return (self.driver_saturated_share or 0.0) > 0.5

    @property
    def allows_headline(self) -> bool:
        """Return whether the headline may be a verdict.

        It may if no A/A arm or control forbids it, and a driver was at its limit in at most half of the trials.
        """
        return self.demoting_check is None and not (self.driver_saturated and self._has_claims)

    @property
    def best_is_reference(self) -> bool:
        """Return whether treatments are compared with the arm observed best."""
        return self.contrasts == "best" and bool(self.best or self.tied_with_best)

    def row(self, treatment: str) -> AnalysisRow:
        """Return the row of the treatment with this name; StopIteration if there is none."""
        return next(r for r in self.rows if r.treatment == treatment)

    def of_kind(self, *kinds: RowKind) -> tuple[AnalysisRow, ...]:
        """Return the rows of these kinds, in order."""
        return tuple(r for r in self.rows if r.kind in kinds)


def sort_wide_arms(rows: Iterable[AnalysisRow]) -> list[AnalysisRow]:
    """Return the A/A arms that are wider than the margin; first the one that leaves the largest effect possible."""
    wide = [row for row in rows if (row.kind, row.check_state) == ("aa", "inconclusive")]
    return sorted(wide, key=lambda row: -row.largest_effect)


def loss_at_margin(margin: float, better: Direction) -> float:
    """Return the effect (ratio minus 1) of a loss as large as the margin.

    The margin acts as a factor: 0.02 gives -0.0196 for a rate, 0.05 gives 0.05 for a time.
    """
    return 1 / (1 + margin) - 1 if better == "higher" else margin


def find_resolution(rows: Iterable[AnalysisRow]) -> float | None:
    """Return the difference (ratio) below which a run tells nothing: the largest that an A/A arm leaves possible.

    None if every A/A arm is narrower than the margin, or was not compared. Two arms of one configuration may differ by
    where their processes and memory lie; an A/A arm that is narrow shows that they do not.
    """
    wide = sort_wide_arms(rows)
    return wide[0].largest_effect if wide else None
