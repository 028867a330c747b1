"""The mode of capacities under an objective: searches, or starts that certify a rate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from loadbook.core.errors import SpecProblem, UsageError
from loadbook.modes.base import CertifiedRule, Mode, PlanText
from loadbook.modes.capacity.spec import CapacityObjective
from loadbook.modes.capacity.spec_problems import capacity_problems
from loadbook.store.trial_record import TrialRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from loadbook.study.workload import Workload


class CapacityMode(Mode):
    """The capacities of all treatments of a block are searched in rounds, or each has one start at its rate."""

    name = "capacity"
    how = "as searches for capacity"
    load_unit = "probe"
    measures_cpu = True

    def is_asked_by(self, study: Study) -> bool:
        """Return whether a study has an objective."""
        return study.capacity is not None

    def problems(self, study: Study) -> Iterator[SpecProblem]:
        """Yield mistakes in [capacity], and in keys that it sets or excludes."""
        yield from capacity_problems(study)

    def smoke_changes(self, study: Study) -> dict[str, Any]:
        """Return five blocks, and an objective that shorter probes can tell."""
        return {"blocks": 5, "capacity": objective_of(study).shortened()}

    def first_load(self, study: Study, workload: Workload) -> Workload:
        """Return the load of the first probe."""
        return objective_of(study).probe_load(workload)

    def runs_together(self, plan: Plan, block: int) -> bool:
        """Return True: the probes of all treatments of a block are made in rounds."""
        return True

    def execution_text(self, plan: Plan) -> str:
        """Return how the trials of a block are executed."""
        return objective_of(plan.study).execution_text

    def loads_per_trial(self, study: Study) -> int:
        """Return the number of probes that a trial usually has."""
        return objective_of(study).usual_probes

    def certified_rule(self, plan: Plan) -> CertifiedRule | None:
        """Return when a plan certifies the rates of its loads; None for searches."""
        objective = objective_of(plan.study)
        if objective.least_starts is None:
            return None
        return CertifiedRule(objective.certified_if_text(plan.blocks), plan.blocks < objective.least_starts)

    def order_text(self, plan: Plan) -> str:
        """Return the order of the trials of a block."""
        return "searched in rounds" if objective_of(plan.study).is_search else super().order_text(plan)

    def plan_text(self, study: Study, load: str) -> PlanText:
        """Return how many probes a trial has, and what makes it longer."""
        objective = objective_of(study)
        if not objective.is_search:
            return PlanText(load)
        disturbed = "two to five times as long where other programs disturb probes, which are made again"
        return PlanText(
            f"about {objective.usual_probes} probes of {load}, longer at low rates", after_time=f"; {disturbed}"
        )

    def plan_lines(self, plan: Plan) -> list[tuple[str, str]]:
        """Return the objective."""
        return [("objective", f"{objective_of(plan.study).text}, {plan.study.workload.arrivals} arrivals")]

    def has_made(self, record: TrialRecord) -> bool:
        """Return whether a record has probes."""
        return record.capacity is not None

    def has_given_rate(self, record: TrialRecord) -> bool:
        """Return whether a rate is to be certified; that of a search is its result."""
        return record.capacity is None or not record.capacity.is_search


def objective_of(study: Study) -> CapacityObjective:
    """Return the objective of a study; UsageError if it has none."""
    if study.capacity is None:
        raise UsageError(f"study {study.name!r} has no [capacity]", f"its notebook is {study.notebooks[0]}")
    return study.capacity


def certified_objective_of(study: Study) -> CapacityObjective:
    """Return the objective of a study that certifies rates; UsageError for any other study."""
    if study.capacity is None or study.capacity.is_search:
        raise UsageError(
            f"study {study.name!r} has no capacity.certified_share", f"its notebook is {study.notebooks[0]}"
        )
    return study.capacity


MODE = CapacityMode()
