"""The door for results that someone else measured: outputs and a file of conditions in, a run like any other out.

Everything is checked before anything is written: `read_import` names all mistakes at once, `keep_import` then makes
the run whole or not at all.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from loadbook.core.errors import DataError, StudyError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.design.study import Study
from loadbook.design.study_file import read_study
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.manifest import RECORD_NAME, read_json, sha256_file
from loadbook.records.manifest import read_trial
from loadbook.trials.choose import new_run_id
from loadbook.trials.imported_csv import read_conditions, import_error
from loadbook.trials.imported_files import files_by_kept_name, find_outputs
from loadbook.trials.imported_reports import ToolReport, read_reports
from loadbook.trials.imported_run import CheckedImport, OnFile, ignore_progress, write_run
from loadbook.trials.imported_study import (
    ImportOptions,
    condition_problems,
    constant_factors,
    to_valid_name,
    import_plan,
    report_problems,
    study_text,
)
from loadbook.trials.lock import hold_study_lock
from loadbook.trials.studies import study_file

MAX_NOTES = 5


def read_import(
    folder: Path,
    conditions: Path,
    options: ImportOptions,
    tool: str | None = None,
    on_file: OnFile = ignore_progress,
) -> CheckedImport:
    """Read and check outputs in `folder` and what `conditions` says of them; nothing is written.

    Parameters
    ----------
    asked : an empty name stands for the folder's.
    tool : that wrote every output whose row names none; None finds it out.
    on_file : is told how many outputs were read, and of how many.

    Raises
    ------
    UsageError : everything that is wrong with the file of conditions, the names in it or the arguments.
    DataError : only the outputs are wrong.
    """
    _check_arguments(folder, options)
    folder = folder.resolve()
    options = replace(options, name=to_valid_name(options.name or folder.name))
    if not options.name:
        raise UsageError(f"the folder's name {folder.name!r} makes no name for a study", "give one: --study NAME")
    conditions_read, problems = read_conditions(conditions)
    sources, file_problems = find_outputs(folder, conditions_read)
    reports, tool_problems = read_reports(sources, tool, on_file)
    problems += [*condition_problems(options, conditions_read, whole=not problems), *file_problems, *tool_problems, *report_problems(options, reports)]
    if problems:
        raise import_error(conditions, problems)
    text = study_text(options, reports)
    plan, pairs = import_plan(_parse_study(text, conditions), reports)
    return CheckedImport(folder, conditions, text, plan, tuple(pairs), tuple(_import_notes(reports)))


def _parse_study(text: str, conditions: Path) -> Study:
    """Read a study's text as any study file is read."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "study.toml"
        file.write_text(text, encoding="utf-8")
        try:
            return read_study(file)
        except StudyError as error:
            raise StudyError(f"the study made from {conditions}", error.problems) from error


def _import_notes(reports: Sequence[ToolReport]) -> Iterator[str]:
    """Yield what the user should know of outputs that can be imported."""
    same = constant_factors(reports)
    if same:
        yield f"{', '.join(same)}: the same in every row, so no factor of the study"
    unread = [f"{r.condition.file}: no numbers: {r.error}" for r in reports if r.error]
    yield from unread[:MAX_NOTES]
    if len(unread) > MAX_NOTES:
        yield f"and {len(unread) - MAX_NOTES} more without numbers"


def _check_arguments(folder: Path, options: ImportOptions) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    if options.margin is not None and not 0 < options.margin < 1:
        raise UsageError(f"--margin {options.margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    if options.metric is not None:
        get_metric(options.metric)
    if options.question is not None and not (3 <= len(options.question) <= 90 and options.question.isprintable()):
        raise UsageError("--question must have 3 to 90 printable characters")


def earlier_imports(layout: Layout, name: str) -> list[str]:
    """Return the imported runs of a study; UsageError if the name is that of a study which loadbook runs itself."""
    runs = layout.runs(name)
    own_runs = [r for r in runs if read_json(layout.run(name, r).run_json).get("provenance") != "imported"]
    if own_runs or study_file(layout, name).is_file():
        raise UsageError(
            f"there is a study {name!r} already, and imported results are not mixed with its own",
            "give another name: --study NAME",
        )
    return runs


def find_same_import(layout: Layout, checked: CheckedImport) -> str | None:
    """Return the latest earlier run that holds the same outputs as the same trials, None if there is none."""
    keys = {
        (planned.treatment, planned.block, frozenset(sha256_file(p) for _, p in files_by_kept_name(report.source) if _is_nonempty(p)))
        for planned, report in checked.pairs
    }
    runs = reversed(earlier_imports(layout, checked.name))
    return next((run for run in runs if _output_keys(layout.run(checked.name, run)) == keys), None)


def _is_nonempty(path: Path) -> bool:
    return path.stat().st_size > 0


def _output_keys(paths: RunPaths) -> set[tuple[str, int, frozenset[str]]]:
    """Return treatment, block and the sha256 of every file that holds something, of each trial of an imported run."""
    folders = [path.parent for place in (paths.trials, paths.failed) for path in place.glob(f"*/{RECORD_NAME}")]
    records = [read_trial(folder) for folder in folders]
    return {(r.treatment, r.block, frozenset(f.sha256 for f in r.files.values() if f.size)) for r in records}


def write_import(layout: Layout, checked: CheckedImport, on_file: OnFile = ignore_progress) -> str:
    """Keep checked outputs as a new run and return its id; `on_file(done, total)` is told of progress.

    Raises
    ------
    UsageError : the study's name belongs to another study, or someone else writes runs of it just now.
    DataError : a file cannot be read or written; nothing of the run is left.
    """
    earlier_imports(layout, checked.name)
    try:
        with hold_study_lock(layout.study_raw(checked.name)):
            for leftover in layout.study_raw(checked.name).glob(".*.part"):
                shutil.rmtree(leftover)
            run = new_run_id(layout, checked.name)
            write_run(layout.run(checked.name, run), checked, on_file)
    except OSError as error:
        raise DataError(f"{error.filename or layout.root}: {error.strerror or error}; nothing was imported") from error
    return run
