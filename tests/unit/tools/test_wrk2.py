"""wrk2: what is asked of it, and the traps of its text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, wrk2
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, good, table, with_swaps

WEB = Target("127.0.0.2", 8080)
WRK2 = base.load_tool("wrk2")
OPEN = {"tool": "wrk2", "model": "open", "rate_per_s": 2000.0}


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "wrk2" / f"4.0.0--{name}.json")


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    return with_swaps(case(name), *swaps)


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return {key: row.value for key, row in table(WRK2.parse(captured).measurements).items()}


def test_command_contains_every_workload_setting() -> None:
    load = Workload.model_validate(
        OPEN
        | {"connections": 20, "threads": 2, "timeout_s": 3, "keepalive": False, "headers": {"X-A": "q"}, "path": "/p"}
    )
    assert WRK2.command(load, WEB, 14.0) == [
        *("wrk2", "-t2", "-c20", "-R2000", "-d14s", "--timeout", "3s", "-L", "-U"),
        *("-H", "X-A: q", "-H", "Connection: close", "http://127.0.0.2:8080/p"),
    ]
    assert not WRK2.extra_files(load) and not WRK2.expected_files(load)


@pytest.mark.parametrize(
    ("requested", "duration_s", "says"),
    [
        ({"model": "closed", "rate_per_s": None}, 12, "wrk2 cannot make closed-loop loads"),
        ({"rate_per_s": 0.5}, 12, "whole requests per second only, not 0.5"),
        ({}, 12.5, "whole seconds only"),
        ({"connections": 10, "threads": 3}, 12, "10 is not a multiple of"),
        ({"requests": 5000}, 12, "cannot end after a number of requests"),
        ({"calls_per_connection": 5}, 12, "calls_per_connection"),
        ({"extra": ("-R5",)}, 12, "-R of wrk2 comes from the workload"),
    ],
)
def test_wrk2_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], duration_s: float, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        WRK2.command(Workload.model_validate(OPEN | requested), WEB, duration_s)
    assert refusal.value.hint


def test_wrk2_version_is_read_and_wrk_is_refused() -> None:
    assert WRK2.version(case("version").stdout, b"") == "4.0.0"
    for wrong, says in ((b"wrk 4.0.0 [epoll] Copyright\n  -c, --connections\n", "it is wrk"), (b"", "printed")):
        with pytest.raises(ToolError, match=f"no version found: .*{says}") as refusal:
            WRK2.version(wrong, b"")
        assert "build github.com/giltene/wrk2" in (refusal.value.hint or "")


def test_wrk2_corrected_and_uncorrected_latency_are_separate() -> None:
    got = values(case("freeze_1s"))
    assert got["latency_intended", "p90"] == pytest.approx(0.61645) and got["service_time", "p90"] == pytest.approx(
        21e-6
    )
    assert ("latency", "p90") not in got and ("service_time", "p90") not in values(case("R2000_d14_latency"))


def test_wrk2_latency_spectra_are_samples_in_seconds() -> None:
    samples = WRK2.parse(case("R1000_d13_U")).samples
    assert {(s.series, s.metric, s.x_unit, s.unit) for s in samples} == {
        ("spectrum", "latency_intended", "s", "1"),
        ("spectrum", "service_time", "s", "1"),
    }
    intended = [(s.x, s.value) for s in samples if s.metric == "latency_intended"]
    assert intended[0] == (pytest.approx(36e-6), 1) and intended[-1] == (pytest.approx(4.879e-3), 2948)
    assert intended == sorted(set(intended)) and len({x for x, _ in intended}) == len(intended)


def test_wrk2_report_without_latency_option_has_only_mean_sd_and_maximum() -> None:
    text = case("big_512k").stdout.decode()
    head, rest = text.split("  Latency Distribution")
    short = ToolOutput((head + rest[rest.index("  2989 requests") :]).encode())
    got = values(short)
    assert {s for m, s in got if m == "latency_intended"} == {"mean", "sd", "max"}
    assert got["latency_intended", "mean"] == pytest.approx(1.38e-3) and ("offered_per_s", "value") not in got
    with pytest.raises(ParseError, match="no report of wrk but one of wrk2"):
        base.load_tool("wrk").parse(short)
    with pytest.raises(ParseError, match="the latency distribution is not complete"):
        WRK2.parse(replace(short, argv=case("big_512k").argv))


def test_wrk2_parser_refuses_a_report_of_wrk() -> None:
    for path in good("wrk"):
        with pytest.raises(ParseError, match="no report of wrk2"):
            WRK2.parse(replace(capture(path), argv=("wrk2", "-R5", "http://h/")))


def test_wrk2_without_requests_after_calibration_has_no_latency() -> None:
    text = case("slow_seconds").stdout.decode()
    start, end = text.index("    1530.879"), text.index("#[Buckets")
    empty = text[:start] + "       0.000     1.000000            0          inf\n"
    empty += "#[Mean    =         -nan, StdDeviation   =         -nan]\n"
    empty += "#[Max     =        0.000, Total count    =            0]\n" + text[end:]
    row = "    Latency     1.66s    68.85ms   1.79s    70.00%"
    assert row in empty
    empty = empty.replace(row, "    Latency      -nan      -nan   0.00us    0.00%")
    assert not [
        key for key in values(replace(case("slow_seconds"), stdout=empty.encode())) if key[0] == "latency_intended"
    ]


@pytest.mark.parametrize(
    ("words", "rate"),
    [
        (("-R2000",), 2000), (("-R", "2k"), 2000), (("--rate=1M",), 1e6), (("--ra", "7"), 7), (("-LUR5",), 5),
        (("-R1", "-R2"), 2), (("-R", "1.5k"), None), (("-d5",), None), (("-x", "-R5"), None),
    ],
)  # fmt: skip
def test_wrk2_requested_rate_is_parsed_as_wrk2_parses_it(words: tuple[str, ...], rate: float | None) -> None:
    offered = wrk2.offered_rate(("wrk2", *words, "http://h/"))
    assert (offered and offered[0]) == rate


def test_wrk2_timeouts_are_not_added_to_a_total_of_errors() -> None:
    parsed = WRK2.parse(case("server_killed_midrun"))
    rows = table(parsed.measurements)
    assert rows["errors_timeout", "count"].value == 20 and ("errors", "count") not in rows
    assert "timeouts_weighted" in dict(parsed.doubts)


def test_wrk2_thread_that_did_not_finish_calibration_raises_a_doubt() -> None:
    line = "  Thread calibration: mean lat.: 0.840ms, rate sampling interval: 10ms\n"
    doubts = dict(WRK2.parse(changed("R1000_d13_U", (line, ""))).doubts)
    assert doubts["too_short"].startswith("1 of 2 threads")


@pytest.mark.parametrize(
    ("name", "swap", "says"),
    [
        ("batch_B", ("6000 requests", "6010 requests"), "does not follow from 6010"),
        ("batch_B", (" 90.000%    1.55ms", " 90.000%    1.59ms"), "1.59ms for 90.000 % is not what the spectrum"),
        ("batch_B", (" 99.000%    2.82ms\n", ""), "no line like"),
        ("batch_B", ("#[Mean    =        0.855", "#[Mean    =        0.955"), "0.955 ms is not the 0.86ms"),
        ("batch_B", ("#[Max     =        4.916", "#[Max     =        4.906"), "4.906 ms is not the 4.92ms"),
        ("batch_B", ("       4.919     1.000000          986          inf\n", ""), "does not end with all requests"),
        ("batch_B", ("0.290     0.100000          100         1.11", "0.290     0.100000"), "row of the"),
        ("batch_B", ("       0.290     0.100000 ", "       9.290     0.100000 "), "rows of the spectrum do not ascend"),
        ("batch_B", ("Total count    =          986", "Total count    =          987"), "does not end with all"),
        ("R1000_d13_U", ("(HdrHistogram - Recorded", "(HdrHistogram - Other"), "not complete|no line like"),
    ],
)  # fmt: skip
def test_contradictory_report_is_refused(name: str, swap: tuple[str, str], says: str) -> None:
    with pytest.raises(ParseError, match=says):
        WRK2.parse(changed(name, swap))


def test_wrk2_more_latencies_than_requests_are_refused() -> None:
    swaps = (("2989 requests in 3.00s", "2980 requests in 2.99s"), ("995.20", "996.66"), ("497.85MB", "500.00MB"))
    with pytest.raises(ParseError, match="do not go with 2980"):
        WRK2.parse(changed("big_512k", *swaps))


@pytest.mark.parametrize("form", wrk2.BLOCK_PATTERNS, ids=lambda form: form.name)
def test_every_line_pattern_matches_its_example(form: wrk2.LinePattern) -> None:
    assert form.line_regex.fullmatch(form.example)


def test_wrk2_mean_latency_longer_than_the_run_is_refused() -> None:
    text = case("slow_seconds").stdout.decode()
    lines = [
        "  833071 requests in 1.25ms, 1.00GB read" if " requests in " in line else
        "Requests/sec: 666456800.00" if line.startswith("Requests/sec:") else
        "Transfer/sec:    800.00GB" if line.startswith("Transfer/sec:") else line
        for line in text.splitlines()
    ]  # fmt: skip
    with pytest.raises(ParseError, match="impossible: a mean latency of"):
        WRK2.parse(ToolOutput("\n".join(lines).encode()))
