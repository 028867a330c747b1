"""Figure 12, two runs of one study.

In five seconds: did the conclusion change? What else changed with it stands above the figure, in the page's table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.compare_runs import text as wording
from loadbook.analyses.compare_runs.compute import EffectPair, RunComparison
from loadbook.analyses.effects import forest
from loadbook.analyses.effects.effect_rows import DECIDED, compared
from loadbook.analyses.effects.forest import CHECKS_IN, EDGE_IN, FOOT_IN, HEAD_IN
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.axes import draw_interval
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    drawable,
    in_house_style,
    line_in,
    quantity,
    size_pt,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.results import AnalysisRow
from loadbook.stats.text import confidence_text, margin_text

ROW_IN, LANE_IN, BESIDE_IN = 0.44, 0.34, 0.085  # BESIDE: how far each interval lies from the middle of its row
NAME_IN, REASON_IN, KEY_IN = 2.1, 2.2, 0.16
OLDER_PT, NEWER_PT = 2.8, 4.6
OLDER = "older run"
NEWER = "newer run"


@dataclass(frozen=True)
class Line:
    """One row: its name, word and number as they are drawn, and its height in inches."""

    row: EffectPair
    name: str
    word: str
    moved: str
    height: float

    @property
    def check(self) -> bool:
        """Whether the row is a check of the laboratory."""
        return self.row.row.kind != "treatment"


@in_house_style
def draw(found: RunComparison, narrow: bool = False) -> Figure:
    """Draw one row per comparison: both intervals, whether it changed, and by how much it moved."""
    lines = [(_narrow_line if narrow else _wide_line)(row) for row in found.rows]
    height = HEAD_IN + KEY_IN + sum(line.height for line in lines)
    height += CHECKS_IN * any(line.check for line in lines) + FOOT_IN
    sheet = Sheet(narrow, height)
    left, right = _edges(lines, sheet)
    scale, top = _scale(found), HEAD_IN + KEY_IN
    panel = sheet.panel(left, top, right, height - FOOT_IN)
    panel.set_ylim(height - FOOT_IN, top)
    panel.set_yticks([])
    ticks = axes.ratio_axis(panel, scale, right - left, sheet.size, found.margin)
    if not narrow:
        axes.ratio_ground(panel, found.margin, ticks, top, height - FOOT_IN)
    _head(sheet, found, scale, (left, right))
    _draw_lines(sheet, panel, scale, found, ticks, lines, (left, right))
    title = f"change in {quantity(get_metric(found.newer.metric), found.newer.statistic)} against the baseline "
    forest.foot(sheet, title + "of its run (ratio, log scale)", (left, right))
    return sheet.figure


def _wide_line(row: EffectPair) -> Line:
    size, bold = size_pt(False), row.row.kind == "treatment"
    name, moved = wrap(_name(row), NAME_IN, size, bold), _moved(row)
    moved = moved if row.change else wrap(moved, REASON_IN, size - 0.8, lines=3)
    most = max(name.count("\n"), moved.count("\n"))
    return Line(row, name, row.kind, moved, ROW_IN + (0.13 if most > 1 else 0.0))


def _narrow_line(row: EffectPair) -> Line:
    size, bold, room = size_pt(True), row.row.kind == "treatment", NARROW_IN - 0.16
    name = wrap(_name(row), room, size, bold)
    moved = _moved(row) if row.change else wrap(_moved(row), room, size - 0.6, lines=3)
    texts = line_in(size, name.count("\n") + 1) + line_in(size, moved.count("\n") + 1)
    return Line(row, name, row.kind, moved, texts + (LANE_IN if _sides(row) else 0.0) + 0.14)


def _name(row: EffectPair) -> str:
    return drawable(row.row.label, row.row.treatment)


def _moved(row: EffectPair) -> str:
    if row.change is None:
        return drawable(row.reason or "", "")
    texts = wording.effect_change_texts(row)
    return f"{texts.change} ({texts.interval})"


def _edges(lines: Sequence[Line], sheet: Sheet) -> tuple[float, float]:
    if sheet.narrow:
        return 0.08, NARROW_IN - 0.08
    names = max((widest([line.name], sheet.size, not line.check) for line in lines), default=1.0)
    return max(names, 1.0) + 0.22, WIDE_IN - EDGE_IN - sum(_columns(lines, sheet.size)) - 0.12


def _columns(lines: Sequence[Line], size: float) -> tuple[float, float]:
    """Return the widths of the words and of the numbers, each with its head."""
    numbers = [widest([line.moved], size if line.row.change else size - 0.8) for line in lines]
    return (
        max([text_width(line.word, size, True) for line in lines] + [0.6]) + 0.2,
        max([*numbers, text_width(_moved_head(0.95), size - 0.6)]),
    )


def _moved_head(level: float) -> str:
    return f"moved by, % ({confidence_text(level)} interval)"


def _scale(found: RunComparison) -> axes.RatioScale:
    """Return the axis that holds both runs' intervals, unless one is far wider than what was decided."""
    shown = [(side, side.verdict) for row in found.rows for side in _sides(row) if side.verdict]
    intervals = [bounds for _, v in shown if (bounds := v.comparison.ci_family or v.comparison.ci95)]
    decided = [v.comparison.effect or 0.0 for side, v in shown if side.kind != "treatment" or v.kind in DECIDED]
    return axes.ratio_scale(intervals, [], decided, found.margin)


def _sides(row: EffectPair) -> list[AnalysisRow]:
    """Return the rows of the runs that have an effect which may be shown."""
    return [side for side in row.sides if side is not None and compared(side)]


def _head(sheet: Sheet, found: RunComparison, scale: axes.RatioScale, edges: tuple[float, float]) -> None:
    """Write which mark is which run, and the words above the axis and the columns."""
    size = sheet.size - 0.6
    at = EDGE_IN + 0.06
    for word, style in ((OLDER, replace(palette.BASELINE, hollow=True)), (NEWER, palette.VERDICTS["undecided"])):
        sheet.mark(at, 0.12, style)
        sheet.text(at + 0.1, 0.12, f"{word}" + (", colour: its verdict" if word is NEWER else ""), size=size,
                   colour=palette.SOFT)  # fmt: skip
        at += text_width(word, size) + 0.36
    zero = scale.inch(0.0, *edges)
    forest.above_axis(sheet, found.newer.metric, f"margin ±{margin_text(found.margin)}", zero, edges, KEY_IN)
    if not sheet.narrow:
        y = HEAD_IN + KEY_IN - 0.1
        sheet.text(edges[1] + 0.12, y, "the effect", size=size, colour=palette.SOFT, va="baseline")
        head = _moved_head(found.level)
        sheet.text(WIDE_IN - EDGE_IN, y, head, size=size, colour=palette.SOFT, at="right", va="baseline")


def _draw_lines(
    sheet: Sheet, panel: Axes, scale: axes.RatioScale, found: RunComparison, ticks: list[float],
    lines: Sequence[Line], edges: tuple[float, float],
) -> None:  # fmt: skip
    y, checks_begun = HEAD_IN + KEY_IN, False
    for line in lines:
        if line.check and not checks_begun:
            checks_begun = True
            y += CHECKS_IN
            forest.begin_checks(sheet, y)
        lane = y + line.height - LANE_IN / 2 - 0.06 if sheet.narrow else y + line.height / 2
        if sheet.narrow and _sides(line.row):
            axes.ratio_ground(panel, found.margin, ticks, lane - LANE_IN / 2, lane + LANE_IN / 2)
        _intervals(panel, scale, lane, line.row)
        (_narrow_texts if sheet.narrow else _wide_texts)(sheet, line, y, edges)
        y += line.height


def _intervals(panel: Axes, scale: axes.RatioScale, lane: float, row: EffectPair) -> None:
    """Draw the older interval above, hollow and in ink, the newer one below it in its verdict's colour."""
    for side, place in ((row.older, lane - BESIDE_IN), (row.newer, lane + BESIDE_IN)):
        if side is None or side.verdict is None or not compared(side):
            continue
        style, old = palette.row_style(side), side is row.older
        style = replace(style, fill=palette.INK, hollow=True) if old else replace(style, hollow=False)
        thick = OLDER_PT if old else NEWER_PT
        draw_interval(panel, scale, place, side, side.verdict.comparison, tick=0.055, style=style, thick=thick)


def _wide_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    middle, moved = y + line.height / 2, line.row.change is not None
    sheet.text(edges[0] - 0.14, middle, line.name, bold=not line.check, at="right")
    colour = palette.INK if moved else palette.SOFT
    sheet.text(edges[1] + 0.12, middle, line.word, bold=line.word == "changed", colour=colour)
    size = sheet.size if moved else sheet.size - 0.8
    sheet.text(WIDE_IN - EDGE_IN, middle, line.moved, size=size, at="right", colour=colour)


def _narrow_texts(sheet: Sheet, line: Line, y: float, edges: tuple[float, float]) -> None:
    moved, below = line.row.change is not None, y + 0.04 + line_in(sheet.size, line.name.count("\n") + 1)
    sheet.text(edges[0], y + 0.04, line.name, bold=not line.check, va="top")
    if moved:
        word = sheet.text(edges[0], below, line.word, bold=line.word == "changed", va="top").get_text()
        at = edges[0] + text_width(word, sheet.size, line.word == "changed") + 0.1
        sheet.text(at, below, f"{line.moved}{chr(160)}%", va="top")
    else:
        sheet.text(edges[0], below, line.moved, size=sheet.size - 0.6, italic=True, colour=palette.SOFT, va="top")


def answer(found: RunComparison) -> str:
    """Return whether any effect changed, in one sentence."""
    return wording.headline(found)


def how(found: RunComparison) -> str:
    """Return how the figure is read, naming only the marks that it has."""
    level = confidence_text(found.level)
    said = [f"Above, hollow, in ink: the {OLDER}", f"below, in its verdict’s colour: the {NEWER}",
            f"thick line: the {level} interval of one run’s effect"]  # fmt: skip
    family = max((row.change.family_size for row in found.rows if row.change), default=1)
    if family > 1:
        said.append("thin line: widened for all comparisons of its run")
    judged = "the words come from the interval of the difference between the two effects"
    said.append(judged + (f", allowing for {family} comparisons" if family > 1 else ""))
    if any(row.kind == "agrees" for row in found.rows):
        said.append(f"“agrees”: its {confidence_text(found.level, one_sided=True)} interval lies within the margin")
    said.append(f"shaded: differences below ±{margin_text(found.margin)}, declared as too small to matter")
    return "; ".join(said) + "."


def alt(found: RunComparison) -> str:
    """Return the answer and every row in words."""
    rows = [f"{_name(row)}{wording.effect_change_phrase(row, found.margin)}" for row in found.rows]
    head = f"Effect of each treatment on {quantity(get_metric(found.newer.metric), found.newer.statistic)} in two runs."
    return " ".join([head, answer(found), *rows])
