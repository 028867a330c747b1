"""What figure 13 draws of each claim: its words and numbers, the article's ratio, ours, and how it fares.

Figure 13, published against here.

In five seconds: which claims hold here, which not, and which could never have been seen?
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.analyses.claims.compute import ClaimResult, article_numbers_text, claim_title, claims_summary
from loadbook.analyses.claims.text import OUTCOMES
from loadbook.core.metrics import get_metric
from loadbook.core.units import format_percent
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.axes import draw_interval
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    blocks_text,
    confidence,
    drawable,
    in_house_style,
    line_in,
    mark_props,
    size_pt,
    text_width,
    widest,
    wrap,
)
from loadbook.stats.results import Analysis, AnalysisRow, ErrorSummary, Verdict
from loadbook.stats.text import comparison_texts
from loadbook.study.claims import ERROR_CLAIM_KINDS


@dataclass(frozen=True)
class Line:
    """One claim as the figure shows it.

    `effect` is the article's ratio minus 1 where it is what the claim is about; `ours` is the comparison drawn below.
    `fate` and `seen` stand at the right: how the claim fares, and our numbers in the colour of their verdict.
    """

    title: str
    numbers: str
    effect: float | None
    at_ceiling: bool
    blind: bool
    ours: AnalysisRow | None
    fate: str
    seen: str
    colour: str

    @property
    def drawn(self) -> bool:
        """Whether there is any ratio to draw."""
        return self.effect is not None or self.ours is not None


def lines_of(judged: Sequence[ClaimResult]) -> list[Line]:
    """Return what is drawn of the claims, in their order."""
    return [_line(one) for one in judged]


def _line(one: ClaimResult) -> Line:
    claim, article, finding = one.claim, one.article, one.finding
    about_ratio = claim.effective_kind not in (*ERROR_CLAIM_KINDS, "slope")
    ours = finding.verdict if finding.verdict and compared(finding.verdict) else None
    glyph, word = OUTCOMES[finding.outcome]
    return Line(
        drawable(claim_title(claim), claim.treatment),
        article_numbers_text(claim),
        article.effect if about_ratio else None,
        article.at_ceiling,
        article.both_at_ceiling,
        _row(ours) if ours else None,
        f"{glyph} {word}",
        _seen(ours) if ours else finding.short_evidence,
        palette.VERDICTS[ours.kind].text if ours else palette.SOFT,
    )


def compared(verdict: Verdict) -> bool:
    """Tell whether a verdict has an effect to draw."""
    return verdict.kind != "invalid" and verdict.comparison.effect is not None


def _row(verdict: Verdict) -> AnalysisRow:
    """Return a comparison as the row that intervals are drawn of."""
    name = verdict.comparison.treatment
    return AnalysisRow(name, name, "treatment", None, None, 0, 0, verdict, ErrorSummary(name, 0, 0, 0, 0, {}))


def _seen(verdict: Verdict) -> str:
    """Return our verdict, change and interval: "▲ faster +6.0 % (+5.1 to +6.8)"."""
    texts, row = comparison_texts(verdict), _row(verdict)
    word = palette.row_word(row, get_metric(verdict.comparison.metric))
    return f"{palette.row_glyph(row)} {word} {texts.change} ({texts.interval_number})"


HEAD_IN, FOOT_IN, LANE_IN, NAME_IN, HERE_IN = 0.34, 0.66, 0.36, 3.0, 2.2
Texts = tuple[str, str, str]  # claim, its numbers, what was seen here; wrapped


@in_house_style
def draw(judged: Sequence[ClaimResult], analysis: Analysis, narrow: bool = False) -> Figure:
    """Draw each published ratio as a hollow diamond without interval, and ours below it with one.

    `judged` are the study's claims; at the right stands how each fares here. Claims about errors or slopes are not
    ratios of two values: they have words only.
    """
    lines = lines_of(judged)
    texts = [_texts(line, narrow) for line in lines]
    heights = [_height(line, text, narrow) for line, text in zip(lines, texts, strict=True)]
    sheet = Sheet(narrow, HEAD_IN + sum(heights) + FOOT_IN)
    bottom = HEAD_IN + sum(heights)
    left, right = _edges(lines, texts, _ours(analysis), sheet)
    panel = sheet.panel(left, HEAD_IN, right, bottom)
    panel.set_ylim(bottom, HEAD_IN)
    panel.set_yticks([])
    scale = _scale(lines, analysis)
    ticks = axes.ratio_axis(panel, scale, right - left, sheet.size, analysis.margin)
    if not narrow:
        axes.ratio_ground(panel, analysis.margin, ticks, HEAD_IN, bottom)
    top = HEAD_IN
    for line, text, height in zip(lines, texts, heights, strict=True):
        middle = top + height / 2 if not narrow else top + height - LANE_IN / 2 - 0.06
        if narrow and line.drawn:
            axes.ratio_ground(panel, analysis.margin, ticks, middle - LANE_IN / 2, middle + LANE_IN / 2)
        _draw_line(panel, scale, line, middle)
        _draw_texts(sheet, line, text, top, middle, right)
        top += height
    _head(sheet, analysis, right)
    title = "change against the claim’s other value (log scale)"
    at = sheet.width / 2 if narrow else (left + right) / 2
    title = wrap(title, max(right - left, 3.5), sheet.size)
    sheet.text(at, bottom + 0.28, title, colour=palette.SOFT, at="center", va="top")
    return sheet.figure


def _texts(line: Line, narrow: bool) -> Texts:
    """Return the claim, its numbers and what was seen here, wrapped."""
    size, room = size_pt(narrow), NARROW_IN - 0.12 if narrow else NAME_IN
    seen = wrap(line.seen, room if narrow else HERE_IN, size - 0.8)
    return wrap(line.title, room, size, True), wrap(line.numbers, room, size - 0.8), seen


def _height(line: Line, texts: Texts, narrow: bool) -> float:
    title, numbers, seen = (text.count("\n") + 1 if text else 0 for text in texts)
    if narrow:
        return line_in(size_pt(narrow), title + numbers + 1 + seen) + (LANE_IN if line.drawn else 0.0) + 0.14
    return max(0.46, line_in(size_pt(narrow), max(title + numbers, 1 + seen)) + 0.14)


def _scale(lines: list[Line], analysis: Analysis) -> axes.RatioScale:
    ours = [line.ours.verdict.comparison for line in lines if line.ours and line.ours.verdict]
    intervals = [c.ci95 for c in ours if c.ci95]
    published = [line.effect for line in lines if line.effect is not None]
    decided = [*published, *(c.effect for c in ours if c.effect is not None)]
    return axes.ratio_scale(intervals, published, decided, analysis.margin)


def _edges(lines: list[Line], texts: list[Texts], ours: str, sheet: Sheet) -> tuple[float, float]:
    if sheet.narrow:
        return 0.1, NARROW_IN - 0.1
    small = sheet.size - 0.8
    left = max(widest([t[0] for t in texts], sheet.size, True), widest([t[1] for t in texts], small), 1.6)
    fates = widest([*(line.fate for line in lines), ours], sheet.size, True)
    return left + 0.25, WIDE_IN - max(fates, widest([t[2] for t in texts], small)) - 0.2


def _draw_line(panel: Axes, scale: axes.RatioScale, line: Line, y: float) -> None:
    above, below = (y - 0.09, y + 0.09) if line.ours else (y, y)
    if line.effect is not None:
        at = axes.position(line.effect)
        panel.plot([at], [above], zorder=4, **mark_props(palette.PUBLISHED, 9))
        if line.blind:
            panel.plot([at], [above], "x", color=palette.INK, markersize=4.2, markeredgewidth=1.1, zorder=5)
        elif line.at_ceiling:
            end = min(at + 0.09 * (scale.high - scale.low), scale.high)
            arrow = {"arrowstyle": "->", "color": palette.INK, "linewidth": 1.1, "shrinkA": 5, "shrinkB": 0}
            panel.annotate("", (end, above), (at, above), annotation_clip=False, zorder=3, arrowprops=arrow)
    if line.ours and line.ours.verdict:
        plain = replace(line.ours.verdict.comparison, ci_family=None)
        draw_interval(panel, scale, below, line.ours, plain, tick=0.06)


def _draw_texts(sheet: Sheet, line: Line, texts: Texts, top: float, middle: float, right: float) -> None:
    title, numbers, seen = texts
    size = sheet.size - 0.8
    if sheet.narrow:
        y = top + 0.03
        for text, bold, colour in ((title, True, palette.INK), (numbers, False, palette.SOFT),
                                   (line.fate, True, palette.INK), (seen, False, line.colour)):  # fmt: skip
            sheet.text(0.06, y, text, size=sheet.size if bold else size, bold=bold, colour=colour, va="top")
            y += line_in(sheet.size, text.count("\n") + 1 if text else 0)
        return
    half = line_in(sheet.size, title.count("\n") + 1 + numbers.count("\n") + 1) / 2
    sheet.text(0.05, middle - half, title, bold=True, va="top")
    sheet.text(0.05, middle + half, numbers, size=size, colour=palette.SOFT, va="bottom")
    half = line_in(sheet.size, 1 + (seen.count("\n") + 1 if seen else 0)) / 2
    sheet.text(right + 0.12, middle - half, line.fate, bold=True, va="top")
    sheet.text(right + 0.12, middle + half, seen, size=size, colour=line.colour, va="bottom")


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


def answer(judged: Sequence[ClaimResult], analysis: Analysis) -> str:
    """Return how the claims fare here: direction first, then size; then which the article's numbers could show."""
    return claims_summary([one.finding for one in judged], [one.article.could_show for one in judged])


def how(judged: Sequence[ClaimResult], analysis: Analysis) -> str:
    """Return how the figure is read, naming only the marks that it has."""
    lines = lines_of(judged)
    text = "◇: the article’s single value, so without an interval; "
    text += f"below it ours with its {confidence(analysis)} interval."
    if any(line.at_ceiling and not line.blind and line.effect is not None for line in lines):
        text += " An arrow: the value lies within 2\u00a0% of the rate that the tool offered, hence “at least”."
    if any(line.blind and line.effect is not None for line in lines):
        text += " A cross inside: both values lie there, so there is no evidence either way."
    if any(line.effect is None for line in lines):
        text += " Claims about errors and slopes are no ratios of two values; they stand in words."
    return text + " Shaded: the margin. Other machines, other load: compare directions and verdicts, not rates."


def alt(judged: Sequence[ClaimResult], analysis: Analysis) -> str:
    """Return the answer and each claim's change there and here."""
    said = []
    for line in lines_of(judged):
        there = f"{format_percent(line.effect)} ({line.numbers})" if line.effect is not None else line.numbers
        said.append(f"{line.title}: {there} in the article, {' '.join([line.fate, line.seen]).strip()}")
    return f"Published claims against this run. {answer(judged, analysis)} {'; '.join(said)}."
