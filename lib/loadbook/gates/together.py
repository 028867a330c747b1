"""Rule about several drivers: did they measure at the same time? Sums over drivers mean something only then."""

from __future__ import annotations

from collections.abc import Iterator

from loadbook.core.units import format_percent, format_duration
from loadbook.gates.base import Evidence, RuleHit, Severity
from loadbook.records.spans import clock_error_s, measurement_spans


def drivers_apart(evidence: Evidence) -> Iterator[RuleHit]:
    """Judge the share of the time from first start to last end in which not every driver was measuring."""
    record, limits = evidence.record, evidence.thresholds
    if len(record.drivers) < 2:
        return
    spans = measurement_spans(record.drivers, record.clocks)
    if spans is None:
        yield evidence.unchecked("drivers_apart", "it is not recorded when each driver measured")
        return
    total_s = spans.full_span[1] - spans.full_span[0]
    if spans.non_overlap_share > limits.drivers_apart_doubt:
        level: Severity = "invalid" if spans.non_overlap_share > limits.drivers_apart else "doubt"
        overlap_s = total_s * (1 - spans.non_overlap_share)
        observation = f"all {len(record.drivers)} drivers were at work for {format_duration(overlap_s)} of {format_duration(total_s)}"
        yield evidence.hit("drivers_apart", level, f"{observation}, their starts {format_duration(spans.start_skew_s)} apart")
    elif (error_s := clock_error_s(record)) > limits.drivers_apart_doubt * total_s:
        observation = (
            f"the drivers' clocks are known to {format_duration(error_s)} only, {format_percent(error_s / total_s, 0, signed=False)}"
        )
        yield evidence.hit("drivers_apart", "doubt", f"{observation} of the measurement")
