"""`loadbook export`: a run as one file for somebody else, for spreadsheets, for benchstat; and how it is opened."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

import click

from loadbook.cli.say import echo
from loadbook.cli.ticker import Ticker
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import format_bytes
from loadbook.records.layout import Layout, project_layout

FORMS = ("archive", "csv", "benchstat")


@click.command()
@click.argument("study")
@click.option("--run", "run_id", default="latest", show_default=True, metavar="RUN", help="Run id.")
@click.option("--as", "form", type=click.Choice(FORMS), default="archive", show_default=True, help="What to write.")
@click.option("--metric", help="Of benchstat; default: the study's own.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="File to write (- is stdout); default: named after the run."
)
def export(study: str, run_id: str, form: str, metric: str | None, out: Path | None) -> None:
    """Write a run to one file.

    archive: raw files, tables, notebooks, pages and a manifest; `loadbook import FILE` opens it anywhere, checks every
    byte and makes the same tables again. csv: every measurement of every trial, tidy. benchstat: the trials that
    count, for Go's benchstat.
    """
    from loadbook.cli.ingest import study_name
    from loadbook.report.build import ensure_ingested

    here = project_layout()
    name = study_name(here, study)
    run = here.resolve_run(name, run_id)
    ensure_ingested(here.run(name, run), lambda text: echo(text, err=True))
    if form == "archive":
        _archive(here, name, run, out)
    else:
        _text(here, name, run, form, metric, out)


def _archive(here: Layout, study: str, run: str, out: Path | None) -> None:
    from loadbook.records.archive import ARCHIVE_SUFFIX, pack_run

    path = out or Path(f"{study}-{run}{ARCHIVE_SUFFIX}")
    if str(path) == "-":
        raise UsageError("an archive goes to a file", "--out FILE")
    pages = _pages(here, study, run)
    packed = pack_run(here.run(study, run), pages, version("loadbook"), path, Ticker(sys.stderr, "files packed"))
    echo(f"{path}\t{len(packed.files)} files, {format_bytes(path.stat().st_size)}")
    if not pages:
        echo(f"note: no page of this run in it; loadbook report {study} makes them", err=True)


def _pages(here: Layout, study: str, run: str) -> dict[str, Path]:
    """Return the pages that were made of this very run."""
    from loadbook.records.manifest import read_json
    from loadbook.report.index import SUMMARY_SUFFIX

    known = here.reports / f"{study}{SUMMARY_SUFFIX}"
    summary = read_json(known) if known.is_file() else {}
    if summary.get("run") != run:
        return {}
    names = [summary.get("page"), *summary.get("more", {}).values()]
    return {name: here.reports / name for name in names if name and (here.reports / name).is_file()}


def _text(here: Layout, study: str, run: str, form: str, metric: str | None, out: Path | None) -> None:
    from loadbook.records.atomic import write_atomic
    from loadbook.records.rundata import load_run
    from loadbook.records.sheets import go_benchmark_text, tidy_csv

    data = load_run(here, study, run)
    text = tidy_csv(data) if form == "csv" else go_benchmark_text(data, metric or data.study.metric)
    if out is not None and str(out) == "-":
        echo(text.rstrip("\n"))
        return
    path = out or Path(f"{study}-{run}.{'csv' if form == 'csv' else 'txt'}")
    if path.exists():
        raise UsageError(f"{path} is there already", "name another file: --out")
    write_atomic(path, text.encode())
    echo(f"{path}\t{text.count(chr(10))} lines")


def open_archive(path: Path) -> None:
    """Take the run of an archive in, hash all of it, and hold the tables made here against those that were sent."""
    from loadbook.cli.ingest import make_tables, verified
    from loadbook.records.archive import differing_tables, unpack_run

    here = project_layout()
    contents, new = unpack_run(path, here, Ticker(sys.stderr, "files taken in"))
    study, run = contents.study, contents.run
    echo(f"{'run' if new else 'the same was opened before: run'} {run} of {study}")
    if not verified(here, study, run):
        raise DataError(f"{path}: what it holds is not as its own ledger says", f"loadbook verify {study}")
    echo(make_tables(here, study, run))
    differ = differing_tables(contents, here.run(study, run))
    if differ and contents.loadbook_version == version("loadbook"):
        raise DataError(f"{', '.join(differ)}: not the tables that were sent with these raw files", "ask its sender")
    echo(f"tables    {_said(differ, contents.loadbook_version)}")
    echo(f"next: loadbook report {study}")


def _said(differ: list[str], made_by: str) -> str:
    if not differ:
        return "made again here, byte for byte those that were sent"
    return f"made again here; {', '.join(differ)} differ from those that were sent, which loadbook {made_by} made"
