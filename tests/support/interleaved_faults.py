"""Interleaved runs in a lab during which something fails."""

from __future__ import annotations

import time
from collections.abc import Callable

from controller_processes import at_work_in
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.hosts.lab import Lab
from loadbook.store.ledger import read_ledger
from loadbook.store.paths import RunPaths
from recorded_run import with_studies
from waiting import meanwhile, wait_until

STUDY = """
include = "aa.toml"
name = "small"
execution = "interleaved"
blocks = 2

[workload]
connections = 8
duration_s = %g
warmup_s = 0

[reset]
time_wait_sockets = 1000000

[validity]
driver_cpu = 1.0
"""
TRIALS = ["t0001", "t0002", "t0003", "t0004"]


def run_small(lab: Lab, root, duration_s: float = 2, fault: Callable[[], None] = lambda: None) -> RunPaths:
    """Run the study, with a fault as soon as load generators take turns in the first block."""
    layout = with_studies(root)
    (layout.studies / "small.toml").write_text(STUDY % duration_s)
    with meanwhile(lambda: (wait_until(lambda: turns(lab), 120), time.sleep(0.5), fault())):
        run = run_study(layout, RunRequest("small", lab.hosts_file))
    return layout.run("small", run)


def turns(lab: Lab) -> list[int]:
    """Return the processes that let load generators take turns."""
    return [pid for pid, line in at_work_in(lab).items() if line.startswith("perl interleave.pl schedule")]


def statuses(paths: RunPaths) -> list[tuple[str, bool]]:
    return [(entry["status"], entry["final"]) for entry in read_ledger(paths.ledger) if entry["event"] == "ended"]
