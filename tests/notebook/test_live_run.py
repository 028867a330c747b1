"""A run from a cell: one output updated in place, however many trials; a process that outlives its kernel."""

import os
import signal
import time

import pytest
from nbformat.v4 import new_code_cell, new_notebook

import loadbook as lb
from loadbook.core.errors import UsageError
from loadbook.execution.progress import Progress
from loadbook.notebook import process, progress
from loadbook.notebook.process import Keeper, Runner, Wish
from loadbook.store.paths import Layout
from recorded_run import STUDY, run_of
from replayable_project import longer, playable


@pytest.fixture
def project(tmp_path):
    return playable(tmp_path / "home")


def events(total=120, blocks=30):
    yield Progress("note", "new run")
    for number in range(total):
        about = {"trial": f"t{number + 1:04d}", "treatment": "plain", "block": number * blocks // total + 1}
        at = about | {"blocks": blocks, "total": total, "remaining_s": 4.0 * (total - number)}
        yield Progress("trial-started", "running", done=number, **at)
        yield Progress("trial-ended", "ok", done=number + 1, status="lost" if number == 7 else "ok", **at)


class Told(Runner):
    """A runner that tells one event of a long run at each look."""

    def __init__(self, keeper, found):
        super().__init__(keeper.folder, os.getpid())
        self.keeper, self.found = keeper, found

    def state(self):
        event = next(self.found, None)
        if event is None:
            self.keeper.end(run="r1")
        else:
            self.keeper(event)
        return super().state()

    def alive(self):
        return True


@pytest.fixture
def told(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "LIVE_EVERY_S", 0)
    monkeypatch.setattr(process, "so_far", lambda layout, wish: [["plain again", 0.012, 3]])
    (tmp_path / "raw").mkdir()
    return Told(Keeper(Layout(tmp_path), tmp_path / "raw", Wish("s")), events())


def test_one_card_says_block_trial_time_left_and_estimate(told):
    seen = []
    assert progress.follow(told, seen.append) == "r1"
    middle = repr(seen[100])
    assert "block 13 of 30" in middle and "of 120 trials done" in middle and "left" in middle
    assert "plain again" in middle and "+1.2" in middle and "Peeking decides nothing" in middle and "1 lost" in middle
    last = repr(seen[-1])
    assert "120 of 120 trials" in last and "complete" in last and "Peeking" not in last
    assert all(len(card._repr_html_()) < 20_000 for card in seen)


def test_outside_of_notebooks_it_is_lines(told, capsys):
    progress.follow(told)
    assert "120 of 120 trials" in capsys.readouterr().err


def test_an_interrupt_stops_the_run_and_says_how_to_go_on(told, monkeypatch):
    stopped = []

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Told, "stop", lambda self: stopped.append(self))
    shown = iter([interrupted, lambda _: None])
    with pytest.raises(progress.StoppedError) as caught:
        progress.follow(told, lambda now: next(shown)(now))
    assert stopped and "Run this cell again" in caught.value._render_traceback_()[0]


def test_the_interrupt_of_a_restart_does_not_stop_the_run(told, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Told, "stop", lambda self: pytest.fail("stopped"))
    shell = type("Shell", (), {"kernel": None, "exit_now": True})()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    with pytest.raises(progress.LeftError):
        progress.follow(told, interrupted)
    monkeypatch.setattr(progress, "LEAVE_S", 0.1)
    shell.exit_now = False
    assert not progress.kernel_ends()


@pytest.mark.parametrize("seen", [[0, 1, None, 1, 0], [2, 1, 2], [1, 2]])
def test_a_cell_whose_page_was_closed_or_opened_again_ends_and_the_run_goes_on(told, monkeypatch, seen):
    monkeypatch.setattr(Told, "stop", lambda self: pytest.fail("stopped"))
    numbers = iter(seen)
    monkeypatch.setattr(progress, "EVERY_S", 0)
    monkeypatch.setattr(progress.Pages, "number", lambda self: next(numbers))
    monkeypatch.setattr(progress, "pages", lambda: progress.Pages("http://127.0.0.1/api/kernels/k"))
    with pytest.raises(progress.LeftError) as caught:
        progress.follow(told, lambda now: None)
    assert "The run goes on" in caught.value._render_traceback_()[0] and next(numbers, None) is None


def test_a_server_that_does_not_say_who_looks_is_no_reason_to_end():
    nobody = progress.Pages("http://127.0.0.1:9/api/kernels/k")
    assert nobody.number() is None and not nobody.changed()
    assert not progress.Pages().changed() and progress.pages() == progress.Pages()
    served = {"url": "https://h:1/", "token": "secret"}
    assert progress.of_server(served, "k") == progress.Pages()
    known = progress.of_server(served | {"url": "http://h:1/x/"}, "k")
    assert known.address == "http://h:1/x/api/kernels/k" and "secret" not in repr(known)


def test_what_died_without_a_word_is_told(tmp_path, monkeypatch):
    keeper = Keeper(Layout(tmp_path), tmp_path, Wish("s"))
    (tmp_path / process.LOG).write_text("Traceback\nMemoryError\n")
    found = Runner(tmp_path, keeper.state["pid"])
    monkeypatch.setattr(Runner, "alive", lambda self: False)
    with pytest.raises(Exception, match="without a word: Traceback\nMemoryError"):
        progress.follow(found, lambda now: None)


def test_another_process_of_the_same_id_is_not_the_runner(tmp_path):
    keeper = Keeper(Layout(tmp_path), tmp_path, Wish("s"))
    assert process.attached(tmp_path).pid == os.getpid()
    keeper.state["born"] += 1
    keeper.keep()
    assert process.attached(tmp_path) is None
    (tmp_path / process.NAME).write_text("torn {")
    assert process.attached(tmp_path) is None


def book(layout, hosts):
    cells = [new_code_cell("import loadbook as lb"), new_code_cell(f"lb.run({STUDY!r}, hosts={hosts!r}, execute=True)")]
    made = new_notebook(cells=cells)
    made.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return made


def executed(layout, made):
    from nbclient import NotebookClient

    NotebookClient(made, timeout=250, resources={"metadata": {"path": str(layout.root)}}).execute()
    return made.cells[1].outputs


@pytest.mark.alone
@pytest.mark.long
def test_a_notebook_of_120_trials_stays_small(project):
    layout, hosts = project
    longer(layout, hosts)
    outputs = executed(layout, book(layout, hosts))
    said = [o["data"]["text/plain"] for o in outputs]
    assert len(outputs) == 2 and "120 of 120 trials" in said[0] and "is complete" in said[1]
    assert sum(len(str(output)) for output in outputs) < 60_000


@pytest.mark.alone
@pytest.mark.long
def test_a_killed_kernel_does_not_end_the_run_and_the_same_call_shows_it_again(project, monkeypatch, capsys):
    layout, hosts = project
    monkeypatch.chdir(layout.root)
    first = process.start(layout, layout.study_raw(STUDY), Wish(STUDY, hosts))
    assert os.getsid(first.pid) == first.pid != os.getsid(0)
    deadline = time.monotonic() + 60
    while not first.state() and time.monotonic() < deadline:
        time.sleep(0.05)
    again = process.attached(layout.study_raw(STUDY))
    assert again is not None and again.pid == first.pid and again.process is None
    assert "is complete" in lb.run(STUDY, hosts=hosts, execute=True).text
    assert "32 of 32 trials" in capsys.readouterr().err
    assert len(layout.runs(STUDY)) == 1
    first.process.wait(30)
    assert "To run it anew: new = True" in lb.run(STUDY, hosts=hosts, execute=True).text
    assert len(layout.runs(STUDY)) == 1 and len(lb.load(STUDY).trials) == 32


@pytest.mark.alone
@pytest.mark.long
def test_a_stopped_run_goes_on(project, monkeypatch):
    layout, hosts = project
    monkeypatch.chdir(layout.root)
    found = process.start(layout, layout.study_raw(STUDY), Wish(STUDY, hosts))
    deadline = time.monotonic() + 60
    while found.state().get("event", {}).get("done", 0) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(found.pid, signal.SIGINT)
    assert found.process.wait(60) in (130, 0)
    lb.run(STUDY, hosts=hosts, execute=True)
    assert len(layout.runs(STUDY)) == 1 and len(list(run_of(layout).glob("trials/*"))) == 31


def test_a_mistake_is_told_before_anything_starts(project, monkeypatch):
    layout, _ = project
    monkeypatch.chdir(layout.root)
    with pytest.raises(UsageError, match="no study"):
        lb.run("recordd", execute=True)
    with pytest.raises(UsageError, match="absent"):
        lb.run(STUDY, hosts="absent.toml", execute=True)
    assert "Nothing was executed" in lb.run(STUDY).text


def test_nothing_is_run_into_the_example(project, monkeypatch):
    layout, hosts = project
    monkeypatch.chdir(layout.root)
    study = layout.studies / f"{STUDY}.toml"
    (layout.studies / "example.toml").write_text(study.read_text().replace(f'name = "{STUDY}"', 'name = "example"'))
    with pytest.raises(UsageError, match="cannot be called 'example'"):
        lb.run("example", hosts=hosts, execute=True)
