"""Each comparison of a study through its runs: where it stands, when it changed, whether the newest run is worse.

Runs are held together only where they are on the same hosts and ask the same of a comparison: each such group has its
own changes and levels, and the newest run is held against its own group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from loadbook.core.metrics import Direction
from loadbook.stats.history.alarm import MIN_PAST_RUNS, assess_newest
from loadbook.stats.history.changes import MIN_SEGMENT_RUNS, find_changes
from loadbook.stats.history.level import estimate_level
from loadbook.stats.history.result import ALARM_RATE, CHANGE_RATE, EffectSeries, RunEffect, EffectPoint, RunSummary, Segment


def effect_series(
    runs: Sequence[RunSummary], better: Direction, margin: float, rate: float = ALARM_RATE, change_rate: float = CHANGE_RATE
) -> tuple[EffectSeries, ...]:
    """Return every comparison of these runs, oldest run first: treatments before checks, as they first appeared.

    `rate` and `change_rate` are those of all comparisons together.
    """
    points_by_name = {name: _effect_points(runs, name) for name in _comparison_names(runs)}
    groups = {name: _comparable_groups(points) for name, points in points_by_name.items()}
    searchable_groups = sum(len(indices) >= 2 * MIN_SEGMENT_RUNS for groups_of_name in groups.values() for indices in groups_of_name)
    segments = {
        name: tuple(s for indices in groups[name] for s in _segments(points, indices, change_rate / max(searchable_groups, 1)))
        for name, points in points_by_name.items()
    }
    assessed = [name for name, points in points_by_name.items() if _is_assessable(points, runs)]
    return tuple(
        _series_of(points, segments[name], runs, better, margin, rate / max(len(assessed), 1))
        for name, points in points_by_name.items()
    )


def _comparison_names(runs: Sequence[RunSummary]) -> list[str]:
    """Return the comparisons in the order of the newest run that has them, treatments first."""
    newest_first = [effect for run in reversed(runs) for effect in run.effects]
    kinds = ("treatment", "aa", "control")
    return list(dict.fromkeys(e.treatment for kind in kinds for e in newest_first if e.kind == kind))


def _effect_points(runs: Sequence[RunSummary], name: str) -> tuple[EffectPoint, ...]:
    return tuple(
        EffectPoint(run.run, run.started, run.hosts, effect, _exclusion_reason(run, effect))
        for run in runs
        for effect in run.effects
        if effect.treatment == name
    )


def _exclusion_reason(run: RunSummary, effect: RunEffect) -> str:
    return run.excluded_reason or effect.reason or ("" if effect.log else "it has no interval of any width")


def _comparable_groups(points: Sequence[EffectPoint]) -> list[list[int]]:
    """Return the places of points that count, by hosts and question, in the order in which they begin."""
    groups: dict[tuple[int, tuple[tuple[str, str], ...]], list[int]] = {}
    for index, point in enumerate(points):
        if point.is_included:
            groups.setdefault((point.hosts, tuple(sorted(point.effect.asked.items()))), []).append(index)
    return list(groups.values())


def _segments(points: Sequence[EffectPoint], indices: Sequence[int], rate: float) -> Iterable[Segment]:
    logs = _log_effects(points, indices)
    edges = [0, *find_changes(logs, rate), len(indices)]
    for number, (start, end) in enumerate(pairwise(edges)):
        segment_indices = tuple(indices[start:end])
        begins = "changed" if number else "first"
        yield Segment(segment_indices, points[segment_indices[0]].hosts, estimate_level(logs[start:end]), begins)


def _log_effects(points: Sequence[EffectPoint], indices: Iterable[int]) -> list[tuple[float, float]]:
    return [log for index in indices if (log := points[index].effect.log)]


def _is_assessable(points: Sequence[EffectPoint], runs: Sequence[RunSummary]) -> bool:
    last = points[-1]
    return last.effect.kind == "treatment" and last.run == runs[-1].run and last.is_included


def _series_of(
    points: tuple[EffectPoint, ...], segments: tuple[Segment, ...], runs: Sequence[RunSummary], better: Direction,
    margin: float, rate: float,
) -> EffectSeries:  # fmt: skip
    last = points[-1].effect
    series = EffectSeries(last.treatment, last.label, last.kind, points, segments, _question_changes(points))
    if last.kind != "treatment":
        return series
    if not _is_assessable(points, runs):
        return replace(series, no_alarm_reason=_no_alarm_reason(points, runs))
    past = _past_indices(points)
    log_effects = [(*log, points[index].effect.blocks) for index in (*past, -1) if (log := points[index].effect.log)]
    alarm_result = assess_newest(log_effects[:-1], log_effects[-1], better=better, rate=rate, margin=margin)
    if alarm_result is None:
        return replace(series, no_alarm_reason=_too_few_text(len(past)))
    return replace(series, alarm=alarm_result, segments=_without_newest(series, past) if alarm_result.raised else segments)


def _without_newest(series: EffectSeries, past: Sequence[int]) -> tuple[Segment, ...]:
    """Return the stretches; the level that the newest run has fallen from is that of the runs before it."""
    past_level = estimate_level(_log_effects(series.points, past))
    return tuple(
        replace(segment, indices=tuple(past), level=past_level) if segment.indices[:-1] == tuple(past) else segment
        for segment in series.segments
    )


def _past_indices(points: Sequence[EffectPoint]) -> list[int]:
    """Return the places of the runs that the newest is held against: of its group, since the last change before it.

    The newest run takes no part in finding that change.
    """
    earlier = next(group for group in _comparable_groups(points) if group[-1] == len(points) - 1)[:-1]
    if not earlier:
        return []
    edges = find_changes(_log_effects(points, earlier), CHANGE_RATE)
    return earlier[edges[-1] if edges else 0 :]


def _no_alarm_reason(points: Sequence[EffectPoint], runs: Sequence[RunSummary]) -> str:
    last, newest_run = points[-1], runs[-1]
    if last.run != newest_run.run:
        return f"the newest run {'is left out: ' + newest_run.excluded_reason if newest_run.excluded_reason else 'does not have it'}"
    return f"the newest run does not count: {last.excluded_reason}"


def _too_few_text(past: int) -> str:
    existing = "there is none" if past == 0 else f"there {'is' if past == 1 else 'are'} {past}"
    more = MIN_PAST_RUNS - past
    will_do = f"{more} more run{'' if more == 1 else 's'} will do"
    return f"it takes {MIN_PAST_RUNS} earlier runs of its level, hosts and question; {existing}, {will_do}"


def _question_changes(points: Sequence[EffectPoint]) -> dict[int, tuple[str, ...]]:
    """Return the places at which another question is asked than before on these hosts, and in which of its parts."""
    changes, last = {}, dict[int, EffectPoint]()
    for index, point in enumerate(points):
        current = point.effect.asked
        previous = last.get(point.hosts, point).effect.asked
        parts = [part for part in dict.fromkeys([*previous, *current]) if previous.get(part) != current.get(part)]
        if parts:
            changes[index] = tuple(parts)
        last[point.hosts] = point
    return changes
