"""Sentences and numbers about two runs of one study."""

from __future__ import annotations

from typing import NamedTuple

from loadbook.analyses.compare_runs.compute import EffectChange, EffectPair, RunComparison
from loadbook.core import units
from loadbook.core.units import NBSP, format_percent, join_words, shorten_list
from loadbook.stats.results import AnalysisRow
from loadbook.stats.text import ABSENT, MAX_DECIMALS, comparison_texts, confidence_text, margin_text, predicate
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS, excludes_zero, is_within_margin

MAX_NAMES = 3


class EffectChangeTexts(NamedTuple):
    """Numbers of one comparison of two runs; an en dash where something does not apply, no percent signs."""

    older: str
    newer: str
    change: str
    interval: str
    blocks: str
    p: str


def effect_change_texts(row: EffectPair) -> EffectChangeTexts:
    """Return the numbers of a row, each run's change with its interval."""
    older, newer = (_effect_with_interval(side) for side in row.sides)
    blocks = " / ".join(str(s.verdict.comparison.blocks) if s and s.verdict else ABSENT for s in row.sides)
    if row.change is None:
        return EffectChangeTexts(older, newer, ABSENT, ABSENT, blocks, ABSENT)
    digits, change = change_decimals(row.change), row.change
    p = change.p if change.p_adjusted is None else change.p_adjusted
    return EffectChangeTexts(
        older,
        newer,
        format_percent(change.effect, digits).removesuffix(f"{NBSP}%"),
        units.format_percent_range(change.ci95, digits).removesuffix(f"{NBSP}%"),
        blocks,
        units.format_p_value(p),
    )


def effect_text(side: AnalysisRow | None) -> str:
    """Return the effect of one run with its sign; an en dash if it has none."""
    return comparison_texts(side.verdict).change if side and side.verdict else ABSENT


def _effect_with_interval(side: AnalysisRow | None) -> str:
    if side is None or side.verdict is None:
        return ABSENT
    texts = comparison_texts(side.verdict)
    return texts.change if texts.change == ABSENT else f"{texts.change_number} ({texts.interval_number})"


def change_decimals(change: EffectChange) -> int:
    """Return the decimals that the interval of a difference deserves; one that excludes 0 never ends at 0."""
    low, high = change.ci95
    digits = min(units.decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)
    while excludes_zero(change.ci95) and digits < MAX_DECIMALS and round(min(abs(low), abs(high)) * 100, digits) == 0:
        digits += 1
    return digits


def effect_change_phrase(row: EffectPair, margin: float) -> str:
    """Return the text after the treatment's name: the kind of change, its size, both effects."""
    if row.change is None:
        return f": not compared: {row.reason}."
    change, digits = row.change, change_decimals(row.change)
    effects_text = (
        f"{effect_text(row.older)} in the older run, {effect_text(row.newer)} in the newer, "
        f"{change.blocks[0]} and {change.blocks[1]} blocks"
    )
    range_text = units.format_percent_range(change.ci95, digits)
    if row.kind == "agrees":
        level = confidence_text(change.level, one_sided=True)
        interval = f"{level} interval {units.format_percent_range(change.ci90, digits)}"
        return f": agrees: it moved by no more than {margin_text(margin)} ({interval}): {effects_text}."
    if row.kind == "undecided":
        alone = f" That differs if looked at alone, but not among {change.family_size} comparisons."
        note = alone if excludes_zero(change.ci95) else ""
        return f": undecided: it moved by {range_text}: {effects_text}.{note} {blocks_needed_sentence(row)}"
    size, bounds = format_percent(abs(change.effect), digits, signed=False), sorted(map(abs, change.ci95))
    interval = f"{confidence_text(change.level)} interval {units.format_percent_range(bounds, digits, signed=False)}"
    is_small = is_within_margin(change.ci90, margin)
    note = f" That is less than the {margin_text(margin)} that matters." if is_small else ""
    does = predicate(row.row.verdict.comparison.metric if row.row.verdict else "", change.effect)
    return f": changed: it {does} than it was, by {size} ({interval}): {effects_text}.{note}"


def blocks_needed_sentence(row: EffectPair) -> str:
    """Return how many blocks would decide what is undecided."""
    if row.blocks_needed is None:
        return f"Not reachable at this noise (over {MAX_FORECAST_BLOCKS} blocks in each run)."
    return f"About {row.blocks_needed} blocks in each of two such runs would decide."


def headline(comparison: RunComparison) -> str:
    """Return the answer in one sentence: the comparisons that changed, or how many agree."""
    if comparison.neutral_headline:
        return comparison.neutral_headline
    compared = [row for row in comparison.treatments if row.change is not None]
    changed = [row.row.label for row in compared if row.kind == "changed"]
    number, margin = len(compared), margin_text(comparison.margin)
    if not compared:
        return "Nothing could be compared between the two runs."
    if changed and number == 1:
        return f"The effect of {changed[0]} changed."
    if changed:
        return f"{len(changed)} of {number} comparisons changed: {join_words(shorten_list(changed, MAX_NAMES))}."
    agree = sum(row.kind == "agrees" for row in compared)
    if agree == number:
        return f"The two runs agree within {margin}" + (f" in all {number} comparisons." if number > 1 else ".")
    if not agree:
        subject = f"{number} comparisons are" if number > 1 else f"the effect of {compared[0].row.label} is"
        return f"Neither a change nor agreement within {margin} is shown: {subject} undecided."
    undecided_text = f"{number - agree} {'is' if number - agree == 1 else 'are'} undecided"
    return f"No change is shown; {agree} of {number} comparisons agree within {margin}, {undecided_text}."


def supporting_text(comparison: RunComparison) -> str:
    """Return the treatments that were not compared, by reason, the most frequent reason first."""
    reasons: dict[str, list[str]] = {}
    for row in comparison.treatments:
        if row.change is None:
            reasons.setdefault(row.reason or "", []).append(row.row.label)
    by_frequency = sorted(reasons.items(), key=lambda item: -len(item[1]))
    parts = [f"{join_words(shorten_list(names, MAX_NAMES))} ({reason})" for reason, names in by_frequency]
    return f"Not compared: {'; '.join(parts)}." if parts else ""
