"""`loadbook ingest` and `verify`: from what the hosts said to tables, and whether it is still what they said."""

from __future__ import annotations

import sys
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

import click

from loadbook.cli.say import echo
from loadbook.cli.ticker import Ticker
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import format_bytes
from loadbook.records.layout import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.trials.ingest import IngestSummary

MAX_CAUSES = 3


@click.command()
@click.argument("study")
@click.option("--run", "run_id", default="latest", show_default=True, metavar="RUN", help="Run id.")
@click.option("--scheduler", metavar="ADDRESS", help="Let this Dask cluster (tcp://HOST:8786) read.")
def ingest(study: str, run_id: str, scheduler: str | None) -> None:
    """Raw outputs -> tidy tables in data/processed; touches no host, gives the same bytes every time.

    Only new and changed trials are read, by one process per CPU where it pays. Without data/processed everything is.
    """
    here = project_layout()
    name = study_name(here, study)
    resolved = here.resolve_run(name, run_id)
    echo(make_tables(here, name, resolved, scheduler))
    echo(f"run {resolved}")
    echo(f"tables {here.run(name, resolved).processed}")


def study_name(here: Layout, study: str) -> str:
    """Return the name of a study that is given by it or by its file."""
    from loadbook.design.study_file import find_study

    return find_study(here.studies, study).name if study.endswith(".toml") else study


def make_tables(here: Layout, study: str, run_id: str, scheduler: str | None = None) -> str:
    """Ingest a run, progress on stderr, and return what was found in a sentence; DataError if nothing counts."""
    from loadbook.trials.ingest import ingest as ingest_run

    with _workers(scheduler) as workers:
        found = ingest_run(here.run(study, run_id), workers, Ticker(sys.stderr, "trials read"), _say)
    if not found.trials:
        raise DataError(f"run {run_id} of {study} has no trial yet", f"loadbook run {study}")
    if not found.valid:
        raise DataError(
            f"no trial of run {run_id} of {study} is valid: {_causes(found)}",
            f"{here.run(study, run_id).raw} holds what was seen; set that right, then: loadbook run {study}",
        )
    lost = f" ({_causes(found)})" if found.valid < found.trials else ""
    told = ", ".join(f"{count} {level}" for level, count in found.problems.items())
    problems = f"{told} (the report names them)" if told else "none"
    return f"{found.valid} of {found.planned} planned trials are valid{lost}; problems: {problems}"


def _workers(scheduler: str | None) -> AbstractContextManager[Executor | None]:
    if scheduler is None:
        return nullcontext()
    from loadbook.trials.scheduler import dask_workers

    return dask_workers(scheduler)


def _say(text: str) -> None:
    echo(f"loadbook: {text}", err=True)


def _causes(found: IngestSummary) -> str:
    """Return the most frequent reasons why trials do not count."""
    shown = [f"{count} {why}" for why, count in found.causes[:MAX_CAUSES]]
    return "; ".join([*shown, "..."] if len(found.causes) > MAX_CAUSES else shown)


@click.command()
@click.argument("study", required=False)
@click.option("--run", "run_id", metavar="RUN", help="Only this run (latest: the newest).")
def verify(study: str | None, run_id: str | None) -> None:
    """Hash every raw file again and name what changed, is missing or is there without having been recorded.

    STUDY: all of its runs; without it: every run of every study. Exit code 4 if anything is not as it was kept.
    """
    if run_id and not study:
        raise UsageError("--run needs a STUDY")
    here = project_layout()
    study = study and study_name(here, study)
    runs = [(study, here.resolve_run(study, run_id))] if study and run_id else _runs(here, study)
    good = [verified(here, *one) for one in runs]
    if not all(good):
        sys.exit(DataError.exit_code)


def _runs(here: Layout, study: str | None) -> list[tuple[str, str]]:
    studies = [study] if study else here.studies_with_runs()
    found = [(name, run) for name in studies for run in here.runs(name)]
    if not found:
        raise UsageError(f"there is no run {f'of {study!r} ' if study else ''}under {here.root / 'data' / 'raw'}")
    return found


def verified(here: Layout, study: str, run_id: str) -> bool:
    """Check one run, say what was found, and return whether all is as it was kept."""
    from loadbook.records.verify import verify_run

    checked = verify_run(here.run(study, run_id), Ticker(sys.stderr, f"attempts of {study} {run_id} hashed"))
    for kind, path, message in checked.findings:
        echo(f"{kind:<10} {path.relative_to(here.root)}" + (f": {message}" if message else ""))
    number = len(checked.findings)
    verdict = f"{number} finding{'s' if number > 1 else ''}" if number else "all as it was kept"
    bare = f"; {len(checked.uncovered)} of them have no recorded checksum" if checked.uncovered else ""
    said = f"{checked.attempts} attempts, {checked.files} files, {format_bytes(checked.size)}"
    echo(f"{study} {run_id}: {said}: {verdict}{bare}")
    return not number
