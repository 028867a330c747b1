"""Pickers for study, run, metric and baseline, where ipywidgets is installed (the extra `explore`)."""

from __future__ import annotations

import importlib.util
from typing import Any

from loadbook.core.errors import LoadbookError
from loadbook.explore.run import Run, load
from loadbook.explore.studies import Studies, studies
from loadbook.records.layout import project_layout

MORE = "To pick by mouse: .venv/bin/pip install -e '.[explore]', then restart JupyterLab."


def pick(study: str = "example") -> Any:
    """Show pickers for study, run, metric and baseline, with verdicts and the order plot below them.

    Without ipywidgets the table of studies, and how to get more.
    """
    if importlib.util.find_spec("ipywidgets") is None:
        return Studies(studies().rows, MORE)
    return Pickers(study).box


class Pickers:
    """Four lists and what they ask for; `box` is the widget, `run` the run that is picked."""

    run: Run

    def __init__(self, study: str) -> None:
        import ipywidgets as widgets

        known = [row["study"] for row in studies().rows if row["runs"]]
        self.study, self.runs, self.metric, self.baseline = (
            widgets.Dropdown(description=name) for name in ("study", "run", "metric", "baseline")
        )
        self.out = widgets.Output()
        self.study.options, self.study.value = known, study if study in known else known[0]
        lists = [self.study, self.runs, self.metric, self.baseline]
        self.box = widgets.VBox([widgets.HBox(lists, layout={"flex_flow": "row wrap"}), self.out])
        self._studied()
        self.study.observe(self._studied, "value")
        self.runs.observe(self._loaded, "value")
        for one in (self.metric, self.baseline):
            one.observe(self._asked, "value")

    def _studied(self, change: Any = None) -> None:
        runs = project_layout().runs(self.study.value)
        self.runs.options, self.runs.value = runs[::-1], runs[-1]
        self._loaded()

    def _loaded(self, change: Any = None) -> None:
        if self.runs.value is None:
            return
        self.run = load(self.study.value, self.runs.value)
        metrics, arms = self.run.metrics, self.run.treatments
        own, base = self.run.data.study.metric, self.run.data.study.baseline
        self.metric.options, self.metric.value = metrics, own if own in metrics else metrics[0]
        self.baseline.options, self.baseline.value = arms, base if base in arms else arms[0]
        self._asked()

    def _asked(self, change: Any = None) -> None:
        from IPython.display import display

        if self.metric.value is None or self.baseline.value is None:
            return
        self.out.clear_output(wait=True)
        with self.out:
            try:
                display(self.run.compare(self.metric.value, self.baseline.value), self.run.zoom(self.metric.value))
            except LoadbookError as error:
                print(error.message, error.hint or "", sep="\n")
