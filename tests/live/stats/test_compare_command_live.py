"""`loadbook compare` as a user and the checks of issue 4 see it."""

from __future__ import annotations

import io
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import pytest

from loadbook.cli import main
from trial_frames import noisy

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


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write(tmp_path / "a.csv", noisy(10, EFFECTS, sd=0.005))


def test_installed_loadbook_program_gives_the_same_output(csv: Path) -> None:
    program = Path(sys.executable).parent / "loadbook"
    argv = ["compare", str(csv), "--baseline", "base", "--margin", "0.02", "--json"]
    done = subprocess.run([program, *argv], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, loadbook(*argv).stdout)
