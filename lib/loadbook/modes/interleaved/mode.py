"""The mode of interleaved blocks, which may follow plain blocks that tell latencies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import find_metric
from loadbook.core.units import join_words, pluralize
from loadbook.modes.base import ALL, LATENCIES, PLAIN, RATES, Mode, PlanText, TellingBlocks
from loadbook.modes.interleaved import spec
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan

if TYPE_CHECKING:
    from loadbook.services import ServiceSpec

CHOSEN = "interleaved, as nothing speaks against it"


class InterleavedMode(Mode):
    """All treatments of a block run at once, and their load generators take turns in slices.

    The plan of such a study may begin with `latency_blocks` plain blocks, since interleaved trials tell no latencies.
    """

    name = "interleaved"
    how = "in interleaved blocks"
    chosen_by_auto = True
    shares_hosts = True

    def is_asked_by(self, study: Study) -> bool:
        """Return whether a study asks for interleaved blocks, also where they are possible."""
        return study.execution in ("auto", self.execution)

    def key_problems(self, raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield a mistake if slices are asked for that other trials do not have."""
        if raw.get("slices") and raw.get("execution") == PLAIN:
            yield "slices", 'needs execution = "interleaved" or "shared": plain trials have no slices'

    def reasons_against(self, study: Study, treatments: Sequence[str], in_services: Sequence[str]) -> list[str]:
        """Return the reasons in the study file and in services why treatments cannot be interleaved."""
        return [*spec.plain_reasons(study, treatments), *in_services]

    def reasons_in_services(
        self, study: Study, treatments: Sequence[str], services: Mapping[str, ServiceSpec]
    ) -> list[str]:
        """Return the services that would close connections while their load generator is stopped."""
        from loadbook.modes.interleaved.services import idle_timeout_reasons

        shortest = spec.slices_for_latency(0.0)
        assert shortest is not None
        return idle_timeout_reasons(study, treatments, shortest, services)

    def first_plain_blocks(self, study: Study, blocks: int) -> int:
        """Return the number of plain blocks that tell latencies."""
        return min(study.latency_blocks, blocks)

    def execution_of(self, plan: Plan, block: int) -> str:
        """Return "interleaved", or "plain" for the first blocks, which tell latencies."""
        return self.execution if block > plan.latency_blocks else PLAIN

    def runs_together(self, plan: Plan, block: int) -> bool:
        """Return whether a block is interleaved."""
        return block > plan.latency_blocks

    def execution_text(self, plan: Plan) -> str:
        """Return that trials are interleaved, and why."""
        return CHOSEN if plan.execution_chosen else super().execution_text(plan)

    def order_text(self, plan: Plan) -> str:
        """Return the order of the trials of a block, and of plain and interleaved blocks."""
        return "the latter first" if plan.latency_blocks else "all of a block at once, in turns"

    def plan_text(self, study: Study, load: str) -> PlanText:
        """Return the lengths of slices after the execution."""
        turns = f"{join_words([f'{1000 * slice_s:g}' for slice_s in study.slices or (spec.MIN_SLICE_S,)])} ms or more"
        turns += ", one length a block" if spec.compares_slices(study) else ""
        return PlanText(load, f": treatments take turns of {turns}")

    def plan_lines(self, plan: Plan) -> list[tuple[str, str]]:
        """Return which blocks tell latencies."""
        from loadbook.stats.compare import MIN_BLOCKS

        if not (blocks := plan.latency_blocks):
            return []
        few = f"; shown, not compared: that needs {MIN_BLOCKS}" if blocks < MIN_BLOCKS else ""
        return [("latencies", f"from the {pluralize(blocks, 'plain block')}, which run first{few}")]

    def plan_notes(self, plan: Plan, services: Mapping[str, ServiceSpec]) -> list[tuple[str, str]]:
        """Return the memory that the services of all treatments may need at once; [] if loadbook starts none."""
        from loadbook.modes.interleaved.services import memory_notes

        return memory_notes(plan, services)

    def has_made(self, record: TrialRecord) -> bool:
        """Return whether a record has slices."""
        return record.interleaved is not None

    def measures(self, plan: Plan, block: int) -> str:
        """Return "rates" (interleaved) or "latencies" (plain) if a run has plain blocks for these, else "all"."""
        if not plan.latency_blocks:
            return ALL
        return RATES if self.runs_together(plan, block) else LATENCIES

    def blocks_telling(self, plan: Plan, metric: str) -> TellingBlocks:
        """Return the interleaved blocks for a rate or a cost, the plain ones for a time if a run has both."""
        known, first = find_metric(metric), plan.latency_blocks
        kind = known.kind if known else "other"
        if first and kind == "time":
            return TellingBlocks(first, 0, PLAIN, is_fixed=True)
        return TellingBlocks(plan.blocks, first, self.execution if first and kind in ("rate", "cost") else None)


MODE = InterleavedMode()
