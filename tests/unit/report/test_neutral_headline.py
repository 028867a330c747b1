"""A run whose harness checks do not pass has the same neutral headline wherever a headline is printed."""

from dataclasses import replace

import pandas as pd
import pytest
from bs4 import BeautifulSoup

from doubtful_runs import CHECKS, FASTER
from loadbook.analyses.effects.figure import EffectsFigure
from loadbook.analyses.effects.page import EffectsPage
from loadbook.batch.index import write_index
from loadbook.report import ci, html
from loadbook.report.blocks import check_texts
from loadbook.stats.analyse import SATURATION_RULE
from loadbook.stats.headline import headline, neutral_headline
from loadbook.store.tables import load_run
from loadbook.study.limits import CiPolicy
from mock_project import Arm, make_project

HEADLINES = {
    "noisy A/A arm": "No verdict: tcp_nopush on gives +",
    "failed A/A arm": "No verdict: the A/A arm differs from the baseline.",
    "known effect not found": "No verdict: the known effect was not found.",
    "driver at its limit": "No verdict: a driver was at its limit in 60 % of the trials.".replace(" %", "\u00a0%"),
}


@pytest.fixture(params=CHECKS)
def doubtful(request, tmp_path):
    """A page whose treatment is clearly faster, in a run one of whose checks did not pass; its project; its check."""
    aa, control = CHECKS[request.param]
    arms = {"baseline": Arm(), "aa": aa, "slow": control, "fast": FASTER}
    layout = make_project(tmp_path, arms, name="doubtful", blocks=10)
    data = load_run(layout, "doubtful")
    if request.param == "driver at its limit":
        trials = data.trials["trial"].head(24)
        doubts = [{"trial": t, "name": SATURATION_RULE, "level": "doubt", "message": "busy"} for t in trials]
        data = replace(data, problems=pd.concat([data.problems, pd.DataFrame(doubts)], ignore_index=True))
    return EffectsPage(data), layout, request.param


def test_every_output_has_the_neutral_headline_if_a_harness_check_gives_doubt(doubtful):
    page, layout, check = doubtful
    neutral = neutral_headline(page.analysis)
    assert neutral.startswith(HEADLINES[check])
    assert headline(page.analysis) == neutral
    assert page.answer_summary().headline == neutral
    assert page.answer().text.startswith(neutral)
    summary = page.summary()
    assert summary["verdict"]["sentence"] == neutral
    assert (summary["verdict"]["kind"], summary["verdict"]["word"]) == ("invalid", "no verdict")
    assert summary["sentences"][0] == neutral
    assert EffectsFigure(page.analysis).caption.startswith(neutral.removesuffix("."))
    assert "is faster" not in BeautifulSoup(page.answer().html, "html.parser").find(class_="headline").text
    html.write_summary(layout.reports, summary)
    index = BeautifulSoup(write_index(layout.reports).read_text(), "html.parser")
    cell = index.find("td", attrs={"data-name": "Verdict"})
    assert neutral in cell.text and "is faster" not in cell.text
    assert cell.span["class"] == ["v", "v-invalid"]
    assert cell.span.text.strip() == ("✕" if page.analysis.is_void else "!")  # as in the legend of the index


def test_terminal_prints_the_headline_before_what_cannot_be_told(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(scatter=0.1, check="aa"), "fast": Arm(0.3), "quiet": Arm(scatter=0.1)}
    page = EffectsPage(load_run(make_project(tmp_path, arms, name="wide", blocks=10), "wide"))
    assert page.analysis.resolution and not neutral_headline(page.analysis)
    first, support, *rows = page.summary()["sentences"]
    assert "fast is faster by" in first.replace(page.labels["fast"], "fast") and "cannot be told here" in support
    assert [row.split()[0] for row in rows] == ["▲", "●", "○"]


def test_gate_says_the_first_sentences_of_the_page_if_a_harness_check_gives_doubt(doubtful):
    page, _, _ = doubtful
    assessed = ci.evaluate_ci(page.run_data, CiPolicy(undecided="pass"))
    assert (assessed.result.outcome, assessed.result.exit_code) == ("invalid", 4)
    answer = page.answer_summary()
    assert assessed.sentence.startswith(f"Build gate: n{answer.headline[1:]} {answer.support}")


def test_verdicts_stay_in_the_table_unless_the_aa_arm_limits_or_withdraws_them(doubtful):
    page, _, check = doubtful
    text = page.effects().text
    assert ("tcp_nopush on is faster by" in text) == ("A/A arm" not in check)


def test_harness_check_that_is_too_noisy_is_marked_in_lists_of_runs():
    summary = {"aa": None, "control": True, "check_states": {"aa": "inconclusive", "control": "passed"}}
    assert check_texts(summary) == ["! A/A", "✓ known effect"]
    assert check_texts({"aa": True, "control": None}) == ["✓ A/A", "– known effect"]  # written before there were states


def test_small_run_with_passed_harness_checks_keeps_its_headline(tmp_path):
    arms = {
        "baseline": Arm(),
        "aa": Arm(check="aa"),
        "slow": Arm(-0.1, check="control", expect="worse"),
        "fast": FASTER,
    }
    page = EffectsPage(load_run(make_project(tmp_path, arms, name="small", blocks=6), "small"))
    assert page.answer().text.startswith("tcp_nopush on is faster by ")


def test_undecided_run_with_a_noisy_aa_arm_stays_undecided(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(check="aa", scatter=0.2), "fast": Arm(0.01, label="fast", scatter=0.2)}
    page = EffectsPage(load_run(make_project(tmp_path, arms, name="small", blocks=6), "small"))
    assert page.answer().text.startswith("fast: undecided, ")
