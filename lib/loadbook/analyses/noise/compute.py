"""The noise record of one configuration, and its sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadbook.core.units import format_percent
from loadbook.stats import power
from loadbook.stats.text import margin_text

if TYPE_CHECKING:
    import pandas as pd

FALSE_ALARM_BLOCKS = 10
MIN_PAIRS = 10


@dataclass(frozen=True)
class NoiseRecord:
    """Trials of one configuration, their noise, the precision of designs at that noise, and a relabelling test.

    `relabelling` is None if the record is not longer than two pseudo-studies.
    """

    metric: str
    margin: float
    values: pd.DataFrame
    noise: power.NoiseSummary
    pool: power.PairPool
    blocks_needed: power.BlocksNeeded | None
    precisions: tuple[power.DesignPrecision, ...]
    relabelling: power.RelabellingTest | None


def compute_noise_record(values: pd.DataFrame, metric: str, margin: float) -> NoiseRecord | None:
    """Return the record of trials of one configuration (`power.trials_of_arms`); None if they are too few."""
    summary = power.summarise_noise(values)
    if summary is None or summary.trials < 2 * MIN_PAIRS:
        return None
    pool = power.pair_pool(summary.residuals)
    return NoiseRecord(
        metric=metric,
        margin=margin,
        values=values,
        noise=summary,
        pool=pool,
        blocks_needed=pool.blocks_needed(margin),
        precisions=tuple(pool.precision(blocks, margin) for blocks in power.PRECISION_BLOCKS),
        relabelling=power.relabelling_test(summary.residuals, FALSE_ALARM_BLOCKS),
    )


def noise_headline(record: NoiseRecord | None, margin: float) -> str:
    """Return the answer line of a noise page."""
    size = margin_text(margin)
    if record is None:
        return f"Not known yet: fewer than {2 * MIN_PAIRS} trials of one configuration count, or all are equal."
    if record.blocks_needed is None:
        return f"On these hosts {size} is out of reach: it needs more than 10,000 blocks."
    return (
        f"On these hosts {size} needs {record.blocks_needed.blocks:,} blocks ({record.blocks_needed.low:,} "
        f"to {record.blocks_needed.high:,})."
    )


def relabelling_sentence(test: power.RelabellingTest | None) -> str:
    """Return the rates of false alarms and of detection in pseudo-studies from windows of the record."""
    if test is None:
        return "Too few trials to draw labels anew."
    alarms, ordered, detected = (
        format_percent(x, 1, signed=False) for x in (test.false_alarms, test.fixed_order, test.detected)
    )
    return (
        f"False alarms: {alarms} of {test.studies:,} pseudo-studies of {test.blocks} blocks; "
        f"these trials in fixed order: {ordered}. "
        f"A true {format_percent(test.effect, 0, signed=False)} was found in {detected}."
    )
