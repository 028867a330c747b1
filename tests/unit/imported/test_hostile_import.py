"""The corpus in what people have, conditions.csv and names of files: kept as text, or refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hostile_texts import CORPUS, WRITABLE, no_canary, silent
from import_files import folder, rows, write
from loadbook.core.errors import LoadbookError
from loadbook.imported.study import ImportOptions, read_import, to_valid_name, unique_names

pytestmark = pytest.mark.fault(43, 44)


def two(there: Path) -> list[dict[str, str]]:
    """Return a row of the baseline and one of another treatment."""
    return list({row["treatment"]: row for row in rows(there) if row["treatment"] != "tcp_nopush on"}.values())


@pytest.mark.parametrize("column", ["treatment", "block", "file", "host", "command", "factor_access_log", "started"])
def test_import_stores_hostile_cells_as_text_or_refuses_them_with_the_line_number(tmp_path: Path, column: str) -> None:
    there = folder(tmp_path)
    printed = two(there)
    for text in WRITABLE:
        changed = [
            row | {column: text} if k == 1 else row | {column: row.get(column, "")} for k, row in enumerate(printed)
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


def test_import_derives_safe_unique_treatment_names_from_hostile_texts() -> None:
    found = unique_names(list(dict.fromkeys(CORPUS)))
    assert len(set(found.values())) == len(found)
    for text in CORPUS:
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", found[text]), text
        assert ".." not in found[text] and not to_valid_name(text).startswith((".", "-"))


def test_import_finds_files_with_hostile_names_or_refuses_them(tmp_path: Path) -> None:
    there = folder(tmp_path)
    printed = two(there)
    one = (there / printed[1]["file"]).read_bytes()
    for text in (t for t in WRITABLE if t and "/" not in t and "\0" not in t and t not in (".", "..") and len(t) < 200):
        path = there / text
        path.write_bytes(one)
        try:
            read_import(there, write(there, [printed[0], printed[1] | {"file": text}]), ImportOptions("x", "plain"))
        except LoadbookError as refused:
            assert silent(refused.message)
        path.unlink()
    assert no_canary(tmp_path)
