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
from loadbook.core.metrics import metric as metric_of
from loadbook.design.study import Study
from loadbook.design.study_file import read_study
from loadbook.records.layout import Layout, RunPaths
from loadbook.records.manifest import NAME, read_json, sha256_file
from loadbook.records.manifest import read as read_record
from loadbook.trials.choose import new_run_id
from loadbook.trials.imported_csv import read_conditions, refuse
from loadbook.trials.imported_files import all_files, find_sources
from loadbook.trials.imported_reports import Report, read_reports
from loadbook.trials.imported_run import Import, OnFile, silent, write_run
from loadbook.trials.imported_study import (
    Asked,
    condition_problems,
    constant_factors,
    name_of,
    plan_of,
    report_problems,
    study_text,
)
from loadbook.trials.lock import only_runner
from loadbook.trials.studies import study_file

MAX_NOTES = 5


def read_import(
    folder: Path,
    conditions: Path,
    asked: Asked,
    tool: str | None = None,
    on_file: OnFile = silent,
) -> Import:
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
    _check_arguments(folder, asked)
    folder = folder.resolve()
    asked = replace(asked, name=name_of(asked.name or folder.name))
    if not asked.name:
        raise UsageError(f"the folder's name {folder.name!r} makes no name for a study", "give one: --study NAME")
    said, wrong = read_conditions(conditions)
    sources, more = find_sources(folder, said)
    reports, mistaken = read_reports(sources, tool, on_file)
    wrong += [*condition_problems(asked, said, whole=not wrong), *more, *mistaken, *report_problems(asked, reports)]
    if wrong:
        raise refuse(conditions, wrong)
    text = study_text(asked, reports)
    plan, pairs = plan_of(_study(text, conditions), reports)
    return Import(folder, conditions, text, plan, tuple(pairs), tuple(_notes(reports)))


def _study(text: str, conditions: Path) -> Study:
    """Read a study's text as any study file is read."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "study.toml"
        file.write_text(text, encoding="utf-8")
        try:
            return read_study(file)
        except StudyError as error:
            raise StudyError(f"the study made from {conditions}", error.problems) from error


def _notes(reports: Sequence[Report]) -> Iterator[str]:
    """Yield what the user should know of outputs that can be imported."""
    same = constant_factors(reports)
    if same:
        yield f"{', '.join(same)}: the same in every row, so no factor of the study"
    unread = [f"{r.condition.file}: no numbers: {r.error}" for r in reports if r.error]
    yield from unread[:MAX_NOTES]
    if len(unread) > MAX_NOTES:
        yield f"and {len(unread) - MAX_NOTES} more without numbers"


def _check_arguments(folder: Path, asked: Asked) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder")
    if asked.margin is not None and not 0 < asked.margin < 1:
        raise UsageError(f"--margin {asked.margin:g} is not between 0 and 1", "give 0.02 for 2 %")
    if asked.metric is not None:
        metric_of(asked.metric)
    if asked.question is not None and not (3 <= len(asked.question) <= 90 and asked.question.isprintable()):
        raise UsageError("--question must have 3 to 90 printable characters")


def earlier_runs(layout: Layout, name: str) -> list[str]:
    """Return the imported runs of a study; UsageError if the name is that of a study which loadbook runs itself."""
    runs = layout.runs(name)
    own = [r for r in runs if read_json(layout.run(name, r).run_json).get("provenance") != "imported"]
    if own or study_file(layout, name).is_file():
        raise UsageError(
            f"there is a study {name!r} already, and imported results are not mixed with its own",
            "give another name: --study NAME",
        )
    return runs


def same_as(layout: Layout, made: Import) -> str | None:
    """Return the latest earlier run that holds the same outputs as the same trials, None if there is none."""
    own = {
        (planned.treatment, planned.block, frozenset(sha256_file(p) for _, p in all_files(report.source) if _holds(p)))
        for planned, report in made.pairs
    }
    runs = reversed(earlier_runs(layout, made.name))
    return next((run for run in runs if _outputs(layout.run(made.name, run)) == own), None)


def _holds(path: Path) -> bool:
    return path.stat().st_size > 0


def _outputs(paths: RunPaths) -> set[tuple[str, int, frozenset[str]]]:
    """Return treatment, block and the sha256 of every file that holds something, of each trial of an imported run."""
    folders = [path.parent for place in (paths.trials, paths.failed) for path in place.glob(f"*/{NAME}")]
    records = [read_record(folder) for folder in folders]
    return {(r.treatment, r.block, frozenset(f.sha256 for f in r.files.values() if f.size)) for r in records}


def keep_import(layout: Layout, made: Import, on_file: OnFile = silent) -> str:
    """Keep checked outputs as a new run and return its id; `on_file(done, total)` is told of progress.

    Raises
    ------
    UsageError : the study's name belongs to another study, or someone else writes runs of it just now.
    DataError : a file cannot be read or written; nothing of the run is left.
    """
    earlier_runs(layout, made.name)
    try:
        with only_runner(layout.study_raw(made.name)):
            for leftover in layout.study_raw(made.name).glob(".*.part"):
                shutil.rmtree(leftover)
            run = new_run_id(layout, made.name)
            write_run(layout.run(made.name, run), made, on_file)
    except OSError as error:
        raise DataError(f"{error.filename or layout.root}: {error.strerror or error}; nothing was imported") from error
    return run
