"""Ctrl-C and SIGTERM, once and twice, and while a host does not answer: stopped in order, recorded, within 15 s."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from controller_processes import jobs_left, loadbook
from interrupted_runs import START_S, STUDY, load_runs
from loadbook.hosts.lab import Lab
from loadbook.store import trial_record
from loadbook.store.ledger import read_ledger, trial_states
from loadbook.store.paths import Layout, RunPaths
from recorded_run import with_studies
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def layout(tmp_path) -> Layout:
    made = with_studies(tmp_path / "home")
    (made.studies / "stopped.toml").write_text(STUDY.format(duration_s=4, settle_s=0.1))
    return made


@pytest.fixture
def begin(layout) -> Iterator[Callable[[Lab], subprocess.Popen[str]]]:
    """`begin(lab)` starts the study; what a failed test leaves is ended."""
    begun: list[tuple[subprocess.Popen[str], Lab]] = []

    def one(lab: Lab) -> subprocess.Popen[str]:
        begun.append((loadbook(layout, "run", "stopped", "--hosts", str(lab.hosts_file)), lab))
        return begun[-1][0]

    yield one
    for controller, lab in begun:
        if controller.poll() is None:
            controller.kill()
            controller.communicate()
        for pid in load_runs(lab):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def paths_of(layout: Layout) -> RunPaths:
    return layout.run("stopped", layout.resolve_run("stopped"))


def cancelled(layout: Layout) -> None:
    """Assert that the one attempt ended as cancelled, is kept as failed, and its trial is still to do."""
    (state,) = trial_states(read_ledger(paths_of(layout).ledger)).values()
    assert (state.status, state.reason, state.final) == ("cancelled", "interrupted by the user", False)
    kept = trial_record.read_trial(paths_of(layout).failed / "t0001-attempt1")
    assert (kept.status, kept.reason) == ("cancelled", "interrupted by the user")


@pytest.mark.fault(3)
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_stops_the_load_and_records_the_trial_as_cancelled(lab, layout, begin, sign, record_property):
    controller = begin(lab)
    wait_until(lambda: load_runs(lab), START_S)
    begun = time.monotonic()
    controller.send_signal(sign)
    _, err = controller.communicate(timeout=PATIENCE_S)
    took = time.monotonic() - begun
    assert controller.returncode == 130, err
    assert "Traceback" not in err
    assert "once more: without waiting" in err and "to resume with the next trial: loadbook run stopped --hosts" in err
    assert jobs_left(lab) == []
    cancelled(layout)
    record_property("seen", f"{sign.name}: exit 130 after {took:.1f} s, no load left, cancelled")
