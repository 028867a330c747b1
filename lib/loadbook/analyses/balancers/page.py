"""Two pages: of balancer studies, and of studies that compare kinds of connections to a backend ("ways").

The first shows losses, gain from more nodes, node shares and prices; the second, per regime, which kind is fastest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.analyses.balancers import compute
from loadbook.analyses.balancers.compute import NODE_COUNTERS, NodeShares
from loadbook.analyses.effects.page import EffectsPage, capitalise_first
from loadbook.core.errors import UsageError
from loadbook.core.units import NBSP, join_words
from loadbook.report import palette, sections, verdicts
from loadbook.report.blocks import Block, empty_section, note, note_block
from loadbook.report.nodes import DASH, Column, Picture, Table, VerdictCell
from loadbook.report.page import load_run_data
from loadbook.report.prices import Prices, compute_prices, price_sentence, value_with_interval
from loadbook.stats.analyse import analyse
from loadbook.stats.headline import neutral_parts, void_reason
from loadbook.stats.phrases import DIFFERENCE, verdict_parts
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import alternatives_text
from loadbook.store.tables import restrict_to

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.analyses.balancers.figure import ScalingFigure
    from loadbook.stats.results import VerdictKind
    from loadbook.store.tables import RunData


EVEN_STYLE, UNEVEN_STYLE = ("v-equivalent", "■"), ("v-undecided", "!")
NODE_SHARES_NOTE = (
    "Counted by each node’s own service, from before to after the load. Apart: the largest deviation of a node’s part "
    "from an equal one in any trial, as a share of that part; up to "
    f"{compute.MAX_EVEN_DEVIATION * 100:g}{NBSP}% is called even."
)


class BalancersPage(EffectsPage):
    """The page on the cost of balancers and the gain from more nodes, made by `balancers_page`."""

    notebook = "lb_vs_single"

    @cached_property
    def unsaturated(self) -> list[str]:
        """Treatments that served the whole offered load in most of their valid trials: their limit is unknown."""
        own = self.run_data.trials[self.run_data.trials["valid"]]
        hit = own.assign(hit=["offered_ceiling" in gates for gates in own["gates"]]).groupby("treatment")["hit"].mean()
        return [str(name) for name, share in hit.items() if share > 0.5]

    @cached_property
    def prices(self) -> Prices:
        """The price of 1,000 requests/s with each treatment."""
        return compute_prices(self.run_data, self.rate_analysis, self.unsaturated)

    @cached_property
    def rate_analysis(self) -> Analysis:
        """The analysis of the page's rate or, where its metric is none, of `ok_per_s`."""
        return self.analysis if self.is_of_rate else self.analyse("ok_per_s")

    @property
    def price_sentence(self) -> str:
        """One or two sentences on the prices, or the reason why they are not known."""
        return price_sentence(self.prices, self.rate_analysis, self.labels)

    def effects_table(self) -> Table:
        """Return the numbers behind the effect plot, with the price of 1,000 requests/s if the hosts have prices."""
        table = super().effects_table()
        if not self.prices.by_treatment:
            return table
        order = [*self.analysis.of_kind("baseline"), *(r for r in self.analysis.rows if r.kind != "baseline")]
        prices = self.prices.by_treatment
        cells = [prices[row.treatment].text if row.treatment in prices else DASH for row in order]
        rows = [[*row, cell] for row, cell in zip(table.rows, cells, strict=True)]
        return replace(table, columns=[*table.columns, Column(self.prices.header, True)], rows=rows)

    def value(self) -> Block:
        """Show each treatment's price per month and per 1,000 requests/s, cheapest first, or the missing prices."""
        prices, labels = self.prices, self.labels
        if not prices.by_treatment:
            return note_block(self.price_sentence)
        columns = [Column("Treatment"), Column(f"Hosts, {prices.currency or 'price'} a month", True),
                   Column(prices.header, True), Column(f"Times {labels[self.analysis.baseline]}", True)]  # fmt: skip
        rows = []
        for name, price in sorted(prices.by_treatment.items(), key=lambda item: item[1].per_1000):
            times = value_with_interval(*price.ratio) if price.ratio else DASH
            rows.append([labels[name], f"{price.per_month:,.6g}", price.text, times])
        return Block(note(self.price_sentence), Table("Prices", columns, rows))

    def extra_support(self) -> str | None:
        """Return a sentence on the rate of the largest number of nodes.

        It is that of `EffectsPage` if all treatments have the same number, or if the page's metric is not a rate.
        """
        is_shown = self.is_of_rate and self.scaling_figure.has_data
        return self.scaling_figure.caption if is_shown else super().extra_support()

    def scaling(self) -> Block:
        """Show the rate over the number of nodes; an empty section if all treatments have the same number."""
        if not self.is_of_rate:
            return note_block("Not shown: nodes add up to a rate, and this page is about another metric.")
        figure = self.scaling_figure
        return Block(Picture(figure)) if figure.has_data else empty_section("One number of nodes only.")

    @cached_property
    def scaling_figure(self) -> ScalingFigure:
        """The figure of the rate over the number of nodes."""
        from loadbook.analyses.balancers.figure import ScalingFigure

        nodes = {name: len(hosts) for name, hosts in compute.nodes_by_treatment(self.run_data).items()}
        return ScalingFigure(self.analysis, nodes, compute.series_by_treatment(self.run_data.study), self.unsaturated)

    @cached_property
    def node_shares(self) -> dict[str, list[NodeShares]]:
        """Counter ("served_requests", "accepted_connections") -> node shares of each treatment with several nodes.

        Empty if no treatment has several nodes. Connections are absent if no treatment's nodes counted them.
        """
        role, data = compute.node_role(self.run_data.study), self.run_data
        nodes = {name: hosts for name, hosts in compute.nodes_by_treatment(data).items() if len(hosts) > 1}
        if role is None or not nodes:
            return {}
        shares = {c: compute.node_shares(data.traces, data.trials, role, nodes, c) for c in NODE_COUNTERS}
        return {c: own for c, own in shares.items() if c == NODE_COUNTERS[0] or any(s.is_counted for s in own)}

    def spread(self) -> Block:
        """Show each node's share of the requests, counted by the nodes, and whether the shares are equal."""
        if not self.node_shares:
            return empty_section("No treatment has more than one node.")
        requests = self.node_shares[NODE_COUNTERS[0]]
        text = compute.evenness_sentence(requests, self.labels)
        columns = [Column("Treatment"), Column("Requests"), Column("Apart, %", True), Column("Trials", True),
                   Column("Each node’s share", wrap=True), Column("Connections")]  # fmt: skip
        others = {s.treatment: s for s in self.node_shares.get(NODE_COUNTERS[1], [])}
        rows = [
            [
                self.labels[s.treatment],
                _evenness_cell(s),
                f"{s.max_deviation * 100:.2g}" if s.is_counted else DASH,
                str(s.trials),
                ", ".join(f"{node} {share * 100:.1f}{NBSP}%" for node, share in s.shares.items()) or DASH,
                _evenness_cell(others[s.treatment]) if s.treatment in others else DASH,
            ]
            for s in requests
        ]
        return Block(note(text), Table("Spread over the nodes", columns, rows), note(NODE_SHARES_NOTE))

    @cached_property
    def notes(self) -> list[sections.ValidityMessage]:
        """Doubts about the order of trials, and about nodes that got no requests although their treatment uses them."""
        requests = self.node_shares.get(NODE_COUNTERS[0], [])
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
        """Return the lines that the command line prints, including the sentences on node shares and prices."""
        requests = self.node_shares.get(NODE_COUNTERS[0], [])
        more = [compute.evenness_sentence(requests, self.labels)] if requests else []
        more += [self.price_sentence] if self.prices.by_treatment else []
        return [*super().sentences(answer), *more]


def _evenness_cell(shares: NodeShares) -> VerdictCell | str:
    style = EVEN_STYLE if shares.is_even else UNEVEN_STYLE
    return VerdictCell(*style, shares.text) if shares.is_counted else shares.text


def balancers_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> BalancersPage:
    """Return the page on the cost of balancers in one recorded run; parameters and errors as of `effects_page`."""
    return BalancersPage(load_run_data(study, run), baseline, metric, level)


@dataclass(frozen=True)
class RegimeResult:
    """One regime (condition), and which kind of connection to the backend is the fastest in it.

    `modes` compares the kinds of connections with the fastest one. `no_backend_rows` compares the treatments without
    a backend with that one, or with the first of those that may be the fastest.
    `void_reason` is why there is no verdict: the A/A arm differs; None if the A/A arm passed.
    """

    modes: Analysis
    no_backend_rows: tuple[AnalysisRow, ...]
    void_reason: str | None = None

    @property
    def best_labels(self) -> list[str]:
        """Label of the fastest kind of connection, or those of all that may be; empty without a verdict."""
        if self.void_reason:
            return []
        names = (self.modes.best,) if self.modes.best else self.modes.tied_with_best
        return [self.modes.row(name).label for name in names]


class BackendsPage(EffectsPage):
    """The page on the fastest kind of connection to the backend in each regime, made by `backends_page`."""

    notebook = "backend_modes"

    def __init__(self, data: RunData, metric: str = "", level: float = 0.95) -> None:
        super().__init__(data, "", metric, level)

    @cached_property
    def regimes(self) -> dict[str, RegimeResult]:
        """Regime ("" if the study has no conditions) -> its comparison of the kinds of connections to the backend."""
        return {name: self._analyse_regime(page) for name, page in self.strata.items()}

    def _analyse_regime(self, page: EffectsPage) -> RegimeResult:
        study, rows = page.run_data.study, page.analysis.of_kind("baseline", "treatment")
        reaching = [r.treatment for r in rows if study.setting(r.treatment, study.target_of(r.treatment)).backends]
        if not reaching:
            message = f"no treatment of study {self.run_data.study.name!r} hands requests on to a backend"
            raise UsageError(message, f"its notebook is {self.run_data.study.notebooks[0]}")
        others = [row.treatment for row in rows if row.treatment not in reaching]
        modes = self._analyse_subset(page, reaching, baseline=reaching[0], contrasts="best")
        leader = modes.best or next(iter(modes.tied_with_best), None)
        against = [
            self._analyse_subset(page, [leader, name], baseline=leader, contrasts="baseline")
            for name in others
            if leader
        ]
        without = tuple(row for one in against for row in one.of_kind("treatment"))
        neutral = neutral_parts(page.analysis) if page.analysis.is_void else None
        reason = f"{neutral.reason}. {void_reason(page.analysis)}" if neutral else None
        return RegimeResult(modes, without, reason)

    def _analyse_subset(self, page: EffectsPage, treatments: list[str], **changes: Any) -> Analysis:
        return analyse(restrict_to(page.run_data, treatments, **changes), metric=self.metric, level=self.level)

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Return each regime's answer: the fastest kind of connection, the next one, and the rate without a backend."""
        kind: VerdictKind = "better" if all(one.modes.best for one in self.regimes.values()) else "undecided"
        kind = kind if all(one.best_labels for one in self.regimes.values()) else "invalid"
        return replace(
            default,
            kind=kind,
            glyph=palette.VERDICTS[kind].glyph,
            word={"better": f"{self._superlative} found", "undecided": "undecided"}.get(kind, "no verdict"),
            headline=regimes_headline(self.regimes, self._superlative),
            support=" ".join(filter(None, (regime_support(name, regime) for name, regime in self.regimes.items()))),
        )

    @property
    def _superlative(self) -> str:
        return "fastest" if self.is_of_rate else "best"

    def connections(self) -> Block:
        """Show how many connections the application accepted per answered request."""
        from loadbook.analyses.balancers.figure import ConnectionsFigure

        if self.connections_per_request.empty:
            return note_block("Not known: no application counted its connections.")
        return Block(Picture(ConnectionsFigure(self.analysis, self.connections_per_request)))

    @cached_property
    def connections_per_request(self) -> pd.DataFrame:
        """Connections that the application accepted per answered request (`compute.connections_per_request`)."""
        data, study = self.run_data, self.run_data.study
        roles = {role for t in data.plan.treatments for role in study.setting(t, study.target_of(t)).backends}
        return compute.connections_per_request(data.traces, data.trials, sorted(roles))

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines that the command line prints: the headline, its support, and one line per comparison."""
        lines = [line.sentence for line in verdicts.verdict_lines(self.analysis)]
        return [answer.headline, answer.support, *lines]


def regimes_headline(regimes: dict[str, RegimeResult], superlative: str) -> str:
    """Return one sentence on the best kind of connection to the backend in each regime.

    `superlative` is the word for it: "fastest" for a rate, else "best".
    """
    best = {name: tuple(one.best_labels) for name, one in regimes.items()}
    if len(set(best.values())) == 1 and len(next(iter(best.values()))) == 1:
        (label,) = next(iter(best.values()))
        where = join_words(list(best)) if all(best) else ""
        if not where:
            return f"{label} is {superlative}."
        return f"{capitalise_first(where)}: {label} is the {superlative} way to the application."
    phrases = []
    for name, labels in best.items():
        text = "no verdict"
        if labels:
            text = f"{labels[0] if len(labels) == 1 else alternatives_text(labels, capital=not name)} "
            text += f"is {superlative}" if len(labels) == 1 else f"may be {superlative}"
        phrases.append(f"{name}: {text}" if name else text)
    text = "; ".join(phrases)
    return f"{text if best.get('') else capitalise_first(text)}."


def regime_support(name: str, result: RegimeResult) -> str:
    """Return a sentence on the next kind of connection after the fastest, and on the rate without a backend.

    Without a fastest kind it is the reason if the A/A arm differs, else empty.
    """
    if not result.best_labels:
        return f"{capitalise_first(name)}: {result.void_reason}" if result.void_reason else ""
    verdicts = [(row.label, row.verdict) for row in result.modes.of_kind("treatment") if row.verdict]
    slower = [(label, verdict) for label, verdict in verdicts if verdict.kind == "worse"]
    phrases = [f"next is {label}, {verdict_parts(verdict).render(DIFFERENCE)}" for label, verdict in slower[-1:]]
    for row in result.no_backend_rows:
        if row.verdict and row.verdict.kind in ("better", "worse", "small"):
            phrases.append(f"{row.label} {verdict_parts(row.verdict).render(DIFFERENCE)}")
        elif row.verdict:
            phrases.append(f"{row.label}{verdict_parts(row.verdict, against=result.best_labels[0]).item}")
        else:
            phrases.append(row.label)
    if not phrases:
        return ""
    return f"{capitalise_first(name)}: {'; '.join(phrases)}." if name else f"{capitalise_first('; '.join(phrases))}."


def backends_page(study: str, run: str = "latest", metric: str = "", level: float = 0.95) -> BackendsPage:
    """Return the page on kinds of connections to a backend; parameters and errors as of `effects_page`."""
    return BackendsPage(load_run_data(study, run), metric, level)
