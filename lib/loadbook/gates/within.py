"""The rule on what happens within trials: whether a treatment's rate holds still while it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import format_p_value, format_percent
from loadbook.gates.base import RuleHit, message
from loadbook.records.manifest import TrialRecord

if TYPE_CHECKING:
    import pandas as pd

UNSTEADY = "unsteady"


def unsteady(records: Sequence[TrialRecord], samples: pd.DataFrame) -> Iterator[RuleHit]:
    """Judge each treatment by the rates per second of all its trials together.

    Parameters
    ----------
    records : trials that count.
    samples : the samples table (trial, driver, series, metric, x, value).
    """
    from loadbook.stats.hygiene.within import MIN_SERIES_S, rate_series, rate_trends

    if not records:
        return
    trends_by_treatment = rate_trends(samples, {record.trial: record.treatment for record in records})
    unknown = [treatment for treatment, trend in trends_by_treatment.items() if trend is None]
    if len(unknown) == len(trends_by_treatment):
        series = rate_series(samples)
        longest_s = max((series[record.trial].duration_s for record in records if record.trial in series), default=None)
        tools = " and ".join(dict.fromkeys(record.tool for record in records))
        reason = f"no rates per second of {tools}"
        if longest_s is not None:
            reason = f"at most {longest_s:g} s of rates per second, {MIN_SERIES_S:g} s are needed"
        yield RuleHit(UNSTEADY, "unchecked", None, None, None, f"not checked: {reason}")
        return
    for treatment, trend in trends_by_treatment.items():
        if trend is None:
            text = f"not checked: {treatment}: no rates per second over {MIN_SERIES_S:g} s"
            yield RuleHit(UNSTEADY, "unchecked", None, treatment, None, text)
        elif trend.moving:
            observation = f"{treatment}: the rate moved by {format_percent(trend.change)} after the first ten seconds of its trials"
            yield RuleHit(UNSTEADY, "doubt", None, treatment, None, message(UNSTEADY, f"{observation} (p {format_p_value(trend.p)})"))
