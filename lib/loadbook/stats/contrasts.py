"""What a study compares with what: each treatment with the baseline, each rung with the one before, each with the best.

Whatever it is, the family shares its swaps (statistics.md 3.4): the sign that a swap gives a block is that of every
comparison in it, also of the two in which a rung stands. The joint distribution of neighbours, which share an arm and
therefore lean against each other, is thus kept, and so is the error rate of the family.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from loadbook.core.metrics import Direction
from loadbook.design.stopping import Rule
from loadbook.stats.best import against_best
from loadbook.stats.family import Leader, compare_contrasts
from loadbook.stats.result import Comparison, Contrasts

if TYPE_CHECKING:
    import pandas as pd


NOBODY = Leader(None, (), False)


class Contrasted(NamedTuple):
    """The arm that has no comparison, all comparisons, and what may be said of the best arm.

    `leader` is None where that was not looked at; nothing may be said of the best rung of a ladder.
    """

    reference: str
    comparisons: list[Comparison]
    leader: Leader | None = None


def contrasted(
    values: pd.DataFrame,
    baseline: str,
    others: Sequence[str],
    contrasts: Contrasts,
    *,
    better: Direction = "higher",
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: Rule = "fixed",
    comparable: Callable[[Comparison], bool] = lambda comparison: comparison.p is not None,
) -> Contrasted:
    """Compare the treatments as the study declares it.

    Parameters
    ----------
    others : every other treatment; a ladder begins with the baseline and goes through them in this order.
    comparable : which comparisons with the baseline may be drawn on: only such arms can be the best one.

    Returns
    -------
    With "best", fewer than three arms that can be compared are compared with the baseline.
    """
    compare = partial(compare_contrasts, values, metric=metric, statistic=statistic, level=level, rule=rule)
    pairs = [(name, baseline) for name in others]
    if contrasts == "adjacent":
        pairs = list(zip(others, (baseline, *others), strict=False))
    found = compare(pairs)
    if contrasts != "best":
        return Contrasted(baseline, found) if contrasts == "baseline" else Contrasted(baseline, _named(found), NOBODY)
    arms = [baseline, *(c.treatment for c in found if comparable(c))]
    best = against_best(
        values, arms, baseline, better=better, metric=metric, statistic=statistic, level=level, rule=rule
    )
    if best is None:
        return Contrasted(baseline, found)
    left_out = [name for name in others if name not in arms]
    rest = compare([(name, best.leader) for name in left_out])
    return Contrasted(best.leader, _named([*best.comparisons, *rest]), best.standing)


def _named(comparisons: list[Comparison]) -> list[Comparison]:
    """Let flags name what was compared with, which is not the baseline of the study."""
    return [
        replace(c, flags=tuple(flag.replace("of the baseline", f"of {c.baseline}") for flag in c.flags))
        for c in comparisons
    ]
