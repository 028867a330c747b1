"""The rule on what happens within trials: whether a treatment's rate holds still while it is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import p_value, percent
from loadbook.gates.base import Hit, message
from loadbook.records.manifest import TrialRecord

if TYPE_CHECKING:
    import pandas as pd

NAME = "unsteady"


def unsteady(records: Sequence[TrialRecord], samples: pd.DataFrame) -> Iterator[Hit]:
    """Judge each treatment by the rates per second of all its trials together.

    Parameters
    ----------
    records : trials that count.
    samples : the samples table (trial, driver, series, metric, x, value).
    """
    from loadbook.stats.hygiene.within import NEEDED_S, series_of, trends

    if not records:
        return
    found = trends(samples, {record.trial: record.treatment for record in records})
    unknown = [treatment for treatment, trend in found.items() if trend is None]
    if len(unknown) == len(found):
        told = series_of(samples)
        longest = max((told[record.trial].seconds for record in records if record.trial in told), default=None)
        tools = " and ".join(dict.fromkeys(record.tool for record in records))
        lacking = f"no rates per second of {tools}"
        if longest is not None:
            lacking = f"at most {longest:g} s of rates per second, {NEEDED_S:g} s are needed"
        yield Hit(NAME, "unchecked", None, None, None, f"not checked: {lacking}")
        return
    for treatment, trend in found.items():
        if trend is None:
            said = f"not checked: {treatment}: no rates per second over {NEEDED_S:g} s"
            yield Hit(NAME, "unchecked", None, treatment, None, said)
        elif trend.moving:
            seen = f"{treatment}: the rate moved by {percent(trend.change)} after the first ten seconds of its trials"
            yield Hit(NAME, "doubt", None, treatment, None, message(NAME, f"{seen} (p {p_value(trend.p)})"))
