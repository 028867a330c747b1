"""Programs that loadbook runs on hosts, by themselves: CPU time of services, and generators that take turns."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interleave_schedules import PROGRAM, write_schedule
from loadbook.services.cpu_time import read_cpu_time
from local_host import LocalHost
from waiting import wait_until

SPIN = """import os, sys, threading, time
def spin(s):
  end = time.thread_time() + s
  while time.thread_time() < end: pass
"""
FORKED = "spin(0.3); os.write(w, b'x'); sys.stdin.read(); os._exit(0)"
DONE = "print('done', flush=True); sys.stdin.read()\n"


@contextmanager
def service(program: str) -> Iterator[int]:
    """Run a program as the leader of a session until it has printed a line; yield its process id."""
    with subprocess.Popen(
        [sys.executable, "-c", SPIN + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
    ) as process:
        assert process.stdout and process.stdout.readline()
        yield process.pid
        process.communicate()


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("spin(0.3); ", id="own time"),
        pytest.param(f"r, w = os.pipe()\nif not os.fork(): {FORKED}\nos.read(r, 1); ", id="fork"),
        pytest.param("if not os.fork(): spin(0.3); os._exit(0)\nos.wait(); ", id="child that ended"),
        pytest.param("t = threading.Thread(target=spin, args=(0.3,)); t.start(); t.join(); ", id="thread that ended"),
        pytest.param("os.fork() or (os.setpgid(0, 0), spin(0.3), os._exit(0))\nos.wait(); ", id="other group"),
    ],
)
def test_cpu_time_holds_the_time_of_every_process_of_the_session(program: str, tmp_path: Path) -> None:
    host = LocalHost(tmp_path)
    with service(f"{program}{DONE}") as leader, service(DONE) as idle:
        reading = read_cpu_time(host, [leader, idle])
    used_s, idle_s = (ns / 1e9 for ns in reading.used_ns)
    # times are in ticks of 10 ms, and the start of an interpreter takes a few more ticks one time than another
    assert 0.2 < used_s - idle_s < 0.45
    assert reading.machine.split()[0] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_cpu_time_of_a_service_that_has_ended_is_zero(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    assert read_cpu_time(LocalHost(tmp_path), [process.pid]).used_ns == [0]


def state_of(pid: int) -> str:
    """Return the state of a process (S: waits, T: stopped, Z: has ended), "" if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")
def test_interleaving_also_pauses_child_processes_of_a_generator(tmp_path: Path) -> None:
    child = f"{sys.executable} -c 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'; exit 0"
    write_schedule(tmp_path, {"a": child, "b": "exec sleep 600"}, end=600.0)
    with subprocess.Popen(["perl", PROGRAM, "schedule"], cwd=tmp_path, stdout=subprocess.DEVNULL) as program:
        try:
            wait_until((tmp_path / "a" / "stdout").exists)
            wait_until(lambda: (tmp_path / "a" / "stdout").read_text().endswith("\n"))
            pid = int((tmp_path / "a" / "stdout").read_text())
            for state in "TSTST":  # the first stop, before the first slice, is another line of the program
                wait_until(lambda state=state: state_of(pid) == state)
        finally:
            program.terminate()
            program.wait()
    wait_until(lambda: state_of(pid) in ("", "Z"))
