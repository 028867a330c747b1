"""Commands on recorded data: `ingest`, `verify`, `parse`, `export` and `traces`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli import terminal
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import NBSP, format_bytes, format_duration, format_quantity, pluralize
from loadbook.core.validity_rules import doubt_rule, rule_advice
from loadbook.ingestion.recognise import FoundReport, find_reports
from loadbook.store.paths import Layout, project_layout
from loadbook.tools import base as registry
from loadbook.tools.base import Measurement

if TYPE_CHECKING:
    from loadbook.ingestion.ingest import IngestSummary

MAX_CAUSES = 3


def count_progress(unit: str) -> Callable[[int, int], None]:
    """Return a function(done, total) that prints progress to stderr: "3 of 9 <unit>"."""
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
    """Make the tables of a run, as `ingest_tables`; return a sentence about them; DataError if no trial counts."""
    return tables_text(layout, study, run_id, ingest_tables(layout, study, run_id, scheduler))


def ingest_tables(layout: Layout, study: str, run_id: str, scheduler: str | None = None) -> IngestSummary:
    """Make the tables of a run from its raw files, with progress on stderr; DataError if it has no trial.

    `scheduler` is the address of a Dask cluster that reads the files; without it, this machine does.
    """
    from loadbook.ingestion.ingest import ingest as ingest_run
    from loadbook.ingestion.workers import dask_workers

    workers = dask_workers(scheduler) if scheduler else nullcontext()
    with workers as executor:
        on_note = lambda text: terminal.echo(f"loadbook: {text}", err=True)  # noqa: E731
        summary = ingest_run(layout.run(study, run_id), executor, count_progress("trials read"), on_note)
    if not summary.trials:
        raise DataError(f"run {run_id} of {study} has no trial yet", f"loadbook run {study}")
    return summary


def tables_text(layout: Layout, study: str, run_id: str, summary: IngestSummary) -> str:
    """Return a sentence about the tables of a run; DataError if no trial counts."""
    if not summary.valid:
        raise DataError(
            f"no trial of run {run_id} of {study} is valid: {causes_text(summary)}",
            f"{layout.run(study, run_id).raw} holds what was seen; set that right, then: loadbook run {study}",
        )
    causes = f" ({causes_text(summary)})" if summary.valid < summary.trials else ""
    return f"{summary.valid} of {summary.planned} planned trials are valid{causes}; {summary.problems_text}"


def run_record(layout: Layout, study: str, run_id: str, summary: IngestSummary) -> dict[str, Any]:
    """Return what `--json` prints about a run and its tables."""
    return {
        "study": study, "run": run_id, "folder": str(layout.run(study, run_id).raw),
        "planned_trials": summary.planned, "recorded_trials": summary.trials, "valid_trials": summary.valid,
        "invalid": [{"reason": reason, "trials": count} for reason, count in summary.causes],
        "next": f"loadbook {'report' if summary.valid else 'run'} {study}",
    }  # fmt: skip


def causes_text(summary: IngestSummary) -> str:
    """Return a text with the most frequent reasons for which trials do not count."""
    causes = [f"{pluralize(count, 'trial')}: {reason}" for reason, count in summary.causes[:MAX_CAUSES]]
    return "; ".join([*causes, "..."] if len(summary.causes) > MAX_CAUSES else causes)


@click.command()
@terminal.optional_study_argument
@click.option("--run", "run_id", metavar="RUN", help="Only this run (latest: the newest).")
@terminal.json_option("one object per run")
def verify(study: str | None, run_id: str | None, as_json: bool) -> None:
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
    records = [print_verification(layout, *run) for run in runs]
    if as_json:
        terminal.print_json(records)
    if any(record["findings"] for record in records):
        sys.exit(DataError.exit_code)


def print_verification(layout: Layout, study: str, run_id: str) -> dict[str, Any]:
    """Verify one run, print every finding, and return what `--json` prints."""
    from loadbook.store.verify import verify_run

    checked = verify_run(layout.run(study, run_id), count_progress(f"attempts of {study} {run_id} hashed"))
    for kind, path, message in checked.findings:
        terminal.echo(f"{kind:<10} {path.relative_to(layout.root)}" + (f": {message}" if message else ""))
    number = len(checked.findings)
    verdict = pluralize(number, "finding") if number else "all as it was kept"
    bare = f"; {len(checked.uncovered)} of them have no recorded checksum" if checked.uncovered else ""
    extent = (
        f"{pluralize(checked.attempts, 'attempt')}, {pluralize(checked.files, 'file')}, {format_bytes(checked.size)}"
    )
    terminal.echo(f"{study} {run_id}: {extent}: {verdict}{bare}")
    findings = [
        {"kind": kind, "path": str(path.relative_to(layout.root)), "message": message or None}
        for kind, path, message in checked.findings
    ]
    without_checksum = [str(path.relative_to(layout.root)) for path in checked.uncovered]
    return {
        "study": study, "run": run_id, "attempts": checked.attempts, "files": checked.files,
        "size_bytes": checked.size, "findings": findings, "without_checksum": without_checksum,
    }  # fmt: skip


@click.command()
@click.argument("words", metavar="[TOOL] PATH", nargs=-1)
@terminal.json_option(
    "an array of {metric, statistic, value, unit, text, resolution}; of several reports, with report and tool"
)
def parse(words: tuple[str, ...], as_json: bool) -> None:
    """Print the measurements in the raw outputs of a tool.

    PATH is a file that holds what the tool printed (FILE#2: its second report), or a folder with stdout, stderr,
    cmd (the command line), rc (the exit code) and the tool's own files; only stdout must be there. TOOL is needed only
    if it is not recognised. Doubts go to stderr.
    """
    if len(words) not in (1, 2):
        raise UsageError("one file or folder is needed", "loadbook parse FILE")
    *tool, path = words
    for name in tool:
        registry.load_tool(name)
    reports = find_reports(Path(path), *tool)
    if unread := [report.error for report in reports if not report.parsed]:
        raise DataError("\n".join(unread))
    several = len(reports) > 1
    if as_json:
        rows = [(report, _measurement_record(row)) for report in reports for row in report.measurements]
        names = ("report", "tool") if several else ()
        terminal.print_json([{**dict(zip(names, (r.name, r.tool), strict=False)), **record} for r, record in rows])
    for report in reports:
        _print_report(report, with_table=not as_json, with_name=several or not tool)


def _print_report(report: FoundReport, *, with_table: bool, with_name: bool) -> None:
    """Print a report as a table, and to stderr what was taken off and its doubts."""
    prefix = f"{report.name}: " if with_name else ""
    if report.taken_off:
        terminal.echo(f"note: {prefix}without {', '.join(report.taken_off)}", err=True)
    for name, message in report.parsed.doubts if report.parsed else ():
        rule = doubt_rule(name)
        terminal.echo(f"{rule.level}: {prefix}{name}: {message}{rule_advice(rule.name)}", err=True)
    if not with_table:
        return
    rows = []
    for row in report.measurements:
        base = f"{Decimal(f'{row.value:.10g}'):f}" + (f" {row.unit}" if row.unit != "1" else "")
        rows.append((row.metric, row.statistic, quantity_text(row), base, row.text or "derived"))
    headings = ("metric", "statistic", "value", "in base units", "as printed")
    title = f"{report.name}: {report.tool}" if with_name else ""
    terminal.print_table(headings, rows, right=headings[2:4], title=title)


def _measurement_record(row: Measurement) -> dict[str, str | float | int | None]:
    """Return one measurement for JSON: counts as integers, other values rounded to 15 significant digits."""
    is_count = row.statistic == "count" and float(row.value).is_integer()
    value = int(row.value) if is_count or isinstance(row.value, int) else float(f"{row.value:.15g}")
    return row.as_row() | {"value": value}


def quantity_text(row: Measurement) -> str:
    """Return a measured value with a fitting unit."""
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
    ensure_ingested(layout.run(name, run), lambda text: terminal.echo(f"{name}: {text}", err=True))
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
    packed = pack_run(layout.run(study, run), pages, version("loadbook"), path, count_progress("files packed"))
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
