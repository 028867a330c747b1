"""The page of a balancer study: what each one loses, what more nodes bring, who got the requests, at what price."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from loadbook.core.units import NBSP
from loadbook.report import prices, trials, verdicts
from loadbook.report.blocks import Block, clean, render
from loadbook.report.effects import EffectsPage
from loadbook.report.page import note, nothing, run_data
from loadbook.report.show import show
from loadbook.report.tables import DASH, Column, Said, Table, plain, safe_table
from loadbook.report.tiers import node_role, nodes_of, series_of
from loadbook.stats import evenness
from loadbook.stats.evenness import Spread
from loadbook.stats.result import Analysis

EVEN_LOOK, DOUBT_LOOK = ("v-equivalent", "■"), ("v-undecided", "!")
RULE = (
    "Counted by each node’s own service, from before to after the load. Apart: the largest deviation of a node’s part "
    f"from an equal one in any trial, as a share of that part; up to {evenness.EVEN * 100:g}{NBSP}% is called even."
)


class BalancersPage(EffectsPage):
    """Does a balancer cost anything, and what do more nodes bring; see `balancers_page`."""

    notebook = "lb_vs_single"

    @cached_property
    def limited(self) -> list[str]:
        """Treatments that answered all of an open load in most of their valid trials: their own limit was not seen."""
        own = self.data.trials[self.data.trials["valid"]]
        hit = own.assign(hit=["offered_ceiling" in gates for gates in own["gates"]]).groupby("treatment")["hit"].mean()
        return [str(name) for name, share in hit.items() if share > 0.5]

    @cached_property
    def prices(self) -> prices.Prices:
        """What every treatment costs for each 1,000 requests/s."""
        return prices.prices(self.data, self.analysis, self.limited)

    def table(self) -> Table:
        """Return the numbers behind the plot of losses, with the price of the rate where prices are known."""
        table = super().table()
        if not self.prices.of:
            return table
        order = [*self.analysis.of_kind("baseline"), *(r for r in self.analysis.rows if r.kind != "baseline")]
        cells = [self.prices.of[r.treatment].text if r.treatment in self.prices.of else DASH for r in order]
        rows = [[*row, cell] for row, cell in zip(table.rows, cells, strict=True)]
        return replace(table, columns=[*table.columns, Column(self.prices.head, True)], rows=rows)

    def value(self) -> Block:
        """Show what a rate costs with each balancer, or which prices are not known."""
        said = prices.said(self.prices, self.analysis, self.labels)
        if not self.prices.of:
            return note(said)
        table = prices.table(self.prices, self.analysis, self.labels)
        html = render("note.html.j2", text=said) + safe_table(table)
        return Block(str(html), str(clean(f"{said}\n{plain(table)}")))

    def more_support(self) -> str | None:
        """Return how much the most nodes carry, where their number varies."""
        from loadbook.report.figures import scaling

        return scaling.answer(*self.scaled) if scaling.needed(*self.scaled) else super().more_support()

    def scaling(self) -> Block:
        """Show how the rate grows with the number of nodes; nothing where that does not vary."""
        from loadbook.report.figures import scaling

        return show(scaling, *self.scaled) if scaling.needed(*self.scaled) else nothing("One number of nodes only.")

    @cached_property
    def scaled(self) -> tuple[Analysis, dict[str, int], dict[str, str], list[str]]:
        """What the scaling figure is made of."""
        nodes = {name: len(hosts) for name, hosts in nodes_of(self.data).items()}
        return self.analysis, nodes, series_of(self.data.study), self.limited

    @cached_property
    def spreads(self) -> dict[str, list[Spread]]:
        """Counter -> how each treatment with several nodes was spread by it; requests first."""
        role, data = node_role(self.data.study), self.data
        nodes = {name: hosts for name, hosts in nodes_of(data).items() if len(hosts) > 1}
        if role is None or not nodes:
            return {}
        found = {c: evenness.spread(data.traces, data.trials, role, nodes, c) for c in evenness.COUNTERS}
        return {c: own for c, own in found.items() if c == evenness.COUNTERS[0] or any(s.known for s in own)}

    def spread(self) -> Block:
        """Show each node's share of the requests, counted by the nodes, and whether the shares are equal."""
        if not self.spreads:
            return nothing("No treatment has more than one node.")
        requests = self.spreads[evenness.COUNTERS[0]]
        said, table = evenness.sentence(requests, self.labels), self._spread_table()
        html = render("note.html.j2", text=said) + safe_table(table) + render("note.html.j2", text=RULE)
        return Block(str(html), str(clean(f"{said}\n{plain(table)}\n{RULE}")))

    def _spread_table(self) -> Table:
        columns = [Column("Treatment"), Column("Requests"), Column("Apart, %", True), Column("Trials", True),
                   Column("Each node’s share", wrap=True), Column("Connections")]  # fmt: skip
        others = {s.treatment: s for s in self.spreads.get(evenness.COUNTERS[1], [])}
        rows = [
            [self.labels[s.treatment], _said(s), f"{s.apart * 100:.2g}" if s.known else DASH, str(s.trials),
             _shares(s), _said(others[s.treatment]) if s.treatment in others else DASH]
            for s in self.spreads[evenness.COUNTERS[0]]
        ]  # fmt: skip
        return Table("Spread over the nodes", columns, rows)

    @cached_property
    def notes(self) -> list[trials.Spoken]:
        """What the order may have done, and every node that got no requests: its treatment has fewer than it says."""
        requests = self.spreads.get(evenness.COUNTERS[0], [])
        silent = [
            trials.Spoken("spread", "A node got nothing", "doubt", 0, f"{self.labels[s.treatment]}: {s.word}; fewer "
                          "nodes were measured than the treatment says")
            for s in requests if s.silent
        ]  # fmt: skip
        uncounted = [self.labels[s.treatment] for s in requests if not s.known]
        if uncounted:
            text = f"no count of each node’s requests: {', '.join(uncounted)}"
            silent.append(trials.Spoken("spread", "Spread over the nodes", "unchecked", 0, text))
        return [*super().notes, *silent]

    def sentences(self, said: verdicts.Answer) -> list[str]:
        """Return what the command line says, with the sentences on spread and price."""
        requests = self.spreads.get(evenness.COUNTERS[0], [])
        more = [evenness.sentence(requests, self.labels)] if requests else []
        more += [prices.said(self.prices, self.analysis, self.labels)] if self.prices.of else []
        return [*super().sentences(said), *more]


def _said(spread: Spread) -> Said | str:
    if not spread.known:
        return spread.word
    return Said(*(EVEN_LOOK if spread.even else DOUBT_LOOK), spread.word)


def _shares(spread: Spread) -> str:
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
    return BalancersPage(run_data(study, run), baseline, metric, level)
