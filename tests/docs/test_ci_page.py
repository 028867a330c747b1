"""docs/ci.md: its shell script fails a build and keeps what it must; its workflow calls it; its tables are gates."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from loadbook.store.paths import Layout
from loadbook.study.limits import CiLimits, CiPolicy
from loadbook.study.reader import read_study
from recorded_run import STUDY, copy_recorded_run, run_of

PAGE = (Path(__file__).parents[2] / "docs/ci.md").read_text()
SCRIPT = next(block for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) if block.startswith("#!"))
BIN = Path(sys.executable).parent


@pytest.fixture
def project(tmp_path) -> Layout:
    """A project with the recorded run, whose study fails what is faster."""
    layout = copy_recorded_run(tmp_path)
    file = layout.studies / f"{STUDY}.toml"
    file.write_text(file.read_text() + '\n[ci]\nundecided = "pass"\nfail_on = ["faster"]\n')
    return layout


def build(layout: Layout, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    (layout.root / "ci.sh").write_text(script)
    env = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}
    call = ["sh", "ci.sh", STUDY, *words]
    return subprocess.run(call, cwd=layout.root, env=env, capture_output=True, text=True, check=False, timeout=300)


def failed(layout: Layout, done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 1, done.stderr
    assert "Build gate: failed. tcp_nopush on is faster by " in done.stdout
    suite = ET.parse(layout.root / "build/loadbook.xml").getroot()[0]
    assert (suite.attrib["name"], suite.attrib["failures"]) == (STUDY, "1")
    assert {"loadbook.xml", "loadbook.json", "verdicts.txt"} <= set(left(layout))


def left(layout: Layout) -> list[str]:
    return [path.name for path in (layout.root / "build").iterdir()]


def test_ci_page_script_exits_with_the_gate_code(project: Layout) -> None:
    """Without what takes long; the run that is there was planned without a gate."""
    short = re.sub(r"(?m)^loadbook (run|report|export) .*\n", "", SCRIPT)
    assert len(short.splitlines()) == len(SCRIPT.splitlines()) - 3
    failed(project, build(project, short))


@pytest.mark.long
def test_ci_page_script_runs_unchanged(project: Layout) -> None:
    done = build(project, SCRIPT, "--hosts", str(run_of(project) / "hosts.toml"))
    failed(project, done)
    assert "run.loadbook.tar.gz" in left(project)
    assert "✕ Build gate</b>: failed. tcp_nopush" in (project.root / f"build/{STUDY}.html").read_text()


def test_ci_page_script_stops_when_the_run_fails(project: Layout) -> None:
    done = build(project, SCRIPT, "--hosts", "none.toml")
    assert done.returncode == 2
    assert left(project) == []


def test_ci_page_workflow_calls_the_script_and_keeps_artifacts() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    steps = yaml.safe_load(text)["jobs"]["loadbook"]["steps"]
    assert any(step.get("run", "").startswith("sh ci.sh ") for step in steps)
    assert (steps[-1]["if"], steps[-1]["with"]["path"]) == ("always()", "build/")


def test_ci_page_examples_of_the_ci_table_are_valid(tmp_path) -> None:
    keys = set(re.findall(r"\| `(\w+)`(?:, `(\w+)`)? \|", PAGE.split("## The table")[1].split("\n## ")[0]))
    named = {key for pair in keys for key in pair if key}
    assert named | {"treatments"} == set(CiPolicy.model_fields)
    assert set(CiLimits.model_fields) < named
    study = 'name = "x"\nquestion = "Is it?"\nbaseline = "a"\n[roles.driver]\n[roles.web]\nservice = "nginx"\n'
    study += '[workload]\ntool = "wrk"\n[treatments]\na = {}\nb = {}\n'
    (first,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "x.toml").write_text(study + first)
    assert read_study(tmp_path / "x.toml").ci == CiPolicy(undecided="pass")
