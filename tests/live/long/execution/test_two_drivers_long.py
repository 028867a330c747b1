"""Two drivers against one nginx over SSH in the lab: shares, one start, totals, replay, and one that fails."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from loadbook.analyses.effects.page import EffectsPage
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store.tables import load_run
from loopback_labs import own_lab
from two_driver_runs import DRIVERS, run_with_kill, tables, write
from waiting import wait_until


@pytest.fixture(scope="module")
def lab():
    with own_lab(hosts={"driver": ("driver",), "web": ("web",), "driver-2": ("driver",)}) as own:
        yield own


def test_latencies_of_two_drivers_are_merged_from_requests(lab, layout):
    write(layout, "logs", tool="h2load", extra='["--log-file=h2load.log"]')
    spec = layout.studies / "logs.toml"
    spec.write_text(spec.read_text().replace("blocks", 'metric = "latency"\nblocks'))
    events = []
    run = run_study(layout, RunRequest("logs", lab.hosts_file), on_event=events.append)
    printed = [event.message for event in events if event.kind == "note"]
    assert "the load is shared among driver, driver-2" in printed
    assert any(line.startswith("latency of several drivers has a total only where") for line in printed)
    rows = tables(layout, "logs", run)["measurements"]
    latency = rows[(rows["metric"] == "latency") & (rows["trial"] == "t0001")]
    wide = latency.pivot_table(index="statistic", columns="driver", values="value")
    parts = wide[DRIVERS]
    # h2load prints three digits, its log has them all
    assert wide.loc["max", "*"] == pytest.approx(parts.loc["max"].max(), rel=0.01)
    assert wide.loc["min", "*"] == pytest.approx(parts.loc["min"].min(), rel=0.01)
    for name in ("p50", "p90", "p99"):
        assert parts.loc[name].min() <= wide.loc[name, "*"] <= parts.loc[name].max()
    counts = rows[(rows["metric"] == "requests") & (rows["trial"] == "t0001")].set_index("driver")["value"]
    mean = sum(parts.loc["mean", d] * counts[d] for d in DRIVERS) / counts["*"]
    assert wide.loc["mean", "*"] == pytest.approx(mean, rel=0.01)
    page = EffectsPage(load_run(layout, "logs", run))
    assert "p99" in page.panels
    assert "each driver" not in page.latency().text


def kill_load(jobs: Path) -> None:
    """Kill the load generator of the first trial in the middle of its measurement."""

    def measuring() -> list[Path]:
        return [p for p in jobs.glob("*-t0001-a1-load/step") if (p.parent / "times.1").exists()]

    wait_until(lambda: measuring() and measuring()[0].stat().st_mtime > (measuring()[0].parent / "at.2").stat().st_mtime
               + 0.3, 30)  # fmt: skip
    os.kill(int(measuring()[0].read_text()), signal.SIGKILL)


def test_failing_driver_is_named_and_fails_the_trial(lab, layout):
    write(layout, "killed")
    run = run_with_kill(lab, layout, "killed", kill_load)
    found = tables(layout, "killed", run)
    assert list(found["trials"]["valid"]) == [False, True]
    assert set(found["measurements"]["trial"]) == {"t0002"}
