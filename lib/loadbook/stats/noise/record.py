"""All that a noise page shows of one configuration, computed once, and the sentences that say it (report.md 7, 11)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadbook.core.units import percent
from loadbook.stats.noise import plasmode
from loadbook.stats.noise import scatter as noise
from loadbook.stats.wording.sentences import margin_text

if TYPE_CHECKING:
    import pandas as pd

FALSE_ALARM_BLOCKS = 10
MIN_PAIRS = 10


@dataclass(frozen=True)
class Record:
    """All that figure 11 shows: the trials, their noise, what blocks can do at it, and the labels drawn anew.

    `relabelled` is None where the record is no longer than two pseudo-studies.
    """

    metric: str
    margin: float
    values: pd.DataFrame
    noise: noise.Noise
    pool: plasmode.Pool
    need: plasmode.Need | None
    abilities: tuple[plasmode.Ability, ...]
    relabelled: plasmode.Relabelled | None


def record(values: pd.DataFrame, metric: str, margin: float) -> Record | None:
    """Return the record of trials of one configuration (`noise.of_one`); None where they are too few."""
    found = noise.noise(values)
    if found is None or found.trials < 2 * MIN_PAIRS:
        return None
    pool = plasmode.pool(found.residuals)
    return Record(
        metric=metric,
        margin=margin,
        values=values,
        noise=found,
        pool=pool,
        need=pool.needed(margin),
        abilities=tuple(pool.ability(blocks, margin) for blocks in plasmode.GRID),
        relabelled=plasmode.relabel(found.residuals, FALSE_ALARM_BLOCKS),
    )


def headline(found: Record | None, margin: float) -> str:
    """Return the answer line of a noise page."""
    size = margin_text(margin)
    if found is None:
        return f"Not known yet: fewer than {2 * MIN_PAIRS} trials of one configuration count, or all are equal."
    if found.need is None:
        return f"On these hosts {size} is out of reach: it needs more than 10,000 blocks."
    return f"On these hosts {size} needs {found.need.blocks:,} blocks ({found.need.low:,} to {found.need.high:,})."


def relabelled_line(found: plasmode.Relabelled | None) -> str:
    """Return what pseudo-studies from windows of the record said, in words."""
    if found is None:
        return "Too few trials to draw labels anew."
    alarms, ordered, seen = (percent(x, 1, signed=False) for x in (found.false_alarms, found.fixed_order, found.found))
    return (
        f"False alarms: {alarms} of {found.studies:,} pseudo-studies of {found.blocks} blocks; "
        f"these trials in fixed order: {ordered}. A true {percent(found.effect, 0, signed=False)} was found in {seen}."
    )
