"""What the extra `explore` adds, and that everything works without it and says what would be more."""

import importlib.util

import pytest

import loadbook as lb
from loadbook.notebook import studies
from loadbook.notebook.plots import MIME
from recorded_run import STUDY


@pytest.fixture
def without(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name in ("plotly", "ipywidgets") else found(name)
    )


def test_without_optional_packages_static_output_names_them(run, without):
    still = run.zoom()._repr_mimebundle_()
    assert MIME not in still and "%pip install plotly" in still["text/plain"]
    assert "data:image/svg+xml" in still["text/html"]
    assert STUDY in repr(lb.pick()) and "%pip install ipywidgets" in repr(lb.pick())


def test_zoomable_figure_has_a_mark_per_trial_with_the_reason_of_its_exclusion(run):
    import plotly.graph_objects as go

    displayed = run.zoom("latency p99")._repr_mimebundle_()[MIME]
    assert sum(len(trace["x"]) for trace in displayed["data"]) == 32
    assert [trace["name"] for trace in go.Figure(displayed).data][2] == "tcp_nopush on"
    assert "t0013" in "".join(text for trace in displayed["data"] for text in trace["text"])
    assert None in [y for trace in displayed["data"] for y in trace["y"]]


def test_menus_compare_treatments_of_the_selected_run(run, monkeypatch):
    requested = []
    monkeypatch.setattr("loadbook.notebook.run.Run.compare", lambda self, *what: requested.append(what))
    monkeypatch.setattr("loadbook.notebook.run.Run.zoom", lambda self, *what: None)
    pickers = studies.Pickers(STUDY)
    assert pickers.study.value == STUDY and pickers.run.study == STUDY
    pickers.metric.value = "latency p99"
    pickers.baseline.value = "auto-nopush"
    assert requested[-1] == ("latency p99", "auto-nopush")
