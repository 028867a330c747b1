"""`loadbook run --dry-run`: nothing is touched, every study is shown, and a real run asks what was shown."""

from __future__ import annotations

import socket

import pytest

from loadbook.execution.dry_run import dry_run
from loadbook.execution.studies import load_study
from loadbook.modes.capacity.spec import USUAL_PROBES
from loadbook.store.paths import Layout
from loadbook.study.plan import make_plan
from loadbook.study.reader import study_files
from recorded_run import REPO

HERE = Layout(REPO)
THREE = REPO / "docs" / "three-hosts.toml"
STUDIES = [path.stem for path in study_files(HERE.studies)]


@pytest.fixture
def no_network(monkeypatch):
    """Make every connection fail the test."""

    def refuse(*args, **kwargs):
        pytest.fail("a dry run touches no network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("name", STUDIES)
def test_dry_run_covers_every_study_on_three_machines(name, no_network):
    plan = make_plan(load_study(HERE, name).model_copy(update={"execution": "plain"}))
    run, parts = dry_run(HERE, plan, THREE)
    treatments = [part for part in parts if part.title.startswith("treatment ")]
    assert len(treatments) == len(plan.treatments)
    each = USUAL_PROBES if plan.study.capacity and plan.study.capacity.is_search else 1
    assert sum(part.repeats for part in treatments) == each * len(plan.trials)
    for part in treatments:
        assert bool(part.phases) != bool(part.missing)
        phases = dict(part.phases)
        if part.phases:
            tool = plan.study.workload_of(part.title.split()[1]).tool
            assert any(step.action == "job" and step.note.startswith(tool) for step in phases["load"])
            stopped = {step.args[0] for step in phases["stop and put back"] if step.action == "stop"}
            assert stopped == {step.args[0] for steps in phases.values() for step in steps if step.action == "job"}
    assert run is not None, f"no treatment of {name} can be done on {THREE.name}: {treatments[0].missing}"
