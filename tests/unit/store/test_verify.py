"""`loadbook verify` on the recorded run, and on one made from it: whatever was done to a raw file is named."""

from __future__ import annotations

import shutil

import pytest

from command_line import exit_code
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.store import trial_record
from loadbook.store.ledger import Ledger, read_ledger, store_added_files
from loadbook.store.verify import run_file_checksums, verify_run
from recorded_run import STUDY, copy_recorded_run, run_of


@pytest.fixture
def layout(tmp_path, monkeypatch):
    made = copy_recorded_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    return made


@pytest.fixture
def raw(layout):
    return run_of(layout)


def test_verify_of_an_unchanged_run_has_no_findings(layout, raw, monkeypatch, capsys):
    assert exit_code(monkeypatch, "verify") == 0
    (line,) = capsys.readouterr().out.splitlines()
    files = sum(p.is_file() for p in raw.rglob("*"))
    assert line.startswith(f"{STUDY} {raw.name}: 32 attempts, {files} files, ")
    assert "all as it was kept" in line


def test_verify_names_every_changed_file(layout, raw, monkeypatch, capsys):
    stdout = raw / "trials/t0002/stdout-driver"
    stdout.write_bytes(stdout.read_bytes().replace(b"1", b"2", 1))
    (raw / "trials/t0003/monitor-web").unlink()
    (raw / "trials/t0004/config-web-web/left").write_text("x")
    (raw / "trials/t0005/trial.json").write_text("{")
    shutil.rmtree(raw / "trials/t0006")
    shutil.copytree(raw / "trials/t0007", raw / "trials/again")
    record = trial_record.read_trial(raw / "trials/t0007").model_copy(update={"attempt": 9})
    (raw / "trials/again/trial.json").write_text(record.model_dump_json())
    assert exit_code(monkeypatch, "verify", STUDY) == 4
    *lines, last = capsys.readouterr().out.splitlines()
    at = raw.relative_to(layout.root)
    findings = {tuple(line.split(":")[0].split()) for line in lines}
    assert findings == {
        ("changed", f"{at}/trials/t0002/stdout-driver"),
        ("missing", f"{at}/trials/t0003/monitor-web"),
        ("extra", f"{at}/trials/t0004/config-web-web/left"),
        ("unreadable", f"{at}/trials/t0005/trial.json"),
        ("missing", f"{at}/trials/t0005"),
        ("missing", f"{at}/trials/t0006"),
        ("extra", f"{at}/trials/again"),
    }
    assert "7 findings" in last


@pytest.mark.parametrize(("harm", "kind"), [("unlink", "missing"), ("damage", "unreadable")])
def test_verify_reports_a_missing_or_damaged_ledger(layout, raw, harm, kind):
    ledger = raw / "ledger.jsonl"
    if harm == "unlink":
        ledger.unlink()
    else:
        ledger.write_text(ledger.read_text().replace("t0003", "t0033", 1))
    paths = layout.run(STUDY, raw.name)
    assert [(f.kind, f.path) for f in verify_run(paths).findings] == [(kind, ledger)]


def test_every_file_of_a_new_run_has_a_checksum(layout, raw, monkeypatch, capsys):
    paths = layout.run(STUDY, run_study(layout, RunRequest(STUDY, raw / "hosts.toml", blocks=1)))
    result = verify_run(paths)
    assert (result.findings, result.uncovered) == ([], [])
    assert set(read_ledger(paths.ledger)[-1]["files"]) >= {
        "plan.json",
        "run.json",
        "study.toml",
        "facts/web-after.json",
    }
    for change in (paths.plan_json, paths.trials / "t0001" / "trial.json"):
        change.write_bytes(change.read_bytes() + b"\n")
    (paths.raw / "notes.txt").write_text("mine")
    paths.hosts_toml.unlink()
    findings = {(f.kind, f.path.name) for f in verify_run(paths).findings}
    assert findings == {
        ("changed", "plan.json"),
        ("changed", "trial.json"),
        ("extra", "notes.txt"),
        ("missing", "hosts.toml"),
    }
    assert exit_code(monkeypatch, "verify", STUDY, "--run", paths.raw.name) == 4
    assert exit_code(monkeypatch, "verify", STUDY, "--run", raw.name) == 0


def test_files_of_a_run_are_compared_with_their_checksums_after_traces_were_added_to_it(layout, raw):
    paths = layout.run(STUDY, raw.name)
    with Ledger(paths.ledger) as ledger:
        ledger.append("run-ended", files=run_file_checksums(paths))
    store_added_files(paths, "web", "web", "munin", None, {"munin.txt": b"added"}, {})
    assert verify_run(paths).findings == []
    paths.plan_json.write_bytes(paths.plan_json.read_bytes() + b"\n")
    assert [(f.kind, f.path) for f in verify_run(paths).findings] == [("changed", paths.plan_json)]


def test_verify_of_a_missing_run_is_an_error(layout, monkeypatch, capsys):
    assert exit_code(monkeypatch, "verify", "nosuch") == 2
    assert "study 'nosuch' has no run under" in capsys.readouterr().err
    assert exit_code(monkeypatch, "verify", "--run", "latest") == 2
