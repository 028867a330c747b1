"""httperf: what is asked of it, and the traps of its text."""

from __future__ import annotations

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base, httperf
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, sane_values, with_swaps

WEB = Target("127.0.0.2", 8080)
HTTPERF = base.load_tool("httperf")


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "httperf" / f"0.9.0--{name}.json")


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    return with_swaps(case(name), *swaps)


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return sane_values(HTTPERF.parse(captured))


def load(**requested: object) -> Workload:
    return Workload.model_validate({"tool": "httperf", "model": "open", "rate_per_s": 1000.0} | requested)


def test_httperf_request_rate_is_converted_to_a_connection_rate() -> None:
    assert HTTPERF.command(load(calls_per_connection=5, path="/i?a=1", timeout_s=0.5, extra=("--hog",)), WEB, 4.0) == [
        *(
            "httperf",
            "--server",
            "127.0.0.2",
            "--port",
            "8080",
            "--uri",
            "/i?a=1",
            "--rate",
            "200",
            "--num-conns",
            "800",
        ),
        *("--num-calls", "5", "--timeout", "0.5", "--hog"),
    ]
    counted = HTTPERF.command(load(calls_per_connection=5, requests=500), WEB, 4.0)
    assert counted[counted.index("--num-conns") + 1] == "100"
    assert "--ssl" in HTTPERF.command(load(), Target("127.0.0.2", 443, "https"), 1)
    assert not HTTPERF.extra_files(load()) and not HTTPERF.expected_files(load())


def test_httperf_poisson_arrivals_are_exponential_periods() -> None:
    argv = HTTPERF.command(load(arrivals="poisson", calls_per_connection=5), WEB, 4.0)
    assert argv[argv.index("--period") + 1] == "e0.005" and "--rate" not in argv
    assert argv[argv.index("--num-conns") + 1] == "800"
    with pytest.raises(ToolError, match="no users who wait"):
        HTTPERF.command(load(arrivals="users"), WEB, 4.0)


def test_httperf_headers_become_one_escaped_option() -> None:
    argv = HTTPERF.command(load(headers={"Host": "foo", "X-A": r"a\b", "Y": ""}, keepalive=False), WEB, 1)
    assert argv[-4:] == ["--server-name", "foo", "--add-header", r"X-A: a\\b\nY: \nConnection: close\n"]


@pytest.mark.parametrize(
    ("requested", "target", "duration_s", "says"),
    [
        ({"model": "closed", "rate_per_s": None}, WEB, 1, "cannot make closed-loop loads"),
        ({"threads": 2}, WEB, 1, "one thread"),
        ({"keepalive": False, "calls_per_connection": 2}, WEB, 1, "contradicts"),
        ({}, Target("::1", 80), 1, "IPv4 only"),
        ({"requests": 7, "calls_per_connection": 2}, WEB, 1, "cannot make 7 requests, 2 on each"),
        ({"rate_per_s": 0.4}, WEB, 1, "would start no connection"),
        ({"extra": ("--num-conn", "5")}, WEB, 1, "--num-conns of httperf comes from"),
        ({"extra": ("--rate=7",)}, WEB, 1, "--rate of httperf comes from"),
    ],
)
def test_httperf_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], target: Target, duration_s: float, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        HTTPERF.command(load(**requested), target, duration_s)
    assert refusal.value.hint
    if "model" in requested:
        assert "wrk" in refusal.value.hint


def test_httperf_version_probe_sends_no_load() -> None:
    """-V alone goes on to load localhost:80 in httperf 0.9.0; -h ends it."""
    assert HTTPERF.version_argv == ("httperf", "-V", "-h")
    assert HTTPERF.version(case("version").stdout, b"") == "0.9.0"
    with pytest.raises(ToolError, match="no version"):
        HTTPERF.version(case("help").stdout, b"")


def test_httperf_offered_rate_is_computed_from_the_echoed_command() -> None:
    assert values(case("r8000_n40000"))["offered_per_s", "value"] == 40_000
    assert values(case("period_e"))["offered_per_s", "value"] == pytest.approx(200)
    assert values(case("period_u"))["offered_per_s", "value"] == pytest.approx(50)
    assert values(case("wsess"))["offered_per_s", "value"] == 500
    assert values(case("headers"))["offered_per_s", "value"] == 20  # its header text holds --rate=999
    for closed in ("sequential", "wsesslog"):
        assert ("offered_per_s", "value") not in values(case(closed))


def test_httperf_verbose_samples_and_histogram_are_parsed() -> None:
    samples = HTTPERF.parse(case("verbose")).samples
    assert [(s.series, s.x, s.value) for s in samples] == [("reply_rate", 5.0, 120.0), ("reply_rate", 10.0, 120.0)]
    assert [s.x for s in HTTPERF.parse(case("client_1_of_2")).samples] == [5.0]
    lives = [s for s in HTTPERF.parse(case("verbose_verbose")).samples if s.series == "lifetime"]
    assert sum(s.value for s in lives) == 120 and lives[0][2:] == (0.0755, "s", 1, "1")


def test_httperf_reply_rate_without_samples_is_absent() -> None:
    assert values(case("close_10"))["requests_per_s", "value"] == pytest.approx(3722 / 4.996)
    assert {s for m, s in values(case("close_10")) if m == "requests_per_s"} == {"value"}
    assert {s for m, s in values(case("fcgi")) if m == "requests_per_s"} == {"value", "mean", "min", "max"}


def test_httperf_zero_duration_gives_no_rate() -> None:
    """A test of 0 s prints inf and nan where it divides."""
    none = changed(
        "one_one",
        *(("3401.7 conn/s", "inf conn/s"), ("3401.7 req/s", "inf req/s"), ("996.6 KB/s (8.2", "inf KB/s (inf")),
        ("(user 14.3% system 0.0% total 14.3%)", "(user -nan% system -nan% total -nan%)"),
    )
    assert {m for m, _ in values(none)} & {"requests_per_s", "ok_per_s", "bytes_per_s", "driver_cpu"} == set()
    assert values(none)["requests", "count"] == 1


def test_httperf_report_without_connections_has_zeros() -> None:
    none = changed(
        "connrefused",
        *(
            ("connections 300 requests", "connections 0 requests"),
            ("2.990 s", "0.000 s"),
            ("100.3 conn/s", "-nan conn/s"),
        ),
        ("0.0 req/s", "-nan req/s"),
        *(("Errors: total 300", "Errors: total 0"), ("connrefused 300", "connrefused 0")),
    )
    assert values(none)["requests_per_s", "value"] == 0 and values(none)["errors", "count"] == 0


def test_httperf_standard_deviation_of_nan_is_left_out() -> None:
    odd = values(changed("s302", ("median 0.5 stddev 0.3", "median 0.5 stddev -nan")))
    assert ("connection_time", "sd") not in odd and odd["connection_time", "mean"] == pytest.approx(0.2e-3)


@pytest.mark.parametrize(
    ("name", "swap", "says"),
    [
        ("s302", ("3xx=800", "3xx=801"), "801 replies by status, 800 in all"),
        ("s302", ("Errors: total 0", "Errors: total 1"), "do not add up"),
        ("s302", ("requests 800", "requests 801"), "400.9 does not follow from 801"),
        ("s302", ("connections 400 ", "connections 40 "), "200.5 does not follow"),
        ("s302", ("min 0.1 avg 0.2", "min 0.3 avg 0.2"), "do not ascend"),
        ("s302", ("(total 343.0)", "(total 344.0)"), "do not add up"),
        ("s302", ("Reply rate [replies/s]:", "Reply rate:"), "no line like 'Reply rate"),
        ("s302", ("avg 0.2 max 4.1", "avg 0,2 max 4,1"), "line cut or changed"),
        ("s302", ("test-duration 1.996 s", "test-duration -1.996 s"), "line cut or changed"),
        ("wsess", ("Session failtime [s]: 0.0\n", ""), "no session block"),
        ("wsess_fail", ("histogram: 5 0 1", "histogram: 5 0 2"), "number of sessions"),
        ("verbose", ("reply-rate = 120.0   \nM", "M"), "1 reply-rate lines, 2 samples"),
    ],
)
def test_contradictory_report_is_refused(name: str, swap: tuple[str, str], says: str) -> None:
    with pytest.raises(ParseError, match=says):
        HTTPERF.parse(changed(name, swap))


@pytest.mark.parametrize("form", httperf.LINE_PATTERNS, ids=lambda form: form.name)
def test_every_line_pattern_matches_its_example(form: httperf.LinePattern) -> None:
    assert form.line_regex.fullmatch(form.example)


def test_httperf_median_below_the_minimum_is_left_out() -> None:
    long = ("min 0.1 avg 0.2 max 4.1 median 0.5", "min 415642.2 avg 415700.0 max 415800.0 median 0.0")
    got = values(changed("s302", long))
    assert ("connection_time", "p50") not in got and got["connection_time", "min"] == pytest.approx(415.6422)


def test_httperf_median_a_little_below_the_minimum_is_the_middle_of_a_bin_and_kept() -> None:
    got = values(changed("s302", ("min 0.1 avg 0.2 max 4.1 median 0.5", "min 1.6 avg 1.7 max 4.1 median 1.5")))
    assert got["connection_time", "p50"] == pytest.approx(0.0015)


def test_httperf_run_interrupted_before_any_connection_ended_raises_a_doubt() -> None:
    swaps = (
        ("requests 800 replies 800", "requests 650 replies 600"),
        ("Connection length [replies/conn]: 2.000", "Connection length [replies/conn]: 0.000"),
        ("Request rate: 400.9 req/s (2.5 ms/req)", "Request rate: 325.7 req/s (3.1 ms/req)"),
        ("3xx=800", "3xx=600"),
    )
    assert "stopped_early" in dict(HTTPERF.parse(changed("s302", *swaps)).doubts)
    assert "stopped_early" not in dict(HTTPERF.parse(case("close_10")).doubts)
