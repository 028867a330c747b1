"""Raw files that were changed after they were kept are never used silently: whatever was changed, ingest says it."""

from __future__ import annotations

import json

import pytest

from loadbook.core.errors import DataError
from loadbook.ingestion.ingest import ingest
from loadbook.store.ledger import Ledger, read_ledger
from loadbook.store.tables import read_table
from loadbook.store.trial_record import FileRecord, sha256_file
from loadbook.store.verify import run_file_checksums, verify_run
from recorded_run import STUDY, copy_recorded_run


@pytest.fixture
def paths(tmp_path):
    """The recorded run, whose ledger is older than its checksums, with those."""
    layout = copy_recorded_run(tmp_path)
    paths = layout.run(STUDY, layout.resolve_run(STUDY))
    entries = read_ledger(paths.ledger)
    paths.ledger.unlink()
    with Ledger(paths.ledger) as ledger:
        for entry in entries:
            fields = {name: value for name, value in entry.items() if name not in ("n", "event")}
            if entry["event"] == "ended":
                trial, attempt = entry["trial"], entry["attempt"]
                places = (paths.trials / trial, paths.failed / f"{trial}-attempt{attempt}")
                fields["sha256"] = sha256_file(next(p for p in places if p.is_dir()) / "trial.json")
            ledger.append(
                entry["event"],
                **fields,
                **({"files": run_file_checksums(paths)} if entry["event"] == "run-ended" else {}),
            )
    assert not verify_run(paths).findings
    return paths


def printed(paths) -> dict[str, str]:
    """Return the messages of the problems by trial, "" being the run as a whole."""
    rows = read_table(paths.table("problems"), "problems").to_dict("records")
    return {
        row["trial"] if isinstance(row["trial"], str) else "": row["message"]
        for row in rows
        if row["name"] in ("changed-file", "damaged-record")
    }


def forge(folder, file: str, change) -> None:
    """Change a raw file, and make trial.json agree with it, as somebody would who knows how."""
    (folder / file).write_bytes(change((folder / file).read_bytes()))
    record = json.loads((folder / "trial.json").read_text())
    now = FileRecord(size=(folder / file).stat().st_size, sha256=sha256_file(folder / file))
    record["files"][file] = now.model_dump()
    (folder / "trial.json").write_text(json.dumps(record))


def test_ingest_does_not_use_changed_or_forged_outputs_and_records(paths):
    whole = ingest(paths)
    assert printed(paths) == {}
    (paths.trials / "t0001" / "stdout-driver").write_bytes(b"Requests/sec: 1e9\n")
    forge(paths.trials / "t0002", "stdout-driver", lambda data: data.replace(b"1s test", b"2s test"))
    record = paths.trials / "t0003" / "trial.json"
    record.write_text(record.read_text().replace('"attempt": 1', '"attempt": 2'))
    facts = next(paths.facts.glob("web-before.json"))
    facts.write_text(facts.read_text() + " ")
    found = ingest(paths)
    assert found.valid == whole.valid - 3
    reported = printed(paths)
    assert set(reported) == {"", "t0001", "t0002", "t0003"}
    assert "stdout-driver is missing or no longer matches its sha256" in reported["t0001"]
    for trial in ("t0002", "t0003"):
        assert f"{trial}/trial.json is not as the ledger says it was kept; the trial was not used" in reported[trial]
    assert "facts/web-before.json is missing or no longer as it was kept" in reported[""]
    assert {finding.path.name for finding in verify_run(paths).findings} >= {"stdout-driver", "trial.json", facts.name}


def test_ingest_refuses_a_changed_plan(paths):
    paths.plan_json.write_text(paths.plan_json.read_text() + " ")
    with pytest.raises(
        DataError, match=r"plan\.json is not as it was kept when the run ended: it was not used"
    ) as error:
        ingest(paths)
    assert error.value.exit_code == 4
