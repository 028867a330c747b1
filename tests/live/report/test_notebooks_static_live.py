"""The rules of notebooks (design.md section 7), kept by every notebook in the repository."""

import functools
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[3] / "notebooks").glob("*.ipynb"))


@functools.cache
def verified(*paths):
    return subprocess.run([sys.executable, "-m", "nbstripout", "--verify", *paths], capture_output=True, text=True)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_nbstripout_finds_nothing_to_strip(path):
    done = verified(*NOTEBOOKS)  # a call takes a second, however many they are
    if done.returncode:
        done = verified(path)
    assert done.returncode == 0, done.stdout + done.stderr
