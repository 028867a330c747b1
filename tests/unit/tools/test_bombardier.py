"""bombardier: times that count failures, rates, loads that ended early, and contradictions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, capture, values, with_changed_json

BOMBARDIER = base.load_tool("bombardier")
VERSION = "1.2.6"


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "bombardier" / f"{VERSION}--{name}.json")


def test_report_has_counts_rates_and_microseconds() -> None:
    output = case("clean_json")
    report, found = json.loads(output.stdout)["result"], values(BOMBARDIER.parse(output))
    assert found["requests", "count"] == found["ok", "count"] == report["req2xx"]
    assert found["requests_per_s", "value"] == pytest.approx(report["req2xx"] / report["timeTakenSeconds"])
    assert found["latency", "p99"] == pytest.approx(report["latency"]["percentiles"]["99"] / 1e6)
    assert 0.009 < found["latency", "p50"] < 0.02


def test_percentiles_need_the_option_and_the_rest_does_not() -> None:
    found = values(BOMBARDIER.parse(case("no_percentiles_json")))
    assert ("latency", "p50") not in found and found["latency", "max"] > 0


def test_times_at_a_rate_are_service_times() -> None:
    parsed = BOMBARDIER.parse(case("rate_json"))
    found = values(parsed)
    assert found["offered_per_s", "value"] == 200 and ("service_time", "p50") in found


def test_times_that_count_attempts_without_response_are_those_of_attempts() -> None:
    parsed = BOMBARDIER.parse(case("timeout_json"))
    found = values(parsed)
    assert found["errors_timeout", "count"] > 0 and found["requests", "count"] > 0
    assert "unanswered" in dict(parsed.doubts)
    assert found["errors", "count"] == 10
    assert {row.metric for row in parsed.measurements if row.unit == "s"} == {"duration", "attempt_time", "latency"}
    assert [row.statistic for row in parsed.measurements if row.metric == "latency"] == ["p50"]  # of few failures
    assert (found["attempt_time", "p99"], found["attempts", "count"]) == (0.103799, 1140)
    assert found["attempts_per_s", "value"] == pytest.approx(1140 / 2.001664521)


def test_load_that_ended_early_or_lagged_is_doubtful() -> None:
    assert "stopped_early" in dict(BOMBARDIER.parse(case("sigint_json")).doubts)
    more = with_changed_json(case("count_json"), lambda report: report["spec"].update(numberOfRequests=999))
    assert (
        dict(BOMBARDIER.parse(more).doubts)["stopped_early"] == "300 attempts of the 999 requests that were asked for"
    )
    lagged = with_changed_json(case("rate_json"), lambda report: report["spec"].update(rate=300))
    assert "offered_shortfall" in dict(BOMBARDIER.parse(lagged).doubts)


def cut_bodies(report: dict[str, Any]) -> None:
    report["spec"]["client"] = "net/http.v1"
    report["result"]["errors"] = [{"description": "unexpected EOF", "count": 10}]


def test_cut_bodies_of_clients_of_net_http_are_responses_and_errors() -> None:
    whole = values(BOMBARDIER.parse(case("count_json")))
    parsed = BOMBARDIER.parse(with_changed_json(case("count_json"), cut_bodies))
    found = values(parsed)
    assert (found["requests", "count"], found["ok", "count"], found["errors", "count"]) == (300, 290, 10)
    assert found["errors_read", "count"] == 10 and found["latency", "max"] == whole["latency", "max"]
    assert found["ok_per_s", "value"] == pytest.approx(whole["ok_per_s", "value"] * 290 / 300)
    assert dict(parsed.doubts)["cut_answers"].startswith("10 of 300 responses were cut")


def test_number_of_good_responses_is_not_known_if_others_may_have_been_cut() -> None:
    def change(report: dict[str, Any]) -> None:
        cut_bodies(report)
        report["result"].update(req2xx=200, req4xx=100)

    found = values(BOMBARDIER.parse(with_changed_json(case("count_json"), change)))
    assert found["requests", "count"] == 300 and found["errors_read", "count"] == 10
    assert not {("ok", "count"), ("ok_per_s", "value"), ("errors", "count")} & found.keys()


@pytest.mark.parametrize(("client", "count"), [("fasthttp", 10), ("net/http.v1", 301)])
def test_more_errors_than_responses_or_any_of_the_default_client_are_refused(client: str, count: int) -> None:
    def change(report: dict[str, Any]) -> None:
        report["spec"]["client"] = client
        report["result"]["errors"] = [{"description": "unexpected EOF", "count": count}]

    with pytest.raises(ParseError, match=f"{count} errors by message"):
        BOMBARDIER.parse(with_changed_json(case("count_json"), change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda report: report["result"].pop("req5xx"), "req5xx is missing"),
        (lambda report: report["result"].pop("bytesRead"), "bytesRead is missing"),
        (lambda report: report.pop("result"), "no report of bombardier"),
        (lambda report: report["result"].update(timeTakenSeconds=0), "0 s"),
        (lambda report: report["result"].update(others=3), "0 errors by message are not the 3"),
        (lambda report: report["result"].update(errors={}), "no list"),
        (lambda report: report["result"]["latency"].update(max=1), "do not ascend"),
        (lambda report: report["result"]["latency"]["percentiles"].update({"90": 1}), "do not ascend"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(change: Any, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        BOMBARDIER.parse(with_changed_json(case("clean_json"), change))


def test_cut_report_and_several_reports_are_refused() -> None:
    output = case("clean_json")
    with pytest.raises(ParseError, match="not complete"):
        BOMBARDIER.parse(replace(output, stdout=output.stdout[:200]))
    with pytest.raises(ParseError, match="a second report"):
        BOMBARDIER.parse(replace(output, stdout=output.stdout.rstrip() * 2))
