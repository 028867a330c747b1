"""A run from a cell: one output updated in place, however many trials; a process that outlives its kernel."""

import os
import signal

import pytest
from nbformat.v4 import new_code_cell, new_notebook

import loadbook as lb
from loadbook.notebook import detached
from recorded_run import STUDY, run_of
from replayable_project import longer, replayable_project
from waiting import PATIENCE_S, wait_until


@pytest.fixture
def project(tmp_path):
    return replayable_project(tmp_path / "home")


def book(layout, hosts):
    cells = [new_code_cell("import loadbook as lb"), new_code_cell(f"lb.run({STUDY!r}, hosts={hosts!r}, execute=True)")]
    made = new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def start(layout, hosts):
    words = ["run", "--hosts", str(layout.root / hosts), "--", STUDY]
    return detached.start_detached_run(layout, layout.study_raw(STUDY), words)


def trials_done(run):
    event = run.state().event
    return event.done if event else 0


def executed(layout, made):
    from nbclient import NotebookClient

    NotebookClient(made, timeout=250, resources={"metadata": {"path": str(layout.root)}}).execute()
    return made.cells[1].outputs


def test_notebook_that_shows_a_run_of_120_trials_stays_small(project):
    layout, hosts = project
    longer(layout, hosts)
    # the recorded study has keys of an older version: a note says so
    outputs = [one for one in executed(layout, book(layout, hosts)) if "RenamedKeyWarning" not in one.get("text", "")]
    texts = [output["data"]["text/plain"] for output in outputs]
    assert len(outputs) == 2 and "120 of 120 trials" in texts[0] and "is complete" in texts[1]
    assert sum(len(str(output)) for output in outputs) < 60_000


def test_run_outlives_its_starter_and_the_same_call_shows_it_again(project, monkeypatch, capsys):
    layout, hosts = project
    monkeypatch.chdir(layout.root)
    first = start(layout, hosts)
    assert os.getsid(first.pid) == first.pid != os.getsid(0)
    wait_until(lambda: first.state().process_start)
    again = detached.find_detached_run(layout.study_raw(STUDY))
    assert again is not None and again.pid == first.pid and again.process is None
    assert "is complete" in lb.run(STUDY, hosts=hosts, execute=True).text
    assert "32 of 32 trials" in capsys.readouterr().err
    assert len(layout.runs(STUDY)) == 1
    first.process.wait(PATIENCE_S)
    assert "To run it anew: new = True" in lb.run(STUDY, hosts=hosts, execute=True).text
    assert len(layout.runs(STUDY)) == 1 and len(lb.load(STUDY).trials) == 32


def test_interrupted_run_is_resumed_by_the_same_call(project, monkeypatch):
    layout, hosts = project
    monkeypatch.chdir(layout.root)
    found = start(layout, hosts)
    wait_until(lambda: trials_done(found) >= 2)
    os.kill(found.pid, signal.SIGINT)
    assert found.process.wait(60) in (130, 0)
    lb.run(STUDY, hosts=hosts, execute=True)
    assert len(layout.runs(STUDY)) == 1 and len(list(run_of(layout).glob("trials/*"))) == 31
