"""The window of a trial: of the requests, where a tool tells when they were, and else of its process."""

from __future__ import annotations

import pytest

from loadbook.ingestion.trial_rows import _with_request_span, _with_request_times, read_trial_rows
from loadbook.store import trial_record
from loadbook.store.trial_record import ClockRecord, DriverRecord, window_fields
from loadbook.tools.base import ParsedReport
from recorded_run import FIXTURE


def driver(host: str = "a", began: float = 1000.0) -> DriverRecord:
    return DriverRecord(
        host=host, argv=["jmeter"], rc=0, stdout="o", stderr="e", started_host=began, ended_host=began + 8
    )


@pytest.mark.parametrize("span", [None, (900.0, 1005.0), (1003.0, 1100.0), (1005.0, 1005.0)])
def test_measurement_window_ignores_impossible_times_in_the_request_log(span):
    assert _with_request_span(driver(), span) == driver()


def test_measurement_window_is_taken_from_the_request_log():
    record = trial_record.read_trial(next(iter(sorted((next(FIXTURE.iterdir()) / "trials").iterdir()))))
    clocks = {h: ClockRecord(offset_before_s=o, rtt_before_s=0.0) for h, o in (("a", 0.0), ("b", 50.0))}
    drivers = [driver("a"), driver("b", 1050.0)]
    both = record.model_copy(update={"drivers": drivers, "clocks": clocks, **window_fields(drivers, clocks)})
    assert (both.window, both.start_skew_s) == ((1000.0, 1008.0), 0.0)
    reported = {"a": ParsedReport((), span=(1003.0, 1007.0)), "b": ParsedReport((), span=(1053.5, 1057.5))}
    now = _with_request_times(both, reported)
    assert (now.window, now.start_skew_s) == ((1003.5, 1007.0), 0.5)
    assert _with_request_times(both, {"a": ParsedReport(()), "b": ParsedReport(())}) is both


def test_times_of_a_hosts_metrics_are_those_of_the_controllers_clock():
    folder = next(iter(sorted((next(FIXTURE.iterdir()) / "trials").iterdir())))
    record = trial_record.read_trial(folder)
    fast = {
        "web": record.clocks["web"].model_copy(update={"offset_before_s": record.clocks["web"].offset_before_s + 2})
    }

    def times_s(read: trial_record.TrialRecord, host: str) -> list[float]:
        return [row["t_s"] for row in read_trial_rows(folder, read).traces if row["host"] == host]

    shifted = record.model_copy(update={"clocks": record.clocks | fast})
    assert times_s(shifted, "driver") == times_s(record, "driver") != []
    assert times_s(shifted, "web") == pytest.approx([t_s - 2 for t_s in times_s(record, "web")])
