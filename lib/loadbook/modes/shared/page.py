"""Facts of a page on shared blocks: turns and rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import join_words
from loadbook.modes.interleaved.page import check_slices
from loadbook.modes.plain.page import OrderCheck, PlainPage
from loadbook.modes.shared.mode import CHOSEN
from loadbook.modes.shared.spec import BY_REQUEST, SLICE_S, rate_text
from loadbook.stats.carry_over import LATENCY, slice_carry_over
from loadbook.stats.results import Analysis
from loadbook.store.tables import RunData
from loadbook.study.model import Study

if TYPE_CHECKING:
    import pandas as pd

NO_SLICES = "Carry-over was not checked: every request goes to another treatment."


class SharedPage(PlainPage):
    """Facts of a page on shared blocks."""

    def load_parts(self, study: Study) -> list[str]:
        """Return which rate each treatment had."""
        return [rate_text(study, None, study.workload_of(study.baseline).rate_per_s or 0.0)]

    def order_text(self, study: Study, usual: str) -> str:
        """Return the text on the order of trials for the check of trials; `usual`, of single trials, is not used."""
        return "by turns, request by request" if study.turns == BY_REQUEST else "by turns, in slices"

    def check_order(
        self, data: RunData, analysis: Analysis, values: pd.DataFrame, same: Mapping[str, str]
    ) -> OrderCheck:
        """Test for carry-over between slices, and whether effects depend on the length of slices."""
        if data.study.turns == BY_REQUEST:
            return OrderCheck(not_tested=NO_SLICES)
        carried = slice_carry_over(data.samples, values, analysis.baseline, same, metric=LATENCY)
        return check_slices(data, analysis, values, carried)

    def execution_text(self, data: RunData) -> str:
        """Return how the trials of a block were executed, and why, with the rate that a treatment had."""
        study, arms = data.study, len(data.plan.treatments)
        why = CHOSEN if data.plan.execution_chosen else "shared"
        load = study.workload_of(data.plan.treatments[0])
        lengths = join_words([f"{1000 * slice_s:g}" for slice_s in dict.fromkeys(study.slices or (SLICE_S,))])
        turns = f"in random order, in slices of {lengths} ms"
        if study.turns == BY_REQUEST:
            turns = "each request to another one, in random order"
        rate = rate_text(study, arms, load.rate_per_s or 0.0)
        return f"{why}: one {load.tool} sent the requests of {arms} treatments {turns}; each had {rate}"


FACET = SharedPage()
