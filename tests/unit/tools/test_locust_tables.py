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


def history() -> ToolOutput:
    """Return a history in which 10 of 166 requests failed by their status."""
    return ToolOutput((FIXTURES / "locust" / "2.47.0--history.csv").read_bytes())


def test_history_has_the_counts_and_times_of_its_last_row() -> None:
    parsed = LOCUST.parse(history())
    check_sane(parsed)
    rows = table(parsed.measurements)
    assert (rows["attempts", "count"].value, rows["errors", "count"].value) == (166, 10)
    assert rows["attempt_time", "max"].value == pytest.approx(0.17541706)
    assert not {"duration", "requests_per_s", "attempts_per_s", "ok_per_s"} & {metric for metric, _ in values(parsed)}


def test_changed_digit_of_a_history_is_refused_or_changes_just_its_number() -> None:
    whole, text = values(LOCUST.parse(history())), history().stdout.decode()
    start, refused = text.index("\n"), 0
    last = text.rindex("\n", 0, -1)
    for digit in re.finditer(r"\d", text[start:]):
        at = start + digit.start()
        changed = text[:at] + str((int(digit[0]) + 3) % 10) + text[at + 1 :]
        parsed = attempt("locust", ToolOutput(changed.encode()))
        found = values(parsed) if parsed else whole
        different = {
            metric for metric, s in whole.keys() | found.keys() if found.get((metric, s)) != whole.get((metric, s))
        }
        single = {key for key in whole if found.get(key) != whole[key]}
        assert not different or at > last, text[at - 40 : at + 20]
        assert len(single) <= 1 or different <= {"attempts", "ok"} or different <= {"errors", "ok"}, changed[
            at - 40 : at
        ]
        refused += parsed is None
    assert refused > 5


def test_cut_history_is_refused_or_ends_with_a_whole_row() -> None:
    data = history().stdout
    for end in range(len(data)):
        parsed = attempt("locust", ToolOutput(data[:end]))
        assert parsed is None or (data[end - 1 : end] == b"\n" and "last_flush" in dict(parsed.doubts))


def test_lines_of_a_history_that_changed_places_are_refused() -> None:
    head, *rows = history().stdout.splitlines(keepends=True)
    for place in range(len(rows) - 1):
        swapped = [*rows[:place], rows[place + 1], rows[place], *rows[place + 2 :]]
        assert attempt("locust", ToolOutput(b"".join([head, *swapped]))) is None


@pytest.mark.parametrize(
    ("old", "new"), [("58.19364225299726", "58.19ms"), (",166,", ",166k,"), (",180,166", ",0.18s,166")]
)
def test_unit_in_a_history_is_refused(old: str, new: str) -> None:
    text = history().stdout.decode()
    assert old in text
    assert attempt("locust", ToolOutput(text.replace(old, new).encode())) is None
