"""docs/ci.md: its shell script fails a build and keeps what it must; its workflow calls it; its tables are gates."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from loadbook.study.limits import CiLimits, CiPolicy
from loadbook.study.reader import read_study

PAGE = (Path(__file__).parents[3] / "docs/ci.md").read_text()


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
    first, builds = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "x.toml").write_text(study + first)
    assert read_study(tmp_path / "x.toml").ci == CiPolicy(undecided="pass")
    (tmp_path / "builds.toml").write_text(builds)
    assert read_study(tmp_path / "builds.toml").ci == CiPolicy(undecided="pass")
