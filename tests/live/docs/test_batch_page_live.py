"""docs/batch.md: its file is right, plain papermill takes every notebook as shown, systemd takes the units."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recorded_run import REPO

PAGE = (REPO / "docs/batch.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_batch_page_systemd_units_are_valid(tmp_path):
    names, own = [], str(Path(sys.executable).parent)
    for text in blocks("ini"):
        name = Path(re.match(r"# (\S+)", text)[1]).name
        (tmp_path / name).write_text(text.replace("%h/loadbook/.venv/bin", own).replace("%h/loadbook", str(REPO)))
        names.append(str(tmp_path / name))
    assert len(names) == 2
    words, folder = ["systemd-analyze", "verify", "--user", *names], {"XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, env=os.environ | folder)
    printed = [line for line in done.stderr.splitlines() if "loadbook" in line]
    assert (done.returncode, printed) == (0, []), done.stderr
