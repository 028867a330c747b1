"""The program that reads the CPU time of services every few milliseconds; real processes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.resources import files
from itertools import pairwise

import pytest

from loadbook.modes.interleaved.read_outside_cpu import read_cpu_samples
from waiting import PATIENCE_S

PROGRAM = str(files("loadbook.hosts").joinpath("cpu_samples.pl"))
# uses half a CPU, in a process of its own; its parent waits
HALF = """import os, time
if os.fork() == 0:
    while True:
        end = time.thread_time() + 0.01
        while time.thread_time() < end: pass
        time.sleep(0.01)
print(flush=True)
os.wait()
"""

pytestmark = pytest.mark.skipif(not shutil.which("perl"), reason="needs perl")


def test_cpu_time_of_whole_sessions_is_read_in_time_until_the_program_is_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", HALF], stdout=subprocess.PIPE, start_new_session=True) as busy:
        assert busy.stdout and busy.stdout.readline()
        idle = subprocess.Popen(["sleep", "60"], start_new_session=True)
        argv = ["perl", PROGRAM, "0.0125", "30", str(busy.pid), str(idle.pid), "999999999"]
        reader = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        time.sleep(1.2)
        reader.terminate()
        text, _ = reader.communicate(timeout=PATIENCE_S)
        idle.kill()
        idle.wait()
        os.killpg(busy.pid, signal.SIGKILL)
    used, rest, none = read_cpu_samples(text, 3)
    lengths_s = [after.t_s - before.t_s for before, after in pairwise(used)]
    assert len(used) > 30 and sorted(lengths_s)[len(lengths_s) // 2] == pytest.approx(0.0125, abs=0.006)
    assert 0.2 < (used[-1].cpu_s - used[0].cpu_s) / (used[-1].t_s - used[0].t_s) < 0.6
    assert rest[-1].cpu_s - rest[0].cpu_s < 0.01
    assert none == []


def test_service_that_ends_has_no_further_readings() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) as busy:
        reader = subprocess.Popen(["perl", PROGRAM, "0.02", "1", str(busy.pid)], stdout=subprocess.PIPE, text=True)
        time.sleep(0.4)
        busy.kill()
        busy.wait()
        text, _ = reader.communicate(timeout=PATIENCE_S)
    (used,) = read_cpu_samples(text, 1)
    assert 5 < len(used) < len(text.splitlines())
    assert all(before.cpu_s <= after.cpu_s for before, after in pairwise(used))


def test_readings_end_by_themselves_after_their_limit() -> None:
    done = subprocess.run(
        ["perl", PROGRAM, "0.01", "0.3", "1"], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert 5 <= len(done.stdout.splitlines()) <= 31
