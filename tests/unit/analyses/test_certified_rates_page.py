"""The page of a study that certifies rates: its answer, table and figure, of simulated starts."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from figure_legibility import must_be_legible
from loadbook.analyses.certified_rates.figure import StartsFigure
from loadbook.analyses.certified_rates.page import CertifiedRatesPage
from loadbook.core.errors import UsageError
from loadbook.core.units import NBSP
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run, to_arrow, write_arrow
from mock_project import RUN, Arm, make_project

NAME, LIMIT_S, BLOCKS = "promised", 0.02, 46
MISSES = {"low": 0, "middle": 1, "high": 30, "low-again": 20}  # the project has lost one trial of "low"
ARMS = {
    "low": Arm(label="1 worker"),
    "middle": Arm(0.0, {"rate_per_s": 1000}, "1 worker at 1,000/s"),
    "high": Arm(0.0, {"rate_per_s": 1500}),
    "low-again": Arm(label="1 worker, a second time"),
}


@pytest.fixture(scope="module")
def layout(tmp_path_factory) -> Layout:
    """A project with one run of starts at three rates."""
    layout = make_project(
        tmp_path_factory.mktemp("project"),
        ARMS,
        name=NAME,
        question="Which rate do most starts sustain?",
        blocks=BLOCKS,
        capacity={"within_s": LIMIT_S, "certified_share": 0.9},
        roles={"driver": {}, "web": {"service": "nginx"}},
        workload={"tool": "vegeta", "model": "open", "rate_per_s": 500, "path": "/index.html"},
        factors={"rate_per_s": {"of": "workload", "levels": [500, 1000, 1500]}},
    )
    paths, dice = layout.run(NAME, RUN), random.Random(3)
    treatments = {trial["trial"]: trial["treatment"] for trial in pq.read_table(paths.table("trials")).to_pylist()}
    rows, times = pq.read_table(paths.table("measurements")).to_pylist(), []
    drawn = {name: drawn_times(missed, dice) for name, missed in MISSES.items()}
    for row in rows:
        if row["metric"] == "ok_per_s":
            value = drawn[treatments[row["trial"]]].pop()
            times.append(row | {"metric": "objective_time", "value": value, "unit": "s"})
    write_arrow(paths.table("measurements"), to_arrow("measurements", [*rows, *times]))
    return layout


def drawn_times(missed: int, dice: random.Random) -> list[float]:
    """Return a time (s) for every block, so many of them above the limit, in random order."""
    times_s = [
        LIMIT_S * (dice.uniform(1.1, 2) if block < missed else dice.uniform(0.2, 0.9)) for block in range(BLOCKS)
    ]
    dice.shuffle(times_s)
    return times_s


@pytest.fixture(scope="module")
def page(layout: Layout) -> CertifiedRatesPage:
    return CertifiedRatesPage(load_run(layout, NAME, RUN))


def test_answer_is_the_highest_rate_that_is_certified_with_its_objective_and_arrivals(page: CertifiedRatesPage) -> None:
    answer = page.answer_summary()
    headline, support = (text.replace(NBSP, " ") for text in (answer.headline, answer.support))
    assert headline == "Certified: 1 worker at 1,000/s, sustained by at least 90 % of starts (95 % confidence)."
    assert "99 % within 20 ms of the intended start, at most 0.1 % failed; even arrivals" in support
    assert "1 worker at 500/s 45 of 45, 1 worker at 1,000/s 45 of 46, high at 1,500/s 16 of 46" in support
    assert page.summary()["sentences"] == [answer.headline, answer.support]
    assert page.summary()["next"] == "", "comparisons of treatments are not the question"


def test_table_says_of_every_rate_what_is_shown(page: CertifiedRatesPage) -> None:
    rows = {row[0]: row[1:] for row in page.rates_table().rows}
    assert [row[0] for row in rows.values()] == ["500", "1,000", "1,500", "500"]
    assert [row[-1] for row in rows.values()] == ["certified", "certified", *["not sustained: fewer starts do"] * 2]
    assert rows["1 worker"][4] == f"93.6{NBSP}%"  # 0.05 ** (1 / 45)


def test_runs_that_are_not_complete_certify_nothing(page: CertifiedRatesPage) -> None:
    data = page.run_data
    cut = replace(data, trials=data.trials[data.trials["block"] <= 40])
    answer = CertifiedRatesPage(cut).answer_summary()
    assert answer.headline == "Nothing is certified yet; not made so far: 18 planned starts."


def test_blocks_that_were_added_after_a_look_do_not_count(page: CertifiedRatesPage) -> None:
    data = page.run_data
    added = replace(data, plan=replace(data.plan, added=20))
    answer = CertifiedRatesPage(added).answer_summary()
    assert answer.headline.startswith("No rate is certified")
    assert "they do not count here" in answer.support and "of 26" in answer.support


def test_page_has_no_word_on_checks_of_comparisons(page: CertifiedRatesPage) -> None:
    assert "A/A" not in str(page.trust()) + str(page.doubts())
    assert "90" in str(page.scope()) and "margin" not in str(page.scope())


def test_figure_is_legible_and_names_every_rate(page: CertifiedRatesPage) -> None:
    figure = StartsFigure(page.analysis, page.objective, page.rates, page.values)
    must_be_legible(figure.draw(), lambda text: True)
    assert "45 of 45 with 1 worker at 500/s" in figure.caption and f"20{NBSP}ms" in figure.help


def test_study_that_certifies_nothing_is_refused(tmp_path: Path) -> None:
    make_project(tmp_path / "other")
    page = CertifiedRatesPage(load_run(Layout(tmp_path / "other"), "nginx-directives", RUN))
    with pytest.raises(UsageError, match=r"has no capacity.certified_share"):
        page.starts()
