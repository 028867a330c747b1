"""`loadbook ingest` and `verify`: from what the hosts said to tables, and whether it is still what they said.

`loadbook parse TOOL PATH`: one raw output -> measurement rows.

`loadbook export`: a run as one file for somebody else, for spreadsheets, for benchstat; and how it is opened.

`loadbook import`: results that someone measured without loadbook -> a run like any other.

`loadbook traces`: what other monitors recorded of a run's hosts, kept with the run and read into its tables.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.arguments import optional_study_argument, run_option, study_argument
from loadbook.cli.progress import Ticker, cell, echo
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import NBSP, format_bytes, format_duration, format_percent, format_quantity
from loadbook.ingestion.trial_rows import parse_output, read_captured
from loadbook.store.paths import Layout, project_layout
from loadbook.tools import base as registry
from loadbook.tools.base import Measurement

if TYPE_CHECKING:
    from loadbook.external.reports import ToolReport
    from loadbook.external.study import CheckedImport
    from loadbook.ingestion.ingest import IngestSummary

MAX_CAUSES = 3


@click.command()
@study_argument
@run_option
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
    from loadbook.study.reader import find_study

    return find_study(here.studies, study).name if study.endswith(".toml") else study


def make_tables(here: Layout, study: str, run_id: str, scheduler: str | None = None) -> str:
    """Ingest a run, progress on stderr, and return what was found in a sentence; DataError if nothing counts."""
    from loadbook.ingestion.ingest import ingest as ingest_run

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
    from loadbook.ingestion.workers import dask_workers

    return dask_workers(scheduler)


def _say(text: str) -> None:
    echo(f"loadbook: {text}", err=True)


def _causes(found: IngestSummary) -> str:
    """Return the most frequent reasons why trials do not count."""
    shown = [f"{count} {why}" for why, count in found.causes[:MAX_CAUSES]]
    return "; ".join([*shown, "..."] if len(found.causes) > MAX_CAUSES else shown)


@click.command()
@optional_study_argument
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
    from loadbook.store.verify import verify_run

    checked = verify_run(here.run(study, run_id), Ticker(sys.stderr, f"attempts of {study} {run_id} hashed"))
    for kind, path, message in checked.findings:
        echo(f"{kind:<10} {path.relative_to(here.root)}" + (f": {message}" if message else ""))
    number = len(checked.findings)
    verdict = f"{number} finding{'s' if number > 1 else ''}" if number else "all as it was kept"
    bare = f"; {len(checked.uncovered)} of them have no recorded checksum" if checked.uncovered else ""
    said = f"{checked.attempts} attempts, {checked.files} files, {format_bytes(checked.size)}"
    echo(f"{study} {run_id}: {said}: {verdict}{bare}")
    return not number


# columns of a table that goes to a file or pipe
WIDE = 200


@click.command()
@click.argument("tool")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of {metric, statistic, value, unit, text}.")
def parse(tool: str, path: Path, as_json: bool) -> None:
    """Print the measurements in one raw output of TOOL.

    PATH is a file that holds what the tool printed, or a folder with stdout, stderr, cmd (the command line),
    rc (the exit code) and the tool's own files; only stdout must be there. Doubts go to stderr.
    """
    reader = registry.load_tool(tool)
    found = parse_output(reader, path, read_captured(path, reader.binary))
    for name, message in found.doubts:
        echo(f"doubt: {name}: {message}", err=True)
    if as_json:
        echo(json.dumps([_entry(row) for row in found.measurements], indent=1, allow_nan=False))
    else:
        _print_table(found.measurements)


def _entry(row: Measurement) -> dict[str, str | float | int | None]:
    """Return one row as JSON holds it: whole counts as integers, other values without the noise of the 16th digit."""
    is_count = row.statistic == "count" and float(row.value).is_integer()
    value = int(row.value) if is_count else float(f"{row.value:.15g}")
    return row._asdict() | {"value": value}


def _print_table(rows: Sequence[Measurement]) -> None:
    """Print the rows for readers: a value as one says it, in its base unit, and as the tool printed it."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("metric", "statistic", "value", "in base units", "as printed"):
        table.add_column(heading, justify="right" if heading in ("value", "in base units") else "left", no_wrap=True)
    for row in rows:
        shown = format_quantity(row.value, row.unit).replace(NBSP, " ")
        base = f"{Decimal(f'{row.value:.10g}'):f}" + (f" {row.unit}" if row.unit != "1" else "")
        table.add_row(*map(cell, (row.metric, row.statistic, shown, base, row.text or "derived")))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table)


FORMS = ("archive", "csv", "benchstat")


@click.command()
@study_argument
@run_option
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
    from loadbook.store.export import ARCHIVE_SUFFIX, pack_run

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
    from loadbook.report.links import SUMMARY_SUFFIX
    from loadbook.store.trial_record import read_json

    known = here.reports / f"{study}{SUMMARY_SUFFIX}"
    summary = read_json(known) if known.is_file() else {}
    if summary.get("run") != run:
        return {}
    names = [summary.get("page"), *summary.get("more", {}).values()]
    return {name: here.reports / name for name in names if name and (here.reports / name).is_file()}


def _text(here: Layout, study: str, run: str, form: str, metric: str | None, out: Path | None) -> None:
    from loadbook.store.atomic import write_atomic
    from loadbook.store.export import go_benchmark_text, tidy_csv
    from loadbook.store.tables import load_run

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
    from loadbook.store.export import differing_tables, unpack_run

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


@click.command("import")
@click.argument("folder", metavar="FOLDER|ARCHIVE", type=click.Path(path_type=Path))
@click.option("--conditions", type=click.Path(path_type=Path), help="CSV: file, treatment, block, ...")
@click.option("--study", default="", metavar="NAME", help="Name of the study; default: the folder's.")
@click.option("--tool", help="What wrote the outputs; default: found out from them.")
@click.option("--baseline", help="Treatment that the others are compared with; default: baseline.")
@click.option("--aa", metavar="TREATMENT", help="Treatment that is the baseline once more: it must not differ.")
@click.option("--metric", help="What decides; default: ok_per_s.")
@click.option("--margin", type=float, help="Smallest difference that matters, 0.02 for 2 %; default: the metric's.")
@click.option("--question", help="What the report answers, at most 90 characters.")
@click.option("--incomplete", is_flag=True, help="Accept blocks that lack a treatment.")
@click.option("--dry-run", is_flag=True, help="Check everything and show what would be; write nothing.")
def import_(
    folder: Path,
    conditions: Path | None,
    study: str,
    tool: str | None,
    baseline: str | None,
    aa: str | None,
    metric: str | None,
    margin: float | None,
    question: str | None,
    incomplete: bool,
    dry_run: bool,
) -> None:
    """Keep raw outputs that you have already as a run, with what a CSV file says of them; then make its tables.

    Each row of the CSV names an output in FOLDER (a file, or a folder with stdout, stderr, cmd, rc and the tool's
    own files), its treatment and its block. Files are copied byte for byte; FOLDER is not changed.

    Of an archive that `loadbook export` made, give the file alone: it is checked whole, and its tables are made again.
    """
    if folder.is_file():
        return open_archive(folder)
    if conditions is None:
        raise UsageError("--conditions is missing: which output is which treatment and block?", "docs/import.md")
    from loadbook.external.study import ImportOptions, find_same_import, read_import, write_import

    asked = ImportOptions(study, baseline, metric, margin, question, incomplete, aa)
    made = read_import(folder, conditions, asked, tool, Ticker(sys.stderr, "outputs read"))
    here = project_layout()
    before = find_same_import(here, made)
    for note in [*made.notes, *([f"the same was imported before, as run {before}"] if before else [])]:
        echo(f"note: {note}", err=True)
    for line in _summary(made):
        echo(line)
    if dry_run:
        _show(made)
        echo("nothing was written (--dry-run)")
        return
    run = write_import(here, made, Ticker(sys.stderr, "outputs kept"))
    echo(_tables(here, made.name, run))
    echo(f"{'new run' if before else 'run'} {run}")
    echo(f"data {here.run(made.name, run).raw}")
    echo(f"next: loadbook report {made.name}")


def _summary(made: CheckedImport) -> list[str]:
    plan, study = made.plan, made.plan.study
    missing = len(plan.trials) - len(made.pairs)
    tools = ", ".join(dict.fromkeys(report.tool for _, report in made.pairs))
    names = ", ".join(map(study.label, plan.treatments))
    timed = all(report.condition.started is not None for _, report in made.pairs)
    return [
        f"{study.name}: {study.question}",
        f"outputs   {len(made.pairs)} of {tools}: {plan.blocks} block{'' if plan.blocks == 1 else 's'} of {names}"
        + (f"; {missing} missing" if missing else ""),
        (
            f"decides   {study.metric} against {study.label(study.baseline)}, margin "
            f"{format_percent(study.margin, signed=False)}"
        ),
        f"order     {'by the times given' if timed else 'not known: the file gives no times, or not for every row'}",
    ]


def _tables(here: Layout, study: str, run: str) -> str:
    from loadbook.ingestion.ingest import ingest

    found = ingest(here.run(study, run), on_trial=Ticker(sys.stderr, "outputs ingested"))
    causes = "; ".join(f"{count} {why}" for why, count in found.causes[:3])
    if not found.valid:
        raise DataError(
            f"run {run} of {study} was imported, but none of its trials counts: {causes}", f"loadbook report {study}"
        )
    lost = f" ({causes})" if found.valid < found.trials else ""
    return f"trials    {found.valid} of {found.planned} count{lost}"


def _show(made: CheckedImport) -> None:
    """Print what each output would become."""
    from rich.console import Console
    from rich.table import Table

    study = made.plan.study
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("trial", "file", "treatment", "block", study.metric):
        table.add_column(heading, justify="right" if heading in ("block", study.metric) else "left")
    for planned, report in made.pairs:
        cells = (
            planned.trial,
            report.condition.file,
            planned.treatment,
            str(planned.block),
            _value(report, study.metric),
        )
        table.add_row(*map(cell, cells))
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)


def _value(report: ToolReport, metric: str) -> str:
    from loadbook.core.metrics import get_metric

    wanted = (metric, get_metric(metric).default_statistic)
    rows: tuple[Measurement, ...] = report.parsed.measurements if report.parsed else ()
    found = next((row for row in rows if (row.metric, row.statistic) == wanted), None)
    return format_quantity(found.value, found.unit).replace(NBSP, " ") if found else "none"


@click.command()
@study_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--host", required=True, metavar="ALIAS", help="The host that the files are of.")
@click.option("--kind", default="auto", show_default=True, metavar="KIND", help="What wrote them: docs/traces.md.")
@run_option
@click.option("--role", metavar="ROLE", help="What the machine did, if the run has no such host.")
@click.option(
    "--clock-offset", type=float, metavar="S", help="Its clock minus ours, seconds; default: as the run measured it."
)
def traces(
    study: str, files: tuple[Path, ...], host: str, kind: str, run_id: str, role: str | None, clock_offset: float | None
) -> None:
    """Keep files of sysstat, munin or Prometheus with a run, and make its tables again.

    FILE: sar's binary data or what sadf -j or sadf -d printed; rrdtool xport, dump or fetch of munin's databases, all
    fields of a host at once; node_exporter's text with timestamps. They are copied, checksummed and in the ledger.
    """
    from loadbook.ingestion.host_metrics import add_metric_files, read_metric_files

    here = project_layout()
    name = study_name(here, study)
    resolved = here.resolve_run(name, run_id)
    given = read_metric_files(files, kind)
    for one, kept in zip(given, add_metric_files(here, name, resolved, given, host, role, clock_offset), strict=True):
        found = one.traces
        metrics = ", ".join(sorted({str(row["metric"]) for row in found.rows}))
        echo(
            f"{', '.join(Path(file).name for file, _ in kept.parsed_files)}: {one.kind}, host {host}, role {kept.role}"
        )
        echo(f"  {len(found.times):,} samples, one every {format_duration(found.interval_s)}: {metrics}")
        for problem in found.problems:
            echo(f"  note: {problem.name}: {problem.message}")
    echo(make_tables(here, name, resolved))
    echo(f"next: loadbook report {name}, or the notebook resource_traces on any study")
