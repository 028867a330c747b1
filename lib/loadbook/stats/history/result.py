"""The values of a study's history: effects of runs, levels of several runs, and each comparison's way through them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from loadbook.core.metrics import Direction
from loadbook.stats.history.alarm import Alarm
from loadbook.stats.history.level import EffectLevel
from loadbook.stats.pairs import effect_from_log
from loadbook.stats.plan import t_quantile
from loadbook.stats.result import Interval, RowKind, VerdictKind

ALARM_RATE = 0.01  # of runs, in any of a study's comparisons
CHANGE_RATE = 0.01  # of histories without a change, in any of a study's comparisons
_MIN_EFFECT = -1 + 1e-15


@dataclass(frozen=True)
class RunEffect:
    """One comparison in one run: ratios minus 1. `asked` says what was asked of it, in parts that have a name.

    `reason` says why it does not count, None where it does; `level` is that of the interval.
    """

    treatment: str
    label: str
    kind: RowKind
    verdict: VerdictKind
    effect: float | None
    interval: Interval | None
    level: float
    blocks: int
    reason: str | None = None
    passed: bool | None = None
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> tuple[float, float] | None:
        """The log of the ratio and its standard error, as the run's interval tells it; None where there is none."""
        if self.effect is None or self.interval is None or self.blocks < 2:
            return None
        estimate, low, high = (math.log1p(max(v, _MIN_EFFECT)) for v in (self.effect, *self.interval))
        error = (high - low) / 2 / t_quantile((1 + self.level) / 2, self.blocks)
        return (estimate, error) if error > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """A run of the study: its start (epoch seconds), its hosts (0 for the first that were met, 1, ...), its effects.

    `excluded_reason` says why nothing of it counts, "" where it does; such a run may have no effects.
    """

    run: str
    started: float
    hosts: int
    effects: tuple[RunEffect, ...] = ()
    excluded_reason: str = ""


@dataclass(frozen=True)
class EffectPoint:
    """One run of a comparison; `excluded_reason` says why it does not count, "" where it does."""

    run: str
    started: float
    hosts: int
    effect: RunEffect
    excluded_reason: str = ""

    @property
    def is_included(self) -> bool:
        """Whether changes and alarms rest on it."""
        return not self.excluded_reason


@dataclass(frozen=True)
class Segment:
    """Runs of one comparison between changes, as places among its points, and the level at which they stand.

    `start_kind` says why here: "first" of its hosts and its question, or "changed".
    """

    indices: tuple[int, ...]
    hosts: int
    level: EffectLevel
    start_kind: str

    @property
    def effect(self) -> float:
        """The mean, as a ratio minus 1."""
        return effect_from_log(self.level.mean)

    @property
    def interval(self) -> Interval:
        """Its 95 % interval."""
        low, high = self.level.interval()
        return effect_from_log(low), effect_from_log(high)


@dataclass(frozen=True)
class EffectSeries:
    """One comparison through all runs, oldest first; `no_alarm_reason` says why there is no alarm to ask for."""

    treatment: str
    label: str
    kind: RowKind
    points: tuple[EffectPoint, ...]
    segments: tuple[Segment, ...]
    question_changes: Mapping[int, tuple[str, ...]]
    alarm: Alarm | None = None
    no_alarm_reason: str = ""

    @property
    def changed_segments(self) -> tuple[Segment, ...]:
        """The stretches that begin with a change, oldest first."""
        return tuple(sorted((s for s in self.segments if s.start_kind == "changed"), key=lambda s: s.indices[0]))

    def previous_segment(self, segment: Segment) -> Segment:
        """Return the stretch whose end the beginning of this one is."""
        index = self.segments.index(segment)
        return self.segments[index - 1]


@dataclass(frozen=True)
class StudyHistory:
    """A study through its runs, oldest first, on one metric; what cannot be read is among the runs, left out."""

    study: str
    metric: str
    better: Direction
    margin: float
    runs: tuple[RunSummary, ...]
    series: tuple[EffectSeries, ...]
    alarm_rate: float = ALARM_RATE
    change_rate: float = CHANGE_RATE

    @property
    def treatments(self) -> tuple[EffectSeries, ...]:
        """The comparisons that are no checks of the laboratory."""
        return tuple(series for series in self.series if series.kind == "treatment")

    @property
    def assessed(self) -> tuple[EffectSeries, ...]:
        """The comparisons of which the newest run was held against its past."""
        return tuple(series for series in self.series if series.alarm)

    @property
    def alarms(self) -> tuple[EffectSeries, ...]:
        """The comparisons in which the newest run is worse than its past."""
        return tuple(series for series in self.series if series.alarm and series.alarm.raised)

    @property
    def included_runs(self) -> int:
        """How many runs have an effect that counts."""
        return len({point.run for series in self.series for point in series.points if point.is_included})
