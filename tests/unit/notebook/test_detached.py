"""State of a run in a process of its own, from the lines that it printed."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from loadbook.core.units import NBSP
from loadbook.execution.progress import Progress
from loadbook.hosts.jobs import process_start_ticks
from loadbook.notebook.detached import EVENTS_FILE, DetachedRun, RunState, find_detached_run

STARTED = {"kind": "started", "at": 100.0, "format": 1, "process_start": int(process_start_ticks(os.getpid()))}


def write(folder: Any, *messages: dict[str, Any], end: str = "") -> None:
    lines = [json.dumps({"pid": os.getpid(), "at": 101.0} | message) + "\n" for message in messages]
    with (folder / EVENTS_FILE).open("a") as file:
        file.write("".join(lines) + end)


def test_state_follows_from_all_complete_lines(tmp_path):
    run = DetachedRun(tmp_path, os.getpid())
    assert run.state() == RunState(started=run.state().started)
    events = (Progress("note", "new run"), Progress("trial-ended", "x", "t1", "a", 1, 2, 2, 4, "lost", 8.0))
    write(tmp_path, STARTED, *(event.to_message() for event in events), end='{"kind": "note", "mess')
    state = run.state()
    assert (state.event, state.not_ok, state.notes, state.share) == (events[1], {"lost": 1}, ["new run"], 0.5)
    assert (state.started, state.event_time, state.ended) == (100.0, 101.0, None)
    assert state.line(101.0).startswith("block 1 of 2 · t1 a · 2 of 4 trials done · ")
    write(tmp_path, {"kind": "ran", "run": "r1", "at": 107.0}, end="")
    assert run.state().notes == ["new run"], "the incomplete line and the next one are one wrong line"
    write(tmp_path, {"kind": "ran", "run": "r1", "at": 107.0})
    assert run.state().line(0.0) == f"2 of 4 trials in 7{NBSP}s: complete" and state.ended is None


def test_last_trial_of_a_block_ends_it():
    assert Progress("trial-ended", "ok", blocks=2, done=2, total=4).ends_block
    assert not Progress("trial-ended", "ok", blocks=2, done=3, total=4).ends_block
    assert not Progress("note", "ok").ends_block


def test_line_of_a_run_names_the_phase_and_counts_its_seconds():
    about: dict[str, Any] = {"block": 3, "blocks": 10, "done": 8, "total": 40, "remaining_s": 240.0}
    started = Progress("trial-started", "running", "t0009", "as-is", beside=3, **about)
    state = RunState()
    for event, words in (
        (started, "block 3 of 10 · 8 of 40 trials done · 4 min left"),
        (
            Progress("phase", "load", phase_s=22.0, **about),
            "block 3 of 10 · load 4 of 22 s · 8 of 40 trials done · 4 min left",
        ),
    ):
        state.update(event.to_message() | {"at": 50.0})
        assert state.line(54.5).replace(NBSP, " ") == words


def test_process_with_a_reused_id_is_not_taken_for_the_run(tmp_path):
    write(tmp_path, STARTED | {"process_start": 1})
    assert find_detached_run(tmp_path) is None
    write(tmp_path, STARTED)
    found = find_detached_run(tmp_path)
    assert found is not None and found.pid == os.getpid()


@pytest.mark.parametrize("text", ["torn {", "[1]\n", '{"kind": "started", "pid": 1, "format": 2}\n'])
def test_lines_that_cannot_be_read_are_no_run(tmp_path, text):
    (tmp_path / EVENTS_FILE).write_text(text)
    assert find_detached_run(tmp_path) is None


def test_lines_of_another_process_are_not_those_of_the_run(tmp_path):
    write(tmp_path, STARTED, {"pid": 1, "kind": "failed", "error": "in use", "hint": None, "exit_code": 2})
    assert DetachedRun(tmp_path, os.getpid()).state().ended is None
