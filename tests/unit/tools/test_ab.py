"""ab: what is asked of it, and the traps of its text and files."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import ab_report, base
from loadbook.tools.ab_report import command_options
from loadbook.tools.base import ParsedReport, Target, ToolOutput
from loadbook.tools.line_patterns import LinePattern
from tool_captures import FIXTURES, capture, check_sane, sane_values, swapped, table, with_swaps

WEB = Target("127.0.0.2", 8080)
AB = base.load_tool("ab")


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "ab" / f"2.3--{name}.json")


def changed(name: str, *swaps: tuple[str, str]) -> ToolOutput:
    return with_swaps(case(name), *swaps)


def with_file(name: str, file: str, *swaps: tuple[str, str]) -> ToolOutput:
    data = swapped(case(name).files[file], *swaps)
    return replace(case(name), files=dict(case(name).files) | {file: data})


def parsed(captured: ToolOutput) -> ParsedReport:
    found = AB.parse(captured)
    check_sane(found)
    return found


def values(captured: ToolOutput) -> dict[tuple[str, str], float]:
    return sane_values(AB.parse(captured))


def test_ab_command_has_every_workload_setting_and_no_cap_of_50000_requests() -> None:
    load = Workload(tool="ab", connections=20, timeout_s=3, headers={"X-A": 'q"$(x)'}, extra=("-l",), path="/p?a=1")
    assert AB.command(load, WEB, 4.0) == [
        *("ab", "-q", "-r", "-t", "4", "-n", "800000", "-c", "20", "-s", "3", "-e", "pct.csv", "-k"),
        *("-H", 'X-A: q"$(x)', "-l", "http://127.0.0.2:8080/p?a=1"),
    ]
    assert list(AB.expected_files(load)) == ["pct.csv"] and AB.extra_files(load) == {}
    with_rows = load.model_copy(update={"extra": ("-g", "plot.tsv")})
    assert list(AB.expected_files(with_rows)) == ["pct.csv", "plot.tsv"]
    counted = AB.command(load.model_copy(update={"requests": 500}), WEB, 0.5)
    assert counted[:7] == ["ab", "-q", "-r", "-n", "500", "-c", "20"] and "-t" not in counted
    closing = AB.command(load.model_copy(update={"keepalive": False}), WEB, 4.0)
    assert "-k" not in closing and "Connection: close" in closing


@pytest.mark.parametrize(
    ("requested", "duration_s", "says"),
    [
        ({"model": "open", "rate_per_s": 5.0}, 1, "ab cannot make open-loop loads"),
        ({}, 1.5, "ab takes whole seconds only: duration = 1.5 s"),
        ({"timeout_s": 0.2}, 1, "timeout_s = 0.2 s"),
        ({"threads": 2}, 1, "ab has one thread only"),
        ({"connections": 20_001}, 1, "20000 connections at most"),
        ({"think_time_s": 1.0}, 1, "think_time_s"),
        ({"calls_per_connection": 5}, 1, "calls_per_connection"),
        ({"headers": {"a b": "c"}}, 1, "not a header name"),
        ({"extra": ("-n5",)}, 1, "-n of ab comes from the workload"),
        ({"extra": ("-w",)}, 1, "-w of ab"),
    ],
)
def test_ab_unsupported_workload_is_refused_before_the_run(
    requested: dict[str, object], duration_s: float, says: str
) -> None:
    with pytest.raises(ToolError, match=says) as refusal:
        AB.command(Workload.model_validate({"tool": "ab"} | requested), WEB, duration_s)
    assert refusal.value.hint


def test_ab_version_is_read_from_every_build() -> None:
    assert AB.version(case("version_V").stdout, b"") == "2.3"
    assert AB.version(b"This is ApacheBench, Version 2.3 <$Revision: 1903618 $>\n", b"") == "2.3 r1903618"
    with pytest.raises(ToolError, match="no version"):
        AB.version(b"", b"sh: ab: not found\n")


def test_ab_command_line_is_parsed_as_ab_parses_it() -> None:
    assert command_options(("ab", "-kc", "5", "-n10", "http://h/", "-d")) == [("-k", ""), ("-c", "5"), ("-n", "10")]
    assert command_options(("ab", "-Q", "http://h/")) == command_options(()) == []


def test_ab_percentiles_are_read_from_the_csv_file_to_the_microsecond() -> None:
    rows = table(parsed(case("csv_gnuplot")).measurements)
    assert rows["latency", "p98"].text == "0.470" and rows["latency", "p98"].value == 0.00047
    assert rows["latency", "min"].text == "0.030" and rows["latency", "max"].text == "0.739"
    assert "whole_ms" not in dict(parsed(case("csv_gnuplot")).doubts)
    coarse = replace(case("csv_gnuplot"), files={})
    assert values(coarse)["latency", "p98"] == 0 and "whole_ms" in dict(parsed(coarse).doubts)


def test_ab_percentiles_read_past_the_last_request_are_replaced_by_the_maximum() -> None:
    """With 10 requests the file says 99 % took longer than 100 %: ab printed memory behind its times."""
    lines = case("csv_n10").files["pct.csv"].decode().split()
    assert float(lines[-2].partition(",")[2]) > float(lines[-1].partition(",")[2])
    rows = table(parsed(case("csv_n10")).measurements)
    assert [rows["latency", p].text for p in ("p95", "p99", "max")] == ["0.126"] * 3
    assert {s for m, s in values(case("csv_n1")) if m == "latency"} == {"mean", "sd", "min", "max", "p50"}


@pytest.mark.parametrize(
    ("file", "swap", "says"),
    [
        ("pct.csv", ("\n50,", "\n50,9"), "pct.csv"),
        ("pct.csv", ("\n66,", "\n67,"), "expected percentile 66"),
        ("pct.csv", ("\n100,", "\n100;"), "expected percentile 100"),
        ("plot.tsv", ("\t0\t5\t5\t4\n", "\t0\t6\t6\t4\n"), "its percentile 100 is not the 5 ms"),
        ("plot.tsv", ("\t0\t5\t5\t4\n", "\t0\t5\t5\n"), "not a row of six columns"),
        ("plot.tsv", ("\t0\t5\t5\t4\n", "\t0\t5\t5\t4"), "not complete: 300 rows"),
    ],
)
def test_ab_csv_and_tsv_files_that_are_truncated_or_contradict_the_report_are_refused(
    file: str, swap: tuple[str, str], says: str
) -> None:
    with pytest.raises(ParseError, match=says):
        AB.parse(with_file("csv_tsv_n300", file, swap))


def test_ab_csv_and_tsv_files_of_another_run_are_refused() -> None:
    with pytest.raises(ParseError, match="is not the"):
        AB.parse(replace(case("slow_1500ms"), files=case("csv_gnuplot").files))
    twice = {name: case("csv_gnuplot").files["pct.csv"] for name in ("a.csv", "b.csv")}
    with pytest.raises(ParseError, match="a second file like"):
        AB.parse(replace(case("csv_gnuplot"), files=twice))


def test_ab_tsv_file_of_requests_gives_requests_started_per_second() -> None:
    samples = parsed(case("csv_tsv_n300")).samples
    assert sum(s.value for s in samples) == 300 and samples[0].x == 0
    assert {(s.series, s.metric, s.unit) for s in samples} == {("started", "requests_per_s", "1/s")}


def test_ab_time_per_request_across_connections_is_not_a_latency() -> None:
    assert values(case("slow_1500ms"))["latency", "mean"] == 1.774  # not 2918.877 ms
    assert values(case("slow_1500ms"))["ttfb", "sd"] == 0.1482


def test_ab_redirects_and_errors_are_separated_only_if_codes_are_printed() -> None:
    for name in ("non2xx_302", "non2xx_mix", "http_to_tls"):
        got = values(case(name))
        assert not {("ok", "count"), ("ok_per_s", "value"), ("errors_status", "count"), ("errors", "count")} & set(got)
    assert values(case("verbose2_302"))["ok", "count"] == 20
    assert values(case("verbose2_404"))["errors_status", "count"] == 7
    lost = changed("verbose2_404", ("Non-2xx responses:      7", "Non-2xx responses:      6"))
    assert ("errors_status", "count") not in values(lost)


def with_variable_length(captured: ToolOutput) -> ToolOutput:
    """Return the output as ab -l would have printed it."""
    page = re.search(rb"Document Length: +(\d+ bytes)", captured.stdout)
    assert page is not None
    return replace(captured, stdout=captured.stdout.replace(page[1], b"Variable", 1))


def test_with_l_good_answers_are_doubtful_unless_all_are_known_to_be_whole() -> None:
    lost = parsed(case("length_ok_l"))
    assert ("errors_length", "count") not in values(case("length_ok_l"))
    assert dict(lost.doubts)["unchecked_answers"].endswith("complete: good answers may be fewer")
    kept = with_variable_length(case("apache_event"))
    assert b"Keep-Alive requests:    20000" in kept.stdout
    assert "unchecked_answers" not in dict(parsed(kept).doubts)
    some_closed = with_swaps(kept, ("Keep-Alive requests:    20000", "Keep-Alive requests:    19999"))
    assert "unchecked_answers" in dict(parsed(some_closed).doubts)
    for captured in (kept, some_closed):
        assert values(captured)["ok", "count"] == 20000 and values(captured)["errors", "count"] == 0


def test_with_l_and_v_2_the_heads_tell_whether_all_answers_are_whole() -> None:
    heads = with_variable_length(case("verbose2_404"))
    assert values(heads)["errors_status", "count"] == values(heads)["errors", "count"] == 7
    cut = with_swaps(heads, ("HTML transferred:       1071", "HTML transferred:       1000"))
    lost = replace(heads, stdout=heads.stdout.replace(b"LOG: header received:", b"LOG: nothing received:", 1))
    for captured in (cut, lost):
        assert not {"ok", "ok_per_s"} & {row.metric for row in parsed(captured).measurements}
        assert "unchecked_answers" in dict(parsed(captured).doubts)


def test_first_answer_that_was_another_page_leaves_good_answers_unknown() -> None:
    empty = changed("close_10", ("Document Length:        5 bytes", "Document Length:        0 bytes"))
    longer = changed("close_10", ("   299\n", "   2701\n"), ("Length: 299", "Length: 2701"), (" 5 bytes", " 12 bytes"))
    for captured in (empty, longer):
        assert "first_answer" in dict(parsed(captured).doubts)
        assert not {"ok", "errors"} & {row.metric for row in parsed(captured).measurements}


def test_answers_that_were_mostly_lost_are_failures_although_their_length_is_another() -> None:
    run = changed("close_10", ("   299\n", "   2701\n"), ("Length: 299", "Length: 2701"), (" 13505 b", " 1495 b"))
    assert values(run)["ok", "count"] == 299 and parsed(run).doubts == parsed(case("close_10")).doubts


def test_ab_error_total_is_given_only_for_disjoint_classes() -> None:
    assert values(case("close_10"))["errors", "count"] == 299 and values(case("close_10"))["ok", "count"] == 2701
    got = values(case("server_killed_r"))
    assert got["errors_read", "count"] == got["errors_length", "count"] == 82975
    assert ("errors", "count") not in got and ("ok", "count") not in got


def test_ab_report_of_zero_transferred_bytes_has_no_answered_requests() -> None:
    got = values(case("tls_to_plain"))
    assert got["requests", "count"] == 0 == got["ok", "count"] and ("errors", "count") not in got
    assert got["requests_per_s", "value"] == 0 and ("latency", "p50") not in got
    assert "zero_bytes" in dict(parsed(case("tls_to_plain")).doubts)


def test_ab_report_without_requests_has_zero_counts_and_no_times() -> None:
    head, _, _ = case("closemid").stdout.partition(b"Requests per second")
    nothing = head.replace(b"requests:      500", b"requests:      0").replace(b" 33500 b", b" 0 b")
    got = values(replace(case("closemid"), stdout=nothing.replace(b" 5500 b", b" 0 b")))
    assert got["requests", "count"] == got["ok", "count"] == got["ok_per_s", "value"] == 0


def test_ab_time_columns_that_touch_in_a_report_without_medians_are_separated() -> None:
    wide = (("Total:          0     0    1", "Total:          0 98765123456"), (" 100%      1 (", " 100% 123456 ("))
    got = values(changed("no_median_S", *wide))
    assert got["latency", "mean"] == 98.765 and got["latency", "max"] == 123.456
    with pytest.raises(ParseError, match="line cut or changed"):
        AB.parse(changed("no_median_S", (wide[0][0], "Total:          0 1234561234567")))


def test_ab_report_of_the_development_version_is_read() -> None:
    more = "Number of workers:      2\nConcurrency Level:      50\nConcurrency achieved:   49\nRampup delay:  0 [ms]"
    trunk = changed(
        "apache_event",
        ("Concurrency Level:      50", more),
        ("Complete requests:", "Number of requests:     10000 (window)\nComplete requests:"),
        ("Keep-Alive requests:    20000", "Keep-Alive requests:    20000\nKeep-Alive aborts:      3"),
    )
    assert values(trunk) == values(case("apache_event"))
    assert {"connections", "latency_averaged"} <= set(dict(parsed(trunk).doubts))


def test_ab_report_of_a_version_from_2009_is_read() -> None:
    old = changed(
        "close_10", ("Receive: 0, ", ""), ("Total transferred", "Write errors:           0\nTotal transferred")
    )
    assert values(old) == values(case("close_10"))


@pytest.mark.parametrize(
    ("name", "swap", "says"),
    [
        ("closemid", ("Complete requests:      500", "Complete requests:      501"), "1292.62 does not follow"),
        ("closemid", (" 33500 bytes", " 335000 bytes"), "1292.62 does not follow"),
        ("close_10", ("Length: 299", "Length: 298"), "do not add up"),
        ("close_10", ("   (Connect: 0, Receive: 0, Length: 299, Exceptions: 0)\n", ""), "classes of failures"),
        ("slow_1500ms", ("  90%   1953", "  90%   1920"), "do not ascend"),
        ("slow_1500ms", (" 100%   1991", " 100%   1992"), "do not ascend to the maximum"),
        ("slow_1500ms", ("1803    1991\n\nPer", "1802    1991\n\nPer"), "below the table"),
        ("slow_1500ms", ("  75%   1921\n", ""), "table of percentiles is missing or cut"),
        ("slow_1500ms", ("  75%   1921\n", "  75%   -\n"), "line cut or changed"),
        ("slow_1500ms", ("Waiting:     1530 1774", "Waiting:     1830 1774"), "minimum, mean, median"),
        ("slow_1500ms", ("Transfer rate:          0.81 [Kbytes/sec] received\n", ""), "lines with rates"),
        ("non2xx_302", ("responses:      3000", "responses:      3011"), "more answers"),
    ],
)  # fmt: skip
def test_contradictory_report_is_refused(name: str, swap: tuple[str, str], says: str) -> None:
    with pytest.raises(ParseError, match=says):
        AB.parse(changed(name, swap))


def test_ab_missing_percentile_table_is_refused_unless_it_may_be_disabled() -> None:
    assert ("latency", "p90") not in values(case("no_table_d"))
    assert values(replace(case("no_table_d"), argv=())) == values(case("no_table_d"))
    with pytest.raises(ParseError, match="table of percentiles is missing"):
        AB.parse(replace(case("no_table_d"), argv=("ab", "-n", "2000", "http://127.0.0.1/")))


def test_ab_report_without_percentiles_median_and_command_has_its_counts_and_extremes() -> None:
    text = case("no_median_S").stdout.partition(b"\nPercentage of the requests")[0]
    without, whole = values(ToolOutput(text)), values(case("no_median_S"))
    assert {key: value for key, value in whole.items() if key in without} == without
    assert {name for metric, name in without if metric == "latency"} == {"mean", "min", "max"}


def test_ab_report_that_may_be_cut_before_its_percentiles_is_doubtful() -> None:
    text = case("n20000_c50").stdout.partition(b"\nPercentage of the requests")[0]
    assert "percentiles_lost" in dict(parsed(ToolOutput(text)).doubts)
    for whole in (case("n20000_c50"), case("no_table_d")):
        assert "percentiles_lost" not in dict(parsed(whole).doubts)


OLD = """This is ApacheBench, Version 2.0.40-dev <$Revision: 1.146 $> apache-2.0
Server Port:            80
Document Path:          /list.php
Document Length:        612 bytes
Concurrency Level:      10
Time taken for tests:   9.825400 seconds
Complete requests:      250
Failed requests:        0
Write errors:           0
Total transferred:      204799 bytes
HTML transferred:       153000 bytes
Requests per second:    25.44 [#/sec] (mean)
Time per request:       393.016 [ms] (mean)
Time per request:       39.302 [ms] (mean, across all concurrent requests)
Transfer rate:          20.25 [Kbytes/sec] received
Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    3   1.2      3      12
Processing:    20  390  40.0    388     700
Waiting:       19  380  40.0    378     690
Total:         20  393  40.0    391     712
"""


def test_ab_2_0_has_its_bytes_per_second_computed_as_it_cuts_them_to_whole_kib() -> None:
    got = values(ToolOutput(OLD.encode()))
    assert got["bytes_per_s", "value"] == 204799 / 9.8254 and got["bytes_read", "count"] == 204799
    assert got["requests_per_s", "value"] == 25.44 and got["latency", "max"] == 0.712


@pytest.mark.parametrize(
    "swap", [("20.25 [K", "20.23 [K"), ("20.25 [K", "20.38 [K"), ("Version 2.0.40-dev", "Version 2.3")]
)
def test_ab_transfer_rate_that_whole_kib_do_not_explain_is_refused(swap: tuple[str, str]) -> None:
    with pytest.raises(ParseError, match="does not follow from"):
        AB.parse(ToolOutput(swapped(OLD.encode(), swap)))


@pytest.mark.parametrize(
    "form",
    [*ab_report.report_patterns([]), *ab_report.report_patterns([ab_report.PLAIN_HEADING])],
    ids=lambda form: form.name,
)
def test_every_line_pattern_matches_its_example(form: LinePattern) -> None:
    assert form.line_regex.fullmatch(form.example)


def test_ab_tsv_file_without_requests_gives_no_samples() -> None:
    head, _, _ = case("closemid").stdout.partition(b"Requests per second")
    nothing = head.replace(b"requests:      500", b"requests:      0").replace(b" 33500 b", b" 0 b")
    empty = {"plot.tsv": b"starttime\tseconds\tctime\tdtime\tttime\twait\n"}
    assert parsed(replace(case("closemid"), stdout=nothing.replace(b" 5500 b", b" 0 b"), files=empty)).samples == ()
