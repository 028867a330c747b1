"""Percentiles of a trial: which its requests can measure at all (statistics.md 3.12).

A percentile q of N requests rests on the N (1 - q) beyond it. Below 20 of them it is biased and scatters by a tenth and
more: it is not measurable. From 200 on it is good.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

REQUEST_TIMES = ("latency", "latency_intended", "service_time")
GOOD_TAIL_REQUESTS = 200  # requests beyond a percentile
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")


def share_beyond(statistic: str) -> float | None:
    """Return the share of requests beyond a percentile, 0.01 for p99; None for what is no percentile."""
    match = _PERCENTILE.fullmatch(statistic)
    return 1 - float(match[1]) / 100 if match and float(match[1]) < 100 else None


def requests_needed(statistic: str, least: float) -> int:
    """Return how many requests a trial needs for a percentile, so that `least` of them lie beyond it."""
    return math.ceil(least / (share_beyond(statistic) or 1.0) - 1e-6)


def tail_requests(metric: str, statistic: str, requests: pd.Series) -> pd.Series | None:
    """Return how many of each trial's requests lie beyond a percentile; None for other metrics and statistics."""
    share = share_beyond(statistic)
    return None if share is None or metric not in REQUEST_TIMES else requests * share


def has_short_tail(metric: str, statistic: str, requests: pd.Series, least: float) -> pd.Series:
    """Tell for each trial whether too few of its requests lie beyond a percentile; not so where they are not known."""
    tail = tail_requests(metric, statistic, requests)
    return requests.isna() & False if tail is None else tail < least - 1e-9
