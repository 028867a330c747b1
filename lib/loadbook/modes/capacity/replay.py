"""Searches for capacity are not played back."""

from __future__ import annotations

from pathlib import Path

from loadbook.core.errors import UsageError
from loadbook.hosts.replay import RecordedRun
from loadbook.modes.plain.replay import PlainReplay
from loadbook.study.plan import Plan


class CapacityReplay(PlainReplay):
    """How searches for capacity are played back: not at all."""

    def check(self, plan: Plan, recording: RecordedRun, hosts_file: Path) -> None:
        """Raise UsageError."""
        raise UsageError(
            f"{hosts_file} plays a run back, and a search for capacity cannot be played back: its loads follow from "
            "outcomes",
            "loadbook ingest makes its tables again from the recorded files",
        )


FACET = CapacityReplay()
