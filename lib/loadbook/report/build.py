"""Builds a study's report: ingests if needed, executes and exports notebooks; with two runs also the history page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.core.units import pluralize
from loadbook.report import html, notebooks, parameters
from loadbook.report.kernel import SharedKernel
from loadbook.store.atomic import is_study_locked
from loadbook.store.ledger import interrupted_text, next_block_text, read_current_plan, read_ledger, trial_states
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import read_run_record
from loadbook.store.tables import TABLES, edited_tables
from loadbook.study.plan import Plan

HISTORY_NOTEBOOK = "history"
OnMessage = Callable[[str], None]
MAX_PAGE_COMPARISONS = 3  # largest number of links from a page to comparisons of its run


@dataclass(frozen=True)
class OutputPaths:
    """Paths of a report: folder and name prefix of pages, folder of executed notebooks (None: that of the pages).

    `home` is the text of each page's link to index.html in the same folder. `markdown`: write a Markdown file beside
    each page.
    """

    pages: Path
    stem: str
    notebooks: Path | None = None
    home: str = "All studies"
    markdown: bool = False

    def page_path(self, notebook: str, first: bool) -> Path:
        """Return the path of a notebook's HTML page; `first`: it is the first notebook of the study."""
        return self.pages / page_file_name(self.stem, notebook, first)

    def executed_path(self, notebook: str, first: bool) -> Path:
        """Return the path of the executed notebook; arguments as of `page_path`."""
        beside = self.page_path(notebook, first).with_suffix(".ipynb")
        return beside if self.notebooks is None else self.notebooks / f"{notebook}.ipynb"


@dataclass
class BuiltReport:
    """Result of building one study's report: run, notebooks, summary for the index, pages, messages of failures.

    `files`: notebook -> its page (None if the notebook failed) and the executed notebook, as far as there is one.
    """

    study: str
    run: str
    summary: dict[str, Any]
    notebooks: tuple[str, ...] = ()
    pages: list[Path] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    files: dict[str, tuple[Path | None, Path | None]] = field(default_factory=dict)


def build_report(
    layout: Layout,
    study: str,
    run: str,
    pairs: Sequence[str],
    on_message: OnMessage,
    timeout_s: float | None = notebooks.TIMEOUT_S,
    markdown: bool = False,
) -> BuiltReport:
    """Build the report of one run; a notebook that fails adds a line to `failed`, and the others are still built.

    Parameters
    ----------
    run : id of the run; "latest" is the newest finished one, or the newest if none is finished.
    pairs : ``name=value`` texts that set parameters; at least one notebook must declare each name.
    on_message : called with each line of progress.
    timeout_s : time limit of one notebook cell in seconds; None: no limit.
    markdown : also write each page as a Markdown file beside it.

    Raises
    ------
    UsageError : no such study, run, notebook or parameter; nothing was executed.
    DataError : the run's raw data cannot be ingested.
    """
    run, interrupted = select_run(layout, study, run)
    paths = layout.run(study, run)
    unfinished = _unfinished_state(layout, study, interrupted or run)
    if unfinished and interrupted:
        why = f"run {interrupted} is not finished, so this is the report of run {run}"
        on_message(f"{why}; next: {unfinished.resume}")
    elif unfinished:
        on_message(unfinished.text)
    plan = read_current_plan(paths)
    values = _parse_pairs(layout, plan.study.notebooks, pairs)
    place = OutputPaths(layout.reports, study, paths.processed / "notebooks", markdown=markdown)
    html.keep_other_pages(layout.reports, study, run)
    with SharedKernel() as kernel:
        page, failed = build_history_page(layout, study, plan.study.question, on_message, timeout_s, kernel)
        built = build_report_at(layout, study, run, values, place, on_message, timeout_s, kernel)
    built.pages += page
    built.failed += failed
    if page:
        built.summary.setdefault("more", {})[HISTORY_NOTEBOOK] = page[0].name
    if interrupted and unfinished:
        built.summary["interrupted"] = {"run": interrupted, "next": unfinished.resume}
    html.write_summary(layout.reports, built.summary)
    return built


def build_report_to(
    layout: Layout,
    study: str,
    run: str,
    pairs: Sequence[str],
    page: Path,
    home: str,
    on_message: OnMessage,
    timeout_s: float | None = notebooks.TIMEOUT_S,
    markdown: bool = False,
) -> BuiltReport:
    """Build a report with `page` as its first page, the other pages and the executed notebooks beside it.

    `home` is the text of the link to index.html in the same folder; other arguments and errors as of `build_report`.
    """
    run, _ = select_run(layout, study, run)
    names = read_current_plan(layout.run(study, run)).study.notebooks
    values = _parse_pairs(layout, names, pairs)
    page.parent.mkdir(parents=True, exist_ok=True)
    with SharedKernel() as kernel:
        place = OutputPaths(page.parent, page.stem, home=home, markdown=markdown)
        return build_report_at(layout, study, run, values, place, on_message, timeout_s, kernel)


def select_run(layout: Layout, study: str, run: str = "latest") -> tuple[str, str | None]:
    """Return the id of the run to report; for "latest" the newest finished run, or the newest if none is finished.

    The second value is the id of a newer run that was skipped because it is not finished, else None.
    """
    newest = layout.resolve_run(study, run)
    if run != "latest" or _is_finished(layout.run(study, newest)):
        return newest, None
    finished = [one for one in layout.runs(study) if _is_finished(layout.run(study, one))]
    return (finished[-1], newest) if finished else (newest, None)


def _is_finished(paths: RunPaths) -> bool:
    try:
        return read_run_record(paths).is_finished
    except DataError:
        return False


class _UnfinishedState(NamedTuple):
    """How far a run is that is not finished, as a sentence, and the command that resumes it."""

    text: str
    resume: str


def _unfinished_state(layout: Layout, study: str, run: str) -> _UnfinishedState | None:
    """Return the state of a run that is not finished; None for a finished one, or if it cannot be read."""
    paths = layout.run(study, run)
    try:
        record, entries = read_run_record(paths), read_ledger(paths.ledger)
        if record.is_finished:
            return None
        done = {trial for trial, state in trial_states(entries).items() if state.final}
        plan = read_current_plan(paths)
    except DataError:
        return None
    resume = record.run_command
    if is_study_locked(layout.study_raw(study)):
        return _UnfinishedState(f"still going on, at {next_block_text(plan, done)}", resume)
    return _UnfinishedState(interrupted_text(plan, done, resume), resume)


def build_report_at(
    layout: Layout,
    study: str,
    run: str,
    values: Mapping[str, Any],
    place: OutputPaths,
    on_message: OnMessage,
    timeout_s: float | None,
    kernel: SharedKernel,
) -> BuiltReport:
    """Build a report at `place`; other arguments as of `build_report`.

    `run` is an id, `values` maps parameters to values of their types. The summary is returned but not written, and
    there is no history page.
    """
    paths = layout.run(study, run)
    plan = read_current_plan(paths)
    given = notebook_parameters(layout, plan.study.notebooks, {"study": study, "run": run}, values)
    ensure_ingested(paths, on_message)
    record = read_run_record(paths)
    summary = {"study": study, "run": run, "question": plan.study.question, "started": record.started,
               "ended": record.ended}  # fmt: skip
    built = BuiltReport(study, run, summary, tuple(plan.study.notebooks))
    for name in plan.study.notebooks:
        _build_page(layout, plan, built, name, given[name], place, on_message, timeout_s, kernel)
    built.summary |= {"failed": built.failed}
    return built


def notebook_parameters(
    layout: Layout, names: Sequence[str], fixed: Mapping[str, Any], values: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """Return notebook -> its parameters: those of `fixed`, and those of `values` that the notebook declares.

    Raises
    ------
    UsageError : no such notebook; a value of the wrong type, of a name that no notebook declares, or of a fixed name.
    """
    declared = _declared_by_notebook(layout, names)
    clash = sorted(set(values) & set(fixed))
    if clash:
        raise UsageError(f"parameter {clash[0]!r} is given by the command line already")
    parameters.validate_parameters("report", _merge_parameters(declared), values)
    return {name: {k: v for k, v in {**fixed, **values}.items() if k in own} for name, own in declared.items()}


def _declared_by_notebook(layout: Layout, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return notebook -> the parameters that it declares, with their defaults."""
    return {name: notebooks.declared_parameters(notebooks.find_notebook(layout, name)) for name in names}


def _parse_pairs(layout: Layout, names: Sequence[str], pairs: Sequence[str]) -> dict[str, Any]:
    """Convert ``name=value`` texts to values of the types that the notebooks declare."""
    return parameters.parse_pairs(_merge_parameters(_declared_by_notebook(layout, names)), pairs)


def _merge_parameters(declared: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of several notebooks in one dictionary."""
    return {key: value for each in declared.values() for key, value in each.items()}


def ensure_ingested(paths: RunPaths, on_message: OnMessage) -> None:
    """Ingest the run if a table is missing, older than the raw data, or changed since the last ingestion."""
    tables = [paths.table(name) for name in TABLES]
    sources = (paths.plan_json, paths.run_json, paths.trials, paths.failed, paths.added_files)
    recorded = [p.stat().st_mtime for p in sources if p.exists()]
    up_to_date = all(t.is_file() for t in tables) and min(t.stat().st_mtime for t in tables) >= max(recorded)
    edited = edited_tables(paths)
    if up_to_date and not edited:
        return
    from loadbook.ingestion.ingest import ingest

    reason = f", as {', '.join(edited)} changed since the last ingest" if edited else ""
    on_message(f"ingesting run {paths.raw.name}{reason}")
    ingest(paths)


def page_file_name(study: str, notebook: str, first: bool) -> str:
    """Return the file name of a page: <study>.html for the first notebook, otherwise like <study>-quality.html."""
    return f"{study}.html" if first else f"{study}-{notebook.removeprefix('run_').replace('_', '-')}.html"


def _build_page(
    layout: Layout,
    plan: Plan,
    built: BuiltReport,
    name: str,
    given: Mapping[str, Any],
    place: OutputPaths,
    on_message: OnMessage,
    timeout_s: float | None,
    kernel: SharedKernel,
) -> None:
    study, names = built.study, plan.study.notebooks
    page, out = place.page_path(name, name == names[0]), place.executed_path(name, name == names[0])
    on_message(f"notebook {name}")
    try:
        summary = notebooks.execute_notebook(layout, name, given, out, timeout_s, kernel)
        breadcrumbs = page_breadcrumbs(study, plan, built.run, name, place)
        html.export_html(out, page, f"{plan.study.question} · {study}", breadcrumbs)
        if place.markdown:
            html.export_markdown(out, page.with_suffix(".md"))
    except LoadbookError as error:
        built.failed.append(error.message)
        partial = notebooks.failed_notebook_path(out)
        built.files[name] = None, partial if partial.is_file() else None
        on_message(error.message + (f" ({error.hint})" if error.hint else ""))
        return
    on_message(f"page {page}")
    built.files[name] = page, out
    built.pages += [page, page.with_suffix(".md")] if place.markdown else [page]
    if name == names[0]:
        built.summary |= {**summary, "page": page.name}
    else:
        built.summary.setdefault("more", {})[_page_name(name)] = page.name


def page_breadcrumbs(study: str, plan: Plan, run: str, name: str, place: OutputPaths) -> list[tuple[str, str | None]]:
    """Return (text, target) of the links above a page: index, study, run, other pages, history, comparisons.

    A target is a file name beside the page; None: text without a link. Only the first page links to comparisons.
    """
    names = plan.study.notebooks
    titles = {n: "verdicts" if n == names[0] else _page_name(n) for n in names if n != name}
    others = [(title, place.page_path(n, n == names[0]).name) for n, title in titles.items()]
    runs = html.comparison_links(place.pages, study, run)[:MAX_PAGE_COMPARISONS] if name == names[0] else []
    through = history_link(study, place.pages)
    return [(place.home, "index.html"), (study, None), (f"run {run}", None), *others, *through, *runs]


def _page_name(notebook: str) -> str:
    return notebook.removeprefix("run_").replace("_", " ")


def history_link(study: str, pages: Path) -> list[tuple[str, str | None]]:
    """Return (text, target) of the link to a study's history page; empty if the page does not exist."""
    page = _history_page_path(study, pages)
    return [(HISTORY_NOTEBOOK, page.name)] if page.is_file() else []


def build_history_page(
    layout: Layout,
    study: str,
    question: str,
    on_message: OnMessage,
    timeout_s: float | None,
    kernel: SharedKernel,
) -> tuple[list[Path], list[str]]:
    """Build a study's history page; return (pages, failures), both empty if the study has only one run."""
    runs = layout.runs(study)
    if len(runs) < 2:
        return [], []
    page = _history_page_path(study, layout.reports)
    out = layout.run(study, runs[-1]).processed / f"notebooks/{HISTORY_NOTEBOOK}.ipynb"
    on_message(f"notebook {HISTORY_NOTEBOOK}, {pluralize(len(runs), 'run')}")
    breadcrumbs = [("All studies", "index.html"), (study, f"{study}.html"), (HISTORY_NOTEBOOK, None)]
    try:
        notebooks.execute_notebook(layout, HISTORY_NOTEBOOK, {"study": study}, out, timeout_s, kernel)
        html.export_html(out, page, f"History of {question} · {study}", breadcrumbs)
    except LoadbookError as error:
        page.unlink(missing_ok=True)
        return [], [error.message]
    return [page], []


def _history_page_path(study: str, pages: Path) -> Path:
    return pages / f"{study}-{HISTORY_NOTEBOOK}.html"
