"""The mode of plain trials."""

from __future__ import annotations

from loadbook.modes.base import Mode
from loadbook.store.trial_record import TrialRecord


class PlainMode(Mode):
    """Trials run one after the other, in a random order within each block."""

    name = "plain"

    def has_made(self, record: TrialRecord) -> bool:
        """Return True: every other mode has been asked before."""
        return True


MODE = PlainMode()
