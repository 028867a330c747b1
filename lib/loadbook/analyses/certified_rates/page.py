"""The page of a study that certifies rates: which rates most starts of a service sustain within the objective."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.analyses.certified_rates.compute import JudgedRate, judged_rates_of
from loadbook.analyses.effects.page import EffectsPage
from loadbook.core.metrics import OBJECTIVE_TIME
from loadbook.core.units import NBSP, join_words, pluralize
from loadbook.modes.capacity.mode import certified_objective_of
from loadbook.modes.capacity.spec import CapacityObjective
from loadbook.report import verdicts
from loadbook.report.blocks import Block, empty_section, note
from loadbook.report.nodes import Column, HtmlOnly, Picture, Table
from loadbook.report.page import load_run_data
from loadbook.stats.text import added_blocks_text

if TYPE_CHECKING:
    import pandas as pd

STATE_TEXTS = {
    "certified": "certified",
    "refuted": "not sustained: fewer starts do",
    "open": "not shown",
    "lower-rate-open": "not shown: a lower rate is not certified",
}
TABLE_NOTE = (
    "Each start is a load at this rate on a fresh service. Share at least: with this confidence, so many of the "
    "starts under the conditions of this run meet the objective (Clopper and Pearson, one-sided). Independent: if the "
    "times of successive starts are alike, as on a host whose speed wanders, they say as much as so many independent "
    "ones. Each configuration is certified by itself; of its rates, the lowest come first. How much more load one "
    "configuration sustains than another is the question of a study that searches capacities."
)


class CertifiedRatesPage(EffectsPage):
    """The page on the rates that treatments are certified to sustain, made by `certified_rates_page`."""

    notebook = "certified_rates"

    @cached_property
    def objective(self) -> CapacityObjective:
        """The objective of the study."""
        return certified_objective_of(self.run_data.study)

    @cached_property
    def rates(self) -> dict[str, JudgedRate]:
        """Treatment -> what its starts show of its rate."""
        return judged_rates_of(self.run_data, self.level)

    @property
    def share_text(self) -> str:
        """The share of starts, and the confidence: "at least 90 % of starts (95 % confidence)"."""
        share = 100 * (self.objective.certified_share or 0.0)
        return f"at least {share:g}{NBSP}% of starts ({100 * self.level:g}{NBSP}% confidence)"

    def data(self) -> pd.DataFrame:
        """Return the share of starts that met the objective, and its one-sided bounds; one row per treatment.

        `starts` and `met` are numbers of starts; `share`, its bounds `low` and `high`, and `share_needed` are from 0
        to 1. `state` is what the starts show; `is_certified` is true only if no planned start is `pending`.
        """
        import pandas as pd

        common = {
            "share_needed": self.objective.certified_share, "limit_s": self.objective.within_s,
            "confidence": self.level, "metric": OBJECTIVE_TIME,
            "blocks": self.run_data.plan.blocks - self.run_data.plan.added,
        }  # fmt: skip
        return pd.DataFrame([
            {"treatment": name, "rate_per_s": one.rate_per_s, "starts": one.starts.made, "met": one.starts.met,
             "share": one.starts.met / one.starts.made if one.starts.made else None,
             "low": one.share_low, "high": one.starts.share_high(self.level), "state": one.state,
             "is_certified": one.is_certified, "independent": one.starts.independent, "pending": one.pending} | common
            for name, one in self.rates.items()
        ])  # fmt: skip

    def answer_summary(self) -> verdicts.AnswerSummary:
        """Return the answer: the rates that are certified, of how many starts, for which objective and arrivals."""
        certified = [one.text(self.labels) for one in self.rates.values() if one.is_certified and one.is_highest]
        pending = next((one.pending for one in self.rates.values() if one.pending), 0)
        arrivals = self.run_data.study.workload.arrivals
        support = [f"Objective: {self.objective.text}; {arrivals} arrivals.", self._starts_sentence()]
        if added := self.run_data.plan.added:
            support.append(f"{added_blocks_text(added).capitalize()}: they do not count here.")
        if certified:
            headline = f"Certified: {join_words(certified)}, sustained by {self.share_text}."
            return verdicts.AnswerSummary("equivalent", "✓", "certified", headline, " ".join(support), (), ())
        if pending:
            headline = f"Nothing is certified yet; not made so far: {pluralize(pending, 'planned start')}."
        else:
            headline = f"No rate is certified to be sustained by {self.share_text}."
        return verdicts.AnswerSummary("undecided", "●", "not certified", headline, " ".join(support), (), ())

    def _starts_sentence(self) -> str:
        parts = [f"{one.text(self.labels)} {one.starts.met} of {one.starts.made}" for one in self.rates.values()]
        return f"Starts that met it: {', '.join(parts)}."

    def errors(self) -> Block:
        """Show errors per trial; never first on the page, as starts with errors already count as misses."""
        return Block(*super().errors().children)

    def starts(self) -> Block:
        """Show the time of every start, and the table of rates."""
        from loadbook.analyses.certified_rates.figure import StartsFigure

        if not any(one.starts.made for one in self.rates.values()):
            return empty_section("No start has counted.")
        figure = StartsFigure(self.analysis, self.objective, self.rates, self.values)
        return Block(HtmlOnly(Picture(figure)), self.rates_table(), note(TABLE_NOTE))

    def rates_table(self) -> Table:
        """Return the table of the rate of each treatment, and what its starts show."""
        heads = ("Rate, 1/s", "Starts", "Independent", "Met", f"Share at least, {100 * self.level:g}{NBSP}% confidence")
        rows = []
        for name, one in self.rates.items():
            starts = one.starts
            counts = [f"{number:.0f}" for number in (starts.made, starts.independent, starts.met)]
            low = f"{100 * one.share_low:.1f}{NBSP}%"
            result = "not complete" if one.pending else STATE_TEXTS[one.state]
            rows.append([self.labels.get(name, name), f"{one.rate_per_s:,g}", *counts, low, result])
        return Table("Rates", [Column("Treatment"), *(Column(h, True) for h in heads), Column("Result")], rows)

    def open_step(self) -> str:
        """Return "": comparisons of treatments are not the question."""
        return ""

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines that the command line prints: the answer and its support."""
        return [answer.headline, answer.support]


def certified_rates_page(
    study: str, run: str = "latest", baseline: str = "", metric: str = "", level: float = 0.95
) -> CertifiedRatesPage:
    """Return the page that answers which rates most starts of a service sustain, for one recorded run.

    Parameters
    ----------
    study, run : name of the study and id of the run; "latest" is the newest run.
    baseline : treatment with which others are compared; empty for the study's own.
    metric : metric to compare; empty for the metric of the study.
    level : confidence of certified rates and intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, a study without capacity.certified_share, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    page = CertifiedRatesPage(load_run_data(study, run), baseline, metric, level)
    certified_objective_of(page.run_data.study)
    return page
