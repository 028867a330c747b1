"""When each driver of a trial measured, by our clock: all times that several hosts tell are compared only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from loadbook.records.manifest import ClockRecord, DriverRecord, TrialRecord


class Spans(NamedTuple):
    """Start and end of every driver's measurement by host, epoch seconds by our clock."""

    by_host: Mapping[str, tuple[float, float]]

    @property
    def window(self) -> tuple[float, float] | None:
        """Time in which every driver was measuring; None where there is none."""
        opened, closed = max(start for start, _ in self.by_host.values()), min(end for _, end in self.by_host.values())
        return (opened, closed) if opened < closed else None

    @property
    def skew_s(self) -> float:
        """Seconds between the first and the last start."""
        starts = [start for start, _ in self.by_host.values()]
        return max(starts) - min(starts)

    @property
    def apart(self) -> float:
        """Share (0 to 1) of the time from the first start to the last end in which not every driver was measuring."""
        ends = [end for _, end in self.by_host.values()]
        whole = max(ends) - min(start for start, _ in self.by_host.values())
        together = self.window[1] - self.window[0] if self.window else 0.0
        return 1 - together / whole if whole > 0 else 0.0


def spans_of(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> Spans | None:
    """Return when the drivers measured, None where it is not known of each."""
    found = {
        d.host: (d.started_host - clocks[d.host].offset_before_s, d.ended_host - clocks[d.host].offset_before_s)
        for d in drivers
        if d.started_host is not None and d.ended_host is not None and d.host in clocks
    }
    return Spans(found) if found and len(found) == len(drivers) else None


def start_skew(record: TrialRecord) -> float | None:
    """Return the seconds between the first and the last driver's start; None for one driver, or where not known."""
    spans = spans_of(record.drivers, record.clocks) if len(record.drivers) > 1 else None
    return spans.skew_s if spans else None


def clock_error_s(record: TrialRecord) -> float:
    """Return by how much the hosts' corrected clocks may differ at most: half of each probe's round trip, two hosts."""
    round_trips = sorted(record.clocks[d.host].rtt_before_s for d in record.drivers if d.host in record.clocks)
    return sum(round_trips[-2:]) / 2
