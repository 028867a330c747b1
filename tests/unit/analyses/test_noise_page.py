"""The page on noise and its figure 11: what it says of a record, of too little of one, and of two groups of trials."""

import re

import numpy as np
import pandas as pd
import pytest
from bs4 import BeautifulSoup

from effort import some
from figure_legibility import must_be_legible
from loadbook.analyses.noise import (
    NoiseFigure,
    NoisePage,
    ability_table,
    compute_noise_record,
    noise_by_load_table,
    noise_headline,
    relabelling_sentence,
)
from loadbook.report.figures.svg import to_svg
from loadbook.report.html import forbidden_content
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from rendered_pages import page_html

FORBIDDEN = re.compile(r"significant|\bsame\b|proves?\b|no effect|\bnan\b|\binf\b", re.IGNORECASE)
RECORDS = ("calm", "noisy", "two groups", "drifting", "few")


def trials(logs: np.ndarray) -> pd.DataFrame:
    slots = np.arange(1, len(logs) + 1)
    return pd.DataFrame({
        "trial": [f"t{k}" for k in slots], "treatment": "baseline", "slot": slots, "block": (slots + 1) // 2,
        "status": "ok", "valid": True, "value": 41_600 * np.exp(logs),
    })  # fmt: skip


def of(case: str):
    dice = np.random.default_rng(3)
    logs = dice.normal(0, 0.1 if case == "noisy" else 0.012, 20 if case == "few" else 120)
    if case == "two groups":
        logs -= 0.15 * (dice.random(120) < 0.3)
    if case == "drifting":
        logs += np.linspace(0, -0.2, 120)
    return compute_noise_record(trials(logs), "ok_per_s", 0.02)


@pytest.fixture(scope="module")
def records():
    return {case: of(case) for case in RECORDS}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    arms = {"baseline": Arm(), "aa": Arm(check="aa", label="again")}
    layout = make_project(
        tmp_path_factory.mktemp("noise"), arms, name="noise", question="How small?", blocks=15, traces=False
    )
    return NoisePage(load_run(layout, "noise"))


@pytest.mark.parametrize("case", some(RECORDS, 2))
def test_figure_texts_are_complete_legible_and_do_not_overlap(records, case):
    drawn = NoiseFigure(records[case]).draw()
    assert len(drawn.axes) == 4
    must_be_legible(drawn)


@pytest.mark.parametrize("case", RECORDS)
def test_noise_figure_texts_match_the_data(records, case):
    found = records[case]
    answer, how, alt = NoiseFigure(found).caption, NoiseFigure(found).help, NoiseFigure(found).alt_text
    assert answer == noise_headline(found, 0.02)
    assert re.fullmatch(r"On these hosts 2\u00a0% needs [\d,]+ blocks \([\d,]+ to [\d,]+\)\.", answer)
    assert answer in alt and how.endswith(".")
    assert not any(FORBIDDEN.search(text) for text in (answer, how, alt))


def test_figure_bytes_are_reproducible(records):
    first, second = (to_svg(NoiseFigure(records["calm"]).draw()) for _ in range(2))
    assert first == second
    assert len(first) < 150_000


def test_noise_figure_panel_titles_state_their_results(records):
    assert "two groups: " in NoiseFigure(records["two groups"]).alt_text
    assert "one group: no gap is visible" in NoiseFigure(records["calm"]).alt_text
    assert re.search(r"drift of −1\d\.\d\u00a0% over the record", NoiseFigure(records["drifting"]).alt_text)
    assert "no steady drift" in NoiseFigure(records["calm"]).alt_text
    assert records["noisy"].blocks_needed.blocks > records["calm"].blocks_needed.blocks
    assert not records["noisy"].blocks_needed.resampled


def test_noise_page_states_false_alarms_of_simulated_studies_with_their_number(records):
    printed = relabelling_sentence(records["drifting"].relabelling)
    assert re.match(
        r"False alarms: \d\.\d\u00a0% of 5,000 pseudo-studies of 10 blocks; these trials in fixed order: ", printed
    )
    assert records["few"].relabelling is None
    assert relabelling_sentence(None) == "Too few trials to draw labels anew."


def test_noise_page_has_all_sections(page):
    printed = page.answer().text
    assert printed.startswith("On these hosts 2\u00a0% needs ")
    assert "False alarms: " in printed
    assert page.record.noise.trials == 29  # one crashed
    assert len(ability_table(page.record).rows) == 9
    assert "A/A arm" in page.trust().text
    html = page_html(page)
    assert not forbidden_content(html)
    text = BeautifulSoup(html, "html.parser").get_text(" ", strip=True)
    assert "wrk, 100 connections, 4 s, /index.html" in text
    assert text.index("On these hosts") < text.index("How do trials of one configuration scatter")
    assert page.summary()["verdict"]["sentence"] == page.headline


def test_noise_page_table_matches_the_record(page):
    row = page.every_load().text.splitlines()[1]
    noise = page.record.noise
    low, high = noise.cv_interval
    assert f"{noise.cv * 100:.1f}\u00a0%" in row
    assert f"{low * 100:.1f} to {high * 100:.1f}\u00a0%" in row
    assert f"{noise.lag1:+.2f}".replace("-", "−") in row
    assert re.search(r"29\s+1$", row)


def test_noise_of_plain_and_interleaved_trials_of_one_study_is_in_separate_rows(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(check="aa", label="again")}
    for run, execution in (("20261120T101500", "plain"), ("20261121T101500", "interleaved")):
        layout = make_project(tmp_path, arms, name="noise", blocks=12, run=run, traces=False, execution=execution)
    rows = noise_by_load_table(load_run(layout, "noise")).rows
    assert sorted((row[0], row[1], row[-1]) for row in rows) == [("noise", "interleaved", "1"), ("noise", "plain", "1")]


def test_noise_page_states_a_failed_aa_arm_first(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(0.2, check="aa", label="again")}
    page = NoisePage(load_run(make_project(tmp_path, arms, name="broken", blocks=12, traces=False), "broken"))
    first, second, *_ = page.answer().text.splitlines()
    assert "differs" in first
    assert second.startswith("On these hosts ")
    assert page.summary()["verdict"]["sentence"] == first


def test_noise_page_with_too_few_trials_says_so(tmp_path):
    arms = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06)}
    page = NoisePage(load_run(make_project(tmp_path, arms, name="short", blocks=6, traces=False), "short"))
    assert page.record is None
    assert page.answer().text == "Not known yet: fewer than 20 trials of one configuration count, or all are equal."
    assert "Not known yet" in page.noise_record().text
    assert page.summary()["sentences"] == [page.answer().text]
    assert not forbidden_content(page_html(page))
