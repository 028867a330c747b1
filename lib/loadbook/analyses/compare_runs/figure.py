"""Two runs of one study: whether an effect changed. The page's table above the figure lists what else changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes

from loadbook.analyses.compare_runs import text as wording
from loadbook.analyses.compare_runs.compute import EffectPair, RunComparison
from loadbook.analyses.effects.effect_rows import (
    CHECKS_IN,
    DECIDED,
    EDGE_IN,
    FOOT_IN,
    HEAD_IN,
    begin_checks,
    is_compared,
    write_directions,
    write_foot,
    write_heads,
)
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    LETTER_PT,
    WIDTH_IN,
    ReportFigure,
    Sheet,
    drawable,
    max_text_width,
    metric_label,
    text_width,
    wrap,
)
from loadbook.stats.text import confidence_text, margin_text

ROW_IN, APART_IN = 0.44, 0.085  # how far each interval lies from the middle of its row
NAME_IN, REASON_IN, KEY_IN = 2.1, 2.2, 0.16
TOP_IN = HEAD_IN + KEY_IN
OLDER_PT, NEWER_PT = 2.8, 4.6
OLDER, NEWER = "older run", "newer run"


@dataclass(frozen=True)
class RunPairLine:
    """One row: its name, word and number as they are drawn, and its height in inches."""

    row: EffectPair
    name: str
    word: str
    change: str
    height: float

    @property
    def is_check(self) -> bool:
        """Whether the row is a check of the laboratory."""
        return self.row.row.kind != "treatment"

    @property
    def change_pt(self) -> float:
        """The size of the change, or of the reason why there is none."""
        return LETTER_PT if self.row.change else LETTER_PT - 0.8


class RunComparisonFigure(ReportFigure):
    """One row per comparison: both runs' intervals, whether the effect changed, and by how much."""

    def __init__(self, result: RunComparison) -> None:
        self.result = result
        self.change_head = f"moved by, % ({confidence_text(result.level)} interval)"
        self.metric_label = metric_label(get_metric(result.newer.metric), result.newer.statistic)

    def _draw(self) -> Sheet:
        lines = [_line(row) for row in self.result.rows]
        height = TOP_IN + sum(line.height for line in lines) + CHECKS_IN * any(line.is_check for line in lines)
        sheet = Sheet(height + FOOT_IN)
        left, right = self._edges(lines)
        scale, margin = self._scale(), self.result.margin
        panel = sheet.rows_panel(left, TOP_IN, right, height)
        ticks = axes.set_ratio_axis(panel, scale, right - left, sheet.size, margin)
        axes.draw_ratio_background(panel, margin, ticks, TOP_IN, height)
        _write_key(sheet)
        zero = scale.to_inches(0.0, left, right)
        metric = self.result.newer.metric
        write_directions(sheet, metric, f"margin ±{margin_text(margin)}", zero, (left, right), KEY_IN)
        write_heads(sheet, right, TOP_IN - 0.1, "the effect", self.change_head)
        y = TOP_IN
        for number, line in enumerate(lines):
            if line.is_check and not (number and lines[number - 1].is_check):
                y += CHECKS_IN
                begin_checks(sheet, y)
            middle, colour = y + line.height / 2, palette.INK if line.row.change else palette.SOFT
            _draw_intervals(panel, scale, middle, line.row)
            sheet.text(left - 0.14, middle, line.name, bold=not line.is_check, align="right")
            sheet.text(right + 0.12, middle, line.word, bold=line.word == "changed", colour=colour)
            sheet.text(WIDTH_IN - EDGE_IN, middle, line.change, size=line.change_pt, align="right", colour=colour)
            y += line.height
        title = f"change in {self.metric_label} against the baseline of its run (ratio, log scale)"
        write_foot(sheet, title, (left, right))
        return sheet

    def _edges(self, lines: Sequence[RunPairLine]) -> tuple[float, float]:
        """Return where the plot begins and ends in inches: between the names and the words."""
        names = max((max_text_width([line.name], LETTER_PT, not line.is_check) for line in lines), default=1.0)
        changes = [max_text_width([line.change], line.change_pt) for line in lines]
        words = max([text_width(line.word, LETTER_PT, True) for line in lines] + [0.6]) + 0.2
        columns = words + max([*changes, text_width(self.change_head, LETTER_PT - 0.6)])
        return max(names, 1.0) + 0.22, WIDTH_IN - EDGE_IN - columns - 0.12

    def _scale(self) -> axes.RatioScale:
        """Return the axis that holds both runs' intervals, unless one is far wider than the decided effects."""
        sides = [side for row in self.result.rows for side in row.sides if side is not None and is_compared(side)]
        verdicts = [(side, side.verdict) for side in sides if side.verdict]
        intervals = [bounds for _, v in verdicts if (bounds := v.comparison.ci_family or v.comparison.ci95)]
        decided = [v.comparison.effect or 0.0 for side, v in verdicts if side.kind != "treatment" or v.kind in DECIDED]
        return axes.ratio_scale(intervals, [], decided, self.result.margin)

    @property
    def caption(self) -> str:
        """Whether any effect changed, in one sentence."""
        return wording.headline(self.result)

    @property
    def help(self) -> str:
        """How the figure is read, naming only the marks that it has."""
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
    def alt_text(self) -> str:
        """The caption and every row in words."""
        rows = [
            f"{drawable(row.row.label, row.row.treatment)}{wording.effect_change_phrase(row, self.result.margin)}"
            for row in self.result.rows
        ]
        return " ".join([f"Effect of each treatment on {self.metric_label} in two runs.", self.caption, *rows])


def _line(row: EffectPair) -> RunPairLine:
    name = wrap(drawable(row.row.label, row.row.treatment), NAME_IN, LETTER_PT, row.row.kind == "treatment")
    if row.change is None:
        change = wrap(drawable(row.reason or "", ""), REASON_IN, LETTER_PT - 0.8, lines=3)
    else:
        texts = wording.effect_change_texts(row)
        change = f"{texts.change} ({texts.interval})"
    is_tall = max(name.count("\n"), change.count("\n")) > 1
    return RunPairLine(row, name, row.kind, change, ROW_IN + (0.13 if is_tall else 0.0))


def _write_key(sheet: Sheet) -> None:
    """Write which mark is which run."""
    size, x = sheet.size - 0.6, EDGE_IN + 0.06
    for word, note, style in (
        (OLDER, "", replace(palette.BASELINE, hollow=True)),
        (NEWER, ", colour: its verdict", palette.VERDICTS["undecided"]),
    ):
        sheet.marker(x, 0.12, style)
        sheet.text(x + 0.1, 0.12, word + note, size=size, colour=palette.SOFT)
        x += text_width(word, size) + 0.36


def _draw_intervals(panel: Axes, scale: axes.RatioScale, middle: float, row: EffectPair) -> None:
    """Draw the older interval above, hollow and in ink, the newer one below it in its verdict's colour."""
    for side, y in ((row.older, middle - APART_IN), (row.newer, middle + APART_IN)):
        if side is None or side.verdict is None or not is_compared(side):
            continue
        style, is_older = palette.row_style(side), side is row.older
        style = replace(style, fill=palette.INK, hollow=True) if is_older else replace(style, hollow=False)
        thick = OLDER_PT if is_older else NEWER_PT
        axes.draw_interval(panel, scale, y, side, side.verdict.comparison, tick=0.055, style=style, thick=thick)
