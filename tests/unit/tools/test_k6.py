"""k6: command and script, summaries in three schemas, points in CSV and JSON, and doubts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.core.validity_rules import rule_advice
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from loadbook.tools.k6 import offered_rate
from tool_captures import FIXTURES, capture, values

K6 = base.load_tool("k6")
TARGET = Target("192.0.2.1", 8080)
HEADER = (
    b"metric_name,timestamp,metric_value,check,error,error_code,expected_response,group,method,name,proto,scenario,service,"
    b"status,subproto,tls_version,url,extra_tags,metadata\n"
)
MICRO = b"1795383847000000"
TIMED = {"model": "open", "rate_per_s": 50, "request_times": True}


def load(**changes: object) -> Workload:
    return Workload.model_validate({"tool": "k6", "path": "/a", "connections": 8} | changes)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "k6" / f"1.8.1--{name}.json")


def point(
    time_ms: bytes = b"10.5", status: bytes = b"200", code: bytes = b"", stamp: bytes = MICRO, metadata: bytes = b""
) -> bytes:
    name = b"http://192.0.2.1/a?b=1"
    row = b"http_req_duration,%s,%s,,,%s,true,,GET,%s,,,,%s,,,,,%s\n"
    return row % (stamp, time_ms, code, name, status, metadata)


def points(*rows: bytes) -> ToolOutput:
    return ToolOutput(b"", files={"points.csv": HEADER + b"".join(rows)})


def test_load_is_passed_to_the_script_by_its_environment() -> None:
    argv = K6.command(load(headers={"X-A": "b c"}, think_time_s=0.1), TARGET, 2.5)
    assert argv[:4] == ["k6", "run", "--no-usage-report", "--quiet"] and argv[-1] == "load.js"
    assert {
        *("URL=http://192.0.2.1:8080/a", "CONNECTIONS=8", "DURATION=2.5s", "TIMEOUT=2s", "THINK=0.1"),
        *('HEADERS={"X-A": "b c"}', "KEEPALIVE=true"),
    } <= set(argv)
    assert b"constant-vus" in K6.extra_files(load())["load.js"]
    assert "ITERATIONS=500" in K6.command(load(requests=500), TARGET, 2)


@pytest.mark.parametrize(
    ("rate_per_s", "words"), [(200, {"RATE=200", "RATE_UNIT=1s"}), (2.5, {"RATE=5", "RATE_UNIT=2s"})]
)
def test_open_load_has_a_whole_rate_in_whole_seconds(rate_per_s: float, words: set[str]) -> None:
    argv = K6.command(load(model="open", rate_per_s=rate_per_s), TARGET, 2)
    assert words <= set(argv) and offered_rate(argv) == rate_per_s


def test_arrivals_other_than_even_ones_are_passed_to_the_script() -> None:
    even, poisson = (
        K6.command(load(model="open", rate_per_s=50, arrivals=arrivals), TARGET, 2) for arrivals in ("even", "poisson")
    )
    assert set(poisson) - set(even) == {"ARRIVALS=poisson"}
    text = "__ENV.URL, __ENV.RATE"
    own = load(model="open", rate_per_s=50, arrivals="users", plan="mine.js", plan_text=text)
    with pytest.raises(ToolError, match="does not read ARRIVALS"):
        K6.command(own, TARGET, 2)
    assert K6.command(own.model_copy(update={"plan_text": f"{text}, __ENV.ARRIVALS"}), TARGET, 2)


def test_load_whose_requests_are_timed_has_a_schedule_for_its_users_and_keeps_their_points() -> None:
    timed = load(**TIMED, max_connections=30)
    argv = K6.command(timed, TARGET, 2)
    assert argv[:3] == ["sh", "k6.sh", "run"] and "--out=csv=all.csv" in argv
    assert {"ARRIVALS=even", "CONNECTIONS=8", "MAX_CONNECTIONS=30"} <= set(argv) and offered_rate(argv) == 50
    assert set(K6.extra_files(timed)) == {"load.js", "k6.sh"}
    assert list(K6.expected_files(timed)) == ["summary.json", "points.csv"]
    assert not any(word.startswith("ARRIVALS=") for word in K6.command(load(model="open", rate_per_s=50), TARGET, 2))


def test_times_from_the_intended_start_are_read_from_points() -> None:
    """The least late request was on time; a failed request has no time."""
    stamps_us = (1795383847000000 + us for us in (10_000, 14_500, 26_000, 900_000))
    dues = (b"due_us=0", b"iter=0&due_us=5000&vu=2", b"due_us=10000", b"due_us=15000")
    answers = ((b"8", b"200"), (b"8", b"404"), (b"6", b"200"), (b"0", b"0"))
    rows = [
        point(time_ms, status, stamp=b"%d" % us, metadata=due)
        for us, due, (time_ms, status) in zip(stamps_us, dues, answers, strict=True)
    ]
    argv = tuple(K6.command(load(**TIMED), TARGET, 2))
    parsed = K6.parse(replace(points(*rows), argv=argv))
    # starts at 2, 6.5 and 20 ms are 2, 1.5 and 10 ms after those intended
    assert parsed.times_us["latency_intended"] == {8500: 1, 8000: 1, 14500: 1}
    assert parsed.times_us["service_time"] == {8000: 2, 6000: 1}
    with pytest.raises(ParseError, match=r"points.csv:2: .* some requests have an intended start and others do not"):
        K6.parse(points(*rows, point()))


def test_time_from_the_intended_start_is_read_from_our_script() -> None:
    output = case("handle_summary")
    summary = json.loads(output.stdout)
    times_ms = {"avg": 12.0, "min": 10.0, "med": 11.0, "p(99)": 40.0, "max": 50.0}
    summary["metrics"]["intended_duration"] = {"type": "trend", "contains": "time", "values": times_ms}
    found = values(K6.parse(replace(output, stdout=json.dumps(summary).encode())))
    assert found["latency_intended", "p99"] == 0.040 and found["latency_intended", "mean"] == 0.012


def test_script_of_the_user_is_used_as_it_is_with_the_points_beside_it() -> None:
    text = 'import http from "k6/http"; export default function () { http.get(__ENV.URL + "/b"); }'
    own = load(plan="mine.js", plan_text=text)
    argv = K6.command(own, TARGET, 2)
    assert argv[:2] == ["env", "K6_CSV_TIME_FORMAT=unix_micro"]
    assert {"--vus", "--duration", "--out=csv=points.csv", "--summary-export=summary.json"} <= set(argv)
    assert K6.extra_files(own) == {"load.js": text.encode()}
    assert list(K6.expected_files(own)) == ["summary.json", "points.csv"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 2}, "threads"),
        ({"extra": ("--vus", "3")}, "--vus"),
        ({"plan": "mine.js", "plan_text": "http.get('http://a/')"}, "does not read URL"),
        ({"plan": "mine.js", "plan_text": "__ENV.URL", "model": "open", "rate_per_s": 5}, "does not read RATE"),
        ({"plan": "mine.js", "plan_text": "__ENV.URL", "headers": {"X-A": "b"}}, "headers and keep-alive"),
        ({"model": "open", "rate_per_s": 1e-5}, "evenly"),
        (TIMED | {"arrivals": "users"}, "users who wait after a response do not"),
        (TIMED | {"plan": "mine.js", "plan_text": "__ENV.URL __ENV.RATE"}, "a script of your own does not"),
    ],
)
def test_load_that_k6_cannot_make_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        K6.command(load(**changes), TARGET, 2)


def test_summary_of_the_own_script_tells_statuses_and_classes_of_errors() -> None:
    output = case("handle_summary")
    report = json.loads(output.stdout)
    counters = {"status_2xx": 700, "status_4xx": 20, "errors_connect": 13}
    report["metrics"] |= {name: {"values": {"count": count, "rate": 1.0}} for name, count in counters.items()}
    report["metrics"]["http_req_failed"]["values"] |= {"passes": 33, "fails": 700}
    found = values(K6.parse(replace(output, stdout=json.dumps(report).encode())))
    assert found["requests", "count"] == 720 and found["ok", "count"] == 700 and found["errors", "count"] == 33
    assert found["errors_status", "count"] == 20 and found["errors_connect", "count"] == 13
    report["metrics"]["status_2xx"]["values"]["count"] = 699
    with pytest.raises(ParseError, match="719 responses and 13 failures are not 733 requests"):
        K6.parse(replace(output, stdout=json.dumps(report).encode()))


def test_failures_of_another_script_have_no_class_and_no_number_of_requests() -> None:
    parsed = K6.parse(case("timeout"))
    found = values(parsed)
    assert found["ok", "count"] == 90 and found["errors", "count"] == 10 and ("requests", "count") not in found
    assert [name for name, _ in parsed.doubts] == ["failed_unknown", "expected_only"]
    assert found["attempts", "count"] == 100
    assert found["attempts_per_s", "value"] == pytest.approx(161.15058812592028, rel=1e-9)  # http_reqs: rate
    assert found["ok_per_s", "value"] == pytest.approx(0.9 * 161.15058812592028, rel=1e-9)


def test_times_of_expected_responses_and_of_all_attempts_have_different_names() -> None:
    """Four answers of 200 in 10 ms and six of 500 in 1 ms."""
    expected, every = ({"avg": ms, "min": low, "med": ms, "max": 10} for ms, low in ((10, 10), (4.6, 1)))
    metrics: dict[str, Any] = {
        "http_reqs": {"count": 10, "rate": 10}, "http_req_failed": {"passes": 6, "fails": 4, "value": 0.6},
        "http_req_duration": every, "http_req_duration{expected_response:true}": expected,
    }  # fmt: skip
    parsed = K6.parse(ToolOutput(json.dumps({"metrics": metrics}).encode()))
    found = values(parsed)
    assert (found["latency", "mean"], found["latency", "p50"]) == (0.010, 0.010)
    assert (found["attempt_time", "mean"], found["attempt_time", "min"]) == (0.0046, 0.001)
    del metrics["http_req_duration{expected_response:true}"]
    parsed = K6.parse(ToolOutput(json.dumps({"metrics": metrics}).encode()))
    assert {metric for metric, _ in values(parsed)} & {"latency", "attempt_time"} == {"attempt_time"}
    assert [name for name, _ in parsed.doubts] == ["failed_unknown"]


def test_points_with_whole_seconds_name_the_setting_of_k6_only() -> None:
    parsed = K6.parse(ToolOutput(HEADER + point().replace(MICRO, MICRO[:10])))
    assert [name for name, _ in parsed.doubts] == ["no_times"] and values(parsed)["latency", "mean"] > 0
    assert parsed.doubts[0][1].endswith("set K6_CSV_TIME_FORMAT=unix_micro for duration and rates")
    assert "JMeter" not in rule_advice("no_times")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda metrics: metrics.pop("http_reqs"), "http_reqs or http_req_failed is missing"),
        (lambda metrics: metrics["http_reqs"].update(count=-1), "no count"),
        (lambda metrics: metrics["http_req_failed"].update(passes=999), "999 failed requests of 883"),
        (lambda metrics: metrics["http_req_duration"].update(med=1e9), "do not ascend"),
        (lambda metrics: metrics["http_req_duration"].update(med="x"), "no number"),
    ],
)
def test_summary_that_lacks_something_or_contradicts_itself_is_refused(change: Any, words: str) -> None:
    output = case("clean_closed")
    report = json.loads(output.files["summary"])
    change(report["metrics"])
    with pytest.raises(ParseError, match=words):
        K6.parse(replace(output, files={"summary.json": json.dumps(report).encode()}))


def test_cut_summary_and_other_json_are_refused() -> None:
    output = case("clean_closed")
    with pytest.raises(ParseError, match="not complete"):
        K6.parse(replace(output, files={"summary.json": output.files["summary"][:2000]}))
    with pytest.raises(ParseError, match="no report of k6"):
        K6.parse(ToolOutput(b'{"http_reqs": 3}'))


def test_points_of_requests_are_read_and_those_of_other_metrics_skipped() -> None:
    other = b"http_reqs,%s,1.000000,,,,true,,GET,u,,,,200,,,,,\n" % MICRO
    dropped = b"dropped_iterations,%s,2.000000,,,,,,,,,,,,,,,,\n" % MICRO
    rows = [
        point(),
        other,
        point(b"20.5", b"404", b"1404"),
        point(b"0", b"0", b"1212"),
        point(b"99", b"0", b"1050"),
        dropped,
    ]
    parsed = K6.parse(points(*rows))
    found = values(parsed)
    assert found["requests", "count"] == 2 and found["ok", "count"] == 1 and found["errors", "count"] == 3
    assert found["errors_status", "count"] == found["errors_connect", "count"] == found["errors_timeout", "count"] == 1
    assert found["latency", "min"] == 0.0105 and found["latency", "max"] == 0.0205
    assert [name for name, _ in parsed.doubts] == ["offered_shortfall"]
    assert "2 of 6 requests were not started" in parsed.doubts[0][1]


def test_redirect_in_points_is_ok_as_it_is_in_a_summary() -> None:
    found = values(K6.parse(points(point(), point(status=b"304"), point(status=b"301"), point(status=b"199"))))
    assert (found["requests", "count"], found["ok", "count"], found["errors_other", "count"]) == (4, 3, 1)


def test_points_in_csv_and_in_json_give_the_same_numbers() -> None:
    row = {"metric": "http_req_duration", "type": "Point"}
    tags = {"status": "200", "name": "http://192.0.2.1/a?b=1"}
    data = {"time": "2026-11-22T21:44:07.000000Z", "value": 10.5, "tags": tags}
    as_json = ToolOutput(json.dumps(row | {"data": data}, separators=(",", ":")).encode() + b"\n")
    assert values(K6.parse(as_json)) == values(K6.parse(points(point())))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (point(b"x"), "points.csv:3: not a point of k6's metrics"),
        (point(b"-1"), "points.csv:2: .* no time"),
        (point(status=b"20"), "impossible status"),
        (point(status=b"abc"), "no number"),
        (b"hello\n", "points.csv:3: not a point"),
    ],
)
def test_broken_point_is_refused(row: bytes, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        K6.parse(points(point(), row))


def test_points_with_other_time_stamps_or_another_header_are_refused() -> None:
    with pytest.raises(ParseError, match="K6_CSV_TIME_FORMAT must be unix"):
        K6.parse(points(point(stamp=b"2026-11-22T21:44:07Z")))
    with pytest.raises(ParseError, match="the header has no"):
        K6.parse(ToolOutput(b"metric_name,timestamp,metric_value,other\n"))


def test_cut_row_is_left_out_with_a_doubt() -> None:
    parsed = K6.parse(points(point(), point()[:30]))
    assert [name for name, _ in parsed.doubts] == ["torn"] and values(parsed)["requests", "count"] == 1


def test_bytes_of_points_are_the_sum_of_data_received_and_missing_without_it() -> None:
    received = point().replace(b"http_req_duration,", b"data_received,")
    without, counted = (values(K6.parse(ToolOutput(HEADER + point() + more))) for more in (b"", received * 2))
    size = 2 * float(received.split(b",")[2])
    assert counted["bytes_read", "count"] == round(size)
    assert counted["bytes_per_s", "value"] == pytest.approx(round(size) / counted["duration", "value"])
    assert not {metric for metric, _ in without} & {"bytes_read", "bytes_per_s"}
