"""Ctrl-C and SIGTERM, once and twice, and while a host does not answer: stopped in order, recorded, within 15 s."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from controller_processes import jobs_left
from interrupted_runs import START_S, STUDY, cancelled, controllers_of, load_runs, project_to_interrupt
from loadbook.hosts.lab import Lab
from loadbook.store.paths import Layout
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def layout(tmp_path) -> Layout:
    return project_to_interrupt(tmp_path / "home")


@pytest.fixture
def begin(layout) -> Iterator[Callable[[Lab], subprocess.Popen[str]]]:
    with controllers_of(layout) as begin:
        yield begin


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
    assert (
        "press Ctrl-C again to stop without waiting" in err
        and "to resume with the next trial: loadbook run stopped --hosts" in err
    )
    assert jobs_left(lab) == []
    cancelled(layout)
    record_property("seen", f"{sign.name}: exit 130 after {took:.1f} s, no load left, cancelled")


def test_interrupt_stops_a_warm_up_that_is_a_job_of_its_own(lab, layout, begin):
    """CPU time per response is measured without the warm-up's, which therefore has a job of its own."""
    text = STUDY.format(duration_s=4, settle_s=0.1).replace("warmup_s = 0", "warmup_s = 30")
    (layout.studies / "stopped.toml").write_text(text.replace("blocks = 1", 'blocks = 1\nmetric = "cpu_per_response"'))
    controller = begin(lab)
    wait_until(lambda: load_runs(lab), START_S)
    assert list(lab.folder.glob("*/work/jobs/*warmup*"))
    controller.send_signal(signal.SIGINT)
    _, err = controller.communicate(timeout=PATIENCE_S)
    assert controller.returncode == 130, err
    assert jobs_left(lab) == []
    cancelled(layout)
