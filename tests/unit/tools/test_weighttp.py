"""weighttp: what is asked of it, and the traps of its text and its JSON."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, weighttp
from loadbook.tools.base import ParsedReport, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern
from tool_captures import FIXTURES, capture, check_sane, sane_values, table, with_swaps

WEB = Target("127.0.0.2", 8080)
WEIGHTTP = base.load_tool("weighttp")


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "weighttp" / f"{name}.json")


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    return with_swaps(case(name), *swaps)


def parsed(captured: ToolOutput) -> ParsedReport:
    found = WEIGHTTP.parse(captured)
    check_sane(found)
    return found


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return sane_values(WEIGHTTP.parse(captured))


def load(**requested: object) -> Workload:
    return Workload.model_validate({"tool": "weighttp", "requests": 200000} | requested)


def test_weighttp_command_has_the_number_of_requests_of_the_workload() -> None:
    requested = load(connections=20, threads=2, headers={"X-A": "b c"}, path="/p?a=1")
    assert WEIGHTTP.command(requested, WEB, 4.0) == [
        *("weighttp", "-n", "200000", "-c", "20", "-t", "2", "-k", "-H", "X-A: b c", "http://127.0.0.2:8080/p?a=1"),
    ]
    closing = WEIGHTTP.command(load(connections=20, keepalive=False), WEB, 4.0)
    assert "-k" not in closing and "-H" not in closing
    assert WEIGHTTP.extra_files(requested) == {} and list(WEIGHTTP.expected_files(requested)) == []


@pytest.mark.parametrize(
    ("requested", "target", "says"),
    [
        ({"requests": None}, WEB, "ends after a number of requests"),
        ({"think_time_s": 1.0}, WEB, "think_time_s"),
        ({"timeout_s": 5.0}, WEB, "no time-out for requests"),
        ({"model": "open", "rate_per_s": 5.0}, WEB, "weighttp cannot make open-loop loads"),
        ({"connections": 2, "threads": 4}, WEB, "a connection for each of 4 threads"),
        ({"calls_per_connection": 5}, WEB, "calls_per_connection"),
        ({"headers": {"a b": "c"}}, WEB, "not a header name"),
        ({"extra": ("-n5",)}, WEB, "-n of weighttp comes from the workload"),
        ({"extra": ("-c7",)}, WEB, "-c of weighttp comes from the workload"),
        ({}, Target("127.0.0.2", 443, "https"), "does not speak https"),
        ({}, Target("::1", 80), "IPv6"),
    ],
)
def test_weighttp_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], target: Target, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        WEIGHTTP.command(load(**requested), target, 2.0)
    assert refusal.value.hint


def test_weighttp_version_is_read_or_inferred_from_the_help() -> None:
    assert WEIGHTTP.version(case("0.4--noargs").stdout, b"") == "0.4"
    assert WEIGHTTP.version(case("0.5--bad_url").stdout, b"") == "0.5 or newer"
    unnumbered = case("0.4--noargs").stdout.replace(b"weighttp 0.4 -", b"weighttp -")
    assert WEIGHTTP.version(unnumbered, b"") == "0.3 or older"
    with pytest.raises(ToolError, match="no version"):
        WEIGHTTP.version(b"", b"sh: weighttp: not found\n")


def test_weighttp_duration_is_added_up_from_s_ms_and_us() -> None:
    assert values(case("0.4--ka_n200000_c50_t2"))["duration", "value"] == 1.989046
    assert values(case("0.4--ka_n1000_c1"))["duration", "value"] == 0.020395
    rows = table(parsed(case("0.3--plain")).measurements)
    assert rows["duration", "value"].text == "0 sec, 424 millisec and 448 microsec"


def test_weighttp_refused_connections_give_no_requests_and_no_rate() -> None:
    got = values(case("0.4--server_killed"))
    assert got["requests", "count"] == got["ok", "count"] == 36584 and got["errors_other", "count"] == 263416
    assert got["requests_per_s", "value"] == got["ok_per_s", "value"] == pytest.approx(36584 / 1.783385)
    down = values(case("0.3--down"))
    assert down["requests", "count"] == down["requests_per_s", "value"] == 0 and down["errors", "count"] == 1000


def test_weighttp_error_responses_count_in_requests_but_not_ok_rate() -> None:
    got = values(case("0.5--mix500"))
    assert got["requests_per_s", "value"] == 77280 and got["ok_per_s", "value"] == pytest.approx(4519 / 0.064699)
    assert got["errors_status", "count"] == got["errors", "count"] == 481 and got["errors_other", "count"] == 0


def test_weighttp_json_times_are_microseconds() -> None:
    got = values(case("0.5--plain_n20000_c50_t2"))
    assert got["latency", "mean"] == 1130e-6 and got["latency", "max"] == 8166e-6 and got["latency", "p99"] == 4838e-6
    assert got["ttfb", "mean"] == 952e-6 and got["connect_time", "p50"] == 67e-6
    assert {s for m, s in values(case("0.5--no_pct")) if m == "latency"} == {"mean", "sd", "min", "p50", "max"}


def test_weighttp_wrapped_negative_counter_is_tolerated() -> None:
    """Servers that close after each answer: more connections than requests, and keep-alive is 2^64 - 500."""
    wrapped = changed(
        "0.5--ka_n1000_c1",
        ('"keep-alive": 999', '"keep-alive": 18446744073709551116'),
        ('"num":         1,', '"num":      1500,'),
    )
    left = {key: v for key, v in values(case("0.5--ka_n1000_c1")).items() if key[0] != "connect_time"}
    assert values(wrapped) == left


def test_weighttp_standard_deviation_of_nan_is_left_out() -> None:
    odd = changed("0.5--ka_n1000_c1", ('"stddev":      0,', '"stddev":   -nan,'))
    assert set(values(case("0.5--ka_n1000_c1"))) - set(values(odd)) == {("connect_time", "sd")}


def test_weighttp_truncated_responses_count_as_failed() -> None:
    cut = changed("0.5--ka_n1000_c1", ('"pass": 1000', '"pass": 0'), ('"fail": 0', '"fail": 1000'))
    got = values(cut)
    assert got["requests", "count"] == got["status_2xx", "count"] == got["errors_other", "count"] == 1000
    assert got["ok", "count"] == got["errors_status", "count"] == 0
    assert "cut_answers" in dict(parsed(cut).doubts)


def test_weighttp_extra_lines_on_stdout_are_ignored() -> None:
    whole = case("0.5--quiet")
    lines = whole.stdout.decode().splitlines(keepends=True)
    lines[9:9] = ["error: connect() failed: (111) Connection refused\n"] * 2
    csv = ["Percentage served,Time in us\n", *(f"{p},{p * 7}\n" for p in range(101))]
    assert values(replace(whole, stdout="".join([*csv, *lines]).encode())) == values(whole)
    assert values(replace(whole, stdout="".join([*lines, *csv]).encode())) == values(whole)


@pytest.mark.parametrize(
    ("name", "swap", "says"),
    [
        ("0.4--mix500", ("4501 succeeded", "4601 succeeded"), "do not add up to those done"),
        ("0.4--mix500", ("70073 req/s", "70173 req/s"), "70173 does not follow from 5000"),
        ("0.4--mix500", ("8409 kbyte/s", "8419 kbyte/s"), "8419 does not follow"),
        ("0.4--mix500", ("5000 started", "4999 started"), "more requests done than started"),
        ("0.4--mix500", ("591976 bytes http", "591977 bytes http"), "headers and data"),
        ("0.4--mix500", ("4501 2xx", "4500 2xx"), "fewer answers"),
        ("0.4--mix500", ("71 millisec", "71 ms"), "line cut or changed"),
        ("0.4--mix500", ("finished in 0 sec", "finished in 0 min"), "line cut or changed"),
        ("0.5--mix500", ('"pass": 4519', '"pass": 4520'), "do not add up to those done"),
        ("0.5--mix500", ('"reqs_per_sec": 77280', '"reqs_per_sec": 77380'), "77380 does not follow"),
        ("0.5--mix500", ('    "pass": 4519,\n', ""), "no response_counts.pass"),
        ("0.5--mix500", ('    "5xx":  481', '    "5xx":  -1'), "unexpected '-1'"),
        ("0.5--mix500", ('    "5xx":  481', '    "4xx":  481'), "its JSON ends early or is broken"),
        ("0.5--mix500", ('     "66%":       100,\n', ""), "no connect_times.66%|different percentiles"),
        ("0.5--mix500", ('    "100%":       506\n', '    "100%":       5\n'), "do not ascend"),
        ("0.5--mix500", ('"request_counts": {', '"request_counts": {,'), "its JSON ends early or is broken"),
        ("0.5--mix500", ('"secs_elapsed": 0.064699', '"secs_elapsed": 0.0646'), "does not follow from"),
    ],
)
def test_weighttp_contradictory_or_truncated_report_is_refused(name: str, swap: tuple[str, str], says: str) -> None:
    with pytest.raises(ParseError, match=says):
        WEIGHTTP.parse(changed(name, swap))


def test_weighttp_unknown_units_are_refused() -> None:
    data = case("0.5--mix500").stdout.replace(b'"us"', b'"ms"')
    with pytest.raises(ParseError, match=r"unexpected 'ms' as connect_times\.unit"):
        WEIGHTTP.parse(ToolOutput(data))


def test_weighttp_text_and_json_together_are_refused_as_two_reports() -> None:
    with pytest.raises(ParseError, match="two reports in one"):
        WEIGHTTP.parse(ToolOutput(case("0.5--quiet").stdout + case("0.4--mix500").stdout))


@pytest.mark.parametrize("form", weighttp.TEXT_PATTERNS, ids=lambda form: form.name)
def test_every_line_pattern_matches_its_example(form: LinePattern) -> None:
    assert form.line_regex.fullmatch(form.example)
