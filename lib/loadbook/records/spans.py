"""When each driver of a trial measured, by our clock: all times that several hosts tell are compared only here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from loadbook.records.manifest import ClockRecord, DriverRecord, TrialRecord


class MeasurementSpans(NamedTuple):
    """Start and end of every driver's measurement by host, epoch seconds by our clock."""

    by_host: Mapping[str, tuple[float, float]]

    @property
    def window(self) -> tuple[float, float] | None:
        """Time in which every driver was measuring; None where there is none."""
        opened, closed = max(start for start, _ in self.by_host.values()), min(end for _, end in self.by_host.values())
        return (opened, closed) if opened < closed else None

    @property
    def full_span(self) -> tuple[float, float]:
        """Time from the first start to the last end."""
        return min(start for start, _ in self.by_host.values()), max(end for _, end in self.by_host.values())

    @property
    def start_skew_s(self) -> float:
        """Seconds between the first and the last start."""
        starts = [start for start, _ in self.by_host.values()]
        return max(starts) - min(starts)

    @property
    def non_overlap_share(self) -> float:
        """Share (0 to 1) of the whole in which not every driver was measuring."""
        length = self.full_span[1] - self.full_span[0]
        together = self.window[1] - self.window[0] if self.window else 0.0
        return 1 - together / length if length > 0 else 0.0


def measurement_spans(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> MeasurementSpans | None:
    """Return when the drivers measured, None where it is not known of each."""
    spans = {
        d.host: (d.started_host - clocks[d.host].offset_before_s, d.ended_host - clocks[d.host].offset_before_s)
        for d in drivers
        if d.started_host is not None and d.ended_host is not None and d.host in clocks
    }
    return MeasurementSpans(spans) if spans and len(spans) == len(drivers) else None


def window_fields(drivers: Sequence[DriverRecord], clocks: Mapping[str, ClockRecord]) -> dict[str, Any]:
    """Return the fields of a trial's record that follow from its drivers' times: `window` and `start_skew_s`."""
    spans = measurement_spans(drivers, clocks)
    skew_s = round(spans.start_skew_s, 6) if spans and len(drivers) > 1 else None
    return {"window": spans.window if spans else None, "start_skew_s": skew_s}


def clock_error_s(record: TrialRecord) -> float:
    """Return by how much the hosts' corrected clocks may differ at most: half of each probe's round trip, two hosts."""
    round_trips = sorted(record.clocks[d.host].rtt_before_s for d in record.drivers if d.host in record.clocks)
    return sum(round_trips[-2:]) / 2
