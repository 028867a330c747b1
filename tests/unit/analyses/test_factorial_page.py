"""Figure 9 and the page of a factorial study, in the cases that strain them."""

from __future__ import annotations

import functools
import inspect
import re
from pathlib import Path

import nbformat
import pytest

import loadbook
from effort import some
from factorial_runs import FactorialRun, factorial_run, factorial_study
from figure_legibility import must_be_legible
from loadbook.analyses.factorial.compute import FactorialAnalysis, analyse_factorial
from loadbook.analyses.factorial.figure import FactorialFigure
from loadbook.analyses.factorial.page import FactorialPage, follow_up_study
from loadbook.core.errors import UsageError
from loadbook.report.figures import base
from loadbook.report.figures.svg import to_svg
from loadbook.report.html import forbidden_content
from loadbook.report.parameters import parse_literals
from loadbook.store.tables import load_run
from loadbook.study.reader import read_study
from mock_project import Arm, make_project

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "factorial.ipynb"
FIVE = ("multi_accept", "use_epoll", "tcp_nopush", "tcp_nodelay", "worker_processes")
EIGHT = ("workers", "events", "sending", "timeouts", "compression", "file_cache", "log", "limit")
FORBIDDEN = re.compile(r"significant|\bsame\b(?! against)|proves?\b|no effect|\bnan\b", re.IGNORECASE)
GROUPS = {"network": ["nopush", "nodelay"], "events": ["accept", "epoll"]}


def run_of(case: str) -> FactorialRun:
    if case == "pairs":
        effects = {("multi_accept", "use_epoll"): 0.1, ("tcp_nopush", "tcp_nodelay"): -0.08, ("tcp_nopush",): 0.06}
        return factorial_run(factorial_study(FIVE, 8, fraction="half"), effects)
    if case == "aliased":
        return factorial_run(factorial_study(EIGHT, 10, fraction="sixteenth"), {("workers",): 0.3, ("log",): -0.02})
    if case == "undecided":
        return factorial_run(factorial_study(FIVE[:2], 6), {}, sd=0.1)
    if case == "huge":
        return factorial_run(factorial_study(FIVE[:3], 8), {FIVE[:1]: 1.2, FIVE[1:2]: -1.2, FIVE[:2]: 2.3})
    if case == "long":
        names = ("a" * 41, "reset_timedout_connection_and_more_of_it", "b")
        return factorial_run(factorial_study(names, 8), {(names[0], names[1]): 0.1})
    run = factorial_run(factorial_study(FIVE[:2], 8), {})
    run.trials["valid"] = False
    return run


CASES = ("pairs", "aliased", "undecided", "huge", "long", "invalid")


@functools.cache
def found_of(case: str) -> FactorialAnalysis:
    found = analyse_factorial(run_of(case))
    assert found is not None
    return found


@pytest.mark.parametrize("case", some(CASES, 3))
def test_figure_texts_are_complete_legible_and_do_not_overlap(case: str) -> None:
    drawn = FactorialFigure(found_of(case)).draw()
    assert drawn.get_figwidth() == base.WIDTH_IN
    must_be_legible(drawn)


@pytest.mark.parametrize("case", some(CASES, 3))
def test_factorial_figure_texts_match_the_data(case: str) -> None:
    found = found_of(case)
    answer, how, alt = FactorialFigure(found).caption, FactorialFigure(found).help, FactorialFigure(found).alt_text
    assert answer.endswith(".") and how.endswith(".") and answer in alt
    assert not FORBIDDEN.search(answer + how + alt)
    assert all(effect.label in alt for effect in found.effects)
    assert ("“or”" in how) == (case == "aliased")
    assert ("Panels" in how) == bool(found.interaction_plots)


def test_factorial_figure_has_a_panel_per_interaction() -> None:
    found = found_of("pairs")
    assert {m.effect.names for m in found.interaction_plots} >= {FIVE[:2], ("tcp_nopush", "tcp_nodelay")}
    titled = [panel for panel in FactorialFigure(found).draw().axes if panel.get_title(loc="left")]
    assert len(titled) == len(found.interaction_plots)
    assert not any(panel.get_title(loc="left") for panel in FactorialFigure(found_of("undecided")).draw().axes)


def test_figure_bytes_are_reproducible() -> None:
    first, second = (to_svg(FactorialFigure(found_of("pairs")).draw()) for _ in range(2))
    assert first == second and len(first) < 200_000


def project(root: Path, effects: dict[str, float], name: str = "tuned") -> FactorialPage:
    """The page of a run of 2^2 groups of two directives; effects of treatments a, b and ab."""
    levels = {"a": ("network",), "b": ("events",), "ab": ("network", "events")}
    sets = {key: {d: group in on for group, own in GROUPS.items() for d in own} for key, on in levels.items()}
    arms = {
        "plain": Arm(label="plain", set=dict.fromkeys([d for own in GROUPS.values() for d in own], False)),
        **{key: Arm(effects.get(key, 0.0), sets[key], " + ".join(levels[key]), scatter=0.006) for key in sets},
    }
    spec = {"factors": list(GROUPS), "groups": GROUPS}
    layout = make_project(root, arms, name=name, factorial=spec, notebooks=["factorial"])
    return FactorialPage(load_run(layout, name))


def test_factorial_page_answers_the_question_and_proposes_the_next_run(tmp_path: Path) -> None:
    page = project(tmp_path, {"a": 0.06, "ab": 0.06})
    assert page.answer().text.startswith("network group on is faster by ")
    assert "No pair is shown to act together" in page.answer().text
    assert "▲ network group on is faster by" in page.effects().text
    assert "Pooled" in page.effects().text
    assert page.design().text.startswith("- All 4 combinations are run")
    assert page.errors().text.startswith("No errors in 44 of 44 trials")
    assert "blocks left out, in which not all 4 combinations count: 1" in page.doubts().text
    assert "Run network (nopush, nodelay) apart" in page.next_step().text
    assert page.summary()["notebook"] == "factorial"
    blocks = (page.answer(), page.effects(), page.design(), page.errors(), page.next_step())
    for block in blocks:
        assert not forbidden_content(f"<!DOCTYPE html><html><body>{block.html}</body></html>")
        assert not FORBIDDEN.search(block.text), block.text


def test_factorial_page_reports_doubts_about_the_order(tmp_path: Path) -> None:
    page = project(tmp_path, {})
    far = page.values.index[page.values["valid"]][0]
    page.values.loc[far, "value"] *= 3
    assert [note.title for note in page.notes] == ["Outliers"]
    assert page.notes[0].text in page.doubts().text


def test_factorial_page_follow_up_study_is_valid(tmp_path: Path) -> None:
    page = project(tmp_path, {"a": 0.06, "ab": 0.06})
    _, text = follow_up_study(page.run_data.study, page.result)
    assert text is not None and text[0] == "studies/tuned-apart.toml"
    first = Path(loadbook.__file__).parents[2] / "studies" / "nginx-tuned-groups.toml"
    (tmp_path / "tuned.toml").write_text(first.read_text().replace("nginx-tuned-groups", "tuned"))
    own = text[1].replace('["nopush", "nodelay"]', '["tcp_nopush", "tcp_nodelay"]') + "\n[published]\nclaims = []\n"
    (tmp_path / "tuned-apart.toml").write_text(own)
    made = read_study(tmp_path / "tuned-apart.toml")
    assert list(made.treatments) == ["before", "a", "b", "ab", "before-again", "control-access-log"]
    assert made.treatments["ab"].set == {"tcp_nopush": "on", "tcp_nodelay": "off"}


def test_factorial_page_without_effects_proposes_no_follow_up_study(tmp_path: Path) -> None:
    page = project(tmp_path, {})
    lines, text = follow_up_study(page.run_data.study, page.result)
    assert (lines, text) == ([], None)
    assert page.next_step().text.startswith("- Nothing has to be taken apart")
    assert page.next_line() == page.summary()["next"] == ""


def test_terminal_prints_the_first_next_step_of_a_factorial_study(tmp_path: Path) -> None:
    page = project(tmp_path, {"a": 0.06, "ab": 0.06})
    assert page.next_line() == follow_up_study(page.run_data.study, page.result)[0][0]


def test_factorial_page_with_aliases_proposes_a_larger_fraction() -> None:
    run = factorial_run(factorial_study("abcd", 9, fraction="half"), {("a", "b"): 0.06})
    found = analyse_factorial(run)
    assert found is not None
    assert follow_up_study(run.study, found)[0] == [
        "a x b may be c x d as well: run a larger fraction, or only the factors in question."
    ]
    invalid = found_of("invalid")
    assert follow_up_study(run.study, invalid)[0] == [
        "Nothing was compared: repair what the answer names, and run again."
    ]


def test_page_refuses_a_study_that_it_cannot_answer(tmp_path: Path) -> None:
    layout = make_project(tmp_path, name="plain-study")
    with pytest.raises(UsageError, match="has no \\[factorial\\]"):
        FactorialPage(load_run(layout, "plain-study")).answer()


def test_notebook_calls_only_methods_of_its_page() -> None:
    code = [c for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    cells = [c.source for c in code if "notebook-only" not in c.metadata.get("tags", [])]
    called = [name for source in cells for name in re.findall(r"page\.(\w+)\(\)", source)]
    assert called[:4] == ["scope", "answer", "trust", "effects"] and called[-1] == "provenance"
    assert all(callable(getattr(FactorialPage, name)) for name in called)
    parameters = set(inspect.signature(loadbook.factorial_page).parameters)
    assert parameters == set(parse_literals(cells[0]))
