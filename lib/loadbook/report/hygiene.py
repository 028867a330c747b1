"""What the order of the trials may have done to them: drift, carry-over, trials that lie far out. In words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import format_percent
from loadbook.records.rundata import RunData
from loadbook.report.trials import ValidityMessage
from loadbook.stats.hygiene import order
from loadbook.stats.hygiene.carry import CarryOver, carry_over

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.result import Analysis

TRIALS_PER_CHANCE_OUTLIER = 40  # of so many trials of nothing but noise about one is marked
MAX_ADJUSTED = 4
CARRY_OVER_NOT_CHECKED = "Carry-over was not checked: too few trials to tell what ran before from block and treatment."


def order_sentences(carried: CarryOver | None, analysis: Analysis, values: pd.DataFrame, labels: Mapping[str, str]) -> list[str]:
    """Return what stands under the order plot: drift, carry-over (see `detect_carry_over`), far trials."""
    sentences = [order.describe_drift(values).sentence]
    sentences.append(carried.sentence(analysis.metric, labels) if carried else CARRY_OVER_NOT_CHECKED)
    return sentences + [text for text in [_outlier_text(values)] if text]


def order_notes(carried: CarryOver | None, analysis: Analysis, values: pd.DataFrame, labels: Mapping[str, str]) -> list[ValidityMessage]:
    """Return what of it belongs to the doubts: a carry-over that is seen, and as a note the trials that lie far out."""
    found = []
    if carried and carried.is_significant:
        text = f"{carried.sentence(analysis.metric, labels)} {_adjusted_text(carried, analysis, labels)}"
        found.append(ValidityMessage("carry-over", "Carry-over", "doubt", 0, text))
    if text := _outlier_text(values):
        found.append(ValidityMessage("far-out", "Far trials", "note", 0, text))
    return found


def detect_carry_over(data: RunData, analysis: Analysis, values: pd.DataFrame) -> CarryOver | None:
    """Look for carry-over in a run; repeats of a treatment (the A/A arm) are what they repeat."""
    same = {name: original for name in data.study.treatments if (original := data.study.repeated_treatment(name))}
    return carry_over(values, analysis.baseline, same) if values["slot"].is_unique else None


def _adjusted_text(carried: CarryOver, analysis: Analysis, labels: Mapping[str, str]) -> str:
    rows = [row.treatment for row in analysis.of_kind("treatment") if row.treatment in carried.adjusted_effects]
    texts = [f"{labels.get(name, name)} {format_percent(carried.adjusted_effects[name])}" for name in rows[:MAX_ADJUSTED]]
    return f"With what ran before taken out (a regression, without a verdict): {', '.join(texts)}." if texts else ""


def _outlier_text(values: pd.DataFrame) -> str:
    """Return how many trials lie far out; "" for none."""
    outliers, counted = len(order.find_outliers(values)), int(values["valid"].sum())
    if not outliers:
        return ""
    lie = "trial lies" if outliers == 1 else "trials lie"
    return (
        f"{outliers} of {counted} {lie} far from the others of the same treatment (ringed; about 1 in {TRIALS_PER_CHANCE_OUTLIER} does by "
        "chance). They count: nothing is left out for its value."
    )
