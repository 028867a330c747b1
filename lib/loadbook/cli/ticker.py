"""How far something is, said while it lasts."""

from __future__ import annotations

import time
from typing import TextIO


class Ticker:
    """Says how far something is, from its third second on: every few seconds, on a terminal in one line."""

    FIRST_S, EVERY_S = 2.0, 5.0

    def __init__(self, stream: TextIO, what: str) -> None:
        self.stream, self.what, self.live = stream, what, stream.isatty()
        self.next = time.monotonic() + self.FIRST_S
        self.said = False

    def __call__(self, done: int, total: int) -> None:
        """Tell that `done` of `total` are done."""
        if time.monotonic() < self.next and not (self.said and done == total):
            return
        self.said = True
        self.next = time.monotonic() + (0.2 if self.live else self.EVERY_S)
        end = ("\r" if done < total else "\n") if self.live else "\n"
        self.stream.write(f"{done} of {total} {self.what}{end}")
        self.stream.flush()
