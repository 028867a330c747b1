"""h2load: what is asked of it, and the traps of its text and its log."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, h2load
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, sane_values, table, with_swaps

WEB = Target("127.0.0.2", 8080)
H2LOAD = base.load_tool("h2load")
# the table of 1.69 and later, over QUIC, as users published it
NEW_TABLE = """
                 min         max         median     p95        p99        mean         sd        +/- sd
request     :      440us      2.06ms       701us     1.40ms     1.78ms      775us       294us    79.42%
connect     :      971us      2.90ms      1.32ms     2.20ms     2.90ms     1.43ms       377us    76.56%
TTFB        :     1.48ms      3.65ms      2.13ms     2.94ms     3.65ms     2.22ms       490us    67.19%
req/s       :      22.17    36199.22       22.38   14929.18   36199.22    1777.10     6682.32    92.19%
min RTT     :       51us       841us       390us      736us      841us      410us       153us    71.88%
packets sent:         11          19          17         18         19      16.77        1.27    93.75%
"""


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "h2load" / f"1.52.0--{name}.json")


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    return with_swaps(case(name), *swaps)


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return sane_values(H2LOAD.parse(captured))


def test_command_contains_every_workload_setting() -> None:
    load = Workload(
        tool="h2load", connections=21, threads=2, headers={"X-A": 'q"', "host": "a.b"}, path="/p?a=1",
        extra=("--log-file=h2load.log",),
    )  # fmt: skip
    assert H2LOAD.command(load, WEB, 4.0) == [
        *("h2load", "--h1", "-c21", "-t2", "-D", "4s", "-H", 'X-A: q"', "-H", ":authority: a.b"),
        *("--log-file=h2load.log", "http://127.0.0.2:8080/p?a=1"),
    ]
    counted = H2LOAD.command(load.model_copy(update={"requests": 500}), WEB, 4.0)
    assert counted[4:6] == ["-n", "500"] and "-D" not in counted
    assert list(H2LOAD.expected_files(load)) == ["h2load.log"]
    assert list(H2LOAD.expected_files(Workload(tool="h2load"))) == [] and not H2LOAD.extra_files(load)


@pytest.mark.parametrize(
    ("requested", "duration_s", "says"),
    [
        ({"model": "open", "rate_per_s": 5.0}, 1, "h2load cannot make open-loop loads"),
        ({"keepalive": False}, 1, "cannot close connections"),
        ({"think_time_s": 1.0}, 1, "think_time_s"),
        ({"timeout_s": 5.0}, 1, "no time-out for requests"),
        ({"calls_per_connection": 5}, 1, "calls_per_connection"),
        ({"connections": 2, "threads": 4}, 1, "a connection for each of 4 threads"),
        ({}, 1.0005, "whole milliseconds only"),
        ({"headers": {"X-Empty": " "}}, 1, "X-Empty without a value"),
        ({"extra": ("--log-file=/tmp/l",)}, 1, "must be in the working folder"),
        ({"extra": ("-n", "5")}, 1, "-n of h2load comes from the workload"),
        ({"extra": ("--dur=7s",)}, 1, "--duration of h2load comes from the workload"),
    ],
)
def test_h2load_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], duration_s: float, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        H2LOAD.command(Workload.model_validate({"tool": "h2load"} | requested), WEB, duration_s)
    assert refusal.value.hint


def test_h2load_version_is_read() -> None:
    assert H2LOAD.version(b"h2load nghttp2/1.52.0\n", b"") == "1.52.0"
    with pytest.raises(ToolError, match="no version"):
        H2LOAD.version(b"", b"sh: h2load: not found\n")


def test_h2load_requests_per_s_includes_error_responses_and_ok_per_s_does_not() -> None:
    got = values(case("s404_h2"))
    assert got["requests_per_s", "value"] == 68136.14 and got["ok_per_s", "value"] == got["ok", "count"] == 0
    assert got["errors", "count"] == got["errors_status", "count"] == got["status_4xx", "count"] == 2000


def test_h2load_duration_excludes_warm_up() -> None:
    got = values(case("duration_D4_warm1"))
    assert got["duration", "value"] == 4 and got["ok_per_s", "value"] == 295754 / 4
    assert ("connect_time", "mean") not in got and ("ttfb", "mean") not in got  # zeros: nothing was measured


def test_h2load_table_of_later_versions_is_read() -> None:
    text = case("duration_D4").stdout.decode()
    got = values(replace(case("duration_D4"), stdout=(text[: text.index("     " * 4)] + NEW_TABLE[1:]).encode()))
    assert {s for m, s in got if m == "latency"} == {"min", "max", "p50", "p95", "p99", "mean", "sd"}
    assert got["latency", "p99"] == pytest.approx(1.78e-3) and got["ttfb", "p50"] == pytest.approx(2.13e-3)
    assert got["connect_time", "mean"] == pytest.approx(1.43e-3)


def test_h2load_unknown_columns_are_refused() -> None:
    with pytest.raises(ParseError, match="values under the columns"):
        H2LOAD.parse(changed("duration_D4", ("max         mean", "max         p42 ")))


def test_h2load_clients_that_lost_their_connection_raise_a_doubt() -> None:
    """Measured: nginx killed 1.2 s into -D 3; h2load 1.52 says 0 failed, 0 errored."""
    swaps = (
        ("4s of main duration for measurements.\nspawning", "3s of main duration for measurements.\nspawning"),
        ("finished in 4.00s, 74222.00 req/s, 16.85MB/s", "finished in 3.00s, 57344.33 req/s, 8.31MB/s"),
        ("296888 total, 296908 started, 296888 done", "172033 total, 172053 started, 172033 done"),
        ("296888 succeeded", "172033 succeeded"),
        ("296888 2xx", "172033 2xx"),
        ("67.39MB (70659344)", "24.94MB (26149016)"),
        ("3146.56     4285.86     3710.97      572.71", "5852.25     8334.61     7083.07     1183.86"),
    )  # fmt: skip
    parsed = H2LOAD.parse(changed("duration_D4", *swaps))
    assert [name for name, _ in parsed.doubts] == ["connections_lost"]
    assert table(parsed.measurements)["errors", "count"].value == 0


def test_h2load_timeouts_are_counted_as_errors() -> None:
    """-N with -n: errored has the time-outs; with -D, h2load leaves them out of errored."""
    old = "40 total, 40 started, 40 done, 40 succeeded, 0 failed, 0 errored, 0 timeout"
    zero = ("11.52 req/s, 1.36KB/s", "0.00 req/s, 0B/s"), ("40 2xx", "0 2xx"), ("4.73KB (4840) total", "0B (0) total")
    idle = (
        "      1.52s       1.80s       1.65s     74.02ms    62.50%",
        "        0us         0us         0us         0us     0.00%",
    )
    new = (old, "40 total, 10 started, 0 done, 0 succeeded, 40 failed, 40 errored, 10 timeout")
    got = values(changed("slow_1500ms", new, *zero, idle))
    assert (got["errors", "count"], got["errors_timeout", "count"], got["errors_other", "count"]) == (40, 10, 30)
    parsed = H2LOAD.parse(changed("duration_nothing", ("0 errored, 0 timeout", "0 errored, 5 timeout")))
    rows = table(parsed.measurements)
    assert rows["errors", "count"].value == rows["errors_timeout", "count"].value == 5
    assert rows["errors_other", "count"].value == 0 and "connections_lost" in dict(parsed.doubts)


def test_h2load_error_response_that_is_cut_off_is_not_counted_twice() -> None:
    """A status was read, then the connection was lost: 10 of the 200 are errored and 5xx."""
    old = "2000 done, 1800 succeeded, 200 failed, 0 errored"
    new = "1990 done, 1800 succeeded, 200 failed, 10 errored"
    got = values(changed("mix500", (old, new), ("59271.55", "58981.00")))
    assert ("errors", "count") not in got and got["errors_status", "count"] == 200 and got["requests", "count"] == 1990


def test_h2load_log_gives_exact_percentiles() -> None:
    got = values(case("logfile"))
    assert got["latency", "p50"] == pytest.approx(65e-6) and got["latency", "p99.9"] == pytest.approx(306e-6)
    without = H2LOAD.parse(replace(case("logfile"), files={}))
    assert ("latency", "p50") not in table(without.measurements) and [name for name, _ in without.doubts] == [
        "log_missing"
    ]


def test_h2load_log_lines_of_the_warm_up_are_skipped() -> None:
    """h2load opens its log with O_APPEND."""
    log = case("logfile").files["req.log"]
    warmed = replace(case("logfile"), files={"req.log": b"1\t200\t9000000\n" * 30 + log})
    assert values(warmed) == values(case("logfile"))


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (lambda log: log[:-1], "req.log:499: 499 whole lines for the 500 requests"),
        (lambda log: log[:-20], "whole lines"),
        (lambda log: log.replace(b"\t258\n", b"\t\n", 1), "req.log:1: not a start, a status and a duration"),
        (lambda log: log.replace(b"\t200\t", b"\t-1\t", 1), "499 answers, but 500"),
        (lambda log: log.replace(b"\t200\t", b"\t404\t", 1), "statuses"),
        (lambda log: log.replace(b"\t306\n", b"\t906\n", 1), "max 906 us is not the 306us of the report"),
    ],
)
def test_h2load_log_of_another_run_is_refused(log: object, says: str) -> None:
    data = log(case("logfile").files["req.log"])
    with pytest.raises(ParseError, match=says):
        H2LOAD.parse(replace(case("logfile"), files={"req.log": data}))


def test_h2load_log_name_is_taken_from_the_command() -> None:
    assert h2load.log_file_name(("h2load", "--log-file", "a/b.log", "http://h/")) == "b.log"
    assert h2load.log_file_name(("h2load", "http://h/")) is h2load.log_file_name(("h2load", "--log-file=")) is None


@pytest.mark.parametrize(
    ("name", "swap", "says"),
    [
        ("mix500", ("1800 succeeded", "1801 succeeded"), "do not go with the total"),
        ("mix500", ("59271.55", "59471.55"), "59471.55 does not follow from 2000"),
        ("mix500", ("6.95MB/s", "7.05MB/s"), "7.05MB does not follow"),
        ("mix500", ("(245800)", "(245900)"), "245900 bytes are not 240.04KB"),
        ("mix500", ("       12us      2.60ms       146us", "       12us      2.60ms      4.60ms"), "do not ascend"),
        ("mix500", ("time for request:", "time_for_request:"), "report is not complete: no line like"),
        ("mix500", ("finished in 33.74ms", "finished in 33.74m"), "line cut or changed"),
        ("duration_D4", ("finished in 4.00s, 74222.00", "finished in 4.00s, 74022.00"), "does not follow"),
    ],
)
def test_contradictory_report_is_refused(name: str, swap: tuple[str, str], says: str) -> None:
    with pytest.raises(ParseError, match=says):
        H2LOAD.parse(changed(name, swap))


@pytest.mark.parametrize("form", h2load.LINE_PATTERNS, ids=lambda form: form.name)
def test_every_line_pattern_matches_its_example(form: h2load.LinePattern) -> None:
    assert form.line_regex.fullmatch(form.example) or form.name in ("connect", "ttfb", "clients")


def test_h2load_log_gives_rates_per_second() -> None:
    found = H2LOAD.parse(case("logfile")).samples
    assert sum(s.value for s in found if s.metric == "ok_per_s") == 500
    assert {(s.series, s.x_unit, s.unit) for s in found if s.metric != "errors"} == {("ended", "s", "1/s")}


def test_h2load_status_codes_that_include_the_warm_up_raise_a_doubt() -> None:
    differ = changed("duration_D4_warm1", ("status codes: 295754 2xx", "status codes: 369693 2xx"))
    assert "counts_differ" in dict(H2LOAD.parse(differ).doubts)
    assert "counts_differ" not in dict(H2LOAD.parse(case("duration_D4_warm1")).doubts)


def test_status_codes_of_answers_that_were_cut_are_a_doubt() -> None:
    text = """finished in 2.00s, 10.00 req/s, 4.00KB/s
requests: 40 total, 40 started, 20 done, 20 succeeded, 20 failed, 20 errored, 0 timeout
status codes: 38 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 8.00KB (8192) total, 700B (700) headers (space savings 60.00%), 6.00KB (6144) data
                     min         max         mean         sd        +/- sd
time for request:     1.10ms     90.00ms     12.00ms      8.00ms    80.00%
time for connect:     3.00ms      4.00ms      3.50ms       500us    50.00%
time to 1st byte:     5.00ms      6.00ms      5.50ms       500us    50.00%
req/s           :       5.00       5.00        5.00        0.00   100.00%
"""
    head = "starting benchmark...\nspawning thread #0: 2 total client(s). 40 total requests\n"
    output = ToolOutput((head + text).encode())
    found = values(output)
    assert (found["requests", "count"], found["ok", "count"], found["errors", "count"]) == (20, 20, 20)
    assert dict(H2LOAD.parse(output).doubts)["counts_differ"].startswith("38 status codes for 20 finished requests")
