"""Rows of trials -> pairs of logs in complete blocks, and logs -> ratios minus 1. Here log(0) cannot happen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.errors import DataError
from loadbook.stats.result import Interval
from loadbook.stats.swaps import Floats

if TYPE_CHECKING:
    import pandas as pd

LARGEST_LOG = 700.0  # beyond, a ratio is no floating point number


@dataclass(frozen=True)
class Pairs:
    """Logs of both arms by complete block.

    `excluded` blocks were not complete; of these, `unusable` ones have a value that has no logarithm, and the others
    lack a trial.
    """

    treatment: str
    baseline: str
    blocks: tuple[object, ...]
    base: Floats
    other: Floats
    excluded: int
    unusable: int


def pair(values: pd.DataFrame, treatment: str, baseline: str) -> Pairs:
    """Pair two arms by block.

    Parameters
    ----------
    values : one row per trial: treatment, block, value and, if there, valid (rows that are not are left out).
        A value that is missing, not finite, zero or negative drops its block: zero throughput is a failed trial.
        A block in which any treatment ran was a block of both arms, too.

    Raises
    ------
    DataError : an arm has two rows in one block.
    """
    base, other = (_by_block(values, name) for name in (baseline, treatment))
    every = list(dict.fromkeys(values["block"].tolist()))
    both = np.array([[arm.get(block, math.nan) for arm in (base, other)] for block in every], float).reshape(-1, 2)
    usable = np.isfinite(both) & (both > 0)
    complete = usable.all(axis=1)
    logs = np.log(both[complete])
    given = np.array([[block in arm for arm in (base, other)] for block in every], bool).reshape(-1, 2)
    return Pairs(
        treatment=treatment,
        baseline=baseline,
        blocks=tuple(block for block, counts in zip(every, complete, strict=True) if counts),
        base=logs[:, 0],
        other=logs[:, 1],
        excluded=int((~complete).sum()),
        unusable=int((given & ~usable).any(axis=1).sum()),
    )


def complete_blocks(values: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return the values of those blocks in which every arm has one that counts: blocks down, arms across."""
    usable = values[values["valid"] & (values["value"] > 0)]
    return usable.pivot(index="block", columns="treatment", values="value").reindex(columns=list(arms)).dropna()


def _by_block(values: pd.DataFrame, treatment: str) -> dict[object, float]:
    own = (values["treatment"] == treatment).to_numpy(bool, na_value=False)
    blocks = values["block"][own].tolist()
    numbers = values["value"].to_numpy(float, na_value=math.nan)[own]
    if "valid" in values:
        numbers[~values["valid"].to_numpy(bool)[own]] = math.nan
    found = dict(zip(blocks, numbers, strict=True))
    if len(found) < len(blocks):
        repeated = next(block for k, block in enumerate(blocks) if block in blocks[:k])
        raise DataError(f"treatment {treatment!r} has more than one row in block {repeated}")
    return found


def ratio(log: float) -> float:
    """Return a log ratio as a ratio minus 1."""
    return math.expm1(min(log, LARGEST_LOG))


def ratios(logs: Interval | None) -> Interval | None:
    """Return an interval of log ratios as ratios minus 1."""
    return None if logs is None else (ratio(logs[0]), ratio(logs[1]))
