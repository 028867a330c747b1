"""What came of a batch: rows after every change, a round that goes on where it was, the worst exit code, the page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hostile_texts import CORPUS
from loadbook.batch import index
from loadbook.batch.file import Batch
from loadbook.batch.jobs import BatchJob, BatchRun, ReportJob, read_batch_run, start_batch_run
from loadbook.batch.scheduler import BatchOptions, BatchSession
from loadbook.batch.worker import Worker, WorkerJob
from loadbook.core.errors import DataError, UsageError
from loadbook.report.html import forbidden_content
from loadbook.store.paths import Layout

Message = dict[str, Any]
VERDICT = {"kind": "better", "word": "faster", "glyph": "▲", "sentence": "gzip is faster by 6.0 %."}
GOOD = {"verdict": VERDICT, "valid": 48, "planned": 48, "aa": True, "control": False}


def work(study: str, *names: str, more: int | None = None) -> BatchJob:
    reports = tuple(ReportJob(name, name, {"metric": name}) for name in names or (study,))
    return BatchJob(
        study=study,
        study_source=study,
        question=f"Is {study} faster?",
        hosts=None,
        subset=None,
        blocks=None,
        more=more,
        trials=4,
        run_s=10,
        notebooks=("config_effects",),
        machines=frozenset(),
        reports=reports,
    )


def reported(name: str, summary: Message | None = None, failures: tuple[str, ...] = ()) -> list[Message]:
    files = {"config_effects": [f"/reports/{name}.html", f"/reports/{name}.ipynb"]}
    last = {"kind": "reported", "took_s": 3.0, "summary": summary or GOOD, "files": files}
    return [{"kind": "report", "name": name}, last | {"failed": list(failures)}]


def ran(run: str) -> list[Message]:
    note = {"kind": "note", "message": f"new run {run}", "run": run}
    trial = {"kind": "trial-ended", "message": "ok", "trial": "t0001", "done": 1, "total": 4, "remaining_s": 5.0}
    return [{"kind": "started", "format": 1}, note, trial, {"kind": "ran", "run": run, "took_s": 7.0}]


FAILED = {"kind": "failed", "error": "host web: no way there", "hint": "loadbook doctor", "exit_code": 3}


class Script(Worker):
    """A worker that yields the messages of a script, and ends with a code."""

    def __init__(self, printed: list[Message], code: int) -> None:
        self.printed, self.exit_code = printed, code

    def messages(self) -> Iterator[Message]:
        yield from self.printed

    def stop(self) -> None:
        self.exit_code = 130


class Stage:
    """A project in which each study's worker says what stands in `scripts`."""

    def __init__(self, root: Path) -> None:
        self.layout, self.scripts = Layout(root), dict[str, tuple[list[Message], int]]()
        self.jobs: list[WorkerJob] = []
        self.reported: list[str] = []
        self.file = root / "nightly.toml"

    def start(self, layout: Layout, job: WorkerJob) -> Script:
        self.jobs.append(job)
        return Script(*self.scripts[job.study])

    def sit(
        self, works: list[BatchJob], how: BatchOptions | None = None, stop_at: str = "", **choice: bool
    ) -> BatchRun:
        self.jobs.clear()
        last = read_batch_run(self.folder)
        round_, _ = start_batch_run(
            Batch("nightly", self.file, ()), works, last, **{"new": False, "failed": False} | choice
        )

        def heard(one: BatchJob, name: str, event: Any, left_s: float) -> None:
            self.reported.append(f"{name} {event.line()}")
            if one.study == stop_at:
                sitting.scheduler.stop()

        sitting = BatchSession(self.layout, round_, works, how or BatchOptions(max_parallel=1), heard, self.start)
        sitting.run()
        return round_

    @property
    def folder(self) -> Path:
        return self.layout.batch("nightly")

    @property
    def page(self) -> str:
        return (self.folder / index.PAGE_FILE).read_text()


@pytest.fixture
def stage(tmp_path):
    one = Stage(tmp_path)
    for name in ("a", "b", "c"):
        one.scripts[name] = ([*ran(f"run-{name}"), *reported(name)], 0)
    return one


def states(round_: BatchRun) -> dict[str, str]:
    return {row.name: row.state for row in round_.entries}


def test_batch_row_and_file_record_the_result_of_an_entry(stage):
    stage.sit([work("a"), work("b")])
    kept = json.loads((stage.folder / "batch.json").read_text())
    row = kept["entries"][0]
    assert (row["state"], row["run"], row["ran_s"], row["reported_s"], row["exit_code"]) == ("done", "run-a", 7, 3, 0)
    assert row["summary"] == GOOD
    assert row["pages"] == [{"notebook": "config_effects", "page": "a.html", "executed": "a.ipynb"}]
    assert (kept["exit_code"], kept["ended"] is not None) == (0, True)
    assert [job.folder for job in stage.jobs] == [str(stage.folder)] * 2
    printed = [line for line in stage.reported if "done" in line]
    assert printed == [f"{name} done, 10\u00a0s; {k} of 2 entries are over" for k, name in enumerate("ab", 1)]


def test_batch_row_lists_harness_checks_beside_the_verdict(stage):
    done = stage.sit([work("a")])
    (displayed,) = index.entry_rows(done)
    assert displayed["lines"] == ["▲ gzip is faster by 6.0 %.", "✓ A/A · ✕ known effect"]
    assert '<td data-name="Checks">✓ A/A<br>✕ known effect</td>' in stage.page


def test_batch_failure_is_shown_as_a_row_and_other_entries_continue(stage):
    stage.scripts["a"] = ([FAILED], 0)
    stage.scripts["b"] = ([*ran("run-b"), *reported("b", failures=("notebook x: cell 3 lost its kernel",))], 0)
    done = stage.sit([work("a"), work("b"), work("c")])
    assert states(done) == {"a": "failed", "b": "failed", "c": "done"}
    assert (done.exit_code, done.ended is not None) == (3, True)
    assert "host web: no way there" in stage.page and "Next: loadbook doctor" in stage.page
    assert "cell 3 lost its kernel" in stage.page
    assert f"loadbook batch {stage.file} --failed" in stage.page
    assert "1 of 3 done, 2 failed" in stage.page


def test_batch_failed_run_fails_its_reports(stage):
    stage.scripts["a"] = ([*ran("r")[:2], FAILED], 0)
    done = stage.sit([work("a", "x", "y")])
    assert (states(done), done.entries[0].run) == ({"x": "failed", "y": "failed"}, None)
    stage.scripts["a"] = ([*ran("r"), {"kind": "report", "name": "x"}, FAILED, *reported("y")], 0)
    done = stage.sit([work("a", "x", "y")], new=True)
    assert states(done) == {"x": "failed", "y": "done"}
    assert [(row.exit_code, row.reason) for row in done.entries] == [(3, FAILED["error"]), (0, None)]


@pytest.mark.parametrize(("code", "printed"), [(-9, "by signal 9 (Killed)"), (1, "with exit code 1")])
def test_batch_records_a_dead_worker_process_as_a_failure_with_its_cause(stage, code, printed):
    stage.scripts["a"] = (ran("run-a"), code)
    done = stage.sit([work("a"), work("b")])
    assert states(done) == {"a": "failed", "b": "done"}
    assert printed in str(done.entries[0].reason)


def test_batch_exit_code_is_the_highest_of_its_entries(stage):
    gate = {"outcome": "failed", "exit_code": 1, "sentence": "Build gate: failed. gzip is slower."}
    stage.scripts["b"] = ([*ran("run-b"), *reported("b", GOOD | {"gate": gate})], 0)
    done = stage.sit([work("a"), work("b")])
    assert done.exit_code == 1
    assert "✕ unacceptable" in stage.page and "Build gate: failed. gzip is slower." in stage.page
    stage.scripts["c"] = ([*ran("run-c"), *reported("c", {"valid": 0, "planned": 8})], 0)
    assert stage.sit([work("a"), work("b"), work("c")], new=True).exit_code == 4


def test_batch_resumes_where_it_stopped(stage):
    works = [work("a"), work("b"), work("c")]
    stage.scripts["b"] = (ran("run-b"), 130)
    stopped = stage.sit(works, stop_at="b")
    assert states(stopped) == {"a": "done", "b": "stopped", "c": "waiting"}
    assert stopped.ended is None
    stage.scripts["b"] = ([*ran("run-b"), *reported("b")], 0)
    done = stage.sit(works)
    assert [(job.study, job.run) for job in stage.jobs] == [("b", "run-b"), ("c", None)]
    assert set(states(done).values()) == {"done"}
    assert (done.began, done.sittings) == (stopped.began, 2)


def test_batch_resumes_runs_that_were_active_when_killed(stage):
    works = [work("a"), work("b")]
    done = stage.sit(works)
    done.ended, done.entries[1].state = None, "running"
    done.write(stage.folder)
    stage.sit(works)
    assert [(job.study, job.run) for job in stage.jobs] == [("b", "run-b")]


def test_batch_after_completion_starts_anew_or_repeats_failures(stage):
    works = [work("a"), work("b")]
    stage.scripts["a"] = ([FAILED], 0)
    first = stage.sit(works)
    stage.scripts["a"] = ([*ran("run-a"), *reported("a")], 0)
    again = stage.sit(works, failed=True)
    assert ([job.study for job in stage.jobs], again.began, again.exit_code) == (["a"], first.began, 0)
    fresh = stage.sit(works)
    assert [(job.study, job.run) for job in stage.jobs] == [("a", None), ("b", None)]
    assert fresh.began > first.began


def test_batch_with_a_changed_file_keeps_finished_entries(stage):
    stage.scripts["b"] = (ran("run-b"), 130)
    stage.sit([work("a"), work("b")], stop_at="b")
    last = read_batch_run(stage.folder)
    round_, printed = start_batch_run(
        Batch("nightly", stage.file, ()), [work("a"), work("c")], last, new=False, failed=False
    )
    assert states(round_) == {"a": "done", "c": "waiting"}
    assert printed.endswith("1 of 2 entries are done; no longer in the file: b")


def test_batch_fail_fast_stops_and_can_be_resumed(stage):
    stage.scripts["a"] = ([FAILED], 0)
    done = stage.sit([work("a"), work("b")], BatchOptions(max_parallel=1, fail_fast=True))
    assert (states(done), done.ended) == ({"a": "failed", "b": "waiting"}, None)
    stage.scripts["a"] = ([*ran("run-a"), *reported("a")], 0)
    assert states(stage.sit([work("a"), work("b")])) == {"a": "done", "b": "done"}


def test_batch_failed_report_is_repeated_without_a_new_run(stage):
    stage.layout.run("a", "run-a").plan_json.parent.mkdir(parents=True)
    stage.layout.run("a", "run-a").plan_json.touch()
    adding = {"kind": "adding", "run": "run-a", "blocks_after": 12}
    stage.scripts["a"] = ([adding, *ran("run-a"), {"kind": "report", "name": "a"}, FAILED], 0)
    works = [work("a", more=4)]
    stage.sit(works)
    stage.sit(works, failed=True)
    assert [(job.more, job.run, job.blocks_after) for job in stage.jobs] == [(4, "run-a", 12)]


def test_batch_refuses_retry_without_a_run_and_records_of_other_batch_files(stage, tmp_path):
    with pytest.raises(UsageError, match="no round yet"):
        stage.sit([work("a")], failed=True)
    stage.sit([work("a")])
    last = read_batch_run(stage.folder)
    with pytest.raises(UsageError, match=r"is that of .*nightly\.toml"):
        start_batch_run(Batch("nightly", tmp_path / "other.toml", ()), [work("a")], last, new=False, failed=False)
    (stage.folder / "batch.json").write_text('{"entries": 1}')
    with pytest.raises(DataError, match="is no round of a batch"):
        read_batch_run(stage.folder)


def test_batch_page_escapes_hostile_rows(stage):
    done = stage.sit([work("a"), work("b")])
    for text in CORPUS:
        for row in done.entries:
            row.question = row.reason = row.next = row.study = text.replace("\ud800", "?")
            row.parameters, row.state = {"metric": text.replace("\ud800", "?")}, "failed"
        index.write_batch_page(stage.folder, done)
        assert forbidden_content(stage.page, [index.HOME_LINK]) == []
