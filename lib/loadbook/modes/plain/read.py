"""What ingestion reads of a trial besides the outputs of its load generators, by how it was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from loadbook.modes.base import mode_of_record
from loadbook.store.trial_record import TrialRecord

if TYPE_CHECKING:
    from loadbook.host_metrics import TraceRow
    from loadbook.ingestion.trial_rows import TrialRows
    from loadbook.tools.base import ParsedReport


class PlainRead:
    """What a mode reads of a trial; the methods of this class are those of plain trials."""

    def own_reports(
        self, rows: TrialRows, folder: Path, changed: Sequence[str], parsed: Mapping[str, ParsedReport]
    ) -> dict[str, ParsedReport]:
        """Return host -> report of a driver, as it counts for the trial.

        `folder` is that of the trial, `changed` names its files that no longer match their sha256, and `parsed` leads
        from hosts to reports as the load generators wrote them.
        """
        return dict(parsed)

    def own_samples(self, record: TrialRecord, points: Sequence[TraceRow]) -> Sequence[Mapping[str, Any]]:
        """Return the trace rows of a host that belong to the trial, from all those of its monitor (`points`)."""
        return points

    def add_rows(self, rows: TrialRows, folder: Path) -> None:
        """Add rows that only trials of this mode have."""


FACET = PlainRead()


def read_of(record: TrialRecord) -> PlainRead:
    """Return what the mode reads whose trial has this record."""
    return cast("PlainRead", mode_of_record(record).facet("read"))
