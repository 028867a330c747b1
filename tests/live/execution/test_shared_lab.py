"""Shared blocks in the lab: one vegeta sends the requests of all treatments by turns, to real nginx."""

from __future__ import annotations

import shutil

import pandas as pd
import pyarrow.parquet as pq
import pytest

from controller_processes import jobs_left
from interleaved_study import records_of
from lab_study import ON_A_BUSY_MACHINE
from loadbook.core.errors import UsageError
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.shell import search_path
from loadbook.ingestion.ingest import ingest
from loadbook.modes.plain.page import page_of
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout
from loadbook.store.tables import TABLES, load_run
from loadbook.tools.base import load_tool
from loadbook.tools.shared_slices import read_turns
from loopback_labs import own_lab
from recorded_run import with_studies
from run_tables import tables_without_own_times

OPEN = (
    """
include = "aa.toml"
name = "open"
metric = "latency_intended"
blocks = 1
"""
    + ON_A_BUSY_MACHINE.replace(
        "[workload]\n",
        '[workload]\ntool = "vegeta"\nmodel = "open"\nrate_per_s = 200\nconnections = 10\nduration_s = 1\n',
    )
    + "slices_overrun = 1e9\n"
)
WRONG_PAGE = '[treatments.lost]\nworkload = { path = "/nothing-here" }\n'


def need(tool: str) -> None:
    """Skip a test if a load generator is missing."""
    if not shutil.which(load_tool(tool).binary, path=search_path()):
        pytest.skip(f"{tool} is not installed: {load_tool(tool).install_hint}, or make generators")


@pytest.fixture
def layout(tmp_path) -> Layout:
    need("vegeta")
    made = with_studies(tmp_path / "home")
    (made.studies / "open.toml").write_text(OPEN)
    return made


def run_open(lab, layout: Layout, **options) -> str:
    return run_study(layout, RunRequest("open", lab.hosts_file, **options))


def totals(layout: Layout, run: str) -> dict[str, dict[tuple[str, str], float]]:
    """Return trial -> values of all drivers together."""
    rows = pq.read_table(layout.run("open", run).table("measurements")).to_pylist()
    found: dict[str, dict[tuple[str, str], float]] = {}
    for row in rows:
        if row["driver"] == "*":
            found.setdefault(row["trial"], {})[row["metric"], row["statistic"]] = row["value"]
    return found


def test_open_load_is_shared_by_all_treatments_of_a_block(lab, layout):
    events = []
    run = run_study(layout, RunRequest("open", lab.hosts_file), on_event=events.append)
    assert "execution: shared, as the load is open and nothing speaks against it" in [e.message for e in events]
    first, second = records_of(layout, run, "open")
    assert [first.status, second.status] == ["ok", "ok"]
    assert [first.shared.arm, second.shared.arm] == [0, 1]
    assert first.shared.slice_s == 0.05 and first.shared.active_s == 1
    assert first.services[0].pids != second.services[0].pids
    assert all(service.cpu_s > 0 for record in (first, second) for service in record.services)
    summary = ingest(layout.run("open", run))
    data = load_run(layout, "open", run)
    assert (summary.trials, summary.valid) == (2, 2), data.problems[["level", "message"]].to_string()
    for values in totals(layout, run).values():
        assert values["requests", "count"] == pytest.approx(200, abs=1)
        assert values["duration", "value"] == pytest.approx(1, rel=0.1)  # longer by the lateness of vegeta
        assert values["ok_per_s", "value"] == pytest.approx(values["ok", "count"] / values["duration", "value"])
        assert values["offered_per_s", "value"] == 200
        assert 0 < values["latency_intended", "p50"] <= values["latency_intended", "p99"]
        assert values["cpu_per_response", "value"] > 0
    slices = data.samples[data.samples["metric"] == "slice"]
    assert len(slices) == 2 * 20 and slices["x"].is_unique
    assert jobs_left(lab) == []
    text = page_of(data.study).execution_text(data)
    assert "one vegeta sent the requests of 2 treatments in random order, in slices of 50 ms" in text
    assert text.endswith("each had the whole 200/s in its slices")


def test_by_request_each_treatment_has_its_share_of_the_rate(lab, layout):
    (layout.studies / "open.toml").write_text(
        OPEN.replace("blocks = 1", 'execution = "shared"\nturns = "request"\nblocks = 1')
    )
    run = run_open(lab, layout)
    assert ingest(layout.run("open", run)).valid == 2
    for values in totals(layout, run).values():
        assert values["requests", "count"] == pytest.approx(200, abs=1)
        assert values["duration", "value"] == pytest.approx(2, rel=0.1)
        assert values["offered_per_s", "value"] == 100
    data = load_run(layout, "open", run)
    assert data.samples[data.samples["metric"] == "slice"].empty
    assert page_of(data.study).execution_text(data).endswith("its share of 200/s all the time, 100/s")


@pytest.mark.parametrize("turns", ["slice", "request"])
def test_k6_sends_the_requests_of_all_treatments_by_its_script(lab, layout, turns):
    need("k6")
    asked = f'blocks = 1\nexecution = "shared"\nturns = "{turns}"'
    (layout.studies / "open.toml").write_text(OPEN.replace("blocks = 1", asked).replace('"vegeta"', '"k6"'))
    run = run_open(lab, layout)
    assert [record.status for record in records_of(layout, run, "open")] == ["ok", "ok"]
    assert ingest(layout.run("open", run)).trials == 2
    for values in totals(layout, run).values():
        assert values["requests", "count"] == pytest.approx(200, abs=1)
        assert values["offered_per_s", "value"] == pytest.approx(200 if turns == "slice" else 100, abs=1)
        assert 0 < values["latency_intended", "p50"] <= values["latency_intended", "p99"]
    samples = load_run(layout, "open", run).samples
    assert len(samples[samples["metric"] == "slice"]) == (40 if turns == "slice" else 0)


@pytest.mark.parametrize(("turns", "rate_per_s"), [("slice", 200), ("request", 200 / 3)])
def test_treatment_that_fails_before_the_load_leaves_the_others_their_rate(lab, layout, turns, rate_per_s):
    asked = f'blocks = 1\nexecution = "shared"\nturns = "{turns}"'
    (layout.studies / "open.toml").write_text(OPEN.replace("blocks = 1", asked) + WRONG_PAGE)
    run = run_open(lab, layout)
    ingest(layout.run("open", run))
    for values in totals(layout, run).values():
        assert values["offered_per_s", "value"] == pytest.approx(rate_per_s)
        # by request, three treatments would have had 3 s
        assert values["duration", "value"] == pytest.approx(1 if turns == "slice" else 3, rel=0.1)
    states = trial_states(read_ledger(layout.run("open", run).ledger))
    assert sorted(state.status for state in states.values()) == ["invalid", "ok", "ok"]
    assert "/nothing-here" in next(state.reason for state in states.values() if state.status == "invalid")
    assert jobs_left(lab) == []


def test_replayed_shared_run_reproduces_the_recorded_tables(lab, layout):
    recorded = run_open(lab, layout)
    hosts = layout.run("open", recorded).raw / "hosts.toml"
    replayed = run_study(layout, RunRequest("open", hosts, new=True))
    for before, now in zip(records_of(layout, recorded, "open"), records_of(layout, replayed, "open"), strict=True):
        assert (now.status, now.window, now.shared) == (before.status, before.window, before.shared)
        assert [s.cpu_s for s in now.services] == [s.cpu_s for s in before.services]
    found = [tables_without_own_times(layout.run("open", run)) for run in (recorded, replayed)]
    for name in TABLES:
        pd.testing.assert_frame_equal(found[1][name], found[0][name], obj=name)
    (layout.studies / "open.toml").write_text(OPEN.replace("blocks = 1", 'blocks = 1\nexecution = "plain"'))
    with pytest.raises(UsageError, match="whose blocks are shared, and the study asks for plain trials"):
        run_study(layout, RunRequest("open", hosts, new=True))


@pytest.fixture
def two_drivers():
    with own_lab(hosts={"driver": ("driver",), "web": ("web",), "driver-2": ("driver",)}) as own:
        yield own


def test_two_drivers_have_the_slices_of_one_treatment_at_the_same_time(two_drivers, layout):
    (layout.studies / "open.toml").write_text(OPEN.replace("rate_per_s = 200", "rate_per_s = 301"))
    run = run_open(two_drivers, layout)
    records = records_of(layout, run, "open")
    assert [record.status for record in records] == ["ok", "ok"]
    assert ingest(layout.run("open", run)).trials == 2
    for values in totals(layout, run).values():
        assert values["requests", "count"] == 301
        assert values["offered_per_s", "value"] == 301
        assert values["latency_intended", "p99"] > 0
    for record in records:
        folder = layout.run("open", run).trials / record.trial
        turns = [read_turns("vegeta", (folder / driver.files["schedule"]).read_bytes()) for driver in record.drivers]
        assert turns[0][:, 0].tolist() == turns[1][:, 0].tolist()
        assert [int(own[:, 1].sum()) for own in turns] == [302, 300]
    assert jobs_left(two_drivers) == []
