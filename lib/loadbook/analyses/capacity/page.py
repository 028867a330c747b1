"""The page of a study of capacities: how much more load each treatment sustains, and how times rise with the load."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import pandas as pd

from loadbook.analyses.capacity.compute import Capacity, capacities_of, probes_of
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.metrics import CAPACITY
from loadbook.modes.capacity.mode import objective_of
from loadbook.modes.capacity.spec import CapacityObjective
from loadbook.report import verdicts
from loadbook.report.blocks import Block, empty_section, note
from loadbook.report.nodes import DASH, Column, HtmlOnly, Picture, Table
from loadbook.report.page import load_run_data
from loadbook.report.prices import Prices, compute_prices

TABLE_NOTE = (
    "Typical capacity: the median over blocks of the highest rate that met the objective, each block with a search of "
    "its own; half of the starts of a service sustain less. It is the number to compare by, not one to promise, which "
    "a study with certified_share finds. CPU time: of all services, at the highest rate that met the objective."
)
ERRORS_NOTE = (
    "At the highest rate that met the objective: a probe with too many errors missed it, and is in the figure."
)
PRICE_NOTE = " Price: of all hosts but the drivers, at the typical capacity all month."


class CapacityPage(EffectsPage):
    """The page on the load that treatments sustain within an objective, made by `capacity_page`."""

    notebook = "capacity"

    @cached_property
    def objective(self) -> CapacityObjective:
        """The objective of the study."""
        return objective_of(self.run_data.study)

    @cached_property
    def probes(self) -> pd.DataFrame:
        """Every probe that counts (`compute.PROBE_COLUMNS`)."""
        return probes_of(self.run_data)

    @cached_property
    def capacities(self) -> dict[str, Capacity]:
        """Treatment -> its capacity."""
        return capacities_of(self.run_data, self.probes)

    @cached_property
    def prices(self) -> Prices:
        """The price of each treatment's hosts at its typical capacity, where the hosts file has prices."""
        return compute_prices(self.run_data, self.analysis)

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Return the answer with the rates behind it, the objective and the arrivals."""
        return replace(default, support=" ".join(filter(None, (default.support, self.rates_sentence()))))

    def rates_sentence(self) -> str:
        """Return the sentence on each treatment's typical capacity, the objective and the arrivals; "" if none."""
        rates = [
            f"{capacity.typical_per_s:,.0f} with {self.labels.get(name, name)}"
            for name, capacity in self.capacities.items()
        ]
        arrivals = self.run_data.study.workload.arrivals
        if not rates:
            return ""
        return f"Typical capacity, requests/s ({self.objective.text}; {arrivals} arrivals): {', '.join(rates)}."

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines that the command line prints: as on every page of effects, and the typical capacities."""
        lines, rates = super().sentences(answer), self.rates_sentence()
        return lines if any(rates in line for line in lines) else [*lines, rates]

    def errors(self) -> Block:
        """Show errors at the highest rate that each trial sustained, not those of its other probes."""
        return Block(super().errors(), note(ERRORS_NOTE))

    def curves(self) -> Block:
        """Show every probe's time against its rate, and the table of capacities."""
        from loadbook.analyses.capacity.figure import ThroughputLatencyFigure

        if not self.capacities or self.probes.empty:
            return empty_section("No capacity was found.")
        values = self.run_data.values(CAPACITY)
        figure = ThroughputLatencyFigure(self.analysis, self.objective, self.probes, self.capacities, values)
        price_note = PRICE_NOTE if self.prices.by_treatment else ""
        return Block(HtmlOnly(Picture(figure)), self.capacity_table(), note(TABLE_NOTE + price_note))

    def capacity_table(self) -> Table:
        """Return the table of the capacity of each treatment."""
        heads = ["Typical, 1/s", "Lowest block", "Highest block", "Blocks", "Probes", "CPU per response, µs"]
        prices = self.prices.by_treatment
        heads += [f"{self.prices.currency or 'Price'} per million requests"] if prices else []
        rows = []
        for name, capacity in self.capacities.items():
            rates = (capacity.typical_per_s, capacity.lowest_per_s, capacity.highest_per_s)
            cpu = DASH if capacity.cpu_s is None else f"{1e6 * capacity.cpu_s:,.4g}"
            cells = [*(f"{rate:,.0f}" for rate in rates), str(capacity.blocks), str(capacity.probes), cpu]
            if prices:
                cells.append(prices[name].per_million_text if name in prices else DASH)
            rows.append([self.labels.get(name, name), *cells])
        return Table("Capacities", [Column("Treatment"), *(Column(head, True) for head in heads)], rows)


def capacity_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> CapacityPage:
    """Return the page that answers how much load each treatment sustains within an objective, for one recorded run.

    Parameters
    ----------
    study, run : name of the study and id of the run; "latest" is the newest run.
    baseline : treatment with which others are compared; empty for the study's own.
    metric : metric to compare; empty for the metric of the study.
    level : confidence of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, a study without [capacity], or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    page = CapacityPage(load_run_data(study, run), baseline, metric, level)
    objective_of(page.run_data.study)
    return page
