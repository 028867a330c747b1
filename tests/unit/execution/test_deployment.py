"""What a treatment needs on the hosts: who sits where, who starts first, what stands behind whom, on which CPUs."""

from types import SimpleNamespace
from typing import Any

import pytest

from loadbook.core.errors import PreflightError, UsageError
from loadbook.execution.deployment import Deployment
from loadbook.execution.host_changes import host_changes_of
from loadbook.execution.placement import DELAY_SERVICE, place_services
from loadbook.execution.studies import check_roles, needed_cpus, needed_hosts, used_hosts
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.services import ServiceSpec
from loadbook.study.model import Study
from loadbook.study.plan import make_plan
from loadbook.tools.base import Target

STUDY = {
    "name": "own", "question": "Who sits where?", "baseline": "single",
    "roles": {
        "driver": {},
        "balancer": {"backends": "web", "variants": {"lb": {"service": "front"}, "cloud": {"external": "lb:81"}}},
        "web": {"service": "front", "backends": ["app", "store"], "hosts": 1},
        "app": {"service": "back", "cpus": "1"}, "store": {"service": "back", "nofile": 500},
    },
    "workload": {"tool": "wrk", "target": "balancer"},
    "factors": {
        "balancer": {"role": "balancer", "of": "variant", "levels": ["none", "lb", "cloud"]},
        "nodes": {"of": "hosts", "levels": [1, 2]},
        "delay": {"role": "driver", "of": "delay_ms", "levels": [0, 30]},
    },
    "treatments": {
        "single": {}, "two": {"set": {"balancer": "lb", "nodes": 2}}, "cloud": {"set": {"balancer": "cloud"}},
        "far": {"set": {"delay": 30}},
    },
}  # fmt: skip
ROLES = {"load": ["driver"], "lb": ["balancer"], "w1": ["web"], "w2": ["web"], "big": ["app", "store"], "idle": ["web"]}


def inventory(**roles: list[str]) -> HostsFile:
    entries = {alias: HostEntry(roles=tuple(own)) for alias, own in (ROLES | roles).items()}
    return HostsFile(hosts=entries)


def spec(name: str) -> ServiceSpec:
    version = {"argv": ["x"], "pattern": "(x)"}
    raw = {"name": name, "about": "", "binary": name, "package": name, "version": version, "commands": {"start": ["x"]}}
    return ServiceSpec.model_validate(raw)


def make_testbed(userspace_delay: bool = False) -> Any:
    """Everything of a testbed that a deployment looks at."""
    plan, known = make_plan(Study.model_validate(STUDY)), inventory()
    specs = {name: spec(name) for name in ("front", "back", *([DELAY_SERVICE] if userspace_delay else []))}
    hosts = {alias: SimpleNamespace(address=f"{alias}.net", workdir=f"/work/{alias}") for alias in known.hosts}
    placements = place_services(plan.study, plan.treatments, known, specs, ["load"])
    return SimpleNamespace(
        plan=plan,
        inventory=known,
        hosts=hosts,
        placements=placements,
        drivers=("load",),
        lab="",
        replayed_run=None,
        cpus_of=lambda alias: [],
        host_cpus=dict.fromkeys(hosts, (0, 1)),
    )


def placements_of(deployment: Deployment) -> list[tuple[str, str, int]]:
    return [(placement.role, placement.alias, placement.port) for placement in deployment.placements]


def test_deployment_starts_backends_first_with_separate_ports_per_role() -> None:
    behind = [("app", "big", 18080), ("store", "big", 18081)]
    assert placements_of(Deployment(make_testbed(), "single")) == [*behind, ("web", "w1", 18080)]
    assert placements_of(Deployment(make_testbed(), "two"))[2:] == [
        ("web", "w1", 18080),
        ("web", "w2", 18080),
        ("balancer", "lb", 18080),
    ]


def test_deployment_targets_the_first_service_in_the_chain() -> None:
    targets = {name: Deployment(make_testbed(), name).target for name in ("single", "two", "cloud")}
    assert targets == {"single": Target("w1.net", 18080), "two": Target("lb.net", 18080), "cloud": Target("lb", 81)}


def test_deployment_passes_backends_to_the_service() -> None:
    deployment = Deployment(make_testbed(), "two")
    places = {
        (placement.role, placement.alias): deployment.instance_context(placement, "t1-a1").extra
        for placement in deployment.placements
    }
    assert [b["node"] for b in places["balancer", "lb"]["backends"]] == ["w1", "w2"]
    assert set(places["web", "w2"]["behind"]) == {"app", "store"}
    app = {"node": "big", "address": "big.net", "port": 18080, "dir": "/work/big/services/t1-a1-app", "local": False}
    assert places["web", "w2"]["backends"] == [app]


def test_deployment_treats_all_lab_hosts_as_one_machine() -> None:
    lab = make_testbed()
    lab.lab = "loopback"
    place = next(
        Deployment(lab, "single").instance_context(placement, "t1-a1")
        for placement in lab.placements
        if placement.role == "web"
    )
    assert [b["local"] for b in place.extra["backends"]] == [True]


def test_deployment_finds_the_number_of_cpus_that_a_plan_needs() -> None:
    assert needed_cpus(make_plan(Study.model_validate(STUDY))) == 2


def test_deployment_probes_a_service_from_the_host_that_sends_it_requests() -> None:
    deployment = Deployment(make_testbed(), "two")
    requested = {placement.role: deployment.client_host(placement).address for placement in deployment.placements}
    assert requested == {"balancer": "load.net", "web": "lb.net", "app": "w1.net", "store": "w1.net"}


def test_deployment_sets_cpus_and_quota_of_processes() -> None:
    deployment = Deployment(make_testbed(), "single")
    launched = {placement.role: deployment.launch(placement) for placement in deployment.placements}
    assert (launched["app"].cpus, launched["web"].cpus, launched["store"].nofile) == ((1,), (), 500)
    deployment.testbed.host_cpus["big"] = (5,)
    with pytest.raises(UsageError, match="run on CPU 1, counted from 0, of host big, which has 1"):
        deployment.launch(deployment.placements[0])


def test_deployment_puts_the_delay_proxy_in_front_of_the_target() -> None:
    delayed = make_testbed(userspace_delay=True)
    far, near = Deployment(delayed, "far"), Deployment(delayed, "single")
    assert placements_of(far)[-1] == ("line", "load", 18080) and far.target == Target("load.net", 18080)
    assert far.setting("line").vars == {"delay_ms": 30.0}
    assert [b["node"] for b in far.instance_context(far.placements[-1], "t1-a1").extra["backends"]] == ["w1"]
    assert "line" not in {placement.role for placement in near.placements} and near.target == Target("w1.net", 18080)


def test_deployment_uses_only_hosts_that_treatments_need() -> None:
    plan = make_plan(Study.model_validate(STUDY))
    assert needed_hosts(plan) == {"driver": 1, "balancer": 1, "web": 2, "app": 1, "store": 1}
    assert used_hosts(plan, inventory()) == ["load", "lb", "w1", "w2", "big"]


def test_deployment_accepts_variants_of_the_load_generator_role() -> None:
    driver = {"variants": {"near": {}, "far": {"delay_ms": 30}}}
    factors = STUDY["factors"] | {"delay": {"role": "driver", "of": "variant", "levels": ["near", "far"]}}
    treatments = STUDY["treatments"] | {"far": {"set": {"delay": "far"}}}
    own = STUDY | {"roles": STUDY["roles"] | {"driver": driver}, "factors": factors, "treatments": treatments}
    assert used_hosts(make_plan(Study.model_validate(own)), inventory())[0] == "load"


def test_deployment_refuses_conflicting_host_changes_on_one_host() -> None:
    def deployment(app: dict[str, object], store: dict[str, object]) -> Deployment:
        own = make_testbed()
        roles = STUDY["roles"] | {"app": {"service": "back"} | app, "store": {"service": "back"} | store}
        own.plan = make_plan(Study.model_validate(STUDY | {"roles": roles}))
        return Deployment(own, "single")

    backlog = "net.core.somaxconn"
    alike = {"sysctls": {backlog: 128}}
    assert host_changes_of(deployment(alike, alike))["big"].sysctls == {backlog: 128}  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=f"host big is to have {backlog} = 128 and 4096"):
        host_changes_of(deployment(alike, {"sysctls": {backlog: 4096}}))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="host big is to have rate_mbit = 10"):
        host_changes_of(deployment({"rate_mbit": 10}, {"rate_mbit": 20}))


def test_deployment_names_the_role_with_too_few_hosts() -> None:
    plan = make_plan(Study.model_validate(STUDY))
    with pytest.raises(PreflightError) as refused:
        check_roles(plan, inventory(w2=["other"], idle=["other"], lb=["other"]))
    printed = [problem.split(" (")[0] for problem in refused.value.problems]
    assert printed == ["no host has the role 'balancer'", "1 host has the role 'web', 2 are needed"]
    with pytest.raises(PreflightError) as caught:
        check_roles(plan, inventory(w2=["other"], lb=["balncer"]))
    assert "no host has the role 'balancer' (host lb has 'balncer'; did you mean 'balancer'?)" in caught.value.message
