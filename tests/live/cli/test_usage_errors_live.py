"""Wrong turns that people take on the command line: each is told what is there, and what to do next."""

from __future__ import annotations

import subprocess
import sys


def test_help_imports_neither_the_study_model_nor_hosts():
    code = "import sys; from loadbook.cli import cli; cli(['--help'], standalone_mode=False); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "paramiko", "rich", "pandas"} & set(done.stdout.splitlines()[-1].split())


def test_making_pages_imports_neither_statistics_nor_figures_as_notebooks_run_in_kernels():
    code = "import sys; import loadbook.report.build, loadbook.batch.index; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"scipy", "matplotlib", "seaborn"} & set(done.stdout.splitlines()[-1].split())
