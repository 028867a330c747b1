"""The shell script of docs/ci.md, run in a project whose build must fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

from loadbook.store.paths import Layout
from recorded_run import REPO, STUDY, copy_recorded_run

PAGE = (REPO / "docs/ci.md").read_text()
SCRIPT = next(block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if block.startswith("#!"))
BIN = Path(sys.executable).parent


def project_with_gate(tmp_path: Path) -> Layout:
    """Make a project with the recorded run, whose study fails what is faster."""
    layout = copy_recorded_run(tmp_path)
    file = layout.studies / f"{STUDY}.toml"
    file.write_text(file.read_text() + '\n[ci]\nundecided = "pass"\nfail_on = ["faster"]\n')
    return layout


def build(layout: Layout, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the project."""
    (layout.root / "ci.sh").write_text(script)
    env = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    call = ["sh", "ci.sh", STUDY, *words]
    return subprocess.run(call, cwd=layout.root, env=env, capture_output=True, text=True, check=False, timeout=300)


def failed(layout: Layout, done: subprocess.CompletedProcess[str]) -> None:
    """Assert that the gate failed the build, and left its files."""
    assert done.returncode == 1, done.stderr
    assert "Build gate: failed. tcp_nopush on is faster by " in done.stderr
    suite = ET.parse(layout.root / "build/loadbook.xml").getroot()[0]
    assert (suite.attrib["name"], suite.attrib["failures"]) == (STUDY, "1")
    assert {"loadbook.xml", "loadbook.json"} <= set(left(layout))


def left(layout: Layout) -> list[str]:
    """Return the names of the files that the build left."""
    return [path.name for path in (layout.root / "build").iterdir()]
