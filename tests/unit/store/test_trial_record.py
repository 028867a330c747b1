"""The record of a trial: checksums of its files, and when its drivers measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from loadbook.core.errors import DataError
from loadbook.store.trial_record import (
    ClockRecord,
    DriverRecord,
    MeasurementSpans,
    changed_files,
    clock_error_s,
    measurement_spans,
    publish_trial,
    read_trial,
    seal_trial,
    window_fields,
)
from valid_trial import record


def driver(host: str, started: float | None, ended: float | None) -> DriverRecord:
    return DriverRecord(host=host, argv=[], rc=0, stdout="o", stderr="e", started_host=started, ended_host=ended)


CLOCKS = {
    "a": ClockRecord(offset_before_s=5.0, rtt_before_s=0.01, offset_after_s=90.0),
    "b": ClockRecord(offset_before_s=-2.0, rtt_before_s=0.03),
    "c": ClockRecord(offset_before_s=0.0, rtt_before_s=0.02),
}


def test_time_in_which_all_drivers_measured_is_the_overlap_of_their_spans() -> None:
    spans = MeasurementSpans({"a": (100.0, 110.0), "b": (102.0, 112.0), "c": (101.0, 116.0)})
    assert (spans.window, spans.full_span, spans.start_skew_s) == ((102.0, 110.0), (100.0, 116.0), 2.0)
    assert spans.non_overlap_share == 0.5


@pytest.mark.parametrize("second", [(110.0, 120.0), (115.0, 120.0)])
def test_drivers_that_measured_one_after_the_other_have_no_common_time(second: tuple[float, float]) -> None:
    spans = MeasurementSpans({"a": (100.0, 110.0), "b": second})
    assert spans.window is None and spans.non_overlap_share == 1.0
    assert MeasurementSpans({"a": (100.0, 100.0)}).non_overlap_share == 0.0


def test_spans_of_drivers_are_by_the_controllers_clock() -> None:
    spans = measurement_spans([driver("a", 105.0, 115.0), driver("b", 98.5, 109.0)], CLOCKS)
    assert spans is not None and spans.by_host == {"a": (100.0, 110.0), "b": (100.5, 111.0)}


@pytest.mark.parametrize("other", [driver("b", None, 10.0), driver("b", 1.0, None), driver("unknown", 1.0, 10.0)])
def test_spans_are_not_known_unless_the_times_and_the_clock_of_every_driver_are(other: DriverRecord) -> None:
    assert measurement_spans([driver("a", 1.0, 10.0), other], CLOCKS) is None
    assert window_fields([driver("a", 1.0, 10.0), other], CLOCKS) == {"window": None, "start_skew_s": None}
    assert measurement_spans([], CLOCKS) is None


def test_only_several_drivers_have_a_skew_of_their_starts() -> None:
    first, second = driver("a", 105.0, 115.0), driver("b", 98.1234567, 109.0)
    assert window_fields([first], CLOCKS) == {"window": (100.0, 110.0), "start_skew_s": None}
    assert window_fields([first, second], CLOCKS)["start_skew_s"] == 0.123457


@pytest.mark.parametrize(("hosts", "error_s"), [("ab", 0.02), ("abc", 0.025), ("a", 0.0), ("ax", 0.0), ("", 0.0)])
def test_error_of_clocks_is_half_of_the_two_longest_round_trips(hosts: str, error_s: float) -> None:
    assert clock_error_s(hosts, CLOCKS) == pytest.approx(error_s)


def test_sealed_trial_has_the_checksum_of_every_file_and_names_those_that_changed(tmp_path: Path) -> None:
    folder = tmp_path / "t0001"
    (folder / "config").mkdir(parents=True)
    for name in ("same", "longer", "other", "gone", "config/nginx.conf"):
        (folder / name).write_text("text")
    sealed = seal_trial(folder, record())
    assert sealed == read_trial(folder) and {file.size for file in sealed.files.values()} == {4}
    assert sorted(sealed.files) == ["config/nginx.conf", "gone", "longer", "other", "same"]
    assert changed_files(folder, sealed) == []
    (folder / "longer").write_text("texts")
    (folder / "other").write_text("Text")
    (folder / "gone").unlink()
    assert changed_files(folder, sealed) == ["gone", "longer", "other"]
    assert sorted(seal_trial(folder, sealed).files) == ["config/nginx.conf", "longer", "other", "same"]


def test_published_trial_is_never_overwritten(tmp_path: Path) -> None:
    for name in ("staged", "trials/t0001"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(DataError, match="already there"):
        publish_trial(tmp_path / "staged", tmp_path / "trials/t0001")
    publish_trial(tmp_path / "staged", tmp_path / "trials/t0002")
    assert sorted(p.name for p in (tmp_path / "trials").iterdir()) == ["t0001", "t0002"]
