"""Rows of an arm of an interleaved block: rates per active second, percentiles that slicing keeps, processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loadbook.core.bucketed_times import BucketedTimes
from loadbook.host_metrics.base import trace_row
from loadbook.ingestion.driver_totals import cpu_measurements
from loadbook.modes.interleaved.read import (
    Slice,
    SliceLog,
    active_report,
    apart_share,
    own_processes,
    read_slices,
    slice_samples,
)
from loadbook.store.trial_record import InterleavedRecord, ServiceRecord, TrialRecord
from loadbook.tools.base import Measurement, ParsedReport, Sample

INTERLEAVED = InterleavedRecord(arm=1, beside=["a", "b"], slice_s=0.025, gap_s=0.001, slices="slices", active_s=1.25)
OUTPUT = """clock 100.000000 1700000000.000000
arm 0 11
slice 0 100.100000 100.150000
arm 1 12
slice 1 100.151000 100.201000
slice 0 100.202000 100.227000
slice 1 100.228000 100.254000
exit 0 0 0.31
exit 1 137 0.30
"""
FORTY_SLICES = SliceLog([Slice(arm, t + arm * 0.03, t + arm * 0.03 + 0.025) for t in range(40) for arm in (0, 1)])
# the second arm's services are on another machine
COUNTED = """clock 100.000000 1700000000.000000
slice 0 100.100000 100.150000 50000 4000000 6000000 0
slice 1 100.151000 100.201000 60000 5000000 - -
waited 0 25000000
slice 0 100.202000 100.227000 25000 - 3000000 1000000
waited 1 20000000
rest 0 2000000
rest 1 -
exit 0 0 0.31
"""


def record(**keys: object) -> TrialRecord:
    base = {
        "study": "s", "run": "r", "trial": "t0001", "treatment": "b", "factors": {}, "block": 1, "slot": 1,
        "attempt": 1, "status": "ok", "tool": "wrk", "workload": {"connections": 10}, "interleaved": INTERLEAVED,
    }  # fmt: skip
    return TrialRecord.model_validate(base | keys)


def report(requests: float) -> ParsedReport:
    rows = [
        Measurement("requests", "count", requests, "1", "x"),
        Measurement("ok", "count", requests, "1", None),
        Measurement("duration", "value", 5.0, "s", "5.00"),
        Measurement("ok_per_s", "value", requests / 5, "1/s", None),
        Measurement("bytes_per_s", "value", 100 * requests / 5, "B/s", None),
        *(Measurement("latency", name, 0.1, "s", None) for name in ("min", "mean", "sd", "max", "p50", "p90", "p99")),
    ]
    return ParsedReport(tuple(rows), samples=(Sample("ended", "requests", 1.0, "s", 3.0, "1"),), span=(1.0, 6.0))


def values_of(parsed: ParsedReport) -> dict[tuple[str, str], float]:
    return {(m.metric, m.statistic): m.value for m in parsed.measurements}


def test_interleaved_rates_are_divided_by_active_seconds() -> None:
    values = values_of(active_report(report(10_000), record(), FORTY_SLICES))
    assert values["ok_per_s", "value"] == pytest.approx(10_000 / 1.25)
    assert values["bytes_per_s", "value"] == pytest.approx(1_000_000 / 1.25)
    assert values["duration", "value"] == 1.25
    assert values["requests", "count"] == 10_000


def test_counts_of_times_are_dropped_as_slicing_cuts_some() -> None:
    timed = replace(report(10_000), times_us={"latency": {5: 1}}, bucketed={"latency": BucketedTimes(10_000)})
    active = active_report(timed, record(), FORTY_SLICES)
    assert not active.times_us and not active.bucketed


@pytest.mark.parametrize(("requests", "kept"), [(10_000, {"p50"}), (50_000, {"p50", "p90"}), (2_000, set())])
def test_percentiles_that_interrupted_requests_may_affect_are_left_out(requests: int, kept: set[str]) -> None:
    """40 slices cut at most 400 requests of 10 connections."""
    values = values_of(active_report(report(requests), record(tool="ab"), FORTY_SLICES))
    assert {statistic for metric, statistic in values if metric == "latency"} == kept


def test_percentiles_of_wrk_are_left_out_as_it_adds_samples_for_each_pause() -> None:
    values = values_of(active_report(report(50_000), record(tool="wrk"), FORTY_SLICES))
    assert not [statistic for metric, statistic in values if metric == "latency"]


def test_samples_of_an_interleaved_trial_are_those_of_its_slices() -> None:
    parsed = active_report(report(10_000), record(), read_slices(COUNTED))
    assert parsed.span is None
    rows = {(sample.series, sample.metric, sample.x, sample.unit): sample.value for sample in parsed.samples}
    assert rows == {
        ("slice", "slice", 0.051, "s"): pytest.approx(0.05),
        ("slice", "received_per_s", 0.051, "B/s"): pytest.approx(1_200_000),
        ("slice", "generator_cpu", 0.051, "1"): pytest.approx(0.1),
        ("slice", "waiting", 0.051, "1"): pytest.approx(0.4),
    }
    assert [turn.waited_s for turn in read_slices(COUNTED).slices_of(0)] == [0.025, None]


def test_cpu_time_outside_of_slices_is_known_where_it_was_read_for_every_slice() -> None:
    slice_log = read_slices(COUNTED)
    assert slice_log.outside_cpu_s(0) == pytest.approx(0.003)
    assert slice_log.outside_cpu_s(1) is None
    assert read_slices(OUTPUT).outside_cpu_s(0) is None


@pytest.mark.parametrize(
    ("spans", "share"),
    [
        ([[(0, 1), (3, 4)], [(0, 1), (3, 4)]], 0.0),
        ([[(0, 1), (3, 4)], [(0.1, 1.1), (3, 4)]], 0.2 / 2.1),
        ([[(0, 1)], [(2, 3)]], 1.0),
        ([[(0, 1), (2, 3)], [(0, 1)]], 0.5),
        ([[], []], None),
    ],
)
def test_share_of_slices_that_drivers_do_not_have_in_common(
    spans: list[list[tuple[float, float]]], share: float | None
) -> None:
    assert apart_share(spans) == (share if share is None else pytest.approx(share, abs=1e-6))


def test_rates_of_several_drivers_are_divided_by_the_active_seconds_of_each() -> None:
    base = {"argv": [], "rc": 0, "started_ours": 0.0, "ended_ours": 9.0, "stdout": "x", "stderr": "y"}
    drivers = [base | {"host": f"driver-{k}", "active_s": float(k)} for k in (1, 2)]
    several = record(drivers=drivers)
    parsed = [active_report(report(10_000), several, read_slices(COUNTED), driver) for driver in several.drivers]
    assert [values_of(own)["ok_per_s", "value"] for own in parsed] == [10_000, 5_000]
    assert [bool(own.samples) for own in parsed] == [True, False]


def test_report_of_a_plain_trial_is_unchanged() -> None:
    parsed = report(10_000)
    assert active_report(parsed, record(interleaved=None), SliceLog()) is parsed


def test_cpu_time_per_response_is_summed_over_all_services_and_over_those_of_a_role() -> None:
    services = [
        ServiceRecord(host="h", role=role, service="nginx", config_sha256="0", cpu_s=cpu_s)
        for role, cpu_s in (("balancer", 0.5), ("web", 1.5))
    ]
    rows = cpu_measurements(record(services=services), report(10_000).measurements)
    assert {row.unit for row in rows} == {"s"}
    assert {row.metric: row.value for row in rows} == {
        "cpu_per_response": pytest.approx(0.0002),
        "cpu_per_response.balancer": pytest.approx(0.00005),
        "cpu_per_response.web": pytest.approx(0.00015),
    }
    services[0].cpu_s = None
    assert cpu_measurements(record(services=services), report(10_000).measurements) == []


def test_cpu_times_of_processes_of_other_arms_are_summed_under_one_name() -> None:
    points = [
        trace_row(1.0, "process_cpu", item, 0.25)
        for item in ("nginx.0:11", "nginx.1:12", "nginx.1:13", "wrk.0:14", "wrk.2:15")
    ]
    points.append(trace_row(1.0, "cpu_busy", "cpu0", 0.5))
    rows = own_processes(points, INTERLEAVED.arm)
    found = {(row["metric"], row["item"]): row["value"] for row in rows}
    assert found == {
        ("process_cpu", "nginx:12"): 0.25,
        ("process_cpu", "nginx:13"): 0.25,
        ("process_cpu", "other treatments:0"): 0.75,
        ("cpu_busy", "cpu0"): 0.5,
    }


def test_output_of_the_alternation_script_is_read() -> None:
    slice_log = read_slices(OUTPUT)
    assert slice_log.exit_codes == {0: 0, 1: 137}
    assert slice_log.clock_offset_s == pytest.approx(1_699_999_900)
    assert slice_log.active_s(1) == pytest.approx(0.076)
    assert [turn.arm for turn in slice_log.slices] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "slice 0 1.0",
        "slice x 1 2",
        "slice 0 1 2 3",
        "slice 0 1 2 3 x 5 6",
        "rest 0",
        "waited 0 5",
        "hello",
        "exit 1 z 0",
        "clock 1",
    ],
)
def test_damaged_output_of_the_alternation_script_is_refused(text: str) -> None:
    with pytest.raises((ValueError, LookupError)):
        read_slices(text)


PIECES = """clock 100.0 1700000000.0
slice 1 99.0 99.1 - - - -
piece 0 100.0 100.5 1000 200000000 100000000
piece 0 100.6 101.0 400 - 400000000
slice 0 100.0 101.2 2000 500000000 300000000 0
slice 0 102.0 102.1 70 10000000 20000000 0
"""


def test_last_piece_of_a_long_slice_is_what_the_others_leave_of_it() -> None:
    long, short = read_slices(PIECES).slices_of(0)
    first, second, rest = long.pieces
    assert (first.start_s, first.end_s, second.start_s, second.end_s) == (100.0, 100.5, 100.6, 101.0)
    assert (rest.arm, rest.start_s, rest.end_s, rest.received_bytes) == (0, 101.0, 101.2, 600.0)
    assert (rest.generator_cpu_s, rest.service_cpu_s) == (None, 0.0)
    assert (short.pieces, short.received_bytes, short.generator_cpu_s, short.service_cpu_s) == ([], 70.0, 0.01, 0.02)


def test_samples_of_pieces_are_a_series_of_their_own_from_the_first_slice_of_the_block() -> None:
    samples = slice_samples(read_slices(PIECES), 0)
    pieces = {(s.x, s.metric): s.value for s in samples if s.series == "piece"}
    assert pieces == {
        (1.0, "slice"): pytest.approx(0.5), (1.0, "received_per_s"): pytest.approx(2000),
        (1.0, "generator_cpu"): pytest.approx(0.4), (1.0, "service_cpu"): pytest.approx(0.2),
        (1.6, "slice"): pytest.approx(0.4), (1.6, "received_per_s"): pytest.approx(1000),
        (1.6, "service_cpu"): pytest.approx(1.0), (2.0, "slice"): pytest.approx(0.2),
        (2.0, "received_per_s"): pytest.approx(3000), (2.0, "service_cpu"): 0.0,
    }  # fmt: skip
    assert [s.x for s in samples if (s.series, s.metric) == ("slice", "slice")] == [1.0, 3.0]


def test_slices_that_lasted_too_long_are_counted_without_the_first_and_the_last() -> None:
    lengths = [0.09, 0.02, 0.025, 0.04, 0.07, 0.09]
    log = SliceLog([Slice(arm, n, n + (s if arm == 0 else 9)) for n, s in enumerate(lengths) for arm in (0, 1)])
    assert log.late_share(0, 0.025) == 0.5
    assert log.late_share(0, 0.05) == 0.0
    assert SliceLog([Slice(0, 0, 1), Slice(0, 2, 3)]).late_share(0, 0.025) is None


def test_offered_rate_and_counts_of_an_interleaved_trial_are_as_its_tool_told_them() -> None:
    rows = (*report(10_000).measurements, Measurement("offered_per_s", "value", 300.0, "1/s", "300"))
    values = values_of(active_report(ParsedReport(rows, span=(1.0, 6.0)), record(), FORTY_SLICES))
    assert values["offered_per_s", "value"] == 300.0 and values["ok", "count"] == 10_000
