"""Notebooks that are killed, hang or meet each other: what is kept, what is said, and that nobody reads a half."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import nbformat
import pytest

from failing_notebooks import WAITS, alive, project_with_victim, write
from loadbook.core.errors import ReportError
from loadbook.report import notebooks
from waiting import wait_until


@pytest.fixture
def layout(tmp_path):
    return project_with_victim(tmp_path / "project")


@pytest.mark.fault(6)
@pytest.mark.parametrize("victim", ["kernel", "papermill"])
def test_partial_notebook_of_a_killed_papermill_process_is_not_exported(layout, tmp_path, victim):
    write(layout, "victim", WAITS.format(tmp_path / "pid", 60))
    out = tmp_path / "out.ipynb"
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", "notebooks/victim.ipynb", str(out)]
    plain = subprocess.Popen(command, cwd=layout.root, stderr=subprocess.DEVNULL)
    wait_until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    pid = int((tmp_path / "pid").read_text())
    os.kill(pid if victim == "kernel" else plain.pid, signal.SIGKILL)
    assert plain.wait(timeout=60) != 0
    wait_until(lambda: not alive(pid))
    cells = nbformat.read(out, as_version=4).cells
    assert all(not output for cell in cells for output in cell.outputs)
    if victim == "kernel":  # the trap that the sentinel is for
        assert {cell.metadata.papermill.status for cell in cells} == {"completed"}
    assert notebooks.read_sentinel(out) is None
    out.write_text(out.read_text()[:100])
    with pytest.raises(ReportError, match="is not a readable notebook"):
        notebooks.read_sentinel(out)


# looks a thousand times a second at the end of a file, until another file appears; says what it saw
READER = """
import pathlib, sys, time
out, over = map(pathlib.Path, sys.argv[1:])
whole = halves = 0
while not over.exists():
    time.sleep(0.001)
    try:
        with out.open("rb") as file:
            file.seek(-2, 2)
            whole, halves = (whole + 1, halves) if file.read().strip() == b"}" else (whole, halves + 1)
    except FileNotFoundError:
        pass
    except OSError:
        halves += 1
print(whole, halves)
"""


def test_executed_notebook_is_published_atomically(layout, tmp_path):
    write(layout, "big", *["print('x' * 3_000_000)"] * 4)
    out, over = tmp_path / "out" / "big.ipynb", tmp_path / "over"
    words = [sys.executable, "-c", READER, str(out), str(over)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as reader:
        for name in ("a", "b"):
            assert notebooks.execute_notebook(layout, "big", {"study": name}, out) == {"study": name}
        time.sleep(0.1)
        over.touch()
        whole, halves = map(int, reader.communicate(timeout=20)[0].split())
    assert (whole > 10, halves) == (True, 0)
    assert [p.name for p in out.parent.iterdir()] == ["big.ipynb"]


@pytest.mark.parametrize(("failures", "ends"), [(1, "well"), (9, "badly")])
def test_jupyter_kernel_that_fails_to_start_is_retried_once(layout, tmp_path, monkeypatch, failures, ends):
    write(layout, "victim")
    spec, counter = tmp_path / "jupyter" / "kernels" / "python3", tmp_path / "starts"
    spec.mkdir(parents=True)
    start = (
        f'echo x >>{counter}; [ $(wc -l <{counter}) -gt {failures} ] || exit 1; exec "$0" -m ipykernel_launcher -f "$1"'
    )
    argv = ["/bin/sh", "-c", start, sys.executable, "{connection_file}"]
    (spec / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Python 3", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    if ends == "well":
        assert notebooks.execute_notebook(layout, "victim", {"study": "x"}, tmp_path / "o.ipynb") == {"study": "x"}
    else:
        with pytest.raises(ReportError, match=re.escape("notebook victim: no kernel came up, 2 times: RuntimeError")):
            notebooks.execute_notebook(layout, "victim", {"study": "x"}, tmp_path / "o.ipynb")
    assert counter.read_text().count("x") == 2
