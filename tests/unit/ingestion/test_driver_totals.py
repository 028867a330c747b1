"""Several drivers: what is added up, what is put together from single times, and what is left out."""

from __future__ import annotations

import json
import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.bucketed_times import BucketedTimes
from loadbook.ingestion.driver_totals import driver_totals, statistic_s, unmerged_times
from loadbook.tools import base
from loadbook.tools.base import Measurement, ParsedReport
from tool_captures import FIXTURES, capture

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
    assert unmerged_times([alone], driver_totals([alone])) == []
    assert unmerged_times([alone, other], driver_totals([alone, other])) == ["connect_time", "latency"]


def test_totals_over_drivers_merge_single_times_only_if_all_drivers_have_them():
    fast, slow = report(100.0, 0.001, 1.0, {1000: 99, 2000: 1}), report(10.0, 0.5, 1.0, {500_000: 10})
    both = table([fast, slow])
    assert both["latency", "p99"] == Measurement("latency", "p99", 0.5, "s", None)
    assert ("connect_time", "mean") not in both
    assert unmerged_times([fast, slow], driver_totals([fast, slow])) == ["connect_time"]
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
    assert unmerged_times([failing, failing], driver_totals([failing, failing])) == ["attempt_time"]
    two = table([failing, failing])
    assert two["attempts", "count"].value == 200 and ("attempt_time", "p50") not in two
    assert set(table([failing, counts("requests", 200, 20.0, 3)])) == {("errors", "count")}


def captured(tool: str, *stems: str) -> list[ParsedReport]:
    """Return the reports of captures as those of several drivers."""
    return [base.load_tool(tool).parse(capture(FIXTURES / tool / f"{stem}.json")) for stem in stems]


def test_joint_times_of_locust_are_those_of_its_rounded_times_put_together():
    stems = ("2.47.0--clean_json", "2.47.0--fast_user_json")
    entries = [json.loads((FIXTURES / "locust" / f"{stem}.stdout").read_text())[0] for stem in stems]
    everything = sorted(int(ms) for entry in entries for ms, n in entry["response_times"].items() for _ in range(n))
    reports = captured("locust", *stems)
    both, number = table(reports), len(everything)
    assert number == 815 + 445 == both["requests", "count"].value
    for name in ("p75", "p90", "p95", "p99", "p99.9"):
        value, step = everything[math.ceil(float(name[1:]) / 100 * number) - 1] / 1000, 0.001
        assert both["latency", name] == Measurement("latency", name, value, "s", None, both["latency", name].step)
        assert both["latency", name].step == pytest.approx(step)
    mean = sum(entry["total_response_time"] for entry in entries) / number / 1000
    assert both["latency", "mean"].value == pytest.approx(mean)
    assert both["latency", "min"].value == entries[1]["min_response_time"] / 1000
    assert both["latency", "max"].value == entries[0]["max_response_time"] / 1000
    assert unmerged_times(reports, driver_totals(reports)) == []


def test_joint_times_of_fortio_are_interpolated_in_the_buckets_of_all_drivers():
    stems = ("1.66.5--clean_json", "1.66.5--sigint_json")
    histograms = [
        json.loads((FIXTURES / "fortio" / f"{stem}.stdout").read_text())["DurationHistogram"] for stem in stems
    ]
    reports = captured("fortio", *stems)
    both = table(reports)
    number = sum(histogram["Count"] for histogram in histograms)
    for name in ("p50", "p75", "p90", "p99", "p99.9"):
        rank, row = math.ceil(float(name[1:]) / 100 * number), both["latency", name]
        low, high = (
            sorted(b[edge] for h in histograms for b in h["Data"] for _ in range(b["Count"]))[rank - 1]
            for edge in ("Start", "End")
        )
        assert low <= row.value <= high and row.step == pytest.approx(high - low)
    assert both["latency", "mean"].value == pytest.approx(sum(h["Sum"] for h in histograms) / number)
    squares = sum(h["Count"] * (h["StdDev"] ** 2 + h["Avg"] ** 2) for h in histograms) / number
    assert both["latency", "sd"].value == pytest.approx(math.sqrt(squares - both["latency", "mean"].value ** 2))


def test_joint_times_of_wrk2_are_those_of_its_spectra_from_p75_on():
    reports = captured("wrk2", "4.0.0--R2000_d14_latency", "4.0.0--batch_B")
    both = table(reports)
    own = [{m.statistic: m for m in r.measurements if m.metric == "latency_intended"} for r in reports]
    for name in ("p75", "p90", "p99", "p99.9", "p99.99"):
        row = both["latency_intended", name]
        low, *_, high = sorted(rows[name].value for rows in own)
        assert row.step is not None and low - row.step <= row.value <= high + row.step
    first, second = (report.bucketed["latency_intended"].number for report in reports)
    mean = (first * own[0]["mean"].value + second * own[1]["mean"].value) / (first + second)
    assert both["latency_intended", "mean"].value == pytest.approx(mean)
    assert both["latency_intended", "mean"].step == pytest.approx(1e-6)
    assert both["latency_intended", "max"].value == max(rows["max"].value for rows in own)
    assert unmerged_times(reports, driver_totals(reports)) == ["latency_intended p50"]


def timed(number: int | None, *values: float) -> ParsedReport:
    """Return a report of `number` times of which minimum, mean and deviation are known."""
    rows = [Measurement("latency", name, v, "s", None) for name, v in zip(("min", "mean", "sd"), values, strict=False)]
    return ParsedReport(tuple(rows), bucketed={"latency": BucketedTimes(number)} if number else {})


def test_joint_mean_needs_the_number_of_times_of_every_driver():
    times = [1.0, 2.0, 6.0, 9.0]
    first = timed(1, 1.0, 1.0, 0.0)
    rest = timed(3, 2.0, statistics.mean(times[1:]), statistics.pstdev(times[1:]))
    both = {m.statistic: m.value for m in driver_totals([first, rest])}
    assert both == pytest.approx({"min": 1.0, "mean": 4.5, "sd": statistics.pstdev(times)})
    assert unmerged_times([first, rest], driver_totals([first, rest])) == []
    unknown = timed(None, 2.0, 5.0, 1.0)
    assert {m.statistic: m.value for m in driver_totals([first, unknown])} == {"min": 1.0}
    assert unmerged_times([first, unknown], driver_totals([first, unknown])) == ["latency mean", "latency sd"]
    assert {m.statistic for m in driver_totals([timed(1, 1.0), timed(1, 1.0)])} == {"min"}


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
