"""Truth of a trial: the server's record of the load, and what users would have waited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from loadbook.calibration.cases import CASES_BY_NAME
from loadbook.calibration.truth import ServerRecord, read_record, user_waits_s
from loadbook.core.errors import DataError

HELD = {"mean": 0.0205, "p50": 0.020, "p90": 0.021, "p99": 0.022, "max": 0.025}


def record(**changes: object) -> ServerRecord:
    fields = {"requests": 600, "errors": 0, "connections": 10, "span_s": 3.0, "held_s": HELD, "freeze_s": None}
    return ServerRecord.model_validate(fields | changes)


def line(**changes: object) -> str:
    return f"record {record(**changes).model_dump_json()}\n"


def test_record_of_the_load_is_the_one_with_the_most_requests(tmp_path: Path) -> None:
    log = tmp_path / "log"
    empty = line(requests=0, held_s=None, span_s=0.0)
    log.write_text(f"started\n{empty}{line(requests=1)}{line(requests=590)}{line(requests=2)}{empty}")
    assert read_record(log).requests == 590


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "recorded no request"),
        (line(requests=0, held_s=None), "recorded no request"),
        ('record {"requests": 5}\n', "is broken"),
        ("record {cut}\n", "is broken"),
    ],
)
def test_log_without_a_whole_record_is_refused(tmp_path: Path, text: str, words: str) -> None:
    log = tmp_path / "log"
    log.write_text(text)
    with pytest.raises(DataError, match=words):
        read_record(log)
    with pytest.raises(DataError, match="recorded no request"):
        read_record(tmp_path / "none")


def test_users_who_arrive_in_a_freeze_wait_for_its_end() -> None:
    waits = user_waits_s(CASES_BY_NAME["frozen-200"], record(freeze_s=(1.0, 2.0)))
    # a third of the users wait evenly up to 1 s: 10 % wait over 0.7 s, 1 % over 0.97 s
    assert waits == pytest.approx({"p50": 0.020, "p90": 0.72, "p99": 0.99, "max": 1.02}, abs=0.006)


def test_users_queue_above_the_rate_that_the_server_could_answer() -> None:
    waits = user_waits_s(CASES_BY_NAME["limited-750"], record(requests=2250, span_s=4.5))
    # 750 arrive and 500 are answered a second: after 3 s the last is 1.5 s late
    assert waits == pytest.approx({"p50": 0.76, "p90": 1.36, "p99": 1.495, "max": 1.51}, abs=0.006)


def test_users_who_need_not_wait_have_the_times_of_the_server() -> None:
    for name in ("frozen", "steady", "cold-200", "steady-400", "failing-200", "limited-300"):
        assert user_waits_s(CASES_BY_NAME[name], record(requests=900, span_s=2.99)) is None


def test_record_is_the_server_line() -> None:
    told = json.loads(line(freeze_s=(1.0, 2.0)).removeprefix("record "))
    assert ServerRecord.model_validate(told).freeze_s == (1.0, 2.0)
