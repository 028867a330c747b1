"""How far an effect moved between two runs, and what that allows to be said."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats as sps

from loadbook.analyses.compare_runs import compute as wording
from loadbook.analyses.compare_runs.compute import (
    EffectPair,
    RunComparison,
    blocks_needed_per_run,
    compare_analyses,
    effect_change,
    is_changed,
)
from loadbook.stats.compare import compare
from loadbook.stats.results import Analysis, AnalysisRow, Comparison, ErrorSummary
from loadbook.stats.verdict import decide_verdict
from trial_frames import noisy

NONE = ErrorSummary("t", 8, 0, 0, 1000, {})
ALIKE: dict[str, str] = {}


def run(
    effects: Mapping[str, float], *, blocks: int = 10, seed: int = 1, sd: float = 0.004, **more: object
) -> Analysis:
    """One run's analysis of arms with these true log effects; "aa" and "control" are checks."""
    values = noisy(blocks, {"base": 0.0, **effects}, seed=seed, sd=sd)
    rows = [AnalysisRow("base", "baseline", "baseline", 40_000.0, 100.0, blocks, blocks, None, NONE)]
    for name in effects:
        kind = name if name in ("aa", "control") else "treatment"
        verdict = decide_verdict(compare(values, name, "base", metric="ok_per_s"), 0.02)
        rows.append(AnalysisRow(name, f"{name} on", kind, 40_000.0, 100.0, blocks, blocks, verdict, NONE))  # type: ignore[arg-type]
    return replace(Analysis("base", "ok_per_s", "value", 0.02, 0.95, tuple(rows)), **more)  # type: ignore[arg-type]


def words(found: RunComparison) -> dict[str, str]:
    return {row.row.treatment: row.kind for row in found.rows}


def row(found: RunComparison, name: str) -> EffectPair:
    return next(r for r in found.rows if r.row.treatment == name)


def test_effect_change_between_paired_t_runs_equals_welchs_test() -> None:
    pairs = [noisy(n, {"base": 0.0, "x": e}, seed=s) for n, e, s in ((6, 0.06, 1), (7, 0.02, 2))]
    found = effect_change(*(compare(values, "x", "base") for values in pairs))  # type: ignore[arg-type]
    logs = []
    for values in pairs:
        wide = np.log(values.pivot(index="block", columns="treatment", values="value"))
        logs.append((wide["x"] - wide["base"]).to_numpy())
    reported = sps.ttest_ind(logs[1], logs[0], equal_var=False)
    assert found is not None
    assert found.p == pytest.approx(reported.pvalue, rel=1e-6)
    assert found.effect == pytest.approx(math.expm1(logs[1].mean() - logs[0].mean()))
    assert found.ci95 == pytest.approx(tuple(np.expm1(reported.confidence_interval(0.95))), rel=1e-6)


def test_effect_change_equals_the_ratio_of_printed_effects() -> None:
    found = compare_analyses(run({"x": 0.06}), run({"x": 0.01}, seed=2), ALIKE)
    older, newer = (side.verdict.comparison.effect for side in row(found, "x").sides)
    assert (1 + older) * (1 + row(found, "x").change.effect) == pytest.approx(1 + newer)


def test_effect_change_is_classified_by_its_interval() -> None:
    older = run({"moved": 0.06, "stayed": 0.06, "noisy": 0.01})
    newer = run({"moved": 0.01, "stayed": 0.062}, seed=2)
    loud = run({"noisy": 0.01}, seed=4, sd=0.04)
    newer = replace(newer, rows=(*newer.rows, loud.row("noisy")))
    assert words(compare_analyses(older, newer, ALIKE)) == {
        "moved": "changed",
        "noisy": "undecided",
        "stayed": "agrees",
    }


def test_different_verdicts_alone_do_not_count_as_a_change() -> None:
    """One run shows the effect, the other is too noisy to: the difference decides."""
    older, newer = run({"x": 0.02}), run({"x": 0.02}, seed=5, sd=0.05)
    kinds = [a.row("x").verdict.kind for a in (older, newer)]
    assert kinds == ["better", "undecided"]
    assert words(compare_analyses(older, newer, ALIKE)) == {"x": "undecided"}


def test_effects_with_overlapping_intervals_can_differ_significantly() -> None:
    def found(effect: float, seed: int) -> Comparison:
        return compare(noisy(10, {"base": 0.0, "x": effect}, seed=seed, sd=0.01), "x", "base")

    older = found(0.060, 1)
    width = older.ci95[1] - older.ci95[0]
    newer = replace(older, effect=older.effect - 0.8 * width, ci95=tuple(b - 0.8 * width for b in older.ci95))  # type: ignore[arg-type]
    assert newer.ci95[1] > older.ci95[0]
    moved = effect_change(older, newer)
    assert moved is not None and is_changed(moved) and moved.p < 0.05


def test_sentence_on_a_significant_change_smaller_than_the_margin_says_so() -> None:
    found = compare_analyses(run({"x": 0.06}, sd=0.001), run({"x": 0.05}, seed=2, sd=0.001), ALIKE)
    assert words(found) == {"x": "changed"}
    assert wording.effect_change_phrase(row(found, "x"), 0.02).endswith("That is less than the 2\u00a0% that matters.")


def test_effect_changes_are_adjusted_together_without_harness_checks() -> None:
    effects = {f"t{k}": 0.01 * k for k in range(16)}
    older, newer = (run(effects | {"aa": 0.0}, blocks=6, seed=seed) for seed in (1, 2))
    found = compare_analyses(older, newer, ALIKE)
    assert {r.change.family_size for r in found.treatments} == {16}
    assert all(r.change.p_adjusted >= r.change.p for r in found.treatments)
    assert row(found, "aa").change.p_adjusted is None
    assert found.rows[-1].row.kind == "aa"


def test_effect_change_significant_only_without_adjustment_is_undecided() -> None:
    older, newer = (
        run({f"t{k}": effect if k == 0 else 0.0 for k in range(4)}, blocks=7, seed=seed, sd=0.01)
        for seed, effect in ((1, 0.0), (10, 0.014))
    )
    found = row(compare_analyses(older, newer, ALIKE), "t0")
    assert found.change is not None and found.change.p < 0.05 and found.kind == "undecided"
    assert "differs if looked at alone, but not among 4 comparisons" in wording.effect_change_phrase(found, 0.02)


def test_treatments_that_only_one_run_has_are_listed() -> None:
    found = compare_analyses(run({"x": 0.06, "gone": 0.0}), run({"x": 0.06, "new": 0.0}, seed=2), ALIKE)
    assert words(found) == {"x": "agrees", "new": "not compared", "gone": "not compared"}
    assert row(found, "gone").reason == "only the older run has it"
    assert "Not compared: " in wording.supporting_text(found)


def test_runs_without_comparable_treatments_have_no_effect_change() -> None:
    found = compare_analyses(run({"gone": 0.06}), run({"new": 0.06}, seed=2), ALIKE)
    assert wording.headline(found) == "Nothing could be compared between the two runs."


def test_invalid_run_is_named_in_every_row() -> None:
    newer = run({"x": 0.06}, seed=2)
    verdict = replace(newer.row("x").verdict, kind="invalid", reason="the A/A arm differs from the baseline")
    newer = replace(newer, rows=(newer.rows[0], replace(newer.row("x"), verdict=verdict)))
    found = row(compare_analyses(run({"x": 0.06}), newer, ALIKE), "x")
    assert (found.kind, found.reason) == ("not compared", "the newer run: the A/A arm differs from the baseline")


def test_treatment_with_changed_settings_has_no_effect_change() -> None:
    found = compare_analyses(run({"x": 0.06}), run({"x": 0.06}, seed=2), {"x": "it sets other things"})
    assert wording.effect_change_phrase(row(found, "x"), 0.02) == ": not compared: it sets other things."


def test_headline_is_neutral_if_the_harness_checks_of_a_run_failed() -> None:
    passed, failed = run({"x": 0.06}), run({"x": -0.06, "aa": 0.05}, seed=2)
    failed = replace(failed, rows=(*failed.rows[:-1], replace(failed.row("aa"), check_state="failed")))
    newer, older = compare_analyses(passed, failed, ALIKE), compare_analyses(failed, passed, ALIKE)
    assert wording.headline(newer) == "No verdict: the A/A arm differs from the baseline (newer run)."
    assert wording.headline(older) == "No verdict: the A/A arm differs from the baseline (older run)."


def test_effect_against_a_different_reference_has_no_effect_change() -> None:
    newer = run({"x": 0.06}, seed=2)
    verdict = newer.row("x").verdict
    verdict = replace(verdict, comparison=replace(verdict.comparison, baseline="rung-2"))
    newer = replace(newer, rows=(newer.rows[0], replace(newer.row("x"), verdict=verdict)))
    assert (
        "its baseline was base in the older run, rung-2"
        in row(compare_analyses(run({"x": 0.06}), newer, ALIKE), "x").reason
    )


def test_effect_change_has_no_interval_with_too_few_blocks() -> None:
    found = row(compare_analyses(run({"x": 0.06}), run({"x": 0.06}, blocks=4), ALIKE), "x")
    assert found.change is None and "only 4 complete blocks" in found.reason


def test_effect_change_uses_the_smaller_margin() -> None:
    older, newer = run({"x": 0.06}, margin=0.001), run({"x": 0.06}, seed=2)
    assert words(compare_analyses(older, newer, ALIKE)) == {"x": "undecided"}


def test_effect_change_combines_opposite_ends_of_asymmetric_intervals() -> None:
    even = compare(noisy(10, {"base": 0.0, "x": 0.02}, sd=0.002), "x", "base")
    older = replace(even, effect=0.02, ci95=(0.019, 0.021), ci90=(0.019, 0.021))
    newer = replace(older, ci95=(-0.05, 0.021))
    found, turned = effect_change(older, newer), effect_change(newer, older)
    assert found is not None and turned is not None
    assert found.ci95[0] < -0.05 and found.ci95[1] < 0.01
    assert turned.ci95[0] > -0.01 and turned.ci95[1] > 0.05


def test_runs_agree_by_the_90_percent_interval() -> None:
    even = compare(noisy(10, {"base": 0.0, "x": 0.02}, sd=0.002), "x", "base")
    found = effect_change(
        replace(even, effect=0.02, ci95=(0.007, 0.033)), replace(even, effect=0.02, ci95=(0.007, 0.033))
    )
    assert found is not None and found.ci95[1] > found.ci90[1]
    margin = (found.ci95[1] + found.ci90[1]) / 2
    one = replace(run({"x": 0.02}), margin=margin)
    row_of = replace(one.row("x"), verdict=replace(one.row("x").verdict, comparison=replace(
        one.row("x").verdict.comparison, effect=0.02, ci95=(0.007, 0.033))))  # fmt: skip
    both = replace(one, rows=(one.rows[0], row_of))
    assert words(compare_analyses(both, both, ALIKE)) == {"x": "agrees"}


def test_forecast_number_of_blocks_decides_an_effect_change() -> None:
    """As many blocks as the forecast asks for decide in most of two such runs."""

    def pair(blocks: int, seed: int) -> EffectPair:
        one, other = (run({"x": 0.05}, sd=0.016, blocks=blocks, seed=s) for s in (seed, seed + 50))
        return row(compare_analyses(one, other, ALIKE), "x")

    found = pair(10, 1)
    assert found.kind == "undecided" and found.blocks_needed is not None and found.blocks_needed > 10
    assert sum(pair(found.blocks_needed, seed).kind == "agrees" for seed in (1, 2, 4, 5)) >= 2
    assert found.change is not None and blocks_needed_per_run(replace(found.change, sd_logs=(0.5, 0.5)), 0.02) is None


def test_effect_change_of_values_without_scatter_has_an_interval_of_width_zero() -> None:
    still = compare(noisy(6, {"base": 0.0, "x": 0.05}, sd=0.0, shared=0.0), "x", "base")
    other = replace(still, effect=0.03, ci95=(0.03, 0.03), ci90=(0.03, 0.03))
    same, moved = effect_change(still, still), effect_change(still, other)
    assert same is not None and (same.p, same.effect) == (1.0, 0.0)
    assert moved is not None and moved.p < 1e-50 and is_changed(moved)


def test_sentences_have_fixed_wording() -> None:
    older = run({"moved": 0.06, "stayed": 0.06})
    found = compare_analyses(older, run({"moved": 0.01, "stayed": 0.061}, seed=2), ALIKE)
    assert wording.headline(found) == "1 of 2 comparisons changed: moved on."
    printed = wording.effect_change_phrase(row(found, "moved"), 0.02)
    assert printed.startswith(": changed: it is slower than it was, by 4.") and "in the older run, +" in printed
    assert "10 and 10 blocks." in printed
    agrees = wording.effect_change_phrase(row(found, "stayed"), 0.02)
    assert agrees.startswith(": agrees: it moved by no more than 2\u00a0% (90\u00a0% interval ")
    both = compare_analyses(older, run({"moved": 0.06, "stayed": 0.061}, seed=2), ALIKE)
    assert wording.headline(both) == "The two runs agree within 2\u00a0% in all 2 comparisons."
