"""The requests of a trial one by one, from its drivers' logs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from import_files import capture, project, write
from loadbook.imported.study import ImportOptions, read_import, write_import
from loadbook.ingestion.ingest import ingest
from loadbook.ingestion.request_tables import write_requests
from loadbook.store.trial_record import DriverRecord, TrialRecord

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = {
    "jmeter": (FIXTURES / "jmeter" / "5.6.3--csv_all_columns.out.jtl", "results.jtl", ("jmeter", "-n")),
    "h2load": (FIXTURES / "h2load" / "1.52.0--logfile.req.log", "req.log", ("h2load", "--log-file=req.log")),
    "ab": (FIXTURES / "ab" / "2.3--csv_tsv_n300.plot.tsv", "plot.tsv", ("ab", "-g", "plot.tsv")),
}

# records with the fields that matter here only
_driver: Any = DriverRecord.model_construct
_record: Any = TrialRecord.model_construct


def trial(folder: Path, tool: str, hosts: tuple[str, ...] = ("one",), started: float | None = None) -> TrialRecord:
    """Put a capture into a folder as each driver's log; return the part of a record that says so."""
    source, name, argv = LOGS[tool]
    drivers = []
    for host in hosts:
        shutil.copy(source, folder / f"{name}-{host}")
        files = {name: f"{name}-{host}"}
        drivers.append(_driver(host=host, argv=argv, files=files, stdout="stdout", started_host=started))
    return _record(tool=tool, drivers=tuple(drivers))


@pytest.mark.parametrize(("tool", "rows"), [("jmeter", 72), ("h2load", 500), ("ab", 300)])
def test_request_log_of_every_tool_is_stored(tool: str, rows: int, tmp_path: Path) -> None:
    target = tmp_path / "processed" / "requests" / "t.parquet"
    assert write_requests(tmp_path, trial(tmp_path, tool, ("one", "two")), target) is None
    found = pq.read_table(target)["driver"].to_pylist()
    assert found == ["one"] * rows + ["two"] * rows


def test_rows_of_the_warm_up_in_a_request_log_are_excluded(tmp_path: Path) -> None:
    lines = LOGS["h2load"][0].read_text().splitlines()
    starts = sorted(int(line.split("\t")[0]) for line in lines)
    record = trial(tmp_path, "h2load", started=starts[200] / 1e6)
    assert write_requests(tmp_path, record, tmp_path / "t.parquet") is None
    assert pq.read_table(tmp_path / "t.parquet")["start_us"].to_pylist().count(None) == 0
    assert len(pq.read_table(tmp_path / "t.parquet")) == sum(start >= starts[200] for start in starts)


def test_missing_or_broken_request_log_gives_no_table_of_requests(tmp_path: Path) -> None:
    target = tmp_path / "t.parquet"
    record = trial(tmp_path, "jmeter")
    (tmp_path / "results.jtl-one").write_bytes(b"hello\n")
    error = write_requests(tmp_path, record, target)
    assert error is not None
    assert error.line == 1
    assert not target.exists()
    assert write_requests(tmp_path, _record(tool="wrk", drivers=record.drivers), target) is None
    assert not target.exists()


def test_ingest_stores_requests_per_trial_and_removes_those_of_deleted_trials(tmp_path: Path) -> None:
    there = tmp_path / "results"
    there.mkdir()
    cases = {"plain": ("csv_https", "csv_mix_delay"), "other": ("locale_de", "locale_fr")}
    printed = [
        {"file": capture(there, "jmeter", f"5.6.3--{case}"), "treatment": arm, "block": block}
        for arm, pair in cases.items()
        for block, case in enumerate(pair, 1)
    ]
    layout, requested = project(tmp_path), ImportOptions(name="", baseline="plain")
    made = read_import(there, write(there, printed), requested, "jmeter")
    paths = layout.run(made.name, write_import(layout, made))
    stray = paths.request_logs / "gone.parquet"
    stray.parent.mkdir(parents=True)
    stray.touch()
    ingest(paths)
    found = {path.stem: pq.read_metadata(path).num_rows for path in paths.request_logs.iterdir()}
    assert sorted(found.values()) == [1000, 1500, 1500, 3000]
    assert found.keys() == {path.name for path in paths.trials.iterdir()}
