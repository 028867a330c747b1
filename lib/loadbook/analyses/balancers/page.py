"""The page of a balancer study: the loss of each balancer, the gain from more nodes, their shares, and prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.analyses.balancers import compute
from loadbook.analyses.balancers.compute import (
    NodeShares,
    Prices,
    compute_prices,
    node_role,
    nodes_by_treatment,
    price_sentence,
    series_by_treatment,
)
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.units import NBSP
from loadbook.report import sections, verdicts
from loadbook.report.blocks import Block, empty_section, note, note_block
from loadbook.report.nodes import DASH, Column, Picture, Table, VerdictCell
from loadbook.report.page import load_run_data
from loadbook.stats.results import Analysis

if TYPE_CHECKING:
    from loadbook.analyses.balancers.figure import ScalingFigure


def price_table(prices: Prices, analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return the price of each treatment a month and for every 1,000 requests/s, the cheapest rate first."""
    columns = [Column("Treatment"), Column(f"Hosts, {prices.currency or 'price'} a month", True),
               Column(prices.header, True), Column(f"Times {labels[analysis.baseline]}", True)]  # fmt: skip
    rows = []
    for name, price in sorted(prices.by_treatment.items(), key=lambda item: item[1].per_1000):
        times = compute.value_with_interval(*price.ratio) if price.ratio else DASH
        rows.append([labels[name], f"{price.per_month:,.6g}", price.text, times])
    return Table("Prices", columns, rows)


EVEN_STYLE, UNEVEN_STYLE = ("v-equivalent", "■"), ("v-undecided", "!")
NODE_SHARES_NOTE = (
    "Counted by each node’s own service, from before to after the load. Apart: the largest deviation of a node’s part "
    "from an equal one in any trial, as a share of that part; up to "
    f"{compute.MAX_EVEN_DEVIATION * 100:g}{NBSP}% is called even."
)


class BalancersPage(EffectsPage):
    """The cost of balancers and the gain from more nodes; see `balancers_page`."""

    notebook = "lb_vs_single"

    @cached_property
    def unsaturated(self) -> list[str]:
        """Treatments that served all of an open load in most of their valid trials: their limit is not known."""
        own = self.data.trials[self.data.trials["valid"]]
        hit = own.assign(hit=["offered_ceiling" in gates for gates in own["gates"]]).groupby("treatment")["hit"].mean()
        return [str(name) for name, share in hit.items() if share > 0.5]

    @cached_property
    def prices(self) -> Prices:
        """The price of every treatment for each 1,000 requests/s."""
        return compute_prices(self.data, self.analysis, self.unsaturated)

    def effects_table(self) -> Table:
        """Return the numbers behind the effect plot, with the price of the rate if prices are known."""
        table = super().effects_table()
        if not self.prices.by_treatment:
            return table
        order = [*self.analysis.of_kind("baseline"), *(r for r in self.analysis.rows if r.kind != "baseline")]
        prices = self.prices.by_treatment
        cells = [prices[row.treatment].text if row.treatment in prices else DASH for row in order]
        rows = [[*row, cell] for row, cell in zip(table.rows, cells, strict=True)]
        return replace(table, columns=[*table.columns, Column(self.prices.header, True)], rows=rows)

    def value(self) -> Block:
        """Show the price of a rate with each balancer, or the prices that are not known."""
        text = price_sentence(self.prices, self.analysis, self.labels)
        if not self.prices.by_treatment:
            return note_block(text)
        return Block(note(text), price_table(self.prices, self.analysis, self.labels))

    def extra_support(self) -> str | None:
        """Return the rate of the most nodes if their number varies."""
        return self.scaling_figure.caption if self.scaling_figure.has_data else super().extra_support()

    def scaling(self) -> Block:
        """Show the rate over the number of nodes; nothing if that does not vary."""
        figure = self.scaling_figure
        return Block(Picture(figure)) if figure.has_data else empty_section("One number of nodes only.")

    @cached_property
    def scaling_figure(self) -> ScalingFigure:
        """The figure of the rate over the number of nodes."""
        from loadbook.analyses.balancers.figure import ScalingFigure

        nodes = {name: len(hosts) for name, hosts in nodes_by_treatment(self.data).items()}
        return ScalingFigure(self.analysis, nodes, series_by_treatment(self.data.study), self.unsaturated)

    @cached_property
    def node_shares(self) -> dict[str, list[NodeShares]]:
        """Counter -> the shares of each treatment with several nodes; requests first."""
        role, data = node_role(self.data.study), self.data
        nodes = {name: hosts for name, hosts in nodes_by_treatment(data).items() if len(hosts) > 1}
        if role is None or not nodes:
            return {}
        shares = {c: compute.node_shares(data.traces, data.trials, role, nodes, c) for c in compute.NODE_COUNTERS}
        return {c: own for c, own in shares.items() if c == compute.NODE_COUNTERS[0] or any(s.is_counted for s in own)}

    def spread(self) -> Block:
        """Show each node's share of the requests, counted by the nodes, and whether the shares are equal."""
        if not self.node_shares:
            return empty_section("No treatment has more than one node.")
        requests = self.node_shares[compute.NODE_COUNTERS[0]]
        text = compute.evenness_sentence(requests, self.labels)
        return Block(note(text), self._node_shares_table(), note(NODE_SHARES_NOTE))

    def _node_shares_table(self) -> Table:
        columns = [Column("Treatment"), Column("Requests"), Column("Apart, %", True), Column("Trials", True),
                   Column("Each node’s share", wrap=True), Column("Connections")]  # fmt: skip
        others = {s.treatment: s for s in self.node_shares.get(compute.NODE_COUNTERS[1], [])}
        rows = [
            [
                self.labels[s.treatment],
                _evenness_cell(s),
                f"{s.max_deviation * 100:.2g}" if s.is_counted else DASH,
                str(s.trials),
                ", ".join(f"{node} {share * 100:.1f}{NBSP}%" for node, share in s.shares.items()) or DASH,
                _evenness_cell(others[s.treatment]) if s.treatment in others else DASH,
            ]
            for s in self.node_shares[compute.NODE_COUNTERS[0]]
        ]
        return Table("Spread over the nodes", columns, rows)

    @cached_property
    def notes(self) -> list[sections.ValidityMessage]:
        """Doubts about the order of trials, and every node without requests: its treatment has fewer than declared."""
        requests = self.node_shares.get(compute.NODE_COUNTERS[0], [])
        messages = []
        for shares in (shares for shares in requests if shares.idle_nodes):
            text = f"{self.labels[shares.treatment]}: {shares.text}; fewer nodes were measured than the treatment says"
            messages.append(sections.ValidityMessage("spread", "A node got nothing", "doubt", 0, text))
        uncounted = [self.labels[s.treatment] for s in requests if not s.is_counted]
        if uncounted:
            text = f"no count of each node’s requests: {', '.join(uncounted)}"
            messages.append(sections.ValidityMessage("spread", "Spread over the nodes", "unchecked", 0, text))
        return [*super().notes, *messages]

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines of the command line, with the sentences on shares and prices."""
        requests = self.node_shares.get(compute.NODE_COUNTERS[0], [])
        more = [compute.evenness_sentence(requests, self.labels)] if requests else []
        more += [price_sentence(self.prices, self.analysis, self.labels)] if self.prices.by_treatment else []
        return [*super().sentences(answer), *more]


def _evenness_cell(shares: NodeShares) -> VerdictCell | str:
    style = EVEN_STYLE if shares.is_even else UNEVEN_STYLE
    return VerdictCell(*style, shares.text) if shares.is_counted else shares.text


def balancers_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> BalancersPage:
    """Return the page on the cost of balancers, from one recorded run.

    Parameters
    ----------
    study, run : names; "latest" is the newest run.
    baseline, metric : names; empty for the study's own.
    level : of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return BalancersPage(load_run_data(study, run), baseline, metric, level)
