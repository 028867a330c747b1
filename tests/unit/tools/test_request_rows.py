"""Rules on rows that several tools have in common."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from loadbook.tools.base import Measurement, ParsedReport
from loadbook.tools.request_rows import FEW_SHARE, with_hardly_moved

PERCENTS = (1.0, 50.0, 90.0, 99.0, 99.9)


def nearest_rank(times: list[float], percent: float) -> float:
    return sorted(times)[max(1, math.ceil(percent / 100 * len(times) - 1e-9)) - 1]


@given(
    answered=st.lists(st.floats(0.001, 1.0), min_size=100, max_size=3000),
    unanswered=st.lists(st.sampled_from([0.0, 30.0]), max_size=20),
)
def test_percentile_of_all_attempts_stands_for_that_of_answered_ones_within_a_share_of_its_tail(
    answered: list[float], unanswered: list[float]
) -> None:
    attempts = [*answered, *unanswered]
    rows = [Measurement("attempt_time", f"p{p:g}", nearest_rank(attempts, p), "s", None) for p in PERCENTS]
    rows.append(Measurement("attempt_time", "mean", sum(attempts) / len(attempts), "s", None))
    report = ParsedReport(tuple(rows), doubts=(("unanswered", "some"),))
    found = with_hardly_moved(report, "latency", len(unanswered), len(attempts))
    kept = {row.statistic: row.value for row in found.measurements if row.metric == "latency"}
    assert "mean" not in kept and set(report.measurements) <= set(found.measurements)
    for percent in PERCENTS:
        beyond = len(attempts) * min(percent, 100 - percent) / 100
        assert (f"p{percent:g}" in kept) == (len(unanswered) <= FEW_SHARE * beyond)
        if f"p{percent:g}" in kept:
            shift = 100 * FEW_SHARE * min(percent, 100 - percent) / 100 + 200 / len(answered)
            low, high = (nearest_rank(answered, min(100.0, max(0.0, percent + s))) for s in (-shift, shift))
            assert low <= kept[f"p{percent:g}"] <= high
    assert (found.doubts != report.doubts) == bool(kept)


def test_percentile_that_is_there_already_is_not_given_twice() -> None:
    rows = tuple(Measurement(metric, "p50", 0.1, "s", None) for metric in ("attempt_time", "latency"))
    report = ParsedReport(rows)
    assert with_hardly_moved(report, "latency", 1, 100_000) is report
