"""Commands on recorded data: `ingest`, `verify`, `parse`, `export`, `import` and `traces`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli import terminal
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import NBSP, format_bytes, format_duration, format_percent, format_quantity, pluralize
from loadbook.core.validity_rules import doubt_rule, rule_advice
from loadbook.ingestion.trial_rows import parse_output, read_captured
from loadbook.store.paths import Layout, project_layout
from loadbook.tools import base as registry
from loadbook.tools.base import Measurement

if TYPE_CHECKING:
    from loadbook.external.reports import ToolReport
    from loadbook.external.study import CheckedImport
    from loadbook.ingestion.ingest import IngestSummary

MAX_CAUSES = 3


def _count(unit: str) -> Callable[[int, int], None]:
    return terminal.ProgressDisplay(sys.stderr).counter(unit)


@click.command()
@terminal.study_argument
@terminal.run_option
@click.option("--scheduler", metavar="ADDRESS", help="Let this Dask cluster (tcp://HOST:8786) read.")
def ingest(study: str, run_id: str, scheduler: str | None) -> None:
    """Make tidy tables in data/processed from raw outputs; contacts no host, and repeats give the same bytes.

    Only new and changed trials are read (all, if data/processed is missing), by one process per CPU if it saves time.
    """
    layout = project_layout()
    name = study_name(layout, study)
    resolved = layout.resolve_run(name, run_id)
    terminal.echo(make_tables(layout, name, resolved, scheduler))
    terminal.echo(f"run {resolved}")
    terminal.echo(f"tables {layout.run(name, resolved).processed}")


def study_name(layout: Layout, study: str) -> str:
    """Return the name of a study that is given by its name or by its .toml file."""
    from loadbook.study.reader import find_study

    return find_study(layout.studies, study).name if study.endswith(".toml") else study


def make_tables(layout: Layout, study: str, run_id: str, scheduler: str | None = None) -> str:
    """Ingest a run with progress on stderr; return a sentence about the tables; DataError if no trial counts."""
    from loadbook.ingestion.ingest import ingest as ingest_run
    from loadbook.ingestion.workers import dask_workers

    workers = dask_workers(scheduler) if scheduler else nullcontext()
    with workers as executor:
        on_note = lambda text: terminal.echo(f"loadbook: {text}", err=True)  # noqa: E731
        summary = ingest_run(layout.run(study, run_id), executor, _count("trials read"), on_note)
    if not summary.trials:
        raise DataError(f"run {run_id} of {study} has no trial yet", f"loadbook run {study}")
    if not summary.valid:
        raise DataError(
            f"no trial of run {run_id} of {study} is valid: {_causes_text(summary)}",
            f"{layout.run(study, run_id).raw} holds what was seen; set that right, then: loadbook run {study}",
        )
    causes = f" ({_causes_text(summary)})" if summary.valid < summary.trials else ""
    return f"{summary.valid} of {summary.planned} planned trials are valid{causes}; {summary.problems_text}"


def _causes_text(summary: IngestSummary) -> str:
    """Return a text with the most frequent reasons for which trials do not count."""
    causes = [f"{count} {reason}" for reason, count in summary.causes[:MAX_CAUSES]]
    return "; ".join([*causes, "..."] if len(summary.causes) > MAX_CAUSES else causes)


@click.command()
@terminal.optional_study_argument
@click.option("--run", "run_id", metavar="RUN", help="Only this run (latest: the newest).")
def verify(study: str | None, run_id: str | None) -> None:
    """Hash every raw file again and name those that changed, are missing or were never recorded.

    STUDY: all of its runs; without it: every run of every study. Exit code 4 if any file is not as it was recorded.
    """
    if run_id and not study:
        raise UsageError("--run needs a STUDY")
    layout = project_layout()
    study = study and study_name(layout, study)
    if study:
        newest = layout.resolve_run(study, run_id or "latest")  # an error if the study has no run
        runs = [(study, run) for run in ([newest] if run_id else layout.runs(study))]
    else:
        runs = [(name, run) for name in layout.studies_with_runs() for run in layout.runs(name)]
    if not runs:
        raise UsageError(
            f"there is no run under {layout.root / 'data' / 'raw'}", "loadbook studies has what can be run"
        )
    results = [print_verification(layout, *run) for run in runs]
    if not all(results):
        sys.exit(DataError.exit_code)


def print_verification(layout: Layout, study: str, run_id: str) -> bool:
    """Verify one run, print every finding, and return whether there was none."""
    from loadbook.store.verify import verify_run

    checked = verify_run(layout.run(study, run_id), _count(f"attempts of {study} {run_id} hashed"))
    for kind, path, message in checked.findings:
        terminal.echo(f"{kind:<10} {path.relative_to(layout.root)}" + (f": {message}" if message else ""))
    number = len(checked.findings)
    verdict = pluralize(number, "finding") if number else "all as it was kept"
    bare = f"; {len(checked.uncovered)} of them have no recorded checksum" if checked.uncovered else ""
    extent = (
        f"{pluralize(checked.attempts, 'attempt')}, {pluralize(checked.files, 'file')}, {format_bytes(checked.size)}"
    )
    terminal.echo(f"{study} {run_id}: {extent}: {verdict}{bare}")
    return not number


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
    report = parse_output(reader, path, read_captured(path, reader.binary))
    for name, message in report.doubts:
        rule = doubt_rule(name)
        terminal.echo(f"{rule.level}: {name}: {message}{rule_advice(rule.name)}", err=True)
    if as_json:
        terminal.echo(json.dumps([_measurement_record(row) for row in report.measurements], indent=1, allow_nan=False))
    else:
        headings = ("metric", "statistic", "value", "in base units", "as printed")
        terminal.print_table(headings, map(_measurement_cells, report.measurements), right=headings[2:4])


def _measurement_record(row: Measurement) -> dict[str, str | float | int | None]:
    """Return one measurement for JSON: counts as integers, other numbers rounded to 15 significant digits."""
    is_count = row.statistic == "count" and float(row.value).is_integer()
    value = int(row.value) if is_count or isinstance(row.value, int) else float(f"{row.value:.15g}")
    return row._asdict() | {"value": value}


def _measurement_cells(row: Measurement) -> tuple[str, ...]:
    base = f"{Decimal(f'{row.value:.10g}'):f}" + (f" {row.unit}" if row.unit != "1" else "")
    return row.metric, row.statistic, _quantity_text(row), base, row.text or "derived"


def _quantity_text(row: Measurement) -> str:
    return format_quantity(row.value, row.unit).replace(NBSP, " ")


@click.command()
@terminal.study_argument
@terminal.run_option
@click.option(
    "--as", "form", type=click.Choice(["archive", "csv", "benchstat"]), default="archive", show_default=True,
    help="Format of the file.",
)  # fmt: skip
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

    layout = project_layout()
    name = study_name(layout, study)
    run = layout.resolve_run(name, run_id)
    ensure_ingested(layout.run(name, run), lambda text: terminal.echo(text, err=True))
    if form == "archive":
        _archive(layout, name, run, out)
    else:
        _text(layout, name, run, form, metric, out)


def _archive(layout: Layout, study: str, run: str, out: Path | None) -> None:
    from loadbook.store.export import ARCHIVE_SUFFIX, pack_run

    path = out or Path(f"{study}-{run}{ARCHIVE_SUFFIX}")
    if str(path) == "-":
        raise UsageError("an archive goes to a file", "--out FILE")
    pages = _pages(layout, study, run)
    packed = pack_run(layout.run(study, run), pages, version("loadbook"), path, _count("files packed"))
    terminal.echo(f"{path}\t{pluralize(len(packed.files), 'file')}, {format_bytes(path.stat().st_size)}")
    if not pages:
        terminal.echo(f"note: no page of this run in it; loadbook report {study} makes them", err=True)


def _pages(layout: Layout, study: str, run: str) -> dict[str, Path]:
    """Return name -> file of the report pages that were made of this run; empty if there are none."""
    from loadbook.report.html import SUMMARY_SUFFIX
    from loadbook.store.trial_record import read_json

    path = layout.reports / f"{study}{SUMMARY_SUFFIX}"
    summary = read_json(path) if path.is_file() else {}
    if summary.get("run") != run:
        return {}
    names = [summary.get("page"), *summary.get("more", {}).values()]
    return {name: layout.reports / name for name in names if name and (layout.reports / name).is_file()}


def _text(layout: Layout, study: str, run: str, form: str, metric: str | None, out: Path | None) -> None:
    from loadbook.store.atomic import write_atomic
    from loadbook.store.export import go_benchmark_text, tidy_csv
    from loadbook.store.tables import load_run

    data = load_run(layout, study, run)
    text = tidy_csv(data) if form == "csv" else go_benchmark_text(data, metric or data.study.metric)
    if out is not None and str(out) == "-":
        terminal.echo(text.rstrip("\n"))
        return
    path = out or Path(f"{study}-{run}.{'csv' if form == 'csv' else 'txt'}")
    if path.exists():
        raise UsageError(f"{path} is there already", "name another file: --out")
    write_atomic(path, text.encode())
    terminal.echo(f"{path}\t{text.count(chr(10))} lines")


def open_archive(path: Path) -> None:
    """Unpack the run in an archive, verify it, rebuild its tables and compare them with those in the archive."""
    from loadbook.store.export import differing_tables, unpack_run

    layout = project_layout()
    contents, new = unpack_run(path, layout, _count("files taken in"))
    study, run = contents.study, contents.run
    terminal.echo(f"{'run' if new else 'the same was opened before: run'} {run} of {study}")
    if not print_verification(layout, study, run):
        raise DataError(f"{path}: what it holds is not as its own ledger says", f"loadbook verify {study}")
    terminal.echo(make_tables(layout, study, run))
    differ = differing_tables(contents, layout.run(study, run))
    if differ and contents.loadbook_version == version("loadbook"):
        raise DataError(f"{', '.join(differ)}: not the tables that were sent with these raw files", "ask its sender")
    same = "made again here, byte for byte those that were sent"
    other = f"{', '.join(differ)} differ from those that were sent, which loadbook {contents.loadbook_version} made"
    terminal.echo(f"tables    {f'made again here; {other}' if differ else same}")
    terminal.echo(f"next: loadbook report {study}")


@click.command("import")
@click.argument("folder", metavar="FOLDER|ARCHIVE", type=click.Path(path_type=Path))
@click.option("--conditions", type=click.Path(path_type=Path), help="CSV: file, treatment, block, ...")
@click.option("--study", default="", metavar="NAME", help="Name of the study; default: the folder's.")
@click.option("--tool", help="Tool that wrote the outputs; default: detected.")
@click.option("--baseline", help="Treatment that the others are compared with; default: baseline.")
@click.option("--aa", metavar="TREATMENT", help="Treatment that is the baseline once more: it must not differ.")
@click.option("--metric", help="Metric of the verdict; default: ok_per_s.")
@click.option("--margin", type=float, help="Smallest difference that matters, 0.02 for 2 %; default: the metric's.")
@click.option("--question", help="Question of the study, at most 90 characters.")
@click.option("--incomplete", is_flag=True, help="Accept blocks that lack a treatment.")
@click.option("--dry-run", is_flag=True, help="Check everything and print the run that would be made; write nothing.")
def import_(
    folder: Path, conditions: Path | None, study: str, tool: str | None, baseline: str | None, aa: str | None,
    metric: str | None, margin: float | None, question: str | None, incomplete: bool, dry_run: bool,
) -> None:  # fmt: skip
    """Import raw outputs as a run, with their conditions from a CSV file; then make its tables.

    Each row of the CSV names an output in FOLDER (a file, or a folder with stdout, stderr, cmd, rc and the tool's
    own files), its treatment and its block. Files are copied byte for byte; FOLDER is not changed.

    Of an archive that `loadbook export` made, give the file alone: it is checked whole, and its tables are made again.
    """
    if folder.is_file():
        return open_archive(folder)
    if conditions is None:
        raise UsageError("--conditions is missing: which output is which treatment and block?", "docs/import.md")
    from loadbook.external.study import ImportOptions, find_same_import, read_import, write_import

    options = ImportOptions(study, baseline, metric, margin, question, incomplete, aa)
    checked = read_import(folder, conditions, options, tool, _count("outputs read"))
    layout = project_layout()
    before = find_same_import(layout, checked)
    for note in [*checked.notes, *([f"the same was imported before, as run {before}"] if before else [])]:
        terminal.echo(f"note: {note}", err=True)
    _print_import(checked)
    if dry_run:
        _print_plan(checked)
        terminal.echo("nothing was written (--dry-run)")
        return
    run = write_import(layout, checked, _count("outputs kept"))
    terminal.echo(_ingest_import(layout, checked.name, run))
    terminal.echo(f"{'new run' if before else 'run'} {run}")
    terminal.echo(f"data {layout.run(checked.name, run).raw}")
    terminal.echo(f"next: loadbook report {checked.name}")


def _print_import(checked: CheckedImport) -> None:
    """Print the study, the outputs, the metric and margin, and the blocks of an import."""
    plan, study = checked.plan, checked.plan.study
    missing = len(plan.trials) - len(checked.pairs)
    tools = ", ".join(dict.fromkeys(report.tool for _, report in checked.pairs))
    names = ", ".join(map(study.label, plan.treatments))
    blocks = f"{pluralize(plan.blocks, 'block')} of {names}" + f"; {missing} missing" * bool(missing)
    margin = format_percent(study.margin, signed=False)
    timed = all(report.condition.started is not None for _, report in checked.pairs)
    terminal.echo(f"{study.name}: {study.question}")
    terminal.echo(f"outputs   {len(checked.pairs)} of {tools}: {blocks}")
    terminal.echo(f"decides   {study.metric} against {study.label(study.baseline)}, margin {margin}")
    terminal.echo(f"blocks    {checked.blocks_text}")
    terminal.echo(
        f"order     {'by the times given' if timed else 'not known: the file gives no times, or not for every row'}"
    )


def _ingest_import(layout: Layout, study: str, run: str) -> str:
    from loadbook.ingestion.ingest import ingest

    summary = ingest(layout.run(study, run), on_trial=_count("outputs ingested"))
    causes = _causes_text(summary)
    if not summary.valid:
        message = f"run {run} of {study} was imported, but none of its trials counts: {causes}"
        raise DataError(message, f"loadbook report {study}")
    invalid = f" ({causes})" if summary.valid < summary.trials else ""
    return f"trials    {summary.valid} of {summary.planned} count{invalid}"


def _print_plan(checked: CheckedImport) -> None:
    """Print a table with the trial that would be made of each output."""
    from loadbook.core.metrics import get_metric

    metric = checked.plan.study.metric
    key = (metric, get_metric(metric).default_statistic)

    def value_text(report: ToolReport) -> str:
        rows: tuple[Measurement, ...] = report.parsed.measurements if report.parsed else ()
        return next((_quantity_text(row) for row in rows if (row.metric, row.statistic) == key), "none")

    rows = [
        (planned.trial, report.condition.file, planned.treatment, planned.block, value_text(report))
        for planned, report in checked.pairs
    ]
    headings = ("trial", "file", "treatment", "block", metric)
    terminal.print_table(headings, rows, right=("block", metric), fold=("file", "treatment"))


@click.command()
@terminal.study_argument
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("--host", required=True, metavar="ALIAS", help="The host that the files are of.")
@click.option("--kind", default="auto", show_default=True, metavar="KIND", help="Their format: docs/import.md.")
@terminal.run_option
@click.option("--role", metavar="ROLE", help="Role of the machine, if the run has no such host.")
@click.option(
    "--clock-offset", type=float, metavar="S", help="Its clock minus ours, seconds; default: as the run measured it."
)
def traces(
    study: str, files: tuple[Path, ...], host: str, kind: str, run_id: str, role: str | None, clock_offset: float | None
) -> None:
    """Add files of sysstat, munin or Prometheus to a run, and rebuild its tables.

    FILE: sar's binary data or the output of sadf -j or sadf -d; rrdtool xport, dump or fetch of munin's databases, all
    fields of a host at once; node_exporter's text with timestamps. Copies and checksums are listed in the run's ledger.
    """
    from loadbook.ingestion.host_metrics import add_metric_files, read_metric_files

    layout = project_layout()
    name = study_name(layout, study)
    resolved = layout.resolve_run(name, run_id)
    metric_files = read_metric_files(files, kind)
    added_files = add_metric_files(layout, name, resolved, metric_files, host, role, clock_offset)
    for file, added in zip(metric_files, added_files, strict=True):
        metrics = ", ".join(sorted({str(row["metric"]) for row in file.traces.rows}))
        names = ", ".join(Path(parsed).name for parsed, _ in added.parsed_files)
        terminal.echo(f"{names}: {file.kind}, host {host}, role {added.role}")
        count, interval = len(file.traces.times), format_duration(file.traces.interval_s)
        terminal.echo(f"  {pluralize(count, 'sample')}, one every {interval}: {metrics}")
        for problem in file.traces.problems:
            terminal.echo(f"  note: {problem.name}: {problem.message}")
    terminal.echo(make_tables(layout, name, resolved))
    terminal.echo(f"next: loadbook report {name}, or the notebook resource_traces on any study")
