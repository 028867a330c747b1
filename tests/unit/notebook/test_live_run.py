"""A run from a cell: one output updated in place, however many trials; a process that outlives its kernel."""

from dataclasses import replace

import pytest

from loadbook.core import clock
from loadbook.core.errors import LoadbookError, UsageError
from loadbook.execution.progress import Progress
from loadbook.notebook import detached, live_run
from loadbook.notebook.detached import DetachedRun, RunState


def events(total=120, blocks=30):
    yield Progress("note", "new run")
    for number in range(total):
        about = {"trial": f"t{number + 1:04d}", "treatment": "plain", "block": number * blocks // total + 1}
        at = about | {"blocks": blocks, "total": total, "remaining_s": 4.0 * (total - number)}
        yield Progress("trial-started", "running", done=number, **at)
        yield Progress("trial-ended", "ok", done=number + 1, status="lost" if number == 7 else "ok", **at)


class ScriptedRun(DetachedRun):
    """A run that takes in one event of a script each time that its state is read."""

    def __init__(self, script):
        self.script, self.now = script, RunState()

    def state(self):
        event = next(self.script, None)
        message = event.to_message() if event else {"kind": "ran", "run": "r1"}
        self.now.update(message | {"at": clock.now()})
        if event and event.ends_block:
            self.now.update({"kind": "estimates", "estimates": [{"label": "again", "change": 0.012, "blocks": 3}]})
        return replace(self.now)

    def is_alive(self):
        return True


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(live_run, "REFRESH_S", 0)
    return ScriptedRun(events())


def test_progress_has_block_trial_time_left_and_estimate(scripted):
    seen = []
    assert live_run.follow(scripted, seen.append) == "r1"
    middle = repr(seen[100])
    assert "block 13 of 30" in middle and "of 120 trials done" in middle and "left" in middle
    assert "again" in middle and "+1.2" in middle and "Peeking decides nothing" in middle and "1 lost" in middle
    last = repr(seen[-1])
    assert "120 of 120 trials" in last and "complete" in last and "Peeking" not in last
    assert all(len(card._repr_html_()) < 20_000 for card in seen)


def test_progress_outside_of_a_notebook_is_printed_as_lines(scripted, capsys):
    live_run.follow(scripted)
    assert "120 of 120 trials" in capsys.readouterr().err


def test_interrupt_stops_the_run_and_the_traceback_says_how_to_resume(scripted, monkeypatch):
    stopped = []

    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ScriptedRun, "stop", lambda self: stopped.append(self))
    displayed = iter([interrupted, lambda _: None])
    with pytest.raises(live_run.RunStoppedError) as caught:
        live_run.follow(scripted, lambda now: next(displayed)(now))
    assert stopped and "Run this cell again" in caught.value._render_traceback_()[0]


def test_interrupt_of_a_kernel_restart_does_not_stop_the_run(scripted, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ScriptedRun, "stop", lambda self: pytest.fail("stopped"))
    shell = type("Shell", (), {"kernel": None, "exit_now": True})()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    with pytest.raises(live_run.WatchingStoppedError):
        live_run.follow(scripted, interrupted)
    monkeypatch.setattr(live_run, "KERNEL_EXIT_S", 0.1)
    shell.exit_now = False
    assert not live_run.kernel_is_exiting()


@pytest.mark.parametrize("seen", [[0, 1, None, 1, 0], [2, 1, 2], [1, 2]])
def test_cell_ends_and_run_goes_on_when_its_page_is_closed_or_opened_again(scripted, monkeypatch, seen):
    monkeypatch.setattr(ScriptedRun, "stop", lambda self: pytest.fail("stopped"))
    numbers = iter(seen)
    monkeypatch.setattr(live_run, "PAGES_EVERY_S", 0)
    monkeypatch.setattr(live_run.OpenPages, "number", lambda self: next(numbers))
    monkeypatch.setattr(live_run, "open_pages", lambda: live_run.OpenPages("http://127.0.0.1/api/kernels/k"))
    with pytest.raises(live_run.WatchingStoppedError) as caught:
        live_run.follow(scripted, lambda now: None)
    assert "The run goes on" in caught.value._render_traceback_()[0] and next(numbers, None) is None


def test_error_of_a_run_whose_process_died_has_the_end_of_its_log(tmp_path, monkeypatch):
    (tmp_path / detached.LOG_FILE).write_text("Traceback\nMemoryError\n")
    monkeypatch.setattr(DetachedRun, "is_alive", lambda self: False)
    with pytest.raises(Exception, match="without a word: Traceback\nMemoryError"):
        live_run.follow(DetachedRun(tmp_path, 1), lambda now: None)


def test_error_of_a_run_is_raised_as_what_it_was(monkeypatch):
    failed = {"kind": "failed", "error": "no host", "hint": "look", "exit_code": 2, "at": 1.0}
    for message, kind in ((failed, UsageError), ({"kind": "stopped", "at": 1.0}, LoadbookError)):
        run = ScriptedRun(iter(()))
        run.now.update(message)
        monkeypatch.setattr(run, "state", lambda run=run: run.now)
        with pytest.raises(kind) as caught:
            live_run.follow(run, lambda now: None)
        assert caught.value.hint
