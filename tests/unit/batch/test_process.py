"""What a worker does for its part of a batch: which run it takes, what it tells, and how it ends."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from batch_workers import job
from loadbook.batch import process as worker
from loadbook.batch.process import StateFile, read_state
from loadbook.core.errors import HostError
from loadbook.execution.progress import Progress
from loadbook.store.ledger import is_run_complete, read_current_plan
from loadbook.store.paths import Layout
from recorded_run import INCLUDED, STUDIES, STUDY, with_studies


class MessageRecorder:
    """Receiver of a worker's messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def __call__(self, kind: str, **fields: Any) -> None:
        self.messages.append({"kind": kind} | fields)

    def notes(self) -> str:
        return "\n".join(one["event"]["message"] for one in self.messages if one["kind"] == "event")


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    home = with_studies(tmp_path_factory.mktemp("worker"))
    (home.studies / INCLUDED).write_text((STUDIES / INCLUDED).read_text())
    (home.studies / f"{STUDY}.toml").write_text((STUDIES / f"{STUDY}.toml").read_text())
    return home


def test_worker_process_starts_a_run_once_and_resumes_it(layout, monkeypatch):
    first = MessageRecorder()

    def interrupted(kind: str, **fields: Any) -> None:
        first(kind, **fields)
        if fields.get("event", {}).get("kind") == "trial-ended":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.measure(layout, job(), interrupted)
    (run,) = layout.runs(STUDY)
    assert [one["event"]["run"] for one in first.messages if one["event"].get("run")] == [run]
    recorder = MessageRecorder()
    assert worker.measure(layout, job(run=run), recorder) == run
    assert f"resuming run {run}: 3 of 4 trials to do" in recorder.notes()
    assert is_run_complete(layout.run(STUDY, run))
    again = MessageRecorder()
    assert worker.measure(layout, job(run=run), again) == run
    assert again.notes() == f"run {run} is complete already"


def test_worker_process_starts_new_runs_for_a_new_batch(layout):
    before = layout.runs(STUDY)
    recorder = MessageRecorder()
    run = worker.measure(layout, job(), recorder)
    assert run not in before
    assert run in layout.runs(STUDY)


def test_worker_process_adds_blocks_once_despite_interruptions(layout):
    run = worker.measure(layout, job(), MessageRecorder())
    recorder = MessageRecorder()
    assert worker.measure(layout, job(more=1, blocks=None), recorder) == run
    assert recorder.messages[0] == {"kind": "adding", "run": run, "blocks_after": 2}
    assert read_current_plan(layout.run(STUDY, run)).blocks == 2
    recorder = MessageRecorder()
    assert worker.measure(layout, job(more=1, blocks=None, run=run, blocks_after=2), recorder) == run
    assert len(recorder.messages) == 1
    assert read_current_plan(layout.run(STUDY, run)).blocks == 2


@pytest.mark.parametrize("error", [HostError("web", "gone", "look"), OSError("odd"), ValueError("torn")])
def test_worker_process_reports_failures_and_continues(layout, monkeypatch, capsys, error):
    def raises(*_: Any) -> str:
        raise error

    monkeypatch.setattr(worker, "measure", raises)
    recorder = MessageRecorder()
    worker._run_job(layout, job(), recorder)
    assert recorder.messages[0]["kind"] == "failed"
    assert str(error) in recorder.messages[0]["reason"]
    monkeypatch.setattr(worker, "measure", lambda *_: "r")
    monkeypatch.setattr(worker, "make_report", lambda *words: {"ok": 1} if words[3] == "b" else raises())
    recorder = MessageRecorder()
    worker._run_job(layout, job(reports=[("a", {}), ("b", {})]), recorder)
    assert [one["kind"] for one in recorder.messages] == ["ran", "report", "failed", "report", "reported"]


def test_state_of_a_run_is_unchanged_after_writing_and_reading_it(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "running_estimates", lambda *_: [])
    state_file = StateFile(Layout(tmp_path), tmp_path, job())
    for event in (Progress("note", "new run"), Progress("trial-ended", "x", "t1", "a", 1, 2, 2, 4, "lost", 8.0)):
        state_file("event", event=asdict(event))
    state = state_file.state
    assert read_state(tmp_path) == state
    assert (state.not_ok, state.notes, state.share, state.completes_block) == ({"lost": 1}, ["new run"], 0.5, True)
    assert state.line(state.event_time).startswith("block 1 of 2 · t1 a · 2 of 4 trials done · ")


def test_line_of_a_run_names_the_phase_and_counts_its_seconds(tmp_path):
    state_file = StateFile(Layout(tmp_path), tmp_path, job())
    about: dict[str, Any] = {"block": 3, "blocks": 10, "done": 8, "total": 40, "remaining_s": 240.0}
    started = Progress("trial-started", "running", "t0009", "as-is", beside=3, **about)
    for event, words in (
        (started, "block 3 of 10 · 8 of 40 trials done · 4 min left"),
        (
            Progress("phase", "load", phase_s=22.0, **about),
            "block 3 of 10 · load 4 of 22 s · 8 of 40 trials done · 4 min left",
        ),
    ):
        state_file("event", event=asdict(event))
        state = read_state(tmp_path)
        assert state is not None
        assert state.line(state.event_time + 4.5).replace("\u00a0", " ") == words
