"""docs/ci.md: its shell script fails a build and keeps what it must; its workflow calls it; its tables are gates."""

from __future__ import annotations

import re

import pytest

from ci_script import SCRIPT, build, failed, left, project_with_gate
from loadbook.store.paths import Layout


@pytest.fixture
def project(tmp_path) -> Layout:
    return project_with_gate(tmp_path)


def test_ci_page_script_exits_with_the_gate_code(project: Layout) -> None:
    """Without what takes long; the run that is there was planned without a gate."""
    short = re.sub(r"(?m)^loadbook (run|report|export) .*\n", "", SCRIPT)
    assert len(short.splitlines()) == len(SCRIPT.splitlines()) - 3
    failed(project, build(project, short))


def test_ci_page_script_stops_when_the_run_fails(project: Layout) -> None:
    done = build(project, SCRIPT, "--hosts", "none.toml")
    assert done.returncode == 2
    assert left(project) == []
