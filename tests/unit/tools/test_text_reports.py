"""Text reports of k6 and vegeta have the numbers of the same run in JSON, within the steps in which they print them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from effort import some
from loadbook.core.errors import ParseError
from loadbook.ingestion.recognise import recognise
from loadbook.tools import base, k6_text, vegeta_text
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput
from tool_captures import FIXTURES, attempt, capture, check_sane, table

K6 = [path for path in sorted((FIXTURES / "k6").glob("*.summary")) if b"http_reqs.." in capture(path).stdout]
VEGETA = sorted((FIXTURES / "vegeta").glob("*.report"))
RATES = {("requests_per_s", "value"), ("ok_per_s", "value"), ("bytes_per_s", "value"), ("duration", "value")}


def both(tool: str, path: Path) -> tuple[ParsedReport, ParsedReport]:
    """Return the report of the text alone, and that of the file in JSON alone."""
    captured = capture(path.with_suffix(".json"))
    suffix = path.suffix.removeprefix(".")
    text = base.load_tool(tool).parse(replace(captured, files={}))
    return text, base.load_tool(tool).parse(replace(captured, files={suffix: path.read_bytes()}))


@pytest.mark.parametrize("path", K6, ids=[path.stem for path in K6])
def test_text_of_k6_has_the_numbers_of_its_summary(path: Path) -> None:
    text, summary = both("k6", path)
    check_sane(text)
    found, expected = table(text.measurements), table(summary.measurements)
    assert found.keys() == expected.keys() - {("bytes_read", "count")}
    for key, row in found.items():
        if row.text is None:
            assert row.value == pytest.approx(expected[key].value, rel=1e-3 if "sigint" in path.stem else 1e-8), key
        else:
            assert -1e-12 < expected[key].value - row.value < k6_text.step_s(row.text) + 1e-12, key
    assert [name for name, _ in text.doubts] == [name for name, _ in summary.doubts]


@pytest.mark.parametrize("path", VEGETA, ids=[path.stem for path in VEGETA])
def test_text_of_vegeta_has_the_numbers_of_its_report_in_json(path: Path) -> None:
    text, report = both("vegeta", path)
    check_sane(text)
    found, expected = table(text.measurements), table(report.measurements)
    assert found.keys() == expected.keys()
    for key, row in found.items():
        share = 3e-4 if key in (("duration", "value"), ("bytes_per_s", "value")) else 1e-4
        near = vegeta_text.step_s(row.text) / 2 if row.unit == "s" and row.text else share * row.value
        assert row.value == pytest.approx(expected[key].value, abs=near + 1e-12), key
    assert [name for name, _ in text.doubts] == [name for name, _ in report.doubts]


def text_of(tool: str, name: str) -> tuple[str, ToolOutput]:
    captured = capture(FIXTURES / tool / f"{name}.json")
    return tool, ToolOutput(captured.stdout, argv=captured.argv)


TEXTS = [
    text_of("k6", "1.8.1--checks_mix500"),
    text_of("vegeta", "12.13.0--mix500_text"),
    text_of("oha", "1.16.0--mix500_text"),
    ("fortio", ToolOutput(capture(FIXTURES / "fortio/1.66.5--rate_text.json").stderr)),
    text_of("bombardier", "1.2.6--clean_text"),
    ("artillery", ToolOutput((FIXTURES / "artillery/2.0.21--periods_both.stdout").read_bytes())),
]


@pytest.mark.parametrize(("tool", "output"), TEXTS, ids=[tool for tool, _ in TEXTS])
def test_changed_digit_is_refused_or_changes_just_its_number(tool: str, output: ToolOutput) -> None:
    whole, lines = table(base.load_tool(tool).parse(output).measurements), output.stdout.decode().splitlines()
    seen = 0
    for place, line in enumerate(lines):
        for digit in re.finditer(r"\d", line):
            changed = line[: digit.start()] + str((int(digit[0]) + 3) % 10) + line[digit.end() :]
            found = read(tool, output, "\n".join([*lines[:place], changed, *lines[place + 1 :]]))
            different = {key for key in whole if found and found.get(key) != whole[key]}
            is_code = line.startswith(("Code ", "    1xx"))  # another status, or a count whose sum is not printed
            counts = {key for key in whole if key[1] in ("count", "value") and is_code}
            assert len(different) <= 1 or different <= RATES or different <= counts, changed
            seen += bool(different)
    assert seen > 10


@pytest.mark.parametrize(("tool", "output"), TEXTS, ids=[tool for tool, _ in TEXTS])
def test_cut_text_is_refused_or_read_as_the_whole(tool: str, output: ToolOutput) -> None:
    whole, text = table(base.load_tool(tool).parse(output).measurements), output.stdout.decode()
    for end in some(range(len(text)), 400):
        found = read(tool, output, text[:end])
        assert found is None or found == whole, text[:end][-60:]


@pytest.mark.parametrize(("tool", "output"), TEXTS, ids=[tool for tool, _ in TEXTS])
def test_swapped_unit_is_refused_or_changes_just_its_number(tool: str, output: ToolOutput) -> None:
    whole, text = table(base.load_tool(tool).parse(output).measurements), output.stdout.decode()
    for unit in re.finditer(r"(?<=\d)(?:µs|us|ms|s)\b|(?<=\d )(?:ms|KiB)", text):
        swapped = {"µs": "ms", "us": "ms", "ms": "s", "s": "ms", "KiB": "MiB"}[unit[0]]
        found = read(tool, output, text[: unit.start()] + swapped + text[unit.end() :])
        assert found is None or len({key for key in whole if found.get(key) != whole[key]}) <= 1


def read(tool: str, output: ToolOutput, text: str) -> dict[tuple[str, str], Measurement] | None:
    """Return the rows of a changed text; None if it is refused."""
    parsed = attempt(tool, replace(output, stdout=text.encode()))
    return None if parsed is None else table(parsed.measurements)


@pytest.mark.parametrize(("tool", "output"), TEXTS, ids=[tool for tool, _ in TEXTS])
def test_two_texts_in_one_are_refused(tool: str, output: ToolOutput) -> None:
    with pytest.raises(ParseError, match="two reports in one"):
        base.load_tool(tool).parse(replace(output, stdout=output.stdout * 2))


def test_former_text_of_k6_marks_thresholds_at_their_metrics() -> None:
    """k6 0.31 to 0.56; the marks stand before crossed and met metrics, and the counts after both."""
    text = """
     checks.........................: 80.00% ✓ 80  ✗ 20
     data_received..................: 14 MB  451 kB/s
     data_sent......................: 4.7 MB 156 kB/s
   ✗ http_req_duration..............: avg=21.67ms min=945.86µs med=4.62ms max=1m2s p(90)=67.34ms p(95)=76.07ms
       { expected_response:true }...: avg=21.6ms  min=945.86µs med=4.61ms max=1m2s p(90)=67.33ms p(95)=76.07ms
   ✓ http_req_failed................: 0.02%  ✓ 9    ✗ 42991
     http_reqs......................: 43000  1433.3/s
     iterations.....................: 43000  1433.3/s
    """
    report = base.load_tool("k6").parse(ToolOutput(text.encode()))
    rows = table(report.measurements)
    assert (rows["ok", "count"].value, rows["latency", "p90"].value) == (42991, pytest.approx(0.06733))
    assert (rows["latency", "max"].value, rows["latency", "max"].text) == (62, "1m2s")
    assert rows["ok_per_s", "value"].value == pytest.approx(1433.3 * 42991 / 43000)
    assert dict(report.doubts)["thresholds_crossed"].endswith(": http_req_duration")
    assert dict(report.doubts)["checks_failed"].startswith("20 of 100")


OLD_K6 = """
     data_sent..................: 4.7 MB 156 kB/s
     dropped_iterations.........: 287    9.544987/s
   ✓ failed requests............: 0.00%  ✓ 0     ✗ 43000
     http_req_duration..........: avg=21.67ms min=945.86µs med=4.62ms max=123.44ms p(90)=67.34ms p(95)=76.07ms
     http_reqs..................: 43000  1433.3/s
     iterations.................: 43000  1433.3/s
"""


def test_text_of_k6_before_0_31_has_attempts_as_it_does_not_tell_failed_requests() -> None:
    report = base.load_tool("k6").parse(ToolOutput(OLD_K6.encode()))
    rows = table(report.measurements)
    assert {metric for metric, _ in rows} == {"attempts", "attempts_per_s", "duration", "attempt_time"}
    assert (rows["attempts", "count"].value, rows["attempts_per_s", "value"].value) == (43000, 1433.3)
    assert (rows["attempt_time", "p90"].text, rows["attempt_time", "p90"].value) == ("67.34ms", pytest.approx(0.06734))
    assert [name for name, _ in report.doubts] == ["failed_unknown"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("iterations.................: 43000", "iterations.................: 42000", "over different times"),
        (
            "     http_reqs",
            "     { expected_response:true }...: avg=1ms\n     http_reqs",
            "no line like 'http_req_failed",
        ),
        ("     data_sent", "     sent", "no line like 'data_sent"),
    ],
)
def test_text_that_contradicts_itself_or_only_looks_like_one_of_old_k6_is_refused(
    old: str, new: str, says: str
) -> None:
    with pytest.raises(ParseError, match=says):
        base.load_tool("k6").parse(ToolOutput(OLD_K6.replace(old, new, 1).encode()))


def test_time_unit_that_is_too_coarse_is_doubtful_and_its_times_are_left_out() -> None:
    """--summary-time-unit=s: two decimals of a second."""
    text = """
    http_req_duration..............: avg=0.14s min=0.00s med=0.03s max=0.31s p(90)=0.26s p(95)=0.29s
    http_req_failed................: 0.00% 0 out of 300
    http_reqs......................: 300    1834.306013/s
    data_sent......................: 22 kB  132 kB/s
    """
    report = base.load_tool("k6").parse(ToolOutput(text.encode()))
    rows = table(report.measurements)
    assert [statistic for metric, statistic in rows if metric == "latency"] == ["mean", "p90", "p95", "max"]
    assert dict(report.doubts) == {
        "coarse_times": "k6's text rounds times by more than 5%, such as '0.14s'",
    }


@pytest.mark.parametrize(
    ("text", "step_s"),
    [("1.991s", 1e-3), ("701.065µs", 1e-9), ("5.026ms", 1e-6), ("1m31s", 1.0), ("1.990701065s", 1e-9)],
)
def test_step_of_a_duration_of_vegeta_is_the_next_smaller_unit(text: str, step_s: float) -> None:
    assert vegeta_text.step_s(text) == pytest.approx(step_s)


@pytest.mark.parametrize(
    ("text", "step_s"),
    [("8.1ms", 1e-5), ("727.42µs", 1e-8), ("530ns", 1e-9), ("0s", 1e-9), ("2.7s", 0.01), ("1m30s", 1.0)],
)
def test_step_of_a_time_of_k6_is_a_hundredth_of_its_unit(text: str, step_s: float) -> None:
    assert k6_text.step_s(text) == pytest.approx(step_s)


def changed(tool: str, name: str, old: str, new: str) -> ToolOutput:
    """Return a recorded text alone, with one part changed."""
    _, output = text_of(tool, name)
    text = output.stdout.decode()
    assert old in text
    return replace(output, stdout=text.replace(old, new, 1).encode())


@pytest.mark.parametrize(
    ("tool", "name", "old", "new", "reason"),
    [
        ("k6", "1.8.1--clean_closed", "439.454444/s", "4394.54444/s", "over different times"),
        ("k6", "1.8.1--clean_closed", "avg=11.24ms", "avg=51.24ms", "but the times of line 6 are others"),
        ("k6", "1.8.1--checks_mix500", "avg=290.43µs", "avg=9.43s", "not between minimum and maximum"),
        ("k6", "1.8.1--clean_closed", "max=66.92ms", "max=1.5h", "line cut or changed"),
        (
            "k6",
            "1.8.1--clean_closed",
            "http_req_duration....",
            "http_req_connecting...",
            "no line like 'http_req_duration",
        ),
        ("k6", "1.8.1--clean_closed", "http_reqs....", "ws_sessions....", "no requests in it"),
        ("vegeta", "12.13.0--clean_text", "530.041µs", "530.041m", "is no duration"),
        ("vegeta", "12.13.0--clean_text", "530.041µs", "1h0m0s", "longer than the attack"),
        ("vegeta", "12.13.0--clean_text", "mean, 50, 90,", "mean, 50, 50,", "line cut or changed"),
        (
            "vegeta",
            "12.13.0--clean_text",
            "[min, mean, 50, 90, 95, 99, max]  33.48µs, 89.072µs, ",
            "[mean]  ",
            "line cut or changed",
        ),
        ("vegeta", "12.13.0--clean_text", "Requests  ", "  Requests  ", "indented"),
    ],
)
def test_text_that_contradicts_itself_is_refused(tool: str, name: str, old: str, new: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        base.load_tool(tool).parse(changed(tool, name, old, new))


@pytest.mark.parametrize(
    "line",
    [
        "http_req_size..................: avg=2.5 min=1 med=2.5 max=4 p(90)=4 p(95)=4",
        "http_request_bytes.............: 1.2 MB 40 kB/s",
        "status_200.....................: 883 439.454444/s",
        "http_req_duration-x............: avg=1ms min=1ms med=1ms max=1ms p(90)=1ms p(95)=1ms",
        # a part of a metric without times
        "my_trend.......................: 2\n      { expected_response:true }...: avg=1ms min=1ms med=1ms max=1ms",
    ],
)
def test_custom_metrics_of_a_text_of_k6_change_no_number(line: str) -> None:
    _, whole = text_of("k6", "1.8.1--clean_closed")
    custom = changed("k6", "1.8.1--clean_closed", "\n    EXECUTION\n", f"    {line}\n\n    EXECUTION\n")
    assert base.load_tool("k6").parse(custom).measurements == base.load_tool("k6").parse(whole).measurements


def test_refused_text_of_k6_names_the_line_and_no_other_tool() -> None:
    for old, new, line in (
        ("2004.10841/s", "200.410841/s", 37),
        ("med=1.76ms", "med=9.76ms", 30),
        ("avg=1.86ms", "avg=51.86ms", 30),
    ):
        data = (FIXTURES / "k6/1.8.1--text.stdout").read_text()
        text = data.replace(old, new, 1) if line == 37 else data.replace(old, new)
        report = recognise(ToolOutput(text.encode()), "", "k.txt", "k.txt")
        assert report.tool == "k6" and report.error.startswith(f"k.txt:{line}: ") and "JMeter" not in report.error


def test_group_named_as_a_heading_of_k6_is_no_part() -> None:
    text = changed("k6", "1.8.1--clean_closed", "  █ TOTAL RESULTS", "     █ GROUP A\n\n  █ TOTAL RESULTS")
    assert base.load_tool("k6").parse(text).measurements


def test_lines_behind_the_messages_of_vegeta_are_none() -> None:
    data = (FIXTURES / "vegeta/12.13.0--dead_text.stdout").read_bytes()
    report = base.load_tool("vegeta").parse(ToolOutput(data + b"\n=== tuned 2 ===\n"))
    assert table(report.measurements)["errors_connect", "count"].value == 50


@pytest.mark.parametrize(
    ("tool", "name", "statistic", "text", "step_s"),
    [
        ("autocannon", "9.0.0--clean_text.stderr", "mean", "10.5 ms", 1e-5),
        ("autocannon", "9.0.0--clean_text.stderr", "p99", "16 ms", 1e-3),
        ("bombardier", "1.2.6--clean_text.stdout", "p99", "10.90ms", 1e-5),
        ("fortio", "1.66.5--clean_text.stderr", "p99", "0.016332", 1e-7),
        ("fortio", "1.66.5--clean_text.stderr", "sd", "0.001113", 1e-6),
        ("k6", "1.8.1--mode_full.stdout", "p95", "7.7ms", 1e-5),
        ("k6", "1.8.1--freeze_closed.stdout", "max", "1s", 1e-2),
        ("locust", "2.47.0--freeze_closed_csv.stderr", "p99.9", "1000", 1e-1),
        ("locust", "2.47.0--freeze_closed_csv.stderr", "max", "1000", 1e-3),
        ("locust", "2.47.0--sigint_csv.out_stats.csv", "p99.9", "110", 1e-2),
        ("oha", "1.16.0--clean_text.stdout", "p99", "17.8415 ms", 1e-7),
        ("vegeta", "12.13.0--closed_workers.stdout", "p90", "10.52ms", 1e-6),
    ],
)
def test_time_of_a_text_has_the_step_to_which_its_tool_rounds(
    tool: str, name: str, statistic: str, text: str, step_s: float
) -> None:
    report = base.load_tool(tool).parse(ToolOutput((FIXTURES / tool / name).read_bytes()))
    (row,) = [row for row in report.measurements if row.unit == "s" and row.statistic == statistic]
    assert row.text == text and row.resolution == pytest.approx(step_s)


def test_text_of_oha_has_as_many_digits_as_it_prints() -> None:
    output = text_of("oha", "1.0.0--old100_text")[1]
    rows = table(base.load_tool("oha").parse(output).measurements)
    assert rows["latency", "p99"].resolution == pytest.approx(1e-4)
    assert rows["ok_per_s", "value"] == Measurement("ok_per_s", "value", 475.6651, "1/s", "475.6651")
    assert rows["bytes_read", "count"].value == pytest.approx(11.16 * 1024)
    assert not [key for key in rows if key[0] == "connect_time"]  # 0.0001 secs


def test_short_times_of_old_versions_of_oha_are_doubtful() -> None:
    output = text_of("oha", "1.0.0--old100_text")[1]
    text = (
        output.stdout.decode()
        .replace("Fastest:\t0.0101", "Fastest:\t0.0003")
        .replace("  0.010 [1] ", "  0.000 [1] ")
        .replace("10.00% in 0.0103", "10.00% in 0.0005")
    )
    report = base.load_tool("oha").parse(ToolOutput(text.encode(), argv=output.argv))
    assert ("latency", "min") not in table(report.measurements)
    assert dict(report.doubts) == {"coarse_times": "oha's text rounds times by more than 5%, such as '0.0003 secs'"}


def test_first_text_of_oha_0_is_read() -> None:
    """oha 0.5: a share instead of percent, percentiles without decimals and none above 99."""
    text = text_of("oha", "1.0.0--old100_text")[1].stdout.decode().replace("100.00%", "1.0000")
    text = re.sub(r"(\d+)\.00% in", r"\1% in", re.sub(r".*99\.9\d% in.*\n", "", text))
    assert ("latency", "p99") in table(base.load_tool("oha").parse(ToolOutput(text.encode())).measurements)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("100.00%", "97.00%", "are not|which is not"),
        ("446.1068", "448.1068", "are not 448.107 a second"),
        ("[200] 889", "[200] 888", "histogram has not the 888"),
        ("  [200] 889 responses\n", "  [200] 889 responses\n  [200] 0 responses\n", "a row is there twice"),
        ("5.20 KiB", "6.20 KiB", "a second"),
        ("50.00% in", "51.00% in", "report is not complete: percentiles"),
        ("Slowest:\t22.7283 ms", "Slowest:\t22.7283 sec", "22.7283 sec, but the histogram has 22.728 ms"),
        ("Fastest:\t10.0593 ms", "Fastest:\t9.0593 ms", "9.0593 ms, but the histogram has 10.059 ms"),
        ("99.99% in 22.7283", "99.99% in 22.8283", "do not ascend|but p99.99 is 22.8283 ms"),
        ("DNS+dialup:\t1.5332 ms", "DNS+dialup:\t1.5332 sec", "1.5332 sec, is not between the extremes"),
        ("50.00% in 10.8041", "50.00% in 30.8041", "do not ascend"),
        ("50.00% in 10.8041 ms", "50.00% in 10.80", "line 29 cut or changed"),
        ("Average:\t11.1951", "Average:\tNaN", "in spite of 889 responses"),
        ("Total:\t2004.0043", "Total:\t0.0000", "a total time of 0 s"),
    ],
)
def test_text_of_oha_that_contradicts_itself_is_refused(old: str, new: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        base.load_tool("oha").parse(changed("oha", "1.16.0--clean_text", old, new))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("94.0 qps", "994.0 qps", "the calls take longer than the 0.100604 s of the load"),
        ("at 100 queries", "at 7 queries", "are more than the rate of 7"),
        ("max 0.038747477", "max 7.038747477", "the calls take longer"),
    ],
)
def test_text_of_fortio_without_a_duration_and_with_an_impossible_rate_is_refused(
    old: str, new: str, reason: str
) -> None:
    text = (FIXTURES / "fortio/1.66.5--quiet_text.stderr").read_text()
    assert old in text
    with pytest.raises(ParseError, match=reason):
        base.load_tool("fortio").parse(ToolOutput(text.replace(old, new, 1).encode()))


@pytest.mark.parametrize("name", ["mix500_both", "rate_both"])
def test_text_of_fortio_has_the_numbers_of_its_report_in_json(name: str) -> None:
    captured = capture(FIXTURES / f"fortio/1.66.5--{name}.json")
    text = base.load_tool("fortio").parse(replace(captured, files={}))
    report = base.load_tool("fortio").parse(captured)
    found, expected = table(text.measurements), table(report.measurements)
    assert found.keys() == expected.keys() and text.doubts == report.doubts
    for key, row in found.items():
        near = 5e-4 if key[1] == "sd" else 5e-6
        assert row.value == pytest.approx(expected[key].value, rel=near), key


def test_times_of_a_text_that_count_failures_are_those_of_attempts() -> None:
    for tool, name in (("fortio", "1.66.5--rst_text"), ("bombardier", "1.2.6--timeout_text")):
        report = base.load_tool(tool).parse(capture(FIXTURES / tool / f"{name}.json"))
        metrics = {row.metric for row in report.measurements if row.unit == "s"} - {"duration"}
        assert metrics - {"latency"} == {"attempt_time"} and "unanswered" in dict(report.doubts)
        assert ("latency" in metrics) == (tool == "fortio")  # which has the times of failures apart


def test_rate_of_bombardier_is_read_only_if_it_is_that_of_the_whole_load() -> None:
    rows = table(base.load_tool("bombardier").parse(text_of("bombardier", "1.2.6--result_text")[1]).measurements)
    assert rows["requests_per_s", "value"].text == "16786.38" and rows["latency", "max"].text == "736.00us"
    rows = table(base.load_tool("bombardier").parse(text_of("bombardier", "1.2.6--clean_text")[1]).measurements)
    assert ("requests_per_s", "value") not in rows and rows["ok", "count"].value == 945
    failed = table(base.load_tool("bombardier").parse(text_of("bombardier", "1.2.6--dead_text")[1]).measurements)
    assert failed["attempts_per_s", "value"].text == "1909.83" and failed["attempts", "count"].value == 20


@pytest.mark.parametrize(
    ("tool", "old", "new", "reason"),
    [
        ("fortio", "2.00139682s : 200", "2.10139682s : 200", "are not .* a second"),
        ("fortio", "Code 200 : 200", "Code 200 : 199", "calls by code are not the 200"),
        ("fortio", "(100.0 %)", "(90.0 %)", "which are not 90.0 %"),
        ("fortio", ", 97.00, 194", ", 97.00, 195", "histogram has not the 200"),
        ("fortio", "# target 99% 0.00457921", "# target 99% 0.", "line cut or changed"),
        ("fortio", "sum 0.108762938", "sum 0.208762938", "mean does not follow"),
        ("fortio", "0.544 ms avg", "0.644 ms avg", "are not the mean"),
        ("fortio", "All done 200", "All done 201", "are not the 200"),
        ("fortio", "Code 200 : 200", "Code 500 : 200", "0 error cases, but 200 of code 500"),
        ("fortio", "# target 99% 0.00457921\n", "", "99% are in one of its histograms only"),
        ("fortio", "# target 90% 0.000539529\n", "", "90% are in one of its histograms only"),
        ("bombardier", "2xx - 945", "2xx - 9945", "9945 attempts of 10.59ms take longer than 2s of 5 connections"),
        ("bombardier", "  Latency Distribution\n", "", "no line 'Latency Distribution'"),
        ("bombardier", "  Reqs/sec       471.82      91.08     708.12\n", "", "no line like 'Reqs/sec"),
        ("bombardier", "     90%    10.75ms", "     90%    10.05ms", "do not ascend"),
        ("bombardier", "     90%    10.75ms\n", "", "4 percentiles instead of 5"),
        ("bombardier", "     90%    10.75ms", "     90%    10.7", "line cut or changed"),
        ("bombardier", "others - 0", "others - 3", "0 errors by message are not the 3"),
        ("bombardier", "471.82", "971.82", "above its maximum"),
        ("bombardier", "10.59ms", "11.59ms", "above the maximum"),
    ],
)
def test_text_of_fortio_and_bombardier_that_contradicts_itself_is_refused(
    tool: str, old: str, new: str, reason: str
) -> None:
    output = dict(TEXTS)[tool]
    text = output.stdout.decode()
    assert old in text
    with pytest.raises(ParseError, match=reason):
        base.load_tool(tool).parse(replace(output, stdout=text.replace(old, new, 1).encode()))
