"""What a study needs on the hosts of each role, the packages that bring it, and what a run says of what is wrong."""

from __future__ import annotations

import json

from command_line import exit_code
from loadbook.execution.preflight import package_arguments, required_programs, service_programs
from loadbook.services import load_service
from loadbook.store.paths import Layout
from loadbook.study.reader import find_study
from recorded_run import REPO

HERE = Layout(REPO)


def test_required_programs_are_tools_on_drivers_and_services_on_servers():
    found = required_programs(find_study(HERE.studies, "nginx-directives"), [])
    assert {role: [p.binary for p in those] for role, those in found.items()} == {"driver": ["wrk"], "web": ["nginx"]}
    assert package_arguments([p for those in found.values() for p in those]) == ["wrk=wrk", "nginx=nginx-light"]


def test_required_compiler_may_be_missing_on_the_host_if_the_controller_has_it():
    found = service_programs(load_service("go-app"))
    assert [(p.binary, p.required) for p in found] == [("go", False)]
    assert package_arguments(found) == ["go=golang-go"]


def test_studies_packages_prints_the_arguments_of_setup(monkeypatch, capsys):
    monkeypatch.setenv("LOADBOOK_HOME", str(REPO))
    assert exit_code(monkeypatch, "studies", "tool-agreement", "--packages") == 0
    seen = capsys.readouterr()
    assert {"ab=apache2-utils", "nginx=nginx-light", "wrk=wrk"} <= set(seen.out.splitlines())
    assert "jmeter: " in seen.err
    assert "make jmeter" in seen.err
    assert exit_code(monkeypatch, "studies", "aa", "--json") == 0
    assert [row["study"] for row in json.loads(capsys.readouterr().out)] == ["aa"]


def test_preflight_checks_additional_ports_of_a_service():
    """The balancer that is asked on a port of its own, 10,000 above that of the load."""
    from types import SimpleNamespace

    from loadbook.execution.placement import Placement
    from loadbook.execution.preflight import needed_ports

    placements = [
        Placement("balancer", "a", load_service("haproxy"), 18_080),
        Placement("web", "b", load_service("nginx"), 18_080),
    ]
    plan = SimpleNamespace(treatments=["only"])
    testbed = SimpleNamespace(placements=placements, plan=plan)
    plan.study = SimpleNamespace(roles=["balancer", "web"], capacity=None, execution="plain")
    assert [int(port, 16) for port in needed_ports(testbed, "a")] == [18_080, 28_080]  # type: ignore[arg-type]
    assert [int(port, 16) for port in needed_ports(testbed, "b")] == [18_080]  # type: ignore[arg-type]
