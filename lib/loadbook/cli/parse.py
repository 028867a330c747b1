"""`loadbook parse TOOL PATH`: one raw output -> measurement rows."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import click

from loadbook.core.errors import DataError, ParseError
from loadbook.tools import registry
from loadbook.tools.base import Captured, Measurement, Parsed, Tool

OURS = frozenset({"stdout", "stderr", "cmd", "rc", "note", "wall"})


@click.command()
@click.argument("tool")
@click.argument("path", type=click.Path(exists=True, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array of {metric, statistic, value, unit, text}.")
def parse(tool: str, path: Path, as_json: bool) -> None:
    """Print the measurements in one raw output of TOOL.

    PATH is a file that holds what the tool printed, or a folder with stdout, stderr, cmd (the command line),
    rc (the exit code) and the tool's own files; only stdout must be there. Doubts go to stderr.
    """
    reader = registry.load(tool)
    parsed = _parsed(reader, path, captured(path, reader.binary))
    for name, message in parsed.doubts:
        click.echo(f"doubt: {name}: {message}", err=True)
    if as_json:
        click.echo(json.dumps([_entry(row) for row in parsed.rows], indent=1, allow_nan=False))
    else:
        _print_table(parsed.rows)


def captured(path: Path, binary: str) -> Captured:
    """Return what a file or folder holds of one execution of `binary`; DataError if there is no output to read."""
    if not path.is_dir():
        return Captured(_bytes(path))
    files = {p.name: p for p in sorted(path.iterdir()) if p.is_file()}
    if "stdout" not in files:
        here = ", ".join(files) or "nothing"
        raise DataError(f"{path}: no file named stdout", f"the folder holds {here}; name the file to read instead")
    said = {name: _bytes(files[name]).decode(errors="replace").strip() for name in ("cmd", "rc") if name in files}
    return Captured(
        stdout=_bytes(files["stdout"]),
        stderr=_bytes(files["stderr"]) if "stderr" in files else b"",
        rc=int(said["rc"]) if said.get("rc", "").isdecimal() else None,
        argv=argv_of(said.get("cmd", ""), binary),
        files={name: _bytes(p) for name, p in files.items() if name not in OURS},
    )


def argv_of(command: str, binary: str) -> tuple[str, ...]:
    """Return the argument list of `binary` in a shell command line, also inside ``ssh host '...'``; () if none."""
    try:
        words = shlex.split(command)
    except ValueError:
        return ()
    for i, word in enumerate(words):
        if PurePosixPath(word).name == binary:
            return tuple(words[i:])
    inner = (argv_of(word, binary) for word in words if " " in word and word != command)
    return next((argv for argv in inner if argv), ())


def _parsed(tool: Tool, path: Path, read: Captured) -> Parsed:
    """Parse, naming the real path in errors."""
    try:
        return tool.parse(read)
    except ParseError as error:
        file = path / error.file if path.is_dir() else path
        raise ParseError(tool.name, str(file), error.line, error.reason) from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None


def _entry(row: Measurement) -> dict[str, str | float | int | None]:
    """Return one row as JSON holds it; counts as integers where they are whole."""
    value = int(row.value) if row.statistic == "count" and float(row.value).is_integer() else row.value
    return row._asdict() | {"value": value}


def _print_table(rows: Sequence[Measurement]) -> None:
    """Print the rows as a table for readers."""
    from rich.console import Console
    from rich.table import Table

    table = Table("metric", "statistic", "unit", "as printed", box=None, header_style="bold")
    table.add_column("value", justify="right")
    for row in rows:
        table.add_row(row.metric, row.statistic, row.unit, row.text or "", f"{_entry(row)['value']:,.10g}")
    Console().print(table)
