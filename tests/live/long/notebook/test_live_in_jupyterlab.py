"""A run begun in JupyterLab outlives the tab and the kernel that began it, and leaves one small output."""

import json
import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from chromium import BINARY, Chrome
from jupyterlab_session import Notebook, served
from loadbook.notebook import detached
from recorded_run import STUDY
from replayable_project import replayable_project
from waiting import wait_until

pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.skipif(not BINARY, reason="Chromium is not there: apt-get install chromium"),
]
LARGEST = 60_000  # bytes of a saved notebook: the style of the pages twice, and one output


@pytest.fixture
def project(tmp_path):
    layout, hosts = replayable_project(tmp_path / "home")
    cells = ["import loadbook as lb", f"lb.run({STUDY!r}, hosts={hosts!r}, execute=True)"]
    made = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(made, layout.notebooks / "live.ipynb")
    return layout


@pytest.fixture
def lab(project, tmp_path):
    (tmp_path / "jupyter").mkdir()
    with served(project, tmp_path / "jupyter") as server:
        yield server


@pytest.fixture
def chrome(tmp_path):
    with Chrome(tmp_path / "chromium") as browser:
        yield browser


def last_run(layout):
    folder = layout.study_raw(STUDY)
    started = [path.read_text().partition("\n")[0] for path in [folder / detached.EVENTS_FILE] if path.is_file()]
    return detached.DetachedRun(folder, json.loads(started[0])["pid"] if started and started[0] else 0)


def done(layout):
    event = last_run(layout).state().event
    return event.done if event else 0


def reached(layout, number):
    wait_until(lambda: done(layout) >= number, 120)


@contextmanager
def halted(layout):
    """Hold the run still, so that what is seen of it meanwhile is not over when it is looked at."""
    pid = last_run(layout).pid
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def is_interrupt_pending(pid):
    pending = re.search(r"^ShdPnd:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return bool(int(pending[1], 16) & 1 << (signal.SIGINT - 1))


def text(found, number=1):
    return "\n".join(str(o.get("data", {}).get("text/plain", o.get("traceback", ""))) for o in found["outputs"][number])


def begun(chrome, lab, layout):
    book = Notebook(chrome, lab, "live", height=1200)
    book.until(lambda found: found["idle"])
    book.command("notebook:run-all-cells")
    book.until(lambda found: "block" in text(found))
    return book


def saved_outputs(book, saved):
    """Save the notebook and return its displays in the file, none of one that is being written.

    A new kernel also warns on stderr of the old keys of the recorded study.
    """
    book.reported("context.save()")
    try:
        outputs = json.loads(saved.read_text())["cells"][1]["outputs"]
    except ValueError:
        return []
    return [output for output in outputs if output["output_type"] != "stream"]


def to_its_end(book, layout):
    found = book.until(lambda now: "is complete" in text(now) and now["idle"], 240)
    assert "32 of 32 trials" in text(found)
    book.keep("live-complete")
    saved = layout.notebooks / "live.ipynb"
    wait_until(lambda: len(saved_outputs(book, saved)) == 2)
    assert saved.stat().st_size < LARGEST
    assert len(layout.runs(STUDY)) == 1


def test_run_survives_a_closed_browser(project, lab, tmp_path):
    with Chrome(tmp_path / "first") as chrome:
        begun(chrome, lab, project)
    reached(project, done(project) + 4)
    with Chrome(tmp_path / "second") as chrome:
        shown_again(chrome, lab, project)


def test_run_is_shown_again_in_a_returned_tab(project, lab, chrome):
    begun(chrome, lab, project)
    chrome.call("Page.navigate", url="about:blank")
    shown_again(chrome, lab, project)


def shown_again(chrome, lab, project):
    with halted(project):
        book = Notebook(chrome, lab, "live", height=1200)
        book.until(lambda found: found["idle"], 60)
        book.command("notebook:run-all-cells")
        again = book.until(lambda found: "trials done" in text(found), 60)
        assert f"{done(project)} of 32 trials done" in text(again)
        book.keep("live-again")
    to_its_end(book, project)


def test_run_survives_a_kernel_restart(project, lab, chrome):
    book = begun(chrome, lab, project)
    book.reported("sessionContext.session.kernel.restart()")
    reached(project, done(project) + 4)
    with halted(project):
        book.until(lambda found: found["idle"], 60)
        book.command("notebook:run-all-cells")
        book.until(lambda found: f"{done(project)} of 32 trials done" in text(found), 30)
    to_its_end(book, project)


def test_run_is_stopped_by_an_interrupt_and_resumed_by_the_cell(project, lab, chrome):
    book = begun(chrome, lab, project)
    with halted(project):  # a replay would be over before the interrupt has passed browser, server and kernel
        book.command("notebook:interrupt-kernel")
        wait_until(lambda: is_interrupt_pending(last_run(project).pid), 60)
    found = book.until(lambda now: "Run this cell again" in text(now) and now["idle"], 90)
    assert detached.find_detached_run(project.study_raw(STUDY)) is None
    assert 0 < done(project) < 32, text(found)
    book.command("notebook:run-all-cells")
    to_its_end(book, project)
