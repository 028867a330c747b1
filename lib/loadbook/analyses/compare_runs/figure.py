"""Figure of the effects of two runs of one study, which shows whether an effect changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from markupsafe import Markup
from matplotlib.axes import Axes

from loadbook.analyses.compare_runs import compute
from loadbook.analyses.compare_runs.compute import EffectPair, RunComparison
from loadbook.analyses.effects.figure import EDGE_IN, HEAD_IN, Edges, FigureRow, RowsFigure, interval_scale
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import LETTER_PT, Sheet, drawable, metric_label, text_width, wrap
from loadbook.report.strips import CHECK, StripRow, effect_interval, rows_html
from loadbook.stats.text import confidence_text, margin_text

ROW_IN, APART_IN = 0.44, 0.085  # height of a row; distance of each interval from the row's middle
NAME_IN, REASON_IN, KEY_IN = 2.1, 2.2, 0.16
OLDER_PT, NEWER_PT = 2.8, 4.6
OLDER, NEWER = "older run", "newer run"


class RunComparisonFigure(RowsFigure):
    """One row per treatment: both runs' intervals, whether the effect changed, and by how much."""

    reference = "the baseline of its run"
    verdict_head = "the effect"
    top_in = HEAD_IN + KEY_IN

    def __init__(self, result: RunComparison) -> None:
        self.result, self.metric_name, self.margin = result, result.newer.metric, result.margin
        self.change_head = f"moved by, % ({confidence_text(result.level)} interval)"
        self.metric_label = metric_label(get_metric(result.newer.metric), result.newer.statistic)
        self.margin_label = f"margin ±{margin_text(result.margin)}"

    @cached_property
    def scale(self) -> axes.RatioScale:
        """The axis, long enough for both runs' intervals; intervals much wider than the decided effects are cut."""
        sides = (side for pair in self.result.rows for side in pair.sides if side is not None)
        return interval_scale(sides, self.margin)

    def figure_rows(self) -> list[FigureRow]:
        """Return the texts of all rows; the text of an effect that was not compared is the reason."""
        rows = []
        for pair in self.result.rows:
            is_check = pair.row.kind != "treatment"
            name = wrap(drawable(pair.row.label, pair.row.treatment), NAME_IN, LETTER_PT, not is_check)
            size, colour = (LETTER_PT, palette.INK) if pair.change else (LETTER_PT - 0.8, palette.SOFT)
            change = _change_text(pair)
            change = change if pair.change else wrap(change, REASON_IN, size, lines=3)
            height = ROW_IN + (0.13 if max(name.count("\n"), change.count("\n")) > 1 else 0.0)
            looks = (is_check, size, pair.kind == "changed", colour, colour)
            rows.append(FigureRow(name, pair.kind, change, height, *looks))
        return rows

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

    def draw_background(self, sheet: Sheet, panel: Axes, ticks: Sequence[float], bottom: float) -> None:
        """Draw the background of all rows and, above them, the key of the two runs' marks."""
        super().draw_background(sheet, panel, ticks, bottom)
        size, x = sheet.size - 0.6, EDGE_IN + 0.06
        for word, note, style in (
            (OLDER, "", replace(palette.BASELINE, hollow=True)),
            (NEWER, ", colour: its verdict", palette.VERDICTS["undecided"]),
        ):
            sheet.marker(x, 0.12, style)
            sheet.text(x + 0.1, 0.12, word + note, size=size, colour=palette.SOFT)
            x += text_width(word, size) + 0.36

    def draw_marks(self, sheet: Sheet, panel: Axes, number: int, y: float, edges: Edges) -> None:
        """Draw the older run's interval hollow and in ink; below it the newer run's in the colour of its verdict."""
        pair = self.result.rows[number]
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
