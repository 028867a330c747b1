"""Trials from a CSV file; error messages name the line and the column."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import DataError, UsageError

if TYPE_CHECKING:
    import pandas as pd

MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}
BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def read_trials(path: Path, *, treatment: str, block: str, value: str, baseline: str) -> pd.DataFrame:
    """Read trials from a CSV file: treatment, block (text), value and valid, one row per trial.

    An empty value is missing. The column `valid` is optional. Raises UsageError if the file, a column or the baseline
    does not exist; DataError if there are no rows, a number is not one, or a treatment has two trials in a block.
    """
    import pandas as pd

    lines = _csv_rows(path)
    header, rows = lines[0][1], lines[1:]
    columns = [_column_index(path, header, name) for name in (treatment, block, value)]
    if not rows:
        raise DataError(f"{path} holds no trials, only a header")
    checked_rows = [_checked_row(path, number, cells, header, columns) for number, cells in rows]
    frame = pd.DataFrame(checked_rows, columns=["line", "treatment", "block", "value", "valid"])
    repeated = frame[frame.duplicated(["treatment", "block"])]
    if len(repeated):
        line, name, block_name = repeated.iloc[0][["line", "treatment", "block"]]
        raise DataError(
            f"{path}:{line}: a second row of {name!r} in block {block_name!r}",
            "one row per treatment and block: average what belongs to one trial, or number the blocks through",
        )
    names = list(dict.fromkeys(frame["treatment"]))
    if baseline not in names:
        raise UsageError(f"no treatment {baseline!r} in column {treatment!r}", f"there: {', '.join(names)}")
    if len(names) == 1:
        raise DataError(f"{path} holds only {baseline!r}: there is nothing to compare it with")
    return frame.drop(columns="line")


def _csv_rows(path: Path) -> list[tuple[int, list[str]]]:
    """Return the file's rows with their line numbers, without blank lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle, strict=True)
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    except csv.Error as error:
        raise DataError(f"{path}:{reader.line_num}: not CSV: {error}") from error
    if not rows:
        raise DataError(f"{path} is empty", "a header and one row per trial are needed")
    return rows


def _column_index(path: Path, header: list[str], name: str) -> int:
    names = [cell.strip() for cell in header]
    if name not in names:
        raise UsageError(f"{path} has no column {name!r}", f"columns: {', '.join(names)}")
    if names.count(name) > 1:
        raise DataError(f"{path} has {names.count(name)} columns {name!r}")
    return names.index(name)


def _checked_row(path: Path, line: int, cells: list[str], header: list[str], columns: list[int]) -> tuple[Any, ...]:
    if len(cells) != len(header):
        raise DataError(f"{path}:{line}: {len(cells)} cells where the header has {len(header)}")
    treatment, block, text = (cells[k].strip() for k in columns)
    for name, cell in (("treatment", treatment), ("block", block)):
        if not cell:
            raise DataError(f"{path}:{line}: no {name}")
    value = _parse_number(path, line, header[columns[2]].strip(), text)
    return line, treatment, block, value, _parse_valid(path, line, cells, header)


def _parse_number(path: Path, line: int, column: str, text: str) -> float:
    if text.lower() in MISSING:
        return math.nan
    try:
        return float(text.replace("_", " "))  # only Python reads 1_000 as a number
    except ValueError:
        problem = f"{path}:{line}: column {column!r} holds {text!r}, which is not a number"
        raise DataError(problem, "plain numbers, no units or commas") from None


def _parse_valid(path: Path, line: int, cells: list[str], header: list[str]) -> bool:
    names = [cell.strip() for cell in header]
    if "valid" not in names:
        return True
    text = cells[names.index("valid")].strip().lower()
    if text not in BOOLEANS:
        raise DataError(f"{path}:{line}: column 'valid' holds {text!r}", "true or false")
    return BOOLEANS[text]
