"""The mode of shared blocks: open loads of all treatments by one load generator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from loadbook.core.units import join_words
from loadbook.modes.base import EXECUTIONS, Mode, PlanText
from loadbook.modes.interleaved.spec import compares_slices
from loadbook.modes.shared import spec
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan

if TYPE_CHECKING:
    from loadbook.services import ServiceSpec

CHOSEN = "shared, as the load is open and nothing speaks against it"


class SharedMode(Mode):
    """All treatments of a block run at once, and one load generator sends the requests of all of them by turns."""

    name = "shared"
    how = "in shared blocks"
    chosen_by_auto = True
    shares_hosts = True
    shares_generator = True
    measures_cpu = True

    def is_asked_by(self, study: Study) -> bool:
        """Return whether a study asks for shared blocks, also where they are possible: with an open load."""
        if study.execution == "auto":
            return study.workload.model == "open" and not study.capacity
        return study.execution == self.execution

    def key_problems(self, raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Yield a mistake if turns are asked for that other trials do not have."""
        if raw.get("turns") and raw.get("execution") in EXECUTIONS and raw["execution"] != self.execution:
            yield "turns", f'needs execution = "shared": {raw["execution"]} trials have a load generator each'
        if raw.get("turns") == spec.BY_REQUEST and raw.get("slices"):
            yield "slices", 'goes with turns = "slice": by request there are no slices'
        load = raw.get("workload")
        if raw.get("turns") and not (isinstance(load, dict) and load.get("model") == "open"):
            yield "turns", 'needs model = "open" in [workload]: a closed load has no schedule to share'

    def reasons_against(self, study: Study, treatments: Sequence[str], in_services: Sequence[str]) -> list[str]:
        """Return the reasons in the study file and in services why treatments cannot share one generator."""
        return [*spec.plain_reasons(study, treatments), *in_services]

    def runs_together(self, plan: Plan, block: int) -> bool:
        """Return True."""
        return True

    def execution_text(self, plan: Plan) -> str:
        """Return that trials are shared, and why."""
        return CHOSEN if plan.execution_chosen else super().execution_text(plan)

    def order_text(self, plan: Plan) -> str:
        """Return the order of the trials of a block."""
        return "all of a block at once, by turns"

    def plan_text(self, study: Study, load: str) -> PlanText:
        """Return the turns after the execution."""
        load_of = study.workload
        if study.turns == spec.BY_REQUEST:
            return PlanText(load, f": {load_of.tool} sends each request to another treatment")
        lengths = join_words([f"{1000 * slice_s:g}" for slice_s in dict.fromkeys(study.slices or (spec.SLICE_S,))])
        each = ", one length a block" if compares_slices(study) else ""
        return PlanText(load, f": {load_of.tool} sends their requests in slices of {lengths} ms{each}")

    def plan_lines(self, plan: Plan) -> list[tuple[str, str]]:
        """Return which rate a treatment has."""
        rate_per_s = plan.study.workload_of(plan.treatments[0]).rate_per_s
        assert rate_per_s is not None
        return [("rate", f"of each treatment {spec.rate_text(plan.study, len(plan.treatments), rate_per_s)}")]

    def plan_notes(self, plan: Plan, services: Mapping[str, ServiceSpec]) -> list[tuple[str, str]]:
        """Return the memory that the services of all treatments may need at once; [] if loadbook starts none."""
        from loadbook.modes.interleaved.services import memory_notes

        return memory_notes(plan, services)

    def offered_per_s(self, record: TrialRecord) -> float | None:
        """Return the rate of an arm while it is under load: the whole rate, or by request its share."""
        assert record.shared is not None
        return record.shared.rate_per_s

    def has_made(self, record: TrialRecord) -> bool:
        """Return whether a record has its part of a shared load."""
        return record.shared is not None


MODE = SharedMode()
