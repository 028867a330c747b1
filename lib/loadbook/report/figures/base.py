"""The base class of figures, the sheet on which they are drawn, and the placing of text.

A sheet has a fixed width; positions on it are inches from its top left corner. Text is measured before it is placed,
wrapped to a width, and written only in characters that the font has. No figure uses pyplot, so no state remains after
a figure is written.
"""

from __future__ import annotations

import functools
import textwrap
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib as mpl
import seaborn as sns
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.textpath import text_to_path

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
    "font.family": FONT, "svg.fonttype": "path", "svg.hashsalt": "loadbook", "text.parse_math": False,
    "axes.unicode_minus": True, "font.size": LETTER_PT, "axes.labelsize": LETTER_PT, "axes.titlesize": LETTER_PT,
    "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.labelcolor": palette.SOFT,
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
    def _draw(self) -> Sheet | Drawing:
        """Return the finished drawing; it is called within `house_style`."""

    def draw(self) -> Figure:
        """Return the picture as a matplotlib figure, independent of the style that the notebook has set."""
        return self.draw_sheet().figure

    def draw_sheet(self) -> Sheet | Drawing:
        """Return the drawing, which has the picture and its areas with hover texts."""
        with house_style():
            drawing = self._draw()
            if isinstance(drawing, Drawing):
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
        """The subject, and in words: the subject, and the numbers."""

    @property
    def alt_text(self) -> str:
        """The caption and the numbers of the figure, for readers who cannot see the picture."""
        subject, numbers = self.description
        return " ".join(filter(None, (subject, self.caption, numbers)))


class Drawing:
    """A matplotlib figure of the page's width, arranged by matplotlib's constrained layout."""

    def __init__(self, height_in: float) -> None:
        self.figure = Figure(figsize=(WIDTH_IN, height_in), dpi=100, facecolor=palette.BACKGROUND, layout="constrained")
        self.hover_areas: list[HoverArea] = []

    def finish(self) -> None:
        """Compute the layout once; figures that are saved have the same."""
        engine = self.figure.get_layout_engine()
        if engine is not None:
            engine.execute(self.figure)
        self.figure.set_layout_engine(None)  # "none" would leave an engine, for which savefig draws twice

    def hover(self, axes: Axes, xs: tuple[float, float], ys: tuple[float, float], text: str) -> None:
        """Add a hover text to a part of a finished panel: fractions of its width, and y values of its data."""
        corners = axes.get_yaxis_transform().transform(list(zip(xs, ys, strict=True)))
        (left, top), (right, bottom) = self.figure.transFigure.inverted().transform(corners)
        low, high = sorted((top, bottom))
        self.hover_areas.append(HoverArea(100 * left, 100 * (1 - high), 100 * (right - left), 100 * (high - low), text))


class Sheet:
    """A matplotlib figure of fixed width; all positions are inches from its top left corner."""

    def __init__(self, height_in: float) -> None:
        self.width, self.height, self.size = WIDTH_IN, height_in, LETTER_PT
        self.figure = Figure(figsize=(self.width, height_in), dpi=100, facecolor=palette.BACKGROUND)
        self.hover_areas: list[HoverArea] = []

    def text(
        self, x: float, y: float, text: str, *, colour: str = palette.INK, bold: bool = False, italic: bool = False,
        size: float | None = None, align: Literal["left", "center", "right"] = "left",
        va: Literal["center", "top", "bottom", "baseline"] = "center", rotation: float = 0,
    ) -> Text:  # fmt: skip
        """Write `text` at (x, y) inches."""
        properties = font(bold, italic).copy()
        properties.set_size(max(size or self.size, SMALLEST_PT))
        return self.figure.text(
            x / self.width, 1 - y / self.height, text, color=colour, fontproperties=properties, ha=align, va=va,
            rotation=rotation, linespacing=1.15, rotation_mode="anchor",
        )  # fmt: skip

    def rule(self, left: float, right: float, y: float, colour: str = palette.RULE, width_pt: float = 0.8) -> None:
        """Draw a horizontal line."""
        self.line([left, right], [y, y], colour, width_pt)

    def line(self, xs: Sequence[float], ys: Sequence[float], colour: str, width_pt: float) -> None:
        """Draw a line through these points."""
        heights = [self.height - y for y in ys]
        line = Line2D(list(xs), heights, color=colour, linewidth=width_pt, solid_capstyle="butt")
        line.set_transform(self.figure.dpi_scale_trans)
        self.figure.add_artist(line)

    def box(self, left: float, top: float, right: float, bottom: float, colour: str) -> None:
        """Fill a rectangle behind everything else."""
        patch = Rectangle((left, self.height - bottom), right - left, bottom - top, facecolor=colour, linewidth=0)
        patch.set(transform=self.figure.dpi_scale_trans, zorder=-5)
        self.figure.add_artist(patch)

    def marker(self, x: float, y: float, style: palette.VerdictStyle, size_pt: float = 6.0) -> None:
        """Draw one marker, for a key or a label."""
        line = Line2D([x], [self.height - y], **marker_props(style, size_pt))
        line.set_transform(self.figure.dpi_scale_trans)
        self.figure.add_artist(line)

    def hover(self, left: float, top: float, right: float, bottom: float, text: str) -> None:
        """Add a rectangle with a text that a browser shows on hover."""
        across, down = 100 / self.width, 100 / self.height
        area = HoverArea(left * across, top * down, (right - left) * across, (bottom - top) * down, text)
        self.hover_areas.append(area)

    def panel(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Return axes in this rectangle, with a bottom spine only and ticks in the report's font size and colours."""
        place = (left / self.width, 1 - bottom / self.height)
        axes = self.figure.add_axes((*place, (right - left) / self.width, (bottom - top) / self.height))
        axes.set_facecolor("none")
        sns.despine(ax=axes, left=True)
        axes.spines["bottom"].set(color=palette.RULE, linewidth=0.8)
        axes.tick_params(labelsize=self.size, labelcolor=palette.SOFT, color=palette.RULE, length=3, width=0.8, pad=3)
        return axes

    def rows_panel(self, left: float, top: float, right: float, bottom: float) -> Axes:
        """Return axes in this rectangle whose y values are inches of the sheet, for figures with rows of text."""
        axes = self.panel(left, top, right, bottom)
        axes.set_ylim(bottom, top)
        axes.set_yticks([])
        return axes


@contextmanager
def house_style() -> Iterator[None]:
    """Context in which figures have seaborn's "ticks" style with our changes, whatever style the notebook has set."""
    rc: dict[Any, Any] = {k: v for k, v in mpl.rcParamsDefault.items() if not k.startswith(("backend", "interactive"))}
    with mpl.rc_context(rc | dict(sns.axes_style("ticks")) | _STYLE):
        yield


@functools.cache
def font(bold: bool, italic: bool = False) -> FontProperties:
    """Return the figures' font without a size; the object is cached, so copy it before setting a size."""
    return FontProperties(family=FONT, weight="bold" if bold else "normal", style="italic" if italic else "normal")


@functools.lru_cache(8192)
def text_width(text: str, size: float, bold: bool = False) -> float:
    """Return the width of one line in inches, plus 2 % for renderers that adjust glyph widths (hinting)."""
    properties = font(bold).copy()
    properties.set_size(size)
    return float(text_to_path.get_text_width_height_descent(text, properties, ismath=False)[0]) / 72 * 1.02


def max_text_width(texts: Sequence[str], size: float, bold: bool = False) -> float:
    """Return the width in inches of the widest line among `texts`; 0 if there are no texts."""
    return max((text_width(line, size, bold) for text in texts for line in text.split("\n")), default=0.0)


def text_height(size: float, lines: int = 1) -> float:
    """Return the height in inches of a number of lines in letters of `size` points."""
    return size * LINE_SPACING * lines / 72


def line_count(text: str) -> int:
    """Return the number of lines of a text; 0 for an empty text."""
    return text.count("\n") + 1 if text else 0


@functools.cache
def _has_glyph(character: str) -> bool:
    return character == "\n" or all(get_font(findfont(font(b))).get_char_index(ord(character)) for b in (False, True))


def drawable(name: str, fallback: str) -> str:
    """Return `name` if the figures' font has all of its characters, else `fallback`."""
    name = " ".join(name.split())
    if name and all(map(_has_glyph, name)):
        return name
    return "".join(c if _has_glyph(c) else "?" for c in fallback)


def fold(text: str, letters: int, lines: int = 2) -> str:
    """Break `text` into at most `lines` lines of at most so many letters; the rest is cut to `…`."""
    return "\n".join(textwrap.wrap(text, letters, max_lines=lines, placeholder="…"))


def wrap(text: str, width_in: float, size: float, bold: bool = False, lines: int = 2) -> str:
    """Wrap `text` to at most `lines` lines of `width_in` inches, preferably at spaces or signs; cut the rest to `…`."""
    if text_width(text, size, bold) <= width_in:
        return text
    wrapped: list[str] = []
    rest = text
    while rest and len(wrapped) < lines:
        head = _first_line(rest, width_in, size, bold)
        wrapped.append(head.rstrip())
        rest = rest[len(head) :].lstrip()
    if rest:
        last = wrapped[-1]
        while last and text_width(last + "…", size, bold) > width_in:
            last = last[:-1]
        wrapped[-1] = last.rstrip() + "…"
    return "\n".join(wrapped)


def _first_line(text: str, width_in: float, size: float, bold: bool) -> str:
    """Return the longest beginning of `text` that fits, cut at a space or sign unless that is far too short."""
    starts = range(1, len(text) + 1)
    fits = max(1, bisect_right(starts, width_in, key=lambda n: text_width(text[:n].rstrip(), size, bold)))
    if fits == len(text):
        return text
    too_early = 0.35 * fits
    for signs in (" ", "_-,;/+:"):
        breaks = [i + 1 for i in range(fits + 1) if text[i] in signs and i >= too_early and (i < fits or signs == " ")]
        if breaks:
            return text[: breaks[-1]]
    return text[:fits]


def shorten(name: str, width_in: float, size: float, bold: bool = False) -> str:
    """Return `name` in one line of `width_in` inches, shortened in the middle, as names often differ at their ends."""
    if text_width(name, size, bold) <= width_in:
        return name
    for length in range(max(2, len(name) - 1), 1, -1):
        cut = f"{name[: length - length // 2].rstrip()}…{name[len(name) - length // 2 :].lstrip()}"
        if text_width(cut, size, bold) <= width_in:
            return cut
    return cut


def avoid_overlap(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Return positions near `wanted`, in that order, at which boxes of these sizes within low..high do not overlap."""
    order = sorted(range(len(wanted)), key=lambda i: wanted[i])
    groups: list[tuple[list[int], float, float]] = []  # indices of boxes, sum of (wanted - offset), total size
    for i in order:
        members, total, size = [i], wanted[i] - sizes[i] / 2, sizes[i]
        while groups and _start(groups[-1], low, high) + groups[-1][2] > _start((members, total, size), low, high):
            before, sum_before, size_before = groups.pop()
            total += sum_before - len(members) * size_before
            members, size = before + members, size + size_before
        groups.append((members, total, size))
    positions = [0.0] * len(wanted)
    for group in groups:
        edge = _start(group, low, high)
        for i in group[0]:
            positions[i] = edge + sizes[i] / 2
            edge += sizes[i]
    return positions


def _start(group: tuple[list[int], float, float], low: float, high: float) -> float:
    members, total, size = group
    return max(low, min(total / len(members), high - size))


def join_first(items: Sequence[str], most: int, noun: str) -> str:
    """Return the items joined to one text; if there are more than `most`, the first ones and the number of others."""
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
    """Return the number of blocks that the comparisons use: "12 blocks" or "11 to 12 blocks"."""
    counts = [r.verdict.comparison.blocks for r in analysis.rows if r.verdict and r.verdict.comparison.blocks]
    if not counts:
        return pluralize(analysis.planned_blocks, "block") + " planned"
    low, high = min(counts), max(counts)
    return pluralize(high, "block") if low == high else f"{low} to {high} blocks"
