"""Progress on a stream: a count appears when it takes long, and a step has the seconds since the start."""

from __future__ import annotations

import io

from loadbook.cli.terminal import ProgressDisplay
from loadbook.execution.progress import Progress


def test_progress_count_that_was_shown_is_also_shown_at_its_end(clock):
    display = ProgressDisplay(io.StringIO())
    on_count = display.counter("trials read")
    on_count(1, 3)
    assert display.stream.getvalue() == ""  # type: ignore[attr-defined]
    clock.turn(display.COUNT_AFTER_S)
    on_count(2, 3)
    on_count(3, 3)
    assert display.stream.getvalue() == "2 of 3 trials read\n3 of 3 trials read\n"  # type: ignore[attr-defined]


def test_finished_trials_are_printed_as_lines_without_a_terminal():
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        display(Progress("trial-started", "running", "t1", "plain", 1, 2, 0, 2), "nightly")
        display(Progress("trial-ended", "fine", "t1", "plain", 1, 2, 1, 2, "ok"), "nightly", 60.0)
        display(Progress("note", "all done"))
        display.step("made")
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("nightly  [1/2] block 1 of 2  t1  plain: fine; batch: ")
    assert lines[1] == "all done" and lines[2].endswith(" s  made") and len(lines) == 3


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def test_only_failed_trials_are_printed_as_lines_on_a_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    with ProgressDisplay(stream) as display:
        display(Progress("trial-ended", "went well", "t1", "plain", 1, 2, 1, 3, "ok"))
        display(Progress("trial-ended", "was lost", "t2", "plain", 1, 2, 2, 3, "lost"))
    assert "was lost" in stream.getvalue() and "went well" not in stream.getvalue()
