"""The page that compares two runs of a study, made from its notebook and linked from the study's own page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loadbook.core.errors import LoadbookError
from loadbook.design.plan import parse_plan
from loadbook.records.layout import Layout
from loadbook.records.manifest import read_json
from loadbook.records.planned import read_current_plan
from loadbook.report import compared, html, index, notebooks, parameters
from loadbook.report.build import BuiltReport, OutputPaths, page_breadcrumbs, notebook_parameters, ensure_ingested
from loadbook.report.compare_runs import NOTEBOOK, check_comparable_early, resolve_run_pair


def build_comparison(
    layout: Layout,
    study: str,
    run: str,
    against: str,
    pairs: Sequence[str],
    on_message: Callable[[str], None],
    timeout_s: float | None = notebooks.TIMEOUT_S,
) -> BuiltReport:
    """Make the page that compares a run with an older one; see `build.build_report` for the other parameters.

    Raises
    ------
    UsageError : no such run, or two that hold no two answers to one question; nothing was executed.
    DataError : raw data of a run cannot be ingested.
    """
    older, newer = resolve_run_pair(layout, study, run, against)
    given = _comparison_parameters(layout, study, newer, older, pairs)
    check_comparable_early(layout, study, older, newer, given)
    for one in (older, newer):
        ensure_ingested(layout.run(study, one), on_message)
    built = BuiltReport(study, newer, {"study": study, "run": newer, "against": older})
    page = layout.reports / f"{study}-{newer}-against-{older}.html"
    out = layout.run(study, newer).processed / "notebooks" / f"{NOTEBOOK}-{older}.ipynb"
    on_message(f"{study}: notebook {NOTEBOOK}")
    try:
        executed = notebooks.execute_notebook(layout, NOTEBOOK, given, out, timeout_s)
        html.export_html(executed.path, page, f"{newer} against {older} · {study}", _comparison_breadcrumbs(layout, study, newer, older))
    except LoadbookError as error:
        built.failed.append(error.message)
        on_message(f"{study}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        return built
    built.pages.append(page)
    built.summary |= executed.summary
    compared.write_comparison(page, study, newer, older)
    _refresh_study_page(layout, study, on_message)
    return built


def _comparison_parameters(layout: Layout, study: str, newer: str, older: str, pairs: Sequence[str]) -> dict[str, Any]:
    values = parameters.parse_pairs(notebooks.declared_parameters(notebooks.find_notebook(layout, NOTEBOOK)), pairs)
    return notebook_parameters(layout, [NOTEBOOK], {"study": study, "run": newer, "against": older}, values)[NOTEBOOK]


def _comparison_breadcrumbs(layout: Layout, study: str, newer: str, older: str) -> html.Breadcrumbs:
    page = layout.reports / f"{study}.html"
    return [
        ("All studies", "index.html"),
        (study, page.name if page.is_file() else None),
        (f"run {newer} against {older}", None),
    ]


def _refresh_study_page(layout: Layout, study: str, on_message: Callable[[str], None]) -> None:
    """Export the study's first page again, if it is there, so that it links what was compared."""
    summary = layout.reports / f"{study}{index.SUMMARY_SUFFIX}"
    if not summary.is_file():
        return
    try:
        run = read_json(summary)["run"]
        paths = layout.run(study, run)
        plan = parse_plan(read_current_plan(paths), str(paths.plan_json))
        name, place = plan.study.notebooks[0], OutputPaths(layout.reports, study, paths.processed / "notebooks")
        page, executed = place.page_path(name, True), place.executed_path(name, True)
        if page.is_file() and executed.is_file():
            html.export_html(executed, page, f"{plan.study.question} · {study}", page_breadcrumbs(plan, run, name, place))
    except (LoadbookError, LookupError, TypeError) as error:  # a run that is no longer here, say
        on_message(f"{study}: its own page has no link to this one: {error}")
