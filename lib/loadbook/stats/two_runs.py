"""Two runs of one study: how far each effect moved, with an interval, and what that allows to be said.

What is compared are the two effects, never two words and never whether two intervals overlap. Each run brings its own
estimate and interval: half of it over Student's t is a standard error, one per side where it is lopsided, and
Welch-Satterthwaite gives the freedom of the difference. A run that could stop early has a wider interval; it counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scipy.special import stdtr, stdtrit

from loadbook.stats.pairs import effect_from_log
from loadbook.stats.plan import smallest_block_count, t_quantile
from loadbook.stats.result import Analysis, Comparison, Interval, AnalysisRow
from loadbook.stats.swaps import adjust_holm
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS, FORECAST_POWER, excludes_zero, is_within_margin

ChangeKind = Literal["changed", "undecided", "agrees", "not compared"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("changed", "undecided", "agrees", "not compared")  # the order in which rows are shown
OLDER_TEXT, NEWER_TEXT = "the older run", "the newer run"


@dataclass(frozen=True)
class EffectChange:
    """How far one effect moved: (1 + newer) / (1 + older) - 1, and bounds of it.

    `ci90` decides whether the runs agree, `ci95` and `p` whether the effect changed, `p_adjusted` in a family of so
    many. `blocks` and `sd_logs` (standard deviation of a block's log ratio, from its run's interval) are those of both
    runs, the older first.
    """

    effect: float
    ci95: Interval
    ci90: Interval
    p: float
    blocks: tuple[int, int]
    sd_logs: tuple[float, float]
    level: float = 0.95
    p_adjusted: float | None = None
    family_size: int = 1


@dataclass(frozen=True)
class EffectPair:
    """One comparison of the two runs; a row is None where its run does not have the treatment.

    `blocks_needed` is how many blocks each of two such runs needs to decide what is undecided (None: more than 60).
    """

    older: AnalysisRow | None
    newer: AnalysisRow | None
    kind: ChangeKind = "not compared"
    change: EffectChange | None = None
    reason: str | None = None
    blocks_needed: int | None = None

    @property
    def row(self) -> AnalysisRow:
        """The newer run's row, or the older one's where it alone has the treatment."""
        row = self.newer or self.older
        assert row is not None
        return row

    @property
    def sides(self) -> tuple[AnalysisRow | None, AnalysisRow | None]:
        """Both rows, the older first."""
        return self.older, self.newer


@dataclass(frozen=True)
class RunComparison:
    """What became of each comparison, in the order in which it is shown: by word and size, checks last.

    `margin` is the smaller of the two that were declared.
    """

    older: Analysis
    newer: Analysis
    margin: float
    level: float
    rows: tuple[EffectPair, ...]

    @property
    def treatments(self) -> tuple[EffectPair, ...]:
        """The rows that are no checks of the laboratory."""
        return tuple(row for row in self.rows if row.row.kind == "treatment")


def compare_analyses(older: Analysis, newer: Analysis, changed_treatments: Mapping[str, str], level: float = 0.95) -> RunComparison:
    """Compare the effects that two runs found.

    Parameters
    ----------
    older, newer : analyses of one metric and statistic.
    changed_treatments : treatment -> why its two effects are of different things, whatever the numbers say.
    level : confidence of the intervals of differences.
    """
    margin = min(older.margin, newer.margin)
    rows = [_effect_pair(older_row, newer_row, changed_treatments, level) for older_row, newer_row in _paired_rows(older, newer)]
    rows = [_with_kind(row, margin) for row in _with_adjusted_p(rows)]
    in_sequence = newer.contrasts == "adjacent"
    return RunComparison(older, newer, margin, level, tuple(sorted(rows, key=lambda row: _sort_key(row, in_sequence))))


def _paired_rows(older: Analysis, newer: Analysis) -> Iterable[tuple[AnalysisRow | None, AnalysisRow | None]]:
    older_rows, newer_rows = ({r.treatment: r for r in analysis.rows if r.kind != "baseline"} for analysis in (older, newer))
    return ((older_rows.get(name), newer_rows.get(name)) for name in dict.fromkeys([*newer_rows, *older_rows]))


def _effect_pair(older: AnalysisRow | None, newer: AnalysisRow | None, changed_treatments: Mapping[str, str], level: float) -> EffectPair:
    if older is None or newer is None:
        return EffectPair(older, newer, reason=f"only {NEWER_TEXT if older is None else OLDER_TEXT} has it")
    reason = changed_treatments.get(newer.treatment) or _other_baseline_reason(older, newer) or _invalid_verdict_reason(older, OLDER_TEXT) or _invalid_verdict_reason(newer, NEWER_TEXT)
    if reason or older.verdict is None or newer.verdict is None:
        return EffectPair(older, newer, reason=reason)
    return EffectPair(older, newer, change=effect_change(older.verdict.comparison, newer.verdict.comparison, level))


def _other_baseline_reason(older: AnalysisRow, newer: AnalysisRow) -> str | None:
    bases = [row.verdict.comparison.baseline for row in (older, newer) if row.verdict]
    if len(set(bases)) < 2:
        return None
    return f"it was held against {bases[0]} in {OLDER_TEXT}, against {bases[1]} in {NEWER_TEXT}"


def _invalid_verdict_reason(row: AnalysisRow, run: str) -> str | None:
    if row.verdict is None:
        return f"{run} has no value of it"
    return f"{run}: {row.verdict.reason}" if row.verdict.kind == "invalid" else None


def effect_change(older: Comparison, newer: Comparison, level: float = 0.95) -> EffectChange | None:
    """Return how far an effect moved from one run to another; None where a run has no interval."""
    sides = [_log_effect_and_errors(comparison, level) for comparison in (older, newer)]
    if sides[0] is None or sides[1] is None:
        return None
    (one, low_1, high_1), (other, low_2, high_2) = sides[0], sides[1]
    blocks, log_change = (older.blocks, newer.blocks), other - one
    below, above = math.hypot(low_2, high_1), math.hypot(high_2, low_1)
    errors = ((low_1 + high_1) / 2, (low_2 + high_2) / 2)
    df = _welch_df(errors, blocks)
    return EffectChange(
        effect=effect_from_log(log_change),
        ci95=_change_interval(log_change, below, above, df, (1 + level) / 2),
        ci90=_change_interval(log_change, below, above, df, level),
        p=_change_p(log_change, below if log_change > 0 else above, df),
        blocks=blocks,
        sd_logs=(errors[0] * math.sqrt(blocks[0]), errors[1] * math.sqrt(blocks[1])),
        level=level,
    )


def _log_effect_and_errors(comparison: Comparison, level: float) -> tuple[float, float, float] | None:
    """Return a log effect and its standard errors below and above it, as its run's interval tells them."""
    if comparison.effect is None or comparison.ci95 is None or comparison.blocks < 2:
        return None
    estimate, low, high = (math.log1p(max(value, -1 + 1e-15)) for value in (comparison.effect, *comparison.ci95))
    t = t_quantile((1 + level) / 2, comparison.blocks)
    return estimate, (estimate - low) / t, (high - estimate) / t


def _welch_df(errors: tuple[float, float], blocks: tuple[int, int]) -> float:
    """Return the degrees of freedom of a difference (Welch-Satterthwaite)."""
    squares = [error**2 for error in errors]
    denominator = sum(s**2 / (n - 1) for s, n in zip(squares, blocks, strict=True))
    return sum(squares) ** 2 / denominator if denominator > 0 else float(sum(blocks) - 2)


def _change_interval(log_change: float, below: float, above: float, df: float, quantile: float) -> Interval:
    t = float(stdtrit(df, quantile))
    return effect_from_log(log_change - t * below), effect_from_log(log_change + t * above)


def _change_p(log_change: float, error: float, df: float) -> float:
    if log_change == 0:
        return 1.0
    return float(2 * stdtr(df, -abs(log_change) / error)) if error > 0 else 0.0


def _with_adjusted_p(rows: Sequence[EffectPair]) -> list[EffectPair]:
    """Adjust the p-values of the treatments for each other (Holm); checks of the laboratory stand alone."""
    family = [row for row in rows if row.change and row.row.kind == "treatment"]
    if len(family) < 2:
        return list(rows)
    adjusted = dict(
        zip((row.row.treatment for row in family), adjust_holm([row.change.p for row in family if row.change]), strict=True)
    )
    return [
        replace(row, change=replace(row.change, p_adjusted=adjusted[row.row.treatment], family_size=len(family)))
        if row.change and row.row.treatment in adjusted
        else row
        for row in rows
    ]


def _with_kind(row: EffectPair, margin: float) -> EffectPair:
    if row.change is None:
        return row if row.reason else replace(row, reason="a run has too few blocks for an interval")
    if is_changed(row.change):
        return replace(row, kind="changed")
    if is_within_margin(row.change.ci90, margin):
        return replace(row, kind="agrees")
    return replace(row, kind="undecided", blocks_needed=blocks_needed_per_run(row.change, margin))


def is_changed(change: EffectChange) -> bool:
    """Tell whether a change is shown, after allowing for all comparisons of the family."""
    p = change.p if change.p_adjusted is None else change.p_adjusted
    return excludes_zero(change.ci95) and p < 1 - change.level


def blocks_needed_per_run(change: EffectChange, margin: float) -> int | None:
    """Return how many blocks each run needs to show this change, or to exclude one beyond the margin; at most 60.

    Whichever comes first, at the noise of these runs and with the power of every forecast: both runs are measured anew.
    """
    log_change, alpha = abs(math.log1p(change.effect)), (1 - change.level) / change.family_size
    squares = [sd**2 for sd in change.sd_logs]
    sd, squares_of_variances = math.sqrt(sum(squares)), sum(s**2 for s in squares)
    if squares_of_variances == 0:
        return None
    df_factor = sum(squares) ** 2 / squares_of_variances  # 2 for equal scatter, 1 where one run has all of it

    def t(p: float, blocks: int) -> float:
        return float(stdtrit((blocks - 1) * df_factor, p))

    detect = smallest_block_count(lambda n: t(1 - alpha / 2, n) + t(FORECAST_POWER, n), log_change, sd, MAX_FORECAST_BLOCKS)
    exclude = smallest_block_count(lambda n: t(change.level, n) + t(FORECAST_POWER, n), math.log1p(margin) - log_change, sd, MAX_FORECAST_BLOCKS)
    needed = min((n for n in (detect, exclude) if n is not None), default=None)
    return None if needed is None else max(needed, min(change.blocks) + 1)


def _sort_key(row: EffectPair, in_sequence: bool) -> tuple[int, int, float]:
    kind_index = ("treatment", "aa", "control").index(row.row.kind)
    if kind_index or in_sequence:
        return kind_index, 0, 0.0
    return kind_index, CHANGE_KINDS.index(row.kind), -abs(math.log1p(row.change.effect)) if row.change else 0.0
