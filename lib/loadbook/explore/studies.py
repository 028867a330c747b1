"""Which studies there are, and which of them were run: the table that `lb.studies()` shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_duration
from loadbook.design.gallery import is_variant, study_files
from loadbook.design.plan import make_plan
from loadbook.design.study_file import read_study
from loadbook.explore.cards import Card
from loadbook.records.layout import EXAMPLE_STUDY, Layout, project_layout
from loadbook.records.ledger import read_ledger, trial_states
from loadbook.records.planned import is_run_complete, read_current_plan
from loadbook.report.blocks import Block, clean, render
from loadbook.report.tables import DASH, Column, Table, table_text, table_markup

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("study", "question", "runs", "latest", "trials", "planned", "complete", "hours", "problem")


@dataclass(frozen=True, repr=False)
class Studies(Card):
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

    def _shown(self) -> Block:
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
    return Studies([_row(home, name, files.get(name)) for name in (*recorded, *others)])


def _row(home: Layout, name: str, file: Any) -> dict[str, Any]:
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
