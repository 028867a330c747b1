"""Figure of errors per trial: which treatments have errors, in how many trials, and whether the driver caused them."""

from __future__ import annotations

from math import log
from typing import Self

import pandas as pd

from loadbook.core.units import pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.report.figures.rows import Cell, Row, write_above
from loadbook.report.figures.zero_lane import block_places, draw_lanes, draw_trials
from loadbook.stats.error_text import ERROR_CLASS_NOUNS
from loadbook.stats.results import Analysis, AnalysisRow, ErrorSummary
from loadbook.store.tables import RunData

PER, LIMIT_PER = 100_000.0, 100.0  # unit: errors per 100,000 requests; above the limit, rates count ok responses only
DRIVER_CLASS = "errors_driver"
NAME_LETTERS, SUMMARY_LETTERS, NOTE_LETTERS = 24, 40, 30
HEAD, TITLE = "trials with errors; classes", "errors per 100,000 requests (log scale; zero apart)"
LIMIT_NOTE = "beyond 0.1\u00a0%: the rate counts ok responses only"
_STYLES = {
    "more": palette.VERDICTS["worse"], "fewer": palette.VERDICTS["better"], "undecided": palette.VERDICTS["undecided"],
}  # fmt: skip


class ErrorsFigure(base.ReportFigure):
    """One strip per treatment: trials without errors in a separate lane at the left, the others on a log axis.

    `errors` and `requests` are `RunData.values` of these metrics.
    """

    def __init__(self, analysis: Analysis, errors: pd.DataFrame, requests: pd.DataFrame) -> None:
        self.analysis, self.errors = analysis, errors
        self.names, self.rows = base.treatment_names(analysis), base.rows_in_reading_order(analysis)
        trials = errors.merge(requests[["trial", "value"]], on="trial", how="left", suffixes=("", "_requests"))
        trials = trials[trials["value"].notna()]
        # of trials with an error count, `value` is errors per 100,000 requests
        rate = PER * trials["value"] / trials["value_requests"].clip(lower=1).fillna(1)
        self.trials = trials.assign(value=rate.clip(upper=PER), place=block_places(trials["block"]))

    @classmethod
    def from_run(cls, run: RunData, analysis: Analysis) -> Self:
        """Return the figure of a run."""
        return cls(analysis, run.values("errors"), run.values("requests"))

    @staticmethod
    def has_data(analysis: Analysis) -> bool:
        """Return whether any trial had an error; otherwise pages have a sentence instead of the figure."""
        return any(row.errors.errors or row.errors.trials_with_errors for row in analysis.rows)

    def _draw(self) -> base.Drawing:
        rates = self.trials.loc[self.trials["value"] > 0, "value"]
        low, high = min([*rates, LIMIT_PER]) / 2, max([*rates, LIMIT_PER]) * 2
        rows = [self._row(row) for row in self.rows]
        drawing = draw_lanes(rows, HEAD, TITLE, (low, high), self.trials["block"].nunique())
        axis = drawing.panels[1]
        axis.axvline(LIMIT_PER, color=palette.DOUBT, linewidth=1.2, linestyle=axes.DASHED, zorder=-1)
        at = log(LIMIT_PER / low) / log(high / low)
        align = "left" if at < 0.5 else "right"
        write_above(axis, at, base.fold(LIMIT_NOTE, NOTE_LETTERS), color=palette.DOUBT_TEXT, ha=align)
        return drawing

    def _row(self, row: AnalysisRow) -> Row:
        kind, style = row.errors.kind, _STYLES.get(row.errors.kind, palette.BASELINE)
        own = self.trials[self.trials["treatment"] == row.treatment]
        colour = palette.DOUBT_TEXT if row.errors.by_class.get(DRIVER_CLASS) else style.text
        text = f"{row.errors.trials_with_errors} of {row.errors.trials}"
        if kind in _STYLES:
            word = kind if kind == "undecided" else f"{kind} errors"
            text = f"{style.glyph} {word}: {text}"
        text = "; ".join(filter(None, [text, ", ".join(_class_counts(row.errors))]))
        summary = Cell(base.fold(text, SUMMARY_LETTERS), colour=colour, size=base.SMALL_PT)
        name = Cell(base.fold(self.names[row.treatment], NAME_LETTERS, 3), bold=row.kind == "treatment")
        return Row(name, (summary,), lambda panels, y: draw_trials(panels, y, own, style))

    @property
    def caption(self) -> str:
        """One sentence on the treatments that have more errors than the baseline, and in how many trials."""
        rows = [(r, f"{r.errors.trials_with_errors} of {r.errors.trials} trials") for r in self.analysis.rows]
        more = [f"{self.names[r.treatment]} ({share})" for r, share in rows if r.errors.kind == "more"]
        if more:
            verb = "has" if len(more) == 1 else "have"
            return f"{base.join_first(more, 3, 'treatments')} {verb} more errors than the baseline."
        failing = [f"{self.names[r.treatment]} in {share}" for r, share in rows if r.errors.trials_with_errors]
        if not failing:
            return f"No errors in any of {pluralize(sum(r.errors.trials for r in self.analysis.rows), 'trial')}."
        treatments = base.join_first(failing, 3, "treatments")
        return f"Errors occurred: {treatments}; none is shown to have more than the baseline."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        text = "One dot is one trial: in the grey lane without errors, elsewhere at its share of errors."
        text += " Colour: the verdict on errors, compared by trials and not by requests."
        if any(r.errors.by_class.get(DRIVER_CLASS) for r in self.analysis.rows):
            text += " Amber words: failures at the driver’s own limits, no fault of the server."
        return text + (" ✕: not counted." if not self.errors["valid"].all() else "")

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and each treatment's errors in words."""
        rows = []
        for row in self.rows:
            classes = f" ({', '.join(_class_counts(row.errors))})" if _class_counts(row.errors) else ""
            trials = f"{row.errors.trials_with_errors} of {row.errors.trials} trials with errors"
            rows.append(f"{self.names[row.treatment]}: {trials}{classes}")
        return "Errors per trial.", f"{'. '.join(rows)}."


def _class_counts(errors: ErrorSummary) -> list[str]:
    classes = sorted(errors.by_class.items(), key=lambda item: -item[1])
    return [f"{n:,} {ERROR_CLASS_NOUNS.get(c, (c, c))[n != 1]}" for c, n in classes if n]
