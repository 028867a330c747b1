"""Several drivers: what is added up, what is put together from single times, and what is left out."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.ingestion.driver_totals import driver_totals, statistic_s, unmerged_times
from loadbook.tools.base import Measurement, ParsedReport

PERCENTILES = ("p50", "p90", "p99", "p99.9")


def report(rate: float, p99: float, duration: float, times_us: dict[int, int] | None = None) -> ParsedReport:
    rows = (
        Measurement("ok_per_s", "value", rate, "1/s", f"{rate}", 0.01),
        Measurement("latency", "p99", p99, "s", "x", 0.001),
        Measurement("connect_time", "mean", p99, "s", "x"),
        Measurement("duration", "value", duration, "s", "x"),
        Measurement("driver_cpu", "value", 0.5, "1", "x"),
    )
    return ParsedReport(rows, times_us={"latency": times_us} if times_us else {})


def table(reports: list[ParsedReport]) -> dict[tuple[str, str], Measurement]:
    return {(m.metric, m.statistic): m for m in driver_totals(reports)}


def test_totals_over_drivers_sum_rates_and_omit_times():
    alone, other = report(100.0, 0.1, 1.0), report(50.0, 0.9, 1.5)
    assert driver_totals([alone]) == list(alone.measurements)
    both = table([alone, other])
    assert both["ok_per_s", "value"] == Measurement("ok_per_s", "value", 150.0, "1/s", None)
    assert both["duration", "value"].value == 1.5
    assert set(both) == {("ok_per_s", "value"), ("duration", "value")}
    assert driver_totals([]) == []
    assert unmerged_times([alone]) == []
    assert unmerged_times([alone, other]) == ["connect_time", "latency"]


def test_totals_over_drivers_merge_single_times_only_if_all_drivers_have_them():
    fast, slow = report(100.0, 0.001, 1.0, {1000: 99, 2000: 1}), report(10.0, 0.5, 1.0, {500_000: 10})
    both = table([fast, slow])
    assert both["latency", "p99"] == Measurement("latency", "p99", 0.5, "s", None)
    assert ("connect_time", "mean") not in both
    assert unmerged_times([fast, slow]) == ["connect_time"]
    assert ("latency", "p99") not in table([fast, report(10.0, 0.5, 1.0)])


def test_totals_over_drivers_omit_metrics_missing_on_a_driver():
    errors = Measurement("errors", "count", 3, "1", "3")
    mute = report(1.0, 1.0, 1.0)
    assert ("errors", "count") not in table([mute, ParsedReport((*mute.measurements, errors))])
    assert ("errors", "count") not in table([ParsedReport((*mute.measurements, errors)), mute])


def counts(metric: str, number: int, rate: float, errors: int) -> ParsedReport:
    rows = (
        Measurement(metric, "count", number, "1", None),
        Measurement(f"{metric}_per_s", "value", rate, "1/s", None),
        Measurement("errors", "count", errors, "1", None),
        Measurement("attempt_time" if metric == "attempts" else "latency", "p50", 0.1, "s", None),
    )
    return ParsedReport(rows)


def test_attempts_of_several_drivers_are_added_to_requests_of_those_without_failures():
    failing, clean = counts("attempts", 100, 10.0, 5), counts("requests", 200, 20.0, 0)
    for pair in ([failing, clean], [clean, failing]):
        both = {(m.metric, m.statistic): m.value for m in driver_totals(pair)}
        assert both == {("attempts", "count"): 300, ("attempts_per_s", "value"): 30.0, ("errors", "count"): 5}
    assert unmerged_times([failing, failing]) == ["attempt_time"]
    two = table([failing, failing])
    assert two["attempts", "count"].value == 200 and ("attempt_time", "p50") not in two
    assert set(table([failing, counts("requests", 200, 20.0, 3)])) == {("errors", "count")}


@given(st.lists(st.lists(st.integers(0, 10**7), min_size=1, max_size=60), min_size=1, max_size=4))
def test_statistics_of_merged_times_equal_those_of_one_list_of_times(drivers):
    merged: dict[int, int] = {}
    for times in drivers:
        for us in times:
            merged[us] = merged.get(us, 0) + 1
    everything = sorted(us for times in drivers for us in times)
    n = len(everything)
    for name in PERCENTILES:
        rank = max(1, math.ceil(float(name[1:]) / 100 * n - 1e-9))
        assert statistic_s(merged, name) == everything[rank - 1] / 1e6
    mean = sum(everything) / n
    assert statistic_s(merged, "min") == everything[0] / 1e6
    assert statistic_s(merged, "max") == everything[-1] / 1e6
    assert statistic_s(merged, "mean") == pytest.approx(mean / 1e6)
    sd = math.sqrt(sum((us - mean) ** 2 for us in everything) / max(1, n - 1))
    assert statistic_s(merged, "sd") == pytest.approx(sd / 1e6, abs=1e-9)
    assert statistic_s(merged, "count") is None
