"""The page on the quality of a run's data: valid trials, stability of the hosts, causes of errors, noise."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from loadbook.core.units import format_duration, format_percent, pluralize
from loadbook.core.validity_rules import rule_title
from loadbook.report import checks, palette, sections
from loadbook.report.blocks import CHECK_SHORT_NAMES, CHECK_STATES, Block, answer_box, empty_section, note_block
from loadbook.report.nodes import DASH, Column, Details, Paragraph, Table
from loadbook.report.page import Page, load_run_data
from loadbook.stats.sequential import detectable_effect
from loadbook.store import trial_record

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.results import Analysis, AnalysisRow, RowKind

MIN_NOISE_TRIALS = 3


def block_residuals(values: pd.DataFrame) -> pd.DataFrame:
    """Return the valid trials with a value above 0, with the additional column `residual`.

    It is the log value minus the median of its treatment, then minus the median of these differences in its block.
    `values` has the columns `treatment`, `block`, `value` and `valid`.
    """
    valid = values[values["valid"] & (values["value"] > 0)].copy()
    logs = np.log(valid["value"])
    logs -= logs.groupby(valid["treatment"]).transform("median")
    valid["residual"] = logs - logs.groupby(valid["block"]).transform("median")
    return valid


def noise_sentence(analysis: Analysis) -> str:
    """Return a sentence on the smallest difference that the planned blocks detect with a probability of 80 %."""
    verdicts = [row.verdict for row in analysis.of_kind("treatment", "aa") if row.verdict]
    spreads = [sd_log for verdict in verdicts if (sd_log := verdict.comparison.sd_log)]
    blocks = analysis.planned_blocks
    if not spreads or blocks < 2:
        return "Too few valid trials to measure the noise."
    middle = sorted(spreads)[len(spreads) // 2]
    effect_text = format_percent(detectable_effect(blocks, middle), 1, signed=False)
    return (
        f"At this noise {blocks} blocks find a difference of {effect_text} with a probability of 80 % "
        f"(standard deviation of a block’s ratio: {format_percent(math.expm1(middle), 1, signed=False)})."
    )


class QualityPage(Page):
    """The page on whether a run's data can be trusted, made by `quality_page`."""

    notebook = "run_quality"
    explained_levels = ("invalid", "doubt", "unchecked", "note")

    @property
    def question(self) -> str:
        """The page's question, which is not that of the study."""
        return "Can the data of this run be trusted?"

    def answer(self) -> Block:
        """Show the number of valid trials, the harness checks, and the number of doubts."""
        number = sections.trial_counts(self.run_data)
        cells = checks.harness_checks(self.run_data, self.analysis, self.notes)
        aa_arm, control = (self._check_word(kind) for kind in CHECK_SHORT_NAMES)
        counts = f"{number['valid']} of {number['planned']} trials count"
        headline = f"{counts}; A/A arm {aa_arm}, control {control}."
        return Block(answer_box(headline), checks.check_strip(cells))

    def data(self) -> pd.DataFrame:
        """Return the numbers of trials: one row for those that count, and one per reason why others do not.

        `outcome` is "counts" or the reason, `share` the part of the `planned` trials (0 to 1). The other columns are
        the same in every row: those of the A/A arm begin with `aa_`; of several arms it is the worst. Change and
        bounds are ratios minus 1, NaN without an arm.
        """
        import pandas as pd

        number, arm = sections.trial_counts(self.run_data), self._worst_check("aa")
        outcomes = [("counts", number["valid"]), *sections.exclusion_counts(self.run_data)]
        frame = pd.DataFrame(outcomes, columns=["outcome", "trials"]).assign(planned=number["planned"])
        frame["share"] = frame["trials"] / number["planned"]
        compared = super().data()
        told = compared[compared["treatment"] == (arm.treatment if arm else None)].reset_index().reindex([0]).iloc[0]
        names = ("against", "change", "low", "high", "p", "method")
        columns = {"aa_arm": told["treatment"]} | {f"aa_{name}": told[name] for name in names}
        words = {"aa_check": self._check_word("aa"), "control_check": self._check_word("control")}
        return frame.assign(**columns, **words, **compared[["metric", "statistic", "measures"]].iloc[0])

    def _worst_check(self, kind: RowKind) -> AnalysisRow | None:
        """Return the worst A/A arm or positive control; None without one."""
        rows = self.analysis.of_kind(kind)
        return min(rows, key=lambda row: CHECK_STATES.index(row.check_state or "unchecked"), default=None)

    def _check_word(self, kind: RowKind) -> str:
        """Return the word of the worst A/A arm or positive control; "missing" without one."""
        worst = self._worst_check(kind)
        return palette.check_word(kind, worst.check_state) if worst else "missing"

    def noise(self) -> Block:
        """Show the detectable difference and, per treatment, the scatter over all trials and within blocks."""

        def text(scatter: float, logs: pd.Series) -> str:
            return format_percent(scatter, 1, signed=False) if len(logs) >= MIN_NOISE_TRIALS else DASH

        values, residuals, rows = self.values, block_residuals(self.values), []
        for name, own in ((name, values[values["treatment"] == name]) for name in self.labels):
            valid = own.loc[own["valid"], "value"].dropna()
            inside = residuals.loc[residuals["treatment"] == name, "residual"]
            cv = text(float(valid.std() / valid.mean()), valid) if valid.mean() > 0 else DASH
            cells = [f"{len(valid)} of {len(own)}", cv, text(math.expm1(float(inside.std())), inside)]
            rows += [[self.labels[name], *cells]] if len(own) else []
        heads = ("Valid trials", "Scatter of trials (CV)", "Scatter within blocks")
        table = Table("Noise", [Column("Treatment"), *(Column(head, True) for head in heads)], rows)
        return Block(Paragraph(noise_sentence(self.analysis)), table)

    def within(self) -> Block:
        """Show whether rates were steady within trials, and the rates without the warm-up."""
        text = checks.stationarity_note(self.run_data)
        if checks.STATIONARITY_METRIC not in set(self.run_data.samples["metric"]):
            return note_block(text)
        return Block(Paragraph(text), checks.stationarity_table(self.run_data, self.labels))

    def unread(self) -> Block:
        """Show every problem of reading or checking the data, with trial, host, file and line."""
        problems = self.run_data.problems
        if problems.empty:
            return empty_section("Everything was read, and no validity rule has a hit.")
        rows = []
        for p in sections.row_tuples(problems):
            place = " ".join(part for part in (p.host, p.file) if isinstance(part, str))
            place = (f"{place}:{p.line:.0f}" if p.line and p.line == p.line else place) or DASH
            trial = p.trial if isinstance(p.trial, str) else "whole run"
            rows.append([trial, p.level, rule_title(p.name), place, p.message])
        columns = [Column("Trial"), Column("Level"), Column("Gate"), Column("Where"), Column("What", wrap=True)]
        return Block(Details(pluralize(len(rows), "line"), Table("Problems", columns, rows)))

    def phases(self) -> Block:
        """Show the shortest, median and longest time of each phase over all recorded trials."""
        took: dict[str, list[float]] = {}
        for path in sorted(self.run_data.paths.trials.glob("*/trial.json")):
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
    """Return the page on the quality of one run's data; parameters and errors as of `effects_page`."""
    return QualityPage(load_run_data(study, run), metric=metric)
