"""Rows of trials -> pairs of logs in complete blocks, and logs -> ratios minus 1. Here log(0) cannot happen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.errors import DataError
from loadbook.stats.result import Interval
from loadbook.stats.swaps import FloatArray

if TYPE_CHECKING:
    import pandas as pd

MAX_LOG = 700.0  # beyond, a ratio is no floating point number


@dataclass(frozen=True)
class PairedLogs:
    """Logs of both arms by complete block.

    `incomplete` blocks were not complete; of these, `unusable` ones have a value that has no logarithm, and the others
    lack a trial.
    """

    treatment: str
    baseline: str
    blocks: tuple[object, ...]
    base: FloatArray
    other: FloatArray
    incomplete: int
    unusable: int


def pair_arms(values: pd.DataFrame, treatment: str, baseline: str) -> PairedLogs:
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
    base, other = (_values_by_block(values, name) for name in (baseline, treatment))
    all_blocks = list(dict.fromkeys(values["block"].tolist()))
    arm_values = np.array([[arm.get(block, math.nan) for arm in (base, other)] for block in all_blocks], float).reshape(-1, 2)
    usable = np.isfinite(arm_values) & (arm_values > 0)
    complete = usable.all(axis=1)
    logs = np.log(arm_values[complete])
    present = np.array([[block in arm for arm in (base, other)] for block in all_blocks], bool).reshape(-1, 2)
    return PairedLogs(
        treatment=treatment,
        baseline=baseline,
        blocks=tuple(block for block, counts in zip(all_blocks, complete, strict=True) if counts),
        base=logs[:, 0],
        other=logs[:, 1],
        incomplete=int((~complete).sum()),
        unusable=int((present & ~usable).any(axis=1).sum()),
    )


def complete_blocks(values: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return the values of those blocks in which every arm has one that counts: blocks down, arms across."""
    usable = values[values["valid"] & (values["value"] > 0)]
    return usable.pivot(index="block", columns="treatment", values="value").reindex(columns=list(arms)).dropna()


def _values_by_block(values: pd.DataFrame, treatment: str) -> dict[object, float]:
    is_arm = (values["treatment"] == treatment).to_numpy(bool, na_value=False)
    blocks = values["block"][is_arm].tolist()
    numbers = values["value"].to_numpy(float, na_value=math.nan)[is_arm]
    if "valid" in values:
        numbers[~values["valid"].to_numpy(bool)[is_arm]] = math.nan
    value_by_block = dict(zip(blocks, numbers, strict=True))
    if len(value_by_block) < len(blocks):
        repeated = next(block for k, block in enumerate(blocks) if block in blocks[:k])
        raise DataError(f"treatment {treatment!r} has more than one row in block {repeated}")
    return value_by_block


def effect_from_log(log_ratio: float) -> float:
    """Return a log ratio as a ratio minus 1."""
    return math.expm1(min(log_ratio, MAX_LOG))


def effect_interval_from_logs(log_interval: Interval | None) -> Interval | None:
    """Return an interval of log ratios as ratios minus 1."""
    return None if log_interval is None else (effect_from_log(log_interval[0]), effect_from_log(log_interval[1]))
