"""Progress on a stream: a count appears when it takes long, and a step has the seconds since the start."""

from __future__ import annotations

import io
from typing import Any

import pytest

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
    assert lines[0].startswith("nightly  [1/2] block 1 of 2  t1 plain: fine; batch: ")
    assert lines[1] == "all done" and lines[2].endswith(" s  made") and len(lines) == 3


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return Terminal()


BLOCK: dict[str, Any] = {"block": 3, "blocks": 10, "total": 40, "remaining_s": 240.0}


def phase(name, planned_s=None, **trial):
    return Progress("phase", name, done=8, phase_s=planned_s, **BLOCK, **trial)


def ended(done, status="ok", reason="", beside=0, treatment="tuned"):
    message = f"{status}: {reason}" if reason else status
    about = {"trial": f"t{done:04}", "treatment": treatment, "status": status, "beside": beside}
    return Progress("trial-ended", message, done=done, **about, **BLOCK)


def seen(stream):
    """Return what was written since the last call, with ordinary spaces."""
    text = stream.getvalue().replace("\u00a0", " ")
    stream.seek(0)
    stream.truncate()
    return text


def test_only_failed_trials_are_printed_as_lines_on_a_terminal(terminal):
    with ProgressDisplay(terminal) as display:
        display(Progress("trial-ended", "went well", "t1", "plain", 1, 2, 1, 3, "ok"))
        display(Progress("trial-ended", "was lost", "t2", "plain", 1, 2, 2, 3, "lost"))
    assert "was lost" in terminal.getvalue() and "went well" not in terminal.getvalue()


def test_bar_names_block_and_phase_and_moves_every_second(terminal, clock):
    with ProgressDisplay(terminal) as display:
        display(Progress("trial-started", "running", "t0009", "as-is", done=8, beside=3, **BLOCK))
        display(phase("starting services"))
        assert "block 3 of 10, starting services, 4 min left" in seen(terminal)
        clock.turn(1)
        assert "block 3 of 10, starting services 1 s, 4 min left" in seen(terminal)
        display(phase("load", 22.0))
        for second in (1, 2, 3):
            seen(terminal)
            clock.turn(1.01)
            assert f"block 3 of 10, load {second} of 22 s, 4 min left" in seen(terminal)
        display(phase("load", 10.0, trial="t0009", treatment="as-is"))
        assert "block 3 of 10  t0009 as-is, load 0 of 10 s, 4 min left" in seen(terminal)
        clock.turn(200)
        assert "40 s left" in seen(terminal)
    seen(terminal)
    clock.turn(10)
    assert seen(terminal) == ""  # nothing moves after the end


def test_log_has_one_line_for_each_block_and_one_after_half_a_minute_without(clock):
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        display(Progress("trial-started", "running", "t0009", "as-is", done=8, beside=3, **BLOCK))
        display(phase("load", 100.0))
        printed = []
        for _ in range(60):
            clock.turn(1)
            printed.append(seen(stream))
        assert [text for text in printed if text] == [
            "[8/40] block 3 of 10, load 29 of 100 s, 4 min left\n",
            "[8/40] block 3 of 10, load 58 of 100 s, 3 min left\n",
        ]
        for done in (9, 10, 11, 12):
            display(ended(done, beside=12 - done))
        assert seen(stream) == "[12/40] block 3 of 10: 4 trials ok, 4 min left\n"
        clock.turn(60)
        assert seen(stream) == ""  # between blocks


def test_log_has_one_line_a_second_at_most_and_the_last_one_always(clock):
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        for done in range(31, 41):
            display(ended(done))
            clock.turn(0.3)
    assert [line.partition(" ")[0] for line in seen(stream).splitlines()] == [
        "[31/40]",
        "[35/40]",
        "[39/40]",
        "[40/40]",
    ]


REASON = "{} error responses. Raise validity.error_share, if failing is what is studied."


def test_reason_of_failed_trials_is_printed_once_and_the_others_are_counted(terminal, clock):
    log = io.StringIO()
    for stream in (log, terminal):
        with ProgressDisplay(stream) as display:
            for done in (1, 2, 3):
                display(ended(done, "invalid", REASON.format(700 + done)))
                clock.turn(5)
            display(ended(4, "lost", "web was rebooted", treatment="other"))
    assert [line.rstrip() for line in seen(log).splitlines()] == [
        "[1/40] block 3 of 10  t0001 tuned: invalid: 701 error responses. "
        "Raise validity.error_share, if failing is what is studied; 4 min left",
        "[2/40] block 3 of 10  t0002 tuned: invalid, as t0001; 4 min left",
        "[3/40] block 3 of 10  t0003 tuned: invalid, as t0001; 4 min left",
        "[4/40] block 3 of 10  t0004 other: lost: web was rebooted; 4 min left",
        "t0001 tuned: invalid, the same in 2 more trials",
    ]
    displayed = seen(terminal)
    assert displayed.count("error responses") == 1 and "as t0001" not in displayed
    assert "t0001 tuned: invalid, the same in 2 more trials" in displayed


def test_line_on_a_block_has_the_reasons_of_its_failed_trials(clock):
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        for _ in range(2):
            display(ended(9, "invalid", "no work.", beside=1))
            display(ended(10, treatment="as-is"))
            clock.turn(5)
    assert seen(stream).splitlines() == [
        "[10/40] block 3 of 10: 1 of 2 trials ok; t0009 tuned: invalid: no work; 4 min left",
        "[10/40] block 3 of 10: 1 of 2 trials ok; t0009 tuned: invalid, as t0009; 4 min left",
        "t0009 tuned: invalid, the same in 1 more trial",
    ]


def test_next_run_on_the_same_bar_begins_anew(terminal, clock):
    with ProgressDisplay(terminal) as display:
        display(ended(3, "invalid", "no work"))
        display(ended(4, "invalid", "no work"))
        display(Progress("note", "new run r2", run="r2"))
        displayed = seen(terminal)
        assert displayed.index("the same in 1 more trial") < displayed.index("new run r2")
        display(Progress("trial-started", "running", "t0001", "as-is", 1, 2, 0, 6))
        assert "0/6" in seen(terminal)
        display(Progress("trial-ended", "invalid: no work", "t0001", "tuned", 1, 2, 1, 6, "invalid"))
        assert "no work" in seen(terminal)
