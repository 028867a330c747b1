"""Every sentence and number about a study's history."""

from __future__ import annotations

from datetime import UTC, datetime

from loadbook.core.units import NBSP, decimals_for, joined, percent, percent_range
from loadbook.stats.history.alarm import MIN_PAST, Alarm, a_year
from loadbook.stats.history.changes import LEAST
from loadbook.stats.history.result import Course, History, Point, Stretch
from loadbook.stats.wording.sentences import margin_text
from loadbook.stats.wording.shown import MAX_DECIMALS

FEW = MIN_PAST + 1
MAX_NAMES = 3


def day(at: float) -> str:
    """Return the day of a time (epoch seconds), UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d")


def moment(at: float) -> str:
    """Return day and minute of a time, UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M")


def headline(found: History) -> str:
    """Return the answer: is the newest run worse than its past, and did any effect change."""
    if found.counting < 2:
        return f"{runs(found.counting)} that count{'s' if found.counting == 1 else ''}: there is no history yet."
    if found.alarms:
        return f"The newest run is worse than its past: {_names(found.alarms)}."
    judged = "The newest run is not shown to be worse than its past" if found.judged else "No alarm can be raised yet"
    changed = [course for course in found.treatments if course.changed]
    if changed:
        return f"{judged}; {_names(changed)} changed on the way."
    searched = any(len(stretch.places) >= 2 * LEAST for c in found.courses for stretch in c.stretches)
    return f"{judged}; {'no change is visible' if searched else 'there are too few runs to see a change'}."


def _names(courses: tuple[Course, ...] | list[Course]) -> str:
    labels = [course.label for course in courses]
    return joined(labels if len(labels) <= MAX_NAMES else [*labels[: MAX_NAMES - 1], f"{len(labels) - 2} others"])


def supporting(found: History) -> str:
    """Return how often an alarm is false; of too few runs, how many it takes."""
    if found.judged:
        number = len(found.judged)
        each = "its comparison" if number == 1 else f"any of its {number} comparisons"
        return (
            f"Of runs in which nothing changed, 1 in {1 / found.rate:,.3g} raises a false alarm in {each}: "
            f"about {a_year(found.rate):.2g} in a year of nightly runs."
        )
    return f"An alarm needs {FEW} runs that count, on the same hosts and of the same question."


def runs(number: int) -> str:
    """Return "1 run" or "12 runs"."""
    return f"{number:,} run{'' if number == 1 else 's'}"


def sentence(course: Course) -> str:
    """Return where one comparison stands, since when, and what became of the newest run."""
    return " ".join(filter(None, (stand(course), *changes(course), verdict(course))))


def stand(course: Course) -> str:
    """Return the level at which the newest run that counts stands."""
    now = latest(course)
    if now is None:
        return "no run of it counts."
    since = day(course.points[now.places[0]].started)
    held = f"{runs(len(now.places))} since {since}" if len(now.places) > 1 else f"one run, {since}"
    others = len({s.hosts for s in course.stretches}) > 1
    return f"stands at {effect(now)}, {held}{f' on hosts {letter(now.hosts)}' if others else ''}."


def latest(course: Course) -> Stretch | None:
    """Return the stretch of the newest run that counts; of one that alarms, the level that it fell from."""
    mine = {point.hosts for point in course.points[-1:] if point.counts}
    return max(course.stretches, key=lambda stretch: (stretch.hosts in mine, stretch.places[-1]), default=None)


def effect(stretch: Stretch) -> str:
    """Return a level with its interval: "+6.0 % (95 % interval +5.8 to +6.2 %)"."""
    low, high = stretch.interval
    digits = min(decimals_for((high - low) / 2 * 100), MAX_DECIMALS)
    return f"{percent(stretch.effect, digits)} (95{NBSP}% interval {percent_range((low, high), digits)})"


def changes(course: Course) -> list[str]:
    """Return a sentence for each change, the newest first."""
    several = len({s.hosts for s in course.stretches}) > 1
    return [
        f"Changed by {percent(_step(course, s), 1)}{f' on hosts {letter(s.hosts)}' if several else ''} with the run "
        f"of {day(course.points[s.places[0]].started)}: before, {percent(course.before(s).effect, 1)} "
        f"({runs(len(course.before(s).places))})."
        for s in reversed(course.changed)
    ]


def _step(course: Course, stretch: Stretch) -> float:
    """Return by how much the ratio changed, itself a ratio minus 1."""
    return (1 + stretch.effect) / (1 + course.before(stretch).effect) - 1


def verdict(course: Course) -> str:
    """Return what became of the newest run: an alarm, none and what one would have taken, or why none is possible."""
    if course.alarm:
        return _alarm(course.alarm)
    return f"No alarm is possible: {course.silence}." if course.silence else ""


def _alarm(found: Alarm) -> str:
    own, limit = percent(found.effect, 1), percent(found.limit, 1)
    power = f"A worsening by {margin_text(found.margin)} would be found with a probability of {_share(found.power)}."
    past = f"its {runs(found.past)} before it"
    if found.speaks:
        return f"ALARM: the newest run gives {own}, and {past} let expect {limit} at worst."
    return f"No alarm: the newest run gives {own}; worse than {limit} would be one, by {past}. {power}"


def _share(power: float) -> str:
    if power > 0.99:
        return f"over 99{NBSP}%"
    return percent(power, 0, signed=False) if power >= 0.01 else f"under 1{NBSP}%"


def letter(hosts: int) -> str:
    """Return the name of a set of hosts: A, B, ... Z, AA, ..."""
    head, tail = divmod(hosts, 26)
    return (letter(head - 1) if head else "") + chr(ord("A") + tail)


def asked_anew(course: Course, place: int) -> str:
    """Return which parts of the question changed with the run at this place."""
    return f"another question: {joined(course.asked_anew[place])}"


def counted_as(course: Course, point: Point) -> str:
    """Return why a point does not count, or nothing."""
    return "" if point.counts else f"{course.label}: {point.why}"


def how_changes(found: History) -> str:
    """Return how changes are found, and how often one is seen that is none."""
    return (
        f"A change is a level of at least {LEAST} runs that stands out from the others (circular binary segmentation, "
        f"weighted by each run’s own error); of histories in which nothing changed, at most 1 in "
        f"{1 / found.change_rate:,.3g} shows one."
    )
