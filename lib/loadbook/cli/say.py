"""The command line's one way to print: what hosts, files and studies say reaches a terminal as text alone."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from loadbook.core.text import clean

if TYPE_CHECKING:
    from rich.text import Text


STDERR = 2


def echo(said: object = "", *, err: bool = False) -> None:
    """Print one thing, results to stdout and all else to stderr (`err`), without control characters."""
    click.echo(clean(str(said)), err=err)


def echo_now(said: str) -> None:
    """Print one thing to stderr from a signal handler, which may have come while the buffer of stderr is written."""
    with suppress(OSError):
        os.write(STDERR, f"{clean(said)}\n".encode())


def cell(said: object) -> Text:
    """Return a cell of a rich table: no markup, no control characters."""
    from rich.text import Text

    return Text(clean(str(said)))
