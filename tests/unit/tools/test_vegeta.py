"""vegeta: command, targets file, results as CSV and as JSON lines, reports in JSON, and doubts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from loadbook.tools.vegeta import offered_per_s
from tool_captures import FIXTURES, capture, values

VEGETA = base.load_tool("vegeta")
TARGET = Target("192.0.2.1", 8080)
ROW = b"1795383688999650536,200,530041,0,12,,,,0,GET,http://192.0.2.1/a?b=1,\n"
JSON_ROW = (
    b'{"attack":"","seq":0,"code":200,"timestamp":"2026-11-22T21:41:28.999650536Z","latency":530041,"bytes_out":0,'
    b'"bytes_in":12,"error":"","body":"","method":"GET","url":"http://192.0.2.1/a?b=1","headers":{}}\n'
)


def load(**changes: object) -> Workload:
    return Workload.model_validate({"tool": "vegeta", "model": "open", "rate_per_s": 200, "path": "/a"} | changes)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "vegeta" / f"12.13.0--{name}.json")


def attack(stdout: bytes, *options: str) -> ToolOutput:
    return ToolOutput(stdout, argv=("sh", "vegeta.sh", "http://192.0.2.1/a", *options))


def test_open_load_has_a_rate_and_as_many_workers_as_it_needs() -> None:
    assert VEGETA.command(load(connections=20, timeout_s=3), TARGET, 2.5) == [
        *("sh", "vegeta.sh", "http://192.0.2.1:8080/a", "-rate=200/1s", "-duration=2.5s", "-timeout=3s"),
        *("-workers=20", "-redirects=-1", "-max-body=0", "-http2=false"),
    ]


def test_open_load_adds_workers_up_to_the_largest_number_of_connections() -> None:
    argv = VEGETA.command(load(connections=8, max_connections=40), TARGET, 2)
    assert {"-workers=8", "-max-workers=40"} <= set(argv)
    assert not any(word.startswith("-max-workers") for word in VEGETA.command(load(connections=8), TARGET, 2))


def test_closed_load_has_as_many_workers_as_connections() -> None:
    argv = VEGETA.command(load(model="closed", rate_per_s=None, connections=8, keepalive=False), TARGET, 2)
    assert {"-rate=0", "-workers=8", "-max-workers=8", "-keepalive=false"} <= set(argv)


def test_tls_certificates_are_not_checked_and_http2_is_only_used_on_request() -> None:
    argv = VEGETA.command(load(extra=("-http2=true",), headers={"X-A": "b c"}), TARGET._replace(scheme="https"), 2)
    assert {"-insecure", "-header=X-A: b c", "-http2=true"} <= set(argv) and "-http2=false" not in argv


@pytest.mark.parametrize(("rate_per_s", "text"), [(2.5, "5/2s"), (200 / 3, "200/3s"), (1e6, "1000000/1s")])
def test_rate_is_whole_requests_in_whole_seconds(rate_per_s: float, text: str) -> None:
    argv = VEGETA.command(load(rate_per_s=rate_per_s), TARGET, 2)
    assert f"-rate={text}" in argv
    assert offered_per_s(argv) == pytest.approx(rate_per_s)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate_per_s": 1e-5}, "evenly"),
        ({"threads": 2}, "threads"),
        ({"requests": 500}, "number of requests"),
        ({"extra": ("-max-workers=3",)}, "-max-workers"),
        ({"extra": ("-key", "key.pem")}, "a login"),
        ({"plan": "t.txt", "plan_text": "GET /a\n"}, "begin with http://"),
        ({"plan": "t.txt", "plan_text": "POST http://a/\n@body.json\n"}, "other files"),
        ({"plan": "t.txt", "plan_text": "GET https://a/\n"}, "begin with http://"),
    ],
)
def test_load_that_vegeta_cannot_make_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError, match=words):
        VEGETA.command(load(**changes), TARGET, 2)


@pytest.mark.parametrize(
    "text",
    [
        "# two pages\nGET http://shop.example/a\nX-A: b\n\nPOST http://shop.example:81/b\n",
        '{"method": "GET", "url": "http://shop.example/a"}\n{"method": "GET", "url": "http://shop.example:81/b"}\n',
    ],
)
def test_hosts_of_a_targets_file_are_connected_to_the_target(text: str) -> None:
    own = load(plan="t.txt", plan_text=text)
    argv = VEGETA.command(own, TARGET, 2)
    assert argv[2] == "" and [word for word in argv if word.startswith("-connect-to")] == [
        "-connect-to=shop.example:80:192.0.2.1:8080",
        "-connect-to=shop.example:81:192.0.2.1:8080",
    ]
    assert ("-format=json" in argv) == text.startswith("{")
    assert VEGETA.extra_files(own)["targets.txt"] == text.encode()


def test_rows_in_csv_and_in_json_give_the_same_numbers() -> None:
    both = [VEGETA.parse(attack(rows, "-rate=100", "-duration=0")) for rows in (ROW, JSON_ROW)]
    assert both[0] == both[1]
    assert values(both[0])["service_time", "p50"] == 0.00053


def test_latency_from_the_intended_start_has_the_lateness_of_the_request() -> None:
    second = ROW.replace(b"688999650536", b"689109650536").replace(b",0,GET", b",1,GET")  # due 10 ms after, 110 late
    third = ROW.replace(b"688999650536", b"689019650536").replace(b",0,GET", b",2,GET")
    found = values(VEGETA.parse(attack(ROW + second + third, "-rate=100", "-duration=0")))
    assert found["latency_intended", "max"] == pytest.approx(0.10053)
    assert found["latency_intended", "p50"] == found["service_time", "max"] == pytest.approx(0.00053)


def test_attempts_without_an_answer_have_a_class_and_no_time() -> None:
    failed = (
        b'1795383688999650536,0,99,0,0,"Get ""http://a/"": dial tcp 0.0.0.0:0->192.0.2.1:80: connect: %s",,,1,GET,u,\n'
    )
    refused, full = (failed % text for text in (b"connection refused", b"cannot assign requested address"))
    found = values(VEGETA.parse(attack(ROW + refused + full.replace(b",1,GET", b",2,GET"))))
    assert found["requests", "count"] == 1 and found["errors", "count"] == 2
    assert found["errors_connect", "count"] == found["errors_driver", "count"] == 1
    assert found["service_time", "min"] == found["service_time", "max"]


def test_cut_row_is_left_out_with_a_doubt_and_a_broken_one_is_refused() -> None:
    parsed = VEGETA.parse(attack(ROW + ROW[:40]))
    assert [name for name, _ in parsed.doubts] == ["torn"] and parsed.rejected == {"torn": 1}
    assert values(parsed)["requests", "count"] == 1
    for broken in (ROW.replace(b"200,530041", b"200,x"), ROW[:40] + b"\n", b"hello\n", JSON_ROW):
        with pytest.raises(ParseError, match="vegeta: stdout:2: not a row of vegeta's results"):
            VEGETA.parse(attack(ROW + broken))
    with pytest.raises(ParseError, match=r"vegeta: stdout:2: .*impossible"):
        VEGETA.parse(attack(ROW + ROW.replace(b",200,", b",42,")))
    for broken in (JSON_ROW.replace(b'"code":200', b'"code":"x"'), JSON_ROW.replace(b'"seq":0,', b""), ROW):
        with pytest.raises(ParseError, match="vegeta: stdout:2: not a row of vegeta's results"):
            VEGETA.parse(attack(JSON_ROW + broken))


def test_rows_with_bodies_longer_than_a_field_of_pythons_csv_are_read() -> None:
    long = ROW.replace(b",12,,,,", b",12,," + b"QUJD" * 50_000 + b",,")
    assert values(VEGETA.parse(attack(long + long.replace(b",0,GET", b",1,GET"))))["requests", "count"] == 2
    with pytest.raises(ParseError, match="vegeta: stdout:2: not a row of vegeta's results"):
        VEGETA.parse(attack(long + long.replace(b"200,530041", b"200,x")))


def test_rows_of_several_attacks_are_refused_and_missing_ones_are_doubtful() -> None:
    with pytest.raises(ParseError, match="request 0 is there twice"):
        VEGETA.parse(attack(ROW + ROW))
    parsed = VEGETA.parse(attack(ROW + ROW.replace(b",0,GET", b",3,GET")))
    assert [name for name, _ in parsed.doubts] == ["lost"] and "2 of the first 4 requests" in parsed.doubts[0][1]


def test_binary_results_are_refused_if_they_are_cut_and_read_beside_other_files() -> None:
    output = case("gob")
    with pytest.raises(ParseError, match=r"vegeta: stdout: byte \d+: the file ends within the result"):
        VEGETA.parse(replace(output, stdout=output.stdout[:-1]))
    beside = replace(output, stdout=b"", files={"results.gob": output.stdout})
    assert VEGETA.parse(beside) == VEGETA.parse(output)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda report: report.pop("wait"), "no 'wait'"),
        (lambda report: report.pop("earliest"), "no 'earliest'"),
        (lambda report: report["latencies"].pop("99th"), "missing or no whole number"),
        (lambda report: report.update(requests=601), "do not add up"),
        (lambda report: report.update(success=0.5), "success is 0.5"),
        (lambda report: report.update(rate=250.0), "rate does not follow"),
        (lambda report: report.update(wait=10**9), "do not lead"),
        (lambda report: report["latencies"].update({"50th": 10**12}), "do not ascend"),
        (lambda report: report.update(earliest="now"), "no time"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(change, words: str) -> None:
    output = case("clean_json")
    report = json.loads(output.stdout)
    change(report)
    with pytest.raises(ParseError, match=words):
        VEGETA.parse(replace(output, stdout=json.dumps(report, separators=(",", ":")).encode()))


def test_report_of_vegeta_5_has_no_begin_no_end_no_minimum_and_no_p90() -> None:
    report = (
        b'{"latencies":{"mean":4100000,"50th":3900000,"95th":7000000,"99th":12000000,"max":30000000},"bytes_in":'
        b'{"total":30000,"mean":100},"bytes_out":{"total":0,"mean":0},"duration":2990000000,"wait":4000000,"requests":'
        b'300,"rate":100.33444816053512,"success":1,"status_codes":{"200":300},"errors":[]}'
    )
    parsed = VEGETA.parse(ToolOutput(report))
    found = values(parsed)
    assert parsed.span is None and parsed.doubts == () and found["duration", "value"] == pytest.approx(2.994)
    assert found["requests", "count"] == found["ok", "count"] == 300
    assert {name for metric, name in found if metric == "service_time"} == {"mean", "p50", "p95", "p99", "max"}
    assert found["service_time", "mean"] == 0.0041 and found["service_time", "max"] == 0.03


def test_cut_report_and_several_reports_are_refused() -> None:
    output = case("clean_json")
    with pytest.raises(ParseError, match="not complete"):
        VEGETA.parse(replace(output, stdout=output.stdout[:300]))
    with pytest.raises(ParseError, match="two in one output"):
        VEGETA.parse(replace(output, stdout=output.stdout * 2))


def test_attack_that_was_stopped_or_fell_behind_its_rate_is_doubtful() -> None:
    output = case("clean_json")
    stopped = VEGETA.parse(replace(output, argv=("-rate=300", "-duration=10s")))
    assert [name for name, _ in stopped.doubts] == ["stopped_early"]
    behind = VEGETA.parse(replace(output, argv=("-rate=400", "-duration=2s")))
    assert [name for name, _ in behind.doubts] == ["offered_shortfall"]
    assert "600 requests were started in 2 s, of 800 that were due" in behind.doubts[0][1]


def test_one_attempt_without_an_answer_hardly_moves_the_percentiles() -> None:
    """99,999 responses, and one time-out after 30 s."""
    latencies = {"total": 210 * 10**9, "mean": 2100000, "50th": 2000000, "90th": 2500000, "95th": 2800000}
    latencies |= {"99th": 4000000, "max": 30000500000, "min": 1500000}
    report = {
        "latencies": latencies, "bytes_in": {"total": 1199988, "mean": 12}, "bytes_out": {"total": 0, "mean": 0},
        "earliest": "2026-01-01T00:00:00Z", "latest": "2026-01-01T00:01:39.999Z", "end": "2026-01-01T00:01:40.001Z",
        "duration": 99999000000, "wait": 2000000, "requests": 100000, "rate": 1000.0100001000011,
        "throughput": 999.9800001999979, "success": 0.99999, "status_codes": {"0": 1, "200": 99999},
        "errors": ['Get "http://127.0.0.1:8080/": context deadline exceeded (Client.Timeout exceeded)'],
    }  # fmt: skip
    parsed = VEGETA.parse(ToolOutput(json.dumps(report).encode()))
    found = values(parsed)
    times = {statistic: value for (metric, statistic), value in found.items() if metric == "attempt_time"}
    assert times == {
        "mean": 0.0021, "min": 0.0015, "p50": 0.002, "p90": 0.0025, "p95": 0.0028, "p99": 0.004, "max": 30.0005,
    }  # fmt: skip
    assert found["requests", "count"] == 99_999
    kept = {statistic: value for (metric, statistic), value in found.items() if metric == "service_time"}
    assert kept == {name: times[name] for name in ("p50", "p90", "p95", "p99")}
    assert [name for name, _ in parsed.doubts] == ["unanswered"]
