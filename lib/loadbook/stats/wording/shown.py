"""Numbers as readers see them, rounded once: sentence, figure and table take their texts from one `ComparisonTexts`.

Digits follow the interval (report.md section 6); an analysis gives all its rows the same number of decimals.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from loadbook.core import units
from loadbook.core.units import NBSP
from loadbook.stats.result import Comparison, Interval, AnalysisRow, Verdict
from loadbook.stats.wording.words import direction_word

ABSENT = "–"
MAX_DECIMALS = 3


@dataclass(frozen=True)
class ComparisonTexts:
    """Texts of one comparison or row; an en dash where something does not apply.

    Texts ending in `_number` have no percent sign (for columns whose header has it). `size` and `bounds` are without
    signs, for sentences in which `direction_word` says the direction. `worst` and `best` answer a one-sided question.
    """

    direction_word: str = ABSENT
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


def row_texts(row: AnalysisRow) -> ComparisonTexts:
    """Return all texts of a row: baseline, treatment or check."""
    texts = comparison_texts(row.verdict) if row.verdict else ComparisonTexts(blocks=str(row.valid_trials))
    level = units.format_rounded(row.median, row.mean_half_width) if row.median is not None else ABSENT
    errors = f"{row.errors.trials_with_errors} of {row.errors.trials}" if row.errors.trials else ABSENT
    return replace(texts, level=level, trials_with_errors=errors)


def comparison_texts(verdict: Verdict) -> ComparisonTexts:
    """Return the texts of a verdict's comparison; an invalid one keeps only its number of blocks."""
    comparison = verdict.comparison
    if verdict.kind == "invalid" or comparison.effect is None or comparison.ci95 is None:
        return ComparisonTexts(blocks=str(comparison.blocks))
    digits = verdict_decimals(verdict)
    number = units.format_percent(comparison.effect, digits).removesuffix(f"{NBSP}%")
    return ComparisonTexts(
        direction_word=direction_word(comparison.metric, comparison.effect),
        change=units.format_percent(comparison.effect, digits),
        change_number=number,
        interval=_interval_text(comparison.ci95, digits),
        interval_number=_interval_text(comparison.ci95, digits).removesuffix(f"{NBSP}%"),
        interval90=_interval_text(comparison.ci90, digits),
        family_interval=_interval_text(comparison.ci_family, digits),
        size=units.format_percent(abs(comparison.effect), digits, signed=False),
        bounds=_unsigned_interval_text(comparison.ci95, digits),
        worst=units.format_percent(verdict.one_sided_bounds[0], digits) if verdict.one_sided_bounds else ABSENT,
        best=units.format_percent(verdict.one_sided_bounds[1], digits) if verdict.one_sided_bounds else ABSENT,
        p=units.format_p_value(comparison.p),
        p_adjusted=units.format_p_value(comparison.p_adjusted),
        blocks=str(comparison.blocks),
    )


def verdict_decimals(verdict: Verdict) -> int:
    """Return the decimals of this verdict's percentages: the analysis's, or what the interval deserves.

    One that excludes 0 is never shown with a bound of 0, one that excludes a loss never with a bound at the margin.
    """
    digits = verdict.decimals if verdict.decimals is not None else interval_decimals(verdict.comparison)
    bounds = [abs(bound) for bound in verdict.comparison.ci95 or () if verdict.kind in ("better", "worse", "small")]
    while bounds and digits < MAX_DECIMALS and round(min(bounds) * 100, digits) == 0:
        digits += 1
    decides = verdict.one_sided_bounds[verdict.kind == "worse"] if verdict.one_sided_bounds and verdict.kind != "undecided" else math.inf
    while digits < MAX_DECIMALS and round(abs(decides) * 100, digits) == round(verdict.margin * 100, digits):
        digits += 1
    return digits


def interval_decimals(comparison: Comparison) -> int:
    """Return the decimals that a comparison's interval deserves, in percent."""
    low, high = comparison.ci95 or (0.0, 0.0)
    return min(units.decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)


def common_decimals(comparisons: Iterable[Comparison]) -> int | None:
    """Return the decimals that most comparisons deserve, the finest of equally frequent ones; None without any."""
    votes = Counter(interval_decimals(c) for c in comparisons if c.ci95)
    return max(votes, key=lambda digits: (votes[digits], digits), default=None)


def _interval_text(interval: Interval | None, digits: int) -> str:
    if interval is None:
        return ABSENT
    return units.format_percent_range(interval, digits)


def _unsigned_interval_text(interval: Interval, digits: int) -> str:
    if interval[0] < 0 < interval[1]:
        return _interval_text(interval, digits)
    return units.format_percent_range(sorted(abs(bound) for bound in interval), digits, signed=False)
