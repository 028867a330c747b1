"""Rule about several drivers: did they measure at the same time? Sums over drivers mean something only then."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.units import percent, seconds
from loadbook.gates.base import Evidence, Hit, Level
from loadbook.records.spans import clock_error_s, spans_of


def drivers_apart(evidence: Evidence) -> Iterator[Hit]:
    """Judge the share of the time from first start to last end in which not every driver was measuring."""
    record, limits = evidence.record, evidence.thresholds
    if len(record.drivers) < 2:
        return
    spans = spans_of(record.drivers, record.clocks)
    if spans is None:
        yield evidence.unchecked("drivers_apart", "it is not recorded when each driver measured")
        return
    whole_s = spans.whole[1] - spans.whole[0]
    if spans.apart > limits.drivers_apart_doubt:
        level: Level = "invalid" if spans.apart > limits.drivers_apart else "doubt"
        together_s = whole_s * (1 - spans.apart)
        seen = f"all {len(record.drivers)} drivers were at work for {seconds(together_s)} of {seconds(whole_s)}"
        yield evidence.hit("drivers_apart", level, f"{seen}, their starts {seconds(spans.skew_s)} apart")
    elif (error_s := clock_error_s(record)) > limits.drivers_apart_doubt * whole_s:
        seen = (
            f"the drivers' clocks are known to {seconds(error_s)} only, {percent(error_s / whole_s, 0, signed=False)}"
        )
        yield evidence.hit("drivers_apart", "doubt", f"{seen} of the measurement")
