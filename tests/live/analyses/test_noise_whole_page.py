"""The page on noise and its figure 11: what it says of a record, of too little of one, and of two groups of trials."""

from dataclasses import replace

import numpy as np
import pandas as pd

from loadbook.analyses.noise import (
    NoisePage,
)
from loadbook.report.html import forbidden_content
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from rendered_pages import page_html
from slice_samples import slice_rows


def test_noise_page_of_interleaved_trials_names_the_dominant_source(tmp_path):
    arms = {"baseline": Arm(scatter=0.05), "aa": Arm(scatter=0.05, check="aa", label="again")}
    layout = make_project(tmp_path, arms, name="noise", blocks=15, traces=False, execution="interleaved")
    data, rng = load_run(layout, "noise"), np.random.default_rng(1)
    rows = [row for trial in data.trials["trial"] for row in slice_rows(trial, 1e6, 0.02, rng)]
    page = NoisePage(replace(data, samples=pd.DataFrame(rows)))
    assert any(text.startswith("Starts dominate: more blocks narrow intervals") for text in page.sentences)
    assert "A trial scatters by 0.3\u00a0% between its slices of 1 s in all, and by " in page.noise_record().text
    assert not forbidden_content(page_html(page))
    assert not any("Starts" in text for text in NoisePage(data).sentences)
