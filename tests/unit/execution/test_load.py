"""The load of one trial on several drivers, without a host: shares, commands, the instant at which all begin."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core import clock as time
from loadbook.core.errors import ToolError
from loadbook.execution.load import LEAD_S, MAX_LEAD_S, LoadJobs, _exit_text, _unreadable_outcome
from loadbook.execution.preflight import _tool_version_mismatches
from loadbook.hosts.dry import DryRunHost, DryRunLog
from loadbook.hosts.inventory import HostEntry, HostsFile
from loadbook.hosts.remote import remote_host
from loadbook.store.trial_record import ClockRecord, DriverRecord, clock_error_s, measurement_spans
from loadbook.study.workload import Workload, split_load
from loadbook.tools import base
from loadbook.tools.base import Target

TARGET = Target("192.0.2.1", 80)


def load_of(work: Workload, *drivers: str) -> LoadJobs:
    return LoadJobs(base.load_tool(work.tool), split_load(work, drivers), TARGET, "load")


def clock(offset_s: float, rtt_s: float = 0.001) -> ClockRecord:
    return ClockRecord(offset_before_s=offset_s, rtt_before_s=rtt_s)


def test_load_on_one_driver_starts_at_once():
    alone = load_of(Workload(tool="wrk", connections=50, duration_s=4, warmup_s=2), "a")
    alone.schedule_start({"a": clock(5.0)})
    assert (alone.start_times, alone.lead_s, alone.planned_s) == ({}, 0.0, 6.0)
    assert "-c50" in alone.steps_on("a")[1]


def test_load_on_several_drivers_starts_at_one_instant():
    pair = load_of(Workload(tool="wrk", connections=50, duration_s=4, warmup_s=2), "a", "b")
    clocks = {"a": clock(0.0), "b": clock(3600.0, 0.1), "web": clock(9.0)}
    now = time.now()
    pair.schedule_start(clocks)
    assert pair.start_times["b"] - pair.start_times["a"] == pytest.approx(3600.0)
    assert pair.lead_s == pytest.approx(LEAD_S + 20 * 0.1)
    assert pair.start_times["a"] - now == pytest.approx(2 + pair.lead_s, abs=0.001)
    assert pair.planned_s == pytest.approx(6 + pair.lead_s)
    pair.schedule_start({"a": clock(0.0, 60.0), "b": clock(0.0)})
    assert pair.lead_s == MAX_LEAD_S
    assert pair.timeout_s > pair.planned_s


@pytest.mark.parametrize("warmup_first", [True, False])
def test_end_of_a_load_stops_and_removes_each_of_its_jobs(warmup_first: bool) -> None:
    load = load_of(Workload(tool="wrk", connections=50, duration_s=4, warmup_s=2), "a")
    load.warmup_first = warmup_first
    hosts = HostsFile(hosts={"a": HostEntry(roles=["driver"], host_name="192.0.2.1")})
    log = DryRunLog()
    load.end(DryRunHost(remote_host(Path("hosts.toml"), "a", hosts=hosts), hosts, log))
    names = ["load-warmup", "load"] if warmup_first else ["load"]
    assert [(step.action, step.args[0]) for step in log.take()] == [
        done for name in names for done in (("stop", name), ("remove", f"jobs/{name}"))
    ]


def test_load_share_unsupported_by_the_tool_names_the_driver():
    with pytest.raises(ToolError, match="host b, whose share is 25 connections: wrk would open 24 of 25") as refused:
        load_of(Workload(tool="wrk", connections=51, threads=2), "a", "b").steps_on("b")
    assert refused.value.hint
    third = load_of(Workload(tool="wrk2", model="open", rate_per_s=2, connections=3), "a", "b", "c")
    with pytest.raises(ToolError, match=r"host a, whose share is 0\.666667 a second: wrk2 takes whole requests"):
        third.steps_on("a")
    uneven = load_of(Workload(tool="wrk2", model="open", rate_per_s=10_001, connections=4), "a", "b")
    assert [uneven.steps_on(a)[-1][3] for a in "ab"] == ["-R5001", "-R5000"]


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0.1, 10), st.floats(-1e6, 1e6)), min_size=1, max_size=5))
def test_measurement_window_of_several_drivers_is_independent_of_clock_offsets(drivers):
    records, clocks = [], {}
    for k, (late_s, lasts_s, offset_s) in enumerate(drivers):
        began = 1.7e9 + late_s + offset_s
        records.append(DriverRecord(host=str(k), argv=["wrk"], rc=0, stdout="o", stderr="e"))
        records[-1].started_host, records[-1].ended_host = began, began + lasts_s
        clocks[str(k)] = clock(offset_s)
    spans = measurement_spans(records, clocks)
    starts, ends = [d[0] for d in drivers], [d[0] + d[1] for d in drivers]
    assert spans.start_skew_s == pytest.approx(max(starts) - min(starts), abs=1e-5)
    together, whole = max(0.0, min(ends) - max(starts)), max(ends) - min(starts)
    assert spans.non_overlap_share == pytest.approx(1 - together / whole, abs=1e-4)
    assert (spans.window is not None) == (together > 0) or together < 1e-5
    assert measurement_spans(records, {}) is None


def test_clock_error_of_two_drivers_is_half_of_both_round_trips():
    drivers = [DriverRecord(host=h, argv=["wrk"], rc=0, stdout="o", stderr="e") for h in "abc"]
    clocks = {"a": clock(0, 0.010), "b": clock(0, 0.030), "c": clock(0, 0.002)}
    assert clock_error_s([driver.host for driver in drivers], clocks) == pytest.approx(0.020)
    assert clock_error_s([drivers[0].host], clocks) == 0.0


def test_load_with_different_tool_versions_is_refused():
    versions = {("a", "wrk"): "4.1.0", ("b", "wrk"): "4.2.0", ("a", "ab"): "2.3", ("b", "ab"): "2.3"}
    testbed = SimpleNamespace(tools={"wrk": None, "ab": None}, tool_versions=versions)
    assert list(_tool_version_mismatches(testbed)) == [  # type: ignore[arg-type]
        ("drivers have different versions of wrk: 4.1.0 on a, 4.2.0 on b", "install the same on all")
    ]


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "ended with exit code 1: no such host"),
        (128, "ended with exit code 128: no such host"),
        (137, "was killed by signal 9 (SIGKILL, as the kernel does when memory runs out): exit code 137: no such host"),
        (143, "was killed by signal 15 (SIGTERM): exit code 143: no such host"),
        (255, "was killed by signal 127 (unknown): exit code 255: no such host"),
    ],
)
def test_end_of_a_load_generator_is_told_by_its_exit_code_and_last_line(tmp_path, code, text):
    (tmp_path / "stderr").write_text("warning\nno such host\n\n")
    assert _exit_text(code, tmp_path / "stderr") == text
    assert _exit_text(code, tmp_path / "not-there") == text.removesuffix(": no such host")


def test_only_an_unreadable_row_of_a_request_log_leaves_the_trial_partial(tmp_path):
    (tmp_path / "a-log").write_text("head\none\ntwo\n")
    row = {"host": "a", "file": "a-log", "line": 3, "message": "not a number"}
    assert _unreadable_outcome(tmp_path, [row]) == ("partial", "host a: not a number; none of 3 lines was counted")
    for other in (row | {"line": 1}, row | {"line": None}, row | {"file": "stdout-a"}):
        assert _unreadable_outcome(tmp_path, [row, other]).status == "tool_failed"
