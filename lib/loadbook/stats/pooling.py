"""How many connections an application is sent for each request that it answers: the proof that pooling pools.

Counted by the application itself, before the load and after it, never by the load generator or the proxy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import join_words
from loadbook.stats.evenness import counter_increases

if TYPE_CHECKING:
    import pandas as pd

REUSE_LIMIT = 0.9  # connections per request: below it requests came on a connection that was there
MIN_DECIMAL_RATE = 0.5  # from here on a number is plainer than "1 for so many"
SIGNIFICANT_DIGITS = 2


def connections_per_request(traces: pd.DataFrame, trials: pd.DataFrame, roles: Sequence[str]) -> pd.DataFrame:
    """Return one row per trial that these roles' services counted: trial, treatment, block, valid, requests, ...

    ... `connections` (accepted during the load) and `value`, connections per request. A trial in which they answered
    nothing has no row.
    """
    own = traces[traces["role"].isin(roles)]
    increases = {name: counter_increases(own, name) for name in ("served_requests", "accepted_connections")}
    totals = {name: _total_by_trial(per_trial) for name, per_trial in increases.items()}
    per_trial = trials[["trial", "treatment", "block", "valid"]].assign(
        requests=trials["trial"].map(totals["served_requests"]),
        connections=trials["trial"].map(totals["accepted_connections"]),
    )
    per_trial = per_trial[(per_trial["requests"] > 0) & per_trial["connections"].notna()].reset_index(drop=True)
    return per_trial.assign(value=per_trial["connections"] / per_trial["requests"])


def _total_by_trial(increases: dict[tuple[str, str], float]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for (trial, _), increase in increases.items():
        totals[trial] = totals.get(trial, 0.0) + increase
    return totals


def median_per_request(per_trial: pd.DataFrame, treatments: Sequence[str]) -> dict[str, float]:
    """Return treatment -> median of connections per request over its trials that count, for those that have one."""
    medians = per_trial[per_trial["valid"]].groupby("treatment")["value"].median()
    return {name: float(medians[name]) for name in treatments if name in medians}


def per_request_text(per_request: float) -> str:
    """Return "1.00 per request", or of connections that are used again and again "1 for 2,300 requests"."""
    if per_request <= 0:
        return "none opened"
    if per_request >= MIN_DECIMAL_RATE:
        return f"{per_request:.{SIGNIFICANT_DIGITS}f} per request"
    requests = 1 / per_request
    return f"1 for {round(requests, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(requests))):,.0f} requests"


def pooling_sentence(medians: dict[str, float], names: dict[str, str]) -> str:
    """Return which treatments use connections again, and what the others open."""
    if not medians:
        return "Not known: no application counted its connections."
    reusing = [f"{names[t]} ({per_request_text(value)})" for t, value in medians.items() if value < REUSE_LIMIT]
    opening = [value for value in medians.values() if value >= REUSE_LIMIT]
    range_text = per_request_text(min(opening)) if opening and per_request_text(min(opening)) == per_request_text(max(opening)) else ""
    rest = range_text or (f"{min(opening):.{SIGNIFICANT_DIGITS}f} to {per_request_text(max(opening))}" if opening else "")
    if not reusing:
        return f"No connection is used again: {rest}."
    others = f"; {'every other way opens' if opening else ''} {rest}" if opening else ""
    return f"Connections are used again by {join_words(reusing)}{others}."
