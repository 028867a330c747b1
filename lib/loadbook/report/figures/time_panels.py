"""Panels one above the other on one time axis, and the cutting of long names."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, Locator, MaxNLocator, MultipleLocator

from loadbook.core.units import MINUS
from loadbook.report import palette
from loadbook.report.figures import base

PANEL_IN, FOOT_IN = 0.98, 0.45
TITLE_LETTERS = 58
TIME_STEPS = (0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


class TimePanels(base.Drawing):
    """A drawing with `panels` one above the other, one for each resource, over one time axis.

    Parameters
    ----------
    number : how many panels; if it is 0, there is an empty one.
    limits : the ends of the time axis in seconds.
    since : the end of the title of the time axis, which begins with the unit.
    head_in : height in inches that is left to texts above the first panel.
    """

    def __init__(self, number: int, limits: tuple[float, float], since: str, head_in: float = 0.0) -> None:
        super().__init__(max(1, number) * PANEL_IN + FOOT_IN + head_in)
        grid = self.figure.subplots(max(1, number), 1, sharex=True, squeeze=False)
        self.panels: list[Axes] = list(grid[:, 0])
        length = limits[1] - limits[0]
        divisor, unit = (1.0, "seconds") if length < 180 else (60.0, "minutes")
        step = next((s for s in TIME_STEPS if length / divisor / s <= 8), length / divisor)
        last = self.panels[-1]
        last.set_xlim(*limits)
        last.xaxis.set_major_locator(_ticks_within(MultipleLocator(step * divisor), *limits))
        last.xaxis.set_major_formatter(FuncFormatter(lambda at, _: f"{at / divisor + 0.0:g}".replace("-", MINUS)))
        last.set_xlabel(f"{unit} {since}")
        for panel in self.panels[:-1]:
            panel.xaxis.set_visible(False)
        if not number:
            last.yaxis.set_major_locator(FixedLocator([]))

    @staticmethod
    def set_values(panel: Axes, highest: float, *, is_capacity: bool = False) -> None:
        """Let the y axis of a panel reach from 0 to the highest value, which has a tick if it is the capacity."""
        panel.set_ylim(0, 1.06 * highest)
        locator = FixedLocator([0, highest / 2, highest]) if is_capacity else MaxNLocator(3, steps=[1, 2, 5, 10])
        panel.yaxis.set_major_locator(_ticks_within(locator, *panel.get_ylim()))
        panel.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}" if y >= 1000 else f"{y:.3g}"))

    @staticmethod
    def write_title(panel: Axes, title: str, text: str = "", colour: str = palette.SOFT) -> None:
        """Write the title above a panel, and a text beside it."""
        left = panel.set_title(cut_middle(title, TITLE_LETTERS), loc="left", y=1.0, weight="normal")
        props: dict[str, Any] = {"size": base.SMALL_PT, "color": colour, "va": "bottom"}
        panel.annotate(text, (1, 0), (9, 0), xycoords=left, textcoords="offset points", **props)


def _ticks_within(locator: Locator, low: float, high: float) -> FixedLocator:
    """Return a locator without the ticks that are outside of an axis' limits."""
    return FixedLocator([float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high])


def cut_middle(text: str, letters: int) -> str:
    """Return a text of at most so many letters, cut in the middle, as names often differ at their ends."""
    half = letters // 2
    return text if len(text) <= letters else f"{text[:half].rstrip()}…{text[1 - half :].lstrip()}"
