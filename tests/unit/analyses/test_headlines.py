"""What no page may put otherwise in words of its own: no verdict, an exploratory one, a known effect not found."""

from __future__ import annotations

from dataclasses import replace

import pytest
import test_balancers_backends_page
import test_balancers_page
import test_factorial_page
import test_page_size_page

from loadbook.analyses.balancers.page import BalancersPage
from loadbook.analyses.effects.page import EffectsPage
from loadbook.store.tables import load_run
from mock_project import make_project, usual_arms

MISSED = "No verdict: the known effect was not found."


def effects(root):
    return EffectsPage(load_run(make_project(root, usual_arms(), name="mock"), "mock"))


def balancers(root):
    more = test_balancers_page.SPEC
    layout = make_project(root, test_balancers_page.arms(), name="lb", traces=False, **more)
    return BalancersPage(load_run(layout, "lb"))


def factorial(root):
    return test_factorial_page.project(root, {"a": 0.06, "ab": 0.06})


PAGES = {
    "effects": effects,
    "balancers": balancers,
    "backends": test_balancers_backends_page.project,
    "factorial": factorial,
    "page_size": test_page_size_page.project,
}


LOOKS = [name for name in PAGES if name != "factorial"]  # a study file refuses a factorial with looks
AA = [name for name in PAGES if name != "factorial"]  # those of these studies that have the arm
CONTROL = ["effects", "balancers", "backends"]


@pytest.fixture(scope="module", params=PAGES)
def page(request, tmp_path_factory):
    return PAGES[request.param](tmp_path_factory.mktemp(request.param))


def anew(page, **changes):
    return type(page)(replace(page.run_data, **changes))


def faster(page, check, times):
    """Return the page as if the arms of a check had been faster by so much."""
    names = [name for name, spec in page.run_data.study.treatments.items() if spec.check == check]
    mine = page.run_data.trials.loc[page.run_data.trials["treatment"].isin(names), "trial"]
    values = page.run_data.measurements.copy()
    values.loc[values["trial"].isin(mine), "value"] *= times
    assert names
    return anew(page, measurements=values)


def test_headline_of_every_page_is_exploratory_after_added_blocks(page):
    found = anew(page, plan=replace(page.run_data.plan, added=2))
    assert found.answer().text.startswith("Exploratory: ")
    verdict = found.summary()["verdict"]
    assert verdict["sentence"].startswith("Exploratory: ") and verdict["word"].startswith("exploratory: ")
    assert verdict["sentence"].count("xploratory") == 1
    assert "xploratory" not in page.answer().text + page.summary()["verdict"]["word"]


@pytest.mark.parametrize("page", LOOKS, indirect=True)
def test_headline_of_every_page_waits_for_a_planned_look(page):
    waiting = replace(
        page.answer_analysis.stopping_state, pending_reason="not yet a planned look: 3 blocks are complete"
    )
    found = anew(page)
    found.__dict__["analysis"] = replace(page.analysis, stopping_state=waiting)
    assert found.answer().text.startswith("No verdict yet: this is no planned look.")
    assert found.summary()["verdict"]["sentence"] == "No verdict yet: this is no planned look."


@pytest.mark.parametrize("page", AA, indirect=True)
def test_headline_of_every_page_is_withdrawn_by_a_failed_aa_arm(page):
    found = faster(page, "aa", 1.5)
    assert found.answer().text.startswith("No verdict: the A/A arm differs from the baseline.")
    verdict = found.summary()["verdict"]
    assert (verdict["word"], verdict["sentence"]) == (
        "no verdict",
        "No verdict: the A/A arm differs from the baseline.",
    )


@pytest.mark.parametrize("page", CONTROL, indirect=True)
def test_headline_of_every_page_reports_a_failed_positive_control(page):
    found = faster(page, "control", 9.0)
    assert MISSED in found.answer().text.splitlines() and MISSED in found.answer().html
    assert MISSED not in page.answer().html
