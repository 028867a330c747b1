"""Notebooks that are killed, hang or meet each other: what is kept, what is said, and that nobody reads a half."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from failing_notebooks import WAITS, alive, project_with_victim, write
from loadbook.report import notebooks
from loadbook.store.paths import Layout
from waiting import wait_until

RUN = "20261120T101500"


@pytest.fixture
def layout(tmp_path):
    return project_with_victim(tmp_path / "project")


def loadbook(layout: Layout, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from loadbook.cli import main; main()", *words]
    environment = os.environ | {"LOADBOOK_HOME": str(layout.root)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def kill_kernel(pid_file: Path) -> int:
    """Wait until a notebook's kernel has said its process id, kill it, and return that."""
    wait_until(lambda: pid_file.exists() and pid_file.read_text())
    pid = int(pid_file.read_text())
    os.kill(pid, signal.SIGKILL)
    return pid


def failed_cell(book: Path) -> tuple[int, str]:
    """Return number and error of the one cell that a kept notebook marks as failed; later ones did not run."""
    cells = nbformat.read(book, as_version=4).cells
    states = [cell.metadata.papermill.status for cell in cells]
    at = states.index("failed")
    assert set(states[:at]) == {"completed"}
    assert set(states[at + 1 :]) == {"pending"}
    return at + 1, cells[at].outputs[-1].ename


@pytest.mark.fault(6)
def test_killed_jupyter_kernel_fails_only_its_page(layout, tmp_path, record_property):
    write(layout, "victim", WAITS.format(tmp_path / "pid", 60))
    batch = loadbook(layout, "report", "first", "middle", "third")
    kill_kernel(tmp_path / "pid")
    _, err = batch.communicate(timeout=100)
    printed = "notebook victim: cell 3 lost its kernel"
    assert batch.returncode == 3, err
    assert printed in err
    assert "Traceback" not in err
    pages = {path.name for path in layout.reports.glob("*.html")}
    assert pages == {"first.html", "middle-swift.html", "third.html", "index.html"}
    index = (layout.reports / "index.html").read_text()
    assert f"<b>✕ no report:</b> {printed}" in index
    kept = layout.run("middle", RUN).processed / "notebooks"
    assert sorted(p.name for p in kept.iterdir()) == ["swift.ipynb", "victim.failed.ipynb"]
    assert failed_cell(kept / "victim.failed.ipynb") == (3, "DeadKernelError")
    record_property("seen", "cell 3 named, exit 3, the three other pages are there")


@pytest.mark.fault(7)
def test_cell_beyond_its_time_limit_gives_an_error_with_limit_and_option(layout, tmp_path, record_property):
    write(layout, "victim", WAITS.format(tmp_path / "pid", 4))
    short = loadbook(layout, "report", "middle", "--timeout-s", "1")
    _, err = short.communicate(timeout=100)
    printed = "notebook victim: cell 3 took longer than its limit of 1 s; loadbook report --timeout-s raises it"
    assert (short.returncode, printed in err) == (3, True), err
    assert printed in (layout.reports / "index.html").read_text()
    kept = layout.run("middle", RUN).processed / "notebooks"
    assert failed_cell(kept / "victim.failed.ipynb") == (3, "CellTimeoutError")
    wait_until(lambda: not alive(int((tmp_path / "pid").read_text())))
    longer = loadbook(layout, "report", "middle", "--timeout-s", "60")
    assert longer.wait(timeout=100) == 0
    assert sorted(p.name for p in kept.iterdir()) == ["swift.ipynb", "victim.ipynb"]
    assert "no report" not in (layout.reports / "index.html").read_text()
    record_property("seen", "limit and option named; with the option the report is there")


def test_concurrent_executions_leave_one_complete_notebook(layout, tmp_path):
    write(layout, "pair", "import time; time.sleep(1)")
    code = """
import sys; from pathlib import Path
from loadbook.store.paths import Layout; from loadbook.report import notebooks
done = notebooks.execute_notebook(Layout(Path(sys.argv[1])), "pair", {"study": sys.argv[2]}, Path(sys.argv[3]))
print(done["study"])
"""
    out = tmp_path / "out" / "pair.ipynb"
    words = [[sys.executable, "-c", code, str(layout.root), name, str(out)] for name in ("a", "b")]
    both = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in words]
    printed = [each.communicate(timeout=100)[0].strip() for each in both]
    assert (printed, [each.returncode for each in both]) == (["a", "b"], [0, 0])
    assert notebooks.read_sentinel(out)["study"] in ("a", "b")
    assert [p.name for p in out.parent.iterdir()] == ["pair.ipynb"]
