"""Each treatment's effect in all runs of a study: its level, its changes, and whether the newest run is worse.

Runs are compared only if they used the same hosts and answer the same question (same metric, baseline, margin and so
on). Each such group has its own changes and levels, and the newest run is compared with its own group.
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
    pluralize,
    shorten_list,
    utc_text,
)
from loadbook.stats.paired_tests import effect_from_log
from loadbook.stats.results import CheckState, Interval, RowKind, VerdictKind
from loadbook.stats.sequential import t_quantile
from loadbook.stats.text import MAX_DECIMALS, margin_text

ALARM_RATE = 0.01  # share of runs with a false alarm for any treatment of a study
CHANGE_RATE = 0.01  # share of histories with a false change for any treatment, although nothing changed
_MIN_EFFECT = -1 + 1e-15


@dataclass(frozen=True)
class RunEffect:
    """One treatment's effect in one run (a ratio minus 1), with the interval that the run's report prints.

    `question` maps each part of the question, such as "margin", to its value as text; only runs with equal parts are
    compared. `reason` is why the effect does not count (None: it counts); `level` is the confidence of the interval.
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
    check_state: CheckState | None = None
    question: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> tuple[float, float] | None:
        """(Log of the ratio, its standard error), derived from the interval; None without one of any width."""
        if self.effect is None or self.interval is None or self.blocks < 2:
            return None
        estimate, low, high = (math.log1p(max(v, _MIN_EFFECT)) for v in (self.effect, *self.interval))
        error = (high - low) / 2 / t_quantile((1 + self.level) / 2, self.blocks)
        return (estimate, error) if error > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """A run of the study: its start (epoch seconds), the number of its set of hosts (0, 1, ...), and its effects.

    `excluded_reason` is why the whole run does not count ("": it counts); an excluded run may have no effects.
    """

    run: str
    started: float
    hosts: int
    effects: tuple[RunEffect, ...] = ()
    excluded_reason: str = ""


@dataclass(frozen=True)
class EffectPoint:
    """One treatment's effect in one run of a history; `excluded_reason` is why it does not count ("": it counts).

    `started` is in epoch seconds, `hosts` the number of the set of hosts (0, 1, ...).
    """

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
    level: levels.EffectLevel
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
    """One treatment's effects in all runs, oldest first.

    `segments` refer to `points` by index. `question_changes`: index of a point -> parts of its question that differ
    from the previous run on the same hosts. `alarm` is None for a harness check, or if no alarm is possible (why:
    `no_alarm_reason`).
    """

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
        """The segments that begin with a change of the effect, oldest first."""
        return tuple(sorted((s for s in self.segments if s.start_kind == "changed"), key=lambda s: s.indices[0]))


@dataclass(frozen=True)
class StudyHistory:
    """All runs of a study, oldest first, on one metric; runs that cannot be read are included as excluded runs.

    `margin` is a ratio minus 1; `alarm_rate` and `change_rate` are as `rate` and `change_rate` of `effect_series`.
    """

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

    `runs` are oldest first; `margin` is a ratio minus 1. `rate` is the accepted share of runs with a false alarm,
    `change_rate` that of histories with a false change, over all series together.
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
            one = _with_alarm(one, runs, better, margin, rate / max(assessable, 1), change_rate)
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
    series: EffectSeries,
    runs: Sequence[RunSummary],
    better: Direction,
    margin: float,
    rate: float,
    change_rate: float,
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
    past = _past_indices(points, change_rate)
    logs = [(*log, points[index].effect.blocks) for index in (*past, -1) if (log := points[index].effect.log)]
    alarm = levels.assess_newest(logs[:-1], logs[-1], better=better, rate=rate, margin=margin)
    if alarm is None:
        present = "there is none" if not past else f"there {'is' if len(past) == 1 else 'are'} {len(past)}"
        more = levels.MIN_PAST_RUNS - len(past)
        enough = f"{pluralize(more, 'more run')} will do"
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


def _past_indices(points: Sequence[EffectPoint], change_rate: float) -> list[int]:
    """Return the indices of the runs with which the newest is compared: those of its group since the last change.

    The newest run is not used to find that change.
    """
    earlier = next(group for group in _comparable_groups(points) if group[-1] == len(points) - 1)[:-1]
    if not earlier:
        return []
    edges = levels.find_changes(_log_effects(points, earlier), change_rate)
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


MIN_RUNS = levels.MIN_PAST_RUNS + 1
MAX_NAMES = 2


def one_run_sentence(history: StudyHistory) -> str:
    """Return the sentence on a study with one run, which has no history."""
    left_out = history.runs[0].excluded_reason
    why = f", and this one does not count: {left_out}" if left_out else ""
    needs = f"an alarm needs {MIN_RUNS} that count, on the same hosts and of the same question"
    return f"{history.study}: 1 run, and no history yet: {needs}{why}."


def date_text(epoch_s: float) -> str:
    """Return the UTC date of a time given in epoch seconds, as 2024-05-31."""
    return utc_text(epoch_s, "%Y-%m-%d")


def headline(history: StudyHistory) -> str:
    """Return the answer in one sentence: whether the newest run is worse than earlier ones, which effects changed."""
    if history.included_runs < 2:
        verb = "counts" if history.included_runs == 1 else "count"
        return f"{pluralize(history.included_runs, 'run')} that {verb}: there is no history yet."
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
    """Return the sentence on the rate of false alarms; with too few runs, on how many runs an alarm needs."""
    if not history.assessed:
        return f"An alarm needs {MIN_RUNS} runs that count, on the same hosts and of the same question."
    number = len(history.assessed)
    comparisons = "its comparison" if number == 1 else f"any of its {number} comparisons"
    return (
        f"Of runs in which nothing changed, 1 in {1 / history.alarm_rate:,.3g} raises a false alarm "
        f"in {comparisons}: about {365 * history.alarm_rate:.2g} in a year of nightly runs."
    )


def series_sentence(series: EffectSeries) -> str:
    """Return sentences to follow a treatment's name: its level and since when, changes, alarm for the newest run."""
    return " ".join(filter(None, (level_sentence(series), *change_sentences(series), alarm_sentence(series))))


def level_sentence(series: EffectSeries) -> str:
    """Return the end of a sentence that begins with the treatment's name: the level of the newest run that counts."""
    segment = current_segment(series)
    if segment is None:
        return "no run of it counts."
    since, number = date_text(series.points[segment.indices[0]].started), len(segment.indices)
    runs_text = f"{pluralize(number, 'run')} since {since}" if number > 1 else f"one run, {since}"
    return f"stands at {level_text(segment)}, {runs_text}{_hosts_text(series, segment)}."


def _hosts_text(series: EffectSeries, segment: Segment) -> str:
    several = len({s.hosts for s in series.segments}) > 1
    return f" on hosts {host_set_letter(segment.hosts)}" if several else ""


def current_segment(series: EffectSeries) -> Segment | None:
    """Return the segment of the newest run that counts (after an alarm: of the earlier runs); None if none counts."""
    newest_hosts = {point.hosts for point in series.points[-1:] if point.is_included}
    return max(series.segments, key=lambda segment: (segment.hosts in newest_hosts, segment.indices[-1]), default=None)


def level_text(segment: Segment) -> str:
    """Return a level with its interval: "+6.0 % (95 % interval +5.8 to +6.2 %)"."""
    low, high = segment.interval
    digits = min(decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)
    return f"{format_percent(segment.effect, digits)} (95{NBSP}% interval {format_percent_range((low, high), digits)})"


def change_sentences(series: EffectSeries) -> list[str]:
    """Return one sentence per change, newest first."""
    sentences = []
    for segment in reversed(series.changed_segments):
        before = series.segments[series.segments.index(segment) - 1]
        change = (1 + segment.effect) / (1 + before.effect) - 1
        sentences.append(
            f"Changed by {format_percent(change, 1)}{_hosts_text(series, segment)} with the run of "
            f"{date_text(series.points[segment.indices[0]].started)}: before, {format_percent(before.effect, 1)} "
            f"({pluralize(len(before.indices), 'run')})."
        )
    return sentences


def alarm_sentence(series: EffectSeries) -> str:
    """Return the sentence on the newest run: alarm, no alarm, or why none is possible; "" for a harness check."""
    alarm = series.alarm
    if alarm is None:
        return f"No alarm is possible: {series.no_alarm_reason}." if series.no_alarm_reason else ""
    effect, limit = format_percent(alarm.effect, 1), format_percent(alarm.limit, 1)
    past_text = f"its {pluralize(alarm.past_runs, 'run')} before it"
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
    """Return the name of the set of hosts with this number (from 0): A, B, ... Z, AA, ..."""
    head, tail = divmod(hosts, 26)
    return (host_set_letter(head - 1) if head else "") + chr(ord("A") + tail)


def method_sentence(history: StudyHistory) -> str:
    """Return the sentence on the method that finds changes and on its rate of false changes."""
    return (
        f"A change is a level of at least {levels.MIN_SEGMENT_RUNS} runs that stands out from the others "
        f"(circular binary segmentation, weighted by each run’s own error); "
        f"of histories in which nothing changed, at most 1 in {1 / history.change_rate:,.3g} shows one."
    )
