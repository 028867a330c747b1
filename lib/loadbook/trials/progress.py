"""What a run tells while it runs: one small value per event, for the terminal, a log or a notebook."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from loadbook.core.text import one_line
from loadbook.core.units import format_remaining_time

Kind = Literal["note", "trial-started", "trial-ended"]


@dataclass(frozen=True)
class Progress:
    """One event; `remaining_s` is the expected time (s) to the end of the plan, None where it is not known.

    `run` is the run's id, in the one event that says which it is.
    """

    kind: Kind
    message: str
    trial: str | None = None
    treatment: str | None = None
    block: int = 0
    blocks: int = 0
    done: int = 0
    total: int = 0
    status: str | None = None
    remaining_s: float | None = None
    run: str | None = None

    def line(self) -> str:
        """Return the event as one line of plain text."""
        if self.kind == "note":
            return one_line(self.message)
        where = f"[{self.done}/{self.total}] block {self.block} of {self.blocks}"
        return f"{where}  {self.trial}  {self.treatment}: {one_line(self.message)}{self.remaining_text()}"

    def remaining_text(self) -> str:
        """Return the expected time to the end as words that follow others; nothing where it is not known."""
        return "" if self.remaining_s is None else f", {format_remaining_time(self.remaining_s)}"


OnEvent = Callable[[Progress], None]


def ignore_event(event: Progress) -> None:
    """Do nothing with an event."""
