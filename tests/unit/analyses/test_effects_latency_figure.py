"""Which time the figure of latency percentiles shows, when trials have several."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from loadbook.analyses.effects.page import EffectsPage
from loadbook.store.paths import Layout
from loadbook.store.tables import RunData, load_run
from mock_project import make_project, usual_arms


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> RunData:
    folder = tmp_path_factory.mktemp("mock")
    make_project(folder, usual_arms(), name="mock")
    return load_run(Layout(folder), "mock")


def with_copies(data: RunData, metric: str, treatments: set[str] | None = None) -> RunData:
    """Add the metric, a copy of latency that is ten times as long, to the trials of these treatments (all: None)."""
    trials = data.trials if treatments is None else data.trials[data.trials["treatment"].isin(treatments)]
    rows = data.measurements[data.measurements["metric"] == "latency"]
    rows = rows[rows["trial"].isin(trials["trial"])]
    copies = rows.assign(metric=metric, value=rows["value"] * 10)
    return replace(data, measurements=pd.concat([data.measurements, copies], ignore_index=True))


def test_time_that_only_one_treatment_has_is_not_compared(data):
    page = EffectsPage(with_copies(data, "latency_intended", {"tcp-nopush"}))
    values, analysis = page.panels["p50"]
    assert analysis.metric == "latency"
    assert set(values.loc[values["value"].notna(), "treatment"]) > {"baseline", "tcp-nopush"}


def test_time_from_the_intended_start_is_preferred_if_all_treatments_have_it(data):
    page = EffectsPage(with_copies(data, "latency_intended"))
    assert page.panels["p50"][1].metric == "latency_intended"
    assert ", from the intended start" in page.latency_figure.definition


def test_own_time_of_the_study_is_shown_before_others(data):
    both = with_copies(with_copies(data, "latency_intended"), "service_time")
    page = EffectsPage(both, metric="service_time")
    assert page.panels["p50"][1].metric == "service_time"
    assert ", from the actual start" in page.latency_figure.definition
