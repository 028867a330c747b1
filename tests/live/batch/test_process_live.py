"""What a worker does for its part of a batch: which run it takes, what it tells, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict

import pytest

from batch_workers import job
from loadbook.batch import process as worker

SLEEPS = """
import sys, time
from loadbook.batch import process as worker
def _run_job(*_):
    print("at work", file=sys.stderr, flush=True)
    time.sleep(60)
worker._run_job = _run_job
sys.exit(worker.main("."))
"""


def process(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, *words]
    pipe = subprocess.PIPE
    one = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert one.stdin is not None
    one.stdin.write(json.dumps(asdict(job(study_source="absent"))) + "\n")
    one.stdin.flush()
    return one


def test_worker_process_prints_json_lines(tmp_path):
    one = process("-m", worker.__name__, str(tmp_path))
    assert one.stdout is not None
    message = json.loads(one.stdout.readline())
    assert (message["kind"], message["exit_code"]) == ("failed", 2)
    assert "no study 'absent'" in message["reason"]
    assert one.wait(timeout=20) == 0


@pytest.mark.parametrize("how", ["word", "end"])
def test_worker_process_ends_on_request_and_with_its_parent(how):
    one = process("-c", SLEEPS)
    assert one.stdin is not None and one.stderr is not None
    assert one.stderr.readline() == "at work\n"
    if how == "word":
        one.stdin.write(f"{worker.STOP_WORD}\n")
        one.stdin.flush()
    else:
        one.stdin.close()
    assert one.wait(timeout=20) == worker.INTERRUPTED
