"""Command that imports results measured elsewhere, or an exported run: `loadbook import`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loadbook.cli import terminal
from loadbook.cli.data import (
    causes_text,
    count_progress,
    ingest_tables,
    print_verification,
    quantity_text,
    run_record,
    tables_text,
)
from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.core.units import format_percent, pluralize
from loadbook.store.paths import project_layout
from loadbook.tools.base import Measurement

if TYPE_CHECKING:
    from loadbook.imported.reports import ToolReport
    from loadbook.imported.study import CheckedImport
    from loadbook.ingestion.ingest import IngestSummary


def open_archive(path: Path) -> dict[str, Any]:
    """Unpack the run in an archive, verify it, rebuild its tables and compare them with those in the archive.

    Returns what `--json` prints.
    """
    from loadbook.store.export import differing_tables, unpack_run
    from loadbook.store.tables import tables_maker

    layout = project_layout()
    contents, new = unpack_run(path, layout, count_progress("files taken in"))
    study, run = contents.study, contents.run
    terminal.echo(f"{'run' if new else 'the same was opened before: run'} {run} of {study}")
    verification = print_verification(layout, study, run)
    if verification["findings"]:
        raise DataError(f"{path}: what it holds is not as its own ledger says", f"loadbook verify {study}")
    summary = ingest_tables(layout, study, run)
    terminal.echo(tables_text(layout, study, run, summary))
    differ = differing_tables(contents, layout.run(study, run))
    sent_by = contents.tables_by or f"loadbook {contents.loadbook_version} (code not recorded)"
    made_by = tables_maker(layout.run(study, run))
    if differ and sent_by == made_by:
        raise DataError(f"{', '.join(differ)}: not the tables that were sent with these raw files", "ask its sender")
    terminal.echo(_compared_tables_text(differ, str(sent_by), str(made_by)))
    terminal.echo(f"next: loadbook report {study}")
    record = run_record(layout, study, run, summary)
    return record | {
        "already_there": not new, "differing_tables": differ, "tables_sent_by": str(sent_by),
        "tables_made_by": str(made_by), "verification": verification,
    }  # fmt: skip


def _compared_tables_text(differ: list[str], sent_by: str, made_by: str) -> str:
    """Return lines about the tables that were made again, compared with those in the archive."""
    if not differ:
        return "tables    made again here, byte for byte those that were sent"
    measurements = "measurements differ" if "measurements.parquet" in differ else "all measurements are the same"
    return (
        f"tables    made again here; {', '.join(differ)} differ from those that were sent; {measurements}\n"
        f"note: {sent_by} made those that were sent, {made_by} made these: its rules may differ"
    )


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
@terminal.json_option("the run, its outputs, and every refused row with the reason")
def import_(
    folder: Path, conditions: Path | None, study: str, tool: str | None, baseline: str | None, aa: str | None,
    metric: str | None, margin: float | None, question: str | None, incomplete: bool, dry_run: bool,
    as_json: bool,
) -> None:  # fmt: skip
    """Import raw outputs as a run, with their conditions from a CSV file; then make its tables.

    Each row of the CSV names an output in FOLDER (a file, or a folder with stdout, stderr, cmd, rc and the tool's
    own files), its treatment and its block. Files are copied byte for byte; FOLDER is not changed.

    Of an archive that `loadbook export` made, give the file alone: it is checked whole, and its tables are made again.
    """
    if folder.is_file():
        record = open_archive(folder)
        if as_json:
            terminal.print_json(record)
        return
    if conditions is None:
        raise UsageError("--conditions is missing: which output is which treatment and block?", "docs/import.md")
    from loadbook.imported.earlier import added_blocks, find_same_import
    from loadbook.imported.study import ImportOptions, read_import, write_import
    from loadbook.ingestion.ingest import ingest

    options = ImportOptions(study, baseline, metric, margin, question, incomplete, aa)
    try:
        checked = read_import(folder, conditions, options, tool, count_progress("outputs read"))
    except LoadbookError as error:
        if as_json and error.problems:
            terminal.print_json(_refusal_record(error))
        raise
    layout = project_layout()
    before = find_same_import(layout, checked.name, checked.pairs)
    added = added_blocks(layout, checked.name, checked.pairs)
    notes = [f"the same was imported before, as run {before}"] if before else []
    if added:
        differ = pluralize(added, "block differs", "blocks differ")
        notes.append(f"{differ} from an earlier import of these outputs: the report is exploratory")
    for note in [*checked.notes, *notes]:
        terminal.echo(f"note: {note}", err=True)
    _print_import(checked)
    if dry_run:
        _print_plan(checked)
        terminal.echo("nothing was written (--dry-run)")
        if as_json:
            terminal.print_json(_import_record(checked, before))
        return
    run = write_import(layout, checked, count_progress("outputs kept"))
    summary = ingest(layout.run(checked.name, run), on_trial=count_progress("outputs ingested"))
    if as_json:
        next_step = {"next": f"loadbook report {checked.name}"}
        record = run_record(layout, checked.name, run, summary) | next_step
        terminal.print_json(_import_record(checked, before) | record)
    terminal.echo(_imported_text(checked.name, run, summary))
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
    order = "not known: neither the file nor every output gives times"
    if checked.timed:
        order = "by the times given" if checked.times_given else "by the times in the outputs"
    terminal.echo(f"{study.name}: {study.question}")
    terminal.echo(f"outputs   {len(checked.pairs)} of {tools}: {blocks}")
    terminal.echo(f"decides   {study.metric} against {study.label(study.baseline)}, margin {margin}")
    terminal.echo(f"blocks    {checked.blocks_text}")
    terminal.echo(f"order     {order}")


def _import_record(checked: CheckedImport, before: str | None) -> dict[str, Any]:
    """Return what `--json` prints about the outputs of an import; without the run and its tables."""
    study = checked.plan.study
    outputs = [
        {"file": report.condition.file, "tool": report.tool, "treatment": planned.treatment, "block": planned.block,
         "trial": planned.trial, "error": report.error}
        for planned, report in checked.pairs
    ]  # fmt: skip
    return {
        "study": study.name, "run": None, "same_as_run": before, "metric": study.metric, "baseline": study.baseline,
        "margin": study.margin, "outputs": outputs, "refused": [],
    }  # fmt: skip


def _refusal_record(error: LoadbookError) -> dict[str, Any]:
    from loadbook.imported.outputs import ImportProblem

    problems = [problem for problem in error.problems if isinstance(problem, ImportProblem)]
    refused = [{"line": problem.line or None, "reason": problem.message} for problem in problems]
    return {"run": None, "outputs": [], "refused": refused, "next": error.hint}


def _imported_text(study: str, run: str, summary: IngestSummary) -> str:
    """Return a line about the trials of an imported run; DataError if none counts."""
    causes = causes_text(summary)
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
        return next((quantity_text(row) for row in rows if (row.metric, row.statistic) == key), "none")

    rows = [
        (planned.trial, report.condition.file, planned.treatment, planned.block, value_text(report))
        for planned, report in checked.pairs
    ]
    headings = ("trial", "file", "treatment", "block", metric)
    terminal.print_table(headings, rows, right=("block", metric), fold=("file", "treatment"))
