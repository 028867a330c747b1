"""Facts of a page on interleaved blocks: lengths of slices, carry-over between slices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from loadbook.core.errors import DataError
from loadbook.core.units import join_words, pluralize
from loadbook.modes.interleaved.mode import CHOSEN
from loadbook.modes.interleaved.spec import compares_slices
from loadbook.modes.interleaved.stats_slices import MIN_BLOCKS_OF_LENGTH, SliceLengthCheck, slice_length_check
from loadbook.modes.plain.page import OrderCheck, PlainPage
from loadbook.report.sections import ValidityMessage
from loadbook.stats.carry_over import CarryOver, slice_carry_over
from loadbook.stats.results import Analysis
from loadbook.store.tables import RunData
from loadbook.store.trial_record import SLICE_SERIES, InterleavedRecord, read_trial
from loadbook.study.model import Study
from loadbook.study.plan import Plan

if TYPE_CHECKING:
    import pandas as pd

PAUSES_IN_LATENCIES = "in interleaved trials, the pauses of a load generator are in the latencies that it prints"
SLICE_LENGTHS_NOT_COMPARED = (
    f"The lengths of slices were not compared: fewer than {MIN_BLOCKS_OF_LENGTH} blocks of each, or lengths that are "
    "hardly different, as the latency asks for longer ones."
)
LATENCY_BLOCKS_HINT = "With latency_blocks = 6 in its study, a run has plain blocks for latencies, too."


class InterleavedPage(PlainPage):
    """Facts of a page on interleaved blocks."""

    def order_text(self, study: Study, usual: str) -> str:
        """Return the text on the order of trials for the check of trials; `usual`, of single trials, is not used."""
        return "in turns, in slices"

    def check_order(
        self, data: RunData, analysis: Analysis, values: pd.DataFrame, same: Mapping[str, str]
    ) -> OrderCheck:
        """Test for carry-over between slices, and whether effects depend on the length of slices."""
        return check_slices(data, analysis, values, slice_carry_over(data.samples, values, analysis.baseline, same))

    def execution_text(self, data: RunData) -> str:
        """Return how the trials of a block were executed, and why.

        The length of the gap is that of the first trial; so is that of the slice if blocks do not have several in turn.
        """
        records: dict[float, InterleavedRecord] = {}  # by length of slice (ms)
        for folder in sorted(data.paths.trials.glob("*")):
            with suppress(DataError):
                if record := read_trial(folder).interleaved:
                    records.setdefault(1000 * record.slice_s, record)
            if len(records) >= max(1, len(set(data.study.slices))):
                break
        why, blocks = CHOSEN if data.plan.execution_chosen else "interleaved", data.plan.latency_blocks
        latencies = f"; latencies from {pluralize(blocks, 'plain block')} before" if blocks else ""
        if not records:
            return f"{why}: the treatments of a block took turns{latencies}"
        first = next(iter(records.values()))
        lengths = f"slices of {join_words([f'{ms:g}' for ms in sorted(records)])} ms"
        turns = f"{len(first.beside)} treatments took turns in random order, in {lengths}"
        return f"{why}: {turns} with gaps of {1000 * first.gap_s:g} ms{latencies}"

    def no_percentiles_text(self) -> str:
        """Return why interleaved trials tell no percentiles, and what does."""
        return f"no percentiles, as {PAUSES_IN_LATENCIES}. {LATENCY_BLOCKS_HINT}"

    def first_blocks_text(self, plan: Plan) -> str:
        """Return " and 6 plain blocks for latencies"; "" if a run has none."""
        blocks = plan.latency_blocks
        return f" and {pluralize(blocks, 'plain block')} for latencies" if blocks else ""

    def blocks_for_times_text(self, plan: Plan) -> str | None:
        """Return from which plain blocks the times are, and why; None if a run has none."""
        blocks = plan.latency_blocks
        return f"From {pluralize(blocks, 'plain block')} of this run: {PAUSES_IN_LATENCIES}." if blocks else None


def check_slices(data: RunData, analysis: Analysis, values: pd.DataFrame, carried: CarryOver | None) -> OrderCheck:
    """Return the check of the order of slices: `carried`, and whether effects depend on their length."""
    compared = compare_slice_lengths(data, analysis, values)
    sentence = ""
    if compares_slices(data.study):
        sentence = compared.sentence(data.study.labels) if compared else SLICE_LENGTHS_NOT_COMPARED
    return OrderCheck(carried, sentence=sentence, notes=slice_length_notes(data.study, compared))


def compare_slice_lengths(data: RunData, analysis: Analysis, values: pd.DataFrame) -> SliceLengthCheck | None:
    """Test whether effects depend on the length of slices.

    None if the study's blocks have one length, or too few blocks have each; see `slice_length_check`.
    `values` as `RunData.values` returns them.
    """
    if not compares_slices(data.study):
        return None
    planned_s = data.study.slices
    slices = data.samples[(data.samples["series"] == SLICE_SERIES) & (data.samples["metric"] == "slice")]
    turn = (values.set_index("trial")["block"] - 1) % len(planned_s)
    measured_s = slices.groupby(slices["trial"].map(turn))["value"].median().round(3)
    lengths_s = {int(block): float(measured_s.get((block - 1) % len(planned_s), 0.0)) for block in values["block"]}
    names = [row.treatment for row in analysis.rows if row.treatment != analysis.baseline]
    return slice_length_check(values, lengths_s, analysis.baseline, names)


def slice_length_notes(study: Study, compared: SliceLengthCheck | None) -> list[ValidityMessage]:
    """Return a doubt for every effect that depends on the length of slices."""
    if not compared or not compared.moved:
        return []
    names = join_words([study.label(effect.treatment) for effect in compared.moved])
    advice = "It changes when the load pauses. Longer slices, or plain trials, show how much."
    text = f"{compared.sentence(study.labels)} {advice}"
    return [ValidityMessage("slice-lengths", f"Slice length matters: {names}", "doubt", 0, text)]


FACET = InterleavedPage()
