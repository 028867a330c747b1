"""Figure of the effects of two runs of one study, which shows whether an effect changed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from loadbook.analyses.compare_runs import compute
from loadbook.analyses.compare_runs.compute import EffectPair, RunComparison
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes, base, forest
from loadbook.report.figures.base import drawable, metric_label
from loadbook.report.figures.rows import Cell, Row
from loadbook.report.strips import CHECK, StripRow, effect_interval, rows_html
from loadbook.stats.text import confidence_text, margin_text

ROW_IN, APART_IN = 0.44, 0.085  # height of a row; distance of each interval from the row's middle
OLDER_PT, NEWER_PT = 2.8, 4.6
OLDER, NEWER = "older run", "newer run"


class RunComparisonFigure(base.ReportFigure):
    """One row per treatment: both runs' intervals, whether the effect changed, and by how much."""

    def __init__(self, result: RunComparison) -> None:
        self.result, self.metric_name, self.margin = result, result.newer.metric, result.margin
        self.change_head = f"moved by, % ({confidence_text(result.level)} interval)"
        self.metric_label = metric_label(get_metric(result.newer.metric), result.newer.statistic)
        self.margin_label = f"margin ±{margin_text(result.margin)}"

    @cached_property
    def scale(self) -> axes.RatioScale:
        """The axis, long enough for both runs' intervals; intervals much wider than the decided effects are cut."""
        sides = (side for pair in self.result.rows for side in pair.sides if side is not None)
        return forest.interval_scale(sides, self.margin)

    def _draw(self) -> base.Drawing:
        rows = [self._row(pair) for pair in self.result.rows]
        first_check = next((k for k, pair in enumerate(self.result.rows) if pair.row.kind != "treatment"), None)
        if first_check is not None:
            rows.insert(first_check, forest.CHECKS_TITLE)
        title = f"change in {self.metric_label} against the baseline of its run (ratio, log scale)"
        drawing = forest.draw_forest(
            rows, ("the effect", self.change_head), self.scale, title, margin=self.margin,
            band=(-self.margin, self.margin), margin_label=self.margin_label, metric=self.metric_name, key_in=0.25,
        )  # fmt: skip
        key = [
            Line2D([], [], **base.marker_props(style, 6.0), label=label)
            for label, style in (
                (OLDER, replace(palette.BASELINE, hollow=True)),
                (f"{NEWER}, colour: its verdict", palette.VERDICTS["undecided"]),
            )
        ]
        drawing.figure.legend(handles=key, loc="outside upper left", labelcolor=palette.SOFT, ncols=2)
        return drawing

    def _row(self, pair: EffectPair) -> Row:
        """Return the texts and marks of a row; the text of an effect that was not compared is the reason."""
        name = base.fold(drawable(pair.row.label, pair.row.treatment), forest.NAME_LETTERS)
        size, colour = (base.LETTER_PT, palette.INK) if pair.change else (base.SMALL_PT, palette.SOFT)
        change = _change_text(pair)
        change = change if pair.change else base.fold(change, forest.REASON_LETTERS, 3)
        cells = (
            Cell(pair.kind, bold=pair.kind == "changed", colour=colour),
            Cell(change, colour=colour, size=size),
        )
        label = Cell(name, bold=pair.row.kind == "treatment")
        return Row(label, cells, lambda panels, y: self._draw_marks(panels[0], y, pair), least_in=ROW_IN)

    def rows_html(self) -> Markup:
        """Return the rows as a list for narrow screens, each with the older run's interval in ink above the newer's."""
        rows, metric = [], get_metric(self.metric_name)
        for pair in self.result.rows:
            older, newer = (side and effect_interval(side, metric) for side in pair.sides)
            intervals = [one for one in (older and replace(older, kind=CHECK), newer) if one]
            name = drawable(pair.row.label, pair.row.treatment)
            rows.append(StripRow(name, pair.kind, _change_text(pair), CHECK, intervals))
        head = f"{self.change_head}; shaded: {self.margin_label}; black: {OLDER}; below it: {NEWER}"
        return rows_html(head, rows, self.scale)

    def _draw_marks(self, panel: Axes, y: float, pair: EffectPair) -> None:
        """Draw the older run's interval hollow and in ink; below it the newer run's in the colour of its verdict."""
        for side, at in ((pair.older, y - APART_IN), (pair.newer, y + APART_IN)):
            if side is None or side.verdict is None or not side.is_compared:
                continue
            style, is_older = palette.row_style(side), side is pair.older
            style = replace(style, fill=palette.INK, hollow=True) if is_older else replace(style, hollow=False)
            thick, comparison = OLDER_PT if is_older else NEWER_PT, side.verdict.comparison
            axes.draw_interval(panel, self.scale, at, side, comparison, tick=0.055, style=style, thick=thick)

    @property
    def caption(self) -> str:
        """One sentence on whether any effect changed."""
        return compute.headline(self.result)

    @property
    def help(self) -> str:
        """Instructions for reading the figure, limited to the marks that it contains."""
        level = self.result.level
        parts = [
            f"Above, hollow, in ink: the {OLDER}",
            f"below, in its verdict’s colour: the {NEWER}",
            f"thick line: the {confidence_text(level)} interval of one run’s effect",
        ]
        family = max((row.change.family_size for row in self.result.rows if row.change), default=1)
        if family > 1:
            parts.append("thin line: widened for all comparisons of its run")
        words = "the words come from the interval of the difference between the two effects"
        parts.append(words + (f", allowing for {family} comparisons" if family > 1 else ""))
        if any(row.kind == "agrees" for row in self.result.rows):
            parts.append(f"“agrees”: its {confidence_text(level, one_sided=True)} interval lies within the margin")
        margin = margin_text(self.result.margin)
        parts.append(f"shaded: differences below ±{margin}, declared as too small to matter")
        return "; ".join(parts) + "."

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every row in words."""
        rows = [
            f"{drawable(row.row.label, row.row.treatment)}{compute.effect_change_phrase(row, self.result.margin)}"
            for row in self.result.rows
        ]
        return f"Effect of each treatment on {self.metric_label} in two runs.", " ".join(rows)


def _change_text(pair: EffectPair) -> str:
    """Return how far an effect moved, with its interval, or the reason why that is not known."""
    if pair.change is None:
        return drawable(pair.reason or "", "")
    texts = compute.effect_change_texts(pair)
    return f"{texts.change} ({texts.interval})"
