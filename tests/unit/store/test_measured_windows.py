"""The time of a trial's measurement: by the tool's own account, or from the first slice to the last."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from loadbook.report.figures.host_metrics import HostMetricsFigure
from loadbook.store.tables import load_run, measured_windows_s
from mock_project import Arm, make_project
from slice_samples import ROUND_S, SLICE_S, slice_rows


def test_measurement_of_a_plain_trial_lasts_as_long_as_its_tool_says(tmp_path: Path) -> None:
    data = load_run(make_project(tmp_path, {"baseline": Arm(), "aa": Arm(check="aa")}, name="aa", blocks=6), "aa")
    assert set(measured_windows_s(data).values()) == {4.0}


def test_measurement_of_an_interleaved_trial_lasts_from_its_first_slice_to_its_last(tmp_path: Path) -> None:
    data = load_run(make_project(tmp_path, {"baseline": Arm(), "aa": Arm(check="aa")}, name="aa", blocks=6), "aa")
    trial, rng = data.trials["trial"].iloc[0], np.random.default_rng(1)
    rows = [row | {"x": row["x"] + 0.2} for row in slice_rows(trial, 1e6, 0.1, rng, rounds=50)]
    windows_s = measured_windows_s(replace(data, samples=pd.DataFrame(rows)))
    assert windows_s.pop(trial) == pytest.approx(49 * ROUND_S + SLICE_S)
    assert set(windows_s.values()) == {4.0}
    figure = HostMetricsFigure.from_run(replace(data, samples=pd.DataFrame(rows)), block=1)
    assert sorted({round(span.window, 3) for span in figure.timeline.trials}) == [2.965, 4.0]


def test_treatments_that_are_measured_by_turns_have_one_window_and_a_legend_in_the_figure(tmp_path: Path) -> None:
    data = load_run(make_project(tmp_path, {"baseline": Arm(), "aa": Arm(check="aa")}, name="aa", blocks=6), "aa")
    plain = HostMetricsFigure.from_run(data, block=1)
    interleaved = HostMetricsFigure.from_run(replace(data, trials=data.trials.assign(execution="interleaved")), block=1)
    assert [len(window) for window in plain.timeline.windows] == [1, 1]
    assert [len(window) for window in interleaved.timeline.windows] == [2]
    (key,) = interleaved.draw().legends
    assert [(line.get_label(), line.get_linestyle()) for line in key.get_lines()] == [("baseline", "--"), ("aa", "-")]
    left_out = data.trials.assign(execution="interleaved", valid=data.trials["treatment"] != "aa")
    (key,) = HostMetricsFigure.from_run(replace(data, trials=left_out), block=1).draw().legends
    assert "aa ✕ not counted" in [text.get_text() for text in key.get_texts()]
