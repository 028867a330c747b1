"""Results typed into a CSV, and what `loadbook compare` says of them."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from loadbook.cli import main

EFFECTS = {"base": 0.0, "fast": 0.06, "slow": -0.05, "even": 0.0}


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


def loadbook(*argv: object) -> Done:
    """The command line in this process, by its own entry point."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with mock.patch.object(sys, "argv", ["loadbook", *map(str, argv)]), redirect_stdout(out), redirect_stderr(err):
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def write(path: Path, values, metric: str = "ok_per_s") -> Path:
    values.rename(columns={"value": metric}).to_csv(path, index=False)
    return path
