"""run.json is read into a typed record, and written again byte by byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from loadbook.core.errors import DataError
from loadbook.store.paths import RunPaths
from loadbook.store.run_record import read_run_record, write_run_record
from loadbook.store.trial_record import write_json
from recorded_run import FIXTURE
from run_records import HOSTS

OLDEST: dict[str, Any] = {
    "study": "s", "run": "r", "subset": "default", "schema_version": 1, "started": 1795225529.049861, "ended": None,
    "loadbook_version": "0.1.0", "git_revision": None, "git_dirty": None, "study_sha256": "ab", "seed": 1, "blocks": 8,
    "hosts": {"web": HOSTS["web"] | {"link_mbit": 1000.0}}, "tool_versions": {}, "service_versions": {}, "lab": True,
    "resumed": 0,
}  # fmt: skip
IMPORTED = OLDEST | {
    "hosts": {"driver": {"roles": ["driver"]}}, "lab": False, "provenance": "imported",
    "imported": {"at": 1.5, "timed": False, "folder": "päth", "conditions": "c.csv"},
}  # fmt: skip


def run_with(folder: Path, record: Any) -> RunPaths:
    paths = RunPaths(folder, folder)
    write_json(paths.run_json, record)
    return paths


@pytest.mark.parametrize("record", [OLDEST, IMPORTED, OLDEST | {"of_a_later_version": {"x": [1]}}], ids=str)
def test_run_record_of_any_version_is_written_back_byte_for_byte(tmp_path: Path, record: dict[str, Any]) -> None:
    paths = run_with(tmp_path, record)
    before = paths.run_json.read_bytes()
    write_run_record(paths, read_run_record(paths))
    assert paths.run_json.read_bytes() == before


def test_recorded_run_json_is_written_back_byte_for_byte(tmp_path: Path) -> None:
    (raw,) = FIXTURE.iterdir()
    record, copy = read_run_record(RunPaths(raw, raw)), RunPaths(tmp_path, tmp_path)
    write_run_record(copy, record)
    assert copy.run_json.read_bytes() == (raw / "run.json").read_bytes()
    assert (record.lab_kind, record.replay, record.prices) == ("loopback", None, None)


def test_update_of_a_run_record_changes_only_the_updated_fields(tmp_path: Path) -> None:
    paths = run_with(tmp_path, OLDEST)
    write_run_record(paths, read_run_record(paths).model_copy(update={"ended": 2.0, "resumed": 1}))
    assert json.loads(paths.run_json.read_text()) == OLDEST | {"ended": 2.0, "resumed": 1}


@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "is not there"), ("{", "no record of a run"), ("{}", "study: Field required"), ("[]", "no record")],
)
def test_error_on_a_missing_or_broken_run_record_names_the_next_step(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    paths = RunPaths(tmp_path, tmp_path)
    if text is not None:
        paths.run_json.write_text(text)
    with pytest.raises(DataError, match=reason) as caught:
        read_run_record(paths)
    assert str(paths.run_json) in caught.value.message
    assert "loadbook verify" in str(caught.value.hint)
