"""Figure 13, published against here.

In five seconds: which claims hold here, which not, and which could never have been seen?
"""

from __future__ import annotations

from dataclasses import replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.metrics import metric as metric_of
from loadbook.core.units import percent
from loadbook.design.study import Study
from loadbook.report import palette
from loadbook.report.figures import scales
from loadbook.report.figures.claims import FATES, Direct, Line, compared, fate, lines_of
from loadbook.report.figures.common import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    blocks_text,
    confidence,
    in_house_style,
    mark_props,
    size_pt,
)
from loadbook.report.figures.intervals import draw_interval
from loadbook.report.figures.text import counted, line_in, text_width, widest, wrap
from loadbook.stats.result import Analysis
from loadbook.stats.shown import numbers

HEAD_IN, FOOT_IN, LANE_IN, NAME_IN = 0.34, 0.66, 0.36, 3.0


def needed(study: Study) -> bool:
    """Say whether the study has published claims."""
    return study.published is not None and bool(study.published.claims)


@in_house_style
def draw(study: Study, analysis: Analysis, direct: Direct | None = None, narrow: bool = False) -> Figure:
    """Draw each published ratio as a hollow diamond without interval, and ours below it with one.

    `direct` are analyses of the same run against the treatments of `other_baselines`: what some claims compare with.
    """
    lines = lines_of(study, analysis, direct)
    texts = [_texts(line, narrow) for line in lines]
    heights = [_height(text, narrow) for text in texts]
    sheet = Sheet(narrow, HEAD_IN + sum(heights) + FOOT_IN)
    bottom = HEAD_IN + sum(heights)
    here = [_here(line, analysis) for line in lines]
    left, right = _edges(texts, [*(word for word, _ in here), _ours(analysis)], sheet)
    panel = sheet.panel(left, HEAD_IN, right, bottom)
    panel.set_ylim(bottom, HEAD_IN)
    panel.set_yticks([])
    scale = _scale(lines, analysis)
    ticks = scales.ratio_axis(panel, scale, right - left, sheet.size, analysis.margin)
    if not narrow:
        scales.ratio_ground(panel, analysis.margin, ticks, HEAD_IN, bottom)
    top = HEAD_IN
    for line, text, words, height in zip(lines, texts, here, heights, strict=True):
        middle = top + height / 2 if not narrow else top + height - LANE_IN / 2 - 0.06
        if narrow:
            scales.ratio_ground(panel, analysis.margin, ticks, middle - LANE_IN / 2, middle + LANE_IN / 2)
        _draw_line(panel, scale, line, middle)
        _draw_texts(sheet, text, words, top, middle, right)
        top += height
    _head(sheet, analysis, right)
    title = "change against the claim’s other value (log scale)"
    at = sheet.width / 2 if narrow else (left + right) / 2
    title = wrap(title, max(right - left, 3.5), sheet.size)
    sheet.text(at, bottom + 0.28, title, colour=palette.SOFT, at="center", va="top")
    return sheet.figure


def _texts(line: Line, narrow: bool) -> tuple[str, str]:
    """Return the claim and its numbers, wrapped."""
    size, room = size_pt(narrow), NARROW_IN - 0.12 if narrow else NAME_IN
    return wrap(line.title, room, size, True), wrap(line.numbers, room, size - 0.8)


def _height(texts: tuple[str, str], narrow: bool) -> float:
    lines = sum(text.count("\n") + 1 for text in texts)
    tall = line_in(size_pt(narrow), lines)
    return tall + line_in(size_pt(True)) + LANE_IN + 0.14 if narrow else max(0.46, tall + 0.14)


def _scale(lines: list[Line], analysis: Analysis) -> scales.RatioScale:
    ours = [line.row.verdict.comparison for line in lines if line.row and line.row.verdict and compared(line)]
    intervals = [c.ci95 for c in ours if c.ci95]
    published = [line.effect for line in lines if line.effect is not None]
    decided = [*published, *(c.effect for c in ours if c.effect is not None)]
    return scales.ratio_scale(intervals, published, decided, analysis.margin)


def _here(line: Line, analysis: Analysis) -> tuple[str, str]:
    """Return the words at the right, and their colour."""
    if line.row is None:
        return line.absent, palette.SOFT
    word = f"{palette.glyph_of(line.row)} {palette.word_of(line.row, metric_of(analysis.metric))}"
    if not compared(line):
        return word, palette.text_colour(line.row)
    shown = numbers(line.row)
    return f"{word} {shown.change} ({shown.interval_number})", palette.text_colour(line.row)


def _edges(texts: list[tuple[str, str]], here: list[str], sheet: Sheet) -> tuple[float, float]:
    if sheet.narrow:
        return 0.1, NARROW_IN - 0.1
    left = max(widest([t for t, _ in texts], sheet.size, True), widest([n for _, n in texts], sheet.size - 0.8), 1.6)
    return left + 0.25, WIDE_IN - widest(here, sheet.size, True) - 0.2


def _draw_line(panel: Axes, scale: scales.RatioScale, line: Line, y: float) -> None:
    above, below = (y - 0.09, y + 0.09) if compared(line) else (y, y)
    if line.effect is not None:
        at = scales.position(line.effect)
        panel.plot([at], [above], zorder=4, **mark_props(palette.PUBLISHED, 9))
        if line.no_evidence:
            panel.plot([at], [above], "x", color=palette.INK, markersize=4.2, markeredgewidth=1.1, zorder=5)
        elif line.at_ceiling:
            end = min(at + 0.09 * (scale.high - scale.low), scale.high)
            arrow = {"arrowstyle": "->", "color": palette.INK, "linewidth": 1.1, "shrinkA": 5, "shrinkB": 0}
            panel.annotate("", (end, above), (at, above), annotation_clip=False, zorder=3, arrowprops=arrow)
    if line.row and line.row.verdict and compared(line):
        plain = replace(line.row.verdict.comparison, ci_family=None)
        draw_interval(panel, scale, below, line.row, plain, tick=0.06)


def _draw_texts(
    sheet: Sheet, texts: tuple[str, str], here: tuple[str, str], top: float, middle: float, right: float
) -> None:
    (title, said), (word, colour) = texts, here
    if sheet.narrow:
        y = top + 0.03
        sheet.text(0.06, y, title, bold=True, va="top")
        y += line_in(sheet.size, title.count("\n") + 1)
        sheet.text(0.06, y, said, size=sheet.size - 0.8, colour=palette.SOFT, va="top")
        y += line_in(sheet.size, said.count("\n") + 1)
        sheet.text(0.06, y, f"here: {word}", colour=colour, va="top")
        return
    half = line_in(sheet.size, title.count("\n") + 1 + said.count("\n") + 1) / 2
    sheet.text(0.05, middle - half, title, bold=True, va="top")
    sheet.text(0.05, middle + half, said, size=sheet.size - 0.8, colour=palette.SOFT, va="bottom")
    sheet.text(right + 0.12, middle, word, bold=colour != palette.SOFT, colour=colour)


def _ours(analysis: Analysis) -> str:
    return f"here ({blocks_text(analysis)})"


def _head(sheet: Sheet, analysis: Analysis, right: float) -> None:
    size, here = sheet.size - 0.6, _ours(analysis)
    claim = "the article’s claim (◇ one run, no interval)"
    if sheet.narrow:
        claim = wrap("article: ◇ one run, no interval", NARROW_IN - text_width(here, size) - 0.25, size, lines=1)
        sheet.text(NARROW_IN - 0.06, 0.16, here, size=size, colour=palette.SOFT, at="right")
    else:
        sheet.text(right + 0.12, 0.16, here, size=size, colour=palette.SOFT)
    sheet.text(0.05, 0.16, claim, size=size, colour=palette.SOFT)


def answer(study: Study, analysis: Analysis, direct: Direct | None = None) -> str:
    """Return how many claims hold here: direction first, then size."""
    lines = lines_of(study, analysis, direct)
    if len(lines) == 1:
        return f"The article’s claim “{lines[0].title}” is {FATES[fate(lines[0], analysis.margin)]}."
    fates = [fate(line, analysis.margin) for line in lines]
    said = [f"{fates.count(fate)} {words}" for fate, words in FATES.items() if fate in fates]
    return f"Of {counted(len(lines), 'claim')}: {'; '.join(said)}."


def how(study: Study, analysis: Analysis, direct: Direct | None = None) -> str:
    """Return how the figure is read, naming only the marks that it has."""
    lines = lines_of(study, analysis, direct)
    text = "◇: the article’s single value, so without an interval; "
    text += f"below it ours with its {confidence(analysis)} interval."
    if any(line.at_ceiling and not line.no_evidence for line in lines):
        text += " An arrow: the value lies within 2\u00a0% of the rate that the tool offered, hence “at least”."
    if any(line.no_evidence for line in lines):
        text += " A cross inside: both values lie there, so there is no evidence either way."
    if direct:
        text += " A claim about two treatments is compared with the one that it names, block by block."
    return text + " Shaded: the margin. Other machines, other load: compare directions and verdicts, not rates."


def alt(study: Study, analysis: Analysis, direct: Direct | None = None) -> str:
    """Return the answer and each claim's change there and here."""
    said = []
    for line in lines_of(study, analysis, direct):
        there = percent(line.effect) if line.effect is not None else "no number"
        here, _ = _here(line, analysis)
        said.append(
            f"{line.title}: {there} in the article ({line.numbers}), {here if line.row is None else 'here ' + here}"
        )
    return f"Published claims against this run. {answer(study, analysis, direct)} {'; '.join(said)}."
