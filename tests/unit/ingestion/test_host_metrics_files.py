"""Files of other monitors, added to a recorded run: kept, verified, read into its tables, the same on every ingest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from added_metrics import added, project_to_add_to
from loadbook.core.errors import DataError, UsageError
from loadbook.ingestion.host_metrics import AddedFiles, trial_span
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.ledger import AddedTraceFiles
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from loadbook.store.verify import verify_run
from recorded_run import STUDY, run_of
from valid_trial import record

FIXTURES = Path("tests/fixtures/traces").absolute()


@pytest.fixture
def layout(tmp_path, monkeypatch) -> Layout:
    return project_to_add_to(tmp_path, monkeypatch)


def records(layout: Layout) -> list[trial_record.TrialRecord]:
    folders = [*(run_of(layout) / "trials").iterdir(), *(run_of(layout) / "failed").glob("*")]
    return [record for folder in sorted(folders) if (record := trial_record.read_trial(folder)).window]


def sar_of(layout: Layout, path: Path, shift_s: float = 0.0) -> Path:
    """Write what sadf -d would have said of `web` every second of the run, by a clock that is `shift_s` ahead."""
    reported = records(layout)
    first, last = (int(f(t for r in reported for t in r.window)) for f in (min, max))
    head = "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle"
    lines = [f"vm;1;{t + int(shift_s)};1;60.00;0.00;35.00;0.00;0.00;5.00" for t in range(first - 5, last + 5)]
    path.write_text("\n".join([head, *lines, ""]))
    return path


def tables(layout: Layout) -> RunData:
    return load_run(layout, STUDY)


def test_added_metrics_file_is_stored_and_ingested(layout, tmp_path):
    rc, printed = added(layout, sar_of(layout, tmp_path / "sa.csv"), "--host", "web")
    assert rc == 0 and "sadf-csv, host web, role web" in printed and "one every 1\xa0s" in printed
    found = tables(layout).traces
    mine = found[found["source"] == "sadf"]
    assert set(mine["metric"]) >= {"cpu_busy"} and set(mine["host"]) == {"web"} and set(mine["item"]) == {"cpu1"}
    assert mine.loc[mine["metric"] == "cpu_busy", "value"].unique() == pytest.approx([0.95])
    reported = {r.trial: r for r in records(layout)}
    for trial, rows in mine.groupby("trial"):
        record = reported[trial]
        began = record.window[0] - record.started
        assert rows["t_s"].min() >= -began - 0.01 and rows["t_s"].max() <= record.duration_s - began + 0.01
    checked = verify_run(layout.run(STUDY, layout.resolve_run(STUDY)))
    # of this old run no ledger covers the rest
    assert not checked.findings and not [p for p in checked.uncovered if p.parent.name == "traces"]


def test_tables_with_added_metrics_can_be_rebuilt_from_raw_files_alone(layout, tmp_path):
    added(layout, sar_of(layout, tmp_path / "sa.csv"), "--host", "web")
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    first = {p.name: p.read_bytes() for p in paths.processed.glob("*.parquet")}
    assert ingest(paths).read == 0
    shutil.rmtree(paths.processed)
    ingest(paths)
    assert {p.name: p.read_bytes() for p in paths.processed.glob("*.parquet")} == first


def test_added_metrics_do_not_affect_validity_rules(layout, tmp_path):
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    ingest(paths)
    before = tables(layout)
    added(layout, sar_of(layout, tmp_path / "sa.csv"), "--host", "web")
    after = tables(layout)
    assert before.trials.equals(after.trials) and before.problems.equals(after.problems)


def test_added_metrics_times_are_corrected_by_the_clock_offset(layout, tmp_path):
    shifted = sar_of(layout, tmp_path / "sa.csv", shift_s=7200)
    added(layout, shifted, "--host", "web")
    problems = tables(layout).problems
    assert "outside" in set(problems["name"]) and tables(layout).traces["source"].unique().tolist() == ["sampler"]
    added(layout, shifted, "--host", "web", "--clock-offset", 7200)
    traces = tables(layout).traces
    assert "sadf" in set(traces["source"])
    assert traces["t_s"].abs().max() < 60


def test_clock_offset_that_is_given_counts_more_than_the_one_measured_in_a_trial(tmp_path):
    head = "# hostname;interval;timestamp;CPU;%user;%nice;%system;%iowait;%steal;%idle"
    lines = [f"vm;1;{1_700_000_000 + n};1;{n}.00;0.00;0.00;0.00;0.00;{100 - n}.00" for n in range(20)]
    file = tmp_path / "1-sa.csv"
    file.write_text("\n".join([head, *lines, ""]))
    read = ((file.name, trial_record.sha256_file(file)),)
    clock = trial_record.ClockRecord(offset_before_s=5.0, rtt_before_s=0.001)
    times = {"started": 1_700_000_000.5, "duration_s": 4.0, "window": (1_700_000_001.0, 1_700_000_004.0)}
    known, unknown = record(clocks={"web": clock}, **times), record(clocks={}, **times)
    for offset_s, first in ((None, 6), (0.0, 1), (7.0, 8)):
        files = AddedFiles(tmp_path, (AddedTraceFiles("web", "web", "sadf-csv", offset_s, read),))
        user = {row["t_s"]: row["value"] for row in files.host_metric_rows(known) if row["metric"] == "cpu_user"}
        assert user == pytest.approx({float(n): (first + n) / 100 for n in range(4)})
        names = [{problem["name"] for problem in files.problems(group)} for group in ([known, unknown], [unknown])]
        assert ["clock_not_known" in group for group in names] == [False, offset_s is None]


def test_added_metrics_of_an_unknown_machine_need_a_role(layout, tmp_path):
    path = sar_of(layout, tmp_path / "sa.csv")
    with pytest.raises(UsageError, match="has no host 'edge'"):
        added(layout, path, "--host", "edge")
    added(layout, path, "--host", "edge", "--role", "balancer")
    found = tables(layout)
    assert set(found.traces.loc[found.traces["host"] == "edge", "role"]) == {"balancer"}
    assert "clock_not_known" in set(found.problems["name"])


def test_added_metrics_file_that_changed_is_reported_and_not_used(layout, tmp_path):
    added(layout, sar_of(layout, tmp_path / "sa.csv"), "--host", "web")
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    kept = next(paths.added_files.iterdir())
    kept.write_bytes(kept.read_bytes().replace(b"60.00", b"10.00"))
    ingest(paths)
    data = tables(layout)
    assert "changed-file" in set(data.problems["name"]) and "sadf" not in set(data.traces["source"])
    assert [(f.kind, f.path) for f in verify_run(paths).findings] == [("changed", kept)]
    kept.unlink()
    assert [(f.kind, f.path) for f in verify_run(paths).findings] == [("missing", kept)]
    (paths.added_files / "stranger").write_text("x")
    assert {f.kind for f in verify_run(paths).findings} == {"missing", "extra"}


def test_added_metrics_files_without_samples_do_not_change_the_run(layout, tmp_path):
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    before = paths.ledger.read_bytes()
    junk = tmp_path / "junk.txt"
    junk.write_text("hello")
    for words, error, printed in (
        ([junk], UsageError, "not a file of traces"),
        ([tmp_path / "nowhere"], UsageError, "cannot be read"),
        ([FIXTURES / "sar-12.6.1--text.txt"], UsageError, "not a file of traces"),
        ([FIXTURES / "node-exporter-1.5.0--one-scrape.txt"], DataError, "without a timestamp"),
        ([junk, "--kind", "sadf-json"], DataError, "nothing usable"),
    ):
        with pytest.raises(error, match=printed):
            added(layout, *words, "--host", "web")
    assert paths.ledger.read_bytes() == before and not paths.added_files.exists()


def test_unknown_format_of_added_metrics_is_refused(layout, tmp_path):
    with pytest.raises(UsageError, match="no kind 'nonsense'"):
        added(layout, sar_of(layout, tmp_path / "sa.csv"), "--host", "web", "--kind", "nonsense")


def test_added_metrics_of_one_kind_are_one_ledger_event(layout, tmp_path):
    added(
        layout, *sorted((FIXTURES / "rrd").glob("vm-cpu-*.txt")), sar_of(layout, tmp_path / "sa.csv"), "--host", "web"
    )
    lines = [json.loads(x) for x in (run_of(layout) / "ledger.jsonl").read_text().splitlines()]
    events = [e for e in lines if e["event"] == "traces-added"]
    assert [(e["kind"], len(e["read"])) for e in events] == [("rrd", 8), ("sadf-csv", 1)]


@pytest.mark.parametrize(("started", "duration_s", "span"), [
    (1000.0, 8.0, (1000.0, 1008.0)), (None, 8.0, (1002.0, 1006.0)), (1000.0, None, (1002.0, 1006.0)),
])  # fmt: skip
def test_trial_lasts_from_its_start_or_else_for_its_measurement(
    started: float | None, duration_s: float | None, span: tuple[float, float]
) -> None:
    assert trial_span(record(started=started, duration_s=duration_s, window=(1002.0, 1006.0))) == span


@pytest.mark.parametrize(("first", "words"), [
    (1000, "one every 60\xa0s, trials of 8\xa0s at most"), (5000, "is the clock's offset or the zone wrong"),
    (800, "is the clock's offset or the zone wrong"), (1015, None), (1022, None),
])  # fmt: skip
def test_files_without_a_sample_in_any_trial_are_reported(tmp_path: Path, first: int, words: str | None) -> None:
    file = tmp_path / "1-node.txt"
    file.write_text("".join(f"node_load1 {n} {first + 60 * n}.0\n" for n in range(2)))
    added_files = AddedTraceFiles("web", "web", "node-exporter", 0.0, ((file.name, trial_record.sha256_file(file)),))
    trials = [record(started=1015.0, duration_s=8.0), record(started=1040.0, duration_s=2.0)]
    problems = list(AddedFiles(tmp_path, (added_files,)).problems(trials))
    assert [problem["name"] for problem in problems] == (["outside"] if words else [])
    assert not words or words in problems[0]["message"]
