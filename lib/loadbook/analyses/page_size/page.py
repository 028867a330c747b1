"""The page of a study of page sizes: costs, limits and tiers, and JMeter's own columns if JMeter measured.

JMeter's columns have the names and meanings of its Statistics table: they count samples of any outcome, also without a
response; times are elapsed times in ms; Transactions/s includes failed samples. Percentiles are over a trial's samples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property

import pandas as pd

from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.page_size import text as words
from loadbook.analyses.page_size.compute import PageSizeResult, TwoRegimeCurve, analyse_page_sizes
from loadbook.core.errors import UsageError
from loadbook.core.metrics import get_metric
from loadbook.core.units import NBSP
from loadbook.report import palette, verdicts
from loadbook.report.blocks import Block, empty_section, note
from loadbook.report.nodes import DASH, BulletList, Column, Details, HtmlOnly, Picture, Table, TextOnly, VerdictCell
from loadbook.report.page import load_run_data
from loadbook.stats.comparability import usable_mask
from loadbook.stats.error_text import errors_sentence
from loadbook.stats.headline import neutral_headline
from loadbook.stats.saturation import BOTTLENECK_NAMES
from loadbook.stats.text import comparison_texts
from loadbook.store.tables import RunData, metric_keys

JMETER_NOTE = (
    "Column names and meanings as in JMeter’s dashboard; times in ms, Received in KB/sec (KB = 1,024 B). Percentiles "
    "come from all samples of a trial, while JMeter’s own dashboard takes the last 20,000 of a label. FAIL is "
    "JMeter’s; the verdicts on errors above are loadbook’s. Sent is not kept."
)


def _jmeter_columns(numbers: pd.DataFrame) -> dict[str, tuple[pd.Series, int]]:
    """Return JMeter's column -> (values, decimals); `numbers` is trials x (metric, statistic)."""
    unknown = pd.Series(math.nan, index=numbers.index)
    ok, errors = (numbers.get((metric, "count"), unknown) for metric in ("ok", "errors"))
    samples, duration = ok + errors, numbers.get(("duration", "value"), unknown)
    statistics = {"Average": "mean", "Min": "min", "Max": "max", "Median": "p50", "90th pct": "p90", "95th pct": "p95",
                  "99th pct": "p99"}  # fmt: skip
    latency = {head: numbers.get(("latency", statistic), unknown) * 1e3 for head, statistic in statistics.items()}
    return {
        "#Samples": (samples, 0),
        "FAIL": (errors, 0),
        f"Error{NBSP}%": (100 * errors / samples, 2),
        **{head: (values, 1 if head == "Average" else 0) for head, values in latency.items()},
        "Transactions/s": (samples / duration.where(duration != 0), 1),
        "Received": (numbers.get(("bytes_per_s", "value"), unknown) / 1024, 1),
    }


def jmeter_tables(data: RunData, labels: Mapping[str, str]) -> tuple[Table, Table] | None:
    """Return tables by treatment (median, minimum, maximum over its trials) and by trial; None without JMeter."""
    own = data.trials[(data.trials["tool"] == "jmeter") & data.trials["valid"]].sort_values("slot")
    if own.empty:
        return None
    rows = data.measurements[data.measurements["trial"].isin(own["trial"]) & (data.measurements["driver"] == "*")]
    by_number = rows.groupby(["trial", "metric", "statistic"])["value"].last()
    columns = _jmeter_columns(by_number.unstack(["metric", "statistic"]).reindex(own["trial"]))
    by_label, by_trial = [], []
    for arm in data.plan.treatments:
        trials = own.loc[own["treatment"] == arm, "trial"]
        cells = [labels.get(arm, arm), str(len(trials))]
        for values, digits in columns.values():
            of_arm = values[trials]
            low, middle, high = (_number_text(v, digits) for v in (of_arm.min(), of_arm.median(), of_arm.max()))
            cells.append(middle if low == high else f"{middle} ({low} to {high})")
        by_label += [cells] if len(trials) else []
    for arm, block, trial in zip(own["treatment"], own["block"], own["trial"], strict=True):
        cells = [_number_text(values[trial], digits) for values, digits in columns.values()]
        by_trial.append([labels.get(arm, arm), str(block), *cells])
    heads = [Column(head, True) for head in columns]
    first = Table("JMeter, by label", [Column("Label"), Column("Trials", True), *heads], by_label)
    return first, Table("JMeter, by trial", [Column("Label"), Column("Block", True), *heads], by_trial)


def _number_text(value: float, digits: int) -> str:
    return DASH if math.isnan(value) else f"{value:,.{digits}f}"


COSTS_NOTE = (
    "1 / rate = cost per request + bytes × cost per byte, fitted to the logs of the rates; costs are those of the "
    "whole set-up, all requests in flight together. In brackets: intervals by the delete-one-block jackknife. Knee: "
    "the size at which both costs are equal. Ceiling: 1 / cost per byte, bytes of pages alone. Misses: the largest "
    "share by which the mean of a size lies beside the curve."
)


class PageSizePage(EffectsPage):
    """The page on the page size from which on the network is the limit, made by `page_size_page`."""

    notebook = "page_size_tps"

    @cached_property
    def result(self) -> PageSizeResult:
        """The curves, bottlenecks and tiers of the run, on the page's metric."""
        if self.run_data.study.page_size_factor is None:
            study = self.run_data.study
            raise UsageError(
                f"no factor of study {study.name!r} sets page_bytes", f"its notebook is {study.notebooks[0]}"
            )
        if not self.is_of_rate:
            raise UsageError(f"a curve over page size needs a rate, not {self.metric}", "metric = 'ok_per_s', say")
        return analyse_page_sizes(self.run_data, self.metric, self.level)

    def customise_answer(self, default: verdicts.AnswerSummary) -> verdicts.AnswerSummary:
        """Return the answer: the size from which on the network is the limit, and the knees of the curves."""
        word = words.network_limit_text(self.result)
        kind = "undecided" if word == words.NOT_KNOWN else "invalid"
        return replace(
            default, kind=kind, glyph=palette.BASELINE.glyph, word=word, headline=words.headline(self.result),
            support=words.supporting_text(self.result), errors=tuple(self._error_lines(only="more")), counts=(),
        )  # fmt: skip

    def data(self) -> pd.DataFrame:
        """Return the numbers of the curves, not rounded: one row per series and size, with the knee of its curve.

        Columns: median `rate_per_s`, `bottleneck` (C: balancer CPU, N: network, W: web CPU, D: driver), and for the
        series `network_from_b`, the bytes from which on the network is the bottleneck. `knee_b` has the interval
        `low` to `high`; it lies within the sizes if `visible` is "both". Its numbers are NaN without a curve.
        """
        result = self.result
        usable = result.values[usable_mask(result.values)].groupby("treatment")["value"]
        medians, counts, rows = usable.median(), usable.count(), []
        for series in result.series:
            curve = _curve_numbers(result.fits[series.name])
            for size, arm in series.arms.items():
                rows.append({
                    "series": series.name, "page_bytes": size, "treatment": arm, "trials": counts.get(arm, 0),
                    "rate_per_s": medians.get(arm, math.nan), "bottleneck": result.bottlenecks.get(arm),
                    "network_from_b": result.network_limited_from(series), **curve, "confidence": result.level,
                    **metric_keys(self.metric),
                })  # fmt: skip
        return pd.DataFrame(rows)

    def curves(self) -> Block:
        """Show the curves over page size, a sentence per curve, and the tables of costs and of sizes."""
        from loadbook.analyses.page_size.figure import PageSizeFigure

        return Block(
            HtmlOnly(Picture(PageSizeFigure(self.result))),
            TextOnly(words.headline(self.result)),
            BulletList(words.curve_sentences(self.result), css="doubts", bullet=""),
            cost_table(self.result),
            note(COSTS_NOTE),
            Details("Every point of the figure", point_table(self.result)),
        )

    def bandwidth(self) -> Block:
        """Show the trials and curves in bytes per second instead of responses per second."""
        return self.figure("page_size", self.result, by="bytes")

    def tiers(self) -> Block:
        """Show from which size on the web tiers are equivalent: a sentence per front end, a verdict per size."""
        if self.result.tiers is None:
            return empty_section("This study has one web tier.")
        lines = BulletList(words.tier_sentences(self.result), css="doubts", bullet="")
        return Block(lines, tier_table(self.result))

    def errors(self) -> Block:
        """Show the errors of each web tier over all sizes, above those of every treatment."""
        lines, default = self._error_lines(), super().errors()
        return Block(BulletList(lines, css="doubts", bullet="") if lines else None, default, data=default.data)

    def _error_lines(self, only: str | None = None) -> list[str]:
        if not self.result.errors:
            return []
        (first, reference), (second, compared) = self.result.errors.items()
        lines = [] if only else [f"{first}, all sizes: {errors_sentence(reference)}"]
        if only in (None, compared.kind):
            lines.append(f"{second}, all sizes: {errors_sentence(compared, reference, first)}")
        return lines

    def open_step(self) -> str:
        """Return what a run without verdict needs, or else how the link's rate becomes known; "" if nothing is open."""
        if neutral_headline(self.analysis):
            return super().open_step()
        if self.run_data.run_record.imported or self.result.link_bytes_per_s is not None:
            return ""
        return "set link_mbit of the hosts in the hosts file, and run again (in the lab, as root: page-size-tps-link)"

    def jmeter(self) -> Block:
        """Show the results under JMeter's own column names, if JMeter measured."""
        tables = jmeter_tables(self.run_data, self.labels)
        if tables is None:
            return empty_section("JMeter measured nothing here.")
        by_label, by_trial = tables
        every_trial = HtmlOnly(Details(f"Every trial ({len(by_trial.rows)})", by_trial))
        return Block(note("Median over trials (minimum to maximum)."), by_label, note(JMETER_NOTE), every_trial)

    def sentences(self, answer: verdicts.AnswerSummary) -> list[str]:
        """Return the lines that the command line prints: the headline, errors, and a line per curve."""
        return [answer.headline, *answer.errors, *words.curve_sentences(self.result)]


def _curve_numbers(fit: TwoRegimeCurve | str) -> dict[str, float | str | None]:
    """Return the knee with its interval, the costs and the ceiling of a curve; NaN if there is none."""
    names = ("knee_b", "low", "high", "per_request_s", "per_byte_s", "ceiling_bytes_per_s", "visible")
    if isinstance(fit, str):
        return dict.fromkeys(names, math.nan) | {"visible": None}
    costs = (fit.per_request_s.value, fit.per_byte_s.value, fit.ceiling_bytes_per_s.value)
    numbers = (fit.knee_b.value, *fit.knee_b.interval, *costs, fit.visible_regime)
    return dict(zip(names, numbers, strict=True))


def cost_table(result: PageSizeResult) -> Table:
    """Return the table of the costs of every curve with their intervals."""
    heads = ("Per request, ms", "Per byte, ns", "Knee", "Ceiling, Mbit/s", "Misses", "Blocks")
    columns = [Column("Series"), *(Column(head, True) for head in heads)]
    rows = []
    for name, fit in result.fits.items():
        cells = [DASH] * len(heads)
        if not isinstance(fit, str):
            request, byte = fit.visible_regime != "byte", fit.visible_regime != "request"
            cells = [
                words.cost_text(fit.per_request_s, 1e-3) if request else DASH,
                words.cost_text(fit.per_byte_s, 1e-9) if byte else DASH,
                words.knee_text(fit),
                words.cost_text(fit.ceiling_bytes_per_s, 125e3) if byte else DASH,
                words.largest_misfit_text(fit),
                str(fit.blocks),
            ]
        rows.append([name, *cells])
    return Table("Costs", columns, rows)


def point_table(result: PageSizeResult) -> Table:
    """Return a table by series and size: median rate, bytes of the page per second, saturated resource."""
    columns = [
        Column("Series"), Column("Page", True), Column("ok/s, median (trials)", True), Column("of pages, Mbit/s", True),
        Column("Full by the traces"),
    ]  # fmt: skip
    valid, rows = result.values[result.values["valid"]], []
    for series in result.series:
        for size, arm in series.arms.items():
            own = valid.loc[valid["treatment"] == arm, "value"].dropna()
            rate, bits = f"not measured ({len(own)})", DASH
            if len(own):
                median = float(own.median())
                rate, bits = f"{median:,.0f} ({len(own)})", f"{median * size / 125e3:,.1f}"
            letter = result.bottlenecks.get(arm)
            full = BOTTLENECK_NAMES[letter] if letter else "nothing watched"
            cells = [series.name, words.size_text(size), rate, bits]
            rows.append([*cells, full if arm in result.bottlenecks else "not watched"])
    return Table("Points", columns, rows)


def tier_table(result: PageSizeResult) -> Table:
    """Return the table of the tiers compared at every size: verdict, change, intervals; it needs `result.tiers`."""
    assert result.tiers is not None
    columns = [
        Column("Page"), Column("Verdict"), Column("Behind"), Column("Change", True), Column("95 % interval", True),
        Column("90 % interval", True), Column("Blocks", True),
    ]  # fmt: skip
    rows = []
    for pair in result.tiers.pairs:
        for size, verdict in pair.verdicts.items():
            word, texts = palette.verdict_word(verdict.kind, get_metric("ok_per_s")), comparison_texts(verdict)
            cell = VerdictCell(f"v-{verdict.kind}", palette.VERDICTS[verdict.kind].glyph, word)
            numbers = [texts.change, texts.interval, texts.interval90, texts.blocks]
            rows.append([words.size_text(size), cell, pair.name or DASH, *numbers])
    return Table("Tiers", columns, rows, caption=" over ".join(result.tiers.names[::-1]))


def page_size_page(study: str, run: str = "latest", metric: str = "", level: float = 0.95) -> PageSizePage:
    """Return the page that shows from which page size on the network is the limit, for one recorded run.

    Parameters
    ----------
    study, run : name of the study and id of the run; "latest" is the newest run.
    metric : name of a rate; empty for the metric of the study.
    level : confidence of the intervals, 0.95 for 95 %.

    Raises
    ------
    UsageError : an unknown name, a study in which no factor sets page_bytes, or a level that is not between 0.5 and 1.
    DataError : the run was not ingested, or its tables cannot be read.
    """
    return PageSizePage(load_run_data(study, run), "", metric, level)
