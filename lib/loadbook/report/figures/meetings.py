"""Where two factors meet: one small panel per pair that acts, both levels of both, with intervals."""

from __future__ import annotations

import math

from matplotlib.axes import Axes

from loadbook.analyses.factorial.compute import FactorialAnalysis, InteractionPlot
from loadbook.core.metrics import get_metric
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.common import NARROW_IN, Sheet, mark_props
from loadbook.report.figures.text import drawable, line_in, pushed_apart, shortened, wrap
from loadbook.stats.results import Interval

PANEL_IN, WIDTH_IN, LEFT_IN, LABEL_IN = 2.25, 2.4, 0.52, 0.85
LOOKS = {False: palette.AA, True: palette.BASELINE}


def draw_meeting(sheet: Sheet, found: FactorialAnalysis, meeting: InteractionPlot, corner: tuple[float, float]) -> None:
    """Draw one panel of `PANEL_IN` height with its upper left corner there; all panels share their y axis."""
    left, top = corner
    width = NARROW_IN - 0.16 if sheet.narrow else WIDTH_IN
    one, other = (found.factor_labels[name] for name in meeting.effect.names)
    size = sheet.size - 0.6
    title = wrap(drawable(meeting.effect.label, "?"), width, size, True)
    sheet.text(left, top + 0.06, title, size=size, bold=True, va="top")
    top += 0.1 + line_in(size, title.count("\n") + 1)
    metric, limits = get_metric(found.analysis.metric), _limits(found)
    unit = scales.unit_for(metric, limits[1])
    said = scales.value_title(metric, found.analysis.statistic, unit, True)
    said = wrap(said, width, sheet.size - 1.4)
    sheet.text(left, top + 0.02, said, size=sheet.size - 1.4, colour=palette.SOFT, va="top")
    top += 0.12 + line_in(sheet.size - 1.4, said.count("\n") + 1)
    bottom, right = corner[1] + PANEL_IN - 0.56, left + width - LABEL_IN
    panel = sheet.panel(left + LEFT_IN, top, right, bottom)
    scales.values_on_y(panel, limits, unit, bottom - top)
    panel.set_xlim(-0.25, 1.35)
    scales.set_ticks(panel.xaxis, [0, 1], [drawable(level, "?") for level in (one.low, one.high)])
    ends = [_line(panel, meeting, high) for high in (False, True)]
    places = [top + (bottom - top) * (1 - _share(end, limits)) for end in ends]
    places = pushed_apart(places, [line_in(size) + 0.02] * 2, top + 0.1, bottom + 0.05)
    second = shortened(drawable(meeting.effect.names[1], "?"), LABEL_IN + 0.05, size)
    sheet.text(right - 0.06, min(places) - line_in(size) - 0.03, second, size=size, colour=palette.SOFT)
    for place, level, look in zip(places, (other.low, other.high), LOOKS.values(), strict=True):
        label = f"{look.glyph} {shortened(drawable(level, '?'), LABEL_IN - 0.1, size)}"
        sheet.text(right - 0.06, place, label, size=size)
    middle = (left + LEFT_IN + right) / 2
    first = shortened(drawable(meeting.effect.names[0], "?"), 2 * min(middle - left, left + width - middle), size)
    sheet.text(middle, bottom + 0.32, first, size=size, at="center")


def _limits(found: FactorialAnalysis) -> Interval:
    import pandas as pd

    ends = [bound for m in found.interaction_plots for _, interval in m.cell_means.values() for bound in interval]
    return scales.value_range(pd.Series(ends), pad=0.12)


def _share(value: float, limits: Interval) -> float:
    low, high = map(math.log, limits)
    return (math.log(value) - low) / (high - low)


def _line(panel: Axes, meeting: InteractionPlot, high: bool) -> float:
    """Draw the first factor's line at one level of the second; return the value at its right end."""
    points = [meeting.cell_means[(level, high)] for level in (False, True)]
    shift = 0.03 if high else -0.03  # intervals of the two lines do not cover each other
    places = [x + shift for x in (0, 1)]
    panel.plot(places, [math.log(v) for v, _ in points], color=palette.INK, linewidth=1.3, zorder=1)
    for x, (_, interval) in zip(places, points, strict=True):
        panel.plot([x, x], [math.log(b) for b in interval], color=palette.INK, linewidth=2.2, zorder=2)
    panel.plot(places, [math.log(v) for v, _ in points], **mark_props(LOOKS[high], 6.5), zorder=3)
    return points[1][0]
