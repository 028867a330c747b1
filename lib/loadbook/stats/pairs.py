"""Rows of trials -> pairs of logs in complete blocks. Only here values become logs, so that log(0) cannot happen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.errors import DataError
from loadbook.stats.swaps import Floats

if TYPE_CHECKING:
    import pandas as pd


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
    import pandas as pd

    base, other = (_by_block(values, name) for name in (baseline, treatment))
    every = pd.Index(values["block"].unique())
    both = np.column_stack([base.reindex(every), other.reindex(every)]).astype(float)
    usable = np.isfinite(both) & (both > 0)
    complete = usable.all(axis=1)
    logs = np.log(both[complete])
    given = np.column_stack([np.isin(every, base.index), np.isin(every, other.index)])
    return Pairs(
        treatment=treatment,
        baseline=baseline,
        blocks=tuple(every[complete]),
        base=logs[:, 0],
        other=logs[:, 1],
        excluded=int((~complete).sum()),
        unusable=int((given & ~usable).any(axis=1).sum()),
    )


def _by_block(values: pd.DataFrame, treatment: str) -> pd.Series:
    rows = values[values["treatment"] == treatment]
    repeated = rows[rows["block"].duplicated()]
    if len(repeated):
        raise DataError(f"treatment {treatment!r} has more than one row in block {repeated['block'].iloc[0]}")
    series = rows.set_index("block")["value"].astype(float)
    if "valid" in rows:
        series = series.where(rows.set_index("block")["valid"].astype(bool))
    return series
