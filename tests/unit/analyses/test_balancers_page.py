"""The page of a balancer study on made data: losses with prices, scaling, spread over nodes, and what lacks."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pytest

import loadbook
from figure_legibility import must_be_legible
from loadbook.analyses.balancers.figure import ScalingFigure
from loadbook.analyses.balancers.page import BalancersPage
from loadbook.report.figures.svg import to_svg
from loadbook.report.html import forbidden_content
from loadbook.report.parameters import parse_literals
from loadbook.report.prices import Price, compute_prices, price_sentence
from loadbook.store.tables import RunData, load_run
from mock_project import Arm, make_project
from run_records import changed_record

NOTEBOOK = Path(__file__).parents[3] / "notebooks" / "lb_vs_single.ipynb"
FORBIDDEN = re.compile(r"significant|(?<!against )\bsame\b(?! against)|proves?\b|no effect|\bnan\b", re.IGNORECASE)
HOSTS = {
    "load": {"roles": ["driver"], "cpus": None},
    "front": {"roles": ["balancer"], "cpus": None},
    **{f"www{k}": {"roles": ["web"], "cpus": None} for k in (1, 2, 3, 4)},
}
PRICES = {"currency": "yen", "hosts": {alias: 900 for alias in HOSTS if alias != "load"}, "external": {}}
SPEC: dict[str, Any] = {
    "roles": {
        "driver": {},
        "balancer": {
            "backends": "web",
            "variants": {"l4": {"service": "front"}, "cloud": {"external": "192.0.2.1:80"}},
        },
        "web": {"service": "nginx"},
    },
    "factors": {
        "balancer": {"role": "balancer", "of": "variant", "levels": ["none", "l4", "cloud"]},
        "nodes": {"role": "web", "of": "hosts", "levels": [1, 2, 4]},
        "log": {"role": "web", "levels": [False, True]},
    },
    "workload": {"tool": "wrk", "connections": 100, "duration_s": 4.0, "target": "balancer", "expect_bytes": 4},
    "hypothesis": "non-inferiority",
    "notebooks": ["lb_vs_single"],
}


def arms(**effects: float) -> dict[str, Arm]:
    behind = {"one": ("l4", 1), "two": ("l4", 2), "four": ("l4", 4), "cloud": ("cloud", 2)}
    labels = {"one": "L4, 1 node", "two": "L4, 2 nodes", "four": "L4, 4 nodes", "cloud": "the cloud's, 2 nodes"}
    given = {"one": -0.001, "two": 0.97, "four": 2.9, "cloud": -0.2} | effects
    made = {"node": Arm(label="one node")}
    for name, (balancer, nodes) in behind.items():
        made[name] = Arm(given[name], {"balancer": balancer, "nodes": nodes}, labels[name], scatter=0.006)
    made["again"] = Arm(check="aa", label="one node, again")
    made["control"] = Arm(-0.1, {"log": True}, "control: log", "control", "worse", -0.1)
    return made


def counters(data: RunData, shares: dict[str, list[float]]) -> pd.DataFrame:
    """What the nodes' counters said before and after each trial."""
    rows = [
        {"study": data.study.name, "run": data.run, "trial": trial, "host": f"www{k + 1}", "role": "web", "t_s": t,
         "metric": "served_requests", "item": "nginx", "value": 50.0 + at * share * 160_000, "unit": "1"}
        for trial, treatment in data.trials[["trial", "treatment"]].itertuples(index=False)
        for k, share in enumerate(shares.get(treatment, []))
        for at, t in enumerate((-0.4, 4.2))
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=list(data.traces.columns))


EVEN = {"two": [0.5, 0.5], "four": [0.2505, 0.2495, 0.25, 0.25], "cloud": [0.504, 0.496]}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    layout = make_project(tmp_path_factory.mktemp("lb"), arms(), name="lb", traces=False, **SPEC)
    return load_run(layout, "lb")


def page_of(data: RunData, shares: dict[str, list[float]] | None = None, prices: Any = PRICES) -> BalancersPage:
    record = changed_record(data.run_record, hosts=HOSTS, prices=prices)
    return BalancersPage(replace(data, run_record=record, traces=counters(data, EVEN if shares is None else shares)))


def test_balancers_figure_shows_loss_and_scaling(recorded: RunData) -> None:
    page = page_of(recorded)
    text = page.effects().text
    assert "▼ the cloud's, 2 nodes loses more than 2\u00a0%" in text
    assert "■ L4, 1 node: no loss beyond 2\u00a0%: " in text
    printed = page.scaling().text
    assert printed.partition("\n")[0] in page.answer().text
    assert printed.startswith("4 nodes behind l4 carry 3.9") or printed.startswith("4 nodes, best behind l4, carry 3.9")
    assert "what one node carries; in proportion would be 4." in printed
    assert "cloud, 2 nodes: 0.80" in printed


def test_balancers_page_of_another_metric_than_a_rate_scales_nothing_and_prices_the_rate(recorded: RunData) -> None:
    rate = page_of(recorded)
    page = BalancersPage(rate.run_data, metric="latency")
    assert page.scaling().text == "Not shown: nodes add up to a rate, and this page is about another metric."
    assert "carry" not in page.answer().text
    assert page.prices == rate.prices


def test_balancers_page_shows_requests_per_node(recorded: RunData) -> None:
    text = page_of(recorded).spread().text
    assert text.startswith("All nodes had equal parts of the requests, even to within 1\u00a0% in each of ")
    assert "■ even to within 1\u00a0%" in text and "www1 50.4\u00a0%, www2 49.6\u00a0%" in text
    assert "one node" not in text  # it has no one to share with


def test_balancers_page_reports_a_doubt_about_a_node_without_requests(recorded: RunData) -> None:
    page = page_of(recorded, EVEN | {"four": [0.5, 0.5, 0.0, 0.0]})
    assert "A node got nothing: L4, 4 nodes: nothing reached www3 and www4" in page.doubts().text
    assert "A node got nothing" in page.trust().text
    assert "! nothing reached www3 and www4" in page.spread().text


def test_balancers_page_reports_services_without_counters(recorded: RunData) -> None:
    page = page_of(recorded, {})
    assert page.spread().text.startswith("Not counted: no service reported how many requests it answered.")
    assert "no count of each node’s requests: L4, 2 nodes, L4, 4 nodes, the cloud's, 2 nodes" in page.doubts().text


def test_balancers_page_prices_have_intervals(recorded: RunData) -> None:
    page = page_of(recorded, prices=PRICES | {"external": {"balancer": 1000}})
    found = page.prices.by_treatment
    assert (found["node"].per_month, found["two"].per_month, found["cloud"].per_month) == (900, 2700, 2800)
    level = page.analysis.row("node").median
    change = page.analysis.row("two").verdict.comparison
    assert found["two"].per_1000 == pytest.approx(2700 / (level * (1 + change.effect) / 1000))
    assert found["two"].interval == pytest.approx(
        tuple(2700 / (level * (1 + bound) / 1000) for bound in reversed(change.ci95))
    )
    head = page.effects_table().columns[-1].header
    assert head == "yen per 1,000/s" and head in page.effects().text
    printed, _, table = page.value().text.partition("\n")
    assert re.search(r"L4, 2 nodes +2,700 +3\d\.\d", table)
    printed = printed.replace("\u00a0", " ")
    assert re.match(
        r"1,000 requests/s cost 21.\d yen a month with one node; the least of the others is L4, 4 nodes", printed
    )
    assert printed.endswith("times as much.") and "control" not in found
    assert any(line.replace("\u00a0", " ") == printed for line in page.summary()["sentences"])


def test_host_that_serves_two_roles_is_paid_once(recorded: RunData) -> None:
    hosts = HOSTS | {"front": {"roles": ["balancer", "web"], "cpus": None}}
    record = changed_record(recorded.run_record, hosts=hosts, prices=PRICES)
    data = replace(recorded, run_record=record)
    found = compute_prices(data, page_of(recorded).analysis).by_treatment
    assert data.hosts_of("two", "web") == ["front", "www1"]
    assert (found["node"].per_month, found["two"].per_month) == (900, 1800)


def test_balancers_page_lists_hosts_without_a_price(recorded: RunData) -> None:
    page = page_of(recorded)  # the cloud's balancer has no price
    assert "cloud" not in page.prices.by_treatment
    assert "no price for external balancer in the hosts file" in page.value().text
    bare = page_of(recorded, prices=None)
    assert bare.value().text.startswith(
        "Not known: no price for www1, www2, external balancer and 3 more in the hosts file"
    )
    assert [c.header for c in bare.effects_table().columns][-1] == "With errors"


def test_balancers_page_calls_a_fully_served_offered_rate_a_lower_bound(recorded: RunData) -> None:
    trials = recorded.trials.copy()
    trials["gates"] = [["offered_ceiling"] if t == "two" else list(g) for t, g in trials[["treatment", "gates"]].values]
    page = page_of(replace(recorded, trials=trials))
    assert page.unsaturated == ["two"]
    assert page.prices.by_treatment["two"].text.startswith("at most ")
    figure = ScalingFigure(page.analysis, {"two": 2}, {"two": "l4"}, page.unsaturated)
    assert figure.points[0].text.startswith("at least ")


def test_price_that_is_an_upper_bound_is_not_compared_with_the_baseline(recorded: RunData) -> None:
    page = page_of(recorded, prices=PRICES)
    bounds = {name: replace(price, is_upper_bound=name != "node") for name, price in page.prices.by_treatment.items()}
    measured, bound = (
        price_sentence(prices, page.analysis, page.labels)
        for prices in (page.prices, replace(page.prices, by_treatment=bounds))
    )
    assert "times as much" in measured
    assert "at most" in bound and "times as much" not in bound


def test_price_of_a_million_requests_is_that_of_a_rate_kept_for_a_month() -> None:
    """1,000 requests/s for 365.25 / 12 days are 2,629.8 million."""
    assert Price(900.0, 2 * 2629.8).per_million_text == "2"


def test_balancers_page_sections_are_well_formed(recorded: RunData) -> None:
    page = page_of(recorded)
    for block in (page.answer(), page.effects(), page.scaling(), page.spread(), page.value()):
        assert not forbidden_content(f"<!DOCTYPE html><html><body>{block.html}</body></html>")
        assert not FORBIDDEN.search(block.text), block.text


@pytest.mark.parametrize("limited", [(), ("two", "four")], ids=["measured", "offered"])
def test_scaling_figure_texts_are_complete_and_legible(recorded: RunData, limited: tuple[str, ...]) -> None:
    page = page_of(recorded)
    nodes = {"node": 1, "one": 1, "two": 2, "four": 4, "cloud": 2}
    series = {"node": "no balancer", "one": "l4", "two": "l4", "four": "l4", "cloud": "a cloud with a long name"}
    figure = ScalingFigure(page.analysis, nodes, series, limited).draw()
    assert to_svg(figure) == to_svg(ScalingFigure(page.analysis, nodes, series, limited).draw())
    must_be_legible(figure)
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len(labels) == 2 and "l4, 4 nodes" in labels[0] and "a cloud with a long name, 2 nodes" in labels[1]
    assert sum("at least" in label for label in labels) == min(len(limited), 1)  # each line's last point is labelled


def test_scaling_figure_is_omitted_if_the_number_of_nodes_does_not_vary(recorded: RunData) -> None:
    assert not ScalingFigure(page_of(recorded).analysis, {"node": 1, "one": 1}, {"node": "no", "one": "l4"}).has_data


def test_notebook_calls_only_methods_of_its_page() -> None:
    cells = [c.source for c in nbformat.read(NOTEBOOK, as_version=4).cells if c.cell_type == "code"]
    called = [name for source in cells for name in re.findall(r"page\.(\w+)\(\)", source)]
    assert called[:7] == ["scope", "answer", "trust", "effects", "errors", "scaling", "spread"]
    assert called[-2:] == ["provenance", "data"] and "value" in called
    assert all(callable(getattr(BalancersPage, name)) for name in called)
    assert set(inspect.signature(loadbook.balancers_page).parameters) == set(parse_literals(cells[0]))
