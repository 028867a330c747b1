"""The page that compares two runs, its figure 12 and how it is asked in a terminal; data is mock data."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bs4 import BeautifulSoup
from matplotlib.text import Text

from effort import some
from figure_legibility import must_be_legible
from loadbook.analyses.compare_runs.figure import RunComparisonFigure
from loadbook.analyses.compare_runs.page import ComparePage, resolve_run_pair
from loadbook.core.errors import UsageError
from loadbook.report.figures.svg import to_svg
from loadbook.report.html import forbidden_content
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from loadbook.store.trial_record import read_json, write_json
from mock_project import REPO, Arm, make_project, usual_arms
from rendered_pages import page_html

OLDER, NEWER, STUDY = "20261120-101500", "20261201-101500", "nginx-directives"
FORBIDDEN = re.compile(r"significant|\bsame\b|proves?\b|no effect|\bnan\b|\binf\b", re.IGNORECASE)
Arms = dict[str, Arm]


def pair(root: Path, older: Arms, newer: Arms, **more: Any) -> Layout:
    """A project with two runs of one study."""
    layout = make_project(root, older, run=OLDER, traces=False, **more)
    make_project(root, newer, run=NEWER, traces=False, dice=7, **more)
    return layout


def page_of(layout: Layout, **requested: Any) -> ComparePage:
    return ComparePage(load_run(layout, STUDY, OLDER), load_run(layout, STUDY, NEWER), **requested)


def told_otherwise(layout: Layout, change: Callable[[dict[str, Any]], Any], run: str = NEWER) -> None:
    path = layout.run(STUDY, run).run_json
    record = read_json(path)
    change(record)
    write_json(path, record)


def with_fact(layout: Layout, name: str, value: str) -> None:
    for path in layout.run(STUDY, NEWER).facts.glob("*.json"):
        facts = json.loads(path.read_text())
        facts[name]["value"] = value
        path.write_text(json.dumps(facts))


def upgraded_arms() -> Arms:
    arms = usual_arms()
    arms["tcp-nopush"].effect = 0.005
    arms["use-epoll"].scatter = 0.004
    return arms


@pytest.fixture(scope="module")
def upgraded(tmp_path_factory: Any) -> Layout:
    """Before and after an upgrade: another kernel and server, and tcp_nopush lost its effect."""
    layout = pair(tmp_path_factory.mktemp("upgraded"), usual_arms(), upgraded_arms())
    told_otherwise(layout, lambda record: record["service_versions"].update({"web-1": "nginx 1.24.0"}))
    with_fact(layout, "kernel", "6.8.0-1")
    return layout


@pytest.fixture(scope="module")
def page(upgraded: Layout) -> ComparePage:
    return page_of(upgraded)


def sixteen(effect: float = 0.0) -> Arms:
    arms = {
        f"t{k}": Arm(0.01 * k - 0.08 + effect * (k == 3), {f"f{k}": True}, f"worker_processes {2**k}")
        for k in range(16)
    }
    return {"baseline": Arm(label="baseline"), **arms, "aa": Arm(check="aa", label="again")}


def long_names() -> Arms:
    names = ("worker_connections 2048 + nofile 8096 +x", "設定 1番", "a$b_{c}<script>", "a" * 40)
    return {"baseline": Arm()} | {f"t{k}": Arm(0.01, {f"f{k}": True}, name) for k, name in enumerate(names)}


def arms(**effects: float) -> Arms:
    """A baseline and treatments with these effects."""
    return {"baseline": Arm()} | {name: Arm(effect, {name: True}) for name, effect in effects.items()}


def crashed() -> Arms:
    return {name: Arm(**{**vars(arm), "invalid": "it crashed"}) for name, arm in usual_arms().items()}


def failed_aa() -> Arms:
    return usual_arms() | {"aa": Arm(0.2, check="aa", label="again")}


def loud() -> Arms:
    return arms(x=0.06) | {"y": Arm(0.0, {"y": True}, scatter=0.4)}


CASES: dict[str, Callable[[Path], Layout]] = {
    "one": lambda root: pair(root, arms(x=0.06), arms(x=0.06)),
    "sixteen": lambda root: pair(root, sixteen(), sixteen(0.05), blocks=7),
    "names": lambda root: pair(root, long_names(), long_names(), blocks=7),
    "void": lambda root: pair(root, usual_arms(), failed_aa()),
    "invalid": lambda root: pair(root, usual_arms(), crashed(), blocks=7),
    "apart": lambda root: pair(root, arms(gone=0.06), arms(new=0.06)),
    "wide": lambda root: pair(root, arms(x=0.06, y=0.0), loud()),
}


@pytest.fixture(scope="module")
def cases(tmp_path_factory: Any, page: ComparePage) -> dict[str, ComparePage]:
    return {"upgraded": page} | {name: page_of(make(tmp_path_factory.mktemp(name))) for name, make in CASES.items()}


def words(page: ComparePage) -> dict[str, str]:
    return {row.row.treatment: row.kind for row in page.result.rows}


def test_compare_runs_page_lists_changed_conditions_first(page: ComparePage) -> None:
    text = BeautifulSoup(page_html(page), "html.parser").get_text(" ", strip=True)
    assert text.index("nginx 1.22.1 → 1.24.0") < text.index("What changed in the recorded conditions?")
    assert text.index("What changed in the recorded") < text.index("How far did each effect move?")
    assert "driver and web: kernel" in page.conditions().text and "6.8.0-1" in page.conditions().text
    assert "Recorded conditions changed: web: nginx 1.22.1 → 1.24.0" in page.answer().text


def test_compare_runs_page_marks_a_changed_effect(page: ComparePage) -> None:
    assert words(page)["tcp-nopush"] == "changed"
    assert "tcp_nopush on" in page.answer().text.splitlines()[0]
    displayed = page.effects()
    assert "<b>changed</b>" in displayed.html and "<b>undecided</b>" not in displayed.html
    assert re.search(r"tcp_nopush on: changed: it is slower than it was, by \d", displayed.text)


def test_compare_runs_page_lists_harness_checks_below_treatments(page: ComparePage) -> None:
    assert [row.row.kind for row in page.result.rows][-2:] == ["aa", "control"]
    assert page.result.rows[-1].change.p_adjusted is None


def test_compare_runs_page_shows_medians_only_if_conditions_are_equal(
    page: ComparePage, cases: dict[str, ComparePage]
) -> None:
    assert page.levels().text == (
        "Not shown, as conditions differ on which a level depends: web: nginx and driver and web: kernel."
    )
    displayed = cases["one"].levels().text
    assert "Older run, ok/s" in displayed and re.search(r"baseline +4\d,\d\d\d", displayed)


def test_compare_runs_page_shows_medians_after_a_reboot(tmp_path: Path) -> None:
    layout = CASES["one"](tmp_path)
    with_fact(layout, "boot_id", "another")
    page = page_of(layout)
    assert "driver and web: boot" in page.conditions().text and "booted anew" in page.conditions().text
    assert "another" not in page_html(page).replace("another machine", "")
    assert "Older run, ok/s" in page.levels().text


def test_compare_runs_page_hides_medians_of_imported_runs(tmp_path: Path) -> None:
    layout = CASES["one"](tmp_path)
    reported = {"folder": "f", "conditions": "c.csv", "timed": True, "at": 0.0}
    told_otherwise(layout, lambda record: record.update(imported=reported))
    page = page_of(layout)
    assert page.levels().text.startswith("Not shown: the newer run was imported")
    assert "The newer run was imported" in page.doubts().text


def test_compare_runs_page_lists_treatments_that_only_one_run_has(cases: dict[str, ComparePage]) -> None:
    page = cases["apart"]
    assert words(page) == {"new": "not compared", "gone": "not compared"}
    assert "only the older run has it" in page.effects().text
    assert page.answer().text.startswith("Nothing could be compared between the two runs.")


def test_compare_runs_page_reports_a_failed_aa_arm(cases: dict[str, ComparePage]) -> None:
    page = cases["void"]
    assert {word for name, word in words(page).items() if name not in ("aa", "log-unbuffered")} == {"not compared"}
    assert "A/A arm of the newer run" in page.doubts().text
    assert "✕ A/A arm failed (newer run)" in page.trust().text
    assert "the newer run: the A/A arm differs from the baseline" in page.answer().text


def test_compare_runs_page_handles_a_run_without_valid_trials(cases: dict[str, ComparePage]) -> None:
    assert set(words(cases["invalid"]).values()) == {"not compared"}


def test_compare_runs_page_adjusts_sixteen_treatments_together(cases: dict[str, ComparePage]) -> None:
    found = cases["sixteen"].result
    assert {row.change.family_size for row in found.treatments} == {16}
    assert found.rows[0].row.treatment == "t3" and found.rows[0].kind == "changed"


def test_compare_runs_figure_has_one_margin_label_and_the_words_of_the_page(page: ComparePage) -> None:
    figure = RunComparisonFigure(page.result).draw()
    printed = [t.get_text() for t in figure.findobj(Text)]
    assert printed.count("margin ±2\u00a0%") == 1
    assert printed.count("changed") == list(words(page).values()).count("changed")


def test_compare_runs_figure_draws_the_older_run_hollow(cases: dict[str, ComparePage]) -> None:
    axes = RunComparisonFigure(cases["one"].result).draw().axes[0]
    marks = [line for line in axes.lines if line.get_marker() not in ("None", "", None)]
    assert [line.get_marker() for line in marks] == ["^", "^"]
    older, newer = marks
    assert (older.get_markerfacecolor(), older.get_markeredgecolor()) == ("#FFFFFF", "#1A1A1A")
    assert newer.get_markerfacecolor() == "#0067B9"
    assert (
        axes.transData.transform((0, older.get_ydata()[0]))[1] > axes.transData.transform((0, newer.get_ydata()[0]))[1]  # type: ignore[arg-type]
    )


NAMES = ["upgraded", *CASES]


@pytest.mark.parametrize("name", some(NAMES, 3))
def test_figure_texts_are_complete_legible_and_do_not_overlap(cases: dict[str, ComparePage], name: str) -> None:
    drawn = RunComparisonFigure(cases[name].result).draw()
    must_be_legible(drawn)


@pytest.mark.parametrize("name", some(NAMES, 3))
def test_compare_runs_page_escapes_texts_and_has_all_sections(cases: dict[str, ComparePage], name: str) -> None:
    page = cases[name]
    figure = RunComparisonFigure(page.result)
    answer, how, alt = figure.caption, figure.help, figure.alt_text
    assert answer in alt and answer in page.answer().text and how.endswith(".")
    assert not forbidden_content(page_html(page))
    ours = [page.answer(), page.conditions(), page.effects(), page.levels()]
    doubts = [f"{doubt.title}: {doubt.text}" for doubt in page.notes]
    printed = " ".join([how, alt, *(block.text for block in ours), *doubts])
    assert not FORBIDDEN.search(printed), FORBIDDEN.search(printed)


def test_figure_bytes_are_reproducible(page: ComparePage) -> None:
    first, second = (to_svg(RunComparisonFigure(page.result).draw()) for _ in range(2))
    assert first == second and len(first) < 150_000


def test_compare_runs_page_accepts_metric_and_baseline(upgraded: Layout) -> None:
    page = page_of(upgraded, metric="latency")
    assert page.result.newer.metric == "latency"
    assert "has a longer latency than it was" in page.effects().text
    with pytest.raises(UsageError, match="no-such"):
        page_of(upgraded, baseline="no-such").answer()


def test_compare_runs_accepts_a_run_id_or_the_word_previous(upgraded: Layout) -> None:
    assert resolve_run_pair(upgraded, STUDY, "latest", "previous") == (OLDER, NEWER)
    assert resolve_run_pair(upgraded, STUDY, OLDER, NEWER) == (OLDER, NEWER)
    for run, against, printed in (
        (OLDER, "previous", "no run before"),
        (OLDER, OLDER, "with itself"),
        (NEWER, "x", "no run"),
    ):
        with pytest.raises(UsageError, match=printed):
            resolve_run_pair(upgraded, STUDY, run, against)


DOCUMENTED = re.findall(r"^loadbook report (.*?) *(?:#.*)?$", (REPO / "docs/history.md").read_text(), re.MULTILINE)


def test_documentation_of_compare_runs_has_two_example_commands() -> None:
    assert len(DOCUMENTED) == 2


def test_compare_runs_command_refuses_wrong_input_before_executing_a_notebook(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from loadbook.cli.report import report

    layout = CASES["one"](tmp_path)
    told_otherwise(layout, lambda record: record.update(replay=OLDER))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOADBOOK_HOME", str(layout.root))
        for words, printed in (
            ([STUDY, "--against", OLDER], "hold the very measurements of one run"),
            (["--all", "--against", OLDER], "takes no STUDY"),
            ([STUDY, "other", "--against", OLDER], "exactly one STUDY"),
            ([STUDY, "--against", "nonsense"], "no run 'nonsense'"),
            ([STUDY, "--against", OLDER, "-p", "colour=red"], "unknown parameter 'colour'"),
            ([STUDY, "--against", OLDER, "-p", "run=x"], "given by the command line already"),
        ):
            result = CliRunner().invoke(report, words)
            assert isinstance(result.exception, UsageError) and printed in str(result.exception), words
    assert not layout.reports.exists()
