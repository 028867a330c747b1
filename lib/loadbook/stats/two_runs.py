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

from loadbook.stats.pairs import ratio
from loadbook.stats.plan import smallest, t_quantile
from loadbook.stats.result import Analysis, Comparison, Interval, Row
from loadbook.stats.swaps import holm
from loadbook.stats.verdict import MAX_FORECAST, POWER, excludes_zero, within

Word = Literal["changed", "undecided", "agrees", "not compared"]
WORDS: tuple[Word, ...] = ("changed", "undecided", "agrees", "not compared")  # the order in which rows are shown
OLDER, NEWER = "the older run", "the newer run"


@dataclass(frozen=True)
class Shift:
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
    family: int = 1


@dataclass(frozen=True)
class Moved:
    """One comparison of the two runs; a row is None where its run does not have the treatment.

    `blocks_needed` is how many blocks each of two such runs needs to decide what is undecided (None: more than 60).
    """

    older: Row | None
    newer: Row | None
    word: Word = "not compared"
    shift: Shift | None = None
    reason: str | None = None
    blocks_needed: int | None = None

    @property
    def row(self) -> Row:
        """The newer run's row, or the older one's where it alone has the treatment."""
        row = self.newer or self.older
        assert row is not None
        return row

    @property
    def sides(self) -> tuple[Row | None, Row | None]:
        """Both rows, the older first."""
        return self.older, self.newer


@dataclass(frozen=True)
class TwoRuns:
    """What became of each comparison, in the order in which it is shown: by word and size, checks last.

    `margin` is the smaller of the two that were declared.
    """

    older: Analysis
    newer: Analysis
    margin: float
    level: float
    rows: tuple[Moved, ...]

    @property
    def treatments(self) -> tuple[Moved, ...]:
        """The rows that are no checks of the laboratory."""
        return tuple(row for row in self.rows if row.row.kind == "treatment")


def two_runs(older: Analysis, newer: Analysis, unlike: Mapping[str, str], level: float = 0.95) -> TwoRuns:
    """Compare the effects that two runs found.

    Parameters
    ----------
    older, newer : analyses of one metric and statistic.
    unlike : treatment -> why its two effects are of different things, whatever the numbers say.
    level : confidence of the intervals of differences.
    """
    margin = min(older.margin, newer.margin)
    rows = [_moved(one, other, unlike, level) for one, other in _together(older, newer)]
    rows = [_judged(row, margin) for row in _as_family(rows)]
    ladder = newer.contrasts == "adjacent"
    return TwoRuns(older, newer, margin, level, tuple(sorted(rows, key=lambda row: _place(row, ladder))))


def _together(older: Analysis, newer: Analysis) -> Iterable[tuple[Row | None, Row | None]]:
    ours, theirs = ({r.treatment: r for r in found.rows if r.kind != "baseline"} for found in (older, newer))
    return ((ours.get(name), theirs.get(name)) for name in dict.fromkeys([*theirs, *ours]))


def _moved(older: Row | None, newer: Row | None, unlike: Mapping[str, str], level: float) -> Moved:
    if older is None or newer is None:
        return Moved(older, newer, reason=f"only {NEWER if older is None else OLDER} has it")
    reason = unlike.get(newer.treatment) or _held_otherwise(older, newer) or _void(older, OLDER) or _void(newer, NEWER)
    if reason or older.verdict is None or newer.verdict is None:
        return Moved(older, newer, reason=reason)
    return Moved(older, newer, shift=shift(older.verdict.comparison, newer.verdict.comparison, level))


def _held_otherwise(older: Row, newer: Row) -> str | None:
    bases = [row.verdict.comparison.baseline for row in (older, newer) if row.verdict]
    if len(set(bases)) < 2:
        return None
    return f"it was held against {bases[0]} in {OLDER}, against {bases[1]} in {NEWER}"


def _void(row: Row, run: str) -> str | None:
    if row.verdict is None:
        return f"{run} has no value of it"
    return f"{run}: {row.verdict.reason}" if row.verdict.kind == "invalid" else None


def shift(older: Comparison, newer: Comparison, level: float = 0.95) -> Shift | None:
    """Return how far an effect moved from one run to another; None where a run has no interval."""
    sides = [_errors(found, level) for found in (older, newer)]
    if sides[0] is None or sides[1] is None:
        return None
    (one, low_1, high_1), (other, low_2, high_2) = sides[0], sides[1]
    blocks, moved = (older.blocks, newer.blocks), other - one
    below, above = math.hypot(low_2, high_1), math.hypot(high_2, low_1)
    errors = ((low_1 + high_1) / 2, (low_2 + high_2) / 2)
    freedom = _freedom(errors, blocks)
    return Shift(
        effect=ratio(moved),
        ci95=_interval(moved, below, above, freedom, (1 + level) / 2),
        ci90=_interval(moved, below, above, freedom, level),
        p=_p(moved, below if moved > 0 else above, freedom),
        blocks=blocks,
        sd_logs=(errors[0] * math.sqrt(blocks[0]), errors[1] * math.sqrt(blocks[1])),
        level=level,
    )


def _errors(found: Comparison, level: float) -> tuple[float, float, float] | None:
    """Return a log effect and its standard errors below and above it, as its run's interval tells them."""
    if found.effect is None or found.ci95 is None or found.blocks < 2:
        return None
    estimate, low, high = (math.log1p(max(value, -1 + 1e-15)) for value in (found.effect, *found.ci95))
    t = t_quantile((1 + level) / 2, found.blocks)
    return estimate, (estimate - low) / t, (high - estimate) / t


def _freedom(errors: tuple[float, float], blocks: tuple[int, int]) -> float:
    """Return the degrees of freedom of a difference (Welch-Satterthwaite)."""
    squares = [error**2 for error in errors]
    spread = sum(s**2 / (n - 1) for s, n in zip(squares, blocks, strict=True))
    return sum(squares) ** 2 / spread if spread > 0 else float(sum(blocks) - 2)


def _interval(moved: float, below: float, above: float, freedom: float, quantile: float) -> Interval:
    t = float(stdtrit(freedom, quantile))
    return ratio(moved - t * below), ratio(moved + t * above)


def _p(moved: float, error: float, freedom: float) -> float:
    if moved == 0:
        return 1.0
    return float(2 * stdtr(freedom, -abs(moved) / error)) if error > 0 else 0.0


def _as_family(rows: Sequence[Moved]) -> list[Moved]:
    """Adjust the p-values of the treatments for each other (Holm); checks of the laboratory stand alone."""
    family = [row for row in rows if row.shift and row.row.kind == "treatment"]
    if len(family) < 2:
        return list(rows)
    adjusted = dict(
        zip((row.row.treatment for row in family), holm([row.shift.p for row in family if row.shift]), strict=True)
    )
    return [
        replace(row, shift=replace(row.shift, p_adjusted=adjusted[row.row.treatment], family=len(family)))
        if row.shift and row.row.treatment in adjusted
        else row
        for row in rows
    ]


def _judged(row: Moved, margin: float) -> Moved:
    if row.shift is None:
        return row if row.reason else replace(row, reason="a run has too few blocks for an interval")
    if changed(row.shift):
        return replace(row, word="changed")
    if within(row.shift.ci90, margin):
        return replace(row, word="agrees")
    return replace(row, word="undecided", blocks_needed=blocks_needed(row.shift, margin))


def changed(found: Shift) -> bool:
    """Tell whether a change is shown, after allowing for all comparisons of the family."""
    alone = found.p if found.p_adjusted is None else found.p_adjusted
    return excludes_zero(found.ci95) and alone < 1 - found.level


def blocks_needed(found: Shift, margin: float) -> int | None:
    """Return how many blocks each run needs to show this change, or to exclude one beyond the margin; at most 60.

    Whichever comes first, at the noise of these runs and with the power of every forecast: both runs are measured anew.
    """
    moved, alpha = abs(math.log1p(found.effect)), (1 - found.level) / found.family
    squares = [sd**2 for sd in found.sd_logs]
    sd, spread = math.sqrt(sum(squares)), sum(s**2 for s in squares)
    if spread == 0:
        return None
    apart = sum(squares) ** 2 / spread  # 2 for equal scatter, 1 where one run has all of it

    def t(p: float, blocks: int) -> float:
        return float(stdtrit((blocks - 1) * apart, p))

    detect = smallest(lambda n: t(1 - alpha / 2, n) + t(POWER, n), moved, sd, MAX_FORECAST)
    exclude = smallest(lambda n: t(found.level, n) + t(POWER, n), math.log1p(margin) - moved, sd, MAX_FORECAST)
    needed = min((n for n in (detect, exclude) if n is not None), default=None)
    return None if needed is None else max(needed, min(found.blocks) + 1)


def _place(row: Moved, ladder: bool) -> tuple[int, int, float]:
    kind = ("treatment", "aa", "control").index(row.row.kind)
    if kind or ladder:
        return kind, 0, 0.0
    return kind, WORDS.index(row.word), -abs(math.log1p(row.shift.effect)) if row.shift else 0.0
