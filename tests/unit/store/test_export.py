"""A run goes out as one file and comes in elsewhere as the same bytes; of an archive that is odd nothing is kept."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest

from command_line import exit_code
from loadbook.ingestion.workers import code_version
from loadbook.store.export import MANIFEST_NAME
from loadbook.store.paths import Layout
from recorded_run import STUDY, ingested_run, run_of, with_studies


@pytest.fixture(scope="module")
def source_project(tmp_path_factory) -> Layout:
    return ingested_run(tmp_path_factory.mktemp("sender"))


@pytest.fixture(scope="module")
def archive(source_project, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("sent") / "run.loadbook.tar.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADBOOK_HOME", str(source_project.root))
        assert exit_code(patch, "export", STUDY, "--out", str(out)) == 0
    return out


@pytest.fixture
def target_project(tmp_path, monkeypatch) -> Layout:
    made = with_studies(tmp_path / "receiver")
    monkeypatch.setenv("LOADBOOK_HOME", str(made.root))
    return made


def contents(layout: Layout) -> dict[str, bytes]:
    raw = run_of(layout)
    return {p.relative_to(raw).as_posix(): p.read_bytes() for p in raw.rglob("*") if p.is_file()}


def test_imported_archive_has_the_same_bytes_and_tables(source_project, archive, target_project, monkeypatch, capsys):
    assert exit_code(monkeypatch, "import", str(archive)) == 0
    output = capsys.readouterr().out
    assert "all as it was kept" in output and "byte for byte those that were sent" in output
    assert contents(target_project) == contents(source_project)
    assert exit_code(monkeypatch, "import", str(archive)) == 0
    assert "the same was opened before" in capsys.readouterr().out


def test_exporting_a_run_twice_gives_identical_archives(source_project, archive, tmp_path, monkeypatch):
    monkeypatch.setenv("LOADBOOK_HOME", str(source_project.root))
    assert exit_code(monkeypatch, "export", STUDY, "--out", str(tmp_path / "again.tar.gz")) == 0
    assert (tmp_path / "again.tar.gz").read_bytes() == archive.read_bytes()
    assert exit_code(monkeypatch, "export", STUDY, "--out", str(archive)) == 2  # nothing is overwritten


def test_archive_never_overwrites_a_different_run(archive, target_project, monkeypatch, capsys):
    assert exit_code(monkeypatch, "import", str(archive)) == 0
    changed = run_of(target_project) / "trials/t0002/stdout-driver"
    changed.write_bytes(b"mine")
    assert exit_code(monkeypatch, "import", str(archive)) == 2
    assert "t0002/stdout-driver" in capsys.readouterr().err
    assert changed.read_bytes() == b"mine"


@pytest.mark.parametrize("corrupt", [lambda m: _changed(m), lambda m: _lost(m)], ids=["changed", "lost"])
def test_corrupt_archive_of_an_existing_run_is_refused(archive, target_project, tmp_path, monkeypatch, capsys, corrupt):
    assert exit_code(monkeypatch, "import", str(archive)) == 0
    corrupted = corrupted_archive(archive, tmp_path / "odd.tar.gz", corrupt)
    assert exit_code(monkeypatch, "import", str(corrupted)) == 4
    assert "trials" in capsys.readouterr().err
    assert exit_code(monkeypatch, "import", str(archive)) == 0


Members = list[tuple[tarfile.TarInfo, bytes]]


def corrupted_archive(archive: Path, out: Path, corrupt: Callable[[Members], None]) -> Path:
    with tarfile.open(archive) as tar:
        members = [(m, tar.extractfile(m).read()) for m in tar]
    corrupt(members)
    with tarfile.open(out, "w:gz") as tar:
        for info, data in members:
            if info.isreg():
                info.size = len(data)
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out


def _first_raw(members: Members) -> int:
    return next(k for k, (info, _) in enumerate(members) if info.name.startswith("raw/trials"))


def _changed(members: Members) -> None:
    at = _first_raw(members)
    info, data = members[at]
    members[at] = info, data[::-1] if data != data[::-1] else b"x" * len(data)


def _longer(members: Members) -> None:
    members[_first_raw(members)] = members[_first_raw(members)][0], b"x" * 100_000


def _lost(members: Members) -> None:
    del members[_first_raw(members)]


def _twice(members: Members) -> None:
    members.append(members[_first_raw(members)])


def _unknown(members: Members) -> None:
    members.append((tarfile.TarInfo("raw/extra"), b"x"))


def _link(members: Members) -> None:
    info = members[_first_raw(members)][0]
    info.type, info.linkname, info.size = tarfile.SYMTYPE, "/etc/passwd", 0


def _renamed(to: str) -> Callable[[Members], None]:
    def corrupt(members: Members) -> None:
        info = members[_first_raw(members)][0]
        manifest = json.loads(members[0][1])
        manifest["files"][to] = manifest["files"].pop(info.name)
        info.name = to
        members[0] = members[0][0], json.dumps(manifest).encode()

    return corrupt


def _study(name: str) -> Callable[[Members], None]:
    def corrupt(members: Members) -> None:
        members[0] = members[0][0], json.dumps(json.loads(members[0][1]) | {"study": name}).encode()

    return corrupt


def _no_manifest(members: Members) -> None:
    del members[0]


def _odd_manifest(members: Members) -> None:
    members[0] = members[0][0], b'{"format": 2}'


def _manifest(change: Callable[[dict], None]) -> Callable[[Members], None]:
    def corrupt(members: Members) -> None:
        manifest = json.loads(members[0][1])
        change(manifest)
        members[0] = members[0][0], json.dumps(manifest).encode()

    return corrupt


def _other_tables(*names: str) -> Callable[[dict], None]:
    def change(manifest: dict) -> None:
        for name in names:
            manifest["files"][f"tables/{name}.parquet"]["sha256"] = "0" * 64

    return change


def _earlier_rules(manifest: dict) -> None:
    """As archives were before they had `tables_by`, with tables of other rules."""
    del manifest["tables_by"]
    _other_tables("trials", "problems")(manifest)


def _other_code(manifest: dict) -> None:
    manifest["tables_by"] = {"version": "0.0.9", "code": "f" * 64}
    _other_tables("trials", "measurements")(manifest)


@pytest.mark.parametrize(
    ("change", "differing", "sender"),
    [
        (_earlier_rules,
         "problems.parquet, trials.parquet differ from those that were sent; all measurements are the same",
         f"loadbook {version('loadbook')} (code not recorded)"),
        (_other_code, "measurements.parquet, trials.parquet differ from those that were sent; measurements differ",
         "loadbook 0.0.9 (code ffffffff)"),
    ],
    ids=["not recorded", "other"],
)  # fmt: skip
def test_archive_whose_tables_other_code_made_is_imported_with_a_note(
    archive, target_project, tmp_path, monkeypatch, capsys, change, differing, sender
):
    sent = corrupted_archive(archive, tmp_path / "sent.tar.gz", _manifest(change))
    assert exit_code(monkeypatch, "import", str(sent)) == 0
    output = capsys.readouterr().out
    here = f"loadbook {version('loadbook')} (code {code_version()[:8]})"
    assert differing in output
    assert f"note: {sender} made those that were sent, {here} made these" in output


def test_archive_whose_tables_the_same_code_does_not_make_is_refused(
    archive, target_project, tmp_path, monkeypatch, capsys
):
    sent = corrupted_archive(archive, tmp_path / "sent.tar.gz", _manifest(_other_tables("trials")))
    assert exit_code(monkeypatch, "import", str(sent)) == 4
    assert "trials.parquet: not the tables that were sent with these raw files" in capsys.readouterr().err


def test_archive_with_a_changed_raw_file_is_refused_whatever_code_made_its_tables(
    archive, target_project, tmp_path, monkeypatch, capsys
):
    def corrupt(members: Members) -> None:
        """Change a raw file and its checksum in the manifest; the run's own ledger has the old one."""
        _manifest(_earlier_rules)(members)
        _changed(members)
        info, data = members[_first_raw(members)]
        entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        _manifest(lambda manifest: manifest["files"].update({info.name: entry}))(members)

    sent = corrupted_archive(archive, tmp_path / "sent.tar.gz", corrupt)
    assert exit_code(monkeypatch, "import", str(sent)) == 4
    assert "what it holds is not as its own ledger says" in capsys.readouterr().err


def test_archive_names_the_code_that_made_its_tables_not_that_which_exports(tmp_path, monkeypatch):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("loadbook.ingestion.cache.code_version", lambda: "e" * 64)
        project = ingested_run(tmp_path)
    monkeypatch.setenv("LOADBOOK_HOME", str(project.root))
    assert exit_code(monkeypatch, "export", STUDY, "--out", str(tmp_path / "run.tar.gz")) == 0
    with tarfile.open(tmp_path / "run.tar.gz") as tar:
        manifest = json.load(tar.extractfile(MANIFEST_NAME))
    assert manifest["tables_by"] == {"version": version("loadbook"), "code": "e" * 64}


@pytest.mark.fault(49)
@pytest.mark.parametrize("corrupt", [
    _changed, _longer, _lost, _twice, _unknown, _link, _no_manifest, _odd_manifest, _study("../../x"),
    _renamed("raw/../../../escaped"), _renamed("raw//escaped"), _renamed("raw/a/./b"), _renamed("raw/a\nb"),
    _renamed("../escaped"), _renamed("/escaped"), _renamed("pages/../../escaped"), _renamed("elsewhere/escaped"),
])  # fmt: skip
def test_malformed_archive_leaves_no_files(archive, target_project, tmp_path, monkeypatch, capsys, corrupt):
    corrupted = corrupted_archive(archive, tmp_path / "odd.tar.gz", corrupt)
    assert exit_code(monkeypatch, "import", str(corrupted)) in (2, 4)
    assert capsys.readouterr().err.startswith("loadbook: ")
    assert not target_project.runs(STUDY) and not list((target_project.root / "data").rglob("*.part"))
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(
    "data", [b"", b"not an archive", gzip.compress(b"neither"), None], ids=["empty", "text", "no-tar", "cut"]
)
def test_truncated_archive_or_file_of_another_kind_is_reported(
    archive, target_project, tmp_path, monkeypatch, capsys, data
):
    corrupted = tmp_path / "odd.tar.gz"
    corrupted.write_bytes(archive.read_bytes()[:-2000] if data is None else data)
    assert exit_code(monkeypatch, "import", str(corrupted)) == 4
    assert str(corrupted) in capsys.readouterr().err and not target_project.runs(STUDY)


def test_archive_begins_with_its_manifest(archive):
    with tarfile.open(archive) as tar:
        names = tar.getnames()
    assert names[0] == MANIFEST_NAME and not [name for name in names if name.startswith(("/", "."))]


def test_export_writes_csv_and_benchstat_files(source_project, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LOADBOOK_HOME", str(source_project.root))
    assert exit_code(monkeypatch, "export", STUDY, "--as", "csv", "--out", str(tmp_path / "t.csv")) == 0
    rows = list(csv.DictReader((tmp_path / "t.csv").open()))
    rates = [row for row in rows if (row["metric"], row["driver"]) == ("ok_per_s", "*")]
    assert len(rates) == 31 and all(float(row["value"]) > 0 and row["unit"] == "1/s" for row in rates)
    capsys.readouterr()
    assert exit_code(monkeypatch, "export", STUDY, "--as", "benchstat", "--out", "-") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Unit ok_per_s better=higher" in lines
    counted = {row["trial"] for row in rates if row["valid"] == "True"}
    assert sum(line.startswith("BenchmarkTrial/treatment=") for line in lines) == len(counted) > 0
    assert exit_code(monkeypatch, "export", STUDY, "--as", "benchstat", "--metric", "nonsense", "--out", "-") == 2


def test_archive_of_a_run_with_one_file_more_or_less_here_is_refused(archive, target_project, monkeypatch, capsys):
    assert exit_code(monkeypatch, "import", str(archive)) == 0
    notes, hosts = run_of(target_project) / "notes.txt", run_of(target_project) / "hosts.toml"
    notes.write_text("mine")
    capsys.readouterr()
    assert exit_code(monkeypatch, "import", str(archive)) == 2
    assert "is here already, and 1 files of it differ: notes.txt" in capsys.readouterr().err
    notes.unlink()
    hosts.unlink()
    assert exit_code(monkeypatch, "import", str(archive)) == 2
    assert "1 files of it differ: hosts.toml" in capsys.readouterr().err
