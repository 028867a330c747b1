"""The noise page: the smallest difference that can be detected on these hosts, and the noise of every load."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from loadbook.analyses.noise.record import (
    NoiseFigure,
    NoiseRecord,
    compute_noise_record,
    noise_headline,
    relabelling_sentence,
)
from loadbook.core.errors import LoadbookError
from loadbook.core.metrics import get_metric
from loadbook.core.units import MINUS, format_duration, format_percent, format_percent_range, format_quantity
from loadbook.execution.power import aa_arms, runs_on_same_hosts
from loadbook.report import sections
from loadbook.report.blocks import Block, answer_box, empty_section, note_block
from loadbook.report.nodes import DASH, Column, Details, Picture, Table
from loadbook.report.page import Page, load_run_data
from loadbook.stats.diagnostics import lag1_correlation
from loadbook.stats.headline import neutral_caption
from loadbook.stats.power import POWER, sd_interval_factors, trials_of_arms
from loadbook.stats.text import margin_text
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.tables import RunData, read_table, trial_values
from loadbook.store.trial_record import read_json
from loadbook.study.plan import parse_plan
from loadbook.study.workload import Workload

Floats = NDArray[np.float64]
MIN_TRIALS, MIN_TRIALS_IN_RUN = 10, 5
TAIL_METRICS = ("latency", "latency_intended", "service_time")


@dataclass(frozen=True)
class RunNoise:
    """One run's part of a table row: values of its trials, and relative deviations of their p99 from the mean p99."""

    metric: str
    values: Floats
    p99_deviations: Floats


def noise_by_load_table(data: RunData) -> Table:
    """Return one row per study and load with at least ten equal trials (same configuration) on this run's hosts."""
    layout = Layout(data.paths.raw.parents[3])
    rows = []
    for (study, load), parts in _collect_run_noise(layout, data.paths).items():
        if sum(len(part.values) for part in parts) >= MIN_TRIALS:
            rows.append([study, load, *_noise_cells(parts)])
    columns = [
        Column("Study"), Column("Tool and load", wrap=True), Column("Mean", True), Column("CV", True),
        Column("95 % interval", True), Column("Lag-1", True), Column("CV of p99", True), Column("Trials", True),
        Column("Runs", True),
    ]  # fmt: skip
    return Table("Noise by load", columns, rows)


def load_text(load: Workload) -> str:
    """Return a load as text: "wrk, 50 connections, 1 s, /index.html"."""
    much = f"{load.duration_s:g} s" if load.requests is None else f"{load.requests:,} requests"
    rate = [f"{load.rate_per_s:,.6g} requests/s"] if load.rate_per_s else []
    return ", ".join([load.tool, f"{load.connections} connections", *rate, much, load.path])


def _collect_run_noise(layout: Layout, paths: RunPaths) -> dict[tuple[str, str], list[RunNoise]]:
    found: dict[tuple[str, str], list[RunNoise]] = defaultdict(list)
    for run in runs_on_same_hosts(layout, paths):
        try:
            study = parse_plan(read_json(run.plan_json), str(run.plan_json)).study
            trials, measured = (read_table(run.table(name), name) for name in ("trials", "measurements"))
        except LoadbookError:  # a run of another version or without tables is skipped
            continue
        values_of_arm = trials_of_arms(trial_values(trials, measured, study.metric), aa_arms(study))
        if len(values_of_arm) >= MIN_TRIALS_IN_RUN:
            values = values_of_arm["value"].to_numpy(float)
            load = load_text(study.workload_of(study.baseline))
            p99_deviations = _p99_deviations(trials, measured, values_of_arm)
            found[(study.name, load)].append(RunNoise(study.metric, values, p99_deviations))
    return found


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
        trials = trials_of_arms(self.values, aa_arms(self.data.study))
        return compute_noise_record(trials, self.metric, self.analysis.margin)

    @cached_property
    def trial_s(self) -> float:
        """Median duration of a trial in seconds, including all of its phases."""
        return float(np.median(self.data.trials["duration_s"].dropna()))

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
        return [*lines, relabelling_sentence(self.record.relabelling)]

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return noise_headline(self.record, self.analysis.margin)

    def noise_record(self) -> Block:
        """Show the noise record: drift, correlation of neighbours, groups, and detectable difference by blocks."""
        if self.record is None:
            return empty_section(self.headline)
        table = ability_table(self.record)
        return Block(Picture(NoiseFigure(self.record)), Details("The numbers behind this figure", table))

    def every_load(self) -> Block:
        """Show the noise of each load recorded on these hosts, in this run and in others."""
        table = noise_by_load_table(self.data)
        return Block(table) if table.rows else note_block("No load has ten trials yet.")

    def summary(self) -> dict[str, Any]:
        """Return the headline and the rate of false alarms for the index page and the command line."""
        verdict = {"kind": "undecided", "glyph": "○", "word": "noise", "sentence": self.sentences[0]}
        doubts = len(sections.doubt_messages(self.data))
        return super().summary() | {"verdict": verdict, "sentences": self.sentences, "doubts": doubts}


def ability_table(found: NoiseRecord) -> Table:
    """Return a table by number of blocks: half-width of the interval, detectable difference, power for the margin."""
    heads = ("Blocks", "Half-width of the interval", "Found with 80 %", f"Power for {margin_text(found.margin)}")
    rows = [
        [str(a.blocks), *(format_percent(v, 1, False) for v in (a.half_width, a.detectable_effect)),
         format_percent(a.power, 0, False)]
        for a in found.precisions
    ]  # fmt: skip
    return Table("What blocks can do", [Column(head, True) for head in heads], rows)


def noise_page(study: str = "noise", run: str = "latest", metric: str = "") -> NoisePage:
    """Return the page on the noise of one run's hosts; parameters and errors as of `effects_page`."""
    return NoisePage(load_run_data(study, run), metric=metric)
