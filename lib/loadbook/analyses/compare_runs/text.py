"""Every sentence and number about two runs of one study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loadbook.analyses.compare_runs.compute import EffectChange, EffectPair, RunComparison
from loadbook.core import units
from loadbook.core.units import NBSP, format_percent, join_words
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
    blocks = " / ".join(_block_count(side) for side in row.sides)
    if row.change is None:
        return EffectChangeTexts(older, newer, ABSENT, ABSENT, blocks, ABSENT)
    digits, change = change_decimals(row.change), row.change
    p = change.p if change.p_adjusted is None else change.p_adjusted
    return EffectChangeTexts(
        older,
        newer,
        _without_unit(format_percent(change.effect, digits)),
        _without_unit(units.format_percent_range(change.ci95, digits)),
        blocks,
        units.format_p_value(p),
    )


def effect_text(side: AnalysisRow | None) -> str:
    """Return the effect that one run found, with its sign; an en dash where it has none that may be shown."""
    return comparison_texts(side.verdict).change if side and side.verdict else ABSENT


def _effect_with_interval(side: AnalysisRow | None) -> str:
    if side is None or side.verdict is None:
        return ABSENT
    texts = comparison_texts(side.verdict)
    return texts.change if texts.change == ABSENT else f"{texts.change_number} ({texts.interval_number})"


def _block_count(side: AnalysisRow | None) -> str:
    return str(side.verdict.comparison.blocks) if side and side.verdict else ABSENT


def _without_unit(text: str) -> str:
    return text.removesuffix(f"{NBSP}%")


def change_decimals(change: EffectChange) -> int:
    """Return the decimals that the interval of a difference deserves; one that excludes 0 never ends at 0."""
    low, high = change.ci95
    digits = min(units.decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)
    while excludes_zero(change.ci95) and digits < MAX_DECIMALS and round(min(abs(low), abs(high)) * 100, digits) == 0:
        digits += 1
    return digits


def effect_change_phrase(row: EffectPair, margin: float) -> str:
    """Return what follows the treatment's name: the word, how far its effect moved, from where to where."""
    if row.change is None:
        return f": not compared: {row.reason}."
    change, blocks = row.change, f"{row.change.blocks[0]} and {row.change.blocks[1]} blocks"
    digits = change_decimals(change)
    effects_text = f"{effect_text(row.older)} in the older run, {effect_text(row.newer)} in the newer, {blocks}"
    if row.kind == "changed":
        size, bounds = (
            format_percent(abs(change.effect), digits, signed=False),
            sorted(abs(bound) for bound in change.ci95),
        )
        interval = (
            f"{confidence_text(change.level)} interval {units.format_percent_range(bounds, digits, signed=False)}"
        )
        margin_note = (
            f" That is less than the {margin_text(margin)} that matters."
            if is_within_margin(change.ci90, margin)
            else ""
        )
        metric = row.row.verdict.comparison.metric if row.row.verdict else ""
        return (
            f": changed: it {predicate(metric, change.effect)} than it was, by {size} ({interval}): "
            f"{effects_text}.{margin_note}"
        )
    if row.kind == "agrees":
        interval_text = (
            f"{confidence_text(change.level, one_sided=True)} interval "
            f"{units.format_percent_range(change.ci90, digits)}"
        )
        return f": agrees: it moved by no more than {margin_text(margin)} ({interval_text}): {effects_text}."
    alone_note = " That differs if looked at alone, but not among {} comparisons." if excludes_zero(change.ci95) else ""
    return (
        f": undecided: it moved by {units.format_percent_range(change.ci95, digits)}: "
        f"{effects_text}.{alone_note.format(change.family_size)} "
    ) + blocks_needed_sentence(row)


def blocks_needed_sentence(row: EffectPair) -> str:
    """Return how many blocks would decide what is undecided."""
    if row.blocks_needed is None:
        return f"Not reachable at this noise (over {MAX_FORECAST_BLOCKS} blocks in each run)."
    return f"About {row.blocks_needed} blocks in each of two such runs would decide."


def headline(two_runs: RunComparison) -> str:
    """Return the answer in one sentence: what changed, or how many comparisons agree."""
    compared = [row for row in two_runs.treatments if row.change is not None]
    changed = [row.row.label for row in compared if row.kind == "changed"]
    if not compared:
        return "Nothing could be compared between the two runs."
    if not changed:
        return _no_change_headline(compared, margin_text(two_runs.margin))
    if len(compared) == 1:
        return f"The effect of {changed[0]} changed."
    return f"{len(changed)} of {len(compared)} comparisons changed: {_shortened_list(changed)}."


def _no_change_headline(compared: list[EffectPair], margin: str) -> str:
    """Return what stands instead of a change: agreement, or that this is not shown either."""
    number, agree = len(compared), sum(row.kind == "agrees" for row in compared)
    if agree == number:
        return f"The two runs agree within {margin}" + (f" in all {number} comparisons." if number > 1 else ".")
    if not agree:
        subject = f"{number} comparisons are" if number > 1 else f"the effect of {compared[0].row.label} is"
        return f"Neither a change nor agreement within {margin} is shown: {subject} undecided."
    left = number - agree
    undecided_text = f"{left} {'is' if left == 1 else 'are'} undecided"
    return f"No change is shown; {agree} of {number} comparisons agree within {margin}, {undecided_text}."


def _shortened_list(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    return join_words(names if more < 1 else [*names[:MAX_NAMES], f"{more} more"])


def supporting_text(two_runs: RunComparison) -> str:
    """Return what stands below the headline: what could not be compared, and why, the most frequent reason first."""
    excluded = [row for row in two_runs.treatments if row.change is None]
    if not excluded:
        return ""
    reasons: dict[str, list[str]] = {}
    for row in excluded:
        reasons.setdefault(row.reason or "", []).append(row.row.label)
    parts = [f"{_shortened_list(names)} ({reason})" for reason, names in _by_frequency(reasons)]
    return f"Not compared: {'; '.join(parts)}."


def _by_frequency(reasons: dict[str, list[str]]) -> Iterable[tuple[str, list[str]]]:
    return sorted(reasons.items(), key=lambda item: -len(item[1]))
