"""Rates over time in the figure of host metrics: by second, by slice, or the trial's mean."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from loadbook.report import palette
from loadbook.report.figures.axes import line_colours
from loadbook.report.figures.host_metrics import CoresFigure, HostMetricsFigure
from loadbook.report.figures.tracks import TrialSpan, rate_track, slice_rates
from loadbook.store.run_record import RecordedHost
from loadbook.store.tables import load_run
from mock_project import Arm, make_project

SLICE_S, TURN_S = 0.05, 0.1


def slices_of(trial: str, begins: float, received: list[float]) -> pd.DataFrame:
    """Return slices of 50 ms, one in each 100 ms from `begins` on, with these B/s."""
    rows = [
        {
            "trial": trial,
            "driver": "driver",
            "series": "slice",
            "metric": metric,
            "x": begins + k * TURN_S,
            "value": value,
        }
        for k, rate in enumerate(received)
        for metric, value in (("slice", SLICE_S), ("received_per_s", rate))
    ]
    return pd.DataFrame(rows)


def seconds_of(trial: str, driver: str, ended: list[float]) -> pd.DataFrame:
    rows = [{"trial": trial, "driver": driver, "series": "ended", "x": x, "value": v} for x, v in enumerate(ended)]
    return pd.DataFrame(rows).assign(metric="requests_per_s")


def span(trial: str, interleaved: bool = False) -> TrialSpan:
    return TrialSpan(trial, trial, True, 0.0, 0.0, 4.0, interleaved)


def test_rates_of_slices_follow_the_bytes_and_have_the_mean_of_the_trial():
    samples = slices_of("a", 3.0, [9.0, *[100.0] * 10, *[300.0] * 10, 9.0])
    points = slice_rates(samples, {"a": 400.0})["a"]
    assert [at for at, _ in points] == [0.25, 0.75, 1.25, 1.75]
    rates = [rate for _, rate in points]
    assert rates[0] == pytest.approx(200) and rates[-1] == pytest.approx(600)
    assert sorted(rates) == rates and 200 < rates[2] <= 600


def test_trials_without_slices_bytes_or_a_rate_have_no_line_of_slices():
    samples = pd.concat(
        [slices_of("idle", 0.0, [0.0] * 9), slices_of("unrated", 0.0, [5.0] * 9), seconds_of("a", "d", [1])]
    )
    assert slice_rates(samples, {"idle": 4.0, "a": 2.0}) == {}


def test_rates_by_second_are_those_of_all_drivers_without_the_incomplete_ends():
    samples = pd.concat([seconds_of("a", "one", [9, 10, 11, 12, 2]), seconds_of("a", "two", [9, 20, 21, 22, 2])])
    track = rate_track([span("a"), span("b")], {"a": 31.0, "b": 50.0}, samples)
    assert track is not None and track.title == "responses per second"
    drawn = {trial: list(zip(own["t_s"], own["value"], strict=True)) for trial, own in track.samples.groupby("trial")}
    assert drawn["a"] == [(1.5, 30), (2.5, 32), (3.5, 34)]
    assert drawn["b"] == [(0.0, 50.0), (4.0, 50.0)], "no series: the trial's mean"


def test_treatments_that_share_a_window_have_lines_and_names_in_colours_of_their_own():
    samples = pd.concat([slices_of(name, 0.05 * k, [5.0] * 40) for k, name in enumerate("ab")])
    trials = pd.DataFrame(
        {"trial": ["a", "b"], "treatment": ["a", "b"], "valid": True, "started": 0.0, "execution": "interleaved",
         "block": 1, "slot": [1, 2]}
    )  # fmt: skip
    cpu = {"host": "d", "metric": "cpu_busy", "source": "proc", "item": "", "unit": "1", "value": 0.5}
    traces = pd.DataFrame([cpu | {"trial": t, "t_s": float(s)} for t in "ab" for s in range(5)])
    labels, hosts = {"a": "with log", "b": "without"}, {"d": RecordedHost(roles=["driver"])}
    figure = HostMetricsFigure(
        traces, trials, hosts, labels, windows={"a": 4.0, "b": 4.0}, rates={"a": 10.0, "b": 12.0}, samples=samples,
        baseline="a",
    )  # fmt: skip
    drawn = figure.draw()
    (key,) = drawn.legends
    styles = {line.get_label(): (line.get_color(), line.get_linestyle()) for line in key.get_lines()}
    assert styles["with log"] == (palette.INK, "--") and styles["without"][1] == "-"
    assert styles["without"][0] != palette.INK
    assert set(styles.values()) <= {(line.get_color(), line.get_linestyle()) for line in drawn.axes[0].lines}
    assert "bytes received in a treatment's slices" in figure.help


def test_treatments_have_the_same_colours_in_every_figure_of_a_page():
    names = ["base", "b", "a", "c"]
    assert line_colours(names, "base") == line_colours(sorted(names), "base")
    assert len(set(line_colours(names, "base").values())) == 4


def test_cores_of_a_block_in_turns_have_no_legend_of_rates(tmp_path):
    data = load_run(make_project(tmp_path, {"baseline": Arm(), "aa": Arm(check="aa")}, name="aa", blocks=6), "aa")
    together = replace(data, trials=data.trials.assign(execution="interleaved"))
    figure = CoresFigure.from_run(together, block=1)
    drawn = figure.draw()
    assert "2 treatments by turns" in [text.get_text() for text in drawn.axes[0].texts]
    assert figure.colours == {} and not drawn.legends
