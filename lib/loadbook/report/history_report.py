"""The page of a study's history beside its report: made as soon as there are two runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loadbook.core.errors import LoadbookError
from loadbook.records.layout import Layout
from loadbook.report import html, notebooks

NOTEBOOK = "history"


def link(study: str, pages: Path) -> list[tuple[str, str | None]]:
    """Return the text and the target of a link to a study's history, nothing where none was made."""
    page = _page(study, pages)
    return [(NOTEBOOK, page.name)] if page.is_file() else []


def make(
    layout: Layout, study: str, question: str, say: Callable[[str], None], timeout_s: float | None
) -> tuple[list[Path], list[str]]:
    """Make the page of a study's history; return it and what failed, both empty of a study with one run."""
    runs = layout.runs(study)
    if len(runs) < 2:
        return [], []
    page, out = _page(study, layout.reports), layout.run(study, runs[-1]).processed / f"notebooks/{NOTEBOOK}.ipynb"
    say(f"{study}: notebook {NOTEBOOK}, {len(runs)} runs")
    try:
        executed = notebooks.execute(layout, NOTEBOOK, {"study": study}, out, timeout_s)
        html.export(executed.path, page, f"History of {question} · {study}", _crumbs(study))
    except LoadbookError as error:
        page.unlink(missing_ok=True)
        return [], [error.message]
    return [page], []


def _page(study: str, pages: Path) -> Path:
    return pages / f"{study}-{NOTEBOOK}.html"


def _crumbs(study: str) -> html.Crumbs:
    return [("All studies", "index.html"), (study, f"{study}.html"), (NOTEBOOK, None)]
