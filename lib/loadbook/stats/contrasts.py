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
from loadbook.design.stopping import StoppingRuleName
from loadbook.stats.best import compare_with_best
from loadbook.stats.family import BestArm, compare_contrasts
from loadbook.stats.result import Comparison, Contrasts

if TYPE_CHECKING:
    import pandas as pd


NO_BEST_ARM = BestArm(None, (), False)


class DeclaredComparisons(NamedTuple):
    """The arm that has no comparison, all comparisons, and what may be said of the best arm.

    `best_arm` is None where that was not looked at; nothing may be said of the best rung of a ladder.
    """

    reference: str
    comparisons: list[Comparison]
    best_arm: BestArm | None = None


def compare_declared(
    values: pd.DataFrame,
    baseline: str,
    others: Sequence[str],
    contrasts: Contrasts,
    *,
    better: Direction = "higher",
    metric: str = "value",
    statistic: str = "value",
    level: float = 0.95,
    rule: StoppingRuleName = "fixed",
    comparable: Callable[[Comparison], bool] = lambda comparison: comparison.p is not None,
) -> DeclaredComparisons:
    """Compare the treatments as the study declares it.

    Parameters
    ----------
    others : every other treatment; a ladder begins with the baseline and goes through them in this order.
    comparable : which comparisons with the baseline may be drawn on: only such arms can be the best one.

    Returns
    -------
    With "best", fewer than three arms that can be compared are compared with the baseline.
    """
    compare_family = partial(compare_contrasts, values, metric=metric, statistic=statistic, level=level, rule=rule)
    pairs = [(name, baseline) for name in others]
    if contrasts == "adjacent":
        pairs = list(zip(others, (baseline, *others), strict=False))
    comparisons = compare_family(pairs)
    if contrasts != "best":
        return DeclaredComparisons(baseline, comparisons) if contrasts == "baseline" else DeclaredComparisons(baseline, _with_reference_named(comparisons), NO_BEST_ARM)
    arms = [baseline, *(c.treatment for c in comparisons if comparable(c))]
    best = compare_with_best(
        values, arms, baseline, better=better, metric=metric, statistic=statistic, level=level, rule=rule
    )
    if best is None:
        return DeclaredComparisons(baseline, comparisons)
    left_out = [name for name in others if name not in arms]
    rest = compare_family([(name, best.observed_best) for name in left_out])
    return DeclaredComparisons(best.observed_best, _with_reference_named([*best.comparisons, *rest]), best.best_arm)


def _with_reference_named(comparisons: list[Comparison]) -> list[Comparison]:
    """Let flags name what was compared with, which is not the baseline of the study."""
    return [
        replace(c, flags=tuple(flag.replace("of the baseline", f"of {c.baseline}") for flag in c.flags))
        for c in comparisons
    ]
