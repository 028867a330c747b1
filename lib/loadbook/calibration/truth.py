"""The truth of one trial of a calibration: the server's record of its requests, and what users would have waited.

The server (`services/go-app`, `record = "on"`) writes a line to its log at every probe: the requests since the one
before. The load is the line with the most requests; the others are fetches of the page before and after it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from loadbook.calibration.cases import DURATION_S, HOLD_LIMITED_S, Case
from loadbook.core.errors import DataError

OVERLOAD_SHARE = 0.9  # of the offered rate; a server that answered less was at its capacity
STATISTICS = ("p50", "p90", "p99", "max")
_LINE = re.compile(r"^record (\{.*\})$", re.MULTILINE)


class ServerRecord(BaseModel):
    """Requests of one load as the server saw them; times in seconds.

    `span_s` is the time from the first request to the last response. `held_s` has the keys mean, p50, p90, p99
    (nearest rank) and max of the time from a request to its response. `freeze_s` is begin and end of the freeze,
    since the first request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests: int
    errors: int
    connections: int
    span_s: float
    held_s: dict[str, float] | None
    freeze_s: tuple[float, float] | None


def read_record(log: Path) -> ServerRecord:
    """Return the record of the load in a server's log; DataError if it has none."""
    text = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
    try:
        records = [ServerRecord.model_validate(json.loads(line)) for line in _LINE.findall(text)]
    except (ValueError, ValidationError) as error:
        raise DataError(f"{log}: a record of the server is broken: {error}") from error
    load = max(records, key=lambda record: record.requests, default=None)
    if load is None or not load.requests or load.held_s is None:
        raise DataError(f"{log}: the server recorded no request")
    return load


def user_waits_s(case: Case, record: ServerRecord) -> dict[str, float] | None:
    """Return how long users would have waited (s) who arrive evenly at the case's rate: keys p50, p90, p99 and max.

    A user who arrives in a freeze waits for its end and then for the response, which takes the median that the server
    recorded; above the rate that the server could answer, users queue. None where nobody had to wait, so that the times
    that the server held requests are the users', too; also for a closed loop, whose users do not arrive, and for a
    server that is slow on new connections, since the tool decides how many it opens.
    """
    if case.rate_per_s is None or record.held_s is None:
        return None
    arrivals_s = np.arange(round(case.rate_per_s * DURATION_S)) / case.rate_per_s
    answered_per_s = record.requests / record.span_s
    if case.behaviour == "limited" and answered_per_s < OVERLOAD_SHARE * case.rate_per_s:
        waits_s = HOLD_LIMITED_S + arrivals_s * (case.rate_per_s / answered_per_s - 1)
    elif record.freeze_s:
        begin, end = record.freeze_s
        is_frozen = (arrivals_s >= begin) & (arrivals_s < end)
        waits_s = record.held_s["p50"] + np.where(is_frozen, end - arrivals_s, 0.0)
    else:
        return None
    return {"max": float(waits_s.max())} | {
        name: float(np.quantile(waits_s, int(name[1:]) / 100, method="inverted_cdf")) for name in STATISTICS[:-1]
    }
