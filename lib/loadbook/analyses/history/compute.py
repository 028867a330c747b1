"""Each comparison of a study through its runs: its level, its changes, and whether the newest run is worse.

Runs are compared only if they are on the same hosts and answer the same question: each such group has its own changes
and levels, and the newest run is compared with its own group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from loadbook.analyses.history import levels
from loadbook.core.metrics import Direction
from loadbook.core.units import (
    NBSP,
    decimals_for_half_width,
    format_percent,
    format_percent_range,
    join_words,
    shorten_list,
    utc_text,
)
from loadbook.stats.paired_tests import effect_from_log
from loadbook.stats.results import Interval, RowKind, VerdictKind
from loadbook.stats.sequential import t_quantile
from loadbook.stats.text import MAX_DECIMALS, margin_text

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
    level: levels.EffectLevel
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
    alarm: levels.Alarm | None = None
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
    searchable = sum(len(indices) >= 2 * levels.MIN_SEGMENT_RUNS for parts in groups.values() for indices in parts)
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
    edges = [0, *levels.find_changes(logs, rate), len(indices)]
    for start, end in pairwise(edges):
        first = points[indices[start]]
        run_interval = first.effect.interval if end - start == 1 else None
        kind, level = "changed" if start else "first", levels.estimate_level(logs[start:end])
        yield Segment(tuple(indices[start:end]), first.hosts, level, kind, run_interval)


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
    alarm = levels.assess_newest(logs[:-1], logs[-1], better=better, rate=rate, margin=margin)
    if alarm is None:
        present = "there is none" if not past else f"there {'is' if len(past) == 1 else 'are'} {len(past)}"
        more = levels.MIN_PAST_RUNS - len(past)
        enough = f"{more} more run{'' if more == 1 else 's'} will do"
        reason = f"it takes {levels.MIN_PAST_RUNS} earlier runs of its level, hosts and question; {present}, {enough}"
        return replace(series, no_alarm_reason=reason)
    if not alarm.raised:
        return replace(series, alarm=alarm)
    level = levels.estimate_level(_log_effects(points, past))
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
    edges = levels.find_changes(_log_effects(points, earlier), CHANGE_RATE)
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


MIN_RUNS = levels.MIN_PAST_RUNS + 1
MAX_NAMES = 2


def date_text(epoch_s: float) -> str:
    """Return the day of a time (epoch seconds), UTC."""
    return utc_text(epoch_s, "%Y-%m-%d")


def headline(history: StudyHistory) -> str:
    """Return the answer: whether the newest run is worse than its past, and whether any effect changed."""
    if history.included_runs < 2:
        verb = "counts" if history.included_runs == 1 else "count"
        return f"{run_count_text(history.included_runs)} that {verb}: there is no history yet."
    if history.alarms:
        labels = [series.label for series in history.alarms]
        return f"The newest run is worse than its past: {join_words(shorten_list(labels, MAX_NAMES))}."
    text = "The newest run is not shown to be worse than its past" if history.assessed else "No alarm can be raised yet"
    changed = [series.label for series in history.treatments if series.changed_segments]
    if changed:
        return f"{text}; {join_words(shorten_list(changed, MAX_NAMES))} changed on the way."
    was_searched = any(
        len(segment.indices) >= 2 * levels.MIN_SEGMENT_RUNS for c in history.series for segment in c.segments
    )
    return f"{text}; {'no change is visible' if was_searched else 'there are too few runs to see a change'}."


def supporting_text(history: StudyHistory) -> str:
    """Return the rate of false alarms; with too few runs, how many an alarm needs."""
    if not history.assessed:
        return f"An alarm needs {MIN_RUNS} runs that count, on the same hosts and of the same question."
    number = len(history.assessed)
    comparisons = "its comparison" if number == 1 else f"any of its {number} comparisons"
    return (
        f"Of runs in which nothing changed, 1 in {1 / history.alarm_rate:,.3g} raises a false alarm "
        f"in {comparisons}: about {365 * history.alarm_rate:.2g} in a year of nightly runs."
    )


def run_count_text(number: int) -> str:
    """Return "1 run" or "12 runs"."""
    return f"{number:,} run{'' if number == 1 else 's'}"


def series_sentence(series: EffectSeries) -> str:
    """Return the level of one comparison and since when, its changes, and the alarm of the newest run."""
    return " ".join(filter(None, (level_sentence(series), *change_sentences(series), alarm_sentence(series))))


def level_sentence(series: EffectSeries) -> str:
    """Return the level of the newest run that counts."""
    segment = current_segment(series)
    if segment is None:
        return "no run of it counts."
    since, number = date_text(series.points[segment.indices[0]].started), len(segment.indices)
    runs_text = f"{run_count_text(number)} since {since}" if number > 1 else f"one run, {since}"
    return f"stands at {level_text(segment)}, {runs_text}{_hosts_text(series, segment)}."


def _hosts_text(series: EffectSeries, segment: Segment) -> str:
    several = len({s.hosts for s in series.segments}) > 1
    return f" on hosts {host_set_letter(segment.hosts)}" if several else ""


def current_segment(series: EffectSeries) -> Segment | None:
    """Return the segment of the newest run that counts; for one with an alarm, the level that it fell from."""
    newest_hosts = {point.hosts for point in series.points[-1:] if point.is_included}
    return max(series.segments, key=lambda segment: (segment.hosts in newest_hosts, segment.indices[-1]), default=None)


def level_text(segment: Segment) -> str:
    """Return a level with its interval: "+6.0 % (95 % interval +5.8 to +6.2 %)"."""
    low, high = segment.interval
    digits = min(decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)
    return f"{format_percent(segment.effect, digits)} (95{NBSP}% interval {format_percent_range((low, high), digits)})"


def change_sentences(series: EffectSeries) -> list[str]:
    """Return a sentence for each change, the newest first."""
    sentences = []
    for segment in reversed(series.changed_segments):
        before = series.segments[series.segments.index(segment) - 1]
        change = (1 + segment.effect) / (1 + before.effect) - 1
        sentences.append(
            f"Changed by {format_percent(change, 1)}{_hosts_text(series, segment)} with the run of "
            f"{date_text(series.points[segment.indices[0]].started)}: before, {format_percent(before.effect, 1)} "
            f"({run_count_text(len(before.indices))})."
        )
    return sentences


def alarm_sentence(series: EffectSeries) -> str:
    """Return the sentence on the newest run: an alarm, no alarm and its limit, or why none is possible."""
    alarm = series.alarm
    if alarm is None:
        return f"No alarm is possible: {series.no_alarm_reason}." if series.no_alarm_reason else ""
    effect, limit = format_percent(alarm.effect, 1), format_percent(alarm.limit, 1)
    past_text = f"its {run_count_text(alarm.past_runs)} before it"
    if alarm.raised:
        return f"ALARM: the newest run gives {effect}, and {past_text} let expect {limit} at worst."
    power = format_percent(alarm.power, 0, signed=False)
    if alarm.power > 0.99 or alarm.power < 0.01:
        power = f"over 99{NBSP}%" if alarm.power > 0.5 else f"under 1{NBSP}%"
    return (
        f"No alarm: the newest run gives {effect}; worse than {limit} would be one, by {past_text}. "
        f"A worsening by {margin_text(alarm.margin)} would be found with a probability of {power}."
    )


def host_set_letter(hosts: int) -> str:
    """Return the name of a set of hosts: A, B, ... Z, AA, ..."""
    head, tail = divmod(hosts, 26)
    return (host_set_letter(head - 1) if head else "") + chr(ord("A") + tail)


def method_sentence(history: StudyHistory) -> str:
    """Return the method that finds changes, and its rate of false ones."""
    return (
        f"A change is a level of at least {levels.MIN_SEGMENT_RUNS} runs that stands out from the others "
        f"(circular binary segmentation, weighted by each run’s own error); "
        f"of histories in which nothing changed, at most 1 in {1 / history.change_rate:,.3g} shows one."
    )
