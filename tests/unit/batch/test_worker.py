"""What a worker does for its part of a batch: which run it takes, and which commands it starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from batch_workers import job
from command_line import exit_code
from loadbook.batch.worker import RunStep, Worker, next_run
from loadbook.cli import run as run_command
from loadbook.store.ledger import is_run_complete, read_current_plan
from recorded_run import INCLUDED, STUDIES, STUDY, with_studies


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    home = with_studies(tmp_path_factory.mktemp("worker"))
    (home.studies / INCLUDED).write_text((STUDIES / INCLUDED).read_text())
    (home.studies / f"{STUDY}.toml").write_text((STUDIES / f"{STUDY}.toml").read_text())
    return home


@pytest.fixture
def execute(layout, monkeypatch, capsys):
    """Execute the command of a step in this process; return its messages."""
    monkeypatch.setenv("LOADBOOK_HOME", str(layout.root))

    def call(step: RunStep, code: int = 0) -> list[dict[str, Any]]:
        assert step.arguments is not None
        command, attached, *others = step.arguments
        assert attached == "--attached"
        assert exit_code(monkeypatch, command, "--events", *others) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return call


def notes(messages: list[dict[str, Any]]) -> str:
    return "\n".join(one["message"] for one in messages if one["kind"] == "note")


def test_worker_starts_a_run_once_and_resumes_it(layout, monkeypatch, execute):
    def interrupted(send: Any, *_: Any) -> Any:
        def on_event(event: Any) -> None:
            send(**event.to_message())
            if event.kind == "trial-ended":
                raise KeyboardInterrupt

        return on_event

    with monkeypatch.context() as patch:
        patch.setattr(run_command, "run_events", interrupted)
        messages = execute(next_run(layout, job()), 130)
    (run,) = layout.runs(STUDY)
    assert [one["run"] for one in messages if one.get("run")] == [run]
    assert [one["kind"] for one in messages[-2:]] == ["trial-ended", "stopped"]
    messages = execute(next_run(layout, job(run=run)))
    assert f"resuming run {run}: 3 of 4 trials to do" in notes(messages)
    assert (messages[-1]["kind"], messages[-1]["run"]) == ("ran", run)
    assert is_run_complete(layout.run(STUDY, run))
    assert next_run(layout, job(run=run)) == (None, run, None)


def test_worker_starts_a_new_run_for_a_new_batch(layout, execute):
    before = layout.runs(STUDY)
    run = execute(next_run(layout, job()))[-1]["run"]
    assert run not in before
    assert run in layout.runs(STUDY)


def test_worker_adds_blocks_once_despite_interruptions(layout, execute):
    run = execute(next_run(layout, job()))[-1]["run"]
    step = next_run(layout, job(more=1, blocks=None))
    assert step[1:] == (run, 2)
    assert execute(step)[-1]["run"] == run
    assert read_current_plan(layout.run(STUDY, run)).blocks == 2
    assert next_run(layout, job(more=1, blocks=None, run=run, blocks_after=2)) == (None, run, 2)


def test_worker_without_a_run_for_more_blocks_reports_a_failure(tmp_path):
    (message,) = Worker(with_studies(tmp_path), job(more=1)).messages()
    assert (message["kind"], message["exit_code"]) == ("failed", 2) and STUDY in message["error"]


def test_worker_starts_reports_with_all_parameters(layout):
    worker = Worker(layout, job(folder="pages", home="Batch n"))
    words = worker._report_arguments("r1", "x", {"metric": "latency", "levels": ["a,b", "c"], "level": 0.9, "on": True})
    assert words[words.index("--to") + 1] == "pages/x.html"
    assert words[:2] == ["report", "--attached"] and words[-2:] == ["--", STUDY]
    pairs = [words[k + 1] for k, word in enumerate(words) if word == "-p"]
    assert pairs == ["metric=latency", 'levels=["a,b", "c"]', "level=0.9", "on=true"]


def test_worker_that_was_stopped_starts_no_command(tmp_path):
    worker = Worker(with_studies(tmp_path), job())
    worker.stop()
    assert list(worker.messages()) == [] and worker.exit_code == 130
