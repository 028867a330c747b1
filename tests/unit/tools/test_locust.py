"""Locust: command and locustfile, counts of the own locustfile, Locust's JSON, and doubts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.metrics import error_class
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from loadbook.tools.locust import ERROR_PATTERNS
from tool_captures import FIXTURES, capture, values

LOCUST = base.load_tool("locust")
TARGET = Target("192.0.2.1", 8080)
COUNTS = {
    "locust_requests": 1, "span": [1000.0, 1002.0], "written": 1003.0, "statuses": {"200": 3, "404": 1},
    "failures": {"ConnectionRefusedError: [Errno 111] Connection refused": 2}, "times_us": {"1500": 3, "900": 1},
}  # fmt: skip


def load(**changes: object) -> Workload:
    return Workload.model_validate({"tool": "locust", "path": "/a", "connections": 8} | changes)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "locust" / f"2.47.0--{name}.json")


def counted(**changes: object) -> ToolOutput:
    return ToolOutput(b"[]\n", files={"requests.json": json.dumps(COUNTS | changes).encode()})


def test_load_is_passed_by_the_environment_and_all_users_start_at_once() -> None:
    argv = LOCUST.command(load(headers={"X-A": "b c"}, think_time_s=0.1), TARGET, 3)
    assert argv[:5] == [
        *("env", "LOAD_PATH=/a", 'LOAD_HEADERS={"X-A": "b c"}', "LOAD_THINK_S=0.1", "LOAD_TIMEOUT_S=2"),
    ]
    assert argv[argv.index("-f") :] == [
        *("-f", "locustfile.py", "-H", "http://192.0.2.1:8080", "-u", "8", "-r", "8", "-t", "3s"),
    ]
    assert b"FastHttpUser" in LOCUST.extra_files(load())["locustfile.py"]
    assert list(LOCUST.expected_files(load())) == ["requests.json"]


def test_locustfile_of_the_user_is_used_as_it_is() -> None:
    own = load(plan="mine.py", plan_text="from locust import HttpUser\n")
    assert LOCUST.extra_files(own) == {"locustfile.py": b"from locust import HttpUser\n"}
    assert list(LOCUST.expected_files(own)) == [] and "--json" in LOCUST.command(own, TARGET, 3)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "open", "rate_per_s": 5}, "open-loop"),
        ({"keepalive": False}, "every request"),
        ({"threads": 2}, "one process"),
        ({"extra": ("-u", "3")}, "-u"),
        ({"plan": "mine.py", "plan_text": "", "think_time_s": 1}, "think time itself"),
    ],
)
def test_load_that_locust_cannot_make_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        LOCUST.command(load(**changes), TARGET, 3)


def test_counts_of_the_own_locustfile_tell_statuses_failures_and_times() -> None:
    parsed = LOCUST.parse(counted())
    found = values(parsed)
    assert found["requests", "count"] == 4 and found["ok", "count"] == 3 and found["errors", "count"] == 3
    assert (
        found["errors_connect", "count"] == 2 and found["errors_status", "count"] == found["status_4xx", "count"] == 1
    )
    assert found["requests_per_s", "value"] == 2.0 and found["latency", "p50"] == 0.0015
    assert parsed.times_us == {"latency": {1500: 3, 900: 1}} and parsed.span == (1000.0, 1002.0)


def test_run_without_a_response_has_no_times() -> None:
    parsed = LOCUST.parse(counted(statuses={}, times_us={}))
    assert values(parsed)["requests", "count"] == 0 and not parsed.times_us
    assert not [row for row in parsed.measurements if row.metric == "latency"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"times_us": {"1500": 9}}, "9 times do not go with 4"), ({"statuses": {"abc": 1}}, "cut or was changed")],
)
def test_counts_that_contradict_themselves_are_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ParseError, match=words):
        LOCUST.parse(counted(**changes))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ConnectionRefusedError: [Errno 111] Connection refused", "errors_connect"),
        ("timeout: timed out", "errors_timeout"),
        ("ConnectionResetError: [Errno 104]", "errors_read"),
        ("OSError: [Errno 24] Too many open files", "errors_driver"),
        ("ValueError: x", "errors_other"),
    ],
)
def test_error_text_has_a_class(text: str, name: str) -> None:
    assert error_class(text, ERROR_PATTERNS) == name


def entry(**changes: object) -> dict[str, Any]:
    """Return one user's ten requests of 1 s each, back to back from 1700000000 s on."""
    return {
        "name": "/slow", "method": "GET", "last_request_timestamp": 1700000010.0, "start_time": 1700000001.0,
        "num_requests": 10, "num_none_requests": 0, "num_failures": 0, "total_response_time": 10000.0,
        "max_response_time": 1000.0, "min_response_time": 1000.0, "total_content_length": 120,
        "response_times": {"1000": 10},
    } | changes  # fmt: skip


def entries(*rows: dict[str, Any], stderr: str = "", argv: tuple[str, ...] = ()) -> ToolOutput:
    return ToolOutput(json.dumps(list(rows), indent=4).encode(), stderr.encode(), argv=argv)


def test_load_begins_before_the_end_of_the_first_request() -> None:
    parsed = LOCUST.parse(entries(entry()))
    found = values(parsed)
    assert (found["requests_per_s", "value"], found["duration", "value"]) == (1.0, 10.0)
    assert parsed.span == (1700000000.0, 1700000010.0) and parsed.doubts == ()
    late = entry(name="/b", start_time=1700000004.0, min_response_time=1.0, response_times={"1": 10})
    late |= {"total_response_time": 10.0, "max_response_time": 1.0}
    assert values(LOCUST.parse(entries(entry(), late)))["requests_per_s", "value"] == 2.0
    reset = LOCUST.parse(entries(entry(), argv=("locust", "--reset-stats")))
    assert values(reset)["duration", "value"] == 9.0


def test_start_that_is_not_known_is_doubtful() -> None:
    spread = entry(min_response_time=100.0, total_response_time=5000.0, response_times={"500": 10})
    parsed = LOCUST.parse(entries(spread))
    assert values(parsed)["duration", "value"] == 9.5
    ((name, text),) = parsed.doubts
    assert name == "first_start" and text.endswith("1 to 1.099 requests a second")
    assert LOCUST.parse(entries(spread | {"min_response_time": 950.0, "total_response_time": 9900.0})).doubts == ()


ERRORS = """Error report
# occurrences      Error
------------------|--------------------------------
{}
------------------|--------------------------------
"""


def test_failures_of_unknown_kind_are_attempts() -> None:
    failed = entry(num_failures=4)
    own = ERRORS.format("4                  GET /slow: CatchResponseError('too slow')")
    short = ERRORS.format("3                  GET /slow: HTTPError('503 Server Error: for url: /slow')")
    cut = ERRORS.format("4                  GET /slow: HTTPError('503 Server Error: for url: /slow')").rpartition(
        "----"
    )[0][:150]
    for stderr in ("", own, short, cut[:120]):
        parsed = LOCUST.parse(entries(failed, stderr=stderr))
        found = values(parsed)
        assert (found["attempts", "count"], found["ok", "count"], found["errors", "count"]) == (10, 6, 4)
        assert (found["attempts_per_s", "value"], found["ok_per_s", "value"]) == (1.0, 0.6)
        assert {found["attempt_time", name] for name in ("mean", "min", "p50", "max")} == {1.0}
        assert [name for name, _ in parsed.doubts] == ["failed_unknown"]
        assert not {"requests", "requests_per_s", "latency", "errors_status"} & {metric for metric, _ in found}


def test_failures_with_a_status_in_the_error_report_are_responses() -> None:
    report = ERRORS.format(
        "4                  GET /slow: HTTPError('503 Server Error: Service Unavailable for url: /slow')"
    )
    parsed = LOCUST.parse(entries(entry(num_failures=4), stderr=report))
    found = values(parsed)
    assert (found["requests", "count"], found["ok", "count"], found["errors_status", "count"]) == (10, 6, 4)
    assert (found["status_4xx", "count"], found["status_5xx", "count"], found["errors_connect", "count"]) == (0, 4, 0)
    assert found["requests_per_s", "value"] == found["latency", "p50"] == 1.0 and parsed.doubts == ()
    parsed = LOCUST.parse(case("mix500_json"))
    found = values(parsed)
    assert (found["requests", "count"], found["ok", "count"], found["status_5xx", "count"]) == (76, 61, 15)
    assert [name for name, _ in parsed.doubts] == ["first_start", "whole_ms", "exit_code"]


def test_failures_without_a_response_in_the_error_report_are_not_requests() -> None:
    rows = (
        "1                  GET /slow: HTTPError('404 Client Error: Not Found for url: /slow')\n"
        "3                  GET /slow: ConnectionRefusedError(111, 'Connection refused')"
    )
    parsed = LOCUST.parse(entries(entry(num_failures=4), stderr=ERRORS.format(rows)))
    found = values(parsed)
    assert (found["requests", "count"], found["ok", "count"], found["errors", "count"]) == (7, 6, 4)
    assert (found["errors_connect", "count"], found["errors_status", "count"], found["status_4xx", "count"]) == (
        3,
        1,
        1,
    )
    assert found["requests_per_s", "value"] == 0.7 and found["attempt_time", "max"] == 1.0
    assert ("latency", "mean") not in found and [name for name, _ in parsed.doubts] == ["unanswered"]


def test_several_names_count_together() -> None:
    output = case("clean_json")
    entries = json.loads(output.stdout)
    both = replace(output, stdout=json.dumps([*entries, entries[0] | {"name": "/b"}], indent=4).encode())
    assert values(LOCUST.parse(both))["requests", "count"] == 2 * values(LOCUST.parse(output))["requests", "count"]


def test_percentiles_of_a_report_have_the_steps_to_which_locust_rounds() -> None:
    rows = {row.statistic: row for row in LOCUST.parse(entries(entry())).measurements if row.metric == "latency"}
    assert rows["p99"].value == 1.0 and rows["p99"].resolution == pytest.approx(0.1)
    assert rows["max"].resolution is None


def test_load_of_several_names_lasts_from_the_first_start_to_the_last_end() -> None:
    output = case("clean_json")
    (entry,) = json.loads(output.stdout)
    start, end = entry["start_time"], entry["last_request_timestamp"]
    early = entry | {"name": "/b", "start_time": start - 2, "last_request_timestamp": end - 1}
    unused = entry | {"name": "/c", "start_time": start - 1, "response_times": {}, "min_response_time": None}
    unused |= dict.fromkeys(("num_requests", "num_none_requests", "num_failures", "max_response_time"), 0)
    parsed = LOCUST.parse(replace(output, stdout=json.dumps([entry, early, unused], indent=4).encode()))
    first_s = entry["total_response_time"] / 815 / 1000
    assert parsed.span == (pytest.approx(start - 2 - first_s, abs=1e-6), end)
    assert values(parsed)["duration", "value"] == pytest.approx(end - start + 2 + first_s)
    assert values(parsed)["latency", "min"] == pytest.approx(entry["min_response_time"] / 1000)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda entry: entry.pop("num_failures"), "a count of '/slow.ms=10' is missing"),
        (lambda entry: entry.update(num_failures=9999), "9999 failures of 815"),
        (lambda entry: entry["response_times"].update({"11": 1}), "are not those of 815 requests"),
        (lambda entry: entry["response_times"].update({"x": 1}), "is no number"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(change: Any, words: str) -> None:
    output = case("clean_json")
    entries = json.loads(output.stdout)
    change(entries[0])
    with pytest.raises(ParseError, match=words):
        LOCUST.parse(replace(output, stdout=json.dumps(entries, indent=4).encode()))


def test_cut_report_and_several_reports_are_refused() -> None:
    output = case("clean_json")
    with pytest.raises(ParseError, match="not complete"):
        LOCUST.parse(replace(output, stdout=output.stdout[:500]))
    with pytest.raises(ParseError, match="two in one output"):
        LOCUST.parse(replace(output, stdout=output.stdout * 2))


@pytest.mark.parametrize("option", ["-t", "--run-time"])
def test_load_that_was_stopped_is_doubtful(option: str) -> None:
    parsed = LOCUST.parse(replace(case("clean_json"), argv=("locust", option, "10s")))
    assert [name for name, _ in parsed.doubts] == ["first_start", "stopped_early"]
