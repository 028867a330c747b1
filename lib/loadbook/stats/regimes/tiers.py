"""Do two web tiers converge? Their ratio at each page size, with the margin declared before the run.

Every size is a comparison of its own, by the methods of every other (`stats.compare`). "From here on they converge" is
said where every size from there on is shown to be equivalent: a claim of several parts needs no correction, as each
part must hold (the intersection-union test of Berger, Technometrics 24, 1982). The p of differences is adjusted among
all sizes (`stats.family`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadbook.design.pages import page_factor
from loadbook.design.role import Level
from loadbook.design.study import Study
from loadbook.stats import errors
from loadbook.stats.family import compare_contrasts
from loadbook.stats.reasons import counts
from loadbook.stats.regimes.series import Series, level_name
from loadbook.stats.result import ErrorSummary, Verdict
from loadbook.stats.verdict import decide

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Pair:
    """Two tiers behind one and the same front: `name` says which front, `verdicts` of the second by size in bytes."""

    name: str
    verdicts: Mapping[int, Verdict]

    @property
    def converge_from_b(self) -> int | None:
        """The least size from which on all sizes are equivalent; None where the largest is not."""
        least = None
        for size in sorted(self.verdicts, reverse=True):
            if self.verdicts[size].kind not in ("equivalent", "small"):
                break
            least = size
        return least


@dataclass(frozen=True)
class Tiers:
    """Every front's pair of tiers: the factor, its two levels in words, the second compared with the first."""

    factor: str
    names: tuple[str, str]
    pairs: tuple[Pair, ...]


def tier_factor(study: Study, series: Sequence[Series]) -> str | None:
    """Return the factor of the role that has the page, beside the size, of which the series have two levels."""
    sized = page_factor(study)
    role = study.factors[sized].role if sized else None
    named = [n for n, f in study.factors.items() if f.role == role and n != sized and f.of != "workload"]
    return next((n for n in named if len({one.levels.get(n) for one in series}) == 2), None)


def tiers_of(
    study: Study, values: pd.DataFrame, series: Sequence[Series], margin: float, metric: str, level: float = 0.95
) -> Tiers | None:
    """Compare the two tiers of a study at every size; None where no factor has two of them."""
    factor = tier_factor(study, series)
    if factor is None:
        return None
    first, second = dict.fromkeys(one.levels[factor] for one in series)
    valid = values.assign(valid=counts(values))
    fronts: dict[tuple[Level, ...], dict[Level, Series]] = {}
    for one in series:
        fronts.setdefault(tuple(v for n, v in one.levels.items() if n != factor), {})[one.levels[factor]] = one
    whole = [own for own in fronts.values() if len(own) == 2]
    contrasts = {
        (front, size): (own[second].arms[size], own[first].arms[size])
        for front, own in enumerate(whole) for size in own[first].arms if size in own[second].arms
    }  # fmt: skip
    found = compare_contrasts(valid, list(contrasts.values()), metric=metric, level=level) if contrasts else []
    verdicts = {key: decide(comparison, margin) for key, comparison in zip(contrasts, found, strict=True)}
    pairs = [
        Pair(_front(own[first], own[second]), {size: v for (k, size), v in verdicts.items() if k == front})
        for front, own in enumerate(whole)
    ]
    return Tiers(factor, (level_name(study, factor, first), level_name(study, factor, second)), tuple(pairs))


def _front(first: Series, second: Series) -> str:
    """Return what two series' names have in common."""
    theirs = second.name.split(", ")
    return ", ".join(part for part in first.name.split(", ") if part in theirs)


def tier_errors(
    study: Study, trials: pd.DataFrame, measurements: pd.DataFrame, series: Sequence[Series]
) -> dict[str, ErrorSummary]:
    """Return the errors of each tier over all of its sizes and fronts, by its name; the second compared with the first.

    The verdict is that of two arms (`stats.errors`): the trial is the unit, and both tiers have the same sizes.
    """
    factor = tier_factor(study, series)
    if factor is None:
        return {}
    named = {arm: level_name(study, factor, one.levels[factor]) for one in series for arm in one.arms.values()}
    by_tier = trials.assign(treatment=trials["treatment"].map(named))
    first, second = dict.fromkeys(named.values())
    # a block holds many trials of a tier: the check by blocks, which takes one of each arm, does not apply
    counted = {name: errors.count(by_tier, measurements, name)._replace(blocks=()) for name in (first, second)}
    return {
        first: errors.summarise(first, counted[first], None),
        second: errors.summarise(second, counted[second], counted[first]),
    }
