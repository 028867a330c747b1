"""Every arm against the one observed best: which arms may still be the best one (statistics.md 3.4).

The leader was chosen by the same values, so a p of its own is too small. What is asked of an arm is whether *any*
other beats it: its adjusted p is the leader's among all arms that are compared with that arm. Whichever arm is truly
best, it is called behind in at most 5 % of studies (a confidence set; Hsu's comparisons with the best, by our swaps).

One arm is called the best only if it beats every other at the plain level: the largest p is what counts, and it is
then the adjusted p of all (Gutmann and Maymin).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.metrics import Direction
from loadbook.design.stopping import Rule
from loadbook.stats.compare import compare_pairs
from loadbook.stats.family import Leader, adjusted_p, ranking, standing, tested_pairs
from loadbook.stats.pairs import pair
from loadbook.stats.result import Comparison

if TYPE_CHECKING:
    import pandas as pd

MIN_ARMS = 3


class Best(NamedTuple):
    """The arm observed best, every other arm compared with it, and what may be said of it."""

    leader: str
    comparisons: list[Comparison]
    standing: Leader


def against_best(
    values: pd.DataFrame,
    arms: Sequence[str],
    baseline: str,
    *,
    better: Direction = "higher",
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: Rule = "fixed",
) -> Best | None:
    """Compare every arm with the one observed best; None if fewer than three arms can be tested.

    Parameters
    ----------
    arms : every arm that may be compared, the baseline among them.
    """
    known = ranking(values, arms, baseline, better)
    if len(known) < MIN_ARMS:
        return None
    leader, family, sign = known[0], len(known) - 1, 1 if better == "higher" else -1
    others = [pair(values, name, leader) for name in arms if name in known and name != leader]
    plain = [
        compare_pairs(p, metric=metric, statistic=statistic, level=level, family=family, rule=rule) for p in others
    ]
    largest = max(c.p if c.p is not None and sign * (c.effect or 0.0) < 0 else 1.0 for c in plain)
    proven = largest if largest < 1 - level else None
    found = [replace(c, p_adjusted=_excluded(values, c, known, rule) if proven is None else proven) for c in plain]
    behind = [c.treatment for c in found if sign * (c.effect or 0.0) < 0 and _below(c.p_adjusted, 1 - level)]
    tied = [name for name in known[1:] if name not in behind]
    return Best(leader, found, standing(values, leader, tied, behind, better, level, rule))


def _excluded(values: pd.DataFrame, found: Comparison, known: Sequence[str], rule: Rule) -> float | None:
    """Return the leader's p among all arms that are compared with this one, never below the plain one."""
    if found.p is None:
        return None
    pairs = {name: pair(values, name, found.treatment) for name in known if name != found.treatment}
    alone = {name: one.p for name, p in pairs.items() if (one := tested_pairs(p, rule))}
    adjusted = adjusted_p([pairs[name] for name in alone], list(alone.values()), rule)
    return max(found.p, dict(zip(alone, adjusted, strict=True))[found.baseline])


def _below(p: float | None, limit: float) -> bool:
    return p is not None and p < limit
