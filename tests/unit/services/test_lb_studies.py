"""The balancer studies: which treatments need namespaces, who gets the load, and the article's own command."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.services import load_service
from loadbook.study.reader import find_study
from loadbook.tools.base import Target
from loadbook.tools.httperf import TOOL

STUDIES = Path(__file__).parents[3] / "studies"


def needs(study, treatment: str) -> set[str]:
    """What the services of a treatment need of a host's kernel."""
    settings = [study.setting(treatment, role) for role in study.roles]
    return {need for s in settings if s.service for need in load_service(s.service).needs}


@pytest.mark.parametrize(
    "name", ["lb-scaling-cpu", "lb-vs-single", "lb-vs-single-smoke", "lb-scaling", "lb-scaling-smoke"]
)
def test_balancer_study_default_subset_needs_no_kernel_features(name: str) -> None:
    study = find_study(STUDIES, name)
    assert {study.treatments[t].check for t in study.treatments_in()} == {None, "aa", "control"}
    assert not any(needs(study, treatment) for treatment in study.treatments_in())


def test_balancer_study_kernel_balancers_are_a_separate_subset() -> None:
    study = find_study(STUDIES, "lb-vs-single")
    own = set(study.treatments_in("netns")) - set(study.treatments_in())
    assert own == {"dnat-1", "dnat-2", "dsr-1", "dsr-2"}
    assert all("nft" in needs(study, treatment) for treatment in own)
    kernel = find_study(STUDIES, "lb-kernel-smoke")
    assert kernel.treatments_in() == ("single", "dnat-2", "dsr-2", "single-again", "control-access-log")


def test_balancer_study_has_every_balancer_with_one_and_two_nodes() -> None:
    study = find_study(STUDIES, "lb-vs-single")
    assert (study.target_of("single"), study.setting("single", "web").hosts) == ("web", 1)
    behind = {(study.levels_of(t)["balancer"], study.setting(t, "web").hosts) for t in study.treatments_in("all")}
    both = {(name, nodes) for name in ("haproxy-l4", "haproxy-l7", "nginx", "dnat", "dsr") for nodes in (1, 2)}
    assert both <= behind and ("external", 2) in behind
    assert all(study.target_of(t) == "balancer" for t in study.treatments if study.levels_of(t)["balancer"] != "none")


def test_balancer_study_load_matches_the_published_article() -> None:
    study = find_study(STUDIES, "lb-vs-single-article")
    argv = TOOL.command(study.workload, Target("192.0.2.1", 80, "http"), study.workload.duration_s)
    text = " ".join(argv).replace("=", " ")
    for words in ("--rate 5000", "--num-conns 250000", "--num-calls 5", "--timeout 5", "--uri /index.html"):
        assert words in text, text
    assert study.workload.duration_s == 50


def test_scaling_study_nodes_have_a_known_maximum_request_rate() -> None:
    study = find_study(STUDIES, "lb-scaling")
    limits = {}
    for name in study.treatments_in():
        node = study.setting(name, "app")
        limits[name] = node.hosts * node.vars["slots"] / node.vars["hold_ms"] * 1000
    assert limits["single"] == limits["haproxy-1"] == 800
    assert (limits["haproxy-2"], limits["haproxy-4"]) == (1600, 3200)
    control = study.treatments["control-slots"].expect_effect
    assert limits["control-slots"] / limits["single"] - 1 == pytest.approx(control)
    most = max(study.setting(t, "app").hosts * 8 for t in study.treatments_in())
    assert study.workload.connections >= 2 * most  # no slot is ever without a request waiting for it
