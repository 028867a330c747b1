"""The values of a study's history: effects of runs, levels of several runs, and each comparison's way through them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from loadbook.core.metrics import Direction
from loadbook.stats.history.alarm import Alarm
from loadbook.stats.history.level import Level
from loadbook.stats.pairs import ratio
from loadbook.stats.plan import t_quantile
from loadbook.stats.result import Interval, RowKind, VerdictKind

ALARM_RATE = 0.01  # of runs, in any of a study's comparisons
CHANGE_RATE = 0.01  # of histories without a change, in any of a study's comparisons
_LEAST_LOG = -1 + 1e-15


@dataclass(frozen=True)
class Effect:
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
        estimate, low, high = (math.log1p(max(v, _LEAST_LOG)) for v in (self.effect, *self.interval))
        error = (high - low) / 2 / t_quantile((1 + self.level) / 2, self.blocks)
        return (estimate, error) if error > 0 else None


@dataclass(frozen=True)
class Seen:
    """A run of the study: its start (epoch seconds), its hosts (0 for the first that were met, 1, ...), its effects.

    `left_out` says why nothing of it counts, "" where it does; such a run may have no effects.
    """

    run: str
    started: float
    hosts: int
    effects: tuple[Effect, ...] = ()
    left_out: str = ""


@dataclass(frozen=True)
class Point:
    """One run of a comparison; `why` it does not count, "" where it does."""

    run: str
    started: float
    hosts: int
    effect: Effect
    why: str = ""

    @property
    def counts(self) -> bool:
        """Whether changes and alarms rest on it."""
        return not self.why


@dataclass(frozen=True)
class Stretch:
    """Runs of one comparison between changes, as places among its points, and the level at which they stand.

    `begins` says why here: "first" of its hosts and its question, or "changed".
    """

    places: tuple[int, ...]
    hosts: int
    level: Level
    begins: str

    @property
    def effect(self) -> float:
        """The mean, as a ratio minus 1."""
        return ratio(self.level.mean)

    @property
    def interval(self) -> Interval:
        """Its 95 % interval."""
        low, high = self.level.interval()
        return ratio(low), ratio(high)


@dataclass(frozen=True)
class Course:
    """One comparison through all runs, oldest first; `silence` says why there is no alarm to ask for."""

    treatment: str
    label: str
    kind: RowKind
    points: tuple[Point, ...]
    stretches: tuple[Stretch, ...]
    asked_anew: Mapping[int, tuple[str, ...]]
    alarm: Alarm | None = None
    silence: str = ""

    @property
    def changed(self) -> tuple[Stretch, ...]:
        """The stretches that begin with a change, oldest first."""
        return tuple(sorted((s for s in self.stretches if s.begins == "changed"), key=lambda s: s.places[0]))

    def before(self, stretch: Stretch) -> Stretch:
        """Return the stretch whose end the beginning of this one is."""
        place = self.stretches.index(stretch)
        return self.stretches[place - 1]


@dataclass(frozen=True)
class History:
    """A study through its runs, oldest first, on one metric; what cannot be read is among the runs, left out."""

    study: str
    metric: str
    better: Direction
    margin: float
    runs: tuple[Seen, ...]
    courses: tuple[Course, ...]
    rate: float = ALARM_RATE
    change_rate: float = CHANGE_RATE

    @property
    def treatments(self) -> tuple[Course, ...]:
        """The comparisons that are no checks of the laboratory."""
        return tuple(course for course in self.courses if course.kind == "treatment")

    @property
    def judged(self) -> tuple[Course, ...]:
        """The comparisons of which the newest run was held against its past."""
        return tuple(course for course in self.courses if course.alarm)

    @property
    def alarms(self) -> tuple[Course, ...]:
        """The comparisons in which the newest run is worse than its past."""
        return tuple(course for course in self.courses if course.alarm and course.alarm.speaks)

    @property
    def counting(self) -> int:
        """How many runs have an effect that counts."""
        return len({point.run for course in self.courses for point in course.points if point.counts})
