"""Notebooks through papermill: ours only, known parameters only, and success means that the end was reached."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from loadbook.core.errors import ReportError
from loadbook.report import blocks, notebooks
from loadbook.report.kernel import SharedKernel
from loadbook.store.paths import Layout
from mock_project import REPO, Arm, make_project

FEW = {"baseline": Arm(), "aa": Arm(check="aa"), "one": Arm(0.06, label="one")}
DONE_CELL = f"from IPython.display import display; display({{'{blocks.DONE_MIME}': {{'run': study}}}}, raw=True)"


@pytest.fixture(scope="module")
def layout(tmp_path_factory):
    return make_project(tmp_path_factory.mktemp("notebooks"), FEW, blocks=6)


def write(layout, name, *cells):
    first = new_code_cell('study = "s"\nlevel = 0.95', metadata={"tags": ["parameters"]})
    book = new_notebook(cells=[first, *map(new_code_cell, cells)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, layout.notebooks / f"{name}.ipynb")
    return layout.notebooks / f"{name}.ipynb"


def test_notebook_runs_to_its_end_with_this_interpreter(layout, tmp_path):
    write(layout, "good", "import sys; print(sys.executable)", DONE_CELL)
    out = tmp_path / "deep" / "a {b}.ipynb"
    assert notebooks.execute_notebook(layout, "good", {"study": "x"}, out) == {"run": "x"}
    cells = nbformat.read(out, as_version=4).cells
    assert Path(cells[2].outputs[0].text.strip()).samefile(sys.executable)
    assert sorted(p.name for p in out.parent.iterdir()) == [out.name]


def test_failing_cell_is_reported_and_the_notebook_kept(layout, tmp_path):
    write(layout, "bad", "1 / 0", DONE_CELL)
    with pytest.raises(ReportError, match=r"notebook bad: cell \d failed: ZeroDivisionError"):
        notebooks.execute_notebook(layout, "bad", {}, tmp_path / "o.ipynb")
    assert [p.name for p in tmp_path.iterdir()] == ["o.failed.ipynb"]


@pytest.mark.fault(6)
def test_dead_jupyter_kernel_is_a_failure(layout, tmp_path):
    write(layout, "dead", "import os; os._exit(1)", DONE_CELL)
    with pytest.raises(ReportError, match="notebook dead"):
        notebooks.execute_notebook(layout, "dead", {}, tmp_path / "o.ipynb")
    assert not (tmp_path / "o.ipynb").exists()


def test_notebook_without_end_marker_is_a_failure(layout, tmp_path):
    write(layout, "short", "print(1)")
    with pytest.raises(ReportError, match="without reaching its last cell"):
        notebooks.execute_notebook(layout, "short", {}, tmp_path / "o.ipynb")


@pytest.mark.fault(7)
def test_hanging_cell_is_stopped_at_its_time_limit(layout, tmp_path):
    write(layout, "slow", "import time; time.sleep(60)", DONE_CELL)
    with pytest.raises(ReportError, match=r"notebook slow: .*[Tt]ime"):
        notebooks.execute_notebook(layout, "slow", {}, tmp_path / "o.ipynb", timeout_s=2)


def test_notebooks_of_a_report_share_a_kernel_and_each_finds_it_empty(layout, tmp_path):
    write(
        layout,
        "first",
        "import os, matplotlib.pyplot as plt; left = os.getpid(); _ = plt.figure(); plt.rcParams['font.size'] = 33",
        DONE_CELL.replace("study", "left"),
    )
    write(
        layout,
        "second",
        "import os, matplotlib.pyplot as plt",
        "found = ['left' in globals(), plt.get_fignums(), plt.rcParams['font.size'] == 33, os.getpid()]",
        DONE_CELL.replace("study", "found"),
    )
    with SharedKernel() as kernel:
        first = notebooks.execute_notebook(layout, "first", {}, tmp_path / "1.ipynb", kernel=kernel)["run"]
        second = notebooks.execute_notebook(layout, "second", {}, tmp_path / "2.ipynb", kernel=kernel)["run"]
        assert second == [False, [], False, first]
        assert psutil.pid_exists(first)
    assert not psutil.pid_exists(first)
    counts = [cell.get("execution_count") for cell in nbformat.read(tmp_path / "2.ipynb", as_version=4).cells]
    assert counts == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "cell", ["import os; os._exit(1)", "import time; time.sleep(60)", "1 / 0"], ids=["dead", "hanging", "failing"]
)
def test_notebook_after_a_failed_one_is_executed_whole(layout, tmp_path, cell):
    write(layout, "broken", cell, DONE_CELL)
    write(layout, "after", DONE_CELL)
    with SharedKernel() as kernel:
        with pytest.raises(ReportError, match="notebook broken"):
            notebooks.execute_notebook(layout, "broken", {}, tmp_path / "1.ipynb", 2, kernel)
        assert notebooks.execute_notebook(layout, "after", {}, tmp_path / "2.ipynb", 60, kernel) == {"run": "s"}


def test_kernel_that_is_killed_between_two_notebooks_is_started_again(layout, tmp_path):
    write(layout, "number", "import os; number = os.getpid()", DONE_CELL.replace("study", "number"))
    with SharedKernel() as kernel:
        first = notebooks.execute_notebook(layout, "number", {}, tmp_path / "1.ipynb", kernel=kernel)["run"]
        os.kill(first, signal.SIGKILL)
        second = notebooks.execute_notebook(layout, "number", {}, tmp_path / "2.ipynb", kernel=kernel)["run"]
    assert first != second


def papermill(layout, *arguments, cwd):
    environment = {k: v for k, v in os.environ.items() if k != "LOADBOOK_HOME"}
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("folder", "name"),
    [(".", "run_quality"), ("notebooks", "config_effects")],
)
def test_plain_papermill_works_from_project_and_notebooks_folder(layout, folder, name, tmp_path):
    cwd, out = layout.root / folder, tmp_path / "o.ipynb"
    source = os.path.relpath(layout.notebooks / f"{name}.ipynb", cwd)
    done = papermill(layout, source, out, "-p", "study", "nginx-directives", cwd=cwd)
    assert done.returncode == 0, done.stderr[-3000:]
    assert notebooks.read_sentinel(out)["study"] == "nginx-directives"
    last = nbformat.read(out, as_version=4).cells[-1]
    assert "image/png" in last.outputs[-1].data, "the section by hand is executed, too"


@pytest.mark.fault(47)
@pytest.mark.parametrize(
    ("name", "value", "printed"),
    [("studdy", "x", "did you mean 'study'"), ("level", "high", "a number")],
)
def test_plain_papermill_refuses_a_parameter_mismatch(layout, name, value, printed, tmp_path):
    done = papermill(layout, "notebooks/config_effects.ipynb", tmp_path / "o.ipynb", "-p", name, value, cwd=layout.root)
    assert done.returncode != 0
    assert printed in done.stderr


def test_run_study_notebook_measures_nothing_by_default(tmp_path):
    for name in ("studies", "notebooks"):
        shutil.copytree(REPO / name, tmp_path / name)
    notebooks.execute_notebook(Layout(tmp_path), "run_study", {"study": "nginx-directives"}, tmp_path / "o.ipynb")
    cells = nbformat.read(tmp_path / "o.ipynb", as_version=4).cells
    text = "\n".join(o.data["text/plain"] for c in cells for o in c.get("outputs", []))
    assert "Nothing was executed" in text
    assert re.search(r"trials +\d+ \(\d+ interleaved and \d+ plain blocks of \d+\)", text)
    assert re.search(r"detectable +[\d.]+\u00a0% with \d+ blocks", text)
    assert not (tmp_path / "data").exists()
