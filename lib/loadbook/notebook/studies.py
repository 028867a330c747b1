"""A study through its runs in a cell: `lb.history(study)`.

Which studies there are, and which of them were run: the table that `lb.studies()` shows.

Pickers for study, run, metric and baseline, where ipywidgets is installed (the extra `explore`).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.history import text as words
from loadbook.analyses.history.compute import ALARM_RATE, EffectPoint, EffectSeries
from loadbook.analyses.history.page import HistoryPage
from loadbook.analyses.history.runs import read_history
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_duration
from loadbook.notebook.display import Displayable, FigureView
from loadbook.notebook.run import Run, check_study_recorded, load
from loadbook.report.blocks import DASH, Block, Column, Table, clean, render, table_markup, table_text
from loadbook.store.ledger import is_run_complete, read_current_plan, read_ledger, trial_states
from loadbook.store.paths import EXAMPLE_STUDY, Layout, project_layout
from loadbook.study.plan import make_plan
from loadbook.study.reader import is_variant, read_study, study_files

if TYPE_CHECKING:
    import pandas as pd


class History(Displayable):
    """What became of a study's effects from run to run.

    Attributes
    ----------
    page : what the report shows of it, block by block.
    """

    def __init__(self, page: HistoryPage) -> None:
        self.page = page

    @property
    def frame(self) -> pd.DataFrame:
        """One row per comparison and run as a plain pandas frame; change and bounds are ratios minus 1."""
        import pandas as pd

        rows = [_row(course, point) for course in self.page.history.series for point in course.points]
        return pd.DataFrame(rows)

    @property
    def runs(self) -> pd.DataFrame:
        """One row per run: when, on which hosts, why it is left out, what is recorded otherwise than before."""
        import pandas as pd

        marks = self.page.marks
        return pd.DataFrame([
            {"run": s.run, "started": pd.to_datetime(s.started, unit="s", utc=True), "hosts": s.hosts,
             "left_out": s.excluded_reason, "conditions_changed": "; ".join(marks.get(s.run, ()))}
            for s in self.page.history.runs
        ])  # fmt: skip

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison."""
        return [f"{course.label} {words.series_sentence(course)}" for course in self.page.history.series]

    def plot(self) -> FigureView:
        """Draw every effect by date, and where recorded conditions changed."""
        from loadbook.analyses.history.figure import HistoryFigure

        return FigureView(HistoryFigure(self.page.history, self.page.marks))

    def _block(self) -> Block:
        """Return the answer and the sentences."""
        parts = [self.page.answer(), self.page.comparisons()]
        return Block("".join(part.html for part in parts), "\n".join([parts[0].text, *self.sentences]))


def _row(course: EffectSeries, point: EffectPoint) -> dict[str, object]:
    found = point.effect
    low, high = found.interval or (None, None)
    return {
        "run": point.run, "started": point.started, "hosts": point.hosts, "treatment": course.treatment,
        "kind": course.kind, "verdict": found.verdict, "change": found.effect, "low": low, "high": high,
        "blocks": found.blocks, "counts": point.is_included, "why": point.excluded_reason,
    }  # fmt: skip


def history(study: str, metric: str = "", rate: float = ALARM_RATE, by_name: bool = False) -> History:
    """Show where each effect of a study stands, since when, and whether the newest run is worse than its past.

    Parameters
    ----------
    metric : empty: that of the newest run's study.
    rate : the share of runs that raise a false alarm, in all comparisons together, while nothing changes.
    by_name : hosts of one name are held to be the same machine.

    Raises
    ------
    UsageError : no such study, metric or rate.
    """
    home = project_layout()
    check_study_recorded(home, study)
    return History(HistoryPage(read_history(home, study, lambda done, total: None, metric, rate, by_name)))


COLUMNS = ("study", "question", "runs", "latest", "trials", "planned", "complete", "hours", "problem")


@dataclass(frozen=True, repr=False)
class Studies(Displayable):
    """The studies of a project; iterate over their names, or take `.frame` for a plain pandas frame."""

    rows: list[dict[str, Any]]
    more: str = ""

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per study; `hours` is what a new run takes, the rest is of the latest run."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(COLUMNS))

    def __iter__(self) -> Iterator[str]:
        return (row["study"] for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def _block(self) -> Block:
        """Return the table, recorded studies first, and what to do with a name of it."""
        columns = [Column("Study"), Column("Question", wrap=True), Column("Runs", True), Column("Latest"),
                   Column("Trials", True), Column("A new run takes", True)]  # fmt: skip
        table = Table("Studies", columns, [_cells(row) for row in self.rows])
        hint = f"{HINT} {self.more}".strip()
        html = table_markup(table) + render("note.html.j2", text=hint)
        return Block(str(html), str(clean(f"{table_text(table)}\n{hint}")))


HINT = "lb.load(study) opens the latest run of one, lb.plan(study) says what a new run would do."


def _cells(row: dict[str, Any]) -> list[str]:
    done = DASH if row["planned"] is None else f"{row['trials']} of {row['planned']}"
    takes = DASH if row["hours"] is None else format_duration(row["hours"] * 3600)
    return [row["study"], row["problem"] or row["question"], str(row["runs"]), row["latest"] or DASH, done, takes]


def studies() -> Studies:
    """Return the studies of the project, those with a run first: question, latest run, what a new one takes."""
    home = project_layout()
    variants = {path.stem for path in study_files(home.studies) if is_variant(path)}
    files = {path.stem: path for path in study_files(home.studies)}
    recorded = [*home.studies_with_runs(), *([EXAMPLE_STUDY] if home.runs(EXAMPLE_STUDY) else [])]
    others = [name for name in files if name not in recorded and name not in variants]
    return Studies([_studies_row(home, name, files.get(name)) for name in (*recorded, *others)])


def _studies_row(home: Layout, name: str, file: Any) -> dict[str, Any]:
    """Return what one study says; what cannot be read says why, and the others are still told."""
    row: dict[str, Any] = dict.fromkeys(COLUMNS) | {"study": name, "runs": 0, "question": ""}
    try:
        return row | (_asked(file) if file else {}) | _done(home, name)
    except (LoadbookError, KeyError) as error:
        return row | {"problem": str(error).splitlines()[0], "runs": len(home.runs(name))}


def _asked(file: Any) -> dict[str, Any]:
    study = read_study(file)
    return {"question": study.question, "hours": make_plan(study).hours}


def _done(home: Layout, name: str) -> dict[str, Any]:
    runs = home.runs(name)
    if not runs:
        return {}
    paths = home.run(name, runs[-1])
    plan = read_current_plan(paths)
    ended = sum(state.final for state in trial_states(read_ledger(paths.ledger)).values())
    return {
        "question": plan["study_spec"]["question"],
        "runs": len(runs),
        "latest": runs[-1],
        "trials": ended,
        "planned": len(plan["trials"]),
        "complete": is_run_complete(paths),
    }


PICK_INSTALL_HINT = "To pick by mouse: %pip install ipywidgets in a cell, then restart JupyterLab."


def pick(study: str = "example") -> Any:
    """Show pickers for study, run, metric and baseline, with verdicts and the order plot below them.

    Without ipywidgets the table of studies, and how to get more.
    """
    if importlib.util.find_spec("ipywidgets") is None:
        return Studies(studies().rows, PICK_INSTALL_HINT)
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
