"""What every reader makes of a log: batches of rows in arrays, in the same columns whatever the tool."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


class LogRowKind(IntEnum):
    """What a row of a log stands for; only requests (and the counts of aggregates) enter totals."""

    REQUEST = 0
    TRANSACTION = 1  # JMeter's transaction controller: its children have rows of their own
    PART = 2  # JMeter's sub-result: a redirect or embedded resource, already in its parent's time
    AGGREGATE = 3  # several requests in one row (SampleCount is not 1): counts, but no time of any one of them


# how an attempt ended: names of metrics, ok first
OUTCOMES = (
    "ok", "errors_connect", "errors_timeout", "errors_read", "errors_write",
    "errors_status", "errors_length", "errors_driver", "errors_other",
)  # fmt: skip
OUTCOME_NAMES = (*OUTCOMES, "unknown")  # where the log does not tell (ab)
OUTCOME_CODES = {name: code for code, name in enumerate(OUTCOME_NAMES)}


MAX_SPAN_US = 30 * 86400 * 10**6


def first_far_row(start_us: Ints, first_us: int) -> int | None:
    """Return the first row that starts more than 30 days from `first_us`, None if all are near."""
    if max(first_us - int(start_us.min()), int(start_us.max()) - first_us) <= MAX_SPAN_US:
        return None
    return int(np.argmax(np.abs(start_us - first_us) > MAX_SPAN_US))


class Damage(NamedTuple):
    """Something in a file that is no row: `name` (torn, nul, header, ...), its line (1-based), and what it means."""

    name: str
    line: int
    message: str


@dataclass
class RequestBatch:
    """Consecutive rows of one log; arrays are of one length. Times are whole ticks of `tick_us` microseconds.

    Parameters
    ----------
    label : number of each row's label in `labels`.
    elapsed : duration in ticks.
    outcome : number in ENDS.
    answered : a response came, of whatever status.
    status : HTTP status, 0 where there is none.
    kind : Kind.
    start_us : microseconds since 1970 by the driver's clock; None where the log has no times of day.
    exact_starts : starts are to the tick; False where they are whole seconds (ab), which give a series but no duration.
    timed : rows whose duration is that of a request; None for all.
    first_byte : ticks to the first byte; received : bytes; both None where the log does not tell.
    connect : ticks that opening a connection took, 0 where none was opened; None where the log does not tell.
    samples, failed : JMeter's SampleCount and ErrorCount, None where all rows are single requests.
    damage : what was found between the rows.
    """

    labels: list[str]
    label: NDArray[np.integer]
    elapsed: Ints
    outcome: NDArray[np.uint8]
    answered: NDArray[np.bool_]
    status: NDArray[np.int16]
    kind: NDArray[np.uint8]
    tick_us: int
    start_us: Ints | None = None
    exact_starts: bool = True
    timed: NDArray[np.bool_] | None = None
    first_byte: Ints | None = None
    received: Ints | None = None
    connect: Ints | None = None
    samples: Ints | None = None
    failed: Ints | None = None
    damage: list[Damage] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.elapsed)

    def started_since(self, started_s: float | None) -> RequestBatch:
        """Return the rows that started at or after a time (seconds since 1970) by the driver's clock; all for None."""
        if started_s is None or self.start_us is None or not self.exact_starts:
            return self
        return self.take(self.start_us >= int(started_s * 1e6))

    def take(self, mask: NDArray[np.bool_]) -> RequestBatch:
        """Return the rows where `mask` is true (without the damage)."""
        arrays = {f.name: getattr(self, f.name) for f in fields(self)}
        taken: dict[str, Any] = {name: a[mask] if isinstance(a, np.ndarray) else a for name, a in arrays.items()}
        return RequestBatch(**taken | {"damage": []})
