"""What the report says of drift, carry-over, outliers, tails, and the picture of all requests."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.quality import QualityPage
from loadbook.modes.plain.page import CARRY_OVER_NOT_CHECKED, OrderCheck
from loadbook.report import checks
from loadbook.report.figures.latency import LatencyDistributionFigure
from loadbook.report.verdicts import latency_table
from loadbook.request_logs.read import RequestWriter, summarise
from loadbook.request_logs.summary import exceedance_curve, merge_times
from loadbook.stats.carry_over import CarryOver
from loadbook.stats.diagnostics import GOOD_TAIL_REQUESTS
from loadbook.store.tables import RunData, load_run
from mock_project import Arm, make_project

ARMS = {"baseline": Arm(), "x": Arm(0.05, label="x on"), "again": Arm(check="aa"), "y": Arm()}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> RunData:
    layout = make_project(tmp_path_factory.mktemp("hygiene"), ARMS, name="mock")
    return load_run(layout, "mock")


def changed(run: RunData, factor) -> RunData:
    """The run with its rates multiplied by what `factor` says of each trial's row and its predecessor's treatment."""
    trials = run.trials.sort_values("slot")
    before = dict(zip(trials["slot"] + 1, trials["treatment"], strict=True))
    factors = {t.trial: factor(t, before.get(t.slot)) for t in trials.itertuples()}
    rates = run.measurements["metric"].isin(["ok_per_s", "requests_per_s"])
    value = run.measurements["value"] * run.measurements["trial"].map(factors).where(rates, 1.0)
    return replace(run, measurements=run.measurements.assign(value=value))


def test_order_section_reports_drift_carry_over_and_outliers(run: RunData) -> None:
    printed = EffectsPage(run).order().text
    assert "No carry-over from one trial to the next is seen (p 0." in printed
    assert "this check sees little: one below about " in printed
    assert "drift is visible over the run" in printed or "this cancels in the comparisons" in printed
    assert EffectsPage(run).notes == [] or {note.level for note in EffectsPage(run).notes} == {"note"}


def test_carry_over_is_a_doubt_with_adjusted_effects(run: RunData) -> None:
    page = EffectsPage(changed(run, lambda trial, before: 0.93 if before == "x" else 1.0))
    found = {note.name: note for note in page.notes}["carry-over"]
    assert found.level == "doubt"
    assert found.text.startswith("What runs after x on is slower by ")
    assert "With what ran before taken out (a regression, without a verdict): x on +" in found.text
    assert found.text in page.doubts().text
    assert "Carry-over" in page.trust().text


@pytest.mark.parametrize(("shift", "level"), [(0.004, "note"), (0.006, "doubt")])
def test_carry_over_between_slices_is_a_doubt_if_it_moves_a_comparison_by_a_quarter_of_the_margin(
    run: RunData, shift: float, level: str
) -> None:
    page = EffectsPage(run)
    by_predecessor = {"x": -0.02, "y": 0.02}
    found = CarryOver(1e-9, by_predecessor, 0.001, {"x": 0.05}, largest_shift=shift, metric_of_slices="ok_per_s")
    (note, *_) = checks.order_notes(OrderCheck(found), page.analysis, page.values, page.labels)
    assert (note.name, note.level) == ("carry-over", level)
    assert note.text.startswith("A slice after one of x on is slower by 2")


def test_interleaved_run_without_recorded_slices_says_that_carry_over_was_not_checked(run: RunData) -> None:
    slices = replace(run, study=run.study.model_copy(update={"execution": "interleaved"}))
    page = EffectsPage(slices)
    assert page.order_check.carried is None
    assert CARRY_OVER_NOT_CHECKED in page.order().text


def test_outlier_is_reported_marked_and_counted(run: RunData) -> None:
    far = run.trials.loc[run.trials["valid"] & (run.trials["treatment"] == "y"), "trial"].iloc[3]
    page = EffectsPage(changed(run, lambda trial, before: 0.8 if trial.trial == far else 1.0))
    text = page.doubts().text
    assert "far from the others of the same treatment (ringed; about 1 in 40 does by chance). They count" in text
    (row,) = [line for line in page.every_trial().text.splitlines() if far in line]
    assert "yes, outlier (−2" in row or "yes, outlier (−1" in row
    assert page.analysis.row("y").valid_trials == run.trials.query("treatment == 'y'")["valid"].sum()


def test_effect_that_changes_during_the_run_is_a_doubt(run: RunData) -> None:
    page = EffectsPage(changed(run, lambda t, before: 1 + 0.03 * t.block * (t.treatment == "y")))
    assert "unstable effect: " in page.doubts().text
    assert "measure again in a new run before relying on it" in page.doubts().text


def test_latency_at_fixed_concurrency_has_a_note(run: RunData) -> None:
    displayed = EffectsPage(run).latency()
    printed = displayed.text
    assert "At fixed concurrency (closed loop): " in printed
    assert "own correction for stalls, at fixed concurrency; bar: " in displayed.html
    assert "Rate and p50 are one piece of evidence, not two" in printed
    opened = replace(run, trials=run.trials.assign(load_model="open"))
    assert "At fixed concurrency" not in checks.tail_note(opened, "latency", ["p50"], [])


def with_requests(run: RunData, number: float) -> RunData:
    counted = run.measurements["metric"] == "requests"
    return replace(run, measurements=run.measurements.assign(value=run.measurements["value"].where(~counted, number)))


def test_percentiles_with_too_few_requests_are_listed_and_not_drawn(run: RunData) -> None:
    page = EffectsPage(with_requests(run, 1500.0))
    assert "p99" not in page.panels and "p90" in page.panels
    printed = page.latency().text
    assert "Not measurable: p99 needs 2,000 requests in a trial." in printed
    assert "p90 rests on about 150 requests beyond it in a trial" in printed
    plenty = EffectsPage(with_requests(run, GOOD_TAIL_REQUESTS * 1000.0))
    assert "p99" in plenty.panels
    assert "rests on" not in checks.tail_note(plenty.run_data, "latency", list(plenty.panels), [])


@pytest.fixture(scope="module")
def logged(run: RunData) -> RunData:
    """The run with a log of 400 requests, one not answered, in each trial of two treatments."""
    rng = np.random.default_rng(1)
    for trial in run.trials[run.trials["treatment"].isin(["baseline", "x"])].itertuples():
        us = rng.lognormal(7 if trial.treatment == "x" else 7.2, 0.4, 400).astype(int)
        log = "".join(f"{1_790_000_000_000_000 + k}\t{200 if k else -1}\t{t}\n" for k, t in enumerate(us))
        with RequestWriter(run.paths.request_logs / f"{trial.trial}.parquet") as store:
            summarise(log.encode(), "h2load", store=store)
    return run


def test_requests_merged_over_trials_are_used_for_the_figure_only(logged: RunData) -> None:
    before = EffectsPage(logged).analysis
    found = checks.treatment_curves(logged)
    assert set(found) == {"baseline", "x"}
    trials = int(logged.trials.query("treatment == 'x'")["valid"].sum())
    assert (found["x"].trials, found["x"].requests) == (trials, 399 * trials)  # one of each log was not answered
    block = EffectsPage(logged).latency()
    assert "put together for the picture: it describes, and nothing is tested on it" in block.html
    assert EffectsPage(logged).analysis == before


def test_latency_distribution_curve_equals_the_sorted_latencies(logged: RunData) -> None:
    paths = sorted(logged.paths.request_logs.glob("*.parquet"))[:3]
    merged, files = merge_times(paths)
    every = np.sort(np.concatenate([
        frame.loc[frame["answered"], "elapsed_us"] for frame in map(pd.read_parquet, paths)
    ]))  # fmt: skip
    found = exceedance_curve(paths)
    assert (files, merged.count) == (3, len(every))
    assert found.shares_slower[0] == 1 and found.times_s[0] == every[0] / 1e6
    assert found.shares_slower[-1] == pytest.approx(20 / len(every))
    assert found.times_s[-1] == every[-21] / 1e6
    assert exceedance_curve([]) is None


def test_latency_by_percentile_has_a_line_per_treatment_in_one_panel(logged: RunData) -> None:
    page, found = EffectsPage(logged), checks.treatment_curves(logged)
    figure = LatencyDistributionFigure(page.analysis, found)
    (panel,) = figure.draw().axes
    lines = {line.get_color(): line for line in panel.lines if len(np.asarray(line.get_xdata())) > 2}
    assert len(lines) == len(figure.profiles) == 2
    assert "p99 " in figure.alt_text and "it describes, and nothing is tested on it" in figure.caption
    shares, times = figure.profiles["x"]
    own = next(
        line
        for line in lines.values()
        if len(np.asarray(line.get_xdata())) == len(times) and line.get_linestyle() == "-"
    )
    assert own.get_xdata()[-1] == pytest.approx(shares[-1])
    assert own.get_ydata()[-1] == pytest.approx(times[-1])


def test_latency_by_percentile_of_trials_without_request_logs_has_their_medians(run: RunData) -> None:
    page = EffectsPage(run)
    figure = LatencyDistributionFigure(page.analysis, {}, page.panels)
    shares, times = figure.profiles["baseline"]
    values = page.panels["p99"][0]
    median = values[values["valid"] & (values["treatment"] == "baseline")]["value"].median()
    assert shares == (0.5, 0.25, 0.1, 0.01) and times[-1] == pytest.approx(median)
    assert "nothing is tested on it" in page.latency().html and "p99 " in figure.alt_text
    assert {label.get_text() for label in figure.draw().axes[0].get_xticklabels()} == {"p50", "p75", "p90", "p99"}
    assert re.match(r"Medians over (\d+ to )?\d+ trials of each treatment: it describes", figure.caption)
    rare = page.panels | {"p99": (page.panels["p99"][0].iloc[:-9], page.panels["p99"][1])}
    last = page.panels["p99"][0]["treatment"].iloc[-1]
    assert 0.01 not in LatencyDistributionFigure(page.analysis, {}, rare).profiles[last][0], (
        "as only some trials have it"
    )
    assert any(cell.endswith(" trials)") for row in latency_table(rare, page.labels).rows for cell in row)
    few = {p: (own[own["block"] <= 2], analysis) for p, (own, analysis) in page.panels.items()}
    assert "so few that chance may order the lines" in LatencyDistributionFigure(page.analysis, {}, few).caption


def test_carry_over_with_too_few_trials_is_reported(run: RunData) -> None:
    page = EffectsPage(run)
    few = page.values[page.values["block"] == 1]
    assert CARRY_OVER_NOT_CHECKED in checks.order_sentences(
        checks.check_order(run, page.analysis, few), page.analysis, few, page.labels
    )


def with_rates(run: RunData, seconds: int, moving: str = "") -> RunData:
    """The run with rates per second in every trial but those of `again`."""
    rng, rows = np.random.default_rng(2), []
    for trial in run.trials[run.trials["treatment"] != "again"].itertuples():
        level = 40_000 * (1 - 0.5 * np.exp(-np.arange(seconds) / 12) * (trial.treatment == moving))
        for second, value in enumerate(level * (1 + rng.normal(0, 0.01, seconds))):
            rows.append((trial.trial, "d", "ended", "requests_per_s", float(second), value))
    columns = ["trial", "driver", "series", "metric", "x", "value"]
    return replace(run, samples=pd.DataFrame(rows, columns=columns))


def test_quality_page_shows_rate_changes_within_trials(run: RunData) -> None:
    text = QualityPage(with_rates(run, 62, moving="x")).within().text
    lines = {line.split("  ")[0]: line.rstrip() for line in text.splitlines()}
    assert lines["x on"].endswith("still moving") and "<\u00a00.001" in lines["x on"]
    assert lines["baseline"].endswith("steady")
    assert lines["again"].endswith("not checked: no rates")


def test_quality_page_lists_what_was_not_checked(run: RunData) -> None:
    assert QualityPage(run).within().text == "Not known: wrk reported no rates per second."
    assert "not checked: too short" in QualityPage(with_rates(run, 3)).within().text


def test_answer_has_the_words_of_the_verdict_page_for_checks(tmp_path):
    arms = {"baseline": Arm(), "x": Arm(0.1), "again": Arm(check="aa", scatter=0.2)}
    page = QualityPage(load_run(make_project(tmp_path, arms, name="wide", blocks=10), "wide"))
    assert page.analysis.row("again").check_state == "inconclusive"
    assert "; A/A arm wide, control missing." in page.answer().text
