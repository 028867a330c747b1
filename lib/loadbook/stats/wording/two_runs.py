"""Every sentence and number about two runs of one study."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from loadbook.core import units
from loadbook.core.units import NBSP, joined, percent
from loadbook.stats.result import Row
from loadbook.stats.two_runs import Moved, Shift, TwoRuns
from loadbook.stats.verdict import MAX_FORECAST, excludes_zero, within
from loadbook.stats.wording.sentences import confidence, margin_text
from loadbook.stats.wording.shown import ABSENT, MAX_DECIMALS, comparison_texts
from loadbook.stats.wording.words import predicate

MAX_NAMES = 3


class Texts(NamedTuple):
    """Numbers of one comparison of two runs; an en dash where something does not apply, no percent signs."""

    older: str
    newer: str
    change: str
    interval: str
    blocks: str
    p: str


def texts(row: Moved) -> Texts:
    """Return the numbers of a row, each run's change with its interval."""
    older, newer = (_effect(side) for side in row.sides)
    blocks = " / ".join(_blocks(side) for side in row.sides)
    if row.shift is None:
        return Texts(older, newer, ABSENT, ABSENT, blocks, ABSENT)
    digits, found = decimals(row.shift), row.shift
    p = found.p if found.p_adjusted is None else found.p_adjusted
    return Texts(older, newer, _bare(percent(found.effect, digits)), _bare(units.percent_range(found.ci95, digits)),
                 blocks, units.p_value(p))  # fmt: skip


def effect(side: Row | None) -> str:
    """Return the effect that one run found, with its sign; an en dash where it has none that may be shown."""
    return comparison_texts(side.verdict).change if side and side.verdict else ABSENT


def _effect(side: Row | None) -> str:
    if side is None or side.verdict is None:
        return ABSENT
    shown = comparison_texts(side.verdict)
    return shown.change if shown.change == ABSENT else f"{shown.change_number} ({shown.interval_number})"


def _blocks(side: Row | None) -> str:
    return str(side.verdict.comparison.blocks) if side and side.verdict else ABSENT


def _bare(text: str) -> str:
    return text.removesuffix(f"{NBSP}%")


def decimals(found: Shift) -> int:
    """Return the decimals that the interval of a difference deserves; one that excludes 0 never ends at 0."""
    low, high = found.ci95
    digits = min(units.decimals_for((high - low) / 2 * 100), MAX_DECIMALS)
    while excludes_zero(found.ci95) and digits < MAX_DECIMALS and round(min(abs(low), abs(high)) * 100, digits) == 0:
        digits += 1
    return digits


def phrase(row: Moved, margin: float) -> str:
    """Return what follows the treatment's name: the word, how far its effect moved, from where to where."""
    if row.shift is None:
        return f": not compared: {row.reason}."
    found, blocks = row.shift, f"{row.shift.blocks[0]} and {row.shift.blocks[1]} blocks"
    digits = decimals(found)
    way = f"{effect(row.older)} in the older run, {effect(row.newer)} in the newer, {blocks}"
    if row.word == "changed":
        size, bounds = percent(abs(found.effect), digits, signed=False), sorted(abs(bound) for bound in found.ci95)
        interval = f"{confidence(found.level)} interval {units.percent_range(bounds, digits, signed=False)}"
        but = f" That is less than the {margin_text(margin)} that matters." if within(found.ci90, margin) else ""
        metric = row.row.verdict.comparison.metric if row.row.verdict else ""
        return f": changed: it {predicate(metric, found.effect)} than it was, by {size} ({interval}): {way}.{but}"
    if row.word == "agrees":
        sure = f"{confidence(found.level, one_sided=True)} interval {units.percent_range(found.ci90, digits)}"
        return f": agrees: it moved by no more than {margin_text(margin)} ({sure}): {way}."
    alone = " That differs if looked at alone, but not among {} comparisons." if excludes_zero(found.ci95) else ""
    return (
        f": undecided: it moved by {units.percent_range(found.ci95, digits)}: {way}.{alone.format(found.family)} "
        + more_blocks(row)
    )


def more_blocks(row: Moved) -> str:
    """Return how many blocks would decide what is undecided."""
    if row.blocks_needed is None:
        return f"Not reachable at this noise (over {MAX_FORECAST} blocks in each run)."
    return f"About {row.blocks_needed} blocks in each of two such runs would decide."


def headline(found: TwoRuns) -> str:
    """Return the answer in one sentence: what changed, or how many comparisons agree."""
    compared = [row for row in found.treatments if row.shift is not None]
    moved = [row.row.label for row in compared if row.word == "changed"]
    if not compared:
        return "Nothing could be compared between the two runs."
    if not moved:
        return _unchanged(compared, margin_text(found.margin))
    if len(compared) == 1:
        return f"The effect of {moved[0]} changed."
    return f"{len(moved)} of {len(compared)} comparisons changed: {_listed(moved)}."


def _unchanged(compared: list[Moved], margin: str) -> str:
    """Return what stands instead of a change: agreement, or that this is not shown either."""
    number, agree = len(compared), sum(row.word == "agrees" for row in compared)
    if agree == number:
        return f"The two runs agree within {margin}" + (f" in all {number} comparisons." if number > 1 else ".")
    if not agree:
        those = f"{number} comparisons are" if number > 1 else f"the effect of {compared[0].row.label} is"
        return f"Neither a change nor agreement within {margin} is shown: {those} undecided."
    left = number - agree
    which = f"{left} {'is' if left == 1 else 'are'} undecided"
    return f"No change is shown; {agree} of {number} comparisons agree within {margin}, {which}."


def _listed(names: list[str]) -> str:
    more = len(names) - MAX_NAMES
    return joined(names if more < 1 else [*names[:MAX_NAMES], f"{more} more"])


def supporting(found: TwoRuns) -> str:
    """Return what stands below the headline: what could not be compared, and why, the most frequent reason first."""
    out = [row for row in found.treatments if row.shift is None]
    if not out:
        return ""
    reasons: dict[str, list[str]] = {}
    for row in out:
        reasons.setdefault(row.reason or "", []).append(row.row.label)
    said = [f"{_listed(names)} ({reason})" for reason, names in _most_first(reasons)]
    return f"Not compared: {'; '.join(said)}."


def _most_first(reasons: dict[str, list[str]]) -> Iterable[tuple[str, list[str]]]:
    return sorted(reasons.items(), key=lambda item: -len(item[1]))
