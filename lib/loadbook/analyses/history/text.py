"""Every sentence and number about a study's history."""

from __future__ import annotations

from datetime import UTC, datetime

from loadbook.analyses.history.compute import (
    MIN_PAST_RUNS,
    MIN_SEGMENT_RUNS,
    Alarm,
    EffectPoint,
    EffectSeries,
    Segment,
    StudyHistory,
    false_alarms_per_year,
)
from loadbook.core.units import NBSP, decimals_for_half_width, format_percent, format_percent_range, join_words
from loadbook.stats.text import MAX_DECIMALS, margin_text

MIN_RUNS = MIN_PAST_RUNS + 1
MAX_NAMES = 3


def date_text(epoch_s: float) -> str:
    """Return the day of a time (epoch seconds), UTC."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d")


def datetime_text(epoch_s: float) -> str:
    """Return day and minute of a time, UTC."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M")


def headline(history: StudyHistory) -> str:
    """Return the answer: is the newest run worse than its past, and did any effect change."""
    if history.included_runs < 2:
        verb = "counts" if history.included_runs == 1 else "count"
        return f"{run_count_text(history.included_runs)} that {verb}: there is no history yet."
    if history.alarms:
        return f"The newest run is worse than its past: {_shortened_labels(history.alarms)}."
    alarm_text = (
        "The newest run is not shown to be worse than its past" if history.assessed else "No alarm can be raised yet"
    )
    changed_series = [series for series in history.treatments if series.changed_segments]
    if changed_series:
        return f"{alarm_text}; {_shortened_labels(changed_series)} changed on the way."
    was_searched = any(len(segment.indices) >= 2 * MIN_SEGMENT_RUNS for c in history.series for segment in c.segments)
    return f"{alarm_text}; {'no change is visible' if was_searched else 'there are too few runs to see a change'}."


def _shortened_labels(courses: tuple[EffectSeries, ...] | list[EffectSeries]) -> str:
    labels = [series.label for series in courses]
    return join_words(labels if len(labels) <= MAX_NAMES else [*labels[: MAX_NAMES - 1], f"{len(labels) - 2} others"])


def supporting_text(history: StudyHistory) -> str:
    """Return how often an alarm is false; of too few runs, how many it takes."""
    if history.assessed:
        number = len(history.assessed)
        comparisons = "its comparison" if number == 1 else f"any of its {number} comparisons"
        return (
            f"Of runs in which nothing changed, 1 in {1 / history.alarm_rate:,.3g} raises a false alarm "
            f"in {comparisons}: about {false_alarms_per_year(history.alarm_rate):.2g} in a year of nightly runs."
        )
    return f"An alarm needs {MIN_RUNS} runs that count, on the same hosts and of the same question."


def run_count_text(number: int) -> str:
    """Return "1 run" or "12 runs"."""
    return f"{number:,} run{'' if number == 1 else 's'}"


def series_sentence(series: EffectSeries) -> str:
    """Return where one comparison stands, since when, and what became of the newest run."""
    return " ".join(filter(None, (level_sentence(series), *change_sentences(series), alarm_sentence(series))))


def level_sentence(series: EffectSeries) -> str:
    """Return the level at which the newest run that counts stands."""
    segment = current_segment(series)
    if segment is None:
        return "no run of it counts."
    since = date_text(series.points[segment.indices[0]].started)
    runs_text = (
        f"{run_count_text(len(segment.indices))} since {since}" if len(segment.indices) > 1 else f"one run, {since}"
    )
    others = len({s.hosts for s in series.segments}) > 1
    hosts_text = f" on hosts {host_set_letter(segment.hosts)}" if others else ""
    return f"stands at {level_text(segment)}, {runs_text}{hosts_text}."


def current_segment(series: EffectSeries) -> Segment | None:
    """Return the stretch of the newest run that counts; of one that alarms, the level that it fell from."""
    newest_hosts = {point.hosts for point in series.points[-1:] if point.is_included}
    return max(series.segments, key=lambda segment: (segment.hosts in newest_hosts, segment.indices[-1]), default=None)


def level_text(segment: Segment) -> str:
    """Return a level with its interval: "+6.0 % (95 % interval +5.8 to +6.2 %)"."""
    low, high = segment.interval
    digits = min(decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)
    return f"{format_percent(segment.effect, digits)} (95{NBSP}% interval {format_percent_range((low, high), digits)})"


def change_sentences(series: EffectSeries) -> list[str]:
    """Return a sentence for each change, the newest first."""
    several = len({s.hosts for s in series.segments}) > 1
    return [
        f"Changed by {format_percent(_relative_change(series, s), 1)}"
        f"{f' on hosts {host_set_letter(s.hosts)}' if several else ''} with the run "
        f"of {date_text(series.points[s.indices[0]].started)}: "
        f"before, {format_percent(series.previous_segment(s).effect, 1)} "
        f"({run_count_text(len(series.previous_segment(s).indices))})."
        for s in reversed(series.changed_segments)
    ]


def _relative_change(series: EffectSeries, segment: Segment) -> float:
    """Return by how much the ratio changed, itself a ratio minus 1."""
    return (1 + segment.effect) / (1 + series.previous_segment(segment).effect) - 1


def alarm_sentence(series: EffectSeries) -> str:
    """Return what became of the newest run: an alarm, none and what one would have taken, or why none is possible."""
    if series.alarm:
        return _alarm_text(series.alarm)
    return f"No alarm is possible: {series.no_alarm_reason}." if series.no_alarm_reason else ""


def _alarm_text(alarm: Alarm) -> str:
    effect, limit = format_percent(alarm.effect, 1), format_percent(alarm.limit, 1)
    power = (
        f"A worsening by {margin_text(alarm.margin)} would be found with a probability of {_power_text(alarm.power)}."
    )
    past_text = f"its {run_count_text(alarm.past_runs)} before it"
    if alarm.raised:
        return f"ALARM: the newest run gives {effect}, and {past_text} let expect {limit} at worst."
    return f"No alarm: the newest run gives {effect}; worse than {limit} would be one, by {past_text}. {power}"


def _power_text(power: float) -> str:
    if power > 0.99:
        return f"over 99{NBSP}%"
    return format_percent(power, 0, signed=False) if power >= 0.01 else f"under 1{NBSP}%"


def host_set_letter(hosts: int) -> str:
    """Return the name of a set of hosts: A, B, ... Z, AA, ..."""
    head, tail = divmod(hosts, 26)
    return (host_set_letter(head - 1) if head else "") + chr(ord("A") + tail)


def changed_question_text(series: EffectSeries, index: int) -> str:
    """Return which parts of the question changed with the run at this place."""
    return f"another question: {join_words(series.question_changes[index])}"


def exclusion_text(series: EffectSeries, point: EffectPoint) -> str:
    """Return why a point does not count, or nothing."""
    return "" if point.is_included else f"{series.label}: {point.excluded_reason}"


def method_sentence(history: StudyHistory) -> str:
    """Return how changes are found, and how often one is seen that is none."""
    return (
        f"A change is a level of at least {MIN_SEGMENT_RUNS} runs that stands out from the others "
        f"(circular binary segmentation, weighted by each run’s own error); "
        f"of histories in which nothing changed, at most 1 in {1 / history.change_rate:,.3g} shows one."
    )
