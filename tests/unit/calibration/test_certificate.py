"""The rule that trusts a number, the tables of a certificate, and its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadbook.calibration.certificate import (
    Certificate,
    Reading,
    judge,
    read_certificates,
    trial_readings,
    write_certificate,
)
from loadbook.calibration.tables import case_rows, trust_rows
from loadbook.calibration.truth import ServerRecord
from loadbook.core.errors import DataError
from loadbook.store.trial_record import TrialRecord

SERVER = ServerRecord(
    requests=1500,
    errors=15,
    connections=10,
    span_s=3.0,
    held_s={"mean": 0.020, "p50": 0.020, "p90": 0.021, "p99": 0.022, "max": 0.9},
    freeze_s=(1.0, 2.0),
)


def reading(said: float, **changes: Any) -> Reading:
    fields = {
        "tool": "wrk", "load_model": "closed", "case": "steady", "block": 1,
        "metric": "latency", "statistic": "p50", "said": said, "true": 0.020, "tolerance": 0.001,
    }  # fmt: skip
    return Reading.model_validate(fields | changes)


def trial(treatment: str) -> TrialRecord:
    return TrialRecord(
        study="s", run="r", trial="t0001", treatment=treatment, factors={}, block=1, slot=1, attempt=1,
        status="ok", tool=treatment.partition("-")[0], workload={},
    )  # fmt: skip


def test_number_within_its_tolerance_in_every_case_is_trusted() -> None:
    (trust,) = judge([reading(0.0205), reading(0.0195, case="failing")])
    assert trust.trusted
    assert trust.missing == []
    (trust,) = judge([reading(0.0205), reading(0.0225, case="frozen")])
    assert not trust.trusted and (trust.case, trust.said, trust.true) == ("frozen", 0.0225, 0.020)
    (trust,) = judge([reading(0.0205), reading(0.0175, case="frozen")])
    assert not trust.trusted and (trust.case, trust.said) == ("frozen", 0.0175)


def test_number_that_deviates_by_just_its_tolerance_is_trusted() -> None:
    (trust,) = judge([reading(16, true=15, tolerance=1, metric="errors", statistic="count")])
    assert trust.trusted


def test_number_that_is_not_told_in_every_case_is_not_trusted() -> None:
    p50, p90 = judge([reading(0.020), reading(0.020, case="frozen"), reading(0.020, statistic="p90")])
    assert p50.trusted and not p90.trusted and p90.missing == ["frozen"]


def test_median_of_the_blocks_decides_a_case() -> None:
    blocks = [reading(said, block=block) for block, said in enumerate((0.0205, 0.9, 0.0204), 1)]
    (trust,) = judge(blocks)
    assert trust.trusted
    (trust,) = judge([*blocks, reading(0.9, block=4), reading(0.9, block=5)])
    assert not trust.trusted and trust.said == 0.9


def test_loops_metrics_and_numbers_are_judged_apart() -> None:
    trusts = list(
        judge([reading(0.9), reading(0.020, statistic="p90"), reading(0.020, load_model="open", case="steady-100")])
    )
    assert [(one.load_model, one.statistic, one.trusted) for one in trusts] == [
        ("closed", "p50", False),
        ("closed", "p90", True),
        ("open", "p50", True),
    ]


def test_truth_of_a_closed_loop_is_the_time_that_the_server_held_requests() -> None:
    said = {("latency", "p90"): 0.601, ("requests_per_s", "value"): 501.0, ("errors", "count"): 15.0}
    found = {one.metric: one for one in trial_readings(trial("wrk-frozen"), said, SERVER)}
    assert found["latency"].true == 0.021 and found["latency"].tolerance == pytest.approx(0.00105)
    # 0.5 % of 500 a second, and the ten requests that are under way at begin or end of 3 s
    assert found["requests_per_s"].tolerance == pytest.approx(2.5 + 10 / 3)
    assert found["errors"].true == 15


def test_errors_by_status_are_judged_only_where_the_tool_tells_no_total() -> None:
    said = {("errors_status", "count"): 15.0}
    assert [one.metric for one in trial_readings(trial("wrk-failing"), said, SERVER)] == ["errors_status"]
    both = said | {("errors", "count"): 16.0}
    assert [one.metric for one in trial_readings(trial("wrk-failing"), both, SERVER)] == ["errors"]


def test_maximum_may_deviate_by_five_milliseconds_and_a_percentile_by_one() -> None:
    server = SERVER.model_copy(update={"held_s": {"p50": 0.01, "p90": 0.01, "p99": 0.01, "max": 0.02}})
    said = {("latency", "p50"): 0.01, ("latency", "max"): 0.02}
    found = {one.statistic: one.tolerance for one in trial_readings(trial("wrk-steady"), said, server)}
    assert found == {"p50": 0.001, "max": 0.005}


def test_rate_of_an_open_loop_has_the_tolerance_of_the_requests_of_one_response() -> None:
    """A median of the times that a frozen server held requests is no time of a response."""
    server = SERVER.model_copy(update={"held_s": {"p50": 0.5, "p90": 0.9, "p99": 0.98, "max": 1.0}})
    (rate,) = trial_readings(trial("oha-frozen-200"), {("requests_per_s", "value"): 500.0}, server)
    assert rate.tolerance == pytest.approx(2.5 + (1 + 200 * 0.020) / 3)


def test_truth_from_the_intended_start_is_what_users_waited() -> None:
    said = {("service_time", "p90"): 0.021, ("latency_intended", "p90"): 0.72}
    found = {one.metric: one.true for one in trial_readings(trial("oha-frozen-200"), said, SERVER)}
    assert found["service_time"] == 0.021 and found["latency_intended"] == pytest.approx(0.72, abs=0.006)


def certificate() -> Certificate:
    rate = {"metric": "requests_per_s", "statistic": "value", "true": 500.0, "tolerance": 5.0}
    readings = [
        reading(0.0203),
        reading(0.0204, case="frozen"),
        reading(0.0203, statistic="p90"),
        reading(0.601, statistic="p90", case="frozen"),
        reading(500.4, **rate),
    ]
    return Certificate(
        runs={"calibration-closed": "20261126-060000"},
        machine="abc",
        driver="driver",
        tools={"wrk": "4.1.0"},
        readings=readings,
        trusts=list(judge(readings)),
        failed={},
    )


def test_tables_have_said_and_true_and_the_worst_case() -> None:
    assert list(case_rows(certificate())) == [
        ("wrk", "steady", "latency", "500.4 / 500.0", "-", "20.3 ms / 20.0 ms", "20.3 ms / 20.0 ms", "-", "-"),
        ("wrk", "frozen", "latency", "-", "-", "20.4 ms / 20.0 ms", "601 ms / 20.0 ms", "-", "-"),
    ]
    assert list(trust_rows(certificate())) == [
        (
            *("wrk", "4.1.0", "closed", "latency", "no: not told (frozen)", "-", "yes"),
            *("no: 601 ms for 20.0 ms (frozen)", "-", "-"),
        )
    ]


def test_table_has_the_median_of_the_blocks_of_a_case() -> None:
    readings = [reading(said, block=block) for block, said in enumerate((0.0203, 0.0409, 0.0204), 1)]
    of_blocks = certificate().model_copy(update={"readings": readings})
    assert [row[5] for row in case_rows(of_blocks)] == ["20.4 ms / 20.0 ms"]


def test_certificate_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_certificate(certificate(), tmp_path / "certificates" / "20261126-060000.json")
    assert read_certificates(tmp_path / "certificates") == [certificate()]
    assert read_certificates(tmp_path / "none") == []
    (tmp_path / "certificates" / "broken.json").write_text('{"schema_version": 1}')
    with pytest.raises(DataError, match=r"broken\.json is no certificate"):
        read_certificates(tmp_path / "certificates")
