"""A/A arm and positive control: passed, failed, too noisy or unchecked, and when a run has no headline for it."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_analyse import ARMS, make_run

from effort import examples
from loadbook.stats.analyse import analyse
from loadbook.stats.ci import assess_run
from loadbook.stats.headline import aa_result, control_result, headline, neutral_headline, supporting_text
from loadbook.stats.phrases import verdict_parts
from loadbook.stats.text import resolution_text
from loadbook.stats.verdict import aa_half_width_limit, aa_state, control_state, limit_to_resolution
from loadbook.study.limits import CiPolicy
from run_records import plan_of
from trial_frames import verdict

NOISY_AA = ARMS | {"again": ARMS["again"] | {"sd": 0.2}}
AA_ONLY = {"base": {}, "again": {"check": "aa", "same_as": "base", "label": "A/A arm"}}


@pytest.mark.parametrize(
    ("low", "high", "p", "limit", "state"),
    [
        (-0.01, 0.01, 0.8, 0.02, "passed"),
        (-0.19, 0.42, 0.6, 0.02, "inconclusive"),
        (-0.19, 0.42, 0.6, 0.25 / 3, "inconclusive"),
        (-0.05, 0.04, 0.6, 0.25 / 3, "passed"),
        (0.01, 0.02, 0.001, 0.02, "failed"),
    ],
)
def test_aa_arm_passes_or_fails_by_its_difference_and_interval_width(low, high, p, limit, state) -> None:
    arm = verdict("undecided", effect=(low + high) / 2, low=low, high=high, p=p)
    assert aa_state(arm, 0.01, limit) == state


def test_aa_arm_that_was_not_compared_is_unchecked() -> None:
    assert aa_state(None, 0.01, 0.02) == "unchecked"
    assert aa_state(verdict("invalid", p=None), 0.01, 0.02) == "unchecked"
    assert aa_state(verdict("invalid", p=0.5), 0.01, 0.02) == "unchecked"


@pytest.mark.parametrize(
    ("kind", "low", "high", "sign", "known", "state"),
    [
        ("worse", -0.3, -0.2, -1, -0.25, "passed"),
        ("better", 0.2, 0.3, -1, -0.25, "failed"),
        ("undecided", -0.3, 0.1, -1, -0.25, "inconclusive"),
        ("undecided", -0.1, 0.1, -1, -0.25, "failed"),
        ("undecided", -0.3, 0.1, -1, None, "failed"),
    ],
)
def test_positive_control_passes_or_fails_by_its_known_effect(kind, low, high, sign, known, state) -> None:
    assert control_state(verdict(kind, effect=(low + high) / 2, low=low, high=high), sign, known) == state


def test_known_gain_and_loss_of_a_control_widen_the_limit_of_the_aa_arm_equally() -> None:
    row = analyse(make_run()).row("log")
    assert aa_half_width_limit(0.02, []) == 0.02
    assert aa_half_width_limit(0.05, [row]) == 0.05
    slower, faster = replace(row, expected_effect=-0.5), replace(row, expected_effect=1.0)
    assert aa_half_width_limit(0.02, [slower]) == pytest.approx(0.5 / 3) == aa_half_width_limit(0.02, [faster])


def test_limit_of_the_aa_arm_uses_the_measured_effect_of_a_passed_control_if_the_study_states_none() -> None:
    row = replace(analyse(make_run()).row("log"), expected_effect=None)
    assert aa_half_width_limit(0.001, [row]) == pytest.approx(0.1 / 3, abs=0.005)
    assert aa_half_width_limit(0.001, [replace(row, check_state="failed")]) == 0.001


def test_wide_aa_arm_leaves_no_verdict_on_smaller_differences() -> None:
    analysis = analyse(make_run(NOISY_AA))
    again, fast = analysis.row("again"), analysis.row("fast")
    assert (again.check_state, again.passed, analysis.demoting_check) == ("inconclusive", None, None)
    low, high = again.verdict.comparison.ci95
    assert analysis.resolution == pytest.approx(max(1 / (1 + low) - 1, high))
    assert (fast.verdict.kind, fast.verdict.resolution) == ("undecided", analysis.resolution)
    below = f"{resolution_text(analysis.resolution)}."
    assert f"It may be small: d{below[1:]}" in verdict_parts(fast.verdict).after_name, "its interval excludes 0"
    assert headline(analysis) == f"No verdict: d{below[1:]}" == neutral_headline(analysis)
    assert supporting_text(analysis).startswith("A/A: baseline again gives ")
    assert "wider than the margin. Same against same (base under a second name)" in aa_result(again, "base")


def test_difference_beyond_a_wide_aa_arm_is_told_with_what_cannot_be_told() -> None:
    arms = ARMS | {"again": ARMS["again"] | {"sd": 0.05}, "fast": ARMS["fast"] | {"effect": 0.3}}
    analysis = analyse(make_run(arms))
    assert analysis.resolution and 0.02 < analysis.resolution < 0.1
    assert analysis.row("fast").verdict.kind == "better"
    assert headline(analysis).startswith("tcp_nopush on is faster by ")
    assert f"{resolution_text(analysis.resolution)}: A/A: baseline again gives " in supporting_text(analysis)


def test_aa_arm_narrower_than_the_margin_limits_nothing() -> None:
    analysis = analyse(make_run())
    assert (analysis.resolution, analysis.wide_arms) == (None, [])
    assert all(row.verdict.resolution is None for row in analysis.rows if row.verdict)


@pytest.mark.parametrize(
    ("kind", "interval", "left"),
    [
        ("better", (0.06, 0.2), "better"),
        ("better", (0.04, 0.2), "undecided"),
        ("worse", (-0.2, -0.048), "worse"),
        ("worse", (-0.2, -0.047), "undecided"),
        ("equivalent", (-0.01, 0.01), "undecided"),
        ("small", (0.005, 0.01), "undecided"),
        ("undecided", (-0.01, 0.1), "undecided"),
    ],
)
def test_difference_counts_only_if_its_interval_lies_beyond_the_resolution(kind, interval, left) -> None:
    low, high = interval
    before = verdict(kind, effect=(low + high) / 2, low=low, high=high)
    after = limit_to_resolution(before, 0.05)
    assert after.kind == left
    assert after.resolution == (0.05 if left != kind else None)
    assert limit_to_resolution(before, None) == before


def test_resolution_is_rounded_up() -> None:
    assert resolution_text(0.0512) == "Differences below 5.2\u00a0% cannot be told here"
    assert resolution_text(0.05) == "Differences below 5\u00a0% cannot be told here"
    assert resolution_text(0.123) == "Differences below 13\u00a0% cannot be told here"


def test_control_that_is_not_found_forbids_a_verdict_as_headline() -> None:
    analysis = analyse(make_run(ARMS | {"log": ARMS["log"] | {"effect": 0.0}}))
    assert headline(analysis) == "No verdict: the known effect was not found."
    assert supporting_text(analysis).startswith("Other effects may be missed, too.")


def test_control_that_is_too_noisy_to_tell_is_inconclusive() -> None:
    analysis = analyse(make_run(ARMS | {"log": ARMS["log"] | {"sd": 0.4}}))
    assert analysis.row("log").check_state == "inconclusive"
    assert headline(analysis) == "No verdict: the known effect is neither found nor excluded."
    assert "too noisy to tell. The known effect is neither found nor excluded" in control_result(analysis.row("log"))


def test_aa_arm_that_could_not_be_compared_forbids_a_verdict_as_headline() -> None:
    run = make_run()
    run.trials.loc[run.trials["treatment"] == "again", "valid"] = False
    assert headline(analyse(run)) == "No verdict: the A/A arm could not be compared."


def test_undecided_verdict_stays_the_headline_with_an_inconclusive_aa_arm() -> None:
    arms = {name: ARMS[name] | {"sd": 0.08} for name in ("base", "noisy", "again")}
    analysis = analyse(make_run(arms))
    assert analysis.row("again").check_state == "inconclusive" and analysis.resolution
    assert headline(analysis).startswith("noisy: undecided")
    assert analysis.row("noisy").verdict.forecast is None, "the A/A arm limits the run, and has the forecast"
    texts = [verdict_parts(row.verdict).after_name for row in analysis.of_kind("treatment")]
    assert not any("would decide" in text or "Not reachable" in text for text in texts), texts


@pytest.mark.parametrize("arms", [NOISY_AA, ARMS | {"log": ARMS["log"] | {"effect": 0.0}}])
def test_build_has_no_verdict_if_a_harness_check_did_not_pass(arms) -> None:
    run = make_run(arms)
    found = assess_run(CiPolicy(undecided="pass"), analyse(run), run)
    assert found.exit_code == 4
    aa = next(case for case in found.cases if case.kind == "aa")
    assert aa.outcome == "passed" or "its half-width must be below" in (aa.because or "")


def test_saturated_share_is_the_share_of_trials_with_a_saturated_driver() -> None:
    run = make_run({"base": {}, "a": {}}, blocks=10)
    trials = run.trials["trial"].tolist()
    assert analyse(run).driver_saturated_share is None
    rows = [(t, "driver_saturated", "invalid") for t in trials[:5]] + [(t, "foreign_cpu", "doubt") for t in trials]
    run.problems = pd.DataFrame(
        [*rows, (trials[9], "driver_saturated", "unchecked")], columns=["trial", "name", "level"]
    )
    assert analyse(run).driver_saturated_share == 0.25


@pytest.mark.parametrize("blocks", [1, 2, 4])
def test_aa_study_with_too_few_blocks_says_that_nothing_was_compared(blocks: int) -> None:
    text = headline(analyse(make_run(AA_ONLY, blocks=blocks)))
    plural = "" if blocks == 1 else "s"
    assert text == f"Nothing was compared: only {blocks} complete block{plural}, 5 are needed."


def test_unfinished_aa_study_says_that_nothing_was_compared() -> None:
    run = make_run(AA_ONLY, blocks=6)
    run.plan = plan_of(treatments=tuple(AA_ONLY), blocks=20)
    text = headline(analyse(run))
    assert text.startswith("Nothing was compared: 14 of 20 blocks are incomplete, more than 20\u00a0% (14 were not run")


def test_headline_of_an_aa_study_says_no_difference_or_which_cannot_be_told() -> None:
    assert headline(analyse(make_run(AA_ONLY))).startswith("None is seen: the baseline and its duplicate differ by ")
    noisy = {name: arm | {"sd": 0.2} for name, arm in AA_ONLY.items()}
    assert re.match(
        r"Differences below \d+.% cannot be told here: the baseline and", headline(analyse(make_run(noisy)))
    )


def untimed(order: list[int]):
    """A run whose times are not known: `slot` is the number of the line in the CSV file."""
    run = make_run()
    run.trials["slot"] = pd.Series(order) + 1
    run.trials["started"] = np.nan
    return run


def verdicts(run) -> list[tuple]:
    return [(r.treatment, r.verdict and r.verdict.kind, r.check_state) for r in analyse(run).rows]


@settings(max_examples=examples(15), deadline=None)
@given(st.permutations(range(12 * len(ARMS))))
def test_order_of_rows_in_an_import_without_times_changes_no_verdict(order: list[int]) -> None:
    assert verdicts(untimed(order)) == verdicts(make_run())


def test_imported_rows_sorted_by_treatment_are_compared_if_they_have_no_times() -> None:
    run = make_run()
    by_treatment = run.trials["treatment"].argsort(kind="stable").argsort().tolist()
    assert verdicts(untimed(by_treatment)) == verdicts(run)
    timed = untimed(by_treatment)
    timed.trials["started"] = timed.trials["slot"].astype(float)
    assert "not randomised in blocks" in analyse(timed).row("fast").verdict.reason
