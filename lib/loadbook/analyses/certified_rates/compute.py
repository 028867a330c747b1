"""Starts of a run at the rates to certify, and what they certify."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from loadbook.core.metrics import OBJECTIVE_TIME
from loadbook.modes.capacity.mode import certified_objective_of
from loadbook.modes.capacity.stats_certified import RateState, Starts, rate_states
from loadbook.store.tables import RunData
from loadbook.study.model import Study


@dataclass(frozen=True)
class JudgedRate:
    """The starts of one treatment, and whether most of them sustain the rate of its load (1/s).

    `share_low` is the lower bound of the share of starts that meet the objective; `pending` the number of planned
    starts of its configuration that were not made, without which nothing is certified. `state` is as of
    `stats_certified.rate_states`. `is_highest`: no higher rate of the same configuration has this state.
    """

    treatment: str
    rate_per_s: float
    starts: Starts
    share_low: float
    state: RateState
    pending: int
    is_highest: bool

    @property
    def is_certified(self) -> bool:
        """Whether the rate is certified."""
        return self.state == "certified" and not self.pending

    def text(self, labels: Mapping[str, str]) -> str:
        """Return the treatment's label with its rate, unless that is in it: "level 6 at 500/s"."""
        label, rate = labels.get(self.treatment, self.treatment), f"{self.rate_per_s:,g}"
        return label if rate in label else f"{label} at {rate}/s"


def judged_rates_of(data: RunData, level: float) -> dict[str, JudgedRate]:
    """Return treatment -> what its starts show at the confidence `level` (0.95: 95 %); without A/A arms and controls.

    Blocks that were added when the results could be seen do not count.
    """
    objective, study = certified_objective_of(data.study), data.study
    share, planned_blocks = objective.certified_share or 0.0, data.plan.blocks - data.plan.added
    values = data.values(OBJECTIVE_TIME)
    values = values[values["valid"] & (values["block"] <= planned_blocks)].dropna(subset=["value"])
    recorded = set(data.trials["trial"])
    waiting = [planned.treatment for planned in data.plan.trials
               if planned.block <= planned_blocks and planned.trial not in recorded]  # fmt: skip
    judged_rates: dict[str, JudgedRate] = {}
    for group in _same_but_rate(study, data.plan.treatments):
        starts: dict[str, Starts] = {}
        for name in group:
            own = values[values["treatment"] == name].sort_values("block")
            starts[name] = Starts.of_times(own["value"].tolist(), objective.within_s)
        rates = {name: rate_of(study, name) for name in group}
        states = rate_states({rates[name]: one for name, one in starts.items()}, share, level)
        highest = {state: rate for rate, state in states.items()}
        pending = sum(name in group for name in waiting)
        for name, one in starts.items():
            rate, state = rates[name], states[rates[name]]
            judged_rates[name] = JudgedRate(
                name, rate, one, one.share_low(level), state, pending, is_highest=highest[state] == rate
            )
    return {name: judged_rates[name] for name in data.plan.treatments if name in judged_rates}


def rate_of(study: Study, treatment: str) -> float:
    """Return the rate of a treatment's load, 1/s; 0 if its load has no rate."""
    return study.workload_of(treatment).rate_per_s or 0.0


def _same_but_rate(study: Study, treatments: Sequence[str]) -> list[list[str]]:
    """Return the treatments in groups that differ in nothing but the rate of their load, each rate once in a group."""
    groups: dict[tuple[str, int], list[str]] = defaultdict(list)
    seen = Counter[tuple[str, float]]()
    for name in treatments:
        if study.treatments[name].check is None:
            load = study.workload_of(name).model_dump(mode="json", exclude={"rate_per_s"})
            settings = {role: study.setting(name, role).model_dump(mode="json") for role in study.roles}
            key, rate = json.dumps([load, settings], sort_keys=True), rate_of(study, name)
            groups[key, seen[key, rate]].append(name)
            seen[key, rate] += 1
    return list(groups.values())
