"""Comparisons through runs on several hosts, of several questions, and what is said of them."""

import math
from dataclasses import replace

import numpy as np
import pytest

from loadbook.analyses.history import compute
from loadbook.analyses.history.compute import RunEffect, RunSummary, StudyHistory, effect_series
from loadbook.analyses.history.levels import MIN_PAST_RUNS

DAY = 86400.0
NOISE = np.random.default_rng(3).normal(0, 0.004, 400)
ASKED = {"margin": "0.02"}


def effect(log, name="tuned", kind="treatment", **other):
    ends = (math.expm1(log - 0.01), math.expm1(log + 0.01))
    return RunEffect(name, name, kind, "undecided", math.expm1(log), ends, 0.95, 10, **{"question": ASKED} | other)


def runs(number, of=lambda k: 0.03, hosts=lambda k: 0, names=("tuned",), **other):
    def effects(k):
        return tuple(effect(of(k) + NOISE[7 * k + i], name, **other) for i, name in enumerate(names))

    return [RunSummary(f"r{k:03}", k * DAY, hosts(k), effects(k)) for k in range(number)]


def one(seen, better="higher", **other):
    (found,) = effect_series(seen, better, 0.02, **other)
    return found


def history(seen, **other):
    return StudyHistory("study", "ok_per_s", "higher", 0.02, tuple(seen), effect_series(seen, "higher", 0.02), **other)


@pytest.mark.parametrize(("number", "more"), [(1, 4), (2, 3), (3, 2), (4, 1)])
def test_history_with_few_runs_states_how_many_more_are_needed(number, more):
    seen = runs(number)
    course = one(seen)
    assert course.alarm is None
    assert f"{more} more run{'s' if more > 1 else ''} will do" in course.no_alarm_reason
    assert "No alarm is possible" in compute.series_sentence(course)
    assert one(runs(number + more)).alarm is not None


def test_history_level_of_a_single_run_has_the_interval_of_its_report():
    (run,) = runs(1)
    (segment,) = one([run]).segments
    assert segment.interval == run.effects[0].interval


def test_history_level_of_several_runs_has_the_interval_of_their_mean():
    (segment,) = one(runs(5)).segments
    low, high = map(math.expm1, segment.level.interval())
    assert segment.interval == pytest.approx((low, high))


def test_history_separates_runs_on_different_hosts():
    seen = runs(20, of=lambda k: 0.1 * (k % 2), hosts=lambda k: k % 2)
    course = one(seen)
    assert not course.changed_segments
    assert [stretch.hosts for stretch in course.segments] == [0, 1]
    assert course.alarm.past_runs == 9
    assert course.alarm.expected == pytest.approx(math.expm1(0.1), abs=0.01)
    assert "on hosts B" in compute.series_sentence(course)


def test_history_first_run_on_new_hosts_is_not_compared_with_earlier_runs():
    course = one(runs(20, hosts=lambda k: int(k == 19)))
    assert course.alarm is None
    assert "there is none" in course.no_alarm_reason


def test_history_begins_a_new_level_when_the_question_changes():
    seen = runs(20)
    seen[-1] = replace(seen[-1], effects=(effect(-1.0, question={"margin": "0.05"}),))
    course = one(seen)
    assert course.alarm is None
    assert course.question_changes == {19: ("margin",)}
    assert course.question_changes[19] == ("margin",)


def test_history_continues_after_a_run_with_a_different_question():
    seen = runs(20)
    seen[10] = replace(seen[10], effects=(effect(-1.0, question={"margin": "0.05"}),))
    assert one(seen).alarm.past_runs == 18


def test_history_of_an_added_treatment_begins_with_its_first_run():
    seen = runs(12, names=("tuned", "late"))
    seen[:6] = [replace(run, effects=run.effects[:1]) for run in seen[:6]]
    found = {course.treatment: course for course in effect_series(seen, "higher", 0.02)}
    assert (found["tuned"].alarm.past_runs, found["late"].alarm.past_runs) == (11, 5)


def test_history_raises_no_alarm_for_a_removed_treatment():
    seen = runs(12, names=("tuned", "gone"))
    seen[-1] = replace(seen[-1], effects=seen[-1].effects[:1])
    found = {course.treatment: course for course in effect_series(seen, "higher", 0.02)}
    assert found["gone"].alarm is None
    assert found["gone"].no_alarm_reason == "the newest run does not have it"


@pytest.mark.parametrize(
    ("newest", "printed"),
    [
        ({"excluded_reason": "not finished"}, "the newest run does not count: not finished"),
        ({"effects": (effect(0.0, reason="only 3 complete blocks"),)}, "does not count: only 3 complete blocks"),
        ({"effects": (), "excluded_reason": "a replay of run r1"}, "the newest run is left out: a replay of run r1"),
    ],
)
def test_history_explains_why_the_newest_run_is_excluded(newest, printed):
    seen = runs(12)
    seen[-1] = replace(seen[-1], **newest)
    course = one(seen)
    assert course.alarm is None
    assert printed in course.no_alarm_reason


def test_history_ignores_runs_that_do_not_count():
    seen = runs(12)
    bad = [
        replace(run, excluded_reason="exploratory: 3 blocks were added after looking", effects=(effect(-1.0),))
        for run in seen[4:7]
    ]
    with_bad = one([*seen[:4], *bad, *seen[7:]])
    assert with_bad.alarm.past_runs == 8
    assert [point.is_included for point in with_bad.points].count(False) == 3
    assert not with_bad.changed_segments


def test_history_compares_the_newest_run_with_runs_since_the_last_change():
    course = one(runs(30, of=lambda k: 0.03 if k < 15 else -0.03))
    assert course.alarm.past_runs == 14
    assert not course.alarm.raised
    (changed,) = course.changed_segments
    assert changed.indices[0] == 15
    assert "Changed by −6." in compute.series_sentence(course)


def test_history_excludes_the_newest_run_from_the_runs_it_is_compared_with():
    course = one(runs(30, of=lambda k: -0.1 if k == 29 else 0.03))
    assert course.alarm.raised
    assert course.alarm.past_runs == 29
    assert "ALARM" in compute.alarm_sentence(course)


def test_history_alarm_rate_is_divided_among_comparisons():
    alone, together = (effect_series(runs(10, names=names), "higher", 0.02) for names in (("a",), ("a", "b", "c", "d")))
    assert alone[0].alarm.rate == pytest.approx(4 * together[0].alarm.rate)
    assert together[0].alarm.limit < alone[0].alarm.limit


def test_history_harness_checks_raise_no_alarm():
    seen = runs(12, of=lambda k: -1.0 if k == 11 else 0.0, kind="aa")
    course = one(seen)
    assert course.alarm is None
    assert course.no_alarm_reason == ""
    assert history(seen).alarms == ()


def test_history_keeps_the_order_of_simultaneous_runs():
    seen = [replace(run, started=0.0) for run in runs(8)]
    assert [point.run for point in one(seen).points] == [run.run for run in seen]


def test_history_ignores_comparisons_without_an_interval():
    seen = runs(3)
    seen[1] = replace(seen[1], effects=(replace(effect(0.0), interval=(0.0, 0.0)),))
    assert "no interval of any width" in one(seen).points[1].excluded_reason


def test_history_headline_states_alarms_changes_and_missing_runs():
    assert compute.headline(history([])) == "0 runs that count: there is no history yet."
    assert "there is no history yet" in compute.headline(history(runs(1)))
    assert compute.headline(history(runs(3))).startswith("No alarm can be raised yet; there are too few runs")
    assert (
        compute.headline(history(runs(12)))
        == "The newest run is not shown to be worse than its past; no change is visible."
    )
    fallen = history(runs(12, of=lambda k: -0.2 if k == 11 else 0.0))
    assert compute.headline(fallen) == "The newest run is worse than its past: tuned."
    stepped = history(runs(24, of=lambda k: 0.1 if k < 12 else 0.0))
    assert (
        compute.headline(stepped) == "The newest run is not shown to be worse than its past; tuned changed on the way."
    )


def test_history_states_the_alarm_rate_per_run_and_year():
    assert compute.supporting_text(history(runs(12))) == (
        "Of runs in which nothing changed, 1 in 100 raises a false alarm in its comparison: about 3.6 in a year of "
        "nightly runs."
    )
    assert f"needs {MIN_PAST_RUNS + 1} runs" in compute.supporting_text(history(runs(2)))


@pytest.mark.parametrize(("number", "name"), [(0, "A"), (25, "Z"), (26, "AA"), (53, "BB")])
def test_history_gives_each_set_of_hosts_a_letter(number, name):
    assert compute.host_set_letter(number) == name
