"""fortio: reports in files and on stdout, times of coarse buckets, calls without a response, and contradictions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from loadbook.core.errors import ParseError, ToolError
from loadbook.study.workload import Workload
from loadbook.tools import base
from loadbook.tools.base import Target, ToolOutput
from tool_captures import FIXTURES, capture, values, with_changed_json

FORTIO = base.load_tool("fortio")
changed = partial(with_changed_json, indent=2)


def case(name: str) -> ToolOutput:
    return capture(FIXTURES / "fortio" / f"1.66.5--{name}.json")


def test_fortio_is_read_but_not_run() -> None:
    with pytest.raises(ToolError, match="reads reports of fortio, but does not run it") as refused:
        FORTIO.command(Workload(tool="wrk"), Target("192.0.2.1", 80), 1)
    assert refused.value.hint and "wrk" in refused.value.hint and "fortio" not in refused.value.hint


def test_report_in_a_file_is_read_as_one_on_stdout() -> None:
    in_file = case("rate_both")
    assert not in_file.stdout
    on_stdout = ToolOutput(in_file.files["result"], argv=in_file.argv)
    assert FORTIO.parse(in_file) == FORTIO.parse(on_stdout)
    both = replace(in_file, stdout=in_file.files["result"])
    with pytest.raises(ParseError, match="a second report"):
        FORTIO.parse(both)


def test_percentiles_within_wide_buckets_are_left_out() -> None:
    parsed = FORTIO.parse(case("freeze_rate_json"))
    found = values(parsed)
    assert ("service_time", "p50") not in found and found["service_time", "max"] == 0.982673014
    assert dict(parsed.doubts)["coarse_times"].endswith("3 of 5 left out")


def test_percentiles_within_fine_buckets_have_no_doubt() -> None:
    def refine(report: dict[str, Any]) -> None:
        times = report["DurationHistogram"]
        edges = sorted({p["Value"] * share for p in times["Percentiles"] for share in (0.99, 1.01)})
        edges = [times["Min"], *edges, times["Max"]]
        starts = [{"Start": low, "End": high, "Count": 0} for low, high in pairwise(edges)]
        starts[0]["Count"] = times["Count"]
        times["Data"] = starts

    assert not FORTIO.parse(changed(case("clean_json"), refine)).doubts


def first_bucket_from(start: float) -> Any:
    def change(report: dict[str, Any]) -> None:
        times = report["DurationHistogram"]
        low, high = times["Min"], times["Max"]
        times["Data"] = [{"Start": start * low, "End": high, "Count": times["Count"]}]
        values_s = (0.5 * low, 0.9 * low, high)
        times["Percentiles"] = [{"Percentile": p, "Value": v} for p, v in zip((50, 90, 99), values_s, strict=True)]

    return change


def test_percentiles_below_the_minimum_of_a_bucket_that_begins_there_are_left_out() -> None:
    parsed, whole = FORTIO.parse(changed(case("clean_json"), first_bucket_from(0.4))), FORTIO.parse(case("clean_json"))
    found, expected = values(parsed), values(whole)
    assert {k: v for k, v in found.items() if k[1][0] != "p"} == {k: v for k, v in expected.items() if k[1][0] != "p"}
    assert not {("latency", "p50"), ("latency", "p90")} & found.keys()
    assert "or begin below the minimum" in dict(parsed.doubts)["coarse_times"]


def test_calls_in_a_bucket_below_the_minimum_are_refused() -> None:
    def change(report: dict[str, Any]) -> None:
        first_bucket_from(0.4)(report)
        report["DurationHistogram"]["Data"][0]["End"] = 0.9 * report["DurationHistogram"]["Min"]

    with pytest.raises(ParseError, match="calls below the minimum"):
        FORTIO.parse(changed(case("clean_json"), change))


def test_times_that_count_calls_without_response_are_left_out() -> None:
    parsed = FORTIO.parse(case("timeout_json"))
    assert not [row for row in parsed.measurements if row.unit == "s" and row.metric != "duration"]
    assert dict(parsed.doubts) == {
        "unanswered": "2 of 100 calls had no response, and fortio's times count them: left out"
    }


def test_load_that_ended_early_or_lagged_is_doubtful() -> None:
    assert dict(FORTIO.parse(case("sigint_json")).doubts)["stopped_early"] == (
        "the load lasted 1.49 s of the 20 s that were asked for"
    )
    assert dict(FORTIO.parse(case("freeze_rate_nocatchup_json")).doubts)["offered_shortfall"] == (
        "410 calls in 3 s, of 600 that were due: all connections were waiting"
    )
    more = changed(case("count_json"), lambda report: report.update(Exactly=400))
    assert dict(FORTIO.parse(more).doubts)["stopped_early"] == "300 calls of the 400 that were asked for"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda report: report.pop("RetCodes"), "no 'RetCodes'"),
        (lambda report: report.update(RunType="GRPC Ping"), "no report of HTTP"),
        (lambda report: report.update(RequestedQPS="fast"), "no rate: 'fast'"),
        (lambda report: report.update(ActualDuration=0), "0 s"),
        (lambda report: report.update(ActualQPS=470.0), "are not 470 a second"),
        (lambda report: report.update(RetCodes={"200": 933}), "933 calls by code"),
        (lambda report: report.update(RetCodes={"200": 933, "-2": 1}), "impossible status"),
        (lambda report: report["DurationHistogram"].update(Max=0.012), "do not ascend"),
        (lambda report: report["DurationHistogram"].update(Avg=0.03), "do not ascend"),
        (lambda report: report["DurationHistogram"].update(Data=[]), "not the 934 calls"),
        (lambda report: report["DurationHistogram"].update(Data=None), "no list 'Data'"),
        (lambda report: report["DurationHistogram"]["Percentiles"][0].update(Value=0.5), "in no bucket"),
    ],
)
def test_report_that_lacks_something_or_contradicts_itself_is_refused(change: Any, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        FORTIO.parse(changed(case("clean_json"), change))


def test_cut_report_is_refused() -> None:
    output = case("clean_json")
    with pytest.raises(ParseError, match="not complete"):
        FORTIO.parse(replace(output, stdout=output.stdout[:1000]))
