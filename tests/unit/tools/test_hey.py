"""hey: exact rates, percentiles that are none, loads that lagged, and reports that contradict themselves."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, capture, values

HEY = base.load_tool("hey")


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "hey" / f"0.1.5--{name}.json")


def changed(name: str, old: str, new: str) -> ToolOutput:
    output = case(name)
    text, number = re.subn(old, new, output.stdout.decode())
    assert number
    return replace(output, stdout=text.encode())


def test_duration_has_the_digits_of_the_rate() -> None:
    found = values(HEY.parse(case("count_text")))
    assert found["duration", "value"] == pytest.approx(200 / 30748.8466)
    assert found["requests_per_s", "value"] == pytest.approx(30748.8466)


def test_rate_is_that_of_all_workers_and_its_times_are_service_times() -> None:
    output = case("rate_text")
    found = values(HEY.parse(output))
    assert found["offered_per_s", "value"] == 200 and ("service_time", "p50") in found
    found = values(HEY.parse(replace(output, argv=())))
    assert ("offered_per_s", "value") not in found and ("latency", "p50") in found
    found = values(HEY.parse(replace(output, argv=("hey", "-q", "4"))))
    assert found["offered_per_s", "value"] == 4 * 50  # hey's default of workers


def test_percentile_of_too_few_requests_is_left_out() -> None:
    found = values(HEY.parse(case("timeout_text")))
    assert ("latency", "p95") in found and ("latency", "p99") not in found


def test_load_that_ended_early_or_lagged_is_doubtful() -> None:
    assert dict(HEY.parse(case("sigint_text")).doubts)["stopped_early"] == (
        "the load lasted 1.51 s of the 20 s that were asked for"
    )
    assert dict(HEY.parse(case("n_not_multiple")).doubts)["stopped_early"] == (
        "100 attempts of the 103 requests that were asked for (hey makes a multiple of its workers)"
    )
    assert dict(HEY.parse(case("freeze_rate")).doubts)["offered_shortfall"] == (
        "420 requests in 3 s, of 600 that were due: hey never makes up for late ones"
    )


def test_short_times_are_coarse() -> None:
    assert [name for name, _ in HEY.parse(case("tls_text")).doubts] == ["coarse_times"]
    assert not HEY.parse(case("clean_text")).doubts


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (r"\[200\]\t894", "[200]\t893", "statuses and errors have 893 attempts"),
        (r"\[200\]\t894 responses", "[200]\t894 resp", "line cut or changed"),
        (r"  90%% in 0.0122 secs\n", "  90%% in 0.012\n", "line cut or changed"),
        (r"Slowest:\t0.0230", "Slowest:\t0.0200", "do not ascend"),
        (r"Average:\t0.0112", "Average:\t   NaN", "Average"),
        (r"Total:\t2.0121", "Total:\t0.0000", "0 s"),
        (r"Requests/sec:\t444.3131", "Requests/sec:\t4440.0000", "a million responses at most"),
        (r"\nStatus code(.|\n)*", "\n", "not complete"),
        (r"  Fastest:\t0.0102 secs\n", "", "no line like 'Fastest"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(old: str, new: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        HEY.parse(changed("clean_text", old, new))


def test_two_reports_are_refused() -> None:
    output = case("clean_text")
    with pytest.raises(ParseError, match="two reports in one"):
        HEY.parse(replace(output, stdout=output.stdout * 2))
