"""Pages: every block says what the run allows, in hard cases too, and hostile strings stay text."""

import re

import pytest
from bs4 import BeautifulSoup

from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.quality import QualityPage
from loadbook.ingestion.ingest import ingest
from loadbook.report.html import forbidden_content
from loadbook.store.tables import load_run
from mock_pages import page_of, text_of
from mock_project import Arm, usual_arms
from recorded_run import STUDY, copy_recorded_run, ingested_run, run_of
from rendered_pages import page_html


def test_page_of_a_run_with_a_missing_trial_record_names_the_file(tmp_path):
    page = page_of(tmp_path)
    (page.run_data.paths.trial("t0001") / "trial.json").unlink()
    assert "NOT as recorded: t0001/trial.json" in text_of(page_html(page))


def test_page_of_an_undecided_run_without_monitors_renders(tmp_path):
    arms = {"baseline": Arm(scatter=0.05), "aa": Arm(check="aa", scatter=0.05), "one": Arm(0.0, scatter=0.05),
            "two": Arm(0.004, scatter=0.05)}  # fmt: skip
    page = page_html(page_of(tmp_path, arms, traces=False, doubt=None))
    text = text_of(page)
    assert "Undecided: no treatment is shown to change the rate by 2\u00a0% or more." in text
    assert "No errors in" in text
    assert "no monitor recorded anything" in text
    assert "What did the article say?" not in text
    assert "! No positive control no known effect was tried" in text
    assert 'class="answer bar-undecided"' in page


def test_page_of_an_invalid_run_renders(tmp_path):
    arms = {"baseline": Arm(), "one": Arm(invalid="answers 24 bytes"), "two": Arm(invalid="zero work")}
    text = text_of(page_html(page_of(tmp_path, arms, blocks=6)))
    assert "No verdict: answers differ in 12 trials." in text
    assert "No A/A arm" in text


def test_page_states_more_errors_first(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(check="aa"), "bad": Arm(0.05, label="bad one", errors=40, error_share=0.9)}
    page = page_of(tmp_path, arms)
    html = page_html(page)
    assert page.answer().text.splitlines()[0].startswith("bad one: more errors: ")
    assert "Given that: bad one is faster by" in text_of(html)
    assert html.index("Were there errors?") < html.index("How large is each effect?")


def test_page_of_five_blocks_and_one_treatment_renders(tmp_path):
    page = page_of(tmp_path, {"baseline": Arm(), "one": Arm(0.1, label="one")}, blocks=6)
    assert "one is faster by" in text_of(page_html(page))
    assert ", 5 blocks" in page.effects().text


def test_quality_page_renders(tmp_path):
    text = text_of(page_html(page_of(tmp_path, usual_arms(), QualityPage, name="usual")))
    assert "95 of 108 trials count; A/A arm passed, control passed." in text
    assert "At this noise 12 blocks find a difference of" in text
    assert "the driver crashed (signal 11)" in text


@pytest.fixture(scope="module")
def recorded_run(tmp_path_factory):
    layout = ingested_run(tmp_path_factory.mktemp("recorded"))
    return load_run(layout, STUDY)


def test_page_of_a_recorded_run_has_no_empty_section(recorded_run):
    """The real run among the fixtures: real traces, gates, facts, configurations and published claims."""
    page = EffectsPage(recorded_run)
    html = page_html(page)
    assert forbidden_content(html) == []
    headings = [h.get_text(strip=True) for h in BeautifulSoup(html, "html.parser").find_all("h2")]
    assert len(headings) == 10
    assert headings[-1] == "How was it set up?"
    text = text_of(html)
    assert "+tcp_nopush on;" in text
    assert "nginx 1.22" in text
    assert "raw data verified: " in text
    assert f"{page.summary()['valid']} of {page.summary()['planned']} trials count" in text
    assert recorded_run.facts["web-before"]["boot_id"]["value"] not in html


def test_quality_page_of_a_recorded_run_renders(recorded_run):
    text = text_of(page_html(QualityPage(recorded_run)))
    assert "Was every trial done alike?" in text
    assert "configure" in text
    assert "At this noise" in text


@pytest.mark.parametrize("kind", [EffectsPage, QualityPage])
def test_page_of_a_run_with_empty_tool_outputs_renders(tmp_path, kind):
    """Every trial's output was cut to nothing: no number at all, and the page says so instead of breaking."""
    layout = copy_recorded_run(tmp_path)
    for path in run_of(layout).glob("trials/*/stdout-driver"):
        path.write_bytes(b"")
    ingest(layout.run(STUDY, layout.resolve_run(STUDY)))
    text = text_of(page_html(kind(load_run(layout, STUDY))))
    assert "no trial has a value of this metric" in text
    assert not re.search(r"is (faster|slower) by", text)
