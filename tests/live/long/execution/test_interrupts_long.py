"""Ctrl-C and SIGTERM, once and twice, and while a host does not answer: stopped in order, recorded, within 15 s."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from controller_processes import jobs_left, must_be_whole
from interrupted_runs import START_S, STUDY, cancelled, controllers_of, load_runs, paths_of, project_to_interrupt
from loadbook.hosts.lab import Lab
from loadbook.store.paths import Layout
from loopback_labs import own_lab
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def layout(tmp_path) -> Layout:
    return project_to_interrupt(tmp_path / "home")


@pytest.fixture
def begin(layout) -> Iterator[Callable[[Lab], subprocess.Popen[str]]]:
    with controllers_of(layout) as begin:
        yield begin


def goes_on(layout: Layout, again: subprocess.Popen[str]) -> None:
    _, err = again.communicate(timeout=240)
    assert again.returncode == 0, err
    must_be_whole(paths_of(layout), ["t0001", "t0002"])


@pytest.mark.fault(3)
def test_interrupt_kills_a_load_generator_that_ignores_sigterm(layout, lab, begin, record_property):
    """TERM, 5 s, KILL."""
    (layout.studies / "stopped.toml").write_text(STUDY.format(duration_s=60, settle_s=0.1))
    controller = begin(lab)
    wait_until(lambda: load_runs(lab), START_S)
    wrk = load_runs(lab)[0]
    os.kill(wrk, signal.SIGSTOP)  # as good as deaf: a stopped process takes no TERM
    begun = time.monotonic()
    controller.send_signal(signal.SIGINT)
    _, err = controller.communicate(timeout=PATIENCE_S)
    took = time.monotonic() - begun
    assert controller.returncode == 130, err
    assert jobs_left(lab) == []
    cancelled(layout)
    record_property("seen", f"deaf load: killed, exit 130 after {took:.1f} s")


@pytest.mark.fault(3)
def test_second_interrupt_ends_at_once_and_prints_the_restore_command(lab, layout, begin, record_property):
    controller = begin(lab)
    wait_until(lambda: load_runs(lab), START_S)
    wrk = load_runs(lab)[0]
    os.kill(wrk, signal.SIGSTOP)  # its end takes 5 s, so that there is something to wait for
    controller.send_signal(signal.SIGINT)
    time.sleep(1.0)
    begun = time.monotonic()
    controller.send_signal(signal.SIGINT)
    _, err = controller.communicate(timeout=PATIENCE_S)
    took = time.monotonic() - begun
    assert controller.returncode == 130, err
    assert f"loadbook restore --hosts {lab.hosts_file}" in err
    cancelled(layout)
    begun = time.monotonic()
    wait_until(lambda: not jobs_left(lab))
    gone = time.monotonic() - begun
    record_property("seen", f"twice: exit 130 {took:.1f} s after the second, jobs gone {gone:.1f} s later")


@pytest.mark.fault(3)
def test_interrupt_while_waiting_between_trials_ends_at_once(lab, layout, begin):
    (layout.studies / "stopped.toml").write_text(STUDY.format(duration_s=1, settle_s=60))
    controller = begin(lab)
    wait_until(lambda: list(layout.study_raw("stopped").glob("*/staging/*")), START_S)
    controller.send_signal(signal.SIGINT)
    controller.communicate(timeout=PATIENCE_S)
    assert controller.returncode == 130
    cancelled(layout)


@contextlib.contextmanager
def stopped_sshd(lab: Lab, alias: str) -> Iterator[None]:
    """Stop a host's sshd with all of its sessions; their kernel still answers."""
    mark = f"{lab.folder}/{alias}/sshd_config".encode()
    lines = {int(p.parent.name): p.read_bytes() for p in Path("/proc").glob("[0-9]*/cmdline") if _lives(p)}
    listeners = {pid for pid, line in lines.items() if mark in line}
    stopped = list(listeners)
    for pid in lines:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{pid}/stat").read_text()
            parent = int(stat.rpartition(")")[2].split()[1])
            if "(sshd" in stat and (parent in listeners or _parent(parent) in listeners):
                stopped.append(pid)
    try:
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in stopped:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


def _lives(cmdline: Path) -> bool:
    try:
        return bool(cmdline.read_bytes())
    except OSError:
        return False


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


@pytest.mark.fault(4)
@pytest.mark.parametrize("wait_s", [0.5, 8.0])
def test_interrupt_while_ssh_is_blocked_ends_the_run(layout, begin, wait_s, record_property):
    """The driver's sshd is stopped in mid-trial; Ctrl-C before we notice, and while we try to connect again."""
    (layout.studies / "stopped.toml").write_text(STUDY.format(duration_s=4, settle_s=0.1))
    with own_lab() as lab:
        controller = begin(lab)
        wait_until(lambda: load_runs(lab), START_S)
        with stopped_sshd(lab, "driver"):
            time.sleep(wait_s)
            begun = time.monotonic()
            controller.send_signal(signal.SIGINT)
            _, err = controller.communicate(timeout=PATIENCE_S)
            took = time.monotonic() - begun
        assert controller.returncode == 130, err
        assert "Traceback" not in err
        cancelled(layout)
        begun = time.monotonic()
        wait_until(lambda: not jobs_left(lab))
        record_property("seen", f"sshd stopped for {wait_s:g} s: exit 130 after {took:.1f} s")
        goes_on(layout, begin(lab))
