"""A recorded run of interleaved blocks, played back offline: read, verified, judged and repeated as it was recorded."""

from __future__ import annotations

import shutil

import pandas as pd
import pytest

from loadbook.execution.progress import Progress
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.modes.plain.page import page_of
from loadbook.stats.analyse import analyse
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.tables import TABLES, load_run, read_table
from loadbook.store.trial_record import read_trial
from loadbook.store.verify import verify_run
from recorded_run import INTERLEAVED_FIXTURE, with_studies

STUDY = "interleaved"


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = with_studies(tmp_path / "home")
    shutil.copytree(INTERLEAVED_FIXTURE, made.study_raw(STUDY))
    run = made.run(STUDY, made.resolve_run(STUDY)).raw
    shutil.copyfile(run / "study.toml", made.studies / f"{STUDY}.toml")
    return made


def tables(paths: RunPaths) -> dict[str, pd.DataFrame]:
    ingest(paths)
    found = {name: read_table(paths.table(name), name) for name in TABLES}
    own_times = ["run", "started", "duration_s"]
    return {name: table.drop(columns=own_times, errors="ignore") for name, table in found.items()}


def test_replay_of_interleaved_blocks_reproduces_the_recorded_tables_and_records(layout):
    recorded = layout.run(STUDY, layout.resolve_run(STUDY))
    replayed = layout.run(STUDY, run_study(layout, RunRequest(STUDY, recorded.raw / "hosts.toml", new=True)))
    before, now = tables(recorded), tables(replayed)
    for name in TABLES:
        pd.testing.assert_frame_equal(now[name], before[name], obj=name)
    for folder in recorded.trials.iterdir():
        assert read_trial(replayed.trial(folder.name)).interleaved == read_trial(folder).interleaved


def test_recorded_interleaved_run_tells_rates_and_latencies_of_different_blocks(layout):
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    assert verify_run(paths).findings == []
    assert ingest(paths).trials == 9
    data = load_run(layout, STUDY)
    rate, latency = (analyse(data, metric=metric).row("again").verdict.comparison for metric in ("ok_per_s", "latency"))
    assert (rate.blocks, rate.execution) == (2, "interleaved")
    assert (latency.blocks, latency.execution) == (1, "plain")
    assert (
        page_of(data.study)
        .execution_text(data)
        .startswith("interleaved: 3 treatments took turns in random order, in slices of ")
    )
    assert page_of(data.study).execution_text(data).endswith("; latencies from 1 plain block before")


def test_interleaved_block_reports_its_phases_and_one_time_left_for_all_arms(layout):
    recorded, events = layout.run(STUDY, layout.resolve_run(STUDY)), list[Progress]()
    run_study(layout, RunRequest(STUDY, recorded.raw / "hosts.toml", new=True), on_event=events.append)
    own = [event for event in events if event.block == 2 and event.kind != "note"]
    begun, phases = own[0], [event for event in own if event.kind == "phase"]
    assert (begun.kind, begun.beside, begun.place) == ("trial-started", 2, ["block 2 of 3"])
    assert [event.message for event in phases] == [
        "waiting until hosts are at rest", "writing configurations", "starting services", "checking the page",
        "measuring latency", "warm-up", "load", "reading counters", "collecting results", "stopping services",
    ]  # fmt: skip
    assert all(event.place == ["block 2 of 3"] and event.done == 3 for event in phases)
    planned_s = {event.message: event.phase_s for event in phases if event.phase_s}
    assert set(planned_s) == {"measuring latency", "warm-up", "load"} and min(planned_s.values()) > 0.5
    ended = [event for event in own if event.kind == "trial-ended"]
    assert [(event.done, event.beside) for event in ended] == [(4, 2), (5, 1), (6, 0)]
    assert len({event.remaining_s for event in ended}) == 1
    assert phases[0].remaining_s >= phases[-1].remaining_s > ended[0].remaining_s
    alone = [event for event in events if event.kind == "phase" and event.block == 1]
    assert alone[0].place == ["block 1 of 3", f"{alone[0].trial} {alone[0].treatment}"]
    assert {"warm-up and load"} == {event.message for event in alone if event.phase_s}
