"""Artillery: reports in files and on stdout, requests without a response, and contradictions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, capture, values, with_changed_json

ARTILLERY = base.load_tool("artillery")
changed = partial(with_changed_json, indent=2)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "artillery" / f"2.0.21--{name}.json")


def test_report_in_a_file_is_read_as_one_on_stdout() -> None:
    in_file = case("clean_both")
    assert ARTILLERY.parse(in_file) == ARTILLERY.parse(case("clean_json"))
    with pytest.raises(ParseError, match="a second report"):
        ARTILLERY.parse(replace(in_file, stdout=in_file.files["result"]))


def test_times_are_those_to_the_first_byte() -> None:
    found = values(ARTILLERY.parse(case("clean_json")))
    assert {metric for metric, statistic in found if statistic == "p99"} == {"ttfb"}


def test_users_that_had_not_ended_are_a_doubt() -> None:
    parsed = ARTILLERY.parse(changed(case("clean_json"), partial(set_counter, "vusers.completed", 55)))
    assert dict(parsed.doubts) == {"stopped_early": "5 users had not ended"}


def set_counter(name: str, value: Any, report: dict[str, Any]) -> None:
    report["aggregate"]["counters"][name] = value


def test_errors_of_users_that_are_no_requests_have_no_class() -> None:
    recorded = case("rst_both")
    alone = replace(recorded, stdout=recorded.files["result"], files={})
    found = values(ARTILLERY.parse(changed(alone, partial(set_counter, "errors.Failed capture", 3))))
    assert found["errors", "count"] == 12 and ("errors_read", "count") not in found


def test_codes_of_errors_that_are_not_as_many_as_failed_requests_are_named() -> None:
    recorded = case("rst_both")
    alone = replace(recorded, stdout=recorded.files["result"], files={})
    assert "errors_unclassed" not in dict(ARTILLERY.parse(alone).doubts)
    parsed = ARTILLERY.parse(changed(alone, partial(set_counter, "errors.ETIMEDOUT", 1005)))
    assert values(parsed)["errors", "count"] == 12
    assert dict(parsed.doubts)["errors_unclassed"].startswith("1017 errors by code (ETIMEDOUT 1005, ECONNRESET 12)")


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("http.requests", 100, "120 responses by status of 100 requests"),
        ("http.responses", 119, "119 responses are not the 120 by status"),
        ("http.codes.200", "120", "http.codes.200 is missing, or no count"),
        ("http.codes.777", 0, "an impossible status: 777"),
    ],
)
def test_counts_that_contradict_each_other_are_refused(name: str, value: Any, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        ARTILLERY.parse(changed(case("clean_json"), partial(set_counter, name, value)))


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [("count", 12, "times of 12 responses, of 120"), ("p50", 28, "do not ascend"), ("mean", 2, "minimum and mean")],
)
def test_times_that_contradict_each_other_are_refused(key: str, value: float, problem: str) -> None:
    def change(report: dict[str, Any]) -> None:
        report["aggregate"]["summaries"]["http.response_time"][key] = value

    with pytest.raises(ParseError, match=problem):
        ARTILLERY.parse(changed(case("clean_json"), change))


def test_report_without_a_mean_is_read_and_one_without_a_maximum_refused() -> None:
    def without(key: str, report: dict[str, Any]) -> None:
        del report["aggregate"]["summaries"]["http.response_time"][key]

    found = values(ARTILLERY.parse(changed(case("clean_json"), partial(without, "mean"))))
    assert ("ttfb", "mean") not in found and found["ttfb", "max"] == 0.03
    with pytest.raises(ParseError, match="max is missing"):
        ARTILLERY.parse(changed(case("clean_json"), partial(without, "max")))


def test_report_of_another_engine_is_refused() -> None:
    def to_sockets(report: dict[str, Any]) -> None:
        report["aggregate"]["counters"] = {"websocket.messages_sent": 5, "vusers.created": 5}

    with pytest.raises(ParseError, match="no report of HTTP"):
        ARTILLERY.parse(changed(case("clean_json"), to_sockets))
