"""The page of a study of page sizes: which cost rules where, what limits each point, whether web tiers converge."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from loadbook.core.errors import UsageError
from loadbook.core.metrics import get_metric
from loadbook.design.pages import page_size_factor
from loadbook.report import jmeter_table, palette, verdicts
from loadbook.report.blocks import Block, clean, render
from loadbook.report.effects import EffectsPage
from loadbook.report.page import note_block, empty_section, load_run_data
from loadbook.report.show import render_figure, figure_markup
from loadbook.report.tables import DASH, Column, VerdictCell, Table, table_text, table_markup
from loadbook.stats.regimes.fit import TwoRegimeCurve
from loadbook.stats.regimes.found import PageSizeResult, analyse_page_sizes
from loadbook.stats.result import Verdict
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.wording import regimes as words
from loadbook.stats.wording.errors import errors_sentence

COSTS_NOTE = (
    "1 / rate = cost per request + bytes × cost per byte, fitted to the logs of the rates; costs are those of the "
    "whole set-up, all requests in flight together. In brackets: intervals by the delete-one-block jackknife. Knee: "
    "the size at which both costs are equal. Ceiling: 1 / cost per byte, bytes of pages alone. Misses: the largest "
    "share by which the mean of a size lies beside the curve."
)


class PageSizePage(EffectsPage):
    """From which page size on is the network the limit; see `page_size_page`."""

    notebook = "page_size_tps"

    @cached_property
    def result(self) -> PageSizeResult:
        """Curves, bottlenecks and tiers of the run, on the page's metric."""
        if page_size_factor(self.data.study) is None:
            study = self.data.study
            other = f"its notebook is {study.notebooks[0]}"
            raise UsageError(f"no factor of study {study.name!r} sets page_bytes", other)
        if get_metric(self.metric).kind != "rate":
            raise UsageError(f"a curve over page size needs a rate, not {self.metric}", "metric = 'ok_per_s', say")
        return analyse_page_sizes(self.data, self.metric, self.level)

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Say from which size on the network is the limit, and where requests cost as much as their bytes."""
        word = words.network_limit_text(self.result)
        kind = "undecided" if word == words.NOT_KNOWN else "invalid"
        return replace(
            default, kind=kind, glyph=palette.BASELINE.glyph, word=word, headline=words.headline(self.result),
            support=words.supporting_text(self.result), errors=tuple(self._error_lines(only="more")), counts=(),
        )  # fmt: skip

    def curves(self) -> Block:
        """Show figure 6, a sentence per curve, and the tables of costs and of points."""
        from loadbook.report.figures import page_size

        lines = [f"{name}{words.curve_sentence(fit)}" for name, fit in self.result.curves.fits.items()]
        costs, points = cost_table(self.result), point_table(self.result)
        html = figure_markup(render_figure(page_size, self.result)) + render("lines.html.j2", lines=lines) + table_markup(costs)
        html += render("note.html.j2", text=COSTS_NOTE)
        html += render("details.html.j2", summary="Every point of the figure", inside=table_markup(points))
        text = "\n".join([words.headline(self.result), *lines])
        return Block(str(html), str(clean(f"{text}\n\n{table_text(costs)}\n{COSTS_NOTE}\n\n{table_text(points)}")))

    def bandwidth(self) -> Block:
        """Show the trials and curves as bytes of pages per second."""
        return self.figure("page_size", self.result, by="bytes")

    def tiers(self) -> Block:
        """Show in words whether the web tiers converge: a sentence per front, a table with a verdict per size."""
        from loadbook.report.figures import tier_ratios

        if self.result.tiers is None:
            return empty_section("This study has one web tier.")
        lines, table = tier_ratios.sentences(self.result), tier_table(self.result)
        html = render("lines.html.j2", lines=lines) + table_markup(table)
        return Block(str(html), str(clean("\n".join([*lines, table_text(table)]))))

    def errors(self) -> Block:
        """Show the errors of each web tier over all sizes, above those of every treatment."""
        lines, default = self._error_lines(), super().errors()
        html = str(render("lines.html.j2", lines=lines)) + default.html if lines else default.html
        return Block(html, str(clean("\n".join([*lines, default.text]))), default.data)

    def _error_lines(self, only: str | None = None) -> list[str]:
        known = list(self.result.errors.items())
        if not known:
            return []
        (first, reference), (second, compared) = known
        lines = [] if only else [f"{first}, all sizes: {errors_sentence(reference)}"]
        if only in (None, compared.kind):
            lines.append(f"{second}, all sizes: {errors_sentence(compared, reference, first)}")
        return lines

    def jmeter(self) -> Block:
        """Show the numbers under JMeter's own column names, where JMeter measured."""
        found = jmeter_table.jmeter_tables(self.data, self.labels)
        if found is None:
            return empty_section("JMeter measured nothing here.")
        by_label, by_trial = found
        html = table_markup(by_label) + render("note.html.j2", text=jmeter_table.JMETER_NOTE)
        html += render("details.html.j2", summary=f"Every trial ({len(by_trial.rows)})", inside=table_markup(by_trial))
        text = "Median over trials (minimum to maximum)."
        return Block(note_block(text).html + str(html), str(clean(f"{text}\n{table_text(by_label)}\n{jmeter_table.JMETER_NOTE}")))

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return what the command line says: the headline, errors, and a line per curve."""
        lines = [f"{name}{words.curve_sentence(fit)}" for name, fit in self.result.curves.fits.items()]
        return [answer.headline, *answer.errors, *lines]


def cost_table(found: PageSizeResult) -> Table:
    """Return the costs of every curve with their intervals."""
    heads = ("Per request, ms", "Per byte, ns", "Knee", "Ceiling, Mbit/s", "Misses", "Blocks")
    columns = [Column("Series"), *(Column(head, True) for head in heads)]
    return Table("Costs", columns, [_cost_cells(name, fit) for name, fit in found.curves.fits.items()])


def _cost_cells(name: str, fit: TwoRegimeCurve | str) -> list[str]:
    if isinstance(fit, str):
        return [name, *[DASH] * 6]
    has_byte_regime = fit.visible_regime != "request"
    return [
        name,
        words.cost_text(fit.per_request_s, 1e-3) if fit.visible_regime != "byte" else DASH,
        words.cost_text(fit.per_byte_s, 1e-9) if has_byte_regime else DASH,
        words.knee_text(fit),
        words.cost_text(fit.ceiling_bytes_per_s, 125e3) if has_byte_regime else DASH,
        words.largest_misfit_text(fit),
        str(fit.blocks),
    ]


def point_table(found: PageSizeResult) -> Table:
    """Return every size of every series: the median rate, the page's bytes per second, and what limited it."""
    columns = [
        Column("Series"), Column("Page", True), Column("ok/s, median (trials)", True), Column("of pages, Mbit/s", True),
        Column("Full by the traces"),
    ]  # fmt: skip
    rows = []
    for one in found.curves.series:
        for size, arm in one.arms.items():
            own = found.values[(found.values["treatment"] == arm) & found.values["valid"]]["value"].dropna()
            middle = float(own.median()) if len(own) else None
            rate = f"{middle:,.0f} ({len(own)})" if middle is not None else f"not measured ({len(own)})"
            bits = f"{middle * size / 125e3:,.1f}" if middle is not None else DASH
            rows.append([one.name, words.size_text(size), rate, bits, _bottleneck_text(found, arm)])
    return Table("Points", columns, rows)


def _bottleneck_text(found: PageSizeResult, arm: str) -> str:
    if arm not in found.bottlenecks:
        return "not watched"
    letter = found.bottlenecks[arm]
    return BOTTLENECK_NAMES[letter] if letter else "nothing watched"


def tier_table(found: PageSizeResult) -> Table:
    """Return the comparison of the tiers at every size: verdict, change, intervals."""
    assert found.tiers is not None
    columns = [
        Column("Page"), Column("Verdict"), Column("Behind"), Column("Change", True), Column("95 % interval", True),
        Column("90 % interval", True), Column("Blocks", True),
    ]  # fmt: skip
    rows = [
        [words.size_text(size), _tier_verdict_cell(verdict), pair.name or DASH, *words.pair_cells(verdict)]
        for pair in found.tiers.pairs
        for size, verdict in pair.verdicts.items()
    ]
    return Table("Tiers", columns, rows, caption=" over ".join(found.tiers.names[::-1]))


def _tier_verdict_cell(verdict: Verdict) -> VerdictCell:
    kind = verdict.kind
    return VerdictCell(f"v-{kind}", palette.VERDICTS[kind].glyph, palette.verdict_word(kind, get_metric("ok_per_s")))


def page_size_page(study: str, run: str = "latest", metric: str = "", level: float = 0.95) -> PageSizePage:
    """Return the page that answers from which page size on the network is the limit, from one recorded run.

    Parameters
    ----------
    study, run : names; "latest" is the newest run.
    metric : a rate; empty for the study's own.
    level : of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, a study in which no factor sets page_bytes, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return PageSizePage(load_run_data(study, run), "", metric, level)
