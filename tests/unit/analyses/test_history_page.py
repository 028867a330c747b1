"""The page and the figure of a history in the hard cases: few runs, many, other hosts, pauses, one date, odd names."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest

from effort import some
from loadbook.analyses.history.compute import (
    MIN_RUNS,
    RunEffect,
    RunSummary,
    StudyHistory,
    effect_series,
    one_run_sentence,
)
from loadbook.analyses.history.figure import MAX_GAP, MOST_PANELS, HistoryFigure, date_axis
from loadbook.analyses.history.page import HistoryPage
from loadbook.analyses.history.runs import IMPORTED_HOSTS_TEXT, HistoryRuns
from loadbook.report.figures.svg import to_svg
from loadbook.store.run_record import ConditionChange

DAY, BEGIN = 86400.0, 1_767_229_200.0
KERNEL = ConditionChange("fact", "kernel", "6.1", "6.8", ("web",))
REBOOT = ConditionChange("fact", "boot_id", "secret-1", "secret-2", ("web",), False)


def effect(log, name="tuned", kind="treatment", **other):
    ends = (math.expm1(log - 0.012), math.expm1(log + 0.012))
    printed = {
        "label": name,
        "verdict": "better" if log > 0.012 else "undecided",
        "question": {"margin": "0.02"},
    } | other
    return RunEffect(treatment=name, kind=kind, effect=math.expm1(log), interval=ends, level=0.95, blocks=10, **printed)


def nights(number, of=lambda k: 0.03, hosts=lambda k: 0, at=lambda k: k * DAY, names=("tuned",)):
    noise = np.random.default_rng(1).normal(0, 0.004, (number, len(names) + 1))

    def effects(k):
        return (*(effect(of(k) + noise[k, i], n) for i, n in enumerate(names)), effect(noise[k, -1], "again", "aa"))

    return [RunSummary(f"run-{k:03}", BEGIN + at(k), hosts(k), effects(k)) for k in range(number)]


def page(seen, changed=None, hosts=("driver, web",)):
    found = StudyHistory("study", "ok_per_s", "higher", 0.02, tuple(seen), effect_series(seen, "higher", 0.02))
    return HistoryPage(HistoryRuns(found, "Which one is faster?", changed or {}, list(hosts)))


CASES = {
    "one run": nights(1),
    "two runs": nights(2),
    "a hundred runs": nights(100, of=lambda k: 0.03 if k < 60 else -0.03),
    "hosts that alternate": nights(24, of=lambda k: 0.05 * (k % 2), hosts=lambda k: k % 2),
    "a treatment that appears later": [replace(s, effects=s.effects[1 - (k > 5) :]) for k, s in enumerate(nights(12))],
    "a pause of a year": nights(20, at=lambda k: k * DAY + (365 * DAY if k > 9 else 0)),
    "equal dates": nights(8, at=lambda k: 0.0),
    "some equal dates": nights(8, at=lambda k: k // 2 * DAY),
    "the newest is worse": nights(20, of=lambda k: -0.2 if k == 19 else 0.03),
    "none counts": [replace(s, excluded_reason="not finished") for s in nights(5)],
    "one that is not comparable": [
        *nights(5), RunSummary("bad", BEGIN + 6 * DAY, 0, (replace(effect(0.0), verdict="invalid", reason="why"),))
    ],
    "a run that lies far off": nights(12, of=lambda k: 2.0 if k == 5 else 0.03),
    "effects of 400 %": nights(12, of=lambda k: math.log(5)),
    "odd names": nights(9, names=("$x$ <i>", "設定を変えた", "a name of more than forty characters, no less")),
    "many comparisons": nights(9, names=tuple(f"t{k:02}" for k in range(13))),
}  # fmt: skip


@pytest.mark.parametrize("case", some(list(CASES), 5))
def test_history_figure_draws_every_kind_of_history(case):
    history_page = page(CASES[case], {"run-001": [KERNEL]})
    figure = HistoryFigure(history_page.history, history_page.marks)
    drawn = figure.draw()
    assert b"<svg" in to_svg(drawn)
    assert len(drawn.axes) == min(len(history_page.history.series), MOST_PANELS)
    words = " ".join([figure.caption, figure.help, figure.alt_text])
    assert not re.search(r"\b(significant|proves|no effect|same)\b", words)
    assert len(figure.alt_text) > 40


def test_history_figure_bytes_are_reproducible():
    first, second = (page(CASES["hosts that alternate"], {"run-002": [KERNEL]}) for _ in range(2))
    one, other = (to_svg(HistoryFigure(each.history, each.marks).draw()) for each in (first, second))
    assert one == other


def test_history_figure_lists_comparisons_that_are_not_drawn():
    displayed = page(CASES["many comparisons"])
    assert "2 other comparisons are not drawn" in HistoryFigure(displayed.history, {}).help


def test_history_axis_is_linear_in_time_with_cut_pauses():
    times = {f"r{k}": k * DAY + (400 * DAY if k > 4 else 0) for k in range(10)}
    found = date_axis(times)
    places = np.array(list(found.places.values()))
    steps = np.diff(places)
    assert steps[0] == pytest.approx(steps[1])
    assert steps[4] == pytest.approx(MAX_GAP * steps[0])
    ((at, printed),) = found.pauses
    assert places[4] < at < places[5]
    assert printed.replace("\u00a0", " ") == "1 year"


def test_history_axis_separates_simultaneous_runs():
    places = list(date_axis(dict.fromkeys("abc", 5.0)).places.values())
    assert places == [0.0, 0.5, 1.0]


def test_history_figure_marks_changed_conditions():
    displayed = page(nights(6), {"run-002": [KERNEL, REBOOT], "run-003": [REBOOT]})
    assert displayed.marks == {"run-002": ("web: kernel 6.1 → 6.8",)}
    text = displayed.which_count().text
    assert text.count("booted anew") == 2
    assert "secret" not in text


def test_history_page_has_a_row_per_run_with_reasons():
    seen = nights(6)
    seen[2] = replace(seen[2], excluded_reason="a replay of run run-001: nothing was measured anew", effects=())
    table = page(seen, {"run-005": []}).runs_table()
    assert [row[0] for row in table.rows] == [f"run-{k:03}" for k in reversed(range(6))]
    assert table.rows[3][2:] == ["no", "a replay of run run-001: nothing was measured anew"]
    assert table.rows[0][2:] == ["yes", "nothing recorded"]
    assert table.rows[5][2:] == ["yes", "the first run on these hosts"]


def test_history_page_has_a_hosts_column_for_several_hosts():
    displayed = page(CASES["hosts that alternate"], hosts=["driver, web", IMPORTED_HOSTS_TEXT])
    assert {row[2] for row in displayed.runs_table().rows} == {"A", "B"}
    assert "A: driver, web; B: not recorded (imported)" in displayed.scope().text
    assert "as if they were on the same hosts" in displayed.doubts().text


def test_history_page_states_an_alarm_first():
    from loadbook.report.blocks import DONE_MIME

    displayed = page(CASES["the newest is worse"])
    assert "bar-worse" in displayed.answer().html
    assert displayed.answer().text.startswith("The newest run is worse than its past: tuned.")
    assert "ALARM" in displayed.comparisons().text
    assert displayed.provenance().data[DONE_MIME]["alarms"] == ["tuned"]


def test_history_page_escapes_hostile_names():
    displayed = page(CASES["odd names"])
    html = "".join(block.html for block in (displayed.scope(), displayed.comparisons(), displayed.which_count()))
    assert "$x$ &lt;i&gt;" in html
    assert "<i>" not in html


def test_history_page_without_readable_runs_says_so():
    displayed = page([RunSummary("run-001", 0.0, -1, excluded_reason="cannot be read: torn")], hosts=())
    assert "no run has an effect" in displayed.effect_timeline().text
    assert "cannot be read: torn" in displayed.which_count().text
    assert displayed.scope().text and displayed.answer().text and displayed.provenance().text


def test_table_of_effects_has_the_words_of_the_verdict_page_for_checks():
    one = nights(1)[0]
    states = [("aa", "inconclusive"), ("aa", "passed"), ("aa", None), ("control", "inconclusive")]
    checks = tuple(effect(0.0, f"c{k}", kind, check_state=state) for k, (kind, state) in enumerate(states))
    rows = page([replace(one, effects=checks)]).effects_table().rows
    assert [row[2] for row in rows] == ["wide", "passed", "not judged", "too noisy"]


def test_study_with_one_run_has_one_sentence():
    needs = f"an alarm needs {MIN_RUNS} that count, on the same hosts and of the same question"
    only = page(nights(1)).history
    assert one_run_sentence(only) == f"study: 1 run, and no history yet: {needs}."
    left = page([replace(nights(1)[0], excluded_reason="not finished")]).history
    assert one_run_sentence(left).endswith(f"{needs}, and this one does not count: not finished.")
