from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadbook.core.errors import DataError
from loadbook.store.ledger import Ledger, read_ledger, trial_states


@pytest.fixture
def path(tmp_path):
    with Ledger(tmp_path / "run" / "ledger.jsonl") as ledger:
        ledger.append("run-started", trials=2)
        ledger.append("started", trial="t0001", attempt=1)
        ledger.append("ended", trial="t0001", attempt=1, status="lost", reason="ligne coup\u00e9e")
        ledger.append("started", trial="t0001", attempt=2)
    return tmp_path / "run" / "ledger.jsonl"


def test_state_of_a_trial_is_that_of_its_last_attempt(path):
    entries = read_ledger(path)
    assert [e["n"] for e in entries] == [1, 2, 3, 4]
    state = trial_states(entries)["t0001"]
    assert (state.attempt, state.status) == (2, None)
    assert trial_states(entries[:3])["t0001"].reason == "ligne coup\u00e9e"


def test_trial_with_a_final_status_stays_final_until_reopened(path):
    with Ledger(path) as ledger:
        ledger.append("ended", trial="t0001", attempt=2, status="lost", reason="gone", final=True)
        assert trial_states(ledger.entries)["t0001"].final
        ledger.append("reopened", trial="t0001")
    state = trial_states(read_ledger(path))["t0001"]
    assert (state.status, state.attempt, state.final) == ("lost", 2, False)


def test_missing_ledger_has_no_events(tmp_path):
    assert read_ledger(tmp_path / "no.jsonl") == []


def test_truncated_last_line_of_a_ledger_is_ignored_and_removed(path):
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, len(whole) - 1) + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        assert len(read_ledger(path)) == 3
    with Ledger(path) as ledger:
        ledger.append("ended", trial="t0001", attempt=2, status="ok")
    assert trial_states(read_ledger(path))["t0001"].status == "ok"


def test_damaged_or_missing_line_of_a_ledger_is_an_error_with_its_number(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b"t0001", b"t0002"), *lines[2:]]))
    with pytest.raises(DataError, match=":2: damaged"):
        read_ledger(path)
    path.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(DataError, match=":2: damaged"):
        Ledger(path)


@given(st.binary(max_size=200))
def test_ledger_of_arbitrary_bytes_never_raises_unexpected_errors(tail):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.jsonl"
        with Ledger(path) as ledger:
            ledger.append("run-started")
        path.write_bytes(path.read_bytes() + tail)
        try:
            assert read_ledger(path)[0]["event"] == "run-started"
        except DataError as error:
            assert "damaged line" in error.message
