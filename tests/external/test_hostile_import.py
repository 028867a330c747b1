"""The corpus in what people have, conditions.csv and names of files: kept as text, or refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostile_texts import CORPUS, HTML, SHEETS, TEMPLATES, WRITABLE, no_canary, silent
from import_files import folder, project, rows, write
from loadbook.core.errors import LoadbookError
from loadbook.external.study import ImportOptions, read_import, to_valid_name, unique_names, write_import
from loadbook.ingestion.ingest import ingest
from loadbook.store.tables import load_run, read_table

pytestmark = pytest.mark.fault(43, 44)
ACCEPTED = [t for t in (*HTML, *TEMPLATES, *SHEETS) if t.isprintable()]


def two(there: Path) -> list[dict[str, str]]:
    """Return a row of the baseline and one of another treatment."""
    return list({row["treatment"]: row for row in rows(there) if row["treatment"] != "tcp_nopush on"}.values())


@pytest.mark.parametrize("column", ["treatment", "block", "file", "host", "command", "factor_access_log", "started"])
def test_import_stores_hostile_cells_as_text_or_refuses_them_with_the_line_number(tmp_path: Path, column: str) -> None:
    there = folder(tmp_path)
    said = two(there)
    for text in WRITABLE:
        changed = [
            row | {column: text} if k == 1 else row | {column: row.get(column, "")} for k, row in enumerate(said)
        ]
        file = write(there, changed)
        try:
            made = read_import(there, file, ImportOptions("x", "plain"))
        except LoadbookError as refused:
            assert silent(refused.message) and refused.exit_code in (2, 4)
            assert "line" in refused.message or "\0" in text
        else:
            assert text.isprintable() or not text.strip()
            assert re.fullmatch(r"[A-Za-z0-9._-]+", made.plan.study.name)
    assert no_canary(tmp_path)


@pytest.mark.long
def test_import_stores_hostile_labels_unchanged_in_tables(tmp_path: Path) -> None:
    """A treatment each: kept raw, in the study's TOML, in parquet, and read back to the letter."""
    layout, there = project(tmp_path), folder(tmp_path)
    other = {row["treatment"]: row for row in two(there)}
    made: list[dict[str, object]] = [dict(other["plain"])]
    for number, text in enumerate(ACCEPTED):
        copy = there / f"copy-{number}.txt"
        copy.write_bytes((there / other["access log"]["file"]).read_bytes())
        made.append(
            other["access log"] | {"file": copy.name, "treatment": text, "started": "", "factor_access_log": text}  # type: ignore[arg-type]
        )
    made[0] |= {"started": ""}
    keep = read_import(there, write(there, made), ImportOptions("x", "plain"))
    run = write_import(layout, keep)
    ingest(layout.run("x", run))
    data = load_run(layout, "x")
    labels = {data.study.label(name) for name in data.study.treatments}
    assert labels == {"plain", *(text.strip() for text in ACCEPTED)}
    trials = read_table(layout.run("x", run).table("trials"), "trials")
    assert len(trials) == len(ACCEPTED) + 1 and all(re.fullmatch(r"[\w.-]+", t) for t in trials["treatment"])
    assert no_canary(tmp_path)


def test_import_derives_safe_unique_treatment_names_from_hostile_texts() -> None:
    found = unique_names(list(dict.fromkeys(CORPUS)))
    assert len(set(found.values())) == len(found)
    for text in CORPUS:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", found[text]), text
        assert ".." not in found[text] and not to_valid_name(text).startswith((".", "-"))


def test_import_finds_files_with_hostile_names_or_refuses_them(tmp_path: Path) -> None:
    there = folder(tmp_path)
    said = two(there)
    one = (there / said[1]["file"]).read_bytes()
    for text in (t for t in WRITABLE if t and "/" not in t and "\0" not in t and t not in (".", "..") and len(t) < 200):
        path = there / text
        path.write_bytes(one)
        try:
            read_import(there, write(there, [said[0], said[1] | {"file": text}]), ImportOptions("x", "plain"))
        except LoadbookError as refused:
            assert silent(refused.message)
        path.unlink()
    assert no_canary(tmp_path)
