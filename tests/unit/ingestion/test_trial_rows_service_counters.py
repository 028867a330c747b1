"""What services counted becomes rows of `traces`, and a count that went back a doubt."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.ingestion.trial_rows import counter_rows, read_trial_rows
from loadbook.store import trial_record
from loadbook.store.trial_record import RECORD_NAME, ServiceRecord, TrialRecord
from recorded_run import FIXTURE

TRIAL = next(iter(sorted((next(FIXTURE.iterdir()) / "trials").iterdir())))


def record(before: dict[str, float], after: dict[str, float]) -> TrialRecord:
    one = trial_record.read_trial(TRIAL)
    service = one.services[0].model_copy(update={"counters_before": before, "counters_after": after})
    return one.model_copy(update={"services": [service]})


def test_service_counter_has_a_row_before_and_one_after_the_load():
    one = record({"requests": 2, "connections": 2, "sessions": 7}, {"requests": 5002, "connections": 52, "other": 1})
    rows, back = counter_rows(one)
    assert back == []
    assert [(r["metric"], r["value"]) for r in rows] == [
        ("accepted_connections", 2), ("accepted_connections", 52), ("served_requests", 2), ("served_requests", 5002),
    ]  # fmt: skip
    driver, window = one.drivers[0], one.window
    assert [r["t_s"] for r in rows[:2]] == pytest.approx(
        [driver.started_ours - window[0], driver.ended_ours - window[0]], abs=1e-4
    )
    assert rows[0]["t_s"] < 0 < rows[1]["t_s"]
    assert {(r["host"], r["role"], r["item"], r["unit"], r["source"]) for r in rows} == {
        ("web", "web", "nginx", "1", "service")
    }


def test_decreasing_service_counter_is_a_doubt_without_rows(tmp_path):
    one = record({"requests": 10, "connections": 1}, {"requests": 3, "connections": 4})
    for file in TRIAL.iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / RECORD_NAME).write_text(json.dumps(one.model_dump(mode="json")))
    rows = read_trial_rows(tmp_path, one)
    assert {r["metric"] for r in rows.traces if r["source"] == "service"} == {"accepted_connections"}
    (doubt,) = [p for p in rows.problems if p["name"] == "served-less"]
    assert (doubt["level"], doubt["host"]) == ("doubt", "web")
    assert "counted 10 requests, then 3" in doubt["message"]


@pytest.mark.parametrize("change", [{"window": None}, {"drivers": []}])
def test_service_counters_without_times_have_no_rows(change):
    assert counter_rows(record({"requests": 1}, {"requests": 2}).model_copy(update=change)) == ([], [])


COUNTS = st.dictionaries(st.sampled_from(["requests", "connections", "upstream_connections", "x"]), st.floats(0, 1e15))


@given(before=COUNTS, after=COUNTS)
def test_service_counter_read_once_has_no_row(before, after):
    service = ServiceRecord(
        host="w", role="web", service="s", config_sha256="0", counters_before=before, counters_after=after
    )
    rows, back = counter_rows(record({}, {}).model_copy(update={"services": [service]}))
    both = set(before) & set(after)
    assert len(rows) == 2 * sum(after[name] >= before[name] for name in both)
    assert len(back) == sum(after[name] < before[name] for name in both)
