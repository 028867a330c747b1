"""What a study declares about its comparisons, from its file to the analysis: ladders, the best arm, one-sided."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from test_analyse import ARMS, make_run

from loadbook.core.errors import StudyError
from loadbook.stats.analyse import analyse
from loadbook.stats.comparability import arms_of, invalid_reason
from loadbook.stats.exclusions import with_causes
from loadbook.stats.headline import headline, supporting_text
from loadbook.stats.phrases import row_phrase
from loadbook.stats.results import Comparison
from loadbook.study.reader import find_study, read_study
from run_records import plan_of

STUDIES = Path(__file__).parents[3] / "studies"
CHECKS = {name: ARMS[name] for name in ("again", "log")}
LADDER = {"base": {}, "one": {"effect": 0.05}, "two": {"effect": 0.05}, "three": {"effect": 0.12}} | CHECKS


def kinds(analysis) -> dict[str, str]:
    return {row.treatment: row.verdict.kind for row in analysis.of_kind("treatment")}


def test_adjacent_comparisons_keep_study_order_and_name_the_previous_treatment() -> None:
    found = analyse(make_run(LADDER, contrasts="adjacent"))
    assert [r.treatment for r in found.rows] == ["base", "one", "two", "three", "again", "log"]
    assert [r.reference_label for r in found.of_kind("treatment")] == ["base", "one", "two"]
    assert kinds(found) == {"one": "better", "two": "equivalent", "three": "better"}
    assert row_phrase(found.row("two")).startswith(": no difference from one larger than 2")
    assert (found.best, found.tied_with_best) == (None, ())
    assert headline(found) == "2 of 3 treatments are faster than the one before it."
    assert "three is faster than two by " in supporting_text(found)
    assert (found.row("again").passed, found.row("log").passed) == (True, True)


def test_adjacent_comparisons_follow_the_order_of_planned_treatments() -> None:
    run = make_run(LADDER, contrasts="adjacent")
    run.plan = plan_of(treatments=("base", "three", "one", "again"), blocks=12)
    assert [(r.treatment, r.reference_label) for r in analyse(run).of_kind("treatment")] == [
        ("three", "base"),
        ("one", "three"),
    ]


def test_adjacent_contrasts_with_a_chosen_baseline_compare_all_with_that_baseline() -> None:
    found = analyse(make_run(LADDER, contrasts="adjacent"), baseline="one")
    assert {r.verdict.comparison.baseline for r in found.of_kind("treatment")} == {"one"}
    assert {r.reference_label for r in found.rows} == {None}


def test_reason_against_an_adjacent_comparison_names_the_previous_treatment() -> None:
    run = make_run(LADDER, contrasts="adjacent")
    run.trials.loc[run.trials["treatment"] == "two", "response_bytes"] = 24
    found = analyse(run)
    assert found.row("two").verdict.reason == "it answers differently (24 bytes where one sends 5)"
    assert found.row("three").verdict.reason == "it answers differently (5 bytes where two sends 24)"


def test_best_treatment_is_the_reference_and_its_gain_is_called_overstated() -> None:
    found = analyse(make_run(LADDER, contrasts="best"))
    assert (found.baseline, found.best) == ("three", "three")
    assert {(r.treatment, r.reference_label) for r in found.of_kind("treatment")} == {
        (name, "three") for name in ("base", "one", "two")
    }
    assert headline(found) == "three is ahead of every other treatment; its own gain is likely a little overstated."
    assert supporting_text(found).startswith("Nearest to it: ")
    assert (found.row("again").passed, found.row("log").passed) == (True, True)


def test_tied_best_treatments_share_the_headline() -> None:
    found = analyse(make_run(LADDER | {"four": {"effect": 0.1205}}, contrasts="best"))
    assert headline(found) in {
        f"Either {one} or {other} may be best; all are ahead of the rest."
        for one, other in (("three", "four"), ("four", "three"))
    }


def test_treatment_with_a_different_response_cannot_be_best() -> None:
    run = make_run(LADDER, contrasts="best")
    run.trials.loc[run.trials["treatment"] == "three", "response_bytes"] = 24
    found = analyse(run)
    assert found.baseline in ("one", "two")
    assert found.row("three").verdict.kind == "invalid"


def test_best_of_two_treatments_keeps_the_baseline_as_reference() -> None:
    found = analyse(make_run({"base": {}, "one": {"effect": 0.1}}, contrasts="best"))
    assert (found.baseline, found.best_is_reference) == ("base", False)
    assert headline(found).startswith("one is faster than base by ")


def test_overstated_gain_of_the_best_treatment_is_reported_for_baseline_contrasts_too() -> None:
    printed = supporting_text(analyse(make_run(LADDER)))
    assert printed.startswith("three is ahead of every other treatment; its own gain is likely a little overstated.")


def test_non_inferiority_hypothesis_applies_only_to_the_study_metric() -> None:
    run = make_run(
        {"base": {}, "down": {"effect": -0.05}, "up": {"effect": 0.05}} | CHECKS,
        hypothesis="non-inferiority",
        margin=0.02,
    )
    found = analyse(run)
    assert kinds(found) == {"down": "worse", "up": "no-loss"}
    low, high = found.row("up").verdict.comparison.ci90
    assert found.row("up").verdict.one_sided_bounds == (low, high)
    assert headline(found) == "1 of 2 treatments loses more than 2\u00a0%, no loss beyond 2\u00a0% in 1."
    assert re.match("down loses more than 2\u00a0%: −4.9\u00a0%, at best −4.\\d\u00a0%", supporting_text(found))
    assert kinds(analyse(run, metric="latency")) == {"down": "worse", "up": "better"}
    assert (found.row("again").passed, found.row("log").passed) == (True, True)


def test_non_inferiority_of_latency_bounds_an_increase() -> None:
    run = make_run(
        {"base": {}, "slow": {"effect": -0.1}, "even": {"sd": 0.004}}, hypothesis="non-inferiority", margin=0.03
    )
    run.study = run.study.model_copy(update={"metric": "latency"})
    found = analyse(run)
    assert kinds(found) == {"slow": "worse", "even": "no-loss"}
    worst, best = found.row("slow").verdict.one_sided_bounds
    assert worst > best > 0.03


def test_no_loss_headline_names_the_treatment_nearest_to_the_margin() -> None:
    run = make_run({"base": {}, "a": {"effect": 0.02}, "b": {"effect": 0.0}}, hypothesis="non-inferiority", margin=0.05)
    assert headline(analyse(run)).startswith("No loss beyond 5\u00a0% in any of 2 treatments: at worst ")
    assert headline(analyse(run)).endswith("(b).")
    arms = {name: {"sd": 0.08} for name in ("base", "a", "b")}
    noisy = make_run(arms, seed=2, hypothesis="non-inferiority", margin=0.02)
    assert headline(analyse(noisy)) == "Undecided: no treatment is shown to keep its loss within 2\u00a0%."


def test_no_loss_headline_on_latency_names_the_treatment_with_the_largest_increase() -> None:
    run = make_run({"base": {}, "a": {"effect": 0.02}, "b": {"effect": 0.0}}, hypothesis="non-inferiority", margin=0.05)
    run.study = run.study.model_copy(update={"metric": "latency"})
    assert kinds(analyse(run)) == {"a": "no-loss", "b": "no-loss"}
    assert headline(analyse(run)).endswith("(b).")


def study_file(folder: Path, text: str) -> Path:
    lines = (STUDIES / "aa.toml").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("margin")]
    path = folder / "s.toml"
    path.write_text(text + "\n" + "\n".join(kept), encoding="utf-8")
    return path


def test_non_inferiority_requires_a_margin(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="margin: is required with hypothesis"):
        read_study(study_file(tmp_path, 'asks = "no-loss"'))
    assert (
        read_study(study_file(tmp_path, 'hypothesis = "non-inferiority"\nmargin = 0.03')).hypothesis
        == "non-inferiority"
    )
    assert read_study(study_file(tmp_path, "")).margin == 0.02


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('hypothesis = "non-inferiority"\nmargin = 0.02\ncontrasts = "best"', "contrasts"),
        ('contrasts = "worst"', "contrasts"),
        ('hypothesis = "nothing"', "hypothesis"),
    ],
)
def test_contradictory_study_settings_raise_errors_that_name_the_key(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(StudyError) as error:
        read_study(study_file(tmp_path, text))
    assert [problem.path for problem in error.value.problems] == [path]


def test_each_treatment_of_the_nginx_ladder_study_changes_one_directive() -> None:
    study = find_study(STUDIES, "nginx-ladder")
    rungs = [name for name in study.treatments_in() if not study.treatments[name].check]
    levels = [study.levels_of(name) for name in rungs]
    steps = [{k for k in now if now[k] != before[k]} for before, now in itertools.pairwise(levels)]
    assert steps == [{"tcp_nopush"}, {"tcp_nodelay"}, {"multi_accept"}, {"use_epoll"}, {"worker_processes"}]
    assert (study.contrasts, rungs[0]) == ("adjacent", study.baseline)


def test_first_reason_against_a_comparison_is_reported() -> None:
    """All reasons at once, then each one taken away: the next in the method's order speaks."""
    run = make_run(metric="requests_per_s")
    trials = with_causes(run).assign(at_ceiling=True, moving=run.trials["treatment"] == "fast")
    fast, base = trials["treatment"] == "fast", trials["treatment"] == "base"
    trials.loc[fast, ["response_bytes", "concurrency"]] = [24, 100]
    trials.loc[fast, "slot"] = range(1, 13)
    trials.loc[base, "slot"] = range(101, 113)
    errors = analyse(run).row("fast").errors.__class__("fast", 12, 12, 9, 9, {}, kind="more")

    def first(blocks: int, excluded: int = 0) -> str:
        found = Comparison("fast", "base", "requests_per_s", "value", blocks, excluded, None, *[None] * 4)
        arms = arms_of(trials, ("fast", "base"))
        return invalid_reason(arms["fast"], arms["base"], found, errors) or ""

    assert first(4, 8).startswith("only 4 complete blocks")
    assert first(9, 3).startswith("3 of 12 blocks are incomplete")
    assert first(12).startswith("one arm ran whole before the other")
    trials.loc[fast, "slot"] = range(100, 112)
    assert first(12).startswith("both served all of the offered load")
    trials["at_ceiling"] = False
    assert first(12).startswith("its rate moved within trials")
    trials["moving"] = False
    assert first(12).startswith("it was measured under another number of connections")
    trials["concurrency"] = 50
    assert first(12).startswith("it answers differently (24 bytes where the baseline sends 5)")
    trials["response_bytes"] = 5
    assert first(12).startswith("requests_per_s counts error responses")
    errors = errors.__class__("fast", 12, 0, 0, 9, {})
    assert first(12) == ""


def test_failed_aa_arm_does_not_replace_other_reasons_against_a_comparison() -> None:
    run = make_run(ARMS | {"again": ARMS["again"] | {"effect": 0.05}})
    run.trials.loc[run.trials["treatment"] == "fast", "response_bytes"] = 24
    found = analyse(run)
    assert found.row("fast").verdict.reason.startswith("it answers differently")
    assert found.row("slow").verdict.reason.startswith("the A/A arm differs from the baseline")


def test_study_with_harness_checks_only_reports_them() -> None:
    found = analyse(make_run({"base": {}, "again": ARMS["again"]}))
    assert headline(found).startswith("None is seen: the baseline and its duplicate differ by ")
