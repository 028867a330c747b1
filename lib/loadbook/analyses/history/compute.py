"""Each treatment's effect in all runs of a study: its level, its changes, and whether the newest run is worse.

Runs are compared only if they used the same hosts and answer the same question (same metric, baseline, margin and so
on). Each such group has its own changes and levels, and the newest run is compared with its own group.
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

ALARM_RATE = 0.01  # share of runs with a false alarm for any treatment of a study
CHANGE_RATE = 0.01  # share of histories with a false change for any treatment, although nothing changed
_MIN_EFFECT = -1 + 1e-15


@dataclass(frozen=True)
class RunEffect:
    """One treatment's effect in one run (a ratio minus 1), with the interval that the run's report prints.

    `question` maps each part of the question to its value; only runs with equal parts are compared. `reason` says why
    the effect does not count (None: it counts); `level` is the confidence of the interval.
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
        """The log of the ratio and its standard error, derived from the interval; None without an interval."""
        if self.effect is None or self.interval is None or self.blocks < 2:
            return None
        estimate, low, high = (math.log1p(max(v, _MIN_EFFECT)) for v in (self.effect, *self.interval))
        error = (high - low) / 2 / t_quantile((1 + self.level) / 2, self.blocks)
        return (estimate, error) if error > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """A run of the study: its start (epoch seconds), the number of its set of hosts (0, 1, ...), and its effects.

    `excluded_reason` says why the whole run does not count ("": it counts); an excluded run may have no effects.
    """

    run: str
    started: float
    hosts: int
    effects: tuple[RunEffect, ...] = ()
    excluded_reason: str = ""


@dataclass(frozen=True)
class EffectPoint:
    """One treatment's effect in one run of a history; `excluded_reason` says why it does not count ("": it counts)."""

    run: str
    started: float
    hosts: int
    effect: RunEffect
    excluded_reason: str = ""

    @property
    def is_included(self) -> bool:
        """Whether the effect counts for changes and alarms."""
        return not self.excluded_reason


@dataclass(frozen=True)
class Segment:
    """Consecutive runs without a change for one treatment, as indices of its points, and their level (mean effect).

    `start_kind` is "first" if the segment begins with the first run on its hosts with its question, else "changed".
    `run_interval` is the interval that the report of a single run prints; None for several runs.
    """

    indices: tuple[int, ...]
    hosts: int
    level: EffectLevel
    start_kind: str
    run_interval: Interval | None = None

    @property
    def effect(self) -> float:
        """The mean effect, as a ratio minus 1."""
        return effect_from_log(self.level.mean)

    @property
    def interval(self) -> Interval:
        """The 95 % interval of the mean over several runs; for a single run the interval of its report."""
        if self.run_interval:
            return self.run_interval
        low, high = self.level.interval()
        return effect_from_log(low), effect_from_log(high)


@dataclass(frozen=True)
class EffectSeries:
    """One treatment's effects in all runs, oldest first; `no_alarm_reason` says why no alarm is possible."""

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
        """The segments that begin with a change of the effect, oldest first."""
        return tuple(sorted((s for s in self.segments if s.start_kind == "changed"), key=lambda s: s.indices[0]))


@dataclass(frozen=True)
class StudyHistory:
    """All runs of a study, oldest first, on one metric; runs that cannot be read are included as excluded runs."""

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
        """The series of treatments, without the A/A arm and the positive control."""
        return tuple(series for series in self.series if series.kind == "treatment")

    @property
    def assessed(self) -> tuple[EffectSeries, ...]:
        """The treatments whose newest run could be compared with earlier runs."""
        return tuple(series for series in self.series if series.alarm)

    @property
    def alarms(self) -> tuple[EffectSeries, ...]:
        """The treatments whose newest run is worse than earlier runs."""
        return tuple(series for series in self.series if series.alarm and series.alarm.raised)

    @property
    def included_runs(self) -> int:
        """The number of runs with at least one effect that counts."""
        return len({point.run for series in self.series for point in series.points if point.is_included})


def effect_series(
    runs: Sequence[RunSummary],
    better: Direction,
    margin: float,
    rate: float = ALARM_RATE,
    change_rate: float = CHANGE_RATE,
) -> tuple[EffectSeries, ...]:
    """Return one series per treatment, then per harness check, in the order of the newest run that contains them.

    `runs` are oldest first; `rate` and `change_rate` are the shares of false alarms and of false changes, over all
    series together.
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
    """Return groups of indices of included points with equal hosts and question, ordered by their first point."""
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
    """Return the series with the newest run compared with earlier runs, or with the reason why that is impossible.

    If the alarm is raised, the last segment ends before the newest run: its level is that of the earlier runs.
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
    """Return the indices of the runs with which the newest is compared: those of its group since the last change.

    The newest run is not used to find that change.
    """
    earlier = next(group for group in _comparable_groups(points) if group[-1] == len(points) - 1)[:-1]
    if not earlier:
        return []
    edges = find_changes(_log_effects(points, earlier), CHANGE_RATE)
    return earlier[edges[-1] if edges else 0 :]


def _question_changes(points: Sequence[EffectPoint]) -> dict[int, tuple[str, ...]]:
    """Return index of a point -> the parts of its question that differ from the previous run's on the same hosts."""
    changes, last = {}, dict[int, EffectPoint]()
    for index, point in enumerate(points):
        current = point.effect.question
        previous = last.get(point.hosts, point).effect.question
        parts = [part for part in dict.fromkeys([*previous, *current]) if previous.get(part) != current.get(part)]
        if parts:
            changes[index] = tuple(parts)
        last[point.hosts] = point
    return changes
