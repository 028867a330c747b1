"""What the order of the trials may have done to them: drift, carry-over, trials that lie far out. In words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import percent
from loadbook.records.rundata import RunData
from loadbook.report.trials import Spoken
from loadbook.stats.hygiene import order
from loadbook.stats.hygiene.carry import Carry, carry_over

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.result import Analysis

BY_CHANCE = 40  # of so many trials of nothing but noise about one is marked
MOST_ADJUSTED = 4
NOT_CHECKED = "Carry-over was not checked: too few trials to tell what ran before from block and treatment."


def sentences(carried: Carry | None, analysis: Analysis, values: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """Return what stands under the order plot: drift, carry-over (see `carry`), far trials."""
    said = [order.describe(values).sentence]
    said.append(carried.sentence(analysis.metric, labels) if carried else NOT_CHECKED)
    return said + [text for text in [_far(values)] if text]


def notes(carried: Carry | None, analysis: Analysis, values: pd.DataFrame, labels: Mapping[str, str]) -> list[Spoken]:
    """Return what of it belongs to the doubts: a carry-over that is seen, and as a note the trials that lie far out."""
    found = []
    if carried and carried.seen:
        text = f"{carried.sentence(analysis.metric, labels)} {_adjusted(carried, analysis, labels)}"
        found.append(Spoken("carry-over", "Carry-over", "doubt", 0, text))
    if text := _far(values):
        found.append(Spoken("far-out", "Far trials", "note", 0, text))
    return found


def carry(data: RunData, analysis: Analysis, values: pd.DataFrame) -> Carry | None:
    """Look for carry-over in a run; repeats of a treatment (the A/A arm) are what they repeat."""
    same = {name: twin for name in data.study.treatments if (twin := data.study.repeats(name))}
    return carry_over(values, analysis.baseline, same) if values["slot"].is_unique else None


def _adjusted(carried: Carry, analysis: Analysis, labels: Mapping[str, str]) -> str:
    rows = [row.treatment for row in analysis.of_kind("treatment") if row.treatment in carried.adjusted]
    said = [f"{labels.get(name, name)} {percent(carried.adjusted[name])}" for name in rows[:MOST_ADJUSTED]]
    return f"With what ran before taken out (a regression, without a verdict): {', '.join(said)}." if said else ""


def _far(values: pd.DataFrame) -> str:
    """Return how many trials lie far out; "" for none."""
    far, counted = len(order.outliers(values)), int(values["valid"].sum())
    if not far:
        return ""
    lie = "trial lies" if far == 1 else "trials lie"
    return (
        f"{far} of {counted} {lie} far from the others of the same treatment (ringed; about 1 in {BY_CHANCE} does by "
        "chance). They count: nothing is left out for its value."
    )
