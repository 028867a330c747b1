"""The noise page: the smallest difference that can be detected on these hosts, and the noise of every load."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from loadbook.core.errors import LoadbookError
from loadbook.core.metrics import get_metric
from loadbook.core.units import MINUS, format_duration, format_percent, format_percent_range, format_quantity, pluralize
from loadbook.execution.power import aa_arms, runs_on_same_hosts
from loadbook.modes.plain.stats import stats_of
from loadbook.report import palette, sections
from loadbook.report.blocks import Block, answer_box, empty_section, note, note_block
from loadbook.report.figures import axes
from loadbook.report.figures.base import Drawing, ReportFigure, metric_label
from loadbook.report.figures.rows import LINE_IN, write_above
from loadbook.report.nodes import DASH, Column, Details, Picture, Table
from loadbook.report.page import Page, load_run_data
from loadbook.stats import power
from loadbook.stats.diagnostics import lag1_correlation
from loadbook.stats.headline import neutral_caption
from loadbook.stats.power import MAX_RESAMPLED_BLOCKS, POWER, sd_interval_factors, trials_of_arms
from loadbook.stats.text import margin_text
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.tables import RunData, metric_keys, read_table, trial_values
from loadbook.study.workload import Workload

FALSE_ALARM_BLOCKS = 10
MIN_PAIRS = 10
HEIGHT_IN, TITLE_AT = 5.75, -0.15  # height of the figure; left edge of the titles, in widths of a panel
QUANTILE_TICKS = (0.01, 0.1, 0.5, 0.9, 0.99)
DRIFT_P = 0.05


@dataclass(frozen=True)
class NoiseRecord:
    """Trials of one configuration, their noise, and what studies with that noise can find.

    Attributes
    ----------
    metric, margin : the metric of the trials, and the smallest difference that matters (a ratio minus 1).
    values : rows of `power.trials_of_arms`.
    noise, pool : summary of the noise, and the pairs of trials from which studies are drawn.
    blocks_needed : numbers of blocks for the margin; None above 10,000.
    precisions : half-width and smallest effect found, by number of blocks.
    relabelling : how often pseudo-studies claim a difference: these trials, each labelled baseline or treatment at
        random, so that no difference exists; None if the trials are too few for it.
    """

    metric: str
    margin: float
    values: pd.DataFrame
    noise: power.NoiseSummary
    pool: power.PairPool
    blocks_needed: power.BlocksNeeded | None
    precisions: tuple[power.DesignPrecision, ...]
    relabelling: power.RelabellingTest | None


def compute_noise_record(values: pd.DataFrame, metric: str, margin: float) -> NoiseRecord | None:
    """Return the noise record of trials of one configuration (rows of `power.trials_of_arms`).

    None below 20 trials, or if all values are equal. `margin` is a ratio minus 1.
    """
    summary = power.summarise_noise(values)
    if summary is None or summary.trials < 2 * MIN_PAIRS:
        return None
    pool = power.pair_pool(summary.residuals)
    precisions = tuple(pool.precision(blocks, margin) for blocks in power.PRECISION_BLOCKS)
    relabelling = power.relabelling_test(summary.residuals, FALSE_ALARM_BLOCKS)
    return NoiseRecord(metric, margin, values, summary, pool, pool.blocks_needed(margin), precisions, relabelling)


def noise_headline(record: NoiseRecord | None, margin: float) -> str:
    """Return the headline: how many blocks the margin needs on these hosts, or why that is not known.

    `margin` is a ratio minus 1.
    """
    size = margin_text(margin)
    if record is None:
        return f"Not known yet: fewer than {2 * MIN_PAIRS} trials of one configuration count, or all are equal."
    if (needed := record.blocks_needed) is None:
        return f"On these hosts {size} is out of reach: it needs more than 10,000 blocks."
    return f"On these hosts {size} needs {needed.blocks:,} blocks ({needed.low:,} to {needed.high:,})."


def relabelling_sentence(test: power.RelabellingTest | None) -> str:
    """Return the sentence on false alarms and detected effects in studies simulated from the recorded trials."""
    if test is None:
        return "Too few trials to draw labels anew."
    alarms, ordered, detected = (
        format_percent(x, 1, signed=False) for x in (test.false_alarms, test.fixed_order, test.detected)
    )
    return (
        f"False alarms: {alarms} of {test.studies:,} pseudo-studies of {test.blocks} blocks; "
        f"these trials in fixed order: {ordered}. "
        f"A true {format_percent(test.effect, 0, signed=False)} was found in {detected}."
    )


class NoiseFigure(ReportFigure):
    """Four panels: values in order of execution, neighbours, sorted residuals, detectable difference by blocks."""

    def __init__(self, record: NoiseRecord) -> None:
        self.record, self.noise = record, record.noise

    def _draw(self) -> Drawing:
        drawing = Drawing(HEIGHT_IN)
        panels = drawing.figure.subplots(2, 2).flat
        draw_panels = (self._draw_values, self._draw_neighbours, self._draw_sorted, self._draw_detectable)
        for panel, draw_panel in zip(panels, draw_panels, strict=True):
            title, above, below = draw_panel(panel)
            panel.set_title(title, x=TITLE_AT, pad=72 * LINE_IN + 8)
            write_above(panel, TITLE_AT, above)
            panel.set_xlabel(below)
        return drawing

    def _draw_values(self, panel: Axes) -> tuple[str, str, str]:
        """Draw the trials in order with their trend; return panel title, title of the y axis, title of the x axis."""
        noise, metric, values = self.noise, get_metric(self.record.metric), self.record.values["value"]
        limits = axes.value_range(values)
        unit = axes.axis_unit(metric, limits[1])
        axes.set_value_scale(panel.yaxis, limits, unit)
        _draw_dots(panel, noise.slots, values.to_numpy(float))
        first, last = int(noise.slots[0]), int(noise.slots[-1])
        trend = math.log1p(noise.drift or 0.0) / 2 * np.array([-1, 1])
        panel.plot([first, last], np.exp(np.log(values).median() + trend), color=palette.INK, linewidth=1.8)
        ticks = MaxNLocator(6, integer=True).tick_values(first, last)
        panel.set_xticks([tick for tick in ticks if first <= tick <= last])
        name = f"{metric_label(metric)}{f', {unit.name}' if unit.name else ''}"
        return self._drift_text, f"{name} (log, does not start at 0)", "trial, in order of execution"

    def _draw_neighbours(self, panel: Axes) -> tuple[str, str, str]:
        residuals = self.noise.residuals
        for axis in (panel.xaxis, panel.yaxis):
            axes.set_ratio_scale(axis, _residual_scale(residuals), 0.0)
        panel.axhline(0, color=palette.RULE, linewidth=0.8, zorder=1)
        panel.axvline(0, color=palette.RULE, linewidth=0.8, zorder=1)
        _draw_dots(panel, residuals[:-1], residuals[1:])
        title = f"neighbours correlate by {self._lag1_text} (standard error {self.noise.lag1_error:.2f})"
        return title, "the next trial against the median", "one trial against the median"

    def _draw_sorted(self, panel: Axes) -> tuple[str, str, str]:
        ordered = np.sort(self.noise.residuals)
        scores = power.normal_scores(len(ordered))
        axes.set_ratio_scale(panel.yaxis, _residual_scale(ordered), 0.0)
        edge = 1.06 * max(float(scores[-1]), 2.4)
        panel.set_xlim(-edge, edge)
        panel.axline((0, 0), slope=ordered.std(), color=palette.INK, linewidth=0.9, zorder=-1)
        _draw_dots(panel, scores, ordered)
        gap = self.noise.gap_test
        if gap.is_bimodal:
            sides = [gap.below - 1, gap.below]
            panel.plot([float(np.mean(scores[sides]))] * 2, ordered[sides], color=palette.INK, linewidth=1.8)
        labels = [format_percent(share, 0, signed=False) for share in QUANTILE_TICKS]
        axes.set_ticks(panel.xaxis, list(power.normal_quantiles(QUANTILE_TICKS)), labels)
        return self._groups_text, "trial against the median", "share of trials below (normal scale)"

    def _draw_detectable(self, panel: Axes) -> tuple[str, str, str]:
        """Draw the detectable difference by blocks (log-log) with its range, the margin band, and their crossing."""
        record, needed = self.record, self.record.blocks_needed
        points = [(a.blocks, a.detectable_effect) for a in record.precisions if math.isfinite(a.detectable_effect)]
        most = max(MAX_RESAMPLED_BLOCKS, 1.6 * (needed.high if needed else MAX_RESAMPLED_BLOCKS))
        if most > MAX_RESAMPLED_BLOCKS:
            beyond = np.geomspace(MAX_RESAMPLED_BLOCKS, most, 12)[1:]
            points += [(n, record.pool.detectable_by_formula(round(n))) for n in beyond]
        blocks, effects = np.array(points).T
        middle, low, high = (np.expm1(np.log1p(effects) * factor) for factor in (1.0, *record.pool.sd_factors))
        axes.set_value_scale(panel.xaxis, (4.75, 1.05 * most), axes.AxisUnit(1.0, ""))
        panel.set_yscale("log")
        bottom, top = 0.78 * min(low.min(), record.margin), max(1.1 * high.max(), 1.3 * record.margin)
        panel.set_ylim(bottom, top)
        ticks = [effect for effect in axes.EFFECTS if bottom <= effect <= top]
        axes.set_ticks(panel.yaxis, ticks, [axes.effect_label(e)[1:] for e in ticks])
        panel.axhspan(bottom, record.margin, color=palette.BAND, linewidth=0, zorder=-3)
        panel.fill_between(blocks, low, high, facecolor=palette.WINDOW_TINT, edgecolor=palette.RULE, linewidth=0.8,
                           zorder=-2)  # fmt: skip
        for chosen, style in ((blocks <= MAX_RESAMPLED_BLOCKS, "-"), (blocks >= MAX_RESAMPLED_BLOCKS, axes.DASHED)):
            panel.plot(blocks[chosen], middle[chosen], color=palette.INK, linewidth=1.8, linestyle=style)
        title, is_crossed_early = "out of reach", bool(needed and needed.blocks**2 < blocks[0] * most)
        x, align = (1, "right") if is_crossed_early else (0, "left")  # where the curve is not near the margin
        if needed:
            panel.plot([needed.blocks], [record.margin], marker="o", markersize=6, color=palette.INK)
            title = f"{margin_text(record.margin)}: {needed.blocks:,} blocks ({needed.low:,} to {needed.high:,})"
        panel.annotate(
            f"margin {margin_text(record.margin)}", (x, record.margin), (3 - 6 * x, 2), va="bottom", ha=align,
            xycoords=panel.get_yaxis_transform(), textcoords="offset points", color=palette.SOFT,
        )  # fmt: skip
        above = f"difference found with {format_percent(power.POWER, 0, signed=False)} probability"
        return title, above, "blocks (log)"

    @property
    def _lag1_text(self) -> str:
        return f"{self.noise.lag1:.2f}".replace("-", MINUS)

    @property
    def _drift_text(self) -> str:
        noise = self.noise
        if noise.drift is None or noise.drift_p is None or noise.drift_p >= DRIFT_P:
            return "no steady drift is visible"
        return f"drift of {format_percent(noise.drift)} over the record"

    @property
    def _groups_text(self) -> str:
        gap = self.noise.gap_test
        if not gap.is_bimodal:
            return "one group: no gap is visible"
        return f"two groups: {gap.below} and {gap.above} trials, {format_percent(gap.gap, 1, signed=False)} apart"

    @property
    def caption(self) -> str:
        """One sentence on how many blocks the margin needs on these hosts."""
        return noise_headline(self.record, self.record.margin)

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        trials, pairs = pluralize(self.noise.trials, "trial"), pluralize(len(self.record.pool.pairs), "pair")
        return (
            f"{relabelling_sentence(self.record.relabelling)} One dot is one of {trials} of one configuration. Thin "
            f"lines: where the curve may lie, as {pairs} tell no better; dashed: by the formula from 40 blocks on."
        )

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the numbers of all four panels."""
        noise = self.noise
        low, high = (format_percent(bound, 1, signed=False) for bound in noise.cv_interval)
        numbers = (
            f"{pluralize(noise.trials, 'trial')} of one configuration scatter by "
            f"{format_percent(noise.cv, 1, signed=False)} (95 % interval {low} to {high}); {self._drift_text}; "
            f"correlation of neighbours {self._lag1_text}; {self._groups_text}."
        )
        return "", numbers


def _draw_dots(panel: Axes, xs: np.ndarray, ys: np.ndarray) -> None:
    panel.plot(xs, ys, linestyle="none", marker="o", markersize=3, color=palette.OTHERS, markeredgewidth=0)


def _residual_scale(residuals: np.ndarray) -> axes.RatioScale:
    """Return a symmetric axis that contains all residuals."""
    limit = 1.08 * float(np.abs(residuals).max())
    return axes.RatioScale(-limit, limit)


Floats = NDArray[np.float64]
MIN_TRIALS, MIN_TRIALS_IN_RUN = 10, 5
TAIL_METRICS = ("latency", "latency_intended", "service_time")


@dataclass(frozen=True)
class RunNoise:
    """One run's part of a table row: values of its trials, and relative deviations of their p99 from the mean p99.

    `p99_deviations` is empty if fewer than 5 trials have a p99.
    """

    metric: str
    values: Floats
    p99_deviations: Floats


def noise_by_load_table(data: RunData) -> Table:
    """Return one row per study, execution (plain or interleaved) and load, over all runs on this run's hosts.

    The trials are those of the baseline's configuration (baseline and A/A arms); a row needs at least ten.
    """
    layout = Layout(data.paths.raw.parents[3])
    rows = []
    for (study, execution, load), parts in _collect_run_noise(layout, data.paths).items():
        if sum(len(part.values) for part in parts) >= MIN_TRIALS:
            rows.append([study, execution, load, *_noise_cells(parts)])
    columns = [
        Column("Study"), Column("Execution"), Column("Tool and load", wrap=True), Column("Mean", True),
        Column("CV", True), Column("95 % interval", True), Column("Lag-1", True), Column("CV of p99", True),
        Column("Trials", True), Column("Runs", True),
    ]  # fmt: skip
    return Table("Noise by load", columns, rows)


def load_text(load: Workload) -> str:
    """Return a load as text: "wrk, 50 connections, 1 s, /index.html"."""
    much = f"{load.duration_s:g} s" if load.requests is None else f"{load.requests:,} requests"
    rate = [f"{load.rate_per_s:,.6g} requests/s"] if load.rate_per_s else []
    return ", ".join([load.tool, f"{load.connections} connections", *rate, much, load.path])


def _collect_run_noise(layout: Layout, paths: RunPaths) -> dict[tuple[str, str, str], list[RunNoise]]:
    noise_by_load: dict[tuple[str, str, str], list[RunNoise]] = defaultdict(list)
    for run in runs_on_same_hosts(layout, paths):
        try:
            study = read_current_plan(run).study
            trials, measured = (read_table(run.table(name), name) for name in ("trials", "measurements"))
        except LoadbookError:  # a run of another version or without tables is skipped
            continue
        values_of_arm = trials_of_arms(trial_values(trials, measured, study.metric), aa_arms(study))
        if len(values_of_arm) >= MIN_TRIALS_IN_RUN:
            values = values_of_arm["value"].to_numpy(float)
            load = load_text(study.workload_of(study.baseline))
            p99_deviations = _p99_deviations(trials, measured, values_of_arm)
            noise_by_load[(study.name, study.execution, load)].append(RunNoise(study.metric, values, p99_deviations))
    return noise_by_load


def _p99_deviations(trials: pd.DataFrame, measured: pd.DataFrame, values_of_arm: pd.DataFrame) -> Floats:
    """Return the relative deviations of these trials' p99 from their mean; empty if the load tool prints no p99."""
    for name in TAIL_METRICS:
        every = trial_values(trials, measured, name, "p99").set_index("trial")["value"]
        p99 = every.reindex(values_of_arm["trial"]).dropna()
        p99 = p99[p99 > 0]
        if len(p99) >= MIN_TRIALS_IN_RUN:
            return np.asarray(p99 / p99.mean() - 1, float)
    return np.empty(0)


def _noise_cells(parts: list[RunNoise]) -> list[str]:
    """Return the cells mean, CV, its interval, lag-1 correlation, CV of p99, number of trials, number of runs."""
    values, sizes = np.concatenate([part.values for part in parts]), [len(part.values) for part in parts]
    deviations = np.concatenate([part.values / part.values.mean() - 1 for part in parts])
    cv_cells = ["0", DASH, DASH]
    if np.ptp(deviations):
        residuals = [np.log(part.values) - np.median(np.log(part.values)) for part in parts]  # as in the figure
        lags = [lag1_correlation(own) if np.ptp(own) else 0.0 for own in residuals]
        lag1, sd = float(np.average(lags, weights=sizes)), float(deviations.std(ddof=1))
        factors = sd_interval_factors(np.concatenate(residuals), lag1)
        bounds = format_percent_range((sd * factor for factor in factors), 1, signed=False)
        cv_cells = [format_percent(sd, 1, signed=False), bounds, f"{lag1:+.2f}".replace("-", MINUS)]
    p99 = np.concatenate([part.p99_deviations for part in parts])
    tail = format_percent(float(p99.std(ddof=1)), 1, signed=False) if len(p99) >= MIN_TRIALS else DASH
    mean = format_quantity(float(values.mean()), get_metric(parts[0].metric).unit)
    return [mean, *cv_cells, tail, f"{sum(sizes):,}", str(len(parts))]


class NoisePage(Page):
    """The page on the smallest difference that can be detected on a run's hosts, made by `noise_page`."""

    notebook = "noise"

    @cached_property
    def record(self) -> NoiseRecord | None:
        """The noise record of all trials of the baseline's configuration: baseline and A/A arms; None if too few."""
        trials = trials_of_arms(self.values, aa_arms(self.run_data.study))
        return compute_noise_record(trials, self.metric, self.analysis.margin)

    def data(self) -> pd.DataFrame:
        """Return the precision of studies, one row per number of blocks, NaN if the trials are too few.

        Columns are the fields of `power.DesignPrecision`, and in every row the `margin`, the `blocks_needed` for it,
        and the `scatter` (CV, a ratio) of all `trials` of the named `treatments` with its interval `low` to `high`.
        """
        record, unknown = self.record, math.nan
        designs = [power.DesignPrecision(blocks, unknown, unknown, unknown) for blocks in power.PRECISION_BLOCKS]
        low, high = record.noise.cv_interval if record else (unknown, unknown)
        needed = record.blocks_needed if record else None
        return pd.DataFrame(record.precisions if record else designs).assign(
            margin=self.analysis.margin, blocks_needed=needed.blocks if needed else unknown,
            scatter=record.noise.cv if record else unknown, low=low, high=high,
            trials=record.noise.trials if record else unknown, treatments=", ".join(aa_arms(self.run_data.study)),
            **metric_keys(self.metric),
        )  # fmt: skip

    @cached_property
    def trial_s(self) -> float:
        """Median duration of a trial in seconds, including all of its phases."""
        return float(np.median(self.run_data.trials["duration_s"].dropna()))

    @cached_property
    def _source_sentences(self) -> list[str]:
        """The sizes of the sources of noise, and the advice that follows; empty if they are not known."""
        if self.run_data.samples is None or get_metric(self.metric).kind != "rate":
            return []
        alike = aa_arms(self.run_data.study)
        return stats_of(self.run_data.study).noise_sentences(self.run_data.samples, self.values, alike, self.trial_s)

    def answer(self) -> Block:
        """Show how many blocks the margin needs on these hosts, and the rate of false alarms with random labels."""
        return Block(answer_box(*self.sentences))

    @cached_property
    def sentences(self) -> list[str]:
        """The sentences of the answer: a failed A/A arm if there is one, blocks for the margin, false alarms."""
        lines = [neutral_caption(self.analysis)] if self.analysis.is_void else []
        lines.append(self.headline)
        if self.record is None:
            return lines
        if needed := self.record.blocks_needed:
            hours, power = format_duration(2 * needed.blocks * self.trial_s), format_percent(POWER, 0, signed=False)
            how = "by pseudo-studies of recorded trials" if needed.resampled else "by the formula"
            lines.append(f"For a baseline and one treatment that takes {hours} ({how}, power {power}).")
        return [*lines, *self._source_sentences[-1:], relabelling_sentence(self.record.relabelling)]

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return noise_headline(self.record, self.analysis.margin)

    def noise_record(self) -> Block:
        """Show the noise record: drift, correlation of neighbours, groups, and detectable difference by blocks."""
        if self.record is None:
            return empty_section(self.headline)
        table = ability_table(self.record)
        details = Details("The numbers behind this figure", table)
        sizes = [note(text) for text in self._source_sentences[:1]]
        return Block(Picture(NoiseFigure(self.record)), *sizes, details)

    def every_load(self) -> Block:
        """Show the noise of each load recorded on these hosts, in this run and in others."""
        table = noise_by_load_table(self.run_data)
        return Block(table) if table.rows else note_block("No load has ten trials yet.")

    def summary(self) -> dict[str, Any]:
        """Return the headline and the rate of false alarms for the index page and the command line."""
        verdict = {"kind": "undecided", "glyph": "○", "word": "noise", "sentence": self.sentences[0]}
        doubts = len(sections.doubt_messages(self.run_data))
        command = self.run_data.run_record.run_command
        step = f"more trials: {command} --blocks {2 * MIN_PAIRS}" if self.record is None else ""
        return super().summary() | {"verdict": verdict, "sentences": self.sentences, "doubts": doubts, "next": step}


def ability_table(record: NoiseRecord) -> Table:
    """Return a table by number of blocks: half-width of the interval, detectable difference, power for the margin."""
    heads = ("Blocks", "Half-width of the interval", "Found with 80 %", f"Power for {margin_text(record.margin)}")
    rows = [
        [str(a.blocks), *(format_percent(v, 1, False) for v in (a.half_width, a.detectable_effect)),
         format_percent(a.power, 0, False)]
        for a in record.precisions
    ]  # fmt: skip
    return Table("What blocks can do", [Column(head, True) for head in heads], rows)


def noise_page(study: str = "noise", run: str = "latest", metric: str = "") -> NoisePage:
    """Return the page on the noise of one run's hosts; parameters and errors as of `effects_page`."""
    return NoisePage(load_run_data(study, run), metric=metric)
