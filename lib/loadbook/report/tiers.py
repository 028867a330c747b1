"""Which hosts a treatment uses, and which of them are the nodes behind the balancer."""

from __future__ import annotations

from collections.abc import Mapping

from loadbook.design.role import ABSENT
from loadbook.design.study import Study
from loadbook.records.rundata import RunData


def node_role(study: Study) -> str | None:
    """Return the role that the load's target hands its requests on to; None where nothing stands behind it."""
    behind = study.roles[study.workload.target].backends
    return behind[0] if behind else None


def hosts_of(data: RunData, treatment: str, role: str) -> list[str]:
    """Return the hosts on which a treatment runs the service of a role, in the order of the hosts file."""
    setting = data.study.setting(treatment, role)
    if setting.service is None:
        return []
    return [alias for alias, host in data.run_json["hosts"].items() if role in host["roles"]][: setting.hosts]


def nodes_of(data: RunData) -> dict[str, list[str]]:
    """Return treatment -> its nodes, for every treatment of the run; nothing in a study without a balancer."""
    role = node_role(data.study)
    return {name: hosts_of(data, name, role) for name in data.plan["treatments"]} if role else {}


def series_of(study: Study) -> dict[str, str]:
    """Return treatment -> what stands before its nodes: treatments of one series differ in nothing but their number.

    A check of the laboratory is in no series.
    """
    base = study.levels_of(study.baseline)
    return {name: _series(study, name, base) for name, spec in study.treatments.items() if spec.check is None}


def _series(study: Study, treatment: str, base: Mapping[str, object]) -> str:
    front, behind = study.workload.target, node_role(study)
    levels = study.levels_of(treatment)
    facets = {name: (factor.role, factor.of) for name, factor in study.factors.items()}
    variants = [str(levels[name]) for name, facet in facets.items() if facet == (front, "variant")]
    said = [f"no {front}" if text == ABSENT else text for text in variants] or [front]
    apart = [n for n in levels if facets[n] not in ((front, "variant"), (behind, "hosts")) and levels[n] != base[n]]
    return ", ".join([*said, *(f"{name} {levels[name]}" for name in apart)])
