"""Studies in notebooks: a table of all (`lb.studies()`), the history of one (`lb.history`), menus (`lb.pick`)."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from loadbook.analyses.history import compute
from loadbook.analyses.history.compute import ALARM_RATE
from loadbook.analyses.history.figure import HistoryFigure
from loadbook.analyses.history.page import HistoryPage, history_page
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_duration
from loadbook.notebook.compare import Displayable, FigureView
from loadbook.notebook.run import Run, check_study_recorded, load, recorded_studies
from loadbook.report.blocks import Block, note
from loadbook.report.nodes import DASH, BulletList, Column, HtmlOnly, Table, TextOnly
from loadbook.store.ledger import is_run_complete, read_current_plan, read_ledger, trial_states
from loadbook.store.paths import Layout, project_layout
from loadbook.study.plan import make_plan
from loadbook.study.reader import is_variant, read_study, study_files

COLUMNS = ("study", "question", "runs", "latest", "trials", "planned", "complete", "hours", "problem")
STUDIES_HELP = "lb.load(study) opens the latest run of one, lb.plan(study) says what a new run would do."
PICK_INSTALL_HINT = "To pick by mouse: %pip install ipywidgets in a cell, then restart JupyterLab."


class History(Displayable):
    """The effects of a study from run to run.

    Attributes
    ----------
    page : the sections of the report on the study's history.
    """

    def __init__(self, page: HistoryPage) -> None:
        self.page = page

    @property
    def frame(self) -> pd.DataFrame:
        """A pandas DataFrame with one row per comparison and run; change and bounds are ratios minus 1.

        `started` is in epoch seconds, `hosts` the index of the set of hosts (0, 1, ...). `counts` is False for a run
        that is left out, and `why` the reason.
        """
        rows = []
        for series in self.page.history.series:
            for point in series.points:
                effect, (low, high) = point.effect, point.effect.interval or (None, None)
                rows.append({
                    "run": point.run, "started": point.started, "hosts": point.hosts, "treatment": series.treatment,
                    "kind": series.kind, "verdict": effect.verdict, "change": effect.effect, "low": low, "high": high,
                    "blocks": effect.blocks, "counts": point.is_included, "why": point.excluded_reason,
                })  # fmt: skip
        return pd.DataFrame(rows)

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run: start, hosts, reason for leaving it out, conditions changed since the run before.

        `started` is in UTC, `hosts` the index of the set of hosts (0, 1, ...); texts are "" if there is nothing to
        report.
        """
        marks = self.page.marks
        return pd.DataFrame([
            {"run": run.run, "started": pd.to_datetime(run.started, unit="s", utc=True), "hosts": run.hosts,
             "left_out": run.excluded_reason, "conditions_changed": "; ".join(marks.get(run.run, ()))}
            for run in self.page.history.runs
        ])  # fmt: skip

    @property
    def sentences(self) -> list[str]:
        """One sentence per comparison, on its level, its changes and the newest run."""
        return [f"{series.label} {compute.series_sentence(series)}" for series in self.page.history.series]

    def plot(self) -> FigureView:
        """Draw every effect by date, and where recorded conditions changed."""
        return FigureView(HistoryFigure(self.page.history, self.page.marks))

    def _block(self) -> Block:
        """Return the answer and the sentences."""
        parts = [self.page.answer(), self.page.comparisons()]
        return Block(parts[0], HtmlOnly(parts[1]), TextOnly(BulletList(self.sentences, bullet="")))


def history(study: str, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False) -> History:
    """Show each effect's current level, since when it holds, and whether the newest run is worse than earlier ones.

    Parameters
    ----------
    study : name of one of `lb.studies()`.
    metric : name of the metric; "" for that of the study in its newest run.
    rate : share of runs with a false alarm in any comparison while nothing changes, above 0 and at most 0.2.
    by_name : whether hosts with the same name are taken for the same machine.

    Raises
    ------
    UsageError : an unknown study or metric, or an invalid rate.
    """
    check_study_recorded(project_layout(), study)
    return History(history_page(study, metric, rate, by_name))


@dataclass(frozen=True, repr=False)
class Studies(Displayable):
    """The studies of a project: iteration yields their names, `frame` is a pandas DataFrame."""

    rows: list[dict[str, Any]]
    note: str = ""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per study; `hours` is the duration of a new run, other columns are about the latest run.

        `runs` is the number of runs, `trials` that of finished trials of the latest run. `problem` is the error if
        the study cannot be read. Values that are not known are missing.
        """
        return pd.DataFrame(self.rows, columns=list(COLUMNS))

    def __iter__(self) -> Iterator[str]:
        return (row["study"] for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def _block(self) -> Block:
        """Return the table, recorded studies first, and examples of calls."""
        columns = [Column("Study"), Column("Question", wrap=True), Column("Runs", True), Column("Latest"),
                   Column("Executed trials", True), Column("A new run takes", True)]  # fmt: skip
        cells = []
        for row in self.rows:
            trials = DASH if row["planned"] is None else f"{row['trials']} of {row['planned']}"
            time = DASH if row["hours"] is None else format_duration(row["hours"] * 3600)
            question, latest = row["problem"] or row["question"], row["latest"] or DASH
            cells.append([row["study"], question, str(row["runs"]), latest, trials, time])
        return Block(Table("Studies", columns, cells), note(f"{STUDIES_HELP} {self.note}".strip()))


def studies() -> Studies:
    """Return the project's studies, those with a run first, with question, latest run and duration of a new run."""
    layout = project_layout()
    files = {path.stem: path for path in study_files(layout.studies)}
    recorded = recorded_studies(layout)
    others = [name for name, path in files.items() if name not in recorded and not is_variant(path)]
    return Studies([_study_row(layout, name, files.get(name)) for name in (*recorded, *others)])


def _study_row(layout: Layout, name: str, file: Path | None) -> dict[str, Any]:
    """Return the row of one study; if the study cannot be read, a row with the error."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"study": name, "runs": 0, "question": ""}
    try:
        if file:
            study = read_study(file)
            row |= {"question": study.question, "hours": make_plan(study).hours}
        return row | _latest_run(layout, name)
    except (LoadbookError, KeyError) as error:
        return row | {"problem": str(error).splitlines()[0], "runs": len(layout.runs(name))}


def _latest_run(layout: Layout, name: str) -> dict[str, Any]:
    runs = layout.runs(name)
    if not runs:
        return {}
    paths = layout.run(name, runs[-1])
    plan = read_current_plan(paths)
    return {
        "question": plan.study.question, "runs": len(runs), "latest": runs[-1],
        "trials": sum(state.final for state in trial_states(read_ledger(paths.ledger)).values()),
        "planned": len(plan.trials), "complete": is_run_complete(paths),
    }  # fmt: skip


def pick(study: str = "example") -> Any:
    """Show menus for study, run, metric and baseline, with verdicts and the plot of trials in order below them.

    Without ipywidgets, show the table of studies and how to install ipywidgets.
    """
    if importlib.util.find_spec("ipywidgets") is None:
        return Studies(studies().rows, PICK_INSTALL_HINT)
    return Pickers(study).box


class Pickers:
    """Four menus and the comparison that they select; `box` is the widget, `run` the selected run."""

    run: Run

    def __init__(self, study: str) -> None:
        import ipywidgets as widgets

        self.study, self.runs, self.metric, self.baseline = lists = [
            widgets.Dropdown(description=name) for name in ("study", "run", "metric", "baseline")
        ]
        self.out = widgets.Output()
        self.box = widgets.VBox([widgets.HBox(lists, layout={"flex_flow": "row wrap"}), self.out])
        _set_options(self.study, recorded_studies(project_layout()), study)
        self._select_study()
        self.study.observe(self._select_study, "value")
        self.runs.observe(self._select_run, "value")
        for dropdown in (self.metric, self.baseline):
            dropdown.observe(self._show, "value")

    def _select_study(self, change: Any = None) -> None:
        _set_options(self.runs, project_layout().runs(self.study.value)[::-1])
        self._select_run()

    def _select_run(self, change: Any = None) -> None:
        if self.runs.value is None:
            return
        self.run = load(self.study.value, self.runs.value)
        _set_options(self.metric, self.run.metrics, self.run.data.study.metric)
        _set_options(self.baseline, self.run.treatments, self.run.data.study.baseline)
        self._show()

    def _show(self, change: Any = None) -> None:
        from IPython.display import display

        if self.metric.value is None or self.baseline.value is None:
            return
        self.out.clear_output(wait=True)
        with self.out:
            try:
                display(self.run.compare(self.metric.value, self.baseline.value), self.run.zoom(self.metric.value))
            except LoadbookError as error:
                print(error.message, error.hint or "", sep="\n")


def _set_options(dropdown: Any, options: list[str], preferred: str = "") -> None:
    dropdown.options, dropdown.value = options, preferred if preferred in options else options[0]
