"""Ctrl-C at the worst moment: while the progress of a run is being written."""

from __future__ import annotations

import io
import os
import signal
import sys
from pathlib import Path

import pytest

from loadbook.cli.terminal import handle_interrupts


class InterruptedOnce(io.RawIOBase):
    """A terminal on which Ctrl-C is pressed during the first write."""

    pressed = False

    def writable(self):
        return True

    def write(self, data):
        if not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
        return len(data)


@pytest.fixture
def interrupt_handler():
    """Hear Ctrl-C: a shell starts what it puts into the background (these tests, perhaps) deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_interrupt_while_stderr_is_written_is_handled(monkeypatch, capfd, interrupt_handler):
    terminal = io.TextIOWrapper(io.BufferedWriter(InterruptedOnce()), write_through=True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with pytest.raises(KeyboardInterrupt), handle_interrupts(Path("hosts.toml"), "loadbook run aa"):
        print("block 1 of 6", file=sys.stderr, flush=True)
    err = capfd.readouterr().err
    assert "interrupted: the load is ended and hosts are put back; press Ctrl-C again to stop without waiting" in err
