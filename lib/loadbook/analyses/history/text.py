"""Sentences and numbers about a study's history."""

from __future__ import annotations

from datetime import UTC, datetime

from loadbook.analyses.history.compute import EffectSeries, Segment, StudyHistory
from loadbook.analyses.history.levels import MIN_PAST_RUNS, MIN_SEGMENT_RUNS
from loadbook.core.units import (
    NBSP,
    decimals_for_half_width,
    format_percent,
    format_percent_range,
    join_words,
    shorten_list,
)
from loadbook.stats.text import MAX_DECIMALS, margin_text

MIN_RUNS = MIN_PAST_RUNS + 1
MAX_NAMES = 2


def date_text(epoch_s: float) -> str:
    """Return the UTC date of a time given in epoch seconds, as 2024-05-31."""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d")


def headline(history: StudyHistory) -> str:
    """Return the answer in one sentence: whether the newest run is worse than earlier ones, which effects changed."""
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
    was_searched = any(len(segment.indices) >= 2 * MIN_SEGMENT_RUNS for c in history.series for segment in c.segments)
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


def run_count_text(number: int) -> str:
    """Return "1 run" or "12 runs"."""
    return f"{number:,} run{'' if number == 1 else 's'}"


def series_sentence(series: EffectSeries) -> str:
    """Return sentences on one treatment: its level and since when, its changes, and the alarm for the newest run."""
    return " ".join(filter(None, (level_sentence(series), *change_sentences(series), alarm_sentence(series))))


def level_sentence(series: EffectSeries) -> str:
    """Return the sentence on the level to which the newest run that counts belongs."""
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
    """Return the segment of the newest run that counts (after an alarm: that of the earlier runs), or None."""
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
            f"({run_count_text(len(before.indices))})."
        )
    return sentences


def alarm_sentence(series: EffectSeries) -> str:
    """Return the sentence on the newest run: an alarm, no alarm with its limit, or why no alarm is possible."""
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
    """Return the name of the set of hosts with this number (from 0): A, B, ... Z, AA, ..."""
    head, tail = divmod(hosts, 26)
    return (host_set_letter(head - 1) if head else "") + chr(ord("A") + tail)


def method_sentence(history: StudyHistory) -> str:
    """Return the sentence on the method that finds changes and on its rate of false changes."""
    return (
        f"A change is a level of at least {MIN_SEGMENT_RUNS} runs that stands out from the others "
        f"(circular binary segmentation, weighted by each run’s own error); "
        f"of histories in which nothing changed, at most 1 in {1 / history.change_rate:,.3g} shows one."
    )
