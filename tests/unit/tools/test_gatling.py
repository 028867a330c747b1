"""Gatling: its summary by two generations of versions, the JSON of older ones, and contradictions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, capture, values

GATLING = base.load_tool("gatling")


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "gatling" / f"{name}.json")


def changed(output: ToolOutput, old: str, new: str) -> ToolOutput:
    assert old.encode() in output.stdout
    return replace(output, stdout=output.stdout.replace(old.encode(), new.encode()))


def test_percentiles_have_the_names_of_the_summary_and_none_of_the_json_alone() -> None:
    found = values(GATLING.parse(case("3.10.5--ownpct_both")))
    assert {name for metric, name in found if metric == "latency"} >= {"p90", "p99.9", "p95", "p99"}
    assert found["latency", "p99.9"] == 0.094 and ("latency", "p50") not in found
    alone = GATLING.parse(case("3.10.5--ownpct_json"))
    assert {name for metric, name in values(alone) if metric == "latency"} == {"mean", "sd", "min", "max"}
    assert "percentiles_unnamed" in dict(alone.doubts)


def test_json_and_summary_of_one_run_agree_and_those_of_two_are_refused() -> None:
    both = case("3.10.5--closed_both")
    assert GATLING.parse(both) == GATLING.parse(replace(both, files={}))
    other = case("3.10.5--open_both").files
    with pytest.raises(ParseError, match="two reports that differ: 150 requests, and 634"):
        GATLING.parse(replace(both, files=other))


def test_short_run_has_no_rate_and_a_longer_one_a_doubtful_one() -> None:
    short, longer = GATLING.parse(case("3.14.9--many_text")), GATLING.parse(case("3.14.9--long_text"))
    assert ("ok_per_s", "value") not in values(short)
    assert dict(short.doubts)["coarse_duration"] == ("Gatling divides by whole seconds, rounded up, here 4: no rates")
    assert values(longer)["ok_per_s", "value"] == 50 and "coarse_duration" in dict(longer.doubts)
    sure = changed(case("3.14.9--long_text"), "|        50 |        50 |", "|         5 |         5 |")
    assert values(GATLING.parse(sure))["ok_per_s", "value"] == 5
    assert not GATLING.parse(sure).doubts


def test_failed_requests_are_attempts_and_times_of_the_others_are_latency() -> None:
    """The summary has a column of all requests and one of those that are OK."""
    parsed = GATLING.parse(case("3.14.9--mix500_text"))
    found = values(parsed)
    counts = {key: value for key, value in found.items() if key[1] == "count"}
    assert counts == {("attempts", "count"): 150, ("ok", "count"): 136, ("errors", "count"): 14}
    times = ("mean", "sd", "min", "p50", "p75", "p95", "p99", "max")
    assert [round(1000 * found["latency", name]) for name in times] == [23, 10, 20, 21, 22, 24, 87, 90]
    assert [round(1000 * found["attempt_time", name]) for name in times] == [23, 10, 20, 21, 22, 23, 87, 90]
    assert dict(parsed.doubts)["failed_unknown"].startswith("14 of 150 requests failed")
    found = values(GATLING.parse(case("3.10.5--rst_text")))
    assert (found["latency", "p99"], found["attempt_time", "p99"]) == (0.082, 0.095)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("|     5,389 |     5,389 |         -", "|     5,389 |     5,380 |         -", "5380 requests OK and 0 KO"),
        ("|  1,347.25 |  1,347.25 |", "|  1,300.25 |  1,347.25 |", "are not 5389 in whole seconds"),
        ("|  1,347.25 |  1,347.25 |", "|         0 |         0 |", "5389 requests at 0 a second"),
        ("|        25 |        25 |", "|       525 |        25 |", "percentiles and maximum do not ascend"),
        ("> mean response time (ms)", "> mean answering time (ms)", "not known: 'mean answering time'"),
        ("> response time std deviation (ms)", "-- ", "no sd in the summary"),
    ],
)
def test_summary_that_contradicts_itself_is_refused(old: str, new: str, problem: str) -> None:
    with pytest.raises(ParseError, match=problem):
        GATLING.parse(changed(case("3.14.9--many_text"), old, new))


def test_summaries_of_two_runs_in_one_output_are_refused() -> None:
    output = case("3.10.5--closed_both")
    with pytest.raises(ParseError, match="two reports in one"):
        GATLING.parse(replace(output, stdout=2 * output.stdout, files={}))


@pytest.mark.parametrize(
    ("count", "rate", "ok_per_s"),
    [
        ("17010", "42,525", 42.525),
        ("17010", "42.525", 42.525),
        ("42525", "42,525", 42.525),
        ("17,010", "42.525", 42.525),
    ],
)
def test_comma_of_a_rate_is_one_of_decimals_where_the_count_has_no_thousands(
    count: str, rate: str, ok_per_s: float
) -> None:
    lines = [
        f"> request count {count} (OK={count} KO=0 )",
        *(f"> {name} 33 (OK=33 KO=- )" for name in ("min response time", "max response time", "mean response time")),
        "> std deviation 0 (OK=0 KO=- )",
        *(f"> response time {p}th percentile 33 (OK=33 KO=- )" for p in (50, 75, 95, 99)),
        f"> mean requests/sec {rate} (OK={rate} KO=- )",
    ]
    output = ToolOutput("\n".join(["---- Global Information ----", *lines, "----"]).encode())
    assert values(GATLING.parse(output))["ok_per_s", "value"] == pytest.approx(ok_per_s)


def test_comma_of_thousands_in_count_and_rate_is_none_of_decimals() -> None:
    found = values(GATLING.parse(changed(case("3.14.9--many_text"), "1,347.25", "269.45")))
    assert found["ok_per_s", "value"] == pytest.approx(269.45)
