"""The base class of figures, the drawing that matplotlib arranges, breaking of texts, styles and names.

A drawing has a fixed width; texts are written only in characters that the font has. No figure uses pyplot, so no state
remains after a figure is written.
"""

from __future__ import annotations

import functools
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import matplotlib as mpl
import seaborn as sns
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font

from loadbook.core.metrics import Metric
from loadbook.core.units import join_words, pluralize
from loadbook.report import palette
from loadbook.stats import text as sentences
from loadbook.stats.results import Analysis, AnalysisRow

FONT = "DejaVu Sans"
LINE_SPACING = 1.25
WIDTH_IN = 8.75
LETTER_PT, SMALL_PT, SMALLEST_PT = 9.6, 9.0, 7.5
_STYLE: dict[Any, Any] = {
    "font.family": FONT, "svg.fonttype": "none", "svg.hashsalt": "loadbook", "text.parse_math": False,
    "axes.unicode_minus": True, "font.size": LETTER_PT, "axes.labelsize": LETTER_PT, "axes.titlesize": LETTER_PT,
    "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.titley": 1.0, "axes.labelcolor": palette.SOFT,
    "axes.spines.top": False, "axes.spines.right": False, "axes.spines.left": False, "axes.facecolor": "none",
    "axes.edgecolor": palette.RULE, "axes.linewidth": 0.8, "legend.fontsize": SMALL_PT, "legend.frameon": False,
    "xtick.labelsize": LETTER_PT, "ytick.labelsize": LETTER_PT, "xtick.color": palette.RULE,
    "ytick.color": palette.RULE, "xtick.labelcolor": palette.SOFT, "ytick.labelcolor": palette.SOFT,
    "xtick.major.size": 3, "ytick.major.size": 3, "xtick.major.width": 0.8, "ytick.major.width": 0.8,
    "xtick.major.pad": 3, "ytick.major.pad": 3, "lines.solid_capstyle": "butt",
}  # fmt: skip


@dataclass(frozen=True)
class HoverArea:
    """A rectangle of the picture (in % of its size) with the text that a browser shows on hover."""

    left: float
    top: float
    width: float
    height: float
    text: str


class ReportFigure(ABC):
    """Base class of the figures of a report: the picture, and the texts beside it.

    The constructor reads the data once for `draw` and the texts. A figure of a recorded run has a class
    method `from_run`, which takes the run's tables and raises UsageError if there is nothing to draw.
    """

    @abstractmethod
    def _draw(self) -> Drawing:
        """Return the finished drawing; it is called within `house_style`."""

    def draw(self) -> Figure:
        """Return the picture as a matplotlib figure, independent of the style that the notebook has set."""
        return self.drawing().figure

    def drawing(self) -> Drawing:
        """Return the drawing, which has the picture and its areas with hover texts."""
        with house_style():
            drawing = self._draw()
            drawing.finish()
            return drawing

    def rows_html(self) -> Markup:
        """Return the rows of the picture as HTML for screens narrower than the picture; empty if it has no rows."""
        return Markup("")

    @property
    @abstractmethod
    def caption(self) -> str:
        """One sentence that states the result shown in the figure."""

    @property
    @abstractmethod
    def help(self) -> str:
        """Instructions for reading the figure."""

    @property
    @abstractmethod
    def description(self) -> tuple[str, str]:
        """The subject as a sentence, and the numbers of the figure in words."""

    @property
    def alt_text(self) -> str:
        """The caption and the numbers of the figure, for readers who cannot see the picture."""
        subject, numbers = self.description
        return " ".join(filter(None, (subject, self.caption, numbers)))


class Drawing:
    """A matplotlib figure of the page's width, arranged by matplotlib's constrained layout.

    `height_in` is its height in inches.
    """

    def __init__(self, height_in: float) -> None:
        self.figure = Figure(figsize=(WIDTH_IN, height_in), dpi=100, facecolor=palette.BACKGROUND, layout="constrained")
        self.hover_areas: list[HoverArea] = []

    def finish(self) -> None:
        """Compute the layout and turn the layout engine off, so that saved figures have the same layout."""
        engine = self.figure.get_layout_engine()
        if engine is not None:
            engine.execute(self.figure)
        self.figure.set_layout_engine(None)  # "none" would leave an engine, for which savefig draws twice

    def hover(self, axes: Axes, xs: tuple[float, float], ys: tuple[float, float], text: str) -> None:
        """Add a hover text to a rectangle of a panel, after the layout is computed.

        `xs` are its ends as fractions of the panel's width, `ys` its ends as y values of the panel's data.
        """
        corners = axes.get_yaxis_transform().transform(list(zip(xs, ys, strict=True)))
        (left, top), (right, bottom) = self.figure.transFigure.inverted().transform(corners)
        low, high = sorted((top, bottom))
        self.hover_areas.append(HoverArea(100 * left, 100 * (1 - high), 100 * (right - left), 100 * (high - low), text))


@contextmanager
def house_style() -> Iterator[None]:
    """Context in which figures have the style of the reports, whatever style the notebook has set."""
    rc: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if not k.startswith(("backend", "interactive"))}
    with mpl.rc_context(rc | dict(sns.axes_style("ticks")) | _STYLE):
        yield


@functools.cache
def font(bold: bool, italic: bool = False) -> FontProperties:
    """Return the figures' font without a size; the object is cached, so copy it before setting a size."""
    return FontProperties(family=FONT, weight="bold" if bold else "normal", style="italic" if italic else "normal")


def line_count(text: str) -> int:
    """Return the number of lines of a text; 0 for an empty text."""
    return text.count("\n") + 1 if text else 0


@functools.cache
def _has_glyph(character: str) -> bool:
    return character == "\n" or all(get_font(findfont(font(b))).get_char_index(ord(character)) for b in (False, True))


def drawable(name: str, fallback: str) -> str:
    """Return `name` if the figures' font has all of its characters, else `fallback`.

    Characters of `fallback` that the font lacks are replaced by "?".
    """
    name = " ".join(name.split())
    if name and all(map(_has_glyph, name)):
        return name
    return "".join(c if _has_glyph(c) else "?" for c in fallback)


def fold(text: str, letters: int, lines: int = 2) -> str:
    """Break `text` into at most `lines` lines of at most `letters` letters; the rest is cut to `…`."""
    return "\n".join(textwrap.wrap(text, letters, max_lines=lines, placeholder="…"))


def join_first(items: Sequence[str], most: int, noun: str) -> str:
    """Return the items joined to one text; if there are more than `most`, the first ones and the number of others.

    The text is then such as "a, b and 3 other treatments", where `noun` is "treatments".
    """
    if len(items) <= most:
        return join_words(items)
    return ", ".join(items[: most - 1]) + f" and {len(items) - most + 1} other {noun}"


def treatment_names(analysis: Analysis) -> dict[str, str]:
    """Return treatment -> name in figures: its label, or its key if the font lacks a character of the label."""
    return {row.treatment: drawable(row.label, row.treatment) for row in analysis.rows}


def treatment_styles(analysis: Analysis) -> dict[str, palette.VerdictStyle]:
    """Return treatment -> style: the colour of its verdict, and a marker that no other treatment of the run has."""
    styles: dict[str, palette.VerdictStyle] = {}
    spare = iter(palette.SPARE_MARKERS * (1 + len(analysis.rows) // len(palette.SPARE_MARKERS)))
    for row in analysis.rows:
        style = palette.row_style(row)
        taken = any((s.marker, s.hollow) == (style.marker, style.hollow) for s in styles.values())
        styles[row.treatment] = replace(style, marker=next(spare)) if taken or not style.marker else style
    return styles


def rows_in_reading_order(analysis: Analysis) -> list[AnalysisRow]:
    """Return the rows in the order: baseline, A/A arm, treatments, positive control."""
    return [row for kind in ("baseline", "aa", "treatment", "control") for row in analysis.rows if row.kind == kind]


# size factors, as shapes of equal diameter do not look equally large
_OPTICAL = {"^": 1.15, "v": 1.15, "<": 1.15, ">": 1.15, "P": 1.2, "p": 1.1, "*": 1.4, "s": 0.92, "D": 0.85, "d": 1.1}


def marker_props(style: palette.VerdictStyle, size_pt: float) -> dict[str, Any]:
    """Return Line2D properties of a marker: filled with a white rim, or hollow with a dark edge."""
    hollow = style.hollow
    return {
        "marker": style.marker,
        "markersize": size_pt * _OPTICAL.get(style.marker, 1.0) * (0.88 if hollow else 1.0),
        "markerfacecolor": style.face,
        "markeredgecolor": style.edge if hollow else palette.BACKGROUND,
        "markeredgewidth": 1.2 if hollow else 0.6,
        "linestyle": "none",
    }


def cross_props(size_pt: float, width_pt: float) -> dict[str, Any]:
    """Return Line2D properties of the cross that marks an excluded trial."""
    return {
        "marker": "x", "color": palette.INK, "linestyle": "none", "markersize": size_pt, "markeredgewidth": width_pt,
    }  # fmt: skip


def metric_label(metric: Metric, statistic: str | None = None) -> str:
    """Return a metric's name for axis titles, with the statistic unless it is the plain value."""
    name = metric.label or metric.name.replace("_", " ")
    return name if statistic in (None, "value", "count") else f"{name} ({statistic})"


def level_text(analysis: Analysis, one_sided: bool = False) -> str:
    """Return the level of the intervals, "95 %"; if `one_sided`, that of intervals that decide equivalence, "90 %"."""
    return sentences.confidence_text(analysis.level, one_sided=one_sided)


def blocks_text(analysis: Analysis) -> str:
    """Return the number of blocks that the comparisons use: "12 blocks" or "11 to 12 blocks".

    If nothing was compared, it is the planned number: "12 blocks planned".
    """
    counts = [r.verdict.comparison.blocks for r in analysis.rows if r.verdict and r.verdict.comparison.blocks]
    if not counts:
        return pluralize(analysis.planned_blocks, "block") + " planned"
    low, high = min(counts), max(counts)
    return pluralize(high, "block") if low == high else f"{low} to {high} blocks"
