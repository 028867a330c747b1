"""Tables whose comparison was once wrong or refused without a reason: each gives its right verdict or sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compared_results import loadbook

CASES = Path("tests/fixtures/cases")
AGGREGATE = CASES / "compare_direction_jmeter_columns" / "aggregate.csv"
COLUMNS = {"Average": "12.4%", "Median": "12.", "90% Line": "12.1%",
           "99% Line": "12.", "Std. Dev.": "12.", "Max": "12.3%"}  # fmt: skip
REFUSED = {
    "compare_average_rows": (
        ":12: 'average' is no block, but sums up others\n",
        "  next: leave this row out\n",
    ),
    "compare_thousands_dot": (
        ":2: column 'ok_per_s' holds '1.014', and whole numbers such as '981': is it 1014, or below 2?\n",
        "  next: write 1014 if its point stands before thousands, else 981.000 for 981\n",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_table_that_would_mislead_is_refused_with_what_to_do(name: str) -> None:
    done = loadbook("compare", CASES / name / "trials.csv", "--baseline", "old")
    assert (done.returncode, done.stdout) == (4, "")
    problem, hint = REFUSED[name]
    assert done.stderr == f"loadbook: {CASES / name / 'trials.csv'}{problem}{hint}"


def test_table_without_its_row_of_averages_has_the_blocks_that_were_measured(tmp_path: Path) -> None:
    lines = (CASES / "compare_average_rows" / "trials.csv").read_text().splitlines(keepends=True)
    (tmp_path / "t.csv").write_text("".join(line for line in lines if "average" not in line))
    (row,) = re.findall(r"^new .*%.*$", loadbook("compare", tmp_path / "t.csv", "--baseline", "old").stdout, re.M)
    assert re.fullmatch(r"new +undecided +\S+ % +.* to .* % +5 +0\.55 +–", row.replace("\u00a0", " "))


def test_semicolons_and_decimal_commas_are_read() -> None:
    table = CASES / "compare_semicolon_decimal_comma" / "trials.csv"
    done = loadbook("compare", table, "--baseline", "old")
    assert (done.returncode, done.stderr) == (0, "")
    assert "new: slower by 2.9%" in done.stdout and "6 blocks" in done.stdout


@pytest.mark.parametrize("column", COLUMNS)
def test_column_that_does_not_tell_its_direction_needs_one_and_is_then_worse(column: str) -> None:
    words = ("compare", AGGREGATE, "--by", "version", "--block", "run", "--baseline", "3.1", "--metric", column)
    asked = loadbook(*words)
    assert (asked.returncode, asked.stdout) == (2, "")
    assert asked.stderr == (
        f"loadbook: the name {column!r} does not tell whether more is better\n"
        "  next: say --lower-is-better (times, errors, costs) or --higher-is-better (rates)\n"
    )
    told = loadbook(*words, "--lower-is-better")
    assert "worse" in told.stdout and f"3.2: higher by {COLUMNS[column]}" in told.stdout
