"""Mistakes in a study of capacities: keys that the search sets, loads without a rate, too few starts."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.errors import SpecProblem
from loadbook.core.metrics import CAPACITY, OBJECTIVE_TIME
from loadbook.modes.base import PLAIN
from loadbook.modes.capacity.spec import CapacityObjective, least_starts
from loadbook.study.model import Study
from loadbook.study.workload import Workload

SEARCHED_KEYS = frozenset({"rate_per_s", "duration_s", "requests", "model"})  # of a load, by a search for capacity


def capacity_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that a search can set the rate of every load, and that no time-out hides a miss of the objective."""
    objective, metrics = study.capacity, (CAPACITY, OBJECTIVE_TIME)
    if objective is None:
        if study.metric in metrics:
            yield SpecProblem(
                "metric", f"{study.metric} needs a table [capacity] with the objective, such as within_s = 0.02"
            )
        return
    metric = metrics[0] if objective.is_search else metrics[1]
    if study.metric != metric:
        yield SpecProblem("metric", f"is {metric} with this [capacity]: leave it out")
    if study.execution not in ("auto", PLAIN) or study.latency_blocks or study.slices:
        yield SpecProblem("execution", "goes without [capacity], whose probes are loads of their own: leave it out")
    if objective.is_search:
        yield from _searched_key_problems(study)
    else:
        yield from _certified_problems(study, objective)
    for load in map(study.workload_of, study.treatments):
        yield from _probe_problems(objective, load)


def _searched_key_problems(study: Study) -> Iterator[SpecProblem]:
    """Check that no treatment sets a key that the search sets."""
    for name, factor in study.factors.items():
        if factor.of == "workload" and (factor.var or name) in SEARCHED_KEYS:
            yield SpecProblem(f"factors.{name}", "is set by the search for capacity")
    for name, treatment in study.treatments.items():
        for key in sorted(SEARCHED_KEYS & set(treatment.workload)):
            yield SpecProblem(f"treatments.{name}.workload.{key}", "is set by the search for capacity")


def _certified_problems(study: Study, objective: CapacityObjective) -> Iterator[SpecProblem]:
    """Check that the number of starts is fixed, and can certify a rate."""
    least, share = objective.least_starts or 0, objective.certified_share or 0.0
    if study.stopping.rule != "fixed":
        yield SpecProblem("stopping", "goes without capacity.certified_share, which needs a fixed number of starts")
    elif study.blocks < least:
        message = f"{study.blocks} starts cannot show that {100 * share:g} % of starts sustain a rate: at least {least}"
        yield SpecProblem("blocks", f"{message}, and {least_starts(share, 1)} if one may miss the objective")


def _probe_problems(objective: CapacityObjective, load: Workload) -> Iterator[SpecProblem]:
    """Check the load of one treatment."""
    if load.model != "open":
        role = "where the search begins" if objective.is_search else "the rate to certify"
        yield SpecProblem("workload.model", f'is "open" with [capacity], and rate_per_s is {role}')
    if load.arrivals == "users":
        yield SpecProblem("workload.arrivals", "are even or poisson with [capacity]: users slow down with the server")
    if load.requests is not None:
        yield SpecProblem("workload.requests", "goes without [capacity], which sets the length of each probe")
    if load.timeout_s <= objective.within_s:
        message = f"{load.timeout_s:g} s must be longer than capacity.within_s, {objective.within_s:g} s"
        yield SpecProblem("workload.timeout_s", message)
