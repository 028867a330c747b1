"""Which hosts a treatment uses, and which of them are the nodes behind the balancer."""

from __future__ import annotations

from collections.abc import Mapping

from loadbook.design.role import ABSENT_VARIANT
from loadbook.design.study import Study
from loadbook.records.rundata import RunData


def node_role(study: Study) -> str | None:
    """Return the role that the load's target hands its requests on to; None where nothing stands behind it."""
    backends = study.roles[study.workload.target].backends
    return backends[0] if backends else None


def treatment_hosts(data: RunData, treatment: str, role: str) -> list[str]:
    """Return the hosts on which a treatment runs the service of a role, in the order of the hosts file."""
    setting = data.study.setting(treatment, role)
    if setting.service is None:
        return []
    return [alias for alias, host in data.run_json["hosts"].items() if role in host["roles"]][: setting.hosts]


def nodes_by_treatment(data: RunData) -> dict[str, list[str]]:
    """Return treatment -> its nodes, for every treatment of the run; nothing in a study without a balancer."""
    role = node_role(data.study)
    return {name: treatment_hosts(data, name, role) for name in data.plan["treatments"]} if role else {}


def series_by_treatment(study: Study) -> dict[str, str]:
    """Return treatment -> what stands before its nodes: treatments of one series differ in nothing but their number.

    A check of the laboratory is in no series.
    """
    base = study.levels_of(study.baseline)
    return {name: _series_name(study, name, base) for name, spec in study.treatments.items() if spec.check is None}


def _series_name(study: Study, treatment: str, base: Mapping[str, object]) -> str:
    balancer, nodes = study.workload.target, node_role(study)
    levels = study.levels_of(treatment)
    facets = {name: (factor.role, factor.of) for name, factor in study.factors.items()}
    variants = [str(levels[name]) for name, facet in facets.items() if facet == (balancer, "variant")]
    names = [f"no {balancer}" if text == ABSENT_VARIANT else text for text in variants] or [balancer]
    differing = [n for n in levels if facets[n] not in ((balancer, "variant"), (nodes, "hosts")) and levels[n] != base[n]]
    return ", ".join([*names, *(f"{name} {levels[name]}" for name in differing)])
