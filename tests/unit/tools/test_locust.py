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


def test_failures_in_the_own_json_leave_out_requests_and_times() -> None:
    parsed = LOCUST.parse(case("mix500_json"))
    found = values(parsed)
    assert found["ok", "count"] == 61 and found["errors", "count"] == 15 and ("requests", "count") not in found
    assert [name for name, _ in parsed.doubts] == ["failed_unknown", "exit_code"]
    assert not [row for row in parsed.measurements if row.metric == "latency"]


def test_several_names_count_together() -> None:
    output = case("clean_json")
    entries = json.loads(output.stdout)
    both = replace(output, stdout=json.dumps([*entries, entries[0] | {"name": "/b"}], indent=4).encode())
    assert values(LOCUST.parse(both))["requests", "count"] == 2 * values(LOCUST.parse(output))["requests", "count"]


def test_load_of_several_names_lasts_from_the_first_start_to_the_last_end() -> None:
    output = case("clean_json")
    (entry,) = json.loads(output.stdout)
    start, end = entry["start_time"], entry["last_request_timestamp"]
    early = entry | {"name": "/b", "start_time": start - 2, "last_request_timestamp": end - 1}
    unused = entry | {"name": "/c", "start_time": start - 1, "response_times": {}, "min_response_time": None}
    unused |= dict.fromkeys(("num_requests", "num_none_requests", "num_failures", "max_response_time"), 0)
    parsed = LOCUST.parse(replace(output, stdout=json.dumps([entry, early, unused], indent=4).encode()))
    assert parsed.span == (start - 2, end)
    assert values(parsed)["duration", "value"] == pytest.approx(end - start + 2)
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
    assert [name for name, _ in parsed.doubts] == ["stopped_early"]
