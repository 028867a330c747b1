"""How many connections an application is sent for each request that it answers: the proof that pooling pools.

Counted by the application itself, before the load and after it, never by the load generator or the proxy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import joined
from loadbook.stats.evenness import rises

if TYPE_CHECKING:
    import pandas as pd

REUSED = 0.9  # connections per request: below it requests came on a connection that was there
OFTEN = 0.5  # from here on a number is plainer than "1 for so many"
DIGITS = 2


def opened(traces: pd.DataFrame, trials: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Return one row per trial that these roles' services counted: trial, treatment, block, valid, requests, ...

    ... `connections` (accepted during the load) and `value`, connections per request. A trial in which they answered
    nothing has no row.
    """
    own = traces[traces["role"].isin(roles)]
    counted = {name: rises(own, name) for name in ("served_requests", "accepted_connections")}
    totals = {name: _by_trial(found) for name, found in counted.items()}
    found = trials[["trial", "treatment", "block", "valid"]].assign(
        requests=trials["trial"].map(totals["served_requests"]),
        connections=trials["trial"].map(totals["accepted_connections"]),
    )
    found = found[(found["requests"] > 0) & found["connections"].notna()].reset_index(drop=True)
    return found.assign(value=found["connections"] / found["requests"])


def _by_trial(rises_of: dict[tuple[str, str], float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for (trial, _), rise in rises_of.items():
        totals[trial] = totals.get(trial, 0.0) + rise
    return totals


def usual(found: pd.DataFrame, treatments: Sequence[str]) -> dict[str, float]:
    """Return treatment -> median of connections per request over its trials that count, for those that have one."""
    medians = found[found["valid"]].groupby("treatment")["value"].median()
    return {name: float(medians[name]) for name in treatments if name in medians}


def words(per_request: float) -> str:
    """Return "1.00 per request", or of connections that are used again and again "1 for 2,300 requests"."""
    if per_request <= 0:
        return "none opened"
    if per_request >= OFTEN:
        return f"{per_request:.{DIGITS}f} per request"
    requests = 1 / per_request
    return f"1 for {round(requests, DIGITS - 1 - math.floor(math.log10(requests))):,.0f} requests"


def sentence(medians: dict[str, float], names: dict[str, str]) -> str:
    """Return which treatments use connections again, and what the others open."""
    if not medians:
        return "Not known: no application counted its connections."
    again = [f"{names[t]} ({words(value)})" for t, value in medians.items() if value < REUSED]
    each = [value for value in medians.values() if value >= REUSED]
    spread = words(min(each)) if each and words(min(each)) == words(max(each)) else ""
    rest = spread or (f"{min(each):.{DIGITS}f} to {words(max(each))}" if each else "")
    if not again:
        return f"No connection is used again: {rest}."
    others = f"; {'every other way opens' if each else ''} {rest}" if each else ""
    return f"Connections are used again by {joined(again)}{others}."
