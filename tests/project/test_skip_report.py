"""The line at the end of `make test`: what was skipped, and what makes it run."""

import json
import subprocess
import sys
from pathlib import Path

from skip_report import skip_line

SUPPORT = Path(__file__).parents[1] / "support"


def test_skip_summary_counts_skipped_tests_by_reason() -> None:
    reasons = {"a": "Go is not there: apt-get install golang-go", "b": "needs root", "c": "needs root"}
    assert skip_line(reasons) == "3 skipped: 2 x needs root; 1 x Go is not there: apt-get install golang-go"
    assert skip_line({}) == "no test was skipped"


def test_skipped_tests_of_several_pytest_calls_are_added_up(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["skip_report"]\n')
    (tmp_path / "test_one.py").write_text('import pytest\n\ndef test_1():\n    pytest.skip("no Go")\n')
    (tmp_path / "test_two.py").write_text('import pytest\npytest.skip("no nginx", allow_module_level=True)\n')
    kept = tmp_path / "kept" / "skips.json"
    for name in ("test_one.py", "test_two.py"):
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--skips={kept}", name]
        subprocess.run(command, cwd=tmp_path, env={"PYTHONPATH": str(SUPPORT), "PATH": "/usr/bin:/bin"}, check=False)
    assert sorted(json.loads(kept.read_text()).values()) == ["no Go", "no nginx"]
    command = [sys.executable, SUPPORT / "skip_report.py", kept]  # type: ignore[list-item]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert printed == "2 skipped: 1 x no Go; 1 x no nginx\n"
