"""CSV files that people made: separators, line numbers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.csv_file import read_csv_rows
from loadbook.core.errors import DataError, UsageError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "results.csv"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_rows_have_the_lines_on_which_they_begin_for_every_separator(file: Path, separator: str) -> None:
    text = f'\ufeffa{separator}b\r\n\r\n"1\n2"{separator}3\r\n4{separator}5\r\n'
    file.write_text(text, encoding="utf-8", newline="")
    assert read_csv_rows(file) == [(1, ["a", "b"]), (3, ["1\n2", "3"]), (5, ["4", "5"])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n\xf6,1\n", "results.csv:2: the byte 0xf6 is not UTF-8 text"),
        ("a,b\n".encode("utf-16"), "results.csv is not UTF-8 text"),
        (b'a,b\n"1,2\n', "results.csv:2: not CSV"),
    ],
)
@pytest.mark.parametrize("error", [DataError, UsageError])
def test_file_that_is_no_csv_is_refused_with_its_line(
    file: Path, content: bytes, message: str, error: type[DataError]
) -> None:
    file.write_bytes(content)
    with pytest.raises(error) as refused:
        read_csv_rows(file, error)
    assert message in refused.value.message and refused.value.hint


def test_missing_file_is_refused_with_the_hint_of_the_caller(file: Path) -> None:
    with pytest.raises(UsageError) as refused:
        read_csv_rows(file, hint="name it")
    assert refused.value.hint == "name it"


@given(st.lists(st.lists(st.text("ab1 .", min_size=1), min_size=2, max_size=2), min_size=1))
def test_cells_are_those_that_were_written(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    file = tmp_path_factory.mktemp("csv") / "cells.csv"
    file.write_text("".join(f"{one},{other}\n" for one, other in rows), encoding="utf-8")
    kept = [row for row in rows if any(cell.strip() for cell in row)]
    assert [cells for _, cells in read_csv_rows(file)] == kept
