"""Whole runs over SSH in the lab: to the end, killed at any instant, interrupted, refused."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from controller_processes import jobs_left
from lab_study import SMALL
from loadbook.core.errors import PreflightError, UsageError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import lab_lock_owners
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout
from recorded_run import with_studies

PHASES = ["reset", "configure", "start", "ask_before", "load", "ask_after", "collect", "stop"]


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = with_studies(tmp_path / "home")
    (made.studies / "small.toml").write_text(SMALL)
    return made


def job_folders(lab) -> set[Path]:
    """Return the jobs that hosts of the lab hold; other tests of the session leave theirs."""
    return set(lab.folder.glob("*/work/jobs/*"))


def test_lab_run_is_complete_and_leaves_nothing_on_hosts(lab, layout):
    events, jobs_before = [], job_folders(lab)
    run = run_study(layout, RunRequest("small", lab.hosts_file), on_event=events.append)
    paths = layout.run("small", run)
    records = [trial_record.read_trial(paths.trial(f"t000{i}")) for i in range(1, 5)]
    assert [r.status for r in records] == ["ok"] * 4
    assert all(list(r.phases_s) == PHASES for r in records)
    assert all(r.services[0].live and r.services[0].version for r in records)
    assert len({r.services[0].pids[0] for r in records}) == 4
    assert all(r.response_before == r.response_after and r.response_after.bytes == 5 for r in records)
    assert all({m.host for m in r.monitors} == {"driver", "web"} == set(r.clocks) for r in records)
    assert all(r.window[1] - r.window[0] > 0.95 for r in records)
    assert [e.done for e in events if e.kind == "trial-ended"] == [1, 2, 3, 4]
    assert json.loads(paths.run_json.read_bytes())["lab"] == "loopback"
    assert {p.name for p in paths.facts.iterdir()} == {
        "driver-before.json", "driver-after.json", "web-before.json", "web-after.json",
    }  # fmt: skip
    assert ingest(paths).trials == 4
    assert jobs_left(lab) == []
    assert job_folders(lab) == jobs_before
    assert not list(lab.folder.glob("*/work/services/*"))


def test_preflight_reports_every_problem_before_the_first_trial(lab, layout):
    (layout.studies / "small.toml").write_text(SMALL + "\n[roles.store]\n[roles.balancer]\n")
    with pytest.raises(PreflightError) as refused:
        run_study(layout, RunRequest("small", lab.hosts_file))
    assert [p.split(" (")[0] for p in refused.value.problems] == [
        "no host has the role 'store'",
        "no host has the role 'balancer'",
    ]
    assert layout.runs("small") == []


def test_preflight_finds_a_port_in_use(lab, layout):
    web = json.loads((lab.folder / "lab.json").read_text())["hosts"]["web"]
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((web["address"], web["service_port"]))
        squatter.listen()
        with pytest.raises(PreflightError, match=f"host web: port {web['service_port']} is in use"):
            run_study(layout, RunRequest("small", lab.hosts_file))


def test_run_that_cannot_start_releases_its_locks(lab, layout):
    (layout.studies / "small.toml").write_text(SMALL + "[roles.driver]\nloss = 0.1\n")
    with pytest.raises(UsageError, match="lost packets can only be made by the kernel"):
        run_study(layout, RunRequest("small", lab.hosts_file))
    assert not lab_lock_owners(lab.folder / "driver" / "work")


def test_wrong_page_makes_the_trial_invalid_and_the_run_continues(lab, layout):
    (layout.studies / "small.toml").write_text(SMALL.replace("[workload]", '[workload]\npath = "/nothing-here"'))
    run = run_study(layout, RunRequest("small", lab.hosts_file, blocks=1))
    ended = trial_states(read_ledger(layout.run("small", run).ledger))
    assert {s.status for s in ended.values()} == {"invalid"}
    assert all("/nothing-here answered 404" in s.reason and s.attempt == 1 for s in ended.values())
    assert ingest(layout.run("small", run)).valid == 0


def test_unknown_study_is_a_usage_error(lab, layout):
    with pytest.raises(UsageError, match="no study 'smal'"):
        run_study(layout, RunRequest("smal", lab.hosts_file))
