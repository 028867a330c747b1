"""The page on noise and its figure 11: what it says of a record, of too little of one, and of two groups of trials."""

import pytest

from loadbook.analyses.noise import (
    NoisePage,
)
from loadbook.report.html import forbidden_content
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from rendered_pages import page_html


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    arms = {"baseline": Arm(), "aa": Arm(check="aa", label="again")}
    layout = make_project(
        tmp_path_factory.mktemp("noise"), arms, name="noise", question="How small?", blocks=15, traces=False
    )
    return NoisePage(load_run(layout, "noise"))


def test_noise_page_accepts_a_study_with_the_baseline_only(tmp_path):
    layout = make_project(tmp_path, {"baseline": Arm()}, name="alone", blocks=30, traces=False)
    page = NoisePage(load_run(layout, "alone"))
    assert page.record.noise.trials == 29
    assert page.answer().text.startswith("On these hosts ")
    assert not forbidden_content(page_html(page))
