"""CSVs of hey and oha: one row for each response, checked by a second reading; changed, cut and impossible rows."""

from __future__ import annotations

import csv
import re
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base, response_csv
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, attempt, capture, check_sane, table, values

CAPTURES = {
    "hey": ("0.1.5--count_csv", "0.1.5--mix404_csv", "0.1.5--no_keepalive_csv"),
    "oha": ("1.16.0--count_csv",),
}
START_TIME_STATUS = {
    "hey": ("offset", "response-time", "status-code"),
    "oha": ("request-start", "request-duration", "status"),
}
CASES = [(tool, name) for tool, names in CAPTURES.items() for name in names]
RATES = {"duration", "requests_per_s", "ok_per_s", "bytes_per_s"}
MADE_OF_ALL = {"mean", "sd"}


def case(tool: str, name: str) -> ToolOutput:
    return capture(FIXTURES / tool / f"{name}.json")


@pytest.mark.parametrize(("tool", "name"), CASES)
def test_rows_give_the_numbers_of_a_second_reading(tool: str, name: str) -> None:
    output = case(tool, name)
    start, time, status = START_TIME_STATUS[tool]
    rows = list(csv.DictReader(output.stdout.decode().split("\n")))
    times = sorted(float(row[time]) for row in rows)
    parsed = base.load_tool(tool).parse(output)
    check_sane(parsed)
    found = values(parsed)
    assert found["requests", "count"] == len(rows)
    assert found["ok", "count"] == sum(row[status][0] in "23" for row in rows)
    seconds = max(float(row[start]) + float(row[time]) for row in rows) - min(float(row[start]) for row in rows)
    assert found["duration", "value"] == pytest.approx(seconds)
    assert found["requests_per_s", "value"] == pytest.approx(len(rows) / seconds)
    assert found["latency", "max"] == times[-1] and found["latency", "sd"] == pytest.approx(statistics.stdev(times))
    if tool == "oha" or times[0] >= 4e-4:
        assert found["latency", "min"] == times[0] and found["latency", "mean"] == pytest.approx(statistics.mean(times))
        assert found["latency", "p90"] == times[int(0.9 * len(times)) - 1]
    assert ("errors", "count") not in found and "failed_missing" in dict(parsed.doubts)


def test_time_has_the_step_in_which_hey_prints_it_and_short_ones_are_left_out() -> None:
    long, short = (table(base.load_tool("hey").parse(case("hey", name)).measurements) for name in CAPTURES["hey"][::2])
    assert (long["latency", "p99"].text, long["latency", "p99"].resolution) == ("0.0107", pytest.approx(1e-4))
    assert {statistic for metric, statistic in short if metric == "latency"} == {"sd", "p95", "p99", "p99.9", "max"}
    assert "coarse_times" in dict(base.load_tool("hey").parse(case("hey", CAPTURES["hey"][2])).doubts)


def test_rate_has_times_of_its_own_and_a_lagging_one_is_doubtful() -> None:
    output = replace(case("hey", "0.1.5--count_csv"), argv=("hey", "-z", "300ms", "-c", "4", "-q", "500"))
    parsed = base.load_tool("hey").parse(output)
    assert values(parsed)["offered_per_s", "value"] == 2000 and ("service_time", "p50") in values(parsed)
    assert dict(parsed.doubts)["offered_shortfall"].startswith("200 responses in 0.3 s, of 600 that were due")
    corrected = replace(case("oha", "1.16.0--count_csv"), argv=("oha", "-q", "5", "--latency-correction", "-n", "201"))
    parsed = base.load_tool("oha").parse(corrected)
    assert ("latency_intended", "p50") in values(parsed)
    assert dict(parsed.doubts)["stopped_early"] == "200 responses to the 201 requests that were asked for"


def test_end_of_a_corrected_request_is_not_its_start_and_its_time() -> None:
    """A corrected time begins before the request starts; the first byte is counted from the start."""
    header = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status\n"
    rows = "0,0,0,0.9,0.9,12,200\n1,0,0,0.1,0.8,12,200\n"
    output = ToolOutput((header + rows).encode(), argv=("oha", "-q", "5", "--latency-correction"))
    assert values(base.load_tool("oha").parse(output))["duration", "value"] == pytest.approx(1.1)
    assert values(base.load_tool("oha").parse(replace(output, argv=())))["duration", "value"] == pytest.approx(1.8)


def test_csv_of_hey_before_0_1_2_has_no_rate() -> None:
    lines = case("hey", "0.1.5--count_csv").stdout.decode().split("\n")
    output = ToolOutput("\n".join(line.rpartition(",")[0] for line in lines if line).encode() + b"\n")
    parsed = base.load_tool("hey").parse(output)
    assert values(parsed)["requests", "count"] == 200 and ("duration", "value") not in values(parsed)
    assert [name for name, _ in parsed.doubts] == ["failed_missing", "no_times"]


def test_run_without_a_response_is_no_rate() -> None:
    parsed = base.load_tool("hey").parse(case("hey", "0.1.5--dead_csv"))
    assert values(parsed)["requests", "count"] == 0 and ("requests_per_s", "value") not in values(parsed)
    assert dict(parsed.doubts)["stopped_early"] == "0 responses to the 20 requests that were asked for"


@pytest.mark.parametrize(("tool", "name"), [CASES[0], CASES[-1]])
def test_changed_digit_is_refused_or_changes_just_its_number(tool: str, name: str) -> None:
    output = case(tool, name)
    whole, lines = values(base.load_tool(tool).parse(output)), output.stdout.decode().split("\n")
    seen = 0
    for place in (0, 1, 2, 100, 200):
        for digit in re.finditer(r"\d", lines[place]):
            changed = lines[place][: digit.start()] + str((int(digit[0]) + 3) % 10) + lines[place][digit.end() :]
            read = attempt(
                tool, replace(output, stdout="\n".join([*lines[:place], changed, *lines[place + 1 :]]).encode())
            )
            found = values(read) if read else whole
            different = {key for key in whole.keys() | found.keys() if found.get(key) != whole.get(key)}
            metrics = {metric for metric, _ in different}
            assert found["requests", "count"] == 200 and (
                metrics <= RATES | {"bytes_read"}
                or metrics <= RATES | {"latency", "ttfb", "connect_time"}
                or not metrics & {"latency", "duration"}
            ), changed
            seen += bool(different)
    assert seen > 20


@pytest.mark.parametrize(("tool", "name"), [CASES[0], CASES[-1]])
def test_cut_within_a_row_is_refused_with_its_line(tool: str, name: str) -> None:
    data = case(tool, name).stdout.rstrip(b"\n")
    last = data.count(b"\n") + 1
    for cut in range(1, len(data.rpartition(b"\n")[2])):
        with pytest.raises(ParseError) as refused:
            base.load_tool(tool).parse(ToolOutput(data[:-cut]))
        assert refused.value.line == last
    for size in range(10, data.index(b"\n") + 1):
        assert attempt(tool, ToolOutput(data[:size])) is None


@pytest.mark.parametrize(
    ("line", "old", "new"),
    [
        (1, "offset", "offest"),
        (3, "0.0111", "nan"),
        (3, "0.0111", "-0.0111"),
        (3, "0.0111,", ""),
        (4, "0.0111", "0.0111,0.0111"),
        (5, "0.01", '"0.01"'),
        (201, ",200,", ",2000,"),
        (7, "", "\n"),
    ],
)
def test_row_that_is_none_is_refused_with_its_line(line: int, old: str, new: str) -> None:
    lines = case("hey", "0.1.5--count_csv").stdout.decode().split("\n")
    place = line - 1
    lines[place] = re.sub(r"^\d+\.\d+", "0.0111", lines[place]) if line > 1 else lines[place]
    lines[place] = lines[place].replace(old, new, 1) if old else new + lines[place]
    with pytest.raises(ParseError) as refused:
        base.load_tool("hey").parse(ToolOutput("\n".join(lines).encode()))
    assert refused.value.line in (line, line + 1)


def test_part_that_is_longer_than_its_request_is_refused() -> None:
    data = case("oha", "1.16.0--count_csv").stdout.replace(b"0.00006109,0.0000612", b"0.00006129,0.0000612")
    with pytest.raises(ParseError, match=r"oha: stdout:4.*Response-delay is longer"):
        base.load_tool("oha").parse(ToolOutput(data))


def test_large_csv_is_read_as_a_stream_and_its_end_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    header, rows = case("hey", "0.1.5--count_csv").stdout.decode().split("\n", 1)
    fields = [row.rsplit(",", 1) for row in rows.splitlines()]
    again = (f"{others},{second + float(offset):.4f}\n" for second in range(1000) for others, offset in fields)
    path.write_text(f"{header}\n" + "".join(again))
    hey = base.load_tool("hey")
    found = values(base.parse_output(hey, ToolOutput(b"", paths={"stdout": path})))
    assert found["requests", "count"] == 200_000 and found["latency", "p50"] == 0.0055
    with path.open("ab") as file:
        file.write(b"0.0083,0.0001\n")
    with pytest.raises(ParseError, match=f"hey: stdout:{200_002}"):
        base.parse_output(hey, ToolOutput(b"", paths={"stdout": path}))


def test_rows_that_hey_forgot_and_a_second_csv_are_refused() -> None:
    header, rows = case("hey", "0.1.5--count_csv").stdout.split(b"\n", 1)
    first = rows.split(b"\n")[0] + b"\n"
    with pytest.raises(ParseError, match="forgets every further response"):
        base.load_tool("hey").parse(ToolOutput(header + b"\n" + first * 1_000_000))
    with pytest.raises(ParseError, match="a second CSV"):
        response_csv.find_csv(response_csv.HEY, ToolOutput(header, files={"b.csv": header}))
