"""`loadbook parse TOOL PATH`: one raw output -> measurement rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import click

from loadbook.cli.say import cell, echo
from loadbook.core.units import NBSP, format_quantity
from loadbook.tools import registry
from loadbook.tools.base import Measurement
from loadbook.trials.outputs import read_captured, parse_output

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
    """Return one row as JSON holds it; counts as integers where they are whole."""
    value = int(row.value) if row.statistic == "count" and float(row.value).is_integer() else row.value
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
