"""The controller's disk is full, for real: a small tmpfs of our own, filled at the worst moments."""

from __future__ import annotations

import pytest

from small_disk import may_be, on_small_disk

SIZE = 24_000_000
pytestmark = [
    pytest.mark.fault(5),
    pytest.mark.skipif(not may_be(), reason="user namespaces (unshare -rm) are not allowed here"),
]

# what is written next when the disk has become full
MOMENTS = {
    "a new run's folder": ("loadbook.execution.session:RunSession.make_run_folder", 1),
    "the next trial": ("loadbook.modes.plain.run:PlainTrials._run_trial", 3),
    "a ledger line: started": ("loadbook.execution.loop:AttemptStore.begin", 3),
    "raw outputs": ("loadbook.execution.attempt:Attempt._collect", 3),
    "a trial's manifest": ("loadbook.store.trial_record:seal_trial", 3),
    "a ledger line: ended": ("loadbook.execution.loop:AttemptStore._record_end", 3),
    "the facts after the run": ("loadbook.execution.session:RunSession.finish", 1),
    "the tables": ("loadbook.ingestion.ingest:ingest", 1),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_run_on_a_full_disk_stops_cleanly_and_can_be_resumed(tmp_path, moment, record_property):
    found = on_small_disk(tmp_path / "disk", SIZE, "run_on_a_full_disk", *map(str, MOMENTS[moment]))
    record_property("seen", f"{moment}: {found['printed'].splitlines()[-2].rpartition('/')[2]}")
    assert found["code"] == 4, found
    assert "no room: " in found["said"]
    assert " free (" in found["said"]
    assert str(tmp_path / "disk") in found["said"]
    assert "free some space there, then give the same command again" in found["said"]
    assert not found["parts"]
    assert not found["old_changed"]
    assert found["again"] == 0, found
    assert found["verify"][0] == 0, found
    assert len(found["states"]) == 8
    assert set(found["states"].values()) <= {"ok", "tool_failed"}


@pytest.mark.parametrize(("place", "nth"), [("loadbook.ingestion.ingest:write_arrow", 1),
                                            ("loadbook.ingestion.ingest:write_arrow", 3),
                                            ("loadbook.ingestion.ingest:save_cache", 1)])  # fmt: skip
def test_ingest_on_a_full_disk_keeps_the_old_tables(tmp_path, place, nth):
    found = on_small_disk(tmp_path / "disk", SIZE, "ingest_on_a_full_disk", place, str(nth))
    assert found["code"] == 4, found
    assert "no room: " in found["said"]
    assert found["whole"], found
    assert not [name for name in found["left"] if name.endswith(".part")]
    assert (found["again"], found["same"]) == (0, True), found


@pytest.mark.parametrize(
    ("place", "nth"), [("loadbook.report.notebooks:_execute_with_retry", 1), ("loadbook.report.html:export_html", 1)]
)
def test_report_on_a_full_disk_keeps_the_old_report(tmp_path, place, nth):
    found = on_small_disk(tmp_path / "disk", 2 * SIZE, "report_on_a_full_disk", place, str(nth))
    assert found["code"] == 4, found
    assert "no room: " in found["said"]
    assert found["kept"] == found["before"]
    assert found["again"] == 0, found
