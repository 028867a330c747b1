"""Ingest again: only what is new is read, by whatever workers, and the tables are those of a full rebuild."""

from __future__ import annotations

import os
import shutil
import tempfile
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from ingested_runs import everything, run_paths
from loadbook.core.errors import DataError
from loadbook.ingestion import cache, workers
from loadbook.ingestion.ingest import ingest
from loadbook.ingestion.workers import IngestPart, read_part
from loadbook.store import trial_record
from loadbook.store.tables import TABLES, read_table


@pytest.fixture
def paths(tmp_path):
    return run_paths(tmp_path)


@pytest.fixture
def ingested(paths):
    ingest(paths)
    return paths


def rebuilt(paths):
    shutil.rmtree(paths.processed)
    assert ingest(paths).read == 32 - len(not_there(paths))
    return everything(paths)


def not_there(paths):
    problems = read_table(paths.table("problems"), "problems")
    return problems[problems["name"] == "not-executed"]


def test_incremental_ingest_neither_reads_nor_writes_unchanged_trials(ingested, monkeypatch):
    def refuse(*given):
        raise AssertionError("a trial was read")

    written = {p: p.stat().st_mtime_ns for p in ingested.processed.rglob("*")}
    monkeypatch.setattr(workers, "read_trial_rows", refuse)
    found = ingest(ingested)
    assert found.read == 0
    assert {p: p.stat().st_mtime_ns for p in ingested.processed.rglob("*")} == written
    monkeypatch.undo()
    shutil.rmtree(ingested.processed)
    again = ingest(ingested)
    assert (again.planned, again.trials, again.valid, again.problems, again.causes) == (
        found.planned, found.trials, found.valid, found.problems, found.causes,
    )  # fmt: skip


def test_incremental_ingest_detects_a_change_even_if_mtime_is_restored(ingested):
    raw = ingested.trial("t0002") / "stdout-driver"
    before, known = raw.stat(), raw.read_bytes()
    raw.write_bytes(known.replace(b"Latency", b"latency", 1))
    os.utime(raw, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert raw.stat().st_size == before.st_size
    assert ingest(ingested).read == 1
    assert "changed-file" in set(read_table(ingested.table("problems"), "problems")["name"])
    assert everything(ingested) == rebuilt(ingested)


def test_incremental_ingest_detects_swapped_trial_folders(ingested):
    one, other, aside = ingested.trial("t0002"), ingested.trial("t0003"), ingested.raw / "aside"
    for source, target in ((one, aside), (other, one), (aside, other)):
        source.rename(target)
    found = ingest(ingested)
    assert (found.read, found.trials) == (2, 30)
    assert everything(ingested) == rebuilt(ingested)


ACTIONS = {
    "remove": lambda folder: shutil.rmtree(folder),
    "cut": lambda folder: (folder / "stdout-driver").write_bytes(b"Running"),
    "damage": lambda folder: (folder / trial_record.RECORD_NAME).write_text("{"),
    "touch": lambda folder: (folder / "stdout-driver").touch(),
    "lose": lambda folder: (folder / "monitor-web").unlink(),
    "fail": lambda folder: folder.rename(folder.parents[1] / "failed" / f"{folder.name}-attempt3"),
    "add": lambda folder: (folder / "more").write_text("x"),
}


@settings(max_examples=examples(8), deadline=None)
@given(st.dictionaries(st.integers(1, 32).filter(lambda n: n != 13), st.sampled_from(sorted(ACTIONS)), max_size=6))
def test_incremental_ingest_equals_a_full_rebuild(changes):
    with tempfile.TemporaryDirectory() as folder:
        paths = run_paths(Path(folder))
        ingest(paths)
        for number, action in changes.items():
            ACTIONS[action](paths.trial(f"t{number:04d}"))
        assert ingest(paths).read == len(changes) - list(changes.values()).count("remove")
        assert everything(paths) == rebuilt(paths)


def break_note(paths):
    note = paths.ingest_cache / "memory.json"
    note.write_bytes(note.read_bytes()[:-40])


def foreign_note(paths):
    (paths.ingest_cache / "memory.json").write_text('{"digest": [], "summary": 3}')


def other_summary(paths):
    note = paths.ingest_cache / "memory.json"
    note.write_text(note.read_text().replace('"valid": 31', '"valid": 30'))


def torn_trials(paths):
    kept = paths.ingest_cache / "trials.parquet"
    kept.write_bytes(kept.read_bytes()[:100])


def lost_table(paths):
    paths.table("samples").unlink()


def other_table(paths):
    shutil.copyfile(paths.table("samples"), paths.table("traces"))


def stale_requests(paths):
    paths.request_logs.mkdir()
    (paths.request_logs / "t0002.parquet").write_bytes(b"PAR1")


HARMS = [break_note, foreign_note, other_summary, torn_trials, lost_table, other_table, stale_requests]


@pytest.mark.parametrize("harm", HARMS)
def test_incremental_ingest_ignores_a_damaged_or_foreign_cache(ingested, harm):
    whole = everything(ingested)
    harm(ingested)
    assert everything(ingested) != whole
    assert ingest(ingested).read == 32
    assert everything(ingested) == whole


def test_incremental_ingest_rereads_everything_if_code_or_plan_changed(ingested, monkeypatch):
    monkeypatch.setattr("loadbook.ingestion.cache.code_version", lambda: "another")
    assert ingest(ingested).read == 32
    ingested.plan_json.write_text(ingested.plan_json.read_text() + "\n")
    assert ingest(ingested).read == 32


def test_incremental_ingest_rereads_files_changed_within_the_last_clock_tick(paths, monkeypatch):
    monkeypatch.setattr(cache, "COARSE_TICK_S", 0.01)
    monkeypatch.setattr(cache, "TICK_S", 1e9)
    assert [ingest(paths).read for _ in range(2)] == [32, 32]


def test_incremental_ingest_waits_for_the_end_of_the_clock_tick_after_a_change(paths, clock):
    (paths.trial("t0002") / "new").write_text("x")
    newest = max(p.stat().st_ctime for p in paths.trial("t0002").iterdir())
    clock.began = newest
    found, _ = cache.find_trial_folders(paths, ["t0002"])
    assert found["t0002"].identity
    assert clock.slept and newest < clock.now() - cache.TICK_S


def test_incremental_ingest_reports_folders_of_no_planned_trial(ingested):
    shutil.copytree(ingested.trial("t0002"), ingested.trials / "copy-of-t0002")
    (ingested.failed / "t0001-attemptX").mkdir()
    ingest(ingested)
    problems = read_table(ingested.table("problems"), "problems")
    assert problems[problems["name"] == "not-planned"][["file", "level"]].values.tolist() == [["copy-of-t0002", "note"]]


def square(number):
    return number * number


def fail_of_three(number):
    if number == 3:
        raise DataError("three")
    return number


def test_errors_of_jobs_in_workers_are_raised():
    reported = []
    with ThreadPoolExecutor(2) as pool, pytest.raises(DataError, match="three"):
        list(workers.map_unordered(fail_of_three, range(5), pool, reported.append))
    assert "DataError: three" in reported[0]


def test_cluster_that_never_answers_is_abandoned_after_the_limit(monkeypatch):
    class Silent(ThreadPoolExecutor):
        def submit(self, *given):  # type: ignore[override]
            return Future()

    monkeypatch.setattr(workers, "WORKER_TIMEOUT_S", 0.05)
    reported = []
    assert list(workers.map_unordered(square, [2, 3], Silent(), reported.append)) == [4, 9]
    assert "none has answered for 0.05 s" in reported[0]


def test_closing_the_iterator_of_results_cancels_pending_jobs():
    with ThreadPoolExecutor(1) as pool:
        results = workers.map_unordered(square, range(50), pool, print)
        assert next(results) >= 0
        results.close()  # type: ignore[attr-defined]


def test_worker_with_a_different_version_of_loadbook_refuses_to_read():
    with pytest.raises(DataError, match="another version of loadbook"):
        read_part(IngestPart("s", "r", None, (), "0", Path()))


def test_ingest_cache_contains_no_copies_of_the_tables(ingested):
    assert {p.name for p in ingested.ingest_cache.iterdir()} == {"memory.json", "trials.parquet"}
    assert {p.stem for p in ingested.processed.glob("*.parquet")} == set(TABLES)
