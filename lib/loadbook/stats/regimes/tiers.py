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

from loadbook.design.pages import page_size_factor
from loadbook.design.role import FactorLevel
from loadbook.design.study import Study
from loadbook.stats import errors
from loadbook.stats.family import compare_contrasts
from loadbook.stats.reasons import usable_mask
from loadbook.stats.regimes.series import PageSizeSeries, level_text
from loadbook.stats.result import ErrorSummary, Verdict
from loadbook.stats.verdict import decide_verdict

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class TierPair:
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
class TierComparison:
    """Every front's pair of tiers: the factor, its two levels in words, the second compared with the first."""

    factor: str
    names: tuple[str, str]
    pairs: tuple[TierPair, ...]


def tier_factor(study: Study, series: Sequence[PageSizeSeries]) -> str | None:
    """Return the factor of the role that has the page, beside the size, of which the series have two levels."""
    sized = page_size_factor(study)
    role = study.factors[sized].role if sized else None
    factors = [n for n, f in study.factors.items() if f.role == role and n != sized and f.of != "workload"]
    return next((n for n in factors if len({page_series.levels.get(n) for page_series in series}) == 2), None)


def compare_tiers(
    study: Study, values: pd.DataFrame, series: Sequence[PageSizeSeries], margin: float, metric: str, level: float = 0.95
) -> TierComparison | None:
    """Compare the two tiers of a study at every size; None where no factor has two of them."""
    factor = tier_factor(study, series)
    if factor is None:
        return None
    first, second = dict.fromkeys(page_series.levels[factor] for page_series in series)
    valid = values.assign(valid=usable_mask(values))
    fronts: dict[tuple[FactorLevel, ...], dict[FactorLevel, PageSizeSeries]] = {}
    for page_series in series:
        fronts.setdefault(tuple(v for n, v in page_series.levels.items() if n != factor), {})[page_series.levels[factor]] = page_series
    both_tiers = [by_tier for by_tier in fronts.values() if len(by_tier) == 2]
    contrasts = {
        (front, size): (by_tier[second].arms[size], by_tier[first].arms[size])
        for front, by_tier in enumerate(both_tiers) for size in by_tier[first].arms if size in by_tier[second].arms
    }  # fmt: skip
    comparisons = compare_contrasts(valid, list(contrasts.values()), metric=metric, level=level) if contrasts else []
    verdicts = {key: decide_verdict(comparison, margin) for key, comparison in zip(contrasts, comparisons, strict=True)}
    pairs = [
        TierPair(_shared_front_name(by_tier[first], by_tier[second]), {size: v for (k, size), v in verdicts.items() if k == front})
        for front, by_tier in enumerate(both_tiers)
    ]
    return TierComparison(factor, (level_text(study, factor, first), level_text(study, factor, second)), tuple(pairs))


def _shared_front_name(first: PageSizeSeries, second: PageSizeSeries) -> str:
    """Return what two series' names have in common."""
    second_parts = second.name.split(", ")
    return ", ".join(part for part in first.name.split(", ") if part in second_parts)


def tier_errors(
    study: Study, trials: pd.DataFrame, measurements: pd.DataFrame, series: Sequence[PageSizeSeries]
) -> dict[str, ErrorSummary]:
    """Return the errors of each tier over all of its sizes and fronts, by its name; the second compared with the first.

    The verdict is that of two arms (`stats.errors`): the trial is the unit, and both tiers have the same sizes.
    """
    factor = tier_factor(study, series)
    if factor is None:
        return {}
    tier_of_arm = {arm: level_text(study, factor, page_series.levels[factor]) for page_series in series for arm in page_series.arms.values()}
    by_tier = trials.assign(treatment=trials["treatment"].map(tier_of_arm))
    first, second = dict.fromkeys(tier_of_arm.values())
    # a block holds many trials of a tier: the check by blocks, which takes one of each arm, does not apply
    counts = {name: errors.count_errors(by_tier, measurements, name)._replace(blocks=()) for name in (first, second)}
    return {
        first: errors.summarise_errors(first, counts[first], None),
        second: errors.summarise_errors(second, counts[second], counts[first]),
    }
