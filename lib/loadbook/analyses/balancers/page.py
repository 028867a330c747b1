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
from loadbook.report.blocks import (
    DASH,
    Block,
    Column,
    Table,
    VerdictCell,
    clean,
    empty_section,
    figure_block,
    note_block,
    render,
    table_markup,
    table_text,
)
from loadbook.report.page import load_run_data
from loadbook.stats.results import Analysis

if TYPE_CHECKING:
    from loadbook.analyses.balancers.figure import ScalingFigure


def price_table(found: Prices, analysis: Analysis, labels: Mapping[str, str]) -> Table:
    """Return what each treatment costs a month and for every 1,000 requests/s, the cheapest rate first."""
    columns = [Column("Treatment"), Column(f"Hosts, {found.currency or 'price'} a month", True),
               Column(found.header, True), Column(f"Times {labels[analysis.baseline]}", True)]  # fmt: skip
    order = sorted(found.by_treatment.items(), key=lambda item: item[1].per_1000)
    rows = [
        [
            labels[name],
            f"{price.per_month:,.6g}",
            price.text,
            compute.value_with_interval(*price.ratio) if price.ratio else DASH,
        ]
        for name, price in order
    ]
    return Table("Prices", columns, rows)


EVEN_STYLE, UNEVEN_STYLE = ("v-equivalent", "■"), ("v-undecided", "!")
NODE_SHARES_NOTE = (
    "Counted by each node’s own service, from before to after the load. Apart: the largest deviation of a node’s part "
    "from an equal one in any trial, as a share of that part; up to "
    f"{compute.MAX_EVEN_DEVIATION * 100:g}{NBSP}% is called even."
)


class BalancersPage(EffectsPage):
    """Does a balancer cost anything, and what do more nodes bring; see `balancers_page`."""

    notebook = "lb_vs_single"

    @cached_property
    def unsaturated(self) -> list[str]:
        """Treatments that answered all of an open load in most of their valid trials: their own limit was not seen."""
        own = self.data.trials[self.data.trials["valid"]]
        hit = own.assign(hit=["offered_ceiling" in gates for gates in own["gates"]]).groupby("treatment")["hit"].mean()
        return [str(name) for name, share in hit.items() if share > 0.5]

    @cached_property
    def prices(self) -> Prices:
        """What every treatment costs for each 1,000 requests/s."""
        return compute_prices(self.data, self.analysis, self.unsaturated)

    def effects_table(self) -> Table:
        """Return the numbers behind the plot of losses, with the price of the rate where prices are known."""
        table = super().effects_table()
        if not self.prices.by_treatment:
            return table
        order = [*self.analysis.of_kind("baseline"), *(r for r in self.analysis.rows if r.kind != "baseline")]
        cells = [
            self.prices.by_treatment[r.treatment].text if r.treatment in self.prices.by_treatment else DASH
            for r in order
        ]
        rows = [[*row, cell] for row, cell in zip(table.rows, cells, strict=True)]
        return replace(table, columns=[*table.columns, Column(self.prices.header, True)], rows=rows)

    def value(self) -> Block:
        """Show what a rate costs with each balancer, or which prices are not known."""
        text = price_sentence(self.prices, self.analysis, self.labels)
        if not self.prices.by_treatment:
            return note_block(text)
        table = price_table(self.prices, self.analysis, self.labels)
        html = render("note.html.j2", text=text) + table_markup(table)
        return Block(str(html), str(clean(f"{text}\n{table_text(table)}")))

    def extra_support(self) -> str | None:
        """Return how much the most nodes carry, where their number varies."""
        return self.scaling_figure.caption if self.scaling_figure.has_data else super().extra_support()

    def scaling(self) -> Block:
        """Show how the rate grows with the number of nodes; nothing where that does not vary."""
        figure = self.scaling_figure
        return figure_block(figure) if figure.has_data else empty_section("One number of nodes only.")

    @cached_property
    def scaling_figure(self) -> ScalingFigure:
        """The figure of the rate over the number of nodes."""
        from loadbook.analyses.balancers.figure import ScalingFigure

        nodes = {name: len(hosts) for name, hosts in nodes_by_treatment(self.data).items()}
        return ScalingFigure(self.analysis, nodes, series_by_treatment(self.data.study), self.unsaturated)

    @cached_property
    def node_shares(self) -> dict[str, list[NodeShares]]:
        """Counter -> how each treatment with several nodes was spread by it; requests first."""
        role, data = node_role(self.data.study), self.data
        nodes = {name: hosts for name, hosts in nodes_by_treatment(data).items() if len(hosts) > 1}
        if role is None or not nodes:
            return {}
        found = {c: compute.node_shares(data.traces, data.trials, role, nodes, c) for c in compute.NODE_COUNTERS}
        return {c: own for c, own in found.items() if c == compute.NODE_COUNTERS[0] or any(s.is_counted for s in own)}

    def spread(self) -> Block:
        """Show each node's share of the requests, counted by the nodes, and whether the shares are equal."""
        if not self.node_shares:
            return empty_section("No treatment has more than one node.")
        requests = self.node_shares[compute.NODE_COUNTERS[0]]
        text, table = compute.evenness_sentence(requests, self.labels), self._node_shares_table()
        html = render("note.html.j2", text=text) + table_markup(table) + render("note.html.j2", text=NODE_SHARES_NOTE)
        return Block(str(html), str(clean(f"{text}\n{table_text(table)}\n{NODE_SHARES_NOTE}")))

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
                _shares_text(s),
                _evenness_cell(others[s.treatment]) if s.treatment in others else DASH,
            ]
            for s in self.node_shares[compute.NODE_COUNTERS[0]]
        ]
        return Table("Spread over the nodes", columns, rows)

    @cached_property
    def notes(self) -> list[sections.ValidityMessage]:
        """What the order may have done, and every node that got no requests: its treatment has fewer than it says."""
        requests = self.node_shares.get(compute.NODE_COUNTERS[0], [])
        messages = [
            sections.ValidityMessage(
                "spread",
                "A node got nothing",
                "doubt",
                0,
                f"{self.labels[s.treatment]}: {s.text}; fewer nodes were measured than the treatment says",
            )
            for s in requests
            if s.idle_nodes
        ]
        uncounted = [self.labels[s.treatment] for s in requests if not s.is_counted]
        if uncounted:
            text = f"no count of each node’s requests: {', '.join(uncounted)}"
            messages.append(sections.ValidityMessage("spread", "Spread over the nodes", "unchecked", 0, text))
        return [*super().notes, *messages]

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return what the command line says, with the sentences on spread and price."""
        requests = self.node_shares.get(compute.NODE_COUNTERS[0], [])
        more = [compute.evenness_sentence(requests, self.labels)] if requests else []
        more += [price_sentence(self.prices, self.analysis, self.labels)] if self.prices.by_treatment else []
        return [*super().sentences(answer), *more]


def _evenness_cell(spread: NodeShares) -> VerdictCell | str:
    if not spread.is_counted:
        return spread.text
    return VerdictCell(*(EVEN_STYLE if spread.is_even else UNEVEN_STYLE), spread.text)


def _shares_text(spread: NodeShares) -> str:
    return ", ".join(f"{node} {share * 100:.1f}{NBSP}%" for node, share in spread.shares.items()) or DASH


def balancers_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> BalancersPage:
    """Return the page that says whether a balancer costs anything, from one recorded run.

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
