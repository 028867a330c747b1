"""Slices of interleaved trials as rows of the table `samples`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from loadbook.store.trial_record import SLICE_SERIES

SLICE_S, ROUND_S = 0.025, 0.06


def slice_rows(
    trial: str, rate: float, noise: float, rng: np.random.Generator, rounds: int = 40
) -> Iterator[dict[str, Any]]:
    """Yield the slices of a trial: 25 ms each, bytes per second around `rate` with the relative scatter `noise`."""
    for number in range(rounds):
        values = (("slice", SLICE_S, "s"), ("received_per_s", rate * (1 + rng.normal(0, noise)), "B/s"))
        for metric, value, unit in values:
            yield {
                "trial": trial, "series": SLICE_SERIES, "metric": metric, "x": number * ROUND_S, "x_unit": "s",
                "value": float(value), "unit": unit,
            }  # fmt: skip
