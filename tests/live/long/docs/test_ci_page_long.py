"""docs/ci.md: its shell script fails a build and keeps what it must; its workflow calls it; its tables are gates."""

from __future__ import annotations

import pytest

from ci_script import SCRIPT, build, failed, left, project_with_gate
from loadbook.store.paths import Layout
from recorded_run import STUDY, run_of


@pytest.fixture
def project(tmp_path) -> Layout:
    return project_with_gate(tmp_path)


def test_ci_page_script_runs_unchanged(project: Layout) -> None:
    done = build(project, SCRIPT, "--hosts", str(run_of(project) / "hosts.toml"))
    failed(project, done)
    assert "run.loadbook.tar.gz" in left(project)
    assert "✕ Build gate</b>: failed. tcp_nopush" in (project.root / f"build/{STUDY}.html").read_text()
