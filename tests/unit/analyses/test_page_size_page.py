"""Figure 6, its page and its table under JMeter's names, in the cases that strain them."""

from __future__ import annotations

import functools
import inspect
import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest

import loadbook
from effort import some
from figure_legibility import must_be_legible
from loadbook.analyses.page_size import page as jmeter_table
from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import PageSizeResult, analyse_page_sizes
from loadbook.analyses.page_size.figure import PageSizeFigure, bandwidth_ceiling, bottleneck_letter
from loadbook.analyses.page_size.page import PageSizePage
from loadbook.core.errors import UsageError
from loadbook.report.figures import base
from loadbook.report.figures.svg import to_svg
from loadbook.report.html import forbidden_content
from loadbook.report.parameters import parse_literals
from loadbook.store.tables import load_run
from mock_project import Arm, make_project
from page_size_runs import sized_run, sized_study

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "page_size_tps.ipynb"
FORBIDDEN = re.compile(r"significant|\bsame\b(?! against)|proves?\b|no effect|\bnan\b", re.IGNORECASE)
FIVE = (128, 8192, 32_768, 131_072, 524_288)
CASES = ("two tiers", "three balancers", "one curve", "scattered", "unwatched", "invalid", "few blocks")


@functools.cache
def found_of(case: str) -> PageSizeResult:
    balancers = ("small", "medium", "large") if case == "three balancers" else ("small", "large")
    single = case in ("one curve", "unwatched")
    study = sized_study(
        FIVE, ("large",) if single else balancers, (2,) if single else (2, 4), blocks=3 if case == "few blocks" else 6
    )
    run = sized_run(study, sd=0.5 if case == "scattered" else 0.02, watched=case == "two tiers")
    if case == "invalid":
        run.trials["valid"] = False
    found = analyse_page_sizes(run, "ok_per_s")  # type: ignore[arg-type]
    known = case in ("three balancers", "one curve", "scattered", "few blocks")
    return replace(found, bottlenecks=dict.fromkeys(study.treatments, "C")) if known else found


@pytest.mark.parametrize(("case", "by"), [*((c, "rate") for c in some(CASES, 3)), ("three balancers", "bytes")])
def test_figure_texts_are_complete_legible_and_do_not_overlap(case: str, by: str) -> None:
    drawn = PageSizeFigure(found_of(case), by).draw()  # type: ignore[arg-type]
    assert drawn.get_figwidth() == base.WIDTH_IN
    must_be_legible(drawn, lambda text: not text.get_rotation() % 90)


def test_page_size_figure_labels_a_curve_without_left_end_at_its_trials() -> None:
    study = sized_study(FIVE, ("large",), (2,))
    run = sized_run(study)
    sizes = {name: float(study.levels_of(name)["page_bytes"]) for name in study.treatments}
    own = run.trials.set_index("trial")["treatment"].map(sizes)
    run.trials.loc[run.trials["treatment"].map(sizes) == FIVE[0], "valid"] = False
    rates = run.measurements["metric"] == "ok_per_s"
    pure = 25e6 / run.measurements["trial"].map(own)  # bytes alone cost something: the fit has no end at small sizes
    run.measurements.loc[rates, "value"] = pure.clip(upper=2000) * (1 + run.measurements["value"] % 0.01)
    figure = PageSizeFigure(analyse_page_sizes(run, "ok_per_s")).draw()  # type: ignore[arg-type]
    must_be_legible(figure, lambda text: not text.get_rotation() % 90)


@pytest.mark.parametrize("case", some(CASES, 3))
def test_page_size_figure_texts_match_the_data(case: str) -> None:
    found = found_of(case)
    for by in ("rate", "bytes"):
        figure = PageSizeFigure(found, by)
        answer, how, alt = figure.caption, figure.help, figure.alt_text
        assert answer.endswith(".") and how.endswith(".")
        assert answer in alt and len(alt) > 40
        assert not FORBIDDEN.search(answer + how + alt)
        assert all(one.name in alt for one in found.series)
    assert ("not watched" in PageSizeFigure(found).help) == (case in ("unwatched", "invalid"))
    assert ("no curve" in PageSizeFigure(found).alt_text) == (case in ("invalid", "few blocks"))
    assert bool(words.tier_sentences(found)) == (found.tiers is not None)


def test_page_size_figure_bytes_are_reproducible() -> None:
    found = found_of("two tiers")
    letters = [bottleneck_letter(found, arm) for arm in found.series[2].arms.values()]
    assert letters == ["C", "C", "C", "C", "N"]
    first, second = (to_svg(PageSizeFigure(found).draw()) for _ in range(2))
    assert first == second and len(first) < 500_000
    assert bandwidth_ceiling(found_of("two tiers")) == (125e6, "link, 1.00\xa0Gbit/s")


def project(root: Path) -> PageSizePage:
    """The page of a run of four sizes whose rates are those of a cost per request and one per byte."""
    sizes = (128, 8192, 65_536, 524_288)
    rate = {size: 1 / (1 / 4000 + size / 125e6) for size in sizes}
    arms = {f"p{size}": Arm(rate[size] / 41_600 - 1, {"page_bytes": size}) for size in sizes}
    arms["again"] = Arm(rate[128] / 41_600 - 1, check="aa", label="baseline, again")
    layout = make_project(
        root, arms, name="sizes", notebooks=["page_size_tps"], factors={"page_bytes": {"levels": list(sizes)}},
        roles={"driver": {}, "web": {"service": "web", "vars": {"page_bytes": 128}}},
    )  # fmt: skip
    return PageSizePage(load_run(layout, "sizes"))


def test_page_size_page_answers_the_question_and_shows_curves(tmp_path: Path) -> None:
    page = project(tmp_path)
    assert page.answer().text.startswith("Not known if the network is the limit, as no link’s rate is known: the web")
    assert page.summary()["verdict"]["word"] == "not known"
    assert page.summary()["next"].startswith("set link_mbit of the hosts in the hosts file")
    curves = page.curves().text.replace("\xa0", " ")
    assert "all arms: from 3" in curves and "bytes cost more than the request" in curves
    assert "Per request, ms" in curves and "8 KiB" in curves
    assert "of pages (median over trials" in page.bandwidth().text
    assert page.tiers().text == "This study has one web tier."
    assert page.jmeter().text == "JMeter measured nothing here."
    summary = page.summary()
    assert summary["notebook"] == "page_size_tps" and summary["verdict"]["sentence"] in summary["sentences"]
    assert not any("answers differently" in row.verdict.reason for row in page.analysis.rows
                   if row.verdict and row.verdict.reason)  # fmt: skip
    for block in (page.answer(), page.curves(), page.bandwidth(), page.errors()):
        assert not forbidden_content(f"<!DOCTYPE html><html><body>{block.html}</body></html>")
        assert not FORBIDDEN.search(block.text), block.text


def test_unfinished_run_goes_on_and_a_replay_has_no_next_step(tmp_path: Path) -> None:
    page = project(tmp_path)
    record = page.run_data.run_record
    for change, step in (({"ended": None}, record.run_command), ({"replay": "20260101-000000"}, "")):
        page.run_data = replace(page.run_data, run_record=record.model_copy(update=change))
        assert page.next_line() == step


def test_page_size_page_uses_the_column_names_of_jmeter_for_jmeter_runs(tmp_path: Path) -> None:
    page = project(tmp_path)
    page.run_data.trials["tool"] = "jmeter"
    found = jmeter_table.jmeter_tables(page.run_data, page.labels)
    assert found is not None
    by_label, by_trial = found
    heads = [column.header.replace("\xa0", " ") for column in by_label.columns]
    assert heads[2:5] == ["#Samples", "FAIL", "Error %"] and heads[-2:] == ["Transactions/s", "Received"]
    assert len(by_trial.rows) == int(page.run_data.trials["valid"].sum())
    rate = float(by_trial.rows[0][heads.index("Transactions/s")].replace(",", ""))
    first = page.run_data.trials[page.run_data.trials["valid"]].sort_values("slot")["trial"].iloc[0]
    assert rate == pytest.approx(float(page.values.set_index("trial").loc[first, "value"]), rel=0.001)
    assert by_label.rows[0][-1] == "–"  # this run has no bytes per second
    assert " to " in by_label.rows[0][heads.index("Transactions/s")]
    assert "last 20,000" in page.jmeter().text


def test_page_refuses_a_study_that_it_cannot_answer(tmp_path: Path) -> None:
    layout = make_project(tmp_path, name="plain-study")
    with pytest.raises(UsageError, match="no factor of study 'plain-study' sets page_bytes"):
        PageSizePage(load_run(layout, "plain-study")).answer()
    page = project(tmp_path / "other")
    with pytest.raises(UsageError, match="needs a rate, not latency"):
        PageSizePage(page.run_data, "", "latency").answer()


def test_notebook_calls_only_methods_of_its_page() -> None:
    cells = [c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    called = [name for source in cells for name in re.findall(r"page\.(\w+)\(\)", source)]
    assert called[:4] == ["scope", "answer", "trust", "curves"] and called[-2:] == ["provenance", "data"]
    assert all(callable(getattr(PageSizePage, name)) for name in called)
    assert set(inspect.signature(loadbook.page_size_page).parameters) == set(parse_literals(cells[0]))
