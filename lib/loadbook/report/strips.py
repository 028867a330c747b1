"""Strips: intervals of effects over the margin, as small HTML boxes for pages and as lines of characters for terminals.

A strip has the margin as a band, a line at no change, and the interval as a bar with a mark at the estimate. Strips are
HTML boxes because pages must not contain SVG elements. Summaries contain the numbers of strips (`EffectInterval`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from markupsafe import Markup

from loadbook.core.metrics import Metric
from loadbook.core.text import clean
from loadbook.report import palette
from loadbook.report.ratios import RatioScale, effect_label, log_ratio, ratio_scale
from loadbook.stats.results import AnalysisRow, Interval, loss_at_margin
from loadbook.stats.text import confidence_text, direction, margin_text, row_texts

CHECK = "check"  # kind of the strips of harness checks
SHORTEST_LINE = 60  # columns of the narrowest terminal with strips
_INDENT, _LONGEST_AXIS = "    ", 56
KEY_LINE = f"{_INDENT}░ within the margin   │ no change   ├─▲─┤ interval"


@dataclass(frozen=True)
class EffectInterval:
    """An effect (ratio minus 1), its interval and the margin: what a strip shows.

    `kind` is the kind of the verdict or `CHECK`, `glyph` the glyph of the verdict, `margin` the ends of the band,
    `text` the numbers for readers who cannot see the strip.
    """

    kind: str
    glyph: str
    change: float
    low: float
    high: float
    margin: Interval
    text: str

    @property
    def ends(self) -> Interval:
        """The ends of the interval."""
        return self.low, self.high


def effect_interval(row: AnalysisRow, metric: Metric) -> EffectInterval | None:
    """Return what the strip of a row shows; None if the row was not compared, or its interval is not finite.

    The interval of a one-sided question reaches from the bound at worst to the bound at best, and its band has the
    losses that are accepted.
    """
    verdict, interval = row.verdict, row.verdict and row.verdict.comparison.ci95
    if verdict is None or not row.is_compared or not interval or not all(map(math.isfinite, interval)):
        return None
    comparison, texts = verdict.comparison, row_texts(row)
    margin: Interval = (-verdict.margin, verdict.margin)
    numbers = f"{texts.change} ({confidence_text(comparison.level)} interval {texts.interval})"
    numbers += f", margin ±{margin_text(verdict.margin)}" if verdict.margin else ""
    if verdict.one_sided_bounds:
        interval, loss = verdict.one_sided_bounds, loss_at_margin(verdict.margin, direction(comparison.metric))
        margin = (min(loss, 0.0), max(loss, 0.0))
        numbers = f"{texts.change} (at worst {texts.worst}, at best {texts.best})"
        numbers += f", largest loss accepted {margin_text(verdict.margin)}"
    kind, glyph = palette.row_kind(row), palette.row_glyph(row)
    text = f"{row.label}: {palette.row_word(row, metric)}, {numbers}"
    return EffectInterval(kind, glyph, comparison.effect or 0.0, min(interval), max(interval), margin, text)


def interval_records(sentences: Iterable[tuple[str, EffectInterval | None]]) -> list[dict[str, Any]]:
    """Return a summary's records of intervals: a sentence and the fields of its `EffectInterval`.

    `sentences` are pairs of verdict sentence and interval; those without an interval are left out.
    """
    return [{"sentence": sentence} | asdict(interval) for sentence, interval in sentences if interval]


def read_intervals(summary: Mapping[str, Any]) -> dict[str, EffectInterval]:
    """Return verdict sentence -> interval from a summary's records ("effects"), in their order.

    It is empty for a summary of an earlier version, which has none.
    """
    names = [field.name for field in fields(EffectInterval)]
    return {
        one["sentence"]: EffectInterval(**{name: one[name] for name in names}) for one in summary.get("effects", [])
    }


def common_scale(intervals: Iterable[EffectInterval]) -> RatioScale:
    """Return one axis for several strips; an interval much wider than the decided effects is cut.

    Decided effects are those of all strips whose kind is not "undecided".
    """
    shown = list(intervals)
    decided = [one.change for one in shown if one.kind != "undecided"]
    margin = max((abs(end) for one in shown for end in one.margin), default=0.0)
    scale = ratio_scale([one.ends for one in shown], [], decided, margin)
    return scale if scale.low < scale.high else RatioScale(-0.01, 0.01)


def strip_html(interval: EffectInterval, scale: RatioScale, *, described: bool = True) -> Markup:
    """Return a strip as HTML; `described`: with its numbers as a text, otherwise the page has them beside it."""

    def percent(effect: float) -> float:
        return 100 * (scale.clip(log_ratio(effect)) - scale.low) / (scale.high - scale.low)

    def box(css: str, low: float, high: float | None = None) -> Markup:
        width = "" if high is None else f";width:{percent(high) - percent(low):.2f}%"
        return Markup('<i class="{}" style="left:{:.2f}%{}"></i>').format(css, percent(low), width)

    boxes = [box("band", *interval.margin), box("zero", 0.0), box("bar", *interval.ends)]
    boxes += [box("beyond low", interval.low)] if log_ratio(interval.low) < scale.low else []
    boxes += [box("beyond high", interval.high)] if log_ratio(interval.high) > scale.high else []
    boxes += [box("dot", interval.change)] if scale.contains(log_ratio(interval.change)) else []
    about = Markup('role="img" aria-label="{0}" title="{0}"') if described else Markup('aria-hidden="true"')
    about = about.format(clean(interval.text))
    return Markup('<span class="strip bar-{}" {}>{}</span>').format(interval.kind, about, Markup("").join(boxes))


def summary_strip(summary: Mapping[str, Any]) -> Markup:
    """Return the strip of a summary's first treatment, for the index and the page of a batch.

    It is empty for a summary of an earlier version, and if there is no verdict or no treatment was compared.
    """
    first = next((one for one in read_intervals(summary).values() if one.kind != CHECK), None)
    if first is None or (summary.get("verdict") or {}).get("kind") == "invalid":
        return Markup("")
    return strip_html(first, common_scale([first]))


@dataclass(frozen=True)
class StripRow:
    """A row of a figure for narrow screens: name, verdict and change as texts, and the intervals on its axis.

    `kind` sets the colour of the verdict, as in `EffectInterval`.
    """

    name: str
    verdict: str
    change: str
    kind: str
    intervals: Sequence[EffectInterval]


def rows_html(head: str, rows: Sequence[StripRow], scale: RatioScale) -> Markup:
    """Return the rows of a figure as a list that is shown on screens too narrow for the picture.

    `head` explains the numbers and the band.
    """
    items = [
        Markup('<li><b>{}</b> <span class="v v-{}">{}</span> <span>{}</span>{}</li>').format(
            clean(row.name), row.kind, clean(row.verdict), clean(row.change),
            Markup("").join(strip_html(one, scale, described=False) for one in row.intervals),
        )
        for row in rows
    ]  # fmt: skip
    return Markup('<p class="rows soft">{}</p>\n<ul class="rows">\n{}\n</ul>\n').format(
        clean(head), Markup("\n").join(items)
    )


def strip_lines(summary: Mapping[str, Any], columns: int) -> dict[str, str]:
    """Return sentence -> strip of a summary as a line of characters, for a terminal of this width.

    It is empty for less than `SHORTEST_LINE` columns, and if the summary has no intervals.
    """
    intervals = read_intervals(summary)
    if not intervals or columns < SHORTEST_LINE:
        return {}
    scale = common_scale(intervals.values())
    ends = [effect_label(float(f"{math.expm1(end):.2g}")) for end in (scale.low, scale.high)]
    width = min(_LONGEST_AXIS, columns - len(_INDENT) - sum(map(len, ends)) - 3)
    return {
        sentence: f"{_INDENT}{ends[0]} {_axis_text(one, scale, width)} {ends[1]}" for sentence, one in intervals.items()
    }


def _axis_text(interval: EffectInterval, scale: RatioScale, width: int) -> str:
    """Return the axis of a strip in `width` characters."""

    def column(effect: float) -> int:
        return round((width - 1) * (scale.clip(log_ratio(effect)) - scale.low) / (scale.high - scale.low))

    text = ["·"] * width
    first, last = map(column, interval.margin)
    text[first : last + 1] = "░" * (last - first + 1)
    text[column(0.0)] = "│"
    first, last = map(column, interval.ends)
    text[first : last + 1] = ["┼" if one == "│" else "─" for one in text[first : last + 1]]
    text[first] = "├" if log_ratio(interval.low) >= scale.low else "◄"
    text[last] = "┤" if log_ratio(interval.high) <= scale.high else "►"
    if scale.contains(log_ratio(interval.change)):
        text[column(interval.change)] = interval.glyph
    return "".join(text)
