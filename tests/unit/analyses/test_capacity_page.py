"""The page of a study of capacities: its answer, figure and table, of a simulated run with known capacities."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capacity_projects import LIMIT_S, NAME, capacity_project
from figure_legibility import must_be_legible
from loadbook.analyses.capacity.figure import ThroughputLatencyFigure
from loadbook.analyses.capacity.page import CapacityPage
from loadbook.core.errors import UsageError
from loadbook.core.units import NBSP
from loadbook.report.verdicts import level_header, verdict_table
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from mock_project import RUN, make_project
from run_records import changed_record


@pytest.fixture(scope="module")
def layout(tmp_path_factory) -> Layout:
    """A project with one run, in which each trial has the probes of a search for its capacity."""
    return capacity_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def page(layout: Layout) -> CapacityPage:
    return CapacityPage(load_run(layout, NAME, RUN))


def test_answer_says_how_much_more_load_within_which_objective(page: CapacityPage) -> None:
    answer = page.answer_summary()
    headline, support = (text.replace(NBSP, " ") for text in (answer.headline, answer.support))
    assert headline.startswith("twice the memory sustains 7.5 % more load (95 % interval ")
    assert "99 % within 20 ms of the intended start, at most 0.1 % failed; even arrivals" in support
    assert "sustains" in support and "less load" in support


def test_column_of_capacities_has_their_name_and_unit(page: CapacityPage) -> None:
    assert "capacity, 1/s" in [column.header for column in verdict_table(page.analysis, {}).columns]
    assert level_header(replace(page.analysis, metric="latency", statistic="p99")) == "latency p99, ms"
    assert level_header(replace(page.analysis, metric="requests", statistic="count")) == "requests count"
    assert level_header(replace(page.analysis, metric="cpu_per_response")) == "CPU time per response, µs"


def test_table_has_typical_capacity_its_range_and_cpu_time_of_every_treatment(page: CapacityPage) -> None:
    values = page.run_data.values("capacity_per_s")
    for name, row in zip(page.capacities, page.capacity_table().rows, strict=True):
        own = values.loc[(values["treatment"] == name) & values["valid"], "value"]
        assert row[1:4] == [f"{number:,.0f}" for number in (own.median(), own.min(), own.max())]
        assert int(row[5]) == int((page.probes["treatment"] == name).sum()) >= 5 * len(own)
        assert float(row[6]) == pytest.approx(1e6 / own.median(), rel=0.05)


def test_table_has_the_price_of_a_million_requests_if_the_hosts_have_prices(page: CapacityPage) -> None:
    assert not any("million" in column.header for column in page.capacity_table().columns)
    record = changed_record(page.run_data.run_record, prices={"currency": "EUR", "hosts": {"web-1": 52.6}})
    table = CapacityPage(replace(page.run_data, run_record=record)).capacity_table()
    assert table.columns[-1].header == "EUR per million requests"
    base, large = page.capacities["baseline"].typical_per_s, table.rows[list(page.capacities).index("large")]
    cell = table.rows[0][-1]
    assert float(cell) == pytest.approx(52.6 / (base * 2_629_800 / 1e6), rel=0.01)
    assert float(large[-1].partition(" ")[0]) == pytest.approx(float(cell) / 1.075, rel=0.02) and "to" in large[-1]


def test_terminal_prints_the_typical_capacities_once(page: CapacityPage) -> None:
    lines = page.summary()["sentences"]
    base = f"{page.capacities['baseline'].typical_per_s:,.0f} with baseline"
    assert sum(base in line for line in lines) == 1 and any("faster" in line or "sustains" in line for line in lines)
    assert "a probe with too many errors missed it" in page.errors().text


def test_probes_met_the_objective_exactly_up_to_the_limit(page: CapacityPage) -> None:
    found = page.probes
    assert (found["met"] == (found["time_s"] <= LIMIT_S)).all() and 0.2 < found["met"].mean() < 0.8


def test_figure_is_legible_and_its_texts_name_every_treatment(page: CapacityPage) -> None:
    figure = ThroughputLatencyFigure(
        page.analysis, page.objective, page.probes, page.capacities, page.run_data.values("capacity_per_s")
    )
    must_be_legible(figure.draw(), lambda text: True)
    rates = [f"{one.typical_per_s:,.0f}" for one in page.capacities.values()]
    assert f" {rates[0]}/s with baseline, " in figure.caption
    assert f" {rates[0]} with baseline, " in page.scope().text + page.answer().text
    assert f"20{NBSP}ms" in figure.help and str(len(page.probes)) in figure.alt_text


def test_run_without_a_capacity_says_so(layout: Layout) -> None:
    data = load_run(layout, NAME, RUN)
    empty = replace(data, samples=data.samples.iloc[:0])
    assert "No capacity was found" in str(CapacityPage(empty).curves())


def test_study_without_an_objective_is_refused(tmp_path: Path) -> None:
    make_project(tmp_path / "other")
    page = CapacityPage(load_run(Layout(tmp_path / "other"), "nginx-directives", RUN))
    with pytest.raises(UsageError, match=r"has no \[capacity\]"):
        page.curves()
