"""The page on noise and its figure 11: what it says of a record, of too little of one, and of two groups of trials."""

from loadbook.analyses.noise import (
    NoisePage,
)
from loadbook.report.html import forbidden_content
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from rendered_pages import page_html


def test_noise_page_accepts_a_study_with_the_baseline_only(tmp_path):
    layout = make_project(tmp_path, {"baseline": Arm()}, name="alone", blocks=30, traces=False)
    page = NoisePage(load_run(layout, "alone"))
    assert page.record.noise.trials == 29
    assert page.answer().text.startswith("On these hosts ")
    assert not forbidden_content(page_html(page))
