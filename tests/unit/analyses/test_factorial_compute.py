"""Effects of factorials: contrasts, the pooled analysis beside them, the family, errors by pair, and what is said."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from factorial_runs import factorial_run, factorial_study
from loadbook.analyses.factorial import compute
from loadbook.analyses.factorial import text as say
from loadbook.analyses.factorial.compute import (
    FactorialAnalysis,
    analyse_factorial,
    block_contrasts,
    count_factorial_errors,
    fit_pooled_effects,
    one_factor_at_a_time_trials,
    step_down_effects_p,
)
from loadbook.core.units import NBSP
from loadbook.stats.headline import neutral_caption
from loadbook.study import designs
from loadbook.study.designs import FactorialDesign, factorial_design

FIVE = ("accept", "epoll", "nopush", "nodelay", "workers")
NEVER = re.compile(r"\b(significant|proves|no effect|same effect)\b")


def analysed(*args: object, **kwargs: object) -> FactorialAnalysis:
    found = analyse_factorial(factorial_run(*args, **kwargs))  # type: ignore[arg-type]
    assert found is not None
    return found


def plain(text: str) -> str:
    return text.replace(NBSP, " ")


def kinds(found: FactorialAnalysis) -> dict[str, str]:
    return {" x ".join(e.names): e.verdict.kind for e in found.effects}


@pytest.fixture(scope="module")
def half() -> FactorialAnalysis:
    """Half of 2^5, resolution V, 8 blocks: two main effects and one pair are real."""
    effects = {("nopush",): 0.06, ("workers",): -0.08, ("accept", "epoll"): 0.05}
    return analysed(factorial_study(FIVE, 8, fraction="half"), effects)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(2, 5), st.integers(0, 2), st.integers(0, 10_000))
def test_factorial_effect_is_the_least_squares_estimate(factors: int, words: int, seed: int) -> None:
    design = FactorialDesign(tuple("abcde"[:factors]), designs.minimum_aberration_words(factors, words))
    if len(design.alias_sets) >= len(design.cells):
        return  # saturated: least squares has nothing to spare
    logs = np.random.default_rng(seed).normal(size=(6, len(design.cells)))
    for own, beside in zip(block_contrasts(design, logs), fit_pooled_effects(design, logs), strict=True):
        assert own.mean() == pytest.approx(np.log1p(beside.estimate), abs=1e-9)
        assert beside.interval[0] < beside.estimate < beside.interval[1]


def test_factorial_interaction_is_the_change_of_an_effect() -> None:
    design = FactorialDesign(("a", "b"), ())
    logs = np.log([[100.0, 110.0, 120.0, 180.0]])  # plain, a, b, ab
    a, b, pair = np.exp(block_contrasts(design, logs)[:, 0])
    assert a == pytest.approx(np.sqrt(1.1 * 1.5))
    assert b == pytest.approx(np.sqrt(1.2 * 180 / 110))
    assert pair == pytest.approx(1.5 / 1.1)


def test_factorial_finds_known_effects_and_equivalences(half: FactorialAnalysis) -> None:
    found = kinds(half)
    assert {name: kind for name, kind in found.items() if kind != "equivalent"} == {
        "nopush": "better", "workers": "worse", "accept x epoll": "better",
    }  # fmt: skip
    assert len(found) == 15
    for effect, truth in ((half.main_effects[0], 0.06), (half.main_effects[1], -0.08), (half.interactions[0], 0.05)):
        low, high = effect.verdict.comparison.ci95 or (0.0, 0.0)
        assert np.log1p(low) < truth < np.log1p(high)
        assert effect.pooled_agrees and effect.pooled is not None
    assert {e.verdict.comparison.family_size for e in half.effects} == {15}
    assert all((e.verdict.comparison.p_adjusted or 0) >= (e.verdict.comparison.p or 0) for e in half.effects)


def test_factorial_analysis_has_rows_for_baseline_factors_and_harness_checks(half: FactorialAnalysis) -> None:
    assert [row.kind for row in half.analysis.rows] == ["baseline", *["treatment"] * 5, "aa", "control"]
    assert [row.passed for row in half.analysis.rows[-2:]] == [True, True]


def test_factorial_interaction_gives_all_four_cell_means(half: FactorialAnalysis) -> None:
    (meeting,) = half.interaction_plots
    assert meeting.effect.names == ("accept", "epoll")
    values = {both: value for both, (value, _) in meeting.cell_means.items()}
    assert values[True, True] / values[False, True] == pytest.approx(np.exp(0.025), rel=0.01)
    assert values[True, False] / values[False, False] == pytest.approx(np.exp(-0.025), rel=0.01)
    assert all(low < value < high for value, (low, high) in meeting.cell_means.values())
    assert meeting.conditional_effects[True][0] == pytest.approx(0.025, abs=0.01)
    assert meeting.conditional_effects[False][0] == pytest.approx(-0.025, abs=0.01)


def test_sentences_have_fixed_wording(half: FactorialAnalysis) -> None:
    assert say.factorial_headline(half) == "accept on and epoll on act together: what one does depends on the other."
    (together,) = map(plain, say.interaction_sentences(half))
    up, down = r"\+\d\.\d % \(\+\d\.\d to \+\d\.\d %\)", r"−\d\.\d % \(−\d\.\d to −\d\.\d %\)"
    assert re.fullmatch(rf"accept on: {down} with epoll off, {up} with epoll on, 8 blocks\.", together), together
    change = up.replace("(", "(95 % interval ", 1)
    assert re.fullmatch(
        rf"accept x epoll: with epoll on, the effect of accept on changes by {change}, 8 blocks: better together\.",
        plain(say.factorial_effect_sentence(half.interactions[0], half.factor_labels)),
    )
    printed = [plain(say.factorial_effect_sentence(e, half.factor_labels)) for e in half.effects]
    assert printed[0].startswith("nopush on is faster by ") and printed[1].startswith("workers on is slower by ")
    assert re.search(r"the effect of \w+ on changes by no more than 2 % \(90 % interval ", printed[-1])
    assert not any(NEVER.search(line) for line in [*printed, together])
    named = plain(say.supporting_text(half))
    assert named.startswith("nopush on is faster by ") and "workers on is slower by " in named
    assert say.unlisted_interactions(half) == [
        ("equivalent", "9 of 10 pairs", f": any change of one factor’s effect by the other is smaller than 2{NBSP}%.")
    ]
    assert say.cost_sentence(half) == (
        "These 128 trials tell every main effect as precisely as 384 trials of one factor at a time "
        "(5 factors and the baseline), which would see no pair."
    )


def test_one_factor_at_a_time_trials_equal_the_power_calculation() -> None:
    """2^3 in 5 blocks has the power that one factor at a time reaches with twice the trials."""
    assert one_factor_at_a_time_trials(FactorialDesign(("a", "b", "c"), ()), 40) == 80


def test_factorial_aliased_interactions_list_each_other() -> None:
    names = ("a", "b", "c", "d")
    found = analysed(factorial_study(names, 9, fraction="half"), {("a", "b"): 0.06, ("d",): 0.03})
    assert kinds(found) == {
        "d": "better", "a": "equivalent", "b": "equivalent", "c": "equivalent", "a x b": "better",
        "a x c": "equivalent", "a x d": "equivalent",
    }  # fmt: skip
    assert found.interactions[0].aliases == ("c x d",)
    assert "act together" not in say.factorial_headline(found)


def test_factorial_analysis_without_effects_keeps_the_familywise_error_rate() -> None:
    design = FactorialDesign(("a", "b", "c"), ())
    rng, claims = np.random.default_rng(7), 0
    for _ in range(100):
        each = block_contrasts(design, rng.standard_t(3, size=(8, 8)) * 0.02)
        claims += min(step_down_effects_p(design, each, design.effects)) < 0.05
    assert claims <= 12  # 5 of 100, and four standard deviations


def test_factorial_large_effect_does_not_make_other_effects_significant() -> None:
    design = FactorialDesign(("a", "b", "c"), ())
    rng, claims = np.random.default_rng(8), 0
    shift = np.array([designs.effect_sign(1, c) for c in design.cells]) * 0.3
    for _ in range(60):
        each = block_contrasts(design, shift + rng.normal(0, 0.02, size=(8, 8)))
        p = step_down_effects_p(design, each, design.effects)
        assert p[0] < 0.02
        claims += min(p[1:]) < 0.05
    assert claims <= 9


def test_factorial_with_few_blocks_uses_t_tests_and_holm_adjustment() -> None:
    found = analysed(factorial_study(("a", "b"), 6), {("a",): 0.1})
    assert (found.adjustment, {e.verdict.comparison.method for e in found.effects}) == ("Holm", {"paired-t"})
    assert kinds(found)["a"] == "better"
    four = analysed(factorial_study(("a", "b"), 4), {("a",): 0.1})
    assert set(kinds(four).values()) == {"invalid"} and four.interaction_plots == ()
    assert "only 4 complete blocks" in (four.effects[0].verdict.reason or "")


def test_factorial_block_needs_every_combination() -> None:
    run = factorial_run(factorial_study(("a", "b"), 10), {("a",): 0.1})
    run.trials.loc[(run.trials["treatment"] == "ab") & (run.trials["block"] == 3), "valid"] = False
    found = analyse_factorial(run)
    assert found and found.blocks == 9
    assert found.effects[0].verdict.comparison.flags[0].startswith("blocks left out, in which not all 4 combinations")
    run.trials.loc[(run.trials["treatment"] == "a") & (run.trials["block"] < 4), "valid"] = False
    again = analyse_factorial(run)
    assert again and again.effects[0].verdict.kind == "invalid"
    assert "blocks are incomplete" in (again.effects[0].verdict.reason or "")


def test_factorial_analysis_of_an_incomplete_run_says_so() -> None:
    run = factorial_run(factorial_study(("a", "b"), 8), {})
    run.trials = run.trials[run.trials["treatment"] != "ab"]
    found = analyse_factorial(run)
    assert found and found.effects[0].verdict.reason == (
        "the run holds 3 of the 4 combinations, and a factorial needs all of them"
    )


def test_factorial_with_failed_aa_arm_has_no_verdicts() -> None:
    run = factorial_run(factorial_study(("a", "b"), 10), {("a",): 0.1})
    own = run.trials.loc[run.trials["treatment"] == "again", "trial"]
    rows = run.measurements["trial"].isin(own) & (run.measurements["metric"] == "ok_per_s")
    run.measurements.loc[rows, "value"] *= 1.3
    found = analyse_factorial(run)
    assert found and found.analysis.is_void and set(kinds(found).values()) == {"invalid"}
    assert f"{say.factorial_headline(found)} {say.supporting_text(found)}" == neutral_caption(found.analysis)


def test_factorial_reports_disagreement_of_pooled_analysis() -> None:
    """One combination scatters wildly: least squares spreads its scatter over every effect."""
    design = FactorialDesign(("a", "b"), ())
    rng = np.random.default_rng(1)
    shift = np.array([designs.effect_sign(1, c) for c in design.cells]) * 0.01
    logs = shift + rng.normal(0, 0.002, (10, 4)) + rng.normal(0, 0.2, (10, 1)) * np.array([1.0, 1, -1, -1])
    found = compute.compare_effects(design, logs, baseline="plain", metric="ok_per_s", statistic="value", excluded=0)
    beside = fit_pooled_effects(design, logs)
    low, high = found[0].ci95 or (0.0, 0.0)
    assert 0 < low < high and beside[0].interval[0] < 0 < beside[0].interval[1]


def test_factorial_finds_errors_of_an_interaction() -> None:
    study = factorial_study(("accept", "epoll"), 24)
    run = factorial_run(study, {}, failing={("accept",): 0.9, ("accept", "epoll"): 0.0}, seed=2)
    found = count_factorial_errors(run)
    assert found and {" x ".join(e.names): e.kind for e in found.effects} == {
        "accept": "more", "epoll": "fewer", "accept x epoll": "fewer",
    }  # fmt: skip
    lines = [plain(line) for line in say.factorial_error_sentences(found, analysed(study, {}).factor_labels)]
    assert re.fullmatch(
        r"epoll on removes errors that accept on brings: 0 of 24 trials with both, \d+ of 24 with accept on alone, "
        r"0 of 24 with epoll on alone \(p < 0\.001\)\.", lines[-1],
    ), lines  # fmt: skip
    assert re.match(r"accept on has errors in more trials: \d+ of 48 trials against 0 of 48 \(p < 0.001\)\.", lines[1])


def test_factorial_few_errors_are_undecided() -> None:
    study = factorial_study(("accept", "epoll"), 8)
    switches = analysed(study, {}).factor_labels
    few = say.factorial_error_sentences(
        count_factorial_errors(factorial_run(study, {}, failing={("accept",): 0.3}, seed=1)), switches
    )
    assert few[-1] == (
        "Whether a factor or a pair brings or removes them is undecided (exact sign test over 8 blocks, Holm)."
    )
    none = say.factorial_error_sentences(count_factorial_errors(factorial_run(study, {})), switches)
    assert [plain(line) for line in none] == [
        "No errors in 32 of 32 trials, so no factor and no pair is seen to bring or to remove any "
        "(up to 17 % of the trials with a factor switched could still have some)."
    ]


def test_study_without_factorial_has_no_factorial_analysis() -> None:
    run = factorial_run(factorial_study(("a", "b"), 8), {})
    run.study = run.study.model_copy(update={"factorial": None})
    assert analyse_factorial(run) is None and count_factorial_errors(run) is None


def test_factorial_group_of_variables_is_switched_as_one_factor() -> None:
    study = factorial_study(("net", "events"), 8, groups={"net": ["nopush", "nodelay"], "events": ["accept", "epoll"]})
    assert study.treatments["a"].set == {"nopush": "on", "nodelay": "on", "accept": "off", "epoll": "off"}
    assert factorial_design(study.factorial).names == ("net", "events")
    found = analysed(study, {("net",): 0.05})
    assert found.main_effects[0].label == "net group on" and found.main_effects[0].verdict.kind == "better"
