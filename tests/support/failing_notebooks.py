"""Notebooks that end in the middle."""

from __future__ import annotations

from pathlib import Path

from loadbook.report import blocks
from mock_project import Arm

FEW = {"baseline": Arm(), "aa": Arm(check="aa")}
DONE_CELL = f"from IPython.display import display; display({{'{blocks.DONE_MIME}': {{'study': study}}}}, raw=True)"
# says who it is, and waits to be killed
WAITS = "import os, time, pathlib; pathlib.Path(r'{}').write_text(str(os.getpid())); time.sleep({})"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False
