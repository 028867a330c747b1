"""Each comparison of a study through its runs: where it stands, when it changed, whether the newest run is worse.

Runs are held together only where they are on the same hosts and ask the same of a comparison: each such group has its
own changes and levels, and the newest run is held against its own group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from loadbook.core.metrics import Direction
from loadbook.stats.history.alarm import MIN_PAST, alarm
from loadbook.stats.history.changes import LEAST, changes
from loadbook.stats.history.level import level
from loadbook.stats.history.result import ALARM_RATE, CHANGE_RATE, Course, Effect, Point, Seen, Stretch


def courses(
    runs: Sequence[Seen], better: Direction, margin: float, rate: float = ALARM_RATE, change_rate: float = CHANGE_RATE
) -> tuple[Course, ...]:
    """Return every comparison of these runs, oldest run first: treatments before checks, as they first appeared.

    `rate` and `change_rate` are those of all comparisons together.
    """
    found = {name: _points(runs, name) for name in _names(runs)}
    groups = {name: _groups(points) for name, points in found.items()}
    searched = sum(len(places) >= 2 * LEAST for each in groups.values() for places in each)
    stretches = {
        name: tuple(s for places in groups[name] for s in _stretches(points, places, change_rate / max(searched, 1)))
        for name, points in found.items()
    }
    judged = [name for name, points in found.items() if _judged(points, runs)]
    return tuple(
        _course(points, stretches[name], runs, better, margin, rate / max(len(judged), 1))
        for name, points in found.items()
    )


def _names(runs: Sequence[Seen]) -> list[str]:
    """Return the comparisons in the order of the newest run that has them, treatments first."""
    newest_first = [effect for seen in reversed(runs) for effect in seen.effects]
    kinds = ("treatment", "aa", "control")
    return list(dict.fromkeys(e.treatment for kind in kinds for e in newest_first if e.kind == kind))


def _points(runs: Sequence[Seen], name: str) -> tuple[Point, ...]:
    return tuple(
        Point(seen.run, seen.started, seen.hosts, effect, _why(seen, effect))
        for seen in runs
        for effect in seen.effects
        if effect.treatment == name
    )


def _why(seen: Seen, effect: Effect) -> str:
    return seen.left_out or effect.reason or ("" if effect.log else "it has no interval of any width")


def _groups(points: Sequence[Point]) -> list[list[int]]:
    """Return the places of points that count, by hosts and question, in the order in which they begin."""
    found: dict[tuple[int, tuple[tuple[str, str], ...]], list[int]] = {}
    for place, point in enumerate(points):
        if point.counts:
            found.setdefault((point.hosts, tuple(sorted(point.effect.asked.items()))), []).append(place)
    return list(found.values())


def _stretches(points: Sequence[Point], places: Sequence[int], rate: float) -> Iterable[Stretch]:
    logs = _logs(points, places)
    edges = [0, *changes(logs, rate), len(places)]
    for number, (start, end) in enumerate(pairwise(edges)):
        own = tuple(places[start:end])
        begins = "changed" if number else "first"
        yield Stretch(own, points[own[0]].hosts, level(logs[start:end]), begins)


def _logs(points: Sequence[Point], places: Iterable[int]) -> list[tuple[float, float]]:
    return [log for place in places if (log := points[place].effect.log)]


def _judged(points: Sequence[Point], runs: Sequence[Seen]) -> bool:
    last = points[-1]
    return last.effect.kind == "treatment" and last.run == runs[-1].run and last.counts


def _course(
    points: tuple[Point, ...], stretches: tuple[Stretch, ...], runs: Sequence[Seen], better: Direction,
    margin: float, rate: float,
) -> Course:  # fmt: skip
    last = points[-1].effect
    course = Course(last.treatment, last.label, last.kind, points, stretches, _asked_anew(points))
    if last.kind != "treatment":
        return course
    if not _judged(points, runs):
        return replace(course, silence=_not_judged(points, runs))
    past = _past(points)
    told = [(*log, points[place].effect.blocks) for place in (*past, -1) if (log := points[place].effect.log)]
    found = alarm(told[:-1], told[-1], better=better, rate=rate, margin=margin)
    if found is None:
        return replace(course, silence=_too_few(len(past)))
    return replace(course, alarm=found, stretches=_without_newest(course, past) if found.speaks else stretches)


def _without_newest(course: Course, past: Sequence[int]) -> tuple[Stretch, ...]:
    """Return the stretches; the level that the newest run has fallen from is that of the runs before it."""
    mine = level(_logs(course.points, past))
    return tuple(
        replace(stretch, places=tuple(past), level=mine) if stretch.places[:-1] == tuple(past) else stretch
        for stretch in course.stretches
    )


def _past(points: Sequence[Point]) -> list[int]:
    """Return the places of the runs that the newest is held against: of its group, since the last change before it.

    The newest run takes no part in finding that change.
    """
    mine = next(group for group in _groups(points) if group[-1] == len(points) - 1)[:-1]
    if not mine:
        return []
    edges = changes(_logs(points, mine), CHANGE_RATE)
    return mine[edges[-1] if edges else 0 :]


def _not_judged(points: Sequence[Point], runs: Sequence[Seen]) -> str:
    last, newest = points[-1], runs[-1]
    if last.run != newest.run:
        return f"the newest run {'is left out: ' + newest.left_out if newest.left_out else 'does not have it'}"
    return f"the newest run does not count: {last.why}"


def _too_few(past: int) -> str:
    there = "there is none" if past == 0 else f"there {'is' if past == 1 else 'are'} {past}"
    more = MIN_PAST - past
    will_do = f"{more} more run{'' if more == 1 else 's'} will do"
    return f"it takes {MIN_PAST} earlier runs of its level, hosts and question; {there}, {will_do}"


def _asked_anew(points: Sequence[Point]) -> dict[int, tuple[str, ...]]:
    """Return the places at which another question is asked than before on these hosts, and in which of its parts."""
    found, last = {}, dict[int, Point]()
    for place, point in enumerate(points):
        theirs = point.effect.asked
        ours = last.get(point.hosts, point).effect.asked
        parts = [part for part in dict.fromkeys([*ours, *theirs]) if ours.get(part) != theirs.get(part)]
        if parts:
            found[place] = tuple(parts)
        last[point.hosts] = point
    return found
