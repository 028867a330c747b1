"""The page that compares two runs of a study, made from its notebook and linked from the study's own page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from loadbook.core.errors import LoadbookError
from loadbook.design.plan import read_plan
from loadbook.records.layout import Layout
from loadbook.records.manifest import read_json
from loadbook.records.planned import plan_of
from loadbook.report import compared, html, index, notebooks, parameters
from loadbook.report.build import Built, Place, crumbs, given_to, refresh
from loadbook.report.compare_runs import NOTEBOOK, refuse_early, two_of


def compare(
    layout: Layout,
    study: str,
    run: str,
    against: str,
    pairs: Sequence[str],
    say: Callable[[str], None],
    timeout_s: float | None = notebooks.TIMEOUT_S,
) -> Built:
    """Make the page that compares a run with an older one; see `build.build` for the other parameters.

    Raises
    ------
    UsageError : no such run, or two that hold no two answers to one question; nothing was executed.
    DataError : raw data of a run cannot be ingested.
    """
    older, newer = two_of(layout, study, run, against)
    given = _given(layout, study, newer, older, pairs)
    refuse_early(layout, study, older, newer, given)
    for one in (older, newer):
        refresh(layout.run(study, one), say)
    built = Built(study, newer, {"study": study, "run": newer, "against": older})
    page = layout.reports / f"{study}-{newer}-against-{older}.html"
    out = layout.run(study, newer).processed / "notebooks" / f"{NOTEBOOK}-{older}.ipynb"
    say(f"{study}: notebook {NOTEBOOK}")
    try:
        executed = notebooks.execute(layout, NOTEBOOK, given, out, timeout_s)
        html.export(executed.path, page, f"{newer} against {older} · {study}", _crumbs(layout, study, newer, older))
    except LoadbookError as error:
        built.failed.append(error.message)
        say(f"{study}: {error.message}" + (f" ({error.hint})" if error.hint else ""))
        return built
    built.pages.append(page)
    built.summary |= executed.done
    compared.keep(page, study, newer, older)
    _relink(layout, study, say)
    return built


def _given(layout: Layout, study: str, newer: str, older: str, pairs: Sequence[str]) -> dict[str, Any]:
    values = parameters.from_text(notebooks.declared(notebooks.find(layout, NOTEBOOK)), pairs)
    return given_to(layout, [NOTEBOOK], {"study": study, "run": newer, "against": older}, values)[NOTEBOOK]


def _crumbs(layout: Layout, study: str, newer: str, older: str) -> html.Crumbs:
    page = layout.reports / f"{study}.html"
    return [
        ("All studies", "index.html"),
        (study, page.name if page.is_file() else None),
        (f"run {newer} against {older}", None),
    ]


def _relink(layout: Layout, study: str, say: Callable[[str], None]) -> None:
    """Export the study's first page again, if it is there, so that it links what was compared."""
    summary = layout.reports / f"{study}{index.SUFFIX}"
    if not summary.is_file():
        return
    try:
        run = read_json(summary)["run"]
        paths = layout.run(study, run)
        plan = read_plan(plan_of(paths), str(paths.plan))
        name, place = plan.study.notebooks[0], Place(layout.reports, study, paths.processed / "notebooks")
        page, executed = place.page(name, True), place.executed(name, True)
        if page.is_file() and executed.is_file():
            html.export(executed, page, f"{plan.study.question} · {study}", crumbs(plan, run, name, place))
    except (LoadbookError, LookupError, TypeError) as error:  # a run that is no longer here, say
        say(f"{study}: its own page has no link to this one: {error}")
