"""Which hosts a treatment uses, and which of them are the nodes behind the balancer.

What a rate costs: the price of a treatment's hosts for every 1,000 requests/s, the rate's interval carried over.

Prices are those of the hosts file, kept in run.json; the drivers are the laboratory's own and cost nothing here.

The page of a balancer study: what each one loses, what more nodes bring, who got the requests, at what price.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from loadbook.analyses.balancers import compute
from loadbook.analyses.balancers.compute import NodeShares
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP, format_rounded, join_words
from loadbook.report import sections, verdicts
from loadbook.report.blocks import (
    DASH,
    Block,
    Column,
    Table,
    VerdictCell,
    clean,
    figure_block,
    render,
    table_markup,
    table_text,
)
from loadbook.report.page import empty_section, load_run_data, note_block
from loadbook.stats.results import Analysis, AnalysisRow, Interval
from loadbook.store.tables import RunData
from loadbook.study.model import Study
from loadbook.study.treatments import ABSENT_VARIANT


def node_role(study: Study) -> str | None:
    """Return the role that the load's target hands its requests on to; None where nothing stands behind it."""
    backends = study.roles[study.workload.target].backends
    return backends[0] if backends else None


def treatment_hosts(data: RunData, treatment: str, role: str) -> list[str]:
    """Return the hosts on which a treatment runs the service of a role, in the order of the hosts file."""
    setting = data.study.setting(treatment, role)
    if setting.service is None:
        return []
    return [alias for alias, host in data.run_record.hosts.items() if role in host["roles"]][: setting.hosts]


def nodes_by_treatment(data: RunData) -> dict[str, list[str]]:
    """Return treatment -> its nodes, for every treatment of the run; nothing in a study without a balancer."""
    role = node_role(data.study)
    return {name: treatment_hosts(data, name, role) for name in data.plan["treatments"]} if role else {}


def series_by_treatment(study: Study) -> dict[str, str]:
    """Return treatment -> what stands before its nodes: treatments of one series differ in nothing but their number.

    A check of the laboratory is in no series.
    """
    base = study.levels_of(study.baseline)
    return {name: _series_name(study, name, base) for name, spec in study.treatments.items() if spec.check is None}


def _series_name(study: Study, treatment: str, base: Mapping[str, object]) -> str:
    balancer, nodes = study.workload.target, node_role(study)
    levels = study.levels_of(treatment)
    facets = {name: (factor.role, factor.of) for name, factor in study.factors.items()}
    variants = [str(levels[name]) for name, facet in facets.items() if facet == (balancer, "variant")]
    names = [f"no {balancer}" if text == ABSENT_VARIANT else text for text in variants] or [balancer]
    differing = [
        n for n in levels if facets[n] not in ((balancer, "variant"), (nodes, "hosts")) and levels[n] != base[n]
    ]
    return ", ".join([*names, *(f"{name} {levels[name]}" for name in differing)])


PRICED_RATE_PER_S = 1000.0  # requests per second
PRICED_KINDS = ("baseline", "treatment")  # kinds of rows; checks are no offers
PRICES_HINT = "give each host its price_per_month, and the file its currency"


@dataclass(frozen=True)
class Price:
    """What one treatment costs: a month of all its hosts, and that for every 1,000 requests/s.

    `interval` comes from that of the treatment's change; the baseline has none. `ratio` is the price of 1,000
    requests/s as a multiple of the baseline's, with its interval. `is_upper_bound`: the rate is that which was offered.
    """

    per_month: float
    per_1000: float
    interval: Interval | None = None
    ratio: tuple[float, Interval] | None = None
    is_upper_bound: bool = False

    @property
    def text(self) -> str:
        """The price of 1,000 requests/s with its interval."""
        most = "at most " if self.is_upper_bound else ""
        return most + _value_with_interval(self.per_1000, self.interval)


@dataclass(frozen=True)
class Prices:
    """The prices of a run by treatment; `missing` are hosts and external services in use that have none."""

    currency: str
    by_treatment: Mapping[str, Price]
    missing: tuple[str, ...]

    @property
    def header(self) -> str:
        """The head of a column: the price of a month of hosts for every 1,000 requests/s."""
        return f"{self.currency or 'price'} per 1,000/s"


def compute_prices(data: RunData, analysis: Analysis, unsaturated: Sequence[str] = ()) -> Prices:
    """Return what every treatment of an analysis costs that has a rate and a price for each of its hosts.

    Parameters
    ----------
    unsaturated : treatments that served all of what was offered: they could have served more.
    """
    known = data.run_record.prices or {}
    wanted = {
        row.treatment: _hosts_and_services(data, row.treatment) for row in analysis.rows if row.kind in PRICED_KINDS
    }
    given = known.get("hosts", {}) | {f"external {role}": p for role, p in known.get("external", {}).items()}
    missing = dict.fromkeys(part for parts in wanted.values() for part in parts if part not in given)
    months = {n: sum(given[p] for p in parts) for n, parts in wanted.items() if parts and set(parts) <= set(given)}
    base = analysis.row(analysis.baseline)
    found = {
        row.treatment: _treatment_price(
            row, base, months[row.treatment], months.get(base.treatment), row.treatment in unsaturated
        )
        for row in analysis.rows
        if row.treatment in months and base.median and get_metric(analysis.metric).unit == "1/s"
    }
    return Prices(known.get("currency", ""), {n: price for n, price in found.items() if price}, tuple(missing))


def _hosts_and_services(data: RunData, treatment: str) -> list[str]:
    """Return the hosts on which a treatment runs services, each once, and the external services that it uses."""
    study = data.study
    hosts = [alias for role in study.roles for alias in treatment_hosts(data, treatment, role)]
    outside = [f"external {role}" for role in study.roles if study.setting(treatment, role).external]
    return list(dict.fromkeys([*hosts, *outside]))


def _treatment_price(
    row: AnalysisRow, base: AnalysisRow, month: float, of_base: float | None, limited: bool
) -> Price | None:
    rate = (base.median or 0.0) / PRICED_RATE_PER_S
    if row.kind == "baseline":
        return Price(month, month / rate, is_upper_bound=limited)
    found = row.verdict.comparison if row.verdict and row.verdict.kind != "invalid" else None
    if found is None or found.effect is None or found.ci95 is None:
        return None
    low, high = (1 / (1 + bound) for bound in reversed(found.ci95))
    middle, one = 1 / (1 + found.effect), month / rate
    month_ratio = month / of_base if of_base else None
    times = (month_ratio * middle, (month_ratio * low, month_ratio * high)) if month_ratio else None
    return Price(month, one * middle, (one * low, one * high), times, limited)


def price_sentence(found: Prices, analysis: Analysis, labels: Mapping[str, str]) -> str:
    """Return what a rate costs behind each balancer against the baseline, in one or two sentences."""
    own = found.by_treatment.get(analysis.baseline)
    compared = {
        r.treatment: found.by_treatment[r.treatment]
        for r in analysis.of_kind("treatment")
        if r.treatment in found.by_treatment
    }
    lacking = f"no price for {_join_few(found.missing)}" if found.missing else "nothing was compared"
    if own is None or not compared:
        return f"Not known: {lacking} in the hosts file ({PRICES_HINT})." if found.missing else f"Not known: {lacking}."
    unit = f"{NBSP}{found.currency}" if found.currency else ""
    best = min(compared, key=lambda name: compared[name].per_1000)
    price = compared[best]
    first = f"1,000 requests/s cost {own.text}{unit} a month with {labels[analysis.baseline]}"
    least = f"the least of the others is {labels[best]} with {price.text}{unit}"
    times = f", {_value_with_interval(*price.ratio)} times as much" if price.ratio and not price.is_upper_bound else ""
    more = f" Not known for the rest: {lacking} in the hosts file." if found.missing else ""
    return f"{first}; {least}{times}.{more}"


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
            _value_with_interval(*price.ratio) if price.ratio else DASH,
        ]
        for name, price in order
    ]
    return Table("Prices", columns, rows)


def _join_few(names: Sequence[str], most: int = 3) -> str:
    return join_words([*names[:most], *([f"{len(names) - most} more"] if len(names) > most else [])])


def _value_with_interval(value: float, bounds: Interval | None) -> str:
    """Return "36.0 (35.7 to 36.4)", rounded as the interval deserves, or three digits without one."""
    if bounds is None:
        return f"{value:.3g}" if value < 1000 else format_rounded(value)
    half = (bounds[1] - bounds[0]) / 2
    return f"{format_rounded(value, half)} ({format_rounded(bounds[0], half)} to {format_rounded(bounds[1], half)})"


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
        from loadbook.analyses.balancers import figure

        return figure.answer(*self.scaling_data) if figure.needed(*self.scaling_data) else super().extra_support()

    def scaling(self) -> Block:
        """Show how the rate grows with the number of nodes; nothing where that does not vary."""
        from loadbook.analyses.balancers import figure

        return (
            figure_block(figure, *self.scaling_data)
            if figure.needed(*self.scaling_data)
            else empty_section("One number of nodes only.")
        )

    @cached_property
    def scaling_data(self) -> tuple[Analysis, dict[str, int], dict[str, str], list[str]]:
        """What the scaling figure is made of."""
        nodes = {name: len(hosts) for name, hosts in nodes_by_treatment(self.data).items()}
        return self.analysis, nodes, series_by_treatment(self.data.study), self.unsaturated

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
