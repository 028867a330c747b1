"""Facts of a page that depend on how the trials were run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from loadbook.core.units import NBSP
from loadbook.modes.base import mode_of
from loadbook.stats.carry_over import CarryOver, carry_over
from loadbook.stats.results import Analysis
from loadbook.store.tables import RunData
from loadbook.study.model import Study
from loadbook.study.plan import Plan, plain_instead

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.report.sections import ValidityMessage

CARRY_OVER_NOT_CHECKED = (
    "Carry-over was not checked: too few trials, or slices with recorded traffic, to tell what ran before from block "
    "and treatment."
)


@dataclass(frozen=True)
class OrderCheck:
    """What the order of trials shows: a test for carry-over, and what a mode tests besides.

    `carried` is None if carry-over could not be tested; `not_tested` says why. `sentence` and `notes` are the mode's.
    """

    carried: CarryOver | None = None
    not_tested: str = CARRY_OVER_NOT_CHECKED
    sentence: str = ""
    notes: Sequence[ValidityMessage] = ()


class PlainPage:
    """Facts of a page; the methods of this class are those of plain trials."""

    def decided_by(self, study: Study, margin: float) -> str:
        """Return the text on what decides a verdict: "margin ±2 %", for a `margin` of 0.02."""
        return f"margin ±{margin * 100:g}{NBSP}%"

    def load_parts(self, study: Study) -> list[str] | None:
        """Return texts on the load; None: the page derives them from rates and connections in the trials table."""
        return None

    def order_text(self, study: Study, usual: str) -> str:
        """Return the text on the order of trials for the check of trials; `usual` is the text for single trials."""
        return usual

    def order_in_block(self, study: Study) -> str:
        """Return the order of the trials of a block, for the axis of a figure."""
        return "in random order"

    def check_order(
        self, data: RunData, analysis: Analysis, values: pd.DataFrame, same: Mapping[str, str]
    ) -> OrderCheck:
        """Test for carry-over from trial to trial.

        `values` as `RunData.values` returns them; `same` maps treatments to those that they repeat.
        """
        return OrderCheck(carry_over(values, analysis.baseline, same) if values["slot"].is_unique else None)

    def execution_text(self, data: RunData) -> str:
        """Return how the trials of a block were executed, and why."""
        reason = data.plan.plain_because
        return plain_instead(data.study, reason) if reason else "plain, one trial after the other"

    def no_percentiles_text(self) -> str | None:
        """Return why trials of this mode measure no percentiles of times; None: the reason is not the mode."""
        return None

    def first_blocks_text(self, plan: Plan) -> str:
        """Return " and 6 plain blocks for latencies", to append to the number of the mode's blocks; "" if none."""
        return ""

    def blocks_for_times_text(self, plan: Plan) -> str | None:
        """Return a sentence on which blocks the times (latencies) are from; None: from all of them."""
        return None


FACET = PlainPage()


def page_of(study: Study) -> PlainPage:
    """Return the facts that the mode of a study gives to a page."""
    return cast("PlainPage", mode_of(study).facet("page"))
