"""Commands that a worker starts: they end on request and with the batch, and their errors become messages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from batch_workers import job
from loadbook.batch.worker import Worker
from loadbook.cli.terminal import EXIT_CODE
from recorded_run import with_studies

SLEEPS = """
import sys, time
from loadbook.cli.events import event_lines
with event_lines(True):
    print("at work")
    time.sleep(60)
"""


def test_error_of_a_command_is_a_message(tmp_path):
    worker = Worker(with_studies(tmp_path), job(study_source="absent"))
    started, failed = worker.messages()
    assert (started["kind"], failed["kind"], failed["exit_code"], worker.exit_code) == ("started", "failed", 2, 0)
    assert "no study 'absent'" in failed["error"] and failed["took_s"] > 0


def test_command_that_cannot_be_started_is_a_message(tmp_path):
    (message,) = Worker(with_studies(tmp_path), job(study_source="a\0b")).messages()
    assert (message["kind"], message["exit_code"]) == ("failed", 3) and "cannot be started" in message["error"]


@pytest.mark.parametrize("how", ["line", "end"])
def test_attached_command_ends_on_request_and_with_its_parent(how):
    pipe = subprocess.PIPE
    one = subprocess.Popen([sys.executable, "-c", SLEEPS], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert one.stdin is not None and one.stderr is not None and one.stdout is not None
    assert one.stderr.readline() == "at work\n"
    if how == "line":
        one.stdin.write("stop\n")
        one.stdin.flush()
    else:
        one.stdin.close()
    assert one.wait(timeout=20) == EXIT_CODE
    assert ("stopped" in one.stdout.read()) == (how == "line")
