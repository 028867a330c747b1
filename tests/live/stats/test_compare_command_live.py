"""`loadbook compare` as a user and the checks of issue 4 see it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from compared_results import EFFECTS, loadbook, write
from trial_frames import noisy


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    return write(tmp_path / "a.csv", noisy(10, EFFECTS, sd=0.005))


def test_installed_loadbook_program_gives_the_same_output(csv: Path) -> None:
    program = Path(sys.executable).parent / "loadbook"
    argv = ["compare", str(csv), "--baseline", "base", "--margin", "0.02", "--json"]
    done = subprocess.run([program, *argv], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, loadbook(*argv).stdout)
