"""Rates per second of logs that hold every request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadbook.tools.base import Sample

if TYPE_CHECKING:
    from loadbook.requests.summary import Summary


def per_second_samples(figures: Summary) -> Iterator[Sample]:
    """Yield what ended in each second of the driver's clock: the first and the last are seldom whole."""
    for second, answered, ok, errors in figures.per_second_counts():
        yield Sample("ended", "requests_per_s", second, "s", answered, "1/s")
        yield Sample("ended", "ok_per_s", second, "s", ok, "1/s")
        yield Sample("ended", "errors", second, "s", errors, "1")
