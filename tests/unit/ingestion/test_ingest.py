"""Tables from the recorded run, offline; then from what a careless or hostile hand made of it."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from loadbook.core.errors import DataError
from loadbook.ingestion.ingest import ingest
from loadbook.store import trial_record
from loadbook.store.tables import TABLES, load_run, read_table
from recorded_run import STUDY, copy_recorded_run


@pytest.fixture
def layout(tmp_path):
    return copy_recorded_run(tmp_path)


@pytest.fixture
def paths(layout):
    return layout.run(STUDY, layout.resolve_run(STUDY))


def tables(paths):
    return {name: hashlib.sha256(paths.table(name).read_bytes()).hexdigest() for name in TABLES}


def problems_of(paths, trial):
    found = read_table(paths.table("problems"), "problems")
    return found[found["trial"] == trial].set_index("name")


def reseal(folder, change):
    """Change a trial's folder and its checksums, as if the host had really said so."""
    record = trial_record.read_trial(folder)
    change(folder)
    trial_record.seal_trial(folder, record)


def test_ingest_gives_every_planned_trial_a_row(layout, paths):
    found = ingest(paths)
    data = load_run(layout, STUDY)
    assert found.planned == found.trials == len(data.trials) == 32
    ok = data.trials[data.trials["status"] == "ok"]
    assert len(ok) == 31
    assert list(data.trials["slot"]) == list(range(1, 33))
    assert set(ok["factor_access_log"]) == {"off", "unbuffered"}
    assert (ok["config_live"] & (ok["response_bytes"] == 5) & (ok["response_status"] == 200)).all()
    values = data.values("ok_per_s")
    assert values.loc[values["status"] == "ok", "value"].gt(1000).all()
    window = data.traces[(data.traces["t_s"] >= 0) & (data.traces["t_s"] <= 1)]
    for host, processes in (("driver", "wrk"), ("web", "nginx")):
        seen = window[(window["host"] == host) & (window["metric"] == "process_cpu")]
        assert len(set(seen["trial"])) > 0.8 * len(ok)
        assert seen["item"].str.startswith(f"{processes}:").all()


def test_failed_trial_has_a_row_without_values_after_ingest(layout, paths):
    ingest(paths)
    data = load_run(layout, STUDY)
    row = data.trials.set_index("trial").loc["t0013"]
    assert (row["status"], row["valid"]) == ("tool_failed", False)
    assert row["reason"] == "host driver: wrk ended with exit code 137"
    assert "t0013" not in set(data.measurements["trial"])


def test_ingest_rebuilds_byte_identical_tables(paths):
    ingest(paths)
    first = tables(paths)
    shutil.rmtree(paths.processed)
    ingest(paths)
    assert tables(paths) == first


def test_ingest_reports_a_changed_file_and_does_not_read_it(paths):
    raw = paths.trial("t0002") / "stdout-driver"
    raw.write_bytes(raw.read_bytes().replace(b"Requests/sec:", b"Requests/sec: 9"))
    (paths.trial("t0003") / "monitor-web").unlink()
    ingest(paths)
    trials = read_table(paths.table("trials"), "trials").set_index("trial")
    assert not trials.loc[["t0002", "t0003"], "valid"].any()
    assert "changed-file" in trials.loc["t0002", "gates"]
    assert problems_of(paths, "t0002").loc["changed-file", "file"] == "stdout-driver"
    measured = set(read_table(paths.table("measurements"), "measurements")["trial"])
    assert "t0002" not in measured
    assert "t0003" in measured


@pytest.mark.parametrize("keep", [0, 60, 300])
def test_ingest_reports_a_truncated_output_without_values(paths, keep):
    def cut(folder):
        raw = folder / "stdout-driver"
        raw.write_bytes(raw.read_bytes()[:keep])

    reseal(paths.trial("t0002"), cut)
    ingest(paths)
    found = problems_of(paths, "t0002").loc["unreadable-output"]
    assert (found["level"], found["file"], found["host"]) == ("invalid", "stdout-driver", "driver")
    assert "t0002" not in set(read_table(paths.table("measurements"), "measurements")["trial"])
    assert not read_table(paths.table("trials"), "trials").set_index("trial").loc["t0002", "valid"]


def test_ingest_reports_missing_trials_and_damaged_records(paths):
    shutil.rmtree(paths.trial("t0031"))
    (paths.trial("t0032") / "trial.json").write_text('{"schema_version": 1')
    foreign = paths.trial("t0030") / "trial.json"
    foreign.write_text(json.dumps(json.loads(foreign.read_text()) | {"treatment": "auto-nopush"}))
    found = ingest(paths)
    assert (found.planned, found.trials) == (32, 29)
    assert problems_of(paths, "t0031").loc["not-executed", "level"] == "note"
    assert "is not a trial record" in problems_of(paths, "t0032").loc["damaged-record", "message"]
    assert "recorded as" in problems_of(paths, "t0030").loc["damaged-record", "message"]


def test_error_of_ingest_without_a_plan_names_the_missing_file(paths):
    paths.plan_json.write_text("{}")
    with pytest.raises(DataError, match=r"plan\.json is not a plan"):
        ingest(paths)
