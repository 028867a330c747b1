"""`loadbook import`: results that someone measured without loadbook -> a run like any other."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loadbook.cli.export import open_archive
from loadbook.cli.say import cell, echo
from loadbook.cli.ticker import Ticker
from loadbook.core.errors import DataError, UsageError
from loadbook.core.units import NBSP, format_percent, format_quantity
from loadbook.records.layout import Layout, project_layout

if TYPE_CHECKING:
    from loadbook.tools.base import Measurement
    from loadbook.trials.imported_reports import ToolReport
    from loadbook.trials.imported_run import CheckedImport


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
    from loadbook.trials.imported import write_import, read_import, find_same_import
    from loadbook.trials.imported_study import ImportOptions

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
        f"decides   {study.metric} against {study.label(study.baseline)}, margin {format_percent(study.margin, signed=False)}",
        f"order     {'by the times given' if timed else 'not known: the file gives no times, or not for every row'}",
    ]


def _tables(here: Layout, study: str, run: str) -> str:
    from loadbook.trials.ingest import ingest

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
