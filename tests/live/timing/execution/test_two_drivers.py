"""Two drivers against one nginx over SSH in the lab: shares, one start, totals, replay, and one that fails."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pandas as pd
import pytest

from controller_processes import jobs_left
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.errors import PreflightError
from loadbook.core.units import format_duration
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store import trial_record
from loadbook.store.tables import load_run
from loadbook.store.trial_record import clock_error_s, measurement_spans
from loopback_labs import own_lab
from two_driver_runs import DRIVERS, run_with_kill, tables, write
from waiting import wait_until


@pytest.fixture(scope="module")
def lab():
    with own_lab(hosts={"driver": ("driver",), "web": ("web",), "driver-2": ("driver",)}) as own:
        yield own


def test_load_of_two_drivers_is_shared_synchronised_and_replayable(lab, layout):
    write(layout, "pair")
    run = run_study(layout, RunRequest("pair", lab.hosts_file))
    paths = layout.run("pair", run)
    for folder in paths.trials.iterdir():
        record = trial_record.read_trial(folder)
        assert record.status == "ok"
        assert [(d.host, d.argv[2]) for d in record.drivers] == [("driver", "-c6"), ("driver-2", "-c5")]
        assert {m.host for m in record.monitors} == {"driver", "web", "driver-2"} == set(record.clocks)
        assert record.workload["connections"] == 11
        spans = measurement_spans(record.drivers, record.clocks)
        assert record.start_skew_s == pytest.approx(spans.start_skew_s, abs=1e-6)
        assert record.start_skew_s < 0.25, "both wait for one instant; alone, starts are a warm-up's scatter apart"
        assert record.window == pytest.approx(spans.window)
    ours, totals = tables(layout, "pair", run), {}
    for (trial, driver), rows in ours["measurements"].groupby(["trial", "driver"]):
        totals[trial, driver] = rows.set_index(["metric", "statistic"])["value"]
    for trial in ("t0001", "t0002"):
        whole, parts = totals[trial, "*"], [totals[trial, d] for d in DRIVERS]
        for key in (("requests", "count"), ("ok_per_s", "value"), ("bytes_read", "count")):
            assert whole[key] == pytest.approx(sum(part[key] for part in parts)) and min(p[key] for p in parts) > 0
        assert whole["duration", "value"] == max(part["duration", "value"] for part in parts)
        assert whole["latency", "max"] == max(part["latency", "max"] for part in parts)
        assert whole["latency", "min"] == min(part["latency", "min"] for part in parts)
        assert {statistic for metric, statistic in whole.index if metric == "latency"} == {"max", "min"}
        assert all(part["latency", "p99"] > 0 for part in parts)
        assert whole["start_skew", "value"] >= 0
    assert set(ours["trials"]["drivers"]) == {2}
    noted = ours["problems"][ours["problems"]["name"] == "per-driver"]
    assert list(noted["trial"]) == ["t0001", "t0002"]
    watched = ours["traces"][ours["traces"]["metric"] == "process_cpu"]
    assert set(DRIVERS) <= set(watched.loc[watched["item"].str.startswith("wrk:"), "host"])
    reported(layout, "pair", run, ours)
    again = run_study(layout, RunRequest("pair", paths.raw / "hosts.toml", new=True))
    for name, table in tables(layout, "pair", again).items():
        pd.testing.assert_frame_equal(table, ours[name], obj=name)


def test_two_drivers_take_turns_by_one_schedule(lab, layout):
    write(layout, "turns", execution="auto")
    run = run_study(layout, RunRequest("turns", lab.hosts_file))
    paths = layout.run("turns", run)
    records = [trial_record.read_trial(folder) for folder in sorted(paths.trials.iterdir())]
    assert [(record.status, record.reason) for record in records] == [("ok", None)] * 2
    for record in records:
        assert [(d.host, d.argv[2], d.slices) for d in record.drivers] == [
            ("driver", "-c6", "slices-driver"),
            ("driver-2", "-c5", "slices-driver-2"),
        ]
        assert all(1.0 < driver.active_s < 2.0 for driver in record.drivers)
        # of two arms with slices at independent times, two thirds; here other tests wake up drivers late
        assert record.interleaved.apart_share < 0.5
        assert record.start_skew_s is not None
        error_s = clock_error_s(DRIVERS, record.clocks)
        assert record.interleaved.slice_s >= 50 * error_s > 0
        assert record.interleaved.gap_s >= 2 * error_s
    ours = tables(layout, "turns", run)
    for _, rows in ours["measurements"].groupby("trial"):
        of_trial = rows.set_index(["driver", "metric", "statistic"])["value"]
        for metric, statistic in (("ok", "count"), ("ok_per_s", "value")):
            parts = [of_trial[driver, metric, statistic] for driver in DRIVERS]
            assert of_trial["*", metric, statistic] == pytest.approx(sum(parts)) and min(parts) > 0
    assert set(ours["samples"]["driver"]) == {"driver"}
    assert jobs_left(lab) == []
    again = run_study(layout, RunRequest("turns", paths.raw / "hosts.toml", new=True))
    for name, table in tables(layout, "turns", again).items():
        pd.testing.assert_frame_equal(table, ours[name], obj=name)


def reported(layout, name, run, tables):
    """The page says what the load came from and that latency is per driver, and holds no number of both together."""
    page = EffectsPage(load_run(layout, name, run))
    worst = max(tables["measurements"].query("metric == 'start_skew'")["value"])
    assert f"11 connections, 2 drivers that started within {format_duration(worst)}" in page.scope().text
    assert not page.panels
    text = page.latency().text
    assert text.startswith("Latency is each driver’s own: wrk report percentiles, not the time of every request")
    rows = [line.split("  ") for line in text.splitlines()[2:]]
    assert [cell.strip() for row in rows for cell in row if cell.strip() in DRIVERS] == DRIVERS * 2


def kill_first_arm(jobs: Path) -> None:
    """Kill the load generator of the first arm in the middle of its slices."""
    wait_until(lambda: list(jobs.glob("*-t0001-a1-load/arm0/pid")))
    time.sleep(0.7)
    os.kill(int(next(jobs.glob("*-t0001-a1-load/arm0/pid")).read_text()), signal.SIGKILL)


def test_generator_killed_on_one_driver_fails_its_arm_only(lab, layout):
    write(layout, "killed-arm", execution="interleaved")
    run = run_with_kill(lab, layout, "killed-arm", kill_first_arm)
    other = trial_record.read_trial(layout.run("killed-arm", run).trial("t0002"))
    assert (other.status, other.interleaved.apart_share < 0.5) == ("ok", True)


def test_load_share_that_the_tool_cannot_generate_is_refused_before_the_run(lab, layout):
    write(layout, "odd", connections=12, threads=4)
    with pytest.raises(PreflightError, match=r"host driver, whose share is 6 connections: wrk would open 4 of 6"):
        run_study(layout, RunRequest("odd", lab.hosts_file))
    write(layout, "few", connections=1)
    with pytest.raises(PreflightError, match="connections = 1 cannot be shared among 2 drivers"):
        run_study(layout, RunRequest("few", lab.hosts_file))
    assert layout.runs("odd") == layout.runs("few") == []
