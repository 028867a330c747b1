"""The series of a study of page sizes: arms that differ in the size alone, each with its fit and its tiers compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.design.pages import page_bytes, page_size_factor
from loadbook.design.role import FactorLevel
from loadbook.design.study import Study
from loadbook.stats.reasons import usable_mask
from loadbook.stats.regimes.fit import TwoRegimeCurve, fit_curve

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PageSizeSeries:
    """Arms that differ in the page's size only: `levels` are those of the other factors, `arms` size (bytes) -> arm."""

    name: str
    levels: Mapping[str, FactorLevel]
    arms: Mapping[int, str]


@dataclass(frozen=True)
class PageSizeCurves:
    """The curves of a run: `fits` by the name of a series, a text instead of a curve where none can be fitted."""

    series: tuple[PageSizeSeries, ...]
    fits: Mapping[str, TwoRegimeCurve | str]
    level: float

    @cached_property
    def curves(self) -> dict[str, TwoRegimeCurve]:
        """The curves that could be fitted, by the name of their series."""
        return {name: fit for name, fit in self.fits.items() if isinstance(fit, TwoRegimeCurve)}

    @property
    def sizes_b(self) -> list[int]:
        """Every size of the run in bytes, rising."""
        return sorted({size for series in self.series for size in series.arms})


def page_size_series(study: Study, treatments: Iterable[str]) -> tuple[PageSizeSeries, ...]:
    """Return the series among these treatments in file order; checks and repeated arms belong to none."""
    others = [name for name in study.factors if name != page_size_factor(study)]
    arms_by_levels: dict[tuple[FactorLevel, ...], dict[int, str]] = {}
    for name in treatments:
        size, spec = page_bytes(study, name), study.treatments[name]
        if size and not spec.check and not spec.same_as:
            levels = study.levels_of(name)
            arms_by_levels.setdefault(tuple(levels[n] for n in others), {})[size] = name
    varied = [k for k in range(len(others)) if len({levels[k] for levels in arms_by_levels}) > 1]
    arms_and_levels = [({others[k]: levels[k] for k in varied}, arms) for levels, arms in arms_by_levels.items()]
    return tuple(PageSizeSeries(_series_name(study, series_levels), series_levels, dict(sorted(arms.items()))) for series_levels, arms in arms_and_levels)


def _series_name(study: Study, levels: Mapping[str, FactorLevel]) -> str:
    """Return what readers call a series: "small balancer, 4 nodes"."""
    return ", ".join(level_text(study, name, level) for name, level in levels.items()) or "all arms"


def level_text(study: Study, factor: str, level: FactorLevel) -> str:
    """Return a level in words: before the name of its factor, or of the role whose size the factor is."""
    role = study.factors[factor].role
    noun = role if factor.startswith(role) else factor.replace("_", " ")
    return f"{level:g} {noun}" if isinstance(level, float) else f"{level} {noun}"


def fit_page_sizes(study: Study, values: pd.DataFrame, treatments: Iterable[str], level: float = 0.95) -> PageSizeCurves:
    """Fit the curve of every series of a run.

    Parameters
    ----------
    values : a rate by trial, as `RunData.values` returns it.
    """
    series = page_size_series(study, treatments)
    return PageSizeCurves(series, {page_series.name: fit_curve(_rates_by_size(values, page_series), level) for page_series in series}, level)


def _rates_by_size(values: pd.DataFrame, series: PageSizeSeries) -> dict[float, dict[object, float]]:
    usable = values[usable_mask(values) & (values["value"] > 0)]
    by_arm = {name: dict(zip(arm_rows["block"], arm_rows["value"], strict=True)) for name, arm_rows in usable.groupby("treatment")}
    return {float(size): by_arm.get(arm, {}) for size, arm in series.arms.items()}
