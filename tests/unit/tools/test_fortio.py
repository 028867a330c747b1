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


def histogram(*buckets: tuple[float, float, int], total: float, sd: float = 0.0, **percents: float) -> dict[str, Any]:
    count = sum(number for *_, number in buckets)
    return {
        "Count": count, "Min": buckets[0][0], "Max": buckets[-1][1], "Sum": total, "Avg": total / count, "StdDev": sd,
        "Data": [{"Start": start, "End": end, "Count": number} for start, end, number in buckets],
        "Percentiles": [{"Percentile": float(name[1:]), "Value": value} for name, value in percents.items()],
    }  # fmt: skip


def with_failures(codes: dict[str, int], failed: dict[str, Any] | None) -> ToolOutput:
    """Return 98 calls of 10 to 10.4 ms and two of 0.1 ms, with these codes and this histogram of errors."""
    percents = {"p50": 0.0102, "p90": 0.01036, "p99": 0.010396}
    times = histogram((0.0001, 0.001, 2), (0.01, 0.0104, 98), total=0.9998, sd=0.0014, **percents)
    changes: dict[str, Any] = {"RetCodes": codes, "DurationHistogram": times, "ErrorsDurationHistogram": failed}
    changes |= {"Exactly": 100, "ActualQPS": 100.0, "ActualDuration": 10**9, "RequestedDuration": "exactly 100 calls"}
    return changed(case("timeout_json"), lambda report: report.update(changes))


FAILED = histogram((0.0001, 0.0001, 2), total=0.0002)


def test_failed_calls_are_subtracted_by_the_histogram_of_their_own() -> None:
    parsed = FORTIO.parse(with_failures({"200": 98, "-1": 2}, FAILED))
    found = values(parsed)
    assert found["latency", "mean"] == pytest.approx(0.0102) and found["latency", "max"] == 0.0104
    assert found["latency", "p50"] == pytest.approx(0.0102) and found["latency", "p99"] == pytest.approx(0.010396)
    assert ("latency", "min") not in found and ("latency", "sd") not in found
    assert (found["attempt_time", "mean"], found["attempt_time", "min"]) == (0.009998, 0.0001)
    assert found["requests", "count"] == 98 and [name for name, _ in parsed.doubts] == ["unanswered"]


def test_text_has_the_histogram_of_failed_calls_as_well() -> None:
    found = values(FORTIO.parse(case("rst_text")))
    assert found["latency", "mean"] == pytest.approx((0.031678907 - 0.00030705) / 199)
    assert (found["latency", "min"], found["latency", "max"]) == (9.51e-06, 0.004005706)
    assert found["attempt_time", "mean"] == 0.00015839454


def test_times_that_mix_in_failures_are_those_of_attempts() -> None:
    mixed = histogram((0.0001, 0.0001, 2), (0.01, 0.0104, 3), total=0.0308)
    for codes, failed in (({"200": 95, "500": 3, "-1": 2}, mixed), ({"200": 98, "-1": 2}, None)):
        parsed = FORTIO.parse(with_failures(codes, failed))
        found = values(parsed)
        assert {metric for metric, _ in found if metric in ("latency", "attempt_time")} == {"attempt_time"}
        assert (found["attempt_time", "mean"], found["attempt_time", "p99"]) == (0.009998, 0.010396)
        assert dict(parsed.doubts) == {"unanswered": "2 of 100 calls had no response, and fortio's times count them"}


def test_one_failure_of_many_leaves_the_times_of_all_attempts() -> None:
    times = histogram((0.001, 0.00103, 99_999), (29.9, 30.0, 1), total=131.0, sd=0.1, p50=0.001015, p99=0.00103)
    changes: dict[str, Any] = {"RetCodes": {"200": 99_999, "-1": 1}, "DurationHistogram": times, "Exactly": 100_000}
    changes |= {"ActualQPS": 1000.0, "ActualDuration": 10**11, "RequestedDuration": "exactly 100000 calls"}
    output = changed(case("timeout_json"), lambda report: report.update(changes | {"ErrorsDurationHistogram": None}))
    found = values(FORTIO.parse(output))
    assert (found["attempt_time", "p50"], found["attempt_time", "p99"]) == (0.001015, 0.00103)
    assert found["attempt_time", "max"] == 30.0


@pytest.mark.parametrize(
    ("failed", "words"),
    [
        (histogram((0.0001, 0.05, 2), total=0.02), "not among those of all calls"),
        (
            histogram((0.0101, 0.0102, 2), total=0.0203) | {"Data": [{"Start": 0.01, "End": 0.0104, "Count": 99}]},
            "of the histogram",
        ),
        (histogram((0.0001, 0.0001, 2), total=2.0), "not among those of all calls"),
    ],
)
def test_failed_calls_that_contradict_all_calls_are_refused(failed: dict[str, Any], words: str) -> None:
    with pytest.raises(ParseError, match=words):
        FORTIO.parse(with_failures({"200": 98, "-1": 2}, failed))


def test_percentile_that_mean_and_deviation_disprove_is_left_out() -> None:
    """Half of the times cannot be 10.2 ms or more if their mean is 10.01 ms and their deviation 0.01 ms."""
    times = histogram((0.01, 0.0104, 100), total=1.001, sd=0.00001, p50=0.0102, p99=0.010396)
    changes: dict[str, Any] = {"RetCodes": {"200": 100}, "DurationHistogram": times, "ErrorsDurationHistogram": None}
    changes |= {"ActualQPS": 100.0, "ActualDuration": 10**9}
    parsed = FORTIO.parse(changed(case("timeout_json"), lambda report: report.update(changes)))
    assert {s for metric, s in values(parsed) if metric == "latency"} == {"mean", "sd", "min", "max"}
    ((name, text),) = parsed.doubts
    assert name == "coarse_times" and "2 of 2 left out, since mean and sd" in text


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
