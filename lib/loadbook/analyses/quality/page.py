"""The page on the quality of a run's data: valid trials, stability of the hosts, causes of errors, noise."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadbook.core.units import format_duration, format_percent
from loadbook.core.validity_rules import rule_title
from loadbook.report import checks, sections
from loadbook.report.blocks import Block, answer_box, empty_section, note_block
from loadbook.report.nodes import DASH, Column, Details, Paragraph, Table
from loadbook.report.page import Page, load_run_data
from loadbook.stats.sequential import detectable_effect
from loadbook.store import trial_record

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import Analysis

MIN_NOISE_TRIALS = 3


def noise_table(values: pd.DataFrame, labels: Mapping[str, str]) -> Table:
    """Return per treatment: valid trials, coefficient of variation, and that which blocks do not explain."""
    rows = []
    residual_rows = block_residuals(values)
    ran = set(values["treatment"])
    for name in filter(ran.__contains__, labels):
        own = values[values["treatment"] == name]
        valid = own.loc[own["valid"], "value"].dropna()
        inside = residual_rows.loc[residual_rows["treatment"] == name, "residual"]
        rows.append([labels[name], f"{len(valid)} of {len(own)}", _cv_text(valid), _sd_text(inside)])
    columns = [
        Column("Treatment"), Column("Valid trials", True), Column("Scatter of trials (CV)", True),
        Column("Scatter within blocks", True),
    ]  # fmt: skip
    return Table("Noise", columns, rows)


def block_residuals(values: pd.DataFrame) -> pd.DataFrame:
    """Return log values of valid trials less their treatment's median and their block's median (`residual`)."""
    import numpy as np

    valid = values[values["valid"] & (values["value"] > 0)].copy()
    logs = np.log(valid["value"])
    logs -= logs.groupby(valid["treatment"]).transform("median")
    valid["residual"] = logs - logs.groupby(valid["block"]).transform("median")
    return valid


def noise_sentence(values: pd.DataFrame, analysis: Analysis) -> str:
    """Return the smallest difference that this run's blocks find with a probability of 80 %."""
    verdicts = [row.verdict for row in analysis.of_kind("treatment", "aa") if row.verdict]
    spreads = [sd_log for verdict in verdicts if (sd_log := verdict.comparison.sd_log)]
    blocks = analysis.planned_blocks
    if not spreads or blocks < 2:
        return "Too few valid trials to measure the noise."
    middle = sorted(spreads)[len(spreads) // 2]
    found = format_percent(detectable_effect(blocks, middle), 1, signed=False)
    return (
        f"At this noise {blocks} blocks find a difference of {found} with a probability of 80 % "
        f"(standard deviation of a block’s ratio: {format_percent(math.expm1(middle), 1, signed=False)})."
    )


def _cv_text(values: pd.Series) -> str:
    enough = len(values) >= MIN_NOISE_TRIALS and values.mean() > 0
    return format_percent(float(values.std() / values.mean()), 1, signed=False) if enough else DASH


def _sd_text(logs: pd.Series) -> str:
    return format_percent(math.expm1(float(logs.std())), 1, signed=False) if len(logs) >= MIN_NOISE_TRIALS else DASH


class QualityPage(Page):
    """Can the data of a run be trusted? See `quality_page`."""

    notebook = "run_quality"
    explained_levels = ("invalid", "doubt", "unchecked", "note")

    @property
    def question(self) -> str:
        """The page's question, independent of the study's."""
        return "Can the data of this run be trusted?"

    def answer(self) -> Block:
        """Show the number of valid trials, the harness checks, and the number of doubts."""
        number, cells = sections.trial_counts(self.data), checks.harness_checks(self.data, self.analysis, self.notes)
        words = {"✓": "passed", "✕": "failed", "!": "not judged"}
        aa_arm, control = (words[cell.glyph] for cell in cells[:2])
        counts = f"{number['valid']} of {number['planned']} trials count"
        headline = f"{counts}; A/A arm {aa_arm}, control {control}."
        return Block(answer_box(headline), checks.check_strip(cells))

    def noise(self) -> Block:
        """Show, per treatment, the scatter of its trials and the detectable difference by blocks."""
        text = noise_sentence(self.values, self.analysis)
        return Block(Paragraph(text), noise_table(self.values, self.labels))

    def within(self) -> Block:
        """Show whether rates were steady within trials, and the settled rates without the warm-up."""
        text = checks.stationarity_note(self.data)
        if checks.STATIONARITY_METRIC not in set(self.data.samples["metric"]):
            return note_block(text)
        return Block(Paragraph(text), checks.stationarity_table(self.data, self.labels))

    def unread(self) -> Block:
        """Show every problem with its place: trial, host, file and line."""
        problems = self.data.problems
        if problems.empty:
            return empty_section("Everything was read, and no validity rule has a hit.")
        rows = []
        for p in sections.row_tuples(problems):
            place = " ".join(part for part in (p.host, p.file) if isinstance(part, str))
            place = (f"{place}:{p.line:.0f}" if p.line and p.line == p.line else place) or DASH
            trial = p.trial if isinstance(p.trial, str) else "whole run"
            rows.append([trial, p.level, rule_title(p.name), place, p.message])
        columns = [Column("Trial"), Column("Level"), Column("Gate"), Column("Where"), Column("What", wrap=True)]
        return Block(Details(f"{len(rows)} lines", Table("Problems", columns, rows)))

    def phases(self) -> Block:
        """Show the shortest, median and longest time of each phase over all recorded trials."""
        took: dict[str, list[float]] = {}
        for path in sorted(self.data.paths.trials.glob("*/trial.json")):
            for phase, time_s in trial_record.read_trial(path.parent).phases_s.items():
                took.setdefault(phase, []).append(time_s)
        if not took:
            return empty_section("No trial recorded its phases.")
        rows = [
            [phase.replace("_", " "), str(len(t)), *map(format_duration, (min(t), sorted(t)[len(t) // 2], max(t)))]
            for phase, t in took.items()
        ]
        heads = ("Trials", "Shortest", "Median", "Longest")
        return Block(Table("Phases of a trial", [Column("Phase"), *(Column(h, True) for h in heads)], rows))


def quality_page(study: str, run: str = "latest", metric: str = "") -> QualityPage:
    """Return the page on one run's data; see `effects_page` for parameters and errors."""
    return QualityPage(load_run_data(study, run), metric=metric)
