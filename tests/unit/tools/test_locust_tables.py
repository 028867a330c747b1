"""Locust's tables and CSVs: numbers as printed, names of numbers with failures, changed, cut and contradictory ones."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, attempt, capture, check_sane, table, values

LOCUST = base.load_tool("locust")
SHARED = {("duration", "value"), ("requests_per_s", "value"), ("attempts_per_s", "value"), ("ok_per_s", "value")}


def printed(name: str) -> ToolOutput:
    return ToolOutput(capture(FIXTURES / "locust" / f"2.47.0--{name}.json").stderr)


def flushed(name: str) -> ToolOutput:
    return ToolOutput(capture(FIXTURES / "locust" / f"2.47.0--{name}.json").files["out_stats.csv"])


def test_last_table_is_read_as_printed() -> None:
    parsed = LOCUST.parse(printed("progress_text"))
    check_sane(parsed)
    rows = table(parsed.measurements)
    assert rows["requests", "count"].value == 469 and rows["requests_per_s", "value"].text == "169.72"
    assert rows["latency", "p99"].text == "45" and rows["latency", "p99"].resolution == pytest.approx(0.001)
    assert rows["latency", "mean"].value == 0.023 and rows["latency", "max"].value == 0.065


def test_failures_turn_requests_into_attempts() -> None:
    for output in (printed("two_names_csv"), flushed("two_names_csv")):
        parsed = LOCUST.parse(output)
        metrics = {metric for metric, _ in values(parsed)}
        assert metrics >= {"attempts", "attempts_per_s", "attempt_time", "ok", "errors"}
        assert not metrics & {"requests", "requests_per_s", "latency"} and "failed_unknown" in dict(parsed.doubts)


def test_csv_has_the_doubt_of_its_last_flush() -> None:
    parsed = LOCUST.parse(flushed("clean_csv"))
    assert values(parsed)["requests", "count"] == 418 and [*dict(parsed.doubts)] == ["last_flush", "whole_ms"]


@pytest.mark.parametrize("output", [printed("two_names_csv"), flushed("two_names_csv"), printed("clean_csv")])
def test_changed_digit_is_refused_or_changes_just_its_number(output: ToolOutput) -> None:
    whole, text = values(LOCUST.parse(output)), output.stdout.decode()
    refused = 0
    for digit in re.finditer(r"\d", text):
        changed = text[: digit.start()] + str((int(digit[0]) + 3) % 10) + text[digit.end() :]
        parsed = attempt("locust", ToolOutput(changed.encode()))
        found = values(parsed) if parsed else whole
        different = {key for key in whole.keys() | found.keys() if found.get(key) != whole.get(key)}
        renamed = len(different) == 2 and len(whole.keys() ^ found.keys()) == 2  # 99.9% became 99.2%
        assert len(different) <= 1 or renamed or different <= SHARED, changed[
            max(0, digit.start() - 60) : digit.end() + 20
        ]
        refused += parsed is None
    assert refused > 20


@pytest.mark.parametrize("output", [printed("clean_csv"), flushed("two_names_csv")])
def test_cut_report_is_refused_or_read_as_the_whole(output: ToolOutput) -> None:
    whole = values(LOCUST.parse(output))
    for end in range(len(output.stdout)):
        parsed = attempt("locust", replace(output, stdout=output.stdout[:end]))
        assert parsed is None or values(parsed) == whole, end


def test_two_runs_in_one_output_are_refused() -> None:
    output = printed("clean_csv")
    with pytest.raises(ParseError, match="two reports in one"):
        LOCUST.parse(replace(output, stdout=output.stdout * 2))
