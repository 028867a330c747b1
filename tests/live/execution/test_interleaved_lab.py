"""Interleaved blocks over SSH in the lab: whole, with an arm that fails, interrupted, and killed in mid-slice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import time
from itertools import pairwise

import pandas as pd
import pyarrow.parquet as pq
import pytest

from controller_processes import at_work_in, jobs_left, loadbook
from interleaved_study import SMALL, project_of_small, records_of, run_in_turns
from loadbook.core.errors import PreflightError, UsageError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.modes.interleaved.read import read_slices
from loadbook.modes.plain.page import page_of
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout
from loadbook.store.tables import TABLES, load_run
from run_tables import tables_without_own_times
from waiting import wait_until

WRONG_PAGE = '[treatments.lost]\nworkload = { path = "/nothing-here" }\n'


@pytest.fixture
def layout(tmp_path) -> Layout:
    return project_of_small(tmp_path / "home")


def test_interleaved_run_is_complete_and_leaves_nothing_on_hosts(lab, layout):
    events = []
    (layout.studies / "small.toml").write_text(SMALL.replace('execution = "interleaved"\n', ""))
    run = run_study(layout, RunRequest("small", lab.hosts_file), on_event=events.append)
    paths, records = layout.run("small", run), records_of(layout, run)
    assert "execution: interleaved, as nothing speaks against it" in [event.message for event in events]
    assert [record.status for record in records] == ["ok"] * 2
    assert [record.interleaved.arm for record in records] == [0, 1]
    assert all(set(record.interleaved.beside) == {"baseline", "again"} for record in records)
    # how long they are is measured in tests/live/timing (test_stall_lab.py)
    assert all(record.interleaved.active_s > 0 for record in records)
    first, second = records[:2]
    assert first.window[0] < second.window[1] and second.window[0] < first.window[1]
    assert first.services[0].pids != second.services[0].pids
    assert all(service.cpu_s > 0 for record in records for service in record.services)
    assert any("interleaved: slices of" in event.message for event in events)
    summary = ingest(paths)
    data = load_run(layout, "small", run)
    assert (summary.trials, summary.valid) == (2, 2), data.problems[["level", "message"]].to_string()
    assert jobs_left(lab) == []
    assert page_of(data.study).execution_text(data).startswith("interleaved, as nothing speaks against it: 2 tr")


def test_interleaved_rate_is_responses_per_second_of_the_arms_slices(lab, layout):
    run = run_in_turns(layout, RunRequest("small", lab.hosts_file))
    run_study(layout, RunRequest("small", lab.hosts_file, more=1))
    paths, (record, _, later, _) = layout.run("small", run), records_of(layout, run)
    # the latency is measured in the first block only, and all blocks of the run have its slices
    lengths, later_lengths = ((r.interleaved.slice_s, r.interleaved.gap_s) for r in (record, later))
    assert lengths == later_lengths
    assert record.interleaved.latency_s is not None and later.interleaved.latency_s is None
    ingest(paths)
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    values = {(r["metric"], r["statistic"]): r["value"] for r in rows if (r["trial"], r["driver"]) == ("t0001", "*")}
    active_s = record.interleaved.active_s
    assert values["ok_per_s", "value"] == pytest.approx(values["ok", "count"] / active_s)
    assert values["duration", "value"] == active_s
    assert values["cpu_per_response", "value"] == pytest.approx(record.services[0].cpu_s / values["ok", "count"])
    # wrk adds samples to its latencies for each pause
    assert not [statistic for metric, statistic in values if metric == "latency"]
    turns = read_slices((paths.trial("t0001") / "slices").read_text()).slices
    assert all(before.end_s <= after.start_s for before, after in pairwise(turns))


@pytest.mark.parametrize("tool", ["ab", "h2load"])
def test_load_generators_other_than_wrk_run_interleaved(lab, layout, tool):
    if not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    (layout.studies / "small.toml").write_text(SMALL.replace("[workload]", f'[workload]\ntool = "{tool}"'))
    run = run_in_turns(layout, RunRequest("small", lab.hosts_file))
    assert [record.status for record in records_of(layout, run)] == ["ok"] * 2
    assert ingest(layout.run("small", run)).valid == 2


def test_failing_arm_does_not_fail_the_other_arms(lab, layout):
    (layout.studies / "small.toml").write_text(SMALL + WRONG_PAGE)
    run = run_in_turns(layout, RunRequest("small", lab.hosts_file))
    states = trial_states(read_ledger(layout.run("small", run).ledger))
    plan = {t["trial"]: t["treatment"] for t in trial_record.read_json(layout.run("small", run).plan_json)["trials"]}
    by_treatment = {plan[trial]: state for trial, state in states.items()}
    assert by_treatment["lost"].status == "invalid" and "/nothing-here answered 404" in by_treatment["lost"].reason
    assert {by_treatment[name].status for name in ("baseline", "again")} == {"ok"}
    assert all(state.final and state.attempt == 1 for state in states.values())


def test_interleaved_run_killed_in_mid_slice_leaves_no_stopped_process_and_can_be_resumed(lab, layout):
    controller = loadbook(layout, "run", "small", "--hosts", str(lab.hosts_file))
    wait_until(lambda: any("interleave.pl schedule" in line for line in jobs_left(lab)))
    time.sleep(0.3)
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    wait_until(lambda: not jobs_left(lab))
    run = run_in_turns(layout, RunRequest("small", lab.hosts_file))
    assert [record.status for record in records_of(layout, run)] == ["ok"] * 2
    assert ingest(layout.run("small", run)).valid == 2


def test_interrupted_block_is_recorded_as_cancelled_and_repeated_completely(lab, layout):
    controller = loadbook(layout, "run", "small", "--hosts", str(lab.hosts_file))
    wait_until(lambda: any("interleave.pl schedule" in line for line in jobs_left(lab)))
    controller.send_signal(signal.SIGINT)
    assert controller.wait(timeout=30) == 130
    assert jobs_left(lab) == []
    run = layout.resolve_run("small")
    ended = [entry for entry in read_ledger(layout.run("small", run).ledger) if entry["event"] == "ended"]
    assert [(entry["status"], entry["final"]) for entry in ended] == [("cancelled", False)] * 2
    assert run_study(layout, RunRequest("small", lab.hosts_file)) == run
    assert [record.attempt for record in records_of(layout, run)] == [2, 2]


def test_server_that_dies_in_mid_slice_ends_only_its_own_arm(lab, layout):
    controller = loadbook(layout, "run", "small", "--hosts", str(lab.hosts_file))
    wait_until(lambda: any("interleave.pl schedule" in line for line in jobs_left(lab)))
    time.sleep(0.5)
    victims = [pid for pid, line in at_work_in(lab).items() if "nginx" in line and "t0001-a1" in line]
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    assert controller.wait(timeout=60) in (0, 4)
    states = trial_states(read_ledger(layout.run("small", layout.resolve_run("small")).ledger))
    assert [states[trial].status for trial in ("t0001", "t0002")] == ["invalid", "ok"]
    assert "nginx ended during the load" in states["t0001"].reason
    assert jobs_left(lab) == []


def test_generator_that_hangs_ends_only_its_own_arm(misbehaving_lab):
    """The first arm's measurement goes on for ever; its warm-up has another folder."""
    misbehaving_lab.fake("wrk", 'case "$PWD" in *-load/arm0) while :; do sleep 1; done;; esac; exec "$real" "$@"')
    (misbehaving_lab.layout.studies / "small.toml").write_text(SMALL)
    run = run_in_turns(misbehaving_lab.layout, RunRequest("small", misbehaving_lab.lab.hosts_file))
    states = trial_states(read_ledger(misbehaving_lab.layout.run("small", run).ledger))
    assert sorted(state.status for state in states.values()) == ["ok", "tool_failed"]
    assert "wrk did not end within 5 s" in next(
        state.reason for state in states.values() if state.status == "tool_failed"
    )
    assert jobs_left(misbehaving_lab.lab) == []


def test_replayed_interleaved_run_reproduces_the_recorded_tables(lab, layout):
    (layout.studies / "small.toml").write_text(SMALL.replace("blocks = 1", "blocks = 2\nlatency_blocks = 1"))
    recorded = run_in_turns(layout, RunRequest("small", lab.hosts_file))
    hosts = layout.run("small", recorded).raw / "hosts.toml"
    replayed = run_study(layout, RunRequest("small", hosts, new=True))
    for before, now in zip(records_of(layout, recorded), records_of(layout, replayed), strict=True):
        assert (now.status, now.window, now.interleaved) == (before.status, before.window, before.interleaved)
        assert [s.cpu_s for s in now.services] == [s.cpu_s for s in before.services]
    found = [tables_without_own_times(layout.run("small", run)) for run in (recorded, replayed)]
    for name in TABLES:
        pd.testing.assert_frame_equal(found[1][name], found[0][name], obj=name)
    (layout.studies / "small.toml").write_text(SMALL.replace('"interleaved"', '"plain"').replace("= 1", "= 2", 1))
    with pytest.raises(UsageError, match="whose blocks are interleaved, and the study asks for plain trials"):
        run_study(layout, RunRequest("small", hosts, new=True))


def test_run_with_blocks_for_latencies_tells_rates_and_latencies(lab, layout):
    (layout.studies / "small.toml").write_text(SMALL.replace("blocks = 1", "blocks = 2\nlatency_blocks = 1"))
    events = []
    run = run_study(layout, RunRequest("small", lab.hosts_file), on_event=events.append)
    assert run_study(layout, RunRequest("small", lab.hosts_file, more=1)) == run
    paths = layout.run("small", run)
    executed = [(record.block, record.interleaved is not None) for record in records_of(layout, run)]
    assert executed == [(1, False)] * 2 + [(2, True)] * 2 + [(3, True)] * 2 + [(4, True)] * 2
    assert {event.block for event in events if event.kind == "trial-ended"} == {1, 2, 3}
    assert ingest(paths).valid == 8
    data = load_run(layout, "small")
    assert list(data.trials["measures"]) == ["latencies"] * 2 + ["rates"] * 6
    latencies, rates = data.values("latency", "p99"), data.values("ok_per_s")
    assert list(latencies["trial"]) == ["t0001", "t0002"] and latencies["value"].notna().all()
    assert list(rates["trial"]) == [f"t{number:04d}" for number in range(3, 9)] and rates["value"].notna().all()
    assert jobs_left(lab) == []


def test_study_that_cannot_be_interleaved_is_refused_with_every_reason(lab, layout):
    text = SMALL.replace("warmup_s = 0.2", 'warmup_s = 0.2\ntool = "jmeter"').replace(
        "blocks = 1", 'blocks = 1\nmetric = "latency"'
    )
    (layout.studies / "small.toml").write_text(text)
    with pytest.raises(UsageError, match=r"jmeter cannot be stopped.*") as refused:
        run_study(layout, RunRequest("small", lab.hosts_file))
    assert "the metric is latency" in refused.value.message
    assert "plain" in refused.value.hint


def test_port_of_a_later_arm_in_use_is_found_before_the_run(lab, layout):
    web = json.loads((lab.folder / "lab.json").read_text())["hosts"]["web"]
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind((web["address"], web["service_port"] + 3))  # two roles, and a port between the arms
        squatter.listen()
        with pytest.raises(PreflightError, match=f"port {web['service_port'] + 3} is in use"):
            run_study(layout, RunRequest("small", lab.hosts_file))
