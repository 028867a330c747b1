"""Numbers as readers see them, rounded once: sentence, figure and table take their texts from one `Shown`.

Digits follow the interval (report.md section 6); an analysis gives all its rows the same number of decimals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from loadbook.core import units
from loadbook.core.units import NBSP
from loadbook.stats.result import Comparison, Interval, Row, Verdict
from loadbook.stats.wording.words import word

ABSENT = "–"
MAX_DECIMALS = 3


@dataclass(frozen=True)
class Shown:
    """Texts of one comparison or row; an en dash where something does not apply.

    Texts ending in `_number` have no percent sign (for columns whose header has it). `size` and `bounds` are without
    signs, for sentences in which `word` says the direction. `worst` and `best` answer a one-sided question.
    """

    word: str = ABSENT
    change: str = ABSENT
    change_number: str = ABSENT
    interval: str = ABSENT
    interval_number: str = ABSENT
    interval90: str = ABSENT
    family_interval: str = ABSENT
    size: str = ABSENT
    bounds: str = ABSENT
    worst: str = ABSENT
    best: str = ABSENT
    p: str = ABSENT
    p_adjusted: str = ABSENT
    blocks: str = ABSENT
    level: str = ABSENT
    trials_with_errors: str = ABSENT


def numbers(row: Row) -> Shown:
    """Return all texts of a row: baseline, treatment or check."""
    shown = comparison_texts(row.verdict) if row.verdict else Shown(blocks=str(row.valid_trials))
    level = units.level(row.level, row.level_half_width) if row.level is not None else ABSENT
    errors = f"{row.errors.trials_with_errors} of {row.errors.trials}" if row.errors.trials else ABSENT
    return replace(shown, level=level, trials_with_errors=errors)


def comparison_texts(verdict: Verdict) -> Shown:
    """Return the texts of a verdict's comparison; an invalid one keeps only its number of blocks."""
    found = verdict.comparison
    if verdict.kind == "invalid" or found.effect is None or found.ci95 is None:
        return Shown(blocks=str(found.blocks))
    digits = decimals(verdict)
    number = units.percent(found.effect, digits).removesuffix(f"{NBSP}%")
    return Shown(
        word=word(found.metric, found.effect),
        change=units.percent(found.effect, digits),
        change_number=number,
        interval=_interval(found.ci95, digits),
        interval_number=_interval(found.ci95, digits).removesuffix(f"{NBSP}%"),
        interval90=_interval(found.ci90, digits),
        family_interval=_interval(found.ci_family, digits),
        size=units.percent(abs(found.effect), digits, signed=False),
        bounds=_unsigned(found.ci95, digits),
        worst=units.percent(verdict.loss[0], digits) if verdict.loss else ABSENT,
        best=units.percent(verdict.loss[1], digits) if verdict.loss else ABSENT,
        p=units.p_value(found.p),
        p_adjusted=units.p_value(found.p_adjusted),
        blocks=str(found.blocks),
    )


def decimals(verdict: Verdict) -> int:
    """Return the decimals of this verdict's percentages: the analysis's, or what the interval deserves.

    One that excludes 0 is never shown with a bound of 0, one that excludes a loss never with a bound at the margin.
    """
    digits = verdict.decimals if verdict.decimals is not None else own_decimals(verdict.comparison)
    bounds = [abs(bound) for bound in verdict.comparison.ci95 or () if verdict.kind in ("better", "worse", "small")]
    while bounds and digits < MAX_DECIMALS and round(min(bounds) * 100, digits) == 0:
        digits += 1
    decides = verdict.loss[verdict.kind == "worse"] if verdict.loss and verdict.kind != "undecided" else math.inf
    while digits < MAX_DECIMALS and round(abs(decides) * 100, digits) == round(verdict.margin * 100, digits):
        digits += 1
    return digits


def own_decimals(comparison: Comparison) -> int:
    """Return the decimals that a comparison's interval deserves, in percent."""
    low, high = comparison.ci95 or (0.0, 0.0)
    return min(units.decimals_for((high - low) / 2 * 100), MAX_DECIMALS)


def common_decimals(comparisons: Iterable[Comparison]) -> int | None:
    """Return the decimals that most comparisons deserve, the finest of equally frequent ones; None without any."""
    votes = Counter(own_decimals(c) for c in comparisons if c.ci95)
    return max(votes, key=lambda digits: (votes[digits], digits), default=None)


def _interval(interval: Interval | None, digits: int) -> str:
    if interval is None:
        return ABSENT
    return units.percent_range(interval, digits)


def _unsigned(interval: Interval, digits: int) -> str:
    if interval[0] < 0 < interval[1]:
        return _interval(interval, digits)
    return units.percent_range(sorted(abs(bound) for bound in interval), digits, signed=False)
