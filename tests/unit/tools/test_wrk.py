"""wrk: what is asked of it, and the traps of its text."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.ingestion import report_files
from loadbook.ingestion.wrapping import unwrap
from loadbook.study.workload import Workload
from loadbook.tools import base, wrk
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, table, with_swaps

WEB = Target("127.0.0.2", 8080)
WRK = base.load_tool("wrk")


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "wrk" / f"4.1.0--{name}.json")


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    return replace(with_swaps(case(name), *swaps), argv=())


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return {key: row.value for key, row in table(WRK.parse(captured).measurements).items()}


def test_command_contains_every_workload_setting() -> None:
    load = Workload(
        tool="wrk",
        connections=20,
        threads=2,
        timeout_s=3,
        keepalive=False,
        headers={"X-A": 'q"$(x)'},
        extra=("--x",),
        path="/p?a=1",
    )
    assert WRK.command(load, WEB, 4.0) == [
        *("wrk", "-t2", "-c20", "-d4s", "--timeout", "3s", "--latency", "-s", "loadbook.lua"),
        *("-H", 'X-A: q"$(x)', "-H", "Connection: close", "--x", "http://127.0.0.2:8080/p?a=1"),
    ]
    assert "done(summary, latency, requests)" in WRK.extra_files(load)["loadbook.lua"].decode()
    assert list(WRK.expected_files(load)) == []


def test_wrk_user_script_replaces_the_script_of_loadbook() -> None:
    argv = WRK.command(Workload(tool="wrk", connections=1, extra=("-s", "/srv/post.lua")), WEB, 1)
    assert argv.count("-s") == 1 and "loadbook.lua" not in argv
    assert WRK.extra_files(Workload(tool="wrk", connections=1, extra=("-s", "/srv/post.lua"))) == {}


def test_wrk_think_time_becomes_a_delay_in_the_script() -> None:
    load = Workload(tool="wrk", connections=1, think_time_s=0.25)
    assert WRK.command(load, WEB, 1) == WRK.command(load.model_copy(update={"think_time_s": 0.0}), WEB, 1)
    assert b"function delay() return 250 end" in WRK.extra_files(load)["loadbook.lua"]
    assert b"delay()" not in WRK.extra_files(Workload(tool="wrk"))["loadbook.lua"].replace(b"or delay() wrk", b"")


def test_wrk_command_brackets_ipv6_addresses_and_keeps_the_scheme() -> None:
    argv = WRK.command(Workload(tool="wrk", connections=2), Target("::1", 443, "https"), 1)
    assert argv[-1] == "https://[::1]:443/"


@pytest.mark.parametrize(
    ("requested", "duration_s", "says"),
    [
        ({"model": "open", "rate_per_s": 5.0}, 1, "wrk cannot make open-loop loads"),
        ({}, 1.5, "wrk takes whole seconds only: duration = 1.5 s"),
        ({}, 0.5, "whole seconds only"),
        ({"timeout_s": 0.2}, 1, "timeout_s = 0.2 s"),
        ({"connections": 10, "threads": 3}, 1, "9 of 10 connections"),
        ({"connections": 2, "threads": 4}, 1, "0 of 2 connections"),
        ({"calls_per_connection": 5}, 1, "calls_per_connection"),
        ({"headers": {"a b": "c"}}, 1, "not a header name"),
        ({"extra": ("-d5",)}, 1, "-d of wrk comes from the workload"),
        ({"extra": ("--conn=7",)}, 1, "--connections of wrk comes from the workload"),
    ],
)
def test_wrk_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], duration_s: float, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        WRK.command(Workload.model_validate({"tool": "wrk"} | requested), WEB, duration_s)
    assert refusal.value.hint
    if "model" in requested:
        assert "httperf" in refusal.value.hint


def test_wrk_version_is_read_from_every_build() -> None:
    usage = b"Usage: wrk <options> <url>\n"
    assert WRK.version(b"wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer\n" + usage, b"") == "4.1.0"
    assert WRK.version(b"", b"wrk 4.2.0 [epoll] Copyright\n" + usage) == "4.2.0"
    for wrong in (b"", b"bash: wrk: command not found\n", b"wrk 4.0.0 [epoll] Copyright\n    -R, --rate        <T>\n"):
        with pytest.raises(ToolError, match="no version found"):
            WRK.version(wrong, b"")


def test_wrk_minutes_and_milliseconds_are_distinguished() -> None:
    assert values(changed("minutes"))["duration", "value"] == 60.0
    in_m = changed("slow_seconds", ("1.80s    58.54%", "1.20m    58.54%"), ("99%    1.80s", "99%    1.10m"))
    assert values(in_m)["latency", "max"] == 72.0 and values(in_m)["latency", "p99"] == 66.0
    assert values(case("nofile_64"))["latency", "mean"] == pytest.approx(0.94e-3)


@pytest.mark.parametrize("unit", ["", "S", "min", "ns", "x", "M"])
def test_wrk_unknown_unit_is_an_error(unit: str) -> None:
    with pytest.raises(ParseError, match="stdout:10: line cut or changed") as error:
        WRK.parse(changed("slow_ms", ("99%  149.66ms", f"99%  149.66{unit}")))
    assert error.value.line == 10


def test_wrk_mean_truncated_to_the_column_width_is_read() -> None:
    """print_units gives the mean 8 characters: 1000.00ms prints as 1000.00m."""
    swaps = (("    1.65s ", "1000.00m"), ("1.66s", "1.00s"), ("1.73s", "1.00s"))
    assert values(changed("slow_seconds", *swaps))["latency", "mean"] == 1.0


def test_wrk_negative_32_bit_counter_is_read_as_above_2_to_the_31() -> None:
    parsed = WRK.parse(changed("close_always", ("read 12490", "read -2147483640")))
    assert table(parsed.measurements)["errors_read", "count"].value == 2**31 + 8
    assert "counter_wrapped" in dict(parsed.doubts)


def test_wrk_error_total_is_omitted_where_classes_overlap() -> None:
    assert ("errors", "count") not in values(case("late_errors"))
    assert values(case("lua_late"))["errors", "count"] == 12


@pytest.mark.parametrize(
    ("name", "swap", "says"),
    [
        ("slow_ms", ("483 requests", "489 requests"), "155.95 does not follow from 489"),
        ("slow_ms", ("57.07KB", "57.07MB"), "18.43KB does not follow"),
        ("slow_ms", ("126.12ms", "149.80ms"), "do not ascend"),
        ("slow_ms", ("125.43ms", "151.00ms"), "do not ascend"),
        ("slow_ms", ("     75%  137.11ms\n", ""), "distribution is not complete"),
        ("bad_gateway_502", ("responses: 57434", "responses: 57435"), "impossible"),
        ("lua_clean", ("requests 132838\n", "requests 132837\n"), "132837 is not the 132838 of the text"),
        ("lua_clean", ("p90 3932us", "p90 3939us"), "3939us is not the 3.93ms of the text"),
        ("lua_clean", ("loadbook-end\n", ""), "no line like 'loadbook-end'"),
        ("lua_clean", ("p99.9 138742us\n", ""), "latency statistics are not complete"),
    ],
)
def test_contradictory_report_is_refused(name: str, swap: tuple[str, str], says: str) -> None:
    with pytest.raises(ParseError, match=says):
        WRK.parse(changed(name, swap))


def test_wrk_report_without_the_requested_lua_block_is_refused() -> None:
    text = case("lua_clean").stdout.partition(b"loadbook-begin")[0]
    assert ("latency", "p99.9") not in values(ToolOutput(text))
    with pytest.raises(ParseError, match="no line like 'loadbook-begin 1'"):
        WRK.parse(replace(case("lua_clean"), stdout=text))


def test_wrk_other_lua_output_is_ignored() -> None:
    noisy = changed("slow_ms", ("Requests/sec:", "Latency (custom): 3 ms\nRequests/sec:"))
    noisy = replace(noisy, stdout=noisy.stdout + b'{"p50": 1.5}\n50%,126120\nTransfer rate: 3\nrequests 7\n')
    assert values(noisy) == values(case("slow_ms"))


def test_wrk_parser_refuses_a_report_of_wrk2() -> None:
    with pytest.raises(ParseError, match="wrk2"):
        WRK.parse(
            changed("slow_ms", ("  Latency Distribution", "  Latency Distribution (HdrHistogram - Recorded Latency)"))
        )


def test_wrk_run_far_longer_than_requested_raises_a_doubt() -> None:
    late = changed("slow_ms", ("in 3.10s", "in 310.00m"), ("155.95", "0.03"), ("18.43KB", "3.14B"))
    assert "clock" in dict(WRK.parse(late).doubts)


@pytest.mark.parametrize("form", [*wrk.LINE_PATTERNS, *wrk.EXACT_PATTERNS], ids=lambda form: form.name)
def test_every_line_pattern_matches_its_example(form: wrk.LinePattern) -> None:
    assert form.line_regex.fullmatch(form.example)


def test_wrk_percentiles_printed_as_zero_are_left_out_with_a_doubt() -> None:
    parsed = WRK.parse(changed("slow_ms", ("90%  144.80ms", "90%    0.00us"), ("99%  149.66ms", "99%    0.00us")))
    statistics = {row.statistic for row in parsed.measurements if row.metric == "latency"}
    assert {"p50", "p75", "mean"} <= statistics and not {"p90", "p99"} & statistics
    assert "percentiles_lost" in dict(parsed.doubts)


def test_wrk_percentiles_that_are_all_zero_are_left_out_with_a_doubt() -> None:
    printed = [(50, "126.12ms"), (75, "137.11ms"), (90, "144.80ms"), (99, "149.66ms")]
    zeros = changed("slow_ms", *((f"{p}%  {value}", f"{p}%    0.00us") for p, value in printed))
    parsed = WRK.parse(zeros)
    assert {row.statistic for row in parsed.measurements if row.metric == "latency"} == {"mean", "sd", "max"}
    assert "p50, p75, p90, p99" in dict(parsed.doubts)["percentiles_lost"]


def test_wrk_row_of_a_fork_is_ignored_with_a_note() -> None:
    row = "    TTFB      25.43ms   14.06ms  50.23ms   58.59%"
    parsed = WRK.parse(changed("slow_ms", ("    Req/Sec", f"{row}\n    Req/Sec")))
    assert dict(parsed.doubts)["ignored_rows"] == "wrk itself prints no TTFB: not read"
    assert parsed.measurements == WRK.parse(changed("slow_ms")).measurements
    assert "ignored_rows" not in dict(WRK.parse(changed("slow_ms")).doubts)


def test_wrk_zero_percentile_below_a_positive_one_is_read_as_printed() -> None:
    parsed = WRK.parse(changed("slow_ms", ("50%  126.12ms", "50%    0.00us")))
    assert table(parsed.measurements)["latency", "p50"].value == 0.0
    assert "percentiles_lost" not in dict(parsed.doubts)


@pytest.mark.parametrize(("timeouts", "doubt"), [(3, "latency_censored"), (1865, "timeouts_weighted")])
def test_wrk_timeouts_raise_another_doubt_if_they_exceed_the_requests(timeouts: int, doubt: str) -> None:
    line = f"Socket errors: connect 0, read 0, write 0, timeout {timeouts}"
    parsed = WRK.parse(changed("slow_ms", ("57.07KB read\n", f"57.07KB read\n  {line}\n")))
    assert [name for name, _ in parsed.doubts if name in ("latency_censored", "timeouts_weighted")] == [doubt]


def test_report_without_its_first_lines_names_the_missing_one() -> None:
    with pytest.raises(ParseError, match="first lines are missing: none begins 'Running '"):
        WRK.parse(changed("slow_ms", ("Running 3s test @ http://127.0.0.1:18070/delay?ms=100&jitter=50\n", "")))


def test_indented_report_is_refused_with_advice_to_remove_blanks() -> None:
    text = case("slow_ms").stdout.decode().replace("\n", "\n    ")
    with pytest.raises(ParseError, match="the report is indented"):
        WRK.parse(ToolOutput(("    " + text).encode()))


def test_report_in_utf_16_is_refused_with_advice_to_convert_it() -> None:
    with pytest.raises(ParseError, match="it is UTF-16: convert it to UTF-8"):
        WRK.parse(ToolOutput(case("slow_ms").stdout.decode().encode("utf-16")))


WRK_1 = b"""Making 100000 requests to http://127.0.0.1:8080/json
  4 threads and 256 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     7.90ms    6.10ms  26.50ms   50.00%
    Req/Sec     2.90k     2.50k    7.00k    47.00%
  100000 requests in 7.25s, 13.40MB read
  Socket errors: connect 0, read 0, write 0, timeout 50
Requests/sec:  13793.10
Transfer/sec:      1.85MB
"""


def test_wrk_1_is_read_with_doubts_on_its_sampled_latency_and_its_time_outs() -> None:
    parsed = WRK.parse(ToolOutput(WRK_1))
    found = {key: row.value for key, row in table(parsed.measurements).items()}
    assert (found["requests", "count"], found["requests_per_s", "value"]) == (100_000, 13793.10)
    assert (found["latency", "mean"], found["latency", "max"]) == (pytest.approx(0.0079), pytest.approx(0.0265))
    assert found["errors_timeout", "count"] == 50 and ("errors", "count") not in found
    assert [name for name, _ in parsed.doubts] == ["latency_sampled", "timeouts_weighted"]


def test_wrk_1_without_time_outs_has_a_sum_of_errors() -> None:
    parsed = WRK.parse(ToolOutput(WRK_1.replace(b"timeout 50", b"timeout 0").replace(b"read 0", b"read 3")))
    assert table(parsed.measurements)["errors", "count"].value == 3


@pytest.mark.parametrize(("asked", "is_early"), [(100_003, False), (100_004, True)])
def test_wrk_1_stopped_early_if_its_threads_made_fewer_than_their_whole_number(asked: int, is_early: bool) -> None:
    parsed = WRK.parse(ToolOutput(WRK_1.replace(b"Making 100000", b"Making %d" % asked)))
    assert ("stopped_early" in dict(parsed.doubts)) is is_early


@pytest.mark.parametrize("place", [match.start() for match in re.finditer(rb"\d", WRK_1)])
def test_changed_digit_of_wrk_1_is_refused_or_changes_its_own_numbers(place: int) -> None:
    digit = b"%d" % ((int(WRK_1[place : place + 1]) + 3) % 10)
    whole = {key: row.value for key, row in table(WRK.parse(ToolOutput(WRK_1)).measurements).items()}
    try:
        found = values(ToolOutput(WRK_1[:place] + digit + WRK_1[place + 1 :]))
    except ParseError:
        return
    different = {key for key in whole | found if whole.get(key) != found.get(key)}
    derived = {key for key in different if key[0].startswith("errors") or key[0] in ("ok", "ok_per_s")}
    assert len(different - derived) <= 1


def test_cut_text_of_wrk_1_is_refused() -> None:
    for end in range(len(WRK_1) - 3):
        with pytest.raises(ParseError):
            WRK.parse(ToolOutput(WRK_1[:end]))


@pytest.mark.parametrize(("old", "new"), [("7.25s", "7.25m"), ("1.85MB", "1.85KB"), ("7.90ms", "7.90s")])
def test_swapped_unit_of_wrk_1_is_refused(old: str, new: str) -> None:
    with pytest.raises(ParseError):
        WRK.parse(ToolOutput(WRK_1.replace(old.encode(), new.encode())))


def test_log_with_both_first_lines_of_wrk_is_split() -> None:
    log = WRK_1 + b"$ make other\n" + case("slow_ms").stdout + WRK_1
    assert [part[:7] for part in report_files.split_reports(log)] == [b"Making ", b"Running", b"Making "]


def test_prefix_before_each_first_line_of_wrk_is_taken_off() -> None:
    for report in (WRK_1, case("slow_ms").stdout):
        (text,) = unwrap(b"".join(b"web | " + line for line in report.splitlines(keepends=True)))
        assert text.data.split(b"\n")[:9] == report.split(b"\n")[:9]


WITHOUT_UNITS = """Running 1m test @ https://10.0.0.7/
  4 threads and 200 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    812345  64021187 20111222    83.10%
    Req/Sec    70.20     30.10   240.00     67.00%
  16800 requests in 1.00m, 640.00MB read
  Socket errors: connect 12, read 0, write 0, timeout 3100
Requests/sec:    280.00
Transfer/sec:     10.67MB
"""


def test_latency_without_units_is_left_out_with_a_doubt() -> None:
    parsed = WRK.parse(ToolOutput(WITHOUT_UNITS.encode()))
    found = {key: row.value for key, row in table(parsed.measurements).items()}
    assert (found["requests", "count"], found["requests_per_s", "value"]) == (16_800, 280)
    assert (found["errors_connect", "count"], found["errors_timeout", "count"]) == (12, 3100)
    assert found["duration", "value"] == 60 and not [key for key in found if key[0] == "latency"]
    assert "(812345 64021187 20111222)" in dict(parsed.doubts)["latency_without_unit"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("812345  64021187 20111222", "812345  64021187"),
        ("812345  64021187 20111222", "8.12ms  64021187 20111222"),
        ("812345  64021187 20111222", "812345  64021187 20.11ms"),
        ("280.00", "290.00"),
        ("1.00m", "1.00s"),
    ],
)
def test_report_without_units_that_is_changed_is_refused(old: str, new: str) -> None:
    with pytest.raises(ParseError):
        WRK.parse(ToolOutput(WITHOUT_UNITS.replace(old, new).encode()))


def test_wrk2_refuses_a_latency_without_units() -> None:
    calibrated = WITHOUT_UNITS.replace("  Thread Stats", "  Thread calibration: mean lat.: 1.5ms\n  Thread Stats")
    with pytest.raises(ParseError, match="the latency has no unit"):
        base.load_tool("wrk2").parse(ToolOutput(calibrated.encode()))
