"""The page of a study's history beside its report: made as soon as there are two runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from loadbook.core.errors import LoadbookError
from loadbook.records.layout import Layout
from loadbook.report import html, notebooks

HISTORY_NOTEBOOK = "history"


def history_link(study: str, pages: Path) -> list[tuple[str, str | None]]:
    """Return the text and the target of a link to a study's history, nothing where none was made."""
    page = _history_page_path(study, pages)
    return [(HISTORY_NOTEBOOK, page.name)] if page.is_file() else []


def build_history_page(
    layout: Layout, study: str, question: str, on_message: Callable[[str], None], timeout_s: float | None
) -> tuple[list[Path], list[str]]:
    """Make the page of a study's history; return it and what failed, both empty of a study with one run."""
    runs = layout.runs(study)
    if len(runs) < 2:
        return [], []
    page, out = _history_page_path(study, layout.reports), layout.run(study, runs[-1]).processed / f"notebooks/{HISTORY_NOTEBOOK}.ipynb"
    on_message(f"{study}: notebook {HISTORY_NOTEBOOK}, {len(runs)} runs")
    try:
        executed = notebooks.execute_notebook(layout, HISTORY_NOTEBOOK, {"study": study}, out, timeout_s)
        html.export_html(executed.path, page, f"History of {question} · {study}", _history_breadcrumbs(study))
    except LoadbookError as error:
        page.unlink(missing_ok=True)
        return [], [error.message]
    return [page], []


def _history_page_path(study: str, pages: Path) -> Path:
    return pages / f"{study}-{HISTORY_NOTEBOOK}.html"


def _history_breadcrumbs(study: str) -> html.Breadcrumbs:
    return [("All studies", "index.html"), (study, f"{study}.html"), (HISTORY_NOTEBOOK, None)]
