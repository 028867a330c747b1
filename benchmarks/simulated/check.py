"""A simulation and the rows of the validation that it measures."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Measure = Callable[[np.random.Generator, int], Sequence[float]]


@dataclass(frozen=True)
class Row:
    """One figure: the claim that it belongs to, the case, and the limits (percent) between which it must lie."""

    claim: str
    case: str
    low: float = -math.inf
    high: float = math.inf

    @property
    def limited(self) -> bool:
        """Tell whether the row can be outside; the others are for information."""
        return math.isfinite(self.low) or math.isfinite(self.high)

    @property
    def limits(self) -> str:
        """Return the limits in words."""
        if math.isfinite(self.low) and math.isfinite(self.high):
            return f"{self.low:g} to {self.high:g}"
        if math.isfinite(self.low):
            return f">= {self.low:g}"
        return f"<= {self.high:g}" if math.isfinite(self.high) else "-"


@dataclass(frozen=True)
class Result:
    """A measured row; `slack` widens the limits of a short version by so many standard errors of a share."""

    row: Row
    value: float
    studies: int
    slack: float = 0.0

    @property
    def ok(self) -> bool:
        """Tell whether the figure lies within its limits."""
        share = min(max(self.value, 4.0), 96.0)
        error = self.slack * math.sqrt(share * (100 - share) / self.studies)
        return self.row.low - error <= self.value <= self.row.high + error


@dataclass(frozen=True)
class Simulation:
    """`measure(rng, studies)` returns one figure per row; the seed belongs to the rows, so that each can run alone."""

    measure: Measure
    rows: tuple[Row, ...]

    def run(self, studies: int, slack: float = 0.0) -> list[Result]:
        """Measure all rows."""
        seed = zlib.crc32(repr([(row.claim, row.case) for row in self.rows]).encode())
        values = self.measure(np.random.default_rng(seed), studies)
        return [Result(row, float(v), studies, slack) for row, v in zip(self.rows, values, strict=True)]


def percent(hits: Sequence[bool] | np.ndarray | np.bool) -> float:
    """Return the share of hits in percent."""
    return 100 * float(np.mean(hits))
