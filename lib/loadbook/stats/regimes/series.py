"""The series of a study of page sizes: arms that differ in the size alone, each with its fit and its tiers compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.design.pages import page_bytes, page_factor
from loadbook.design.role import Level
from loadbook.design.study import Study
from loadbook.stats.reasons import counts
from loadbook.stats.regimes.fit import Curve, fit_curve

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Series:
    """Arms that differ in the page's size only: `levels` are those of the other factors, `arms` size (bytes) -> arm."""

    name: str
    levels: Mapping[str, Level]
    arms: Mapping[int, str]


@dataclass(frozen=True)
class Regimes:
    """The curves of a run: `fits` by the name of a series, a text instead of a curve where none can be fitted."""

    series: tuple[Series, ...]
    fits: Mapping[str, Curve | str]
    level: float

    @cached_property
    def curves(self) -> dict[str, Curve]:
        """The curves that could be fitted, by the name of their series."""
        return {name: fit for name, fit in self.fits.items() if isinstance(fit, Curve)}

    @property
    def sizes_b(self) -> list[int]:
        """Every size of the run in bytes, rising."""
        return sorted({size for one in self.series for size in one.arms})


def series_of(study: Study, treatments: Iterable[str]) -> tuple[Series, ...]:
    """Return the series among these treatments in file order; checks and repeated arms belong to none."""
    others = [name for name in study.factors if name != page_factor(study)]
    found: dict[tuple[Level, ...], dict[int, str]] = {}
    for name in treatments:
        size, spec = page_bytes(study, name), study.treatments[name]
        if size and not spec.check and not spec.same_as:
            levels = study.levels_of(name)
            found.setdefault(tuple(levels[n] for n in others), {})[size] = name
    varied = [k for k in range(len(others)) if len({levels[k] for levels in found}) > 1]
    named = [({others[k]: levels[k] for k in varied}, arms) for levels, arms in found.items()]
    return tuple(Series(_named(study, own), own, dict(sorted(arms.items()))) for own, arms in named)


def _named(study: Study, levels: Mapping[str, Level]) -> str:
    """Return what readers call a series: "small balancer, 4 nodes"."""
    return ", ".join(level_name(study, name, level) for name, level in levels.items()) or "all arms"


def level_name(study: Study, factor: str, level: Level) -> str:
    """Return a level in words: before the name of its factor, or of the role whose size the factor is."""
    role = study.factors[factor].role
    noun = role if factor.startswith(role) else factor.replace("_", " ")
    return f"{level:g} {noun}" if isinstance(level, float) else f"{level} {noun}"


def regimes_of(study: Study, values: pd.DataFrame, treatments: Iterable[str], level: float = 0.95) -> Regimes:
    """Fit the curve of every series of a run.

    Parameters
    ----------
    values : a rate by trial, as `RunData.values` returns it.
    """
    series = series_of(study, treatments)
    return Regimes(series, {one.name: fit_curve(_rates(values, one), level) for one in series}, level)


def _rates(values: pd.DataFrame, series: Series) -> dict[float, dict[object, float]]:
    usable = values[counts(values) & (values["value"] > 0)]
    by_arm = {name: dict(zip(own["block"], own["value"], strict=True)) for name, own in usable.groupby("treatment")}
    return {float(size): by_arm.get(arm, {}) for size, arm in series.arms.items()}
