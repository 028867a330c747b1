"""Does a build pass: every verdict, every limit, every check of the laboratory, and never by the estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from test_analyse import ARMS, make_run

from build_gate import CASES, NOTHING, kept, outcomes
from loadbook.stats.analyse import analyse
from loadbook.stats.ci import CiResult, assess_run, policy_text, unacceptable_verdicts
from loadbook.study.limits import CiLimits, CiPolicy
from run_records import make_run_record, plan_of


@pytest.fixture(scope="module")
def usual():
    """A run with one treatment of every kind, both checks passing, and its analysis."""
    run = make_run()
    return run, analyse(run)


@pytest.fixture
def assessed(usual):
    """Judge the usual run by a gate with these keys."""

    def assessed(**gate) -> CiResult:
        return assess_run(CiPolicy.model_validate({"undecided": "pass"} | gate), usual[1], usual[0])

    return assessed


def case(found: CiResult, name: str):
    return next(c for c in found.cases if name in (c.treatment, c.name))


def test_ci_fails_by_default_on_slower(assessed) -> None:
    found = assessed()
    assert {c.treatment: c.outcome for c in found.cases if c.kind == "comparison"} == {
        "fast": "passed", "slow": "failed", "even": "passed", "noisy": "passed",
    }  # fmt: skip
    assert (found.outcome, found.exit_code) == ("failed", 1)
    assert found.sentence.startswith("Build gate: failed. slow is slower by ")
    assert found.sentence.endswith("12 blocks. Slower is unacceptable.")


@pytest.mark.parametrize(("choice", "code"), [("pass", 0), ("fail", 1)])
def test_ci_passes_or_fails_undecided_comparisons_as_declared(assessed, choice: str, code: int) -> None:
    found = assessed(undecided=choice, only=["noisy", "even"])
    assert (found.exit_code, case(found, "noisy").undecided) == (code, True)
    assert "neither a difference nor its absence is shown" in case(found, "noisy").because
    words = "undecided, which the study lets pass: noisy." if code == 0 else "Undecided: neither"
    assert words in found.sentence


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        ({"min_effect": 0.05}, "passed"),  # 5.5 to 6.7 %: wholly above
        ({"min_effect": 0.06}, "undecided"),  # the estimate is above
        ({"min_effect": 0.08}, "failed"),
        ({"max_effect": 0.08}, "passed"),
        ({"max_effect": 0.06}, "undecided"),
        ({"max_effect": 0.05}, "failed"),
        ({"fail_on": ["faster"]}, "failed"),
        ({"fail_on": ["slower", "small"]}, "passed"),
        ({"fail_on": ["faster"], "min_effect": 0.05}, "failed"),
    ],
)
def test_ci_limit_is_decided_by_the_interval(assessed, limits: dict, outcome: str) -> None:
    one = case(assessed(only=["fast"], undecided="fail", **limits), "fast")
    assert (one.outcome, one.undecided) == (outcome.replace("undecided", "failed"), outcome == "undecided")


def test_ci_limit_on_losses_replaces_the_default_failure_of_slower_treatments(assessed) -> None:
    assert assessed(only=["slow"], min_effect=-0.10).outcome == "passed"
    assert assessed(only=["slow"], min_effect=-0.10, fail_on=["slower"]).outcome == "failed"
    assert assessed(only=["slow"], max_effect=0.10).outcome == "failed"  # no limit on losses: slower still fails
    assert unacceptable_verdicts(CiLimits(max_effect=0.1), "latency") == ("more-errors",)
    assert unacceptable_verdicts(CiLimits(min_effect=-0.1), "latency") == ("slower", "more-errors")


def test_ci_limit_is_missed_only_by_the_interval_adjusted_for_the_family(usual) -> None:
    run, analysis = usual
    row = analysis.row("fast")
    low, high = row.verdict.comparison.ci95
    wide = replace(row.verdict.comparison, ci_family=(low - 0.02, high + 0.02))
    rows = tuple(replace(r, verdict=replace(r.verdict, comparison=wide)) if r is row else r for r in analysis.rows)
    gate = CiPolicy(undecided="pass", only=("fast",), min_effect=high + 0.01)
    assert assess_run(gate, analysis, run).outcome == "failed"
    assert assess_run(gate, replace(analysis, rows=rows), run).outcome == "passed"


def test_ci_limit_at_the_very_end_of_the_interval_is_met(usual, assessed) -> None:
    low, high = usual[1].row("fast").verdict.comparison.ci90
    found = assessed(only=["fast"], undecided="fail", min_effect=low, max_effect=high)
    assert case(found, "fast").outcome == "passed"


def test_ci_fails_on_small_loss_if_declared() -> None:
    run = make_run({"base": {}, "less": {"effect": -0.01, "sd": 0.002}, "more": {"effect": 0.01, "sd": 0.002}}, 20)
    analysis = analyse(run)
    assert {r.verdict.kind for r in analysis.of_kind("treatment")} == {"small"}
    found = assess_run(CiPolicy(undecided="fail", fail_on=("slower", "small")), analysis, run)
    assert [c.treatment for c in found.cases_with("failed")] == ["less"]
    assert assess_run(CiPolicy(undecided="fail"), analysis, run).exit_code == 0


def test_ci_treats_longer_latency_as_slower() -> None:
    run = make_run({"base": {}, "slow": {"effect": -0.08}}, metric="latency")
    found = assess_run(CiPolicy(undecided="fail"), analyse(run), run)
    assert found.sentence.startswith("Build gate: failed. slow has a longer latency by ")


def test_ci_limits_apply_to_each_metric_separately() -> None:
    run = make_run({"base": {}, "slow": {"effect": -0.08, "label": "slow one"}})
    analysis, latency = analyse(run), analyse(run, metric="latency")
    latency = replace(latency, rows=tuple(replace(r, errors=replace(r.errors, kind="more")) for r in latency.rows))

    def on_latency(**limits):
        gate = CiPolicy(undecided="fail", fail_on=(), metrics={"latency": limits})
        return assess_run(gate, analysis, run, {"latency": latency}).cases[:2]

    own, other = on_latency()
    assert (own.outcome, other.outcome, other.metric) == ("passed", "failed", "latency")
    assert other.sentence.startswith("slow one (latency) has a longer latency by ")
    assert other.because == "slower is unacceptable"  # its errors are those of the other case
    assert [c.outcome for c in on_latency(max_effect=0.2)] == ["passed", "passed"]
    assert [c.outcome for c in on_latency(max_effect=0.05)] == ["passed", "failed"]


def test_ci_fails_on_more_errors(usual) -> None:
    run, analysis = usual
    row = analysis.row("even")
    rows = tuple(replace(r, errors=replace(r.errors, kind="more")) if r is row else r for r in analysis.rows)
    found = assess_run(CiPolicy(undecided="fail", only=("even",)), replace(analysis, rows=rows), run)
    assert case(found, "even").because == "more errors are unacceptable"
    lenient = CiPolicy(undecided="fail", only=("even",), fail_on=("slower",))
    assert assess_run(lenient, replace(analysis, rows=rows), run).exit_code == 0


def test_ci_never_passes_an_invalid_comparison() -> None:
    run = make_run()
    run.trials.loc[run.trials["treatment"] == "slow", "valid"] = False
    found = assess_run(CiPolicy(undecided="pass"), analyse(run), run)
    assert (found.outcome, found.exit_code) == ("invalid", 4)
    assert "only 0 complete blocks" in case(found, "slow").because
    assert assess_run(CiPolicy(undecided="pass", only=("even",)), analyse(run), run).exit_code == 0


def test_ci_result_names_a_differing_aa_arm_first() -> None:
    run = make_run(ARMS | {"again": ARMS["again"] | {"effect": 0.08}})
    found = assess_run(CiPolicy(undecided="pass"), analyse(run), run)
    assert found.exit_code == 4
    assert not found.cases_with("failed")
    assert found.sentence.startswith(
        "Build gate: no verdict: the A/A arm differs from the baseline. A/A: baseline again, "
    )
    assert found.cases_with("invalid")[-1].because == "the A/A arm differs from the baseline"


def test_ci_does_not_pass_if_the_positive_control_is_not_found() -> None:
    run = make_run(ARMS | {"log": ARMS["log"] | {"effect": 0.0}})
    found = assess_run(CiPolicy(undecided="pass", only=("fast",)), analyse(run), run)
    assert [(c.kind, c.outcome) for c in found.cases_with("invalid")] == [("control", "invalid")]
    assert found.exit_code == 4


def test_ci_reports_missing_checks_as_skipped() -> None:
    run = make_run({"base": {}, "even": {"sd": 0.002}})
    found = assess_run(CiPolicy(undecided="fail"), analyse(run), run)
    assert [(c.name, c.sentence) for c in found.cases_with("skipped")] == [
        ("A/A arm", "The run has no A/A arm."),
        ("positive control", "The run has no positive control."),
        ("doubts", "0 validity rules had doubts."),
    ]
    assert found.exit_code == 0


def test_ci_can_pass_with_harness_checks_only_but_not_without_any_comparison() -> None:
    run = make_run({"base": {}, "again": {"check": "aa", "same_as": "base"}})
    assert assess_run(CiPolicy(undecided="fail"), analyse(run), run).sentence == "Build gate: passed."
    alone = make_run({"base": {}})
    found = assess_run(CiPolicy(undecided="pass"), analyse(alone), alone)
    assert (found.exit_code, found.sentence) == (4, "Build gate: no verdict. Nothing was compared.")


def test_ci_does_not_pass_a_treatment_that_did_not_run(assessed) -> None:
    found = assessed(only=["gone"])
    assert found.sentence == "Build gate: no verdict. gone: not compared: it is not in this run."


def test_ci_does_not_pass_an_unfinished_run(usual) -> None:
    run, analysis = usual
    run = replace(run, plan=plan_of(trials=(None,) * 90))
    run.run_record = make_run_record(ended=None)
    found = assess_run(CiPolicy(undecided="pass", only=("even",)), analysis, run)
    assert found.exit_code == 4
    assert case(found, "trials").sentence == "84 of 90 trials count."
    assert "loadbook run goes on with it" in found.sentence

    run.run_record = make_run_record(ended=None, imported={"timed": False})  # nobody knows when it ended
    assert assess_run(CiPolicy(undecided="pass", only=("even",)), analysis, run).exit_code == 0


def test_ci_policy_fits_in_one_line() -> None:
    assert policy_text(CiPolicy(undecided="pass"), "ok_per_s") == "slower or more-errors fails; undecided passes"
    gate = CiPolicy(undecided="fail", fail_on=(), min_effect=-0.02, doubts=("all",), only=("a",), treatments={"a": {}})
    assert policy_text(gate, "ok_per_s") == (
        "no verdict fails; at least −2\u00a0%; undecided fails; a doubt fails: all; judged is only a; otherwise for a"
    )


@pytest.mark.parametrize(("choice", "code"), [("pass", 0), ("fail", 1)])
def test_ci_is_undecided_when_blocks_were_added_after_looking(usual, choice: str, code: int) -> None:
    run, analysis = usual
    more = replace(analysis, stopping_state=replace(analysis.stopping_state, added_blocks=3))
    found = assess_run(CiPolicy(undecided=choice, only=("even",)), more, run)
    assert found.exit_code == code
    assert case(found, "blocks as declared").because == "undecided: a new run decides"


@pytest.mark.parametrize(
    ("doubts", "outcome"),
    [
        (["stolen_cpu"], "failed"),
        (["all"], "failed"),
        (["clock"], "passed"),
        (["foreign_cpu"], "undecided"),
        ([], "skipped"),
    ],
)
def test_ci_fails_on_declared_doubts(usual, doubts: list[str], outcome: str) -> None:
    run = replace(
        usual[0],
        problems=pd.DataFrame(
            [("stolen_cpu", "doubt", "web: 3 % stolen"), ("foreign_cpu", "unchecked", "no monitor ran")],
            columns=["name", "level", "message"],
        ),
    )
    gate = CiPolicy(undecided="fail", only=("even",), doubts=tuple(doubts))
    one = next(c for c in assess_run(gate, usual[1], run).cases if c.kind == "doubt")
    assert (one.outcome, one.undecided) == (outcome.replace("undecided", "failed"), outcome == "undecided")


def test_ci_that_accepts_no_doubt_does_not_fail_on_rules_that_were_not_checked(usual) -> None:
    problems = pd.DataFrame([("foreign_cpu", "unchecked", "no monitor ran")], columns=["name", "level", "message"])
    gate = CiPolicy(undecided="fail", only=("even",), doubts=("all",))
    found = assess_run(gate, usual[1], replace(usual[0], problems=problems))
    assert next(c for c in found.cases if c.kind == "doubt").outcome == "passed"


def test_ci_without_a_control_has_mostly_no_verdict_at_ten_noisy_blocks() -> None:
    """A third of the control's effect is the limit of the A/A arm, without a control the margin (docs/ci.md)."""
    alone = next(c for c in CASES if not c.control and (c.noise, c.blocks) == ("iid", 10))
    assert outcomes(alone, 20)["invalid"] >= 5
    assert outcomes(replace(alone, control=True), 20)["invalid"] <= 3


def test_ci_rarely_fails_an_unchanged_system() -> None:
    """benchmarks/build_gate.py is it whole."""
    one = next(c for c in CASES if c.truth.startswith(NOTHING) and len(c.effects) == 4 and c.limit)
    share = 100 * outcomes(one, 20)["failed"] / 20
    assert share <= one.limit + 4 * np.sqrt(one.limit * (100 - one.limit) / 20)
    assert not kept(one, 5.0, 2000)
