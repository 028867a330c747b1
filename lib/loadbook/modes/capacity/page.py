"""Facts of a page on capacities under an objective."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP
from loadbook.modes.capacity.mode import objective_of
from loadbook.modes.plain.page import OrderCheck, PlainPage
from loadbook.stats.results import Analysis
from loadbook.store.tables import RunData
from loadbook.study.model import Study

if TYPE_CHECKING:
    import pandas as pd

NO_ORDER_OF_SEARCHES = (
    "The treatments of a block were searched together, in rounds of one probe for each, in a new random order every "
    "round: none ran before another."
)


class CapacityPage(PlainPage):
    """Facts of a page on searches, or on starts that certify rates."""

    def decided_by(self, study: Study, margin: float) -> str:
        """Return the text on what decides: the margin of comparisons, or the share of starts that is certified."""
        share = objective_of(study).certified_share
        return super().decided_by(study, margin) if share is None else f"{100 * share:g}{NBSP}% of starts"

    def load_parts(self, study: Study) -> list[str]:
        """Return the objective and the arrivals."""
        return [objective_of(study).text, f"{study.workload.arrivals} arrivals"]

    def order_text(self, study: Study, usual: str) -> str:
        """Return the order of trials for the check of trials."""
        return "in rounds of probes" if objective_of(study).is_search else usual

    def order_in_block(self, study: Study) -> str:
        """Return the order of the trials of a block, for the axis of a figure."""
        return "searched in rounds" if objective_of(study).is_search else super().order_in_block(study)

    def check_order(
        self, data: RunData, analysis: Analysis, values: pd.DataFrame, same: Mapping[str, str]
    ) -> OrderCheck:
        """Return that searches have no order; single starts are tested as plain trials are."""
        if objective_of(data.study).is_search:
            return OrderCheck(not_tested=NO_ORDER_OF_SEARCHES)
        return super().check_order(data, analysis, values, same)

    def execution_text(self, data: RunData) -> str:
        """Return how the trials of a block were executed."""
        return objective_of(data.study).execution_text


FACET = CapacityPage()
