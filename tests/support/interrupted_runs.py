"""Runs in a lab that are interrupted, and what they leave."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from controller_processes import at_work_in, loadbook
from loadbook.hosts.lab import Lab
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout, RunPaths
from recorded_run import with_studies

START_S = 120.0
STUDY = """
include = "aa.toml"
name = "stopped"
execution = "plain"
blocks = 1

[workload]
warmup_s = 0
connections = 4
duration_s = {duration_s}

[reset]
time_wait_sockets = 1000000
settle_s = {settle_s}

[validity]
driver_cpu = 1.0
"""


def load_runs(lab: Lab) -> list[int]:
    """Return the process ids of load generators in the lab."""
    return [pid for pid, line in at_work_in(lab).items() if line.startswith("wrk ") and "http://" in line]


def project_to_interrupt(root: Path) -> Layout:
    """Make a project with the study `stopped`."""
    made = with_studies(root)
    (made.studies / "stopped.toml").write_text(STUDY.format(duration_s=4, settle_s=0.1))
    return made


@contextlib.contextmanager
def controllers_of(layout: Layout) -> Iterator[Callable[[Lab], subprocess.Popen[str]]]:
    """Yield `begin(lab)`, which starts the study; at the end, stop what a failed test leaves."""
    begun: list[tuple[subprocess.Popen[str], Lab]] = []

    def begin(lab: Lab) -> subprocess.Popen[str]:
        begun.append((loadbook(layout, "run", "stopped", "--hosts", str(lab.hosts_file)), lab))
        return begun[-1][0]

    try:
        yield begin
    finally:
        for controller, lab in begun:
            if controller.poll() is None:
                controller.kill()
                controller.communicate()
            for pid in load_runs(lab):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def paths_of(layout: Layout) -> RunPaths:
    """Return the paths of the newest run of the study."""
    return layout.run("stopped", layout.resolve_run("stopped"))


def cancelled(layout: Layout) -> None:
    """Assert that the one attempt ended as cancelled, is kept as failed, and its trial is still to do."""
    (state,) = trial_states(read_ledger(paths_of(layout).ledger)).values()
    assert (state.status, state.reason, state.final) == ("cancelled", "interrupted by the user", False)
    kept = trial_record.read_trial(paths_of(layout).failed / "t0001-attempt1")
    assert (kept.status, kept.reason) == ("cancelled", "interrupted by the user")
