"""What services counted -> rows of `traces`: each counter as it stood before the load and after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from loadbook.records.manifest import ServiceRecord, TrialRecord

# a service's counter -> its metric; others have their own names
METRICS = {"requests": "served_requests", "connections": "accepted_connections"}
SOURCE = "service"
TIME_DIGITS = 4

Row = dict[str, Any]


class CounterReset(NamedTuple):
    """A counter that was lower after the load than before it: its service was started again, or another answered."""

    host: str
    message: str


def counter_rows(record: TrialRecord) -> tuple[list[Row], list[CounterReset]]:
    """Return rows of a trial's counters, two for each that was read twice, and those that went back.

    Their times are those of the load's start and end, warm-up included; 0 is the start of the window.
    """
    times = _load_times(record)
    rows: list[Row] = []
    resets: list[CounterReset] = []
    for service in record.services if times else ():
        for name, before, after in _counter_pairs(service):
            if after < before:
                service_text = f"role {service.role}: {service.service}"
                resets.append(CounterReset(service.host, f"{service_text} counted {before:.0f} {name}, then {after:.0f}"))
                continue
            rows += [_counter_row(service, name, t, value) for t, value in zip(times, (before, after), strict=True)]
    return rows, resets


def _load_times(record: TrialRecord) -> tuple[float, ...]:
    """Return when the load began and ended, seconds from the window's start; nothing where that is not known."""
    began = [d.started_ours for d in record.drivers if d.started_ours is not None]
    ended = [d.ended_ours for d in record.drivers if d.ended_ours is not None]
    if record.window is None or not began or not ended:
        return ()
    return tuple(round(t - record.window[0], TIME_DIGITS) for t in (min(began), max(ended)))


def _counter_pairs(service: ServiceRecord) -> Iterator[tuple[str, float, float]]:
    for name, before in sorted(service.counters_before.items()):
        if name in service.counters_after:
            yield name, before, service.counters_after[name]


def _counter_row(service: ServiceRecord, name: str, t_s: float, value: float) -> Row:
    return {
        "host": service.host,
        "role": service.role,
        "t_s": t_s,
        "metric": METRICS.get(name, name),
        "item": service.service,
        "value": float(value),
        "unit": "1",
        "source": SOURCE,
    }
