"""Figure of errors per trial: which treatments have errors, in how many trials, and whether the driver caused them."""

from __future__ import annotations

from typing import Self

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from loadbook.core.units import pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.stats.error_text import ERROR_CLASS_NOUNS
from loadbook.stats.results import Analysis, AnalysisRow, ErrorSummary
from loadbook.store.tables import RunData

PER, LIMIT_PER = 100_000.0, 100.0  # unit: errors per 100,000 requests; above the limit, rates count ok responses only
DRIVER_CLASS = "errors_driver"
HEAD_IN, FOOT_IN, ROW_IN, NAME_IN, SUMMARY_IN = 0.4, 0.62, 0.32, 2.0, 2.6
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
        self.trials = _error_rates(errors, requests)

    @classmethod
    def from_run(cls, run: RunData, analysis: Analysis) -> Self:
        """Return the figure of a run."""
        return cls(analysis, run.values("errors"), run.values("requests"))

    @staticmethod
    def has_data(analysis: Analysis) -> bool:
        """Return whether any trial had an error; otherwise pages have a sentence instead of the figure."""
        return any(row.errors.errors or row.errors.trials_with_errors for row in analysis.rows)

    def _draw(self) -> base.Sheet:
        size = base.LETTER_PT - 0.6
        names = [base.wrap(self.names[r.treatment], NAME_IN, base.LETTER_PT, True) for r in self.rows]
        summaries = [base.wrap(_summary_text(r.errors), SUMMARY_IN, size) for r in self.rows]
        heights = [ROW_IN + 0.09 * ("\n" in n or "\n" in s) for n, s in zip(names, summaries, strict=True)]
        sheet = base.Sheet(HEAD_IN + sum(heights) + FOOT_IN)
        left = max(base.max_text_width(names, base.LETTER_PT, True), 0.9) + 0.2
        zero_right = left + min(max(0.075 * self.trials["block"].nunique(), 0.7), 1.3)
        right = base.WIDTH_IN - max(base.max_text_width(summaries, size), 1.75) - 0.25
        zero = sheet.rows_panel(left, HEAD_IN, zero_right, sheet.height - FOOT_IN)
        axis = sheet.rows_panel(zero_right + 0.12, HEAD_IN, right, sheet.height - FOOT_IN)
        limits = self._set_axes(sheet, zero, axis, (left, zero_right + 0.12, right))
        top = HEAD_IN
        for row, name, summary, height in zip(self.rows, names, summaries, heights, strict=True):
            middle, bold = top + height / 2, row.kind == "treatment"
            zero.add_patch(Rectangle((-0.06, top), 1.12, height, facecolor=palette.BLOCK_TINT, linewidth=0, zorder=-3))
            axis.plot([np.log(LIMIT_PER)] * 2, [top, top + height], color=palette.DOUBT, linewidth=1.2,
                      linestyle=axes.DASHED, zorder=-1)  # fmt: skip
            self._draw_trials(zero, axis, row, middle, limits)
            if not bold:
                name = base.wrap(self.names[row.treatment], NAME_IN, sheet.size)
            sheet.text(left - 0.12, middle, name, bold=bold, align="right")
            at_fault = row.errors.by_class.get(DRIVER_CLASS)
            colour = palette.DOUBT_TEXT if at_fault else _STYLES.get(row.errors.kind, palette.BASELINE).text
            sheet.text(right + 0.15, middle, summary, size=size, colour=colour)
            if row is not self.rows[-1]:
                sheet.rule(0.05, sheet.width - 0.05, top + height, palette.GRID, 0.6)
            top += height
        return sheet

    def _set_axes(
        self, sheet: base.Sheet, zero: Axes, axis: Axes, places: tuple[float, float, float]
    ) -> tuple[float, float]:
        """Set up both panels and return the limits of the log axis (errors per 100,000 requests)."""
        left, axis_left, right = places
        rates = self.trials.loc[self.trials["rate"] > 0, "rate"]
        low, high = min([*rates, LIMIT_PER]) / 2, max([*rates, LIMIT_PER]) * 2
        zero.set_xlim(-0.06, 1.06)
        axes.set_ticks(zero.xaxis, [0.5], ["0"])
        width, size = right - axis_left, sheet.size - 0.8
        axes.set_value_x_axis(axis, (low, high), axes.AxisUnit(1.0, ""), width, sheet.size)
        limit = base.wrap("beyond 0.1\u00a0%: the rate counts ok responses only", width + 0.6, size)
        half = base.max_text_width([limit], size) / 2
        x = axis_left + width * np.log(LIMIT_PER / low) / np.log(high / low)
        x = min(max(x, left + half), right + 0.15 - half - 0.1)
        sheet.text(x, HEAD_IN - 0.06, limit, size=size, colour=palette.DOUBT_TEXT, align="center", va="bottom")
        title = base.wrap("errors per 100,000 requests (log scale; zero apart)", right - left + 0.5, sheet.size)
        head = "trials with errors; classes"
        sheet.text(right + 0.15, HEAD_IN - 0.06, head, size=size, colour=palette.SOFT, va="bottom")
        y = sheet.height - FOOT_IN + 0.28
        sheet.text((left + right) / 2, y, title, colour=palette.SOFT, align="center", va="top")
        return low, high

    def _draw_trials(self, zero: Axes, axis: Axes, row: AnalysisRow, y: float, limits: tuple[float, float]) -> None:
        """Draw one dot per trial: in the lane of zeros side by side, on the log axis higher or lower by block."""
        style = _STYLES.get(row.errors.kind, palette.BASELINE)
        own = self.trials[self.trials["treatment"] == row.treatment]
        for valid in (True, False):
            props = base.marker_props(style, 4.0) if valid else base.cross_props(4.5, 1.2)
            clean = own[(own["rate"] == 0) & (own["valid"] == valid)]
            failing = own[(own["rate"] > 0) & (own["valid"] == valid)]
            zero.plot(clean["place"], [y] * len(clean), **props)
            axis.plot(np.log(failing["rate"].clip(*limits)), y + 0.2 * (failing["place"] - 0.5), **props)

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
        """The subject, and in words: each treatment's errors in words."""
        rows = []
        for row in self.rows:
            classes = f" ({', '.join(_class_counts(row.errors))})" if _class_counts(row.errors) else ""
            trials = f"{row.errors.trials_with_errors} of {row.errors.trials} trials with errors"
            rows.append(f"{self.names[row.treatment]}: {trials}{classes}")
        return "Errors per trial.", f"{'. '.join(rows)}."


def _error_rates(errors: pd.DataFrame, requests: pd.DataFrame) -> pd.DataFrame:
    """Return trials with an error count, their `rate` (errors per 100,000 requests) and `place` (rank of the block)."""
    trials = errors.merge(requests[["trial", "value"]], on="trial", how="left", suffixes=("", "_requests"))
    trials = trials[trials["value"].notna()]
    rate = PER * trials["value"] / trials["value_requests"].clip(lower=1).fillna(1)
    rank = trials["block"].rank(method="dense") - 0.5
    return trials.assign(rate=rate.clip(upper=PER), place=rank / max(1.0, rank.max() + 0.5))


def _summary_text(errors: ErrorSummary) -> str:
    """Return the text of a row: verdict on errors, number of trials with errors, errors by class."""
    text = f"{errors.trials_with_errors} of {errors.trials}"
    if errors.kind in _STYLES:
        word = errors.kind if errors.kind == "undecided" else f"{errors.kind} errors"
        text = f"{_STYLES[errors.kind].glyph} {word}: {text}"
    return "; ".join(filter(None, [text, ", ".join(_class_counts(errors))]))


def _class_counts(errors: ErrorSummary) -> list[str]:
    classes = sorted(errors.by_class.items(), key=lambda item: -item[1])
    return [f"{n:,} {ERROR_CLASS_NOUNS.get(c, (c, c))[n != 1]}" for c, n in classes if n]
