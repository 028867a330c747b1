"""Searches for capacity in the lab, of an application whose capacity is known, over real SSH."""

from __future__ import annotations

import multiprocessing

import pytest

from capacity_study import NEEDS_VEGETA, records_of, written
from controller_processes import jobs_left, must_be_whole
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.timeout(300), NEEDS_VEGETA]


def test_objective_that_nothing_meets_is_found_by_a_few_probes(lab: Lab, layout: Layout) -> None:
    written(layout, within_s=0.015, start=100, blocks=2)
    run = run_study(layout, "sustained", lab.hosts_file)
    paths = layout.run("sustained", run)
    summary = ingest(paths)
    assert summary.valid == 0
    causes = " ".join(cause for cause, _ in summary.causes)
    assert "no rate meets the objective: even" in causes and "raise capacity.within_s" in causes
    assert "not searched, as in an earlier block" in causes
    first, second = records_of(paths)  # those of the second block have no files
    assert all(record.capacity and len(record.capacity.probes) <= 8 for record in (first, second))
    assert sorted(folder.name for folder in paths.failed.iterdir()) == ["t0003-attempt1", "t0004-attempt1"]


def test_killed_run_repeats_its_block(lab: Lab, layout: Layout) -> None:
    written(layout)
    process = multiprocessing.get_context("forkserver").Process(
        target=run_study, args=(layout, "sustained", lab.hosts_file), daemon=True
    )
    process.start()
    wait_until(lambda: bool(list(layout.study_raw("sustained").glob("*/staging/*/probe-03/*"))), 120)
    process.kill()
    process.join(PATIENCE_S)
    (run,) = layout.runs("sustained")
    paths = layout.run("sustained", run)
    assert not list(paths.trials.glob("*"))
    assert run_study(layout, "sustained", lab.hosts_file) == run
    must_be_whole(paths, ["t0001", "t0002"])
    assert ingest(paths).trials == 2
    wait_until(lambda: not jobs_left(lab))
