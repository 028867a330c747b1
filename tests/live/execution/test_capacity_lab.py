"""Searches for capacity in the lab, of an application whose capacity is known, over real SSH."""

from __future__ import annotations

import multiprocessing

import pytest

from capacity_study import NEEDS_VEGETA, written
from controller_processes import jobs_left, must_be_whole
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.ingestion.ingest import ingest
from loadbook.store.paths import Layout
from waiting import PATIENCE_S, wait_until

pytestmark = [pytest.mark.timeout(300), NEEDS_VEGETA]


def test_killed_run_repeats_its_block(lab: Lab, layout: Layout) -> None:
    written(layout)
    process = multiprocessing.get_context("forkserver").Process(
        target=run_study, args=(layout, RunRequest("sustained", lab.hosts_file)), daemon=True
    )
    process.start()
    wait_until(lambda: bool(list(layout.study_raw("sustained").glob("*/staging/*/probe-03/*"))), 120)
    process.kill()
    process.join(PATIENCE_S)
    (run,) = layout.runs("sustained")
    paths = layout.run("sustained", run)
    assert not list(paths.trials.glob("*"))
    assert run_study(layout, RunRequest("sustained", lab.hosts_file)) == run
    must_be_whole(paths, ["t0001", "t0002"])
    assert ingest(paths).trials == 2
    wait_until(lambda: not jobs_left(lab))
