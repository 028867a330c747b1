"""Each comparison of a study through its runs: its level, its changes, and whether the newest run is worse.

Runs are compared only if they are on the same hosts and answer the same question: each such group has its own changes
and levels, and the newest run is compared with its own group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from loadbook.analyses.history.levels import (
    MIN_PAST_RUNS,
    MIN_SEGMENT_RUNS,
    Alarm,
    EffectLevel,
    assess_newest,
    estimate_level,
    find_changes,
)
from loadbook.core.metrics import Direction
from loadbook.stats.paired_tests import effect_from_log
from loadbook.stats.results import Interval, RowKind, VerdictKind
from loadbook.stats.sequential import t_quantile

ALARM_RATE = 0.01  # of runs, in any of a study's comparisons
CHANGE_RATE = 0.01  # of histories without a change, in any of a study's comparisons
_MIN_EFFECT = -1 + 1e-15


@dataclass(frozen=True)
class RunEffect:
    """One comparison in one run, effects as ratios minus 1, with the interval that the run's report prints.

    `question` holds the parts of the question by name; runs with other parts are not compared. `reason` says why the
    effect does not count, None if it does; `level` is the confidence of the interval.
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
    question: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> tuple[float, float] | None:
        """The log of the ratio and its standard error by the run's interval; None without an interval."""
        if self.effect is None or self.interval is None or self.blocks < 2:
            return None
        estimate, low, high = (math.log1p(max(v, _MIN_EFFECT)) for v in (self.effect, *self.interval))
        error = (high - low) / 2 / t_quantile((1 + self.level) / 2, self.blocks)
        return (estimate, error) if error > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """A run of the study: its start (epoch seconds), the number of its set of hosts (0, 1, ...), its effects.

    `excluded_reason` says why nothing of the run counts, "" if it does; such a run may have no effects.
    """

    run: str
    started: float
    hosts: int
    effects: tuple[RunEffect, ...] = ()
    excluded_reason: str = ""


@dataclass(frozen=True)
class EffectPoint:
    """One run of a comparison; `excluded_reason` is the reason why it does not count, "" if it does."""

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
    """Runs of one comparison between changes, as indices of its points, and their level.

    `start_kind` is "first" for the first run of its hosts and question, else "changed". `run_interval` is the interval
    of the only run, as its report prints it; None for several runs.
    """

    indices: tuple[int, ...]
    hosts: int
    level: EffectLevel
    start_kind: str
    run_interval: Interval | None = None

    @property
    def effect(self) -> float:
        """The mean, as a ratio minus 1."""
        return effect_from_log(self.level.mean)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the mean over several runs; that of its own report for a single run."""
        if self.run_interval:
            return self.run_interval
        low, high = self.level.interval()
        return effect_from_log(low), effect_from_log(high)


@dataclass(frozen=True)
class EffectSeries:
    """One comparison through all runs, oldest first; `no_alarm_reason` is the reason why no alarm is possible."""

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
        """The segments that begin with a change, oldest first."""
        return tuple(sorted((s for s in self.segments if s.start_kind == "changed"), key=lambda s: s.indices[0]))


@dataclass(frozen=True)
class StudyHistory:
    """A study through its runs, oldest first, on one metric; runs that cannot be read are among them, excluded."""

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
        """The comparisons without the A/A arm and the known effect."""
        return tuple(series for series in self.series if series.kind == "treatment")

    @property
    def assessed(self) -> tuple[EffectSeries, ...]:
        """The comparisons whose newest run was compared with its past."""
        return tuple(series for series in self.series if series.alarm)

    @property
    def alarms(self) -> tuple[EffectSeries, ...]:
        """The comparisons whose newest run is worse than its past."""
        return tuple(series for series in self.series if series.alarm and series.alarm.raised)

    @property
    def included_runs(self) -> int:
        """The number of runs with an effect that counts."""
        return len({point.run for series in self.series for point in series.points if point.is_included})


def effect_series(
    runs: Sequence[RunSummary],
    better: Direction,
    margin: float,
    rate: float = ALARM_RATE,
    change_rate: float = CHANGE_RATE,
) -> tuple[EffectSeries, ...]:
    """Return every comparison of these runs, treatments before checks, in the order of the newest run that has them.

    `runs` are oldest first; `rate` and `change_rate` are shares of false alarms and of false changes of all comparisons
    together.
    """
    newest_first = [effect for run in reversed(runs) for effect in run.effects]
    kinds: tuple[RowKind, ...] = ("treatment", "aa", "control")
    names = dict.fromkeys(e.treatment for kind in kinds for e in newest_first if e.kind == kind)
    points = {name: _effect_points(runs, name) for name in names}
    groups = {name: _comparable_groups(points[name]) for name in names}
    searchable = sum(len(indices) >= 2 * MIN_SEGMENT_RUNS for parts in groups.values() for indices in parts)
    assessable = sum(_is_assessable(points[name], runs) for name in names)
    series = []
    for name in names:
        segments = [
            s for indices in groups[name] for s in _segments(points[name], indices, change_rate / max(searchable, 1))
        ]
        last = points[name][-1].effect
        changes = _question_changes(points[name])
        one = EffectSeries(name, last.label, last.kind, points[name], tuple(segments), changes)
        if last.kind == "treatment":
            one = _with_alarm(one, runs, better, margin, rate / max(assessable, 1))
        series.append(one)
    return tuple(series)


def _effect_points(runs: Sequence[RunSummary], name: str) -> tuple[EffectPoint, ...]:
    points = []
    for run in runs:
        for effect in (effect for effect in run.effects if effect.treatment == name):
            no_interval = "" if effect.log else "it has no interval of any width"
            reason = run.excluded_reason or effect.reason or no_interval
            points.append(EffectPoint(run.run, run.started, run.hosts, effect, reason))
    return tuple(points)


def _comparable_groups(points: Sequence[EffectPoint]) -> list[list[int]]:
    """Return the indices of included points by hosts and question, in the order in which the groups begin."""
    groups: dict[tuple[int, tuple[tuple[str, str], ...]], list[int]] = {}
    for index, point in enumerate(points):
        if point.is_included:
            groups.setdefault((point.hosts, tuple(sorted(point.effect.question.items()))), []).append(index)
    return list(groups.values())


def _segments(points: Sequence[EffectPoint], indices: Sequence[int], rate: float) -> Iterable[Segment]:
    logs = _log_effects(points, indices)
    edges = [0, *find_changes(logs, rate), len(indices)]
    for start, end in pairwise(edges):
        first = points[indices[start]]
        run_interval = first.effect.interval if end - start == 1 else None
        yield Segment(
            tuple(indices[start:end]), first.hosts, estimate_level(logs[start:end]), "changed" if start else "first",
            run_interval,
        )  # fmt: skip


def _log_effects(points: Sequence[EffectPoint], indices: Iterable[int]) -> list[tuple[float, float]]:
    return [log for index in indices if (log := points[index].effect.log)]


def _is_assessable(points: Sequence[EffectPoint], runs: Sequence[RunSummary]) -> bool:
    last = points[-1]
    return last.effect.kind == "treatment" and last.run == runs[-1].run and last.is_included


def _with_alarm(
    series: EffectSeries, runs: Sequence[RunSummary], better: Direction, margin: float, rate: float
) -> EffectSeries:
    """Return a series with its newest run compared with the past, or with the reason why that is not possible.

    If the alarm is raised, the last segment ends before the newest run: it is the level that the run has fallen from.
    """
    points, newest = series.points, runs[-1]
    if not _is_assessable(points, runs):
        reason = f"the newest run does not count: {points[-1].excluded_reason}"
        if points[-1].run != newest.run:
            excluded = f"the newest run is left out: {newest.excluded_reason}"
            reason = excluded if newest.excluded_reason else "the newest run does not have it"
        return replace(series, no_alarm_reason=reason)
    past = _past_indices(points)
    logs = [(*log, points[index].effect.blocks) for index in (*past, -1) if (log := points[index].effect.log)]
    alarm = assess_newest(logs[:-1], logs[-1], better=better, rate=rate, margin=margin)
    if alarm is None:
        present = "there is none" if not past else f"there {'is' if len(past) == 1 else 'are'} {len(past)}"
        more = MIN_PAST_RUNS - len(past)
        enough = f"{more} more run{'' if more == 1 else 's'} will do"
        reason = f"it takes {MIN_PAST_RUNS} earlier runs of its level, hosts and question; {present}, {enough}"
        return replace(series, no_alarm_reason=reason)
    if not alarm.raised:
        return replace(series, alarm=alarm)
    level = estimate_level(_log_effects(points, past))
    segments = tuple(
        replace(segment, indices=tuple(past), level=level) if segment.indices[:-1] == tuple(past) else segment
        for segment in series.segments
    )
    return replace(series, alarm=alarm, segments=segments)


def _past_indices(points: Sequence[EffectPoint]) -> list[int]:
    """Return the indices of the newest run's past: the runs of its group since the last change before it.

    The newest run takes no part in finding that change.
    """
    earlier = next(group for group in _comparable_groups(points) if group[-1] == len(points) - 1)[:-1]
    if not earlier:
        return []
    edges = find_changes(_log_effects(points, earlier), CHANGE_RATE)
    return earlier[edges[-1] if edges else 0 :]


def _question_changes(points: Sequence[EffectPoint]) -> dict[int, tuple[str, ...]]:
    """Return the indices at which the question differs from that of the run before on these hosts, and its parts."""
    changes, last = {}, dict[int, EffectPoint]()
    for index, point in enumerate(points):
        current = point.effect.question
        previous = last.get(point.hosts, point).effect.question
        parts = [part for part in dict.fromkeys([*previous, *current]) if previous.get(part) != current.get(part)]
        if parts:
            changes[index] = tuple(parts)
        last[point.hosts] = point
    return changes
