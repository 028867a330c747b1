"""Every case of the corpus gives what a reader finds in it, or a refusal that says why: the table is corpus.txt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from effort import some
from loadbook.cli.data import parse
from loadbook.core.errors import DataError, ParseError
from loadbook.core.metrics import ERROR_CLASSES
from loadbook.tools import base
from tool_captures import FIXTURES, capture, check_sane, values

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "": 1.0}
COLUMNS = (
    *(("requests", "count"), ("ok", "count"), ("errors", "count"), ("classes", "")),
    *(("duration", "value"), ("requests_per_s", "value"), ("latency", "p50"), ("latency", "p99")),
)


class Case(NamedTuple):
    tool: str
    name: str
    says: list[str]


def read_table() -> Iterator[Case]:
    tool = version = ""
    for line in (Path(__file__).parent / "corpus.txt").read_text().splitlines():
        if head := re.fullmatch(r"\[(\S+) (\S+)\]", line):
            tool, version = head.groups()
        elif line and not line.startswith("#"):
            name, *says = line.split(maxsplit=2) if " ! " in line else line.split()
            yield Case(tool, f"{version}--{name}", says)


TABLE = list(read_table())
REFUSED = [case for case in TABLE if case.says[0] == "!"]
READ = [case for case in TABLE if case.says[0] != "!"]


def number(printed: str) -> float:
    """Return what a cell of the table means in base units."""
    match = re.fullmatch(r"([\d.]+)(us|ms|s|m|)(?:/([\d.]+))?", printed)
    assert match, printed
    return float(match[1]) * UNITS[match[2]] / float(match[3] or 1)


def path(case: Case) -> Path:
    return FIXTURES / case.tool / f"{case.name}.json"


def ids(cases: list[Case]) -> list[str]:
    return [f"{case.tool}-{case.name}" for case in cases]


@pytest.mark.parametrize("case", READ, ids=ids(READ))
def test_recorded_report_is_parsed_to_the_values_in_the_table(case: Case) -> None:
    parsed = base.load_tool(case.tool).parse(capture(path(case)))
    check_sane(parsed)
    found = values(parsed)
    assert len(case.says) == len(COLUMNS), case
    for (metric, statistic), printed in zip(COLUMNS, case.says, strict=True):
        if metric == "classes":
            check_classes(found, printed)
            continue
        key = (time_metric(case, found) if metric == "latency" else metric, statistic)
        assert found.get(key) == (None if printed == "-" else pytest.approx(number(printed), rel=1e-9)), key


def time_metric(case: Case, found: dict[tuple[str, str], float]) -> str:
    """Return the metric that the columns p50 and p99 of the table are of."""
    metrics = ("latency", "service_time", "latency_intended", "ttfb") if case.tool != "wrk2" else ("latency_intended",)
    return next((metric for metric in metrics if {(metric, "p50"), (metric, "mean")} & found.keys()), "latency")


def check_classes(found: dict[tuple[str, str], float], printed: str) -> None:
    """Assert that the classes of errors are those of the table, and all others are 0 or not told."""
    expected = dict(pair.split("=") for pair in printed.split(",")) if printed != "none" else {}
    for name in ERROR_CLASSES:
        value = expected.pop(name.removeprefix("errors_"), None)
        wanted = (0, None) if value is None else (None,) if value == "-" else (int(value),)
        assert found.get((name, "count")) in wanted, name
    assert not expected


@pytest.mark.parametrize("case", REFUSED, ids=ids(REFUSED))
def test_recorded_broken_report_is_refused_with_the_reason_in_the_table(case: Case) -> None:
    captured = capture(path(case))
    with pytest.raises(ParseError, match=f"^{case.tool}: .*{case.says[1]}") as refusal:
        base.load_tool(case.tool).parse(captured)
    assert refusal.value.exit_code == 4
    assert (refusal.value.file, refusal.value.line) == ("stdout", 0) or refusal.value.file in captured.files


@pytest.mark.parametrize("case", some(TABLE, 40), ids=ids(some(TABLE, 40)))
def test_parse_command_prints_rows_of_a_good_report_and_nothing_of_a_broken_one(case: Case, tmp_path: Path) -> None:
    """The command line's contract, with the files of a case in a folder as the corpus has them."""
    for file in path(case).parent.glob(f"{case.name}.*"):
        (tmp_path / file.name.removeprefix(f"{case.name}.")).write_bytes(file.read_bytes())
    (tmp_path / "json").unlink(missing_ok=True)
    done = CliRunner().invoke(parse, [case.tool, str(tmp_path), "--json"])
    if case in REFUSED:
        assert isinstance(done.exception, DataError) and done.stdout == ""
        return
    rows = json.loads(done.stdout, parse_constant=pytest.fail)
    assert {tuple(row) for row in rows} == {("metric", "statistic", "value", "unit", "text", "resolution")}
    assert all(row["unit"] in ("s", "B", "1/s", "B/s", "1") and row["value"] is not None for row in rows)


def test_table_of_recorded_reports_lists_each_once() -> None:
    names = [(case.tool, case.name) for case in TABLE]
    assert len(set(names)) == len(names) == 445
    assert not [case for case in TABLE if not path(case).with_suffix(".stdout").is_file()]


@pytest.mark.parametrize(
    ("tool", "name", "doubts"),
    [
        ("wrk", "4.1.0--lua_syntax", ["script"]),
        ("wrk", "4.1.0--lua_own", []),
        ("ab", "2.3--t1_then_n", ["request_cap", "whole_ms"]),
        ("ab", "2.3--e_csv_r", ["errors_overlap"]),
        ("h2load", "1.52.0--D1_down", ["connections"]),
        ("h2load", "1.52.0--log_D_warm", []),
    ],
)
def test_recorded_report_has_its_expected_doubts(tool: str, name: str, doubts: list[str]) -> None:
    parsed = base.load_tool(tool).parse(capture(FIXTURES / tool / f"{name}.json"))
    assert [name for name, _ in parsed.doubts] == doubts
