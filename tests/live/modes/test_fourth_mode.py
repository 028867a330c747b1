"""docs/extending.md: the example of a mode is one folder and one line, with which a study is planned, run and shown."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from recorded_run import REPO, STUDY, copy_recorded_run, run_of

EXAMPLE = re.compile(r"```python\n# lib/(loadbook/modes/rested/\w+\.py)\n(.*?)```", re.DOTALL)
SHOW = """
from loadbook.analyses.effects.page import effects_page
page = effects_page("recorded")
trials = page.run_data.trials
print(set(trials["execution"]), set(trials["measures"]), page.analysis.row("auto-nopush").verdict)
print(page.provenance().text)
print(page.scope().text)
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """A copy of the library with the example's folder and line."""
    folder = tmp_path / "lib"
    shutil.copytree(REPO / "lib", folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = (REPO / "docs" / "extending.md").read_text()
    for name, code in EXAMPLE.findall(text):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(code)
    (line,) = re.findall(r"The line in `MODES`.*: `(.*)`\. ", text)
    base = folder / "loadbook/modes/base.py"
    base.write_text(base.read_text().replace('"plain": "plain"}', f'{line} "plain": "plain"}}'))
    return folder


def test_example_of_a_mode_plans_runs_and_shows_a_study(library: Path, tmp_path: Path) -> None:
    layout = copy_recorded_run(tmp_path)
    study = layout.studies / f"{STUDY}.toml"
    study.write_text(f'execution = "rested"\n{study.read_text()}')
    hosts = str(run_of(layout) / "hosts.toml")
    env = os.environ | {"PYTHONPATH": str(library), "LOADBOOK_HOME": str(layout.root)}

    def loadbook(*args: str) -> str:
        command = [sys.executable, "-c", "from loadbook.cli import main; main()", *args]
        done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=layout.root, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "execution   rested, as the study asks" in loadbook("plan", STUDY)
    assert "with a rest after every trial" in loadbook("run", STUDY, "--hosts", hosts, "--dry-run")
    done = json.loads(loadbook("run", STUDY, "--hosts", hosts, "--new", "--json"))
    assert (done["planned_trials"], done["valid_trials"]) == (32, 31)  # as in the recorded run
    displayed = subprocess.run(
        [sys.executable, "-c", SHOW], env=env, capture_output=True, text=True, check=False
    ).stdout
    assert displayed.startswith("{'rested'} {'all'} ")
    assert "one trial after the other, each followed by a rest of its length" in displayed
    with pytest.raises(AssertionError, match="did you mean 'rested'"):
        study.write_text(study.read_text().replace('"rested"', '"restless"', 1))
        loadbook("plan", STUDY)
