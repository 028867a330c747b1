"""From tables to the Analysis: order of rows, checks, reasons, headline."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
import pytest

from loadbook.core.errors import UsageError
from loadbook.stats import diagnostics
from loadbook.stats.analyse import analyse
from loadbook.stats.comparability import arms_of, invalid_reason
from loadbook.stats.headline import (
    aa_result,
    control_result,
    headline,
    neutral_caption,
    no_change_clause,
    supporting_text,
    verdict_counts,
)
from loadbook.stats.next_step import next_step
from loadbook.stats.results import ErrorSummary, Forecast
from loadbook.stats.text import row_texts
from loadbook.store.run_record import RunRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from run_records import plan_of
from trial_frames import comparison

ARMS = {
    "base": {},
    "noisy": {"effect": 0.012, "sd": 0.06},
    "slow": {"effect": -0.047},
    "fast": {"effect": 0.06, "label": "tcp_nopush on"},
    "even": {"effect": 0.0, "sd": 0.002},
    "again": {"check": "aa", "same_as": "base", "label": "A/A: baseline again"},
    "log": {"effect": -0.10, "check": "control", "expect": "worse", "expect_effect": -0.10},
}


@dataclass
class Run:
    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: Plan = field(default_factory=plan_of)
    samples: pd.DataFrame | None = None
    problems: pd.DataFrame | None = None
    run_record: RunRecord | None = None


def make_run(arms=ARMS, blocks: int = 12, seed: int = 5, drift: float = 0.0, **study) -> Run:
    """A run with known effects, in randomised blocks, as the tables hold it."""
    rng = np.random.default_rng(seed)
    keys = ("label", "check", "same_as", "expect", "expect_effect")
    spec = {
        "schema": 1, "name": "s", "question": "Which directive?", "baseline": next(iter(arms)), "blocks": blocks,
        "roles": {"driver": {}, "web": {}}, "workload": {"tool": "wrk"},
        "treatments": {name: {k: v for k, v in arm.items() if k in keys} for name, arm in arms.items()},
    }  # fmt: skip
    trials, rows = [], []
    for block in range(1, blocks + 1):
        common = rng.normal(0, 0.02) + drift * block
        for name in rng.permutation(list(arms)):
            slot, trial = len(trials) + 1, f"t{len(trials) + 1:04}"
            rate = 40_000 * np.exp(common + arms[name].get("effect", 0.0) + rng.normal(0, arms[name].get("sd", 0.006)))
            trials.append({
                "trial": trial, "treatment": name, "block": block, "slot": slot,
                "execution": "plain", "measures": "all", "status": "ok", "valid": True,
                "gates": [], "reason": None, "tool": "wrk", "load_model": "closed", "offered_per_s": None,
                "concurrency": 50, "drivers": 1, "response_status": 200, "response_bytes": 5,
            })  # fmt: skip
            rows += [(trial, "ok_per_s", "value", rate), (trial, "requests", "count", rate * 10)]
            rows += [(trial, "errors", "count", 0), (trial, "latency", "p50", 50 / rate)]
    measurements = pd.DataFrame(rows, columns=["trial", "metric", "statistic", "value"]).assign(driver="*")
    return Run(Study.model_validate(spec | study), pd.DataFrame(trials), measurements)


@pytest.fixture(scope="module")
def usual() -> Run:
    return make_run()


def test_analysis_rows_are_in_display_order(usual: Run) -> None:
    found = analyse(usual)
    assert [r.treatment for r in found.rows] == ["base", "fast", "slow", "even", "noisy", "again", "log"]
    assert [r.verdict.kind for r in found.of_kind("treatment")] == ["better", "worse", "equivalent", "undecided"]
    assert [r.passed for r in found.rows] == [None] * 5 + [True, True]
    assert (found.is_void, found.best, found.planned_blocks) == (False, "fast", 12)


def test_analysis_family_excludes_harness_checks(usual: Run) -> None:
    found = analyse(usual)
    assert {r.verdict.comparison.family_size for r in found.of_kind("treatment")} == {4}
    assert {r.verdict.comparison.family_size for r in found.of_kind("aa", "control")} == {1}


def test_analysis_rows_have_median_and_half_width_of_values(usual: Run) -> None:
    row = analyse(usual).row("fast")
    rates = usual.measurements.merge(usual.trials).query("treatment == 'fast' and metric == 'ok_per_s'")["value"]
    assert row.median == pytest.approx(rates.median())
    assert 0 < row.mean_half_width < 0.03 * row.median
    assert row_texts(row).level == f"{round(row.median, -2):,.0f}"
    assert row_texts(row).trials_with_errors == "0 of 12"


def test_analysis_rows_have_the_same_number_of_decimals(usual: Run) -> None:
    texts = [row_texts(r).change_number for r in analyse(usual).of_kind("treatment")]
    assert {len(t.partition(".")[2]) for t in texts} == {1}


def test_analysis_has_a_headline_and_a_supporting_sentence(usual: Run) -> None:
    found = analyse(usual)
    assert headline(found).startswith("tcp_nopush on is faster by ")
    assert len(headline(found)) < 90
    assert headline(found).endswith(", 12 blocks.")
    assert supporting_text(found).startswith("tcp_nopush on is ahead of every other treatment;")
    assert verdict_counts(found) == {"better": 1, "worse": 1, "equivalent": 1, "undecided": 1}


def test_analysis_reports_passed_checks(usual: Run) -> None:
    found = analyse(usual)
    assert aa_result(found.row("again"), "base").startswith("passed. Same against same")
    assert control_result(found.row("log")).startswith("passed. The known effect was found: −")


def test_analysis_treats_shorter_latency_as_better(usual: Run) -> None:
    found = analyse(usual, metric="latency")
    assert found.row("fast").verdict.kind == "better"
    assert found.row("slow").verdict.kind == "worse"
    assert found.margin == 0.05
    assert found.row("log").passed
    assert found.row("log").expected_effect is None  # it is stated for the study's own metric


def test_positive_control_without_direction_passes_on_any_difference() -> None:
    vague = {k: v for k, v in ARMS["log"].items() if k not in ("expect", "expect_effect")}  # type: ignore[attr-defined]
    assert analyse(make_run(ARMS | {"log": vague})).row("log").passed
    size_only = {k: v for k, v in ARMS["log"].items() if k != "expect"}  # type: ignore[attr-defined]
    run = make_run(ARMS | {"log": size_only})
    assert analyse(run).row("log").passed
    assert analyse(run, metric="latency").row("log").passed


def test_analysis_with_a_different_baseline_compares_the_study_baseline_as_a_treatment(usual: Run) -> None:
    found = analyse(usual, baseline="fast")
    assert [r.treatment for r in found.of_kind("baseline")] == ["fast"]
    assert found.row("base").verdict.kind == "worse"
    assert found.row("again").passed
    assert found.row("log").passed


def test_aa_arm_that_differs_invalidates_every_verdict() -> None:
    found = analyse(make_run(ARMS | {"again": ARMS["again"] | {"effect": 0.05}}))
    assert neutral_caption(found).startswith("No verdict: the A/A arm differs from the baseline. A/A: baseline again")
    assert {r.verdict.kind for r in found.of_kind("treatment")} == {"invalid"}
    assert (found.row("again").passed, found.best, found.tied_with_best) == (False, None, ())
    assert headline(found) == "No verdict: the A/A arm differs from the baseline."
    assert aa_result(found.row("again"), "base").startswith("failed.")


def test_positive_control_fails_if_its_effect_is_not_detected() -> None:
    found = analyse(make_run(ARMS | {"log": ARMS["log"] | {"effect": 0.0}}))
    assert found.row("log").passed is False
    assert "failed. The known effect was not found" in control_result(found.row("log"))
    assert headline(found).startswith("No verdict: the known effect ")
    assert analyse(make_run(ARMS | {"log": ARMS["log"] | {"effect": 0.1}})).row("log").passed is False


@pytest.mark.parametrize("label", ["a label of forty letters, more or less..", "x" * 120])
def test_headline_with_a_long_label_omits_the_number_of_blocks_but_keeps_the_interval(usual: Run, label: str) -> None:
    printed = headline(analyse(usual), {"fast": label})
    assert printed.startswith(label) and printed.endswith("%).")
    assert "(95\u00a0% interval " in printed


@pytest.mark.parametrize("arms", [2, 4, 17])
def test_supporting_text_has_at_most_two_sentences(arms: int) -> None:
    spread = {f"t{k}": {"effect": 0.06 if k < 2 else 0.0, "sd": 0.03} for k in range(arms)}
    printed = supporting_text(analyse(make_run({"base": {"sd": 0.03}} | spread)))
    assert len(re.findall(r"\.(?: |$)", printed)) <= 2
    assert not re.search(r"\d (?:is|are) undecided", printed)


def test_supporting_text_gives_intervals_of_other_effects() -> None:
    printed = supporting_text(
        analyse(make_run({"base": {}, "a": {"effect": -0.1}, "b": {"effect": -0.2}, "c": {"effect": 0.1}}))
    )
    assert re.search(r"b is slower by 18[\d.]*\u00a0% \([\d.]+ to [\d.]+\u00a0%\); a is slower by 9", printed)


def test_analysis_of_too_few_blocks_gives_no_verdict() -> None:
    found = analyse(make_run(blocks=3))
    assert {r.verdict.kind for r in found.of_kind("treatment")} == {"invalid"}
    assert (found.row("again").passed, found.row("log").passed) == (None, None)
    assert aa_result(found.row("again"), "base").endswith("not checked, only 3 complete blocks, 5 are needed.")
    assert headline(found) == "No verdict: no treatment could be compared."
    assert supporting_text(found).startswith("Reason: only 3 complete blocks, 5 are needed.")


def test_analysis_names_the_validity_rule_that_excluded_trials() -> None:
    run = make_run()
    bad = (run.trials["treatment"] == "fast") & (run.trials["block"] > 4)
    run.trials.loc[bad, "valid"] = False
    run.trials.loc[bad, "gates"] = run.trials.loc[bad, "gates"].map(lambda _: ["driver_saturated"])
    row = analyse(run).row("fast")
    assert (row.valid_trials, row.trials, row.verdict.kind) == (4, 12, "invalid")
    assert row.verdict.reason == ("only 4 complete blocks, 5 are needed: driver at its limit in 8 trials")


def test_analysis_names_the_cause_of_exclusion_if_only_trials_of_the_baseline_were_excluded() -> None:
    run = make_run()
    lost = (run.trials["treatment"] == "base") & (run.trials["block"] > 6)
    run.trials.loc[lost, "valid"] = False
    run.trials.loc[lost, "gates"] = run.trials.loc[lost, "gates"].map(lambda _: ["zero_work"])
    assert analyse(run).row("fast").verdict.reason.endswith(": no work done in 6 trials")


ALIEN = "another server answered on web1:18083; free the port, or set service_port in the hosts file."


def test_run_whose_blocks_are_incomplete_says_why_in_both_arms_what_to_do_and_how_many_blocks_more() -> None:
    run = make_run({"base": {}, "fast": {"effect": 0.06}}, blocks=10)
    run.plan = plan_of(treatments=("base", "fast"), blocks=10)
    blocks, is_fast = run.trials["block"], run.trials["treatment"] == "fast"
    bad = (is_fast & blocks.isin([1, 2])) | (~is_fast & (blocks == 3))
    run.trials["valid"] = ~bad
    rows = [(t, "config_not_live", "invalid", ALIEN) for t in run.trials.loc[bad, "trial"]]
    run.problems = pd.DataFrame(rows, columns=["trial", "name", "level", "message"])
    found = analyse(run)
    reason = found.row("fast").verdict.reason
    assert reason == (
        "3 of 10 blocks are incomplete, more than 20\u00a0%: another server answered on web1:18083 in 3 trials"
    )
    remedy = "free the port, or set service_port in the hosts file"
    assert headline(found) == f"No verdict: another server answered on web1:18083 in 3 trials; {remedy}."
    assert next_step(found, "loadbook run s") == f"{remedy}; then 5 more blocks: loadbook run s --more 5"


def test_run_in_which_nothing_could_be_compared_for_another_reason_does_not_blame_excluded_trials() -> None:
    run = make_run({"base": {}, "fast": {"effect": 0.06}}, blocks=10)
    run.trials.loc[0, "valid"] = False
    run.trials.loc[run.trials["treatment"] == "fast", "response_bytes"] = 24
    found = analyse(run)
    assert headline(found) == "No verdict: no treatment could be compared."
    assert next_step(found, "loadbook run s") == ""


def test_analysis_does_not_name_doubts_as_cause_of_exclusion() -> None:
    run = make_run()
    fast = run.trials["treatment"] == "fast"
    run.trials.loc[fast, "valid"] = False
    run.trials["gates"] = [["foreign_cpu", "zero_work"] if f else ["foreign_cpu"] for f in fast]
    run.problems = pd.DataFrame(
        [
            (t, name, level)
            for t in run.trials["trial"]
            for name, level in (("zero_work", "invalid"), ("foreign_cpu", "doubt"))
        ],
        columns=["trial", "name", "level"],
    )
    assert analyse(run).row("fast").verdict.reason.endswith(": no work done in 12 trials")


def test_planned_blocks_that_did_not_run_count_as_incomplete() -> None:
    run = make_run(blocks=8)
    run.plan = plan_of(treatments=tuple(ARMS), blocks=12)
    row = analyse(run).row("fast")
    assert row.verdict.kind == "invalid"
    assert row.verdict.reason == "4 of 12 blocks are incomplete, more than 20\u00a0% (4 were not run)"
    run.plan = replace(run.plan, blocks=10)
    assert analyse(run).row("fast").verdict.kind == "better"


def test_aa_arm_that_differs_invalidates_every_verdict_even_if_its_blocks_are_incomplete() -> None:
    arms = ARMS | {"again": ARMS["again"] | {"effect": 0.08}}
    run = make_run(arms)
    run.trials.loc[(run.trials["treatment"] == "again") & (run.trials["block"] > 9), "valid"] = False
    found = analyse(run)
    assert found.row("again").passed is False
    assert found.is_void


def test_analysis_ignores_failed_trials() -> None:
    run = make_run()
    run.trials.loc[(run.trials["treatment"] == "fast") & (run.trials["block"] == 2), "status"] = "tool_failed"
    found = analyse(run).row("fast").verdict.comparison
    assert (found.blocks, found.excluded) == (11, 1)


def test_treatment_with_a_different_response_is_not_compared() -> None:
    run = make_run()
    run.trials.loc[run.trials["treatment"] == "fast", "response_bytes"] = 24
    verdict = analyse(run).row("fast").verdict
    assert verdict.reason == "it answers differently (24 bytes where the baseline sends 5)"


def test_treatment_under_a_different_load_is_not_compared() -> None:
    run = make_run()
    run.trials.loc[run.trials["treatment"] == "fast", "concurrency"] = 100
    assert "another number of connections" in analyse(run).row("fast").verdict.reason


def test_rates_equal_to_the_offered_load_are_not_compared() -> None:
    run = make_run()
    run.trials["gates"] = [["offered_ceiling"]] * len(run.trials)
    run.problems = pd.DataFrame(
        [(t, "offered_ceiling", "doubt") for t in run.trials["trial"]], columns=["trial", "name", "level"]
    )
    row = analyse(run).row("even")
    assert (row.verdict.kind, row.valid_trials) == ("invalid", 12)
    assert "all of the offered load" in row.verdict.reason
    assert analyse(run, metric="latency", statistic="p50").row("even").verdict.kind != "invalid"
    base = run.trials["treatment"] == "base"
    run.trials.loc[base, "gates"] = run.trials.loc[base, "gates"].map(lambda _: [])
    assert analyse(run).row("fast").verdict.kind == "better"


def test_treatments_run_one_after_the_other_are_not_compared() -> None:
    run = make_run()
    run.trials["slot"] = run.trials.sort_values(["treatment", "block"]).reset_index().sort_values("index").index + 1
    assert "not randomised in blocks" in analyse(run).row("fast").verdict.reason


@pytest.mark.parametrize(("failing", "kind"), [("fast", "more"), ("base", "fewer")])
def test_rate_that_includes_errors_is_not_compared_when_errors_change(failing: str, kind: str) -> None:
    run = make_run(metric="requests_per_s")
    run.measurements = run.measurements.replace({"metric": {"ok_per_s": "requests_per_s"}})
    trials = run.trials.loc[run.trials["treatment"] == failing, "trial"]
    run.measurements.loc[run.measurements["trial"].isin(trials) & (run.measurements["metric"] == "errors"), "value"] = (
        50
    )
    row = analyse(run).row("fast")
    assert (row.verdict.kind, row.errors.kind) == ("invalid", kind)
    assert row.verdict.reason.startswith("requests_per_s counts error responses")


@pytest.mark.parametrize("short", ["base", "fast"])
def test_percentile_that_one_arm_has_too_few_requests_to_measure_is_not_compared(short: str) -> None:
    run = make_run()
    trials = run.trials.loc[run.trials["treatment"] == short, "trial"]
    run.measurements.loc[
        run.measurements["trial"].isin(trials) & (run.measurements["metric"] == "requests"), "value"
    ] = 30
    assert "p50 is not measurable" in analyse(run, metric="latency", statistic="p50").row("fast").verdict.reason


@pytest.mark.parametrize(("moving", "compared"), [({"base": True}, True), ({"base": True, "fast": False}, False)])
def test_trend_of_the_rate_forbids_a_comparison_only_if_it_is_known_of_both_arms(
    moving: dict[str, bool], compared: bool
) -> None:
    trials = make_run().trials
    arms = arms_of(trials.assign(moving=trials["treatment"].map(moving)), ["base", "fast"])
    clean = ErrorSummary("fast", 12, 0, 0, 100_000, {}, kind="none")
    reason = invalid_reason(arms["fast"], arms["base"], comparison(), clean)
    assert (reason is None) is compared


def test_planned_treatment_without_trials_has_a_row_in_the_analysis() -> None:
    run = make_run()
    run.plan = plan_of(treatments=tuple(ARMS), blocks=15)
    run.trials = run.trials[run.trials["treatment"] != "even"]
    row = analyse(run).row("even")
    assert (row.trials, row.median, row.verdict.kind) == (0, None, "invalid")
    assert analyse(run).planned_blocks == 15


def test_analysis_of_a_run_without_trials_is_empty() -> None:
    run = make_run()
    run.trials, run.measurements = run.trials.iloc[:0], run.measurements.iloc[:0]
    run.plan = plan_of(treatments=tuple(ARMS), blocks=12)
    found = analyse(run)
    assert {r.verdict.kind for r in found.of_kind("treatment")} == {"invalid"}
    assert row_texts(found.row("base")).level == "–"


def test_headline_without_a_change_counts_undecided_treatments_and_those_that_were_not_compared() -> None:
    run = make_run({"base": {}, "a": {}, "b": {"sd": 0.08}, "c": {}})
    run.trials = run.trials[(run.trials["treatment"] != "c") | (run.trials["block"] < 3)]
    found = analyse(run)
    assert [row.verdict.kind for row in found.of_kind("treatment")] == ["equivalent", "undecided", "invalid"]
    no_change = "o treatment is shown to change the rate by 2\u00a0% or more"
    assert headline(found) == f"N{no_change}, 1 undecided, 1 not compared."
    assert no_change_clause(found) == f"no other{no_change[1:]}, 1 undecided, 1 not compared"


def test_headline_says_when_all_treatments_are_undecided() -> None:
    found = analyse(make_run({"base": {"sd": 0.08}, "a": {"sd": 0.08}, "b": {"sd": 0.08}}))
    assert headline(found) == "Undecided: no treatment is shown to change the rate by 2\u00a0% or more."
    assert re.match(
        r"(About (1 more block|\d.* more blocks) would decide (the|1 of the) 2 undecided|More blocks would not)",
        supporting_text(found),
    )
    alone = analyse(make_run({"base": {"sd": 0.02}, "a": {"sd": 0.02, "effect": 0.01}}))
    assert supporting_text(alone).startswith("About ")


def test_supporting_text_gives_the_range_of_forecasts_and_how_many_treatments_have_one() -> None:
    found = analyse(make_run({"base": {"sd": 0.08}} | {name: {"sd": 0.08} for name in "abc"}))
    forecasts = {"a": Forecast(20, 9, 33), "b": Forecast(5, 2, 8), "c": Forecast(None, None, None)}
    rows = [
        replace(row, verdict=replace(row.verdict, kind="undecided", forecast=forecasts[row.treatment]))
        if row.treatment in forecasts
        else row
        for row in found.rows
    ]
    text = supporting_text(replace(found, rows=tuple(rows)))
    assert "5 to 20 more blocks" in text
    assert "2 of the 3 undecided" in text


def test_headline_of_a_single_treatment_states_its_verdict() -> None:
    assert headline(analyse(make_run({"base": {}, "a": {"effect": 0.1}}))).startswith("a is faster by ")
    assert headline(analyse(make_run({"base": {}, "a": {"sd": 0.1}}))).startswith("a: undecided, ")
    even = headline(analyse(make_run({"base": {}, "a": {"sd": 0.001}})))
    assert even.startswith("a: no difference larger than 2\u00a0% (90\u00a0% interval ")


def test_two_tied_leaders_of_sixteen_treatments_are_named_in_headline_and_supporting_text() -> None:
    arms = {"base": {}} | {f"t{k}": {"effect": 0.05 if k < 2 else 0.0} for k in range(16)}
    found = analyse(make_run(arms))
    assert headline(found).startswith("2 of 16 treatments are faster")
    assert (found.best, set(found.tied_with_best), found.ties_beat_rest) == (None, {"t0", "t1"}, True)
    assert "may be best; all are ahead of the rest." in supporting_text(found)


@pytest.mark.parametrize("wrong", [{"baseline": "nobody"}, {"metric": "no_metric"}, {"level": 95.0}, {"level": 0.2}])
def test_analyse_with_wrong_arguments_raises_usage_error(usual: Run, wrong: dict) -> None:
    with pytest.raises(UsageError):
        analyse(usual, **wrong)


def test_analyse_with_a_higher_level_widens_the_interval(usual: Run) -> None:
    usual95, wide = (analyse(usual, level=level).row("slow").verdict.comparison for level in (0.95, 0.99))
    assert wide.ci95[0] < usual95.ci95[0] < usual95.ci95[1] < wide.ci95[1]
    assert wide.level == 0.99


def values_of(run: Run) -> pd.DataFrame:
    rates = run.measurements.query("metric == 'ok_per_s'")[["trial", "value"]]
    return run.trials.merge(rates, on="trial")


def test_drift_of_a_run_is_described_in_a_sentence() -> None:
    found = diagnostics.describe_drift(values_of(make_run(drift=-0.03)))
    assert found.drift == pytest.approx(np.exp(-0.03 * 11) - 1, abs=0.1)
    assert found.drift_p < 0.01
    assert found.sentence.startswith("The values moved by −")


def test_run_without_drift_or_with_few_blocks_is_described_as_such() -> None:
    assert diagnostics.describe_drift(values_of(make_run())).sentence == "No steady drift is visible over the run."
    assert diagnostics.describe_drift(values_of(make_run(blocks=3))).sentence == "Too few blocks to see a drift."
