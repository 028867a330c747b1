"""autocannon: command, reports that contradict themselves, runs of a number of requests, and added times."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.autocannon import has_option
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, values, with_changed_json

AUTOCANNON = base.load_tool("autocannon")
TARGET = Target("192.0.2.1", 8080)


def load(**changes: object) -> Workload:
    return Workload.model_validate({"tool": "autocannon", "path": "/a", "connections": 8} | changes)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "autocannon" / f"9.0.0--{name}.json")


def test_closed_load_has_connections_seconds_and_workers() -> None:
    argv = AUTOCANNON.command(load(threads=2, headers={"X-A": "b c"}), TARGET, 3)
    assert argv == [
        *("autocannon", "--json", "-c", "8", "-d", "3", "-t", "2", "-w", "2", "-H", "X-A=b c"),
        "http://192.0.2.1:8080/a",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "open", "rate_per_s": 5}, "open-loop"),
        ({"keepalive": False}, "every request"),
        ({"threads": 3}, "same number of connections"),
        ({"requests": 500}, "number of requests"),
        ({"extra": ("-R", "100")}, "-R"),
        ({"timeout_s": 0.5}, "whole seconds"),
    ],
)
def test_load_that_autocannon_cannot_make_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        AUTOCANNON.command(load(**changes), TARGET, 3)


def test_option_is_found_with_its_value_apart_or_attached() -> None:
    assert has_option(["-a", "5"], "-a") and has_option(["-a5"], "-a") and has_option(["--amount=5"], "-a", "--amount")
    assert not has_option(["--amounts"], "-a", "--amount")


def test_number_of_requests_gives_no_rate_also_if_the_command_is_not_known() -> None:
    output = case("tls_json")
    for argv in (output.argv, ()):
        parsed = AUTOCANNON.parse(replace(output, argv=argv))
        assert "amount_rate" in dict(parsed.doubts)
        assert not [key for key in values(parsed) if key[0].endswith("_per_s") or key[0] == "duration"]
    assert ("ok_per_s", "value") in values(AUTOCANNON.parse(replace(case("clean_json"), argv=())))


def test_added_times_are_no_latency() -> None:
    for name in ("freeze_rate_json", "rate_json"):
        parsed = AUTOCANNON.parse(case(name))
        assert {"added_times", "bursts"} <= set(dict(parsed.doubts))
        assert not [row for row in parsed.measurements if row.metric == "latency"]
    parsed = AUTOCANNON.parse(case("freeze_rate_uncorrected_json"))
    assert values(parsed)["latency", "max"] == 0.908 and list(dict(parsed.doubts)) == ["bursts"]


def test_minimum_above_the_median_is_left_out() -> None:
    found = values(AUTOCANNON.parse(case("tls_json")))
    assert found["latency", "p50"] == 0 and ("latency", "min") not in found


def test_requests_without_response_and_error_are_doubtful() -> None:
    output = with_changed_json(case("clean_json"), lambda report: report["requests"].update(sent=1000))
    doubts = dict(AUTOCANNON.parse(output).doubts)
    assert [*doubts] == ["stale_times", "unanswered"]
    assert doubts["unanswered"] == "79 of 1000 requests have neither a response nor an error"


def test_requests_that_wait_for_their_turn_at_a_rate_are_not_unanswered() -> None:
    for argv in (case("freeze_rate_json").argv, ()):
        output = replace(case("freeze_rate_json"), argv=argv)
        output = with_changed_json(
            output, lambda report: report["requests"].update(sent=report["requests"]["sent"] + 500)
        )
        assert [name for name, _ in AUTOCANNON.parse(output).doubts] == ["added_times", "bursts"]


def lossy(average: float, number: int, seconds: float, sent: int, errors: int) -> ToolOutput:
    """Return a report of two connections with so many responses."""

    def change(report: dict[str, Any]) -> None:
        report.update({"2xx": number, "duration": seconds, "connections": 2, "errors": errors})
        report["requests"].update(total=number, sent=sent)
        report["latency"].update(average=average, totalCount=number)

    return replace(with_changed_json(case("clean_json"), change), argv=())


@pytest.mark.parametrize(
    ("output", "doubts"),
    [
        (lossy(4.48, 20_756, 10.07, 20_778, 1), ["stale_times", "unanswered"]),  # nginx closes at 1,000 requests
        (lossy(293.25, 1344, 3.05, 1681, 335), ["stale_times"]),  # resets at every fifth request
        (lossy(5.2, 2061, 5.0, 2063, 0), ["stale_times"]),  # 2.14 under way on two connections
        (lossy(5.0, 2061, 5.0, 2063, 1), ["stale_times"]),
    ],
)
def test_times_after_a_lost_request_are_no_latency(output: ToolOutput, doubts: list[str]) -> None:
    parsed = AUTOCANNON.parse(output)
    found = values(parsed)
    assert [name for name, _ in parsed.doubts if name != "whole_ms"] == doubts
    assert ("latency", "mean") not in found and found["attempt_time", "mean"] > 0
    assert found["requests", "count"] > 0 and found["requests_per_s", "value"] > 0


def test_times_that_connections_can_have_are_latency() -> None:
    found = values(AUTOCANNON.parse(lossy(4.85, 2000, 5.0, 2002, 0)))
    assert found["latency", "mean"] == pytest.approx(0.00485)


def test_times_without_those_of_errors_are_latency_with_a_doubt() -> None:
    """`-x`, 900 responses of 200 and 100 of 500."""

    def change(report: dict[str, Any]) -> None:
        report.update({"2xx": 900, "5xx": 100, "non2xx": 100, "connections": 4, "errors": 0, "duration": 5.01})
        report["requests"].update(total=1000, sent=1004)
        report["latency"].update(average=20.0, totalCount=900)
        report["throughput"].update(total=82800)

    for argv in ((), ("autocannon", "-x", "--json")):
        parsed = AUTOCANNON.parse(replace(with_changed_json(case("clean_json"), change), argv=argv))
        found = values(parsed)
        assert [name for name, _ in parsed.doubts] == ["good_only"]
        assert (found["latency", "mean"], found["requests", "count"], found["ok", "count"]) == (0.020, 1000, 900)


def test_load_that_was_stopped_is_doubtful() -> None:
    output = replace(case("clean_json"), argv=("autocannon", "-d", "10"))
    assert [name for name, _ in AUTOCANNON.parse(output).doubts] == ["stopped_early"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda report: report.pop("throughput"), "no 'throughput'"),
        (lambda report: report.update(duration=0), "0 s"),
        (lambda report: report.update({"2xx": 920}), "not those of the classes"),
        (lambda report: report.update(non2xx=3), "not those of the classes"),
        (lambda report: report.update(timeouts=5), "time-outs exceed"),
        (lambda report: report["requests"].update(sent=1), "time-outs exceed errors, or responses"),
        (lambda report: report["latency"].update(p90=500), "do not ascend"),
        (lambda report: report["latency"].update(average=None), "average is missing"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(change: Any, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        AUTOCANNON.parse(with_changed_json(case("clean_json"), change))


def untimed(report: dict[str, Any]) -> None:
    count = report["2xx"]
    report.update({"2xx": 0, "4xx": report["4xx"] + count, "non2xx": report["non2xx"] + count})
    report["latency"] = dict.fromkeys(report["latency"]) | {"max": 0}


def test_report_without_times_as_no_answer_was_2xx_has_its_counts_and_its_duration() -> None:
    parsed = AUTOCANNON.parse(with_changed_json(case("clean_json"), untimed))
    found, whole = values(parsed), values(AUTOCANNON.parse(case("clean_json")))
    assert found["requests_per_s", "value"] == whole["requests_per_s", "value"] and found["ok", "count"] == 0
    assert found["errors_status", "count"] == found["requests", "count"] == whole["requests", "count"]
    assert not [row for row in parsed.measurements if row.metric == "latency"] and parsed.doubts == ()


def test_cut_report_and_several_reports_are_refused() -> None:
    output = case("clean_json")
    with pytest.raises(ParseError, match="not complete"):
        AUTOCANNON.parse(replace(output, stdout=output.stdout[:500]))
    with pytest.raises(ParseError, match="two in one output"):
        AUTOCANNON.parse(replace(output, stdout=output.stdout + b"\n" + output.stdout))
