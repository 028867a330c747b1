"""Figure of latency percentiles per trial, which shows whether the tail changes more than trials scatter.

A second figure shows the latency of all treatments by percentile; no test is based on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_duration, join_words, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base
from loadbook.request_logs.summary import ExceedanceCurve
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.headline import neutral_headline, open_claim_sentence
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import direction_word, margin_text, row_texts

DISTRIBUTION_IN, DISTRIBUTION_LEFT_IN, DISTRIBUTION_NAMES_IN = 2.5, 0.5, 1.75
PERCENTILE_TICKS = (50, 90, 99, 99.9, 99.99, 75)  # the most important first
ALT_SHARES = (0.5, 0.1, 0.01, 0.001)  # shares of slower requests for which the alternative text gives the latency
Percentiles = Mapping[str, tuple[pd.DataFrame, Analysis]]
Profile = tuple[tuple[float, ...], tuple[float, ...]]  # shares of slower requests, and the times (s) at them
MOST_IN_A_ROW, NAME_IN, ROW_IN = 6, 1.6, 0.31
PLAIN_STYLE = palette.VerdictStyle(palette.INK, palette.INK, "", "o", hollow=True)


def _small_multiples(
    number: int, most_in_a_row: int, each: tuple[float, float, float], sides: tuple[float, float], gap: float
) -> tuple[base.Sheet, float, list[tuple[float, float]]]:
    """Return a sheet for panels side by side, the width of the panels, and (left, top) of each panel in inches.

    Parameters
    ----------
    each : height above each panel, of each panel, and below each panel, in inches.
    sides : inches left of the first and right of the last panel of a row.
    gap : inches between two panels.
    """
    (head, height, foot), (left, right), across = each, sides, min(most_in_a_row, max(1, number))
    step = head + height + foot
    sheet = base.Sheet(step * max(1, math.ceil(number / across)))
    width = (sheet.width - left - right - gap * (across - 1)) / across
    places = [divmod(n, across) for n in range(number)]
    return sheet, width, [(left + column * (width + gap), row * step + head) for row, column in places]


class LatencyFigure(base.ReportFigure):
    """One panel per percentile, one row per treatment, one mark per trial in the colour of the percentile's verdict.

    Parameters
    ----------
    analysis : analysis of the study's metric, which determines the order of the rows.
    percentiles : percentile, like "p99" -> (`RunData.values` of it, its own analysis).
    definition : the load tool's definition of a percentile.
    """

    def __init__(self, analysis: Analysis, percentiles: Percentiles, definition: str = "") -> None:
        self.analysis, self.percentiles, self.definition = analysis, percentiles, definition
        self.names, self.rows = base.treatment_names(analysis), base.rows_in_reading_order(analysis)

    def _draw(self) -> base.Sheet:
        size = base.LETTER_PT - 0.4
        names = [base.wrap(self.names[r.treatment], NAME_IN, size) for r in self.rows]
        step = ROW_IN + 0.07 * any("\n" in name for name in names)
        height, left = len(self.rows) * step, base.max_text_width(names, size) + 0.16
        each = (0.28, height, 0.54)
        sheet, width, places = _small_multiples(len(self.percentiles), MOST_IN_A_ROW, each, (left, 0.12), 0.18)
        for (percentile, (values, own)), (x, y) in zip(self.percentiles.items(), places, strict=True):
            panel = sheet.panel(x, y, x + width, y + height)
            sheet.text(x, y - 0.13, percentile, bold=True)
            limits = axes.value_range(values.loc[values["valid"], "value"])
            unit = axes.axis_unit(get_metric(own.metric), limits[1])
            axes.set_value_x_axis(panel, limits, unit, width, size)
            self._draw_percentile(panel, values, own)
            middle = x + width / 2
            sheet.text(middle, y + height + 0.35, f"{unit.name} (log)", size=size, colour=palette.SOFT, align="center")
            for k, name in enumerate(names if x == left else ()):
                sheet.text(left - 0.1, y + (k + 0.5) * step, name, size=size, align="right")
        return sheet

    def _draw_percentile(self, panel: Axes, values: pd.DataFrame, own: Analysis) -> None:
        usable = values[values["valid"] & (values["value"] > 0)]
        panel.set_ylim(len(self.rows), 0)
        panel.set_yticks([])
        rank = usable["block"].rank(method="dense") - 0.5
        heights = 0.56 * (rank / max(1.0, rank.max() + 0.5) - 0.5) if len(usable) else rank
        styles = {} if self.analysis.is_void else {row.treatment: palette.row_style(row) for row in own.rows}
        for k, row in enumerate(self.rows):
            trials = usable[usable["treatment"] == row.treatment]
            if trials.empty:
                panel.text(0.5, k + 0.5, "not measured", transform=panel.get_yaxis_transform(), ha="center",
                           va="center", fontsize=7.5, color=palette.SOFT)  # fmt: skip
                continue
            style = styles.get(row.treatment, PLAIN_STYLE)
            style = style if style.marker else PLAIN_STYLE
            props = base.marker_props(style, 3.8) | {"markeredgewidth": 0.8 if style.hollow else 0.2}
            panel.plot(np.log(trials["value"]), k + 0.5 + heights[trials.index], **props)
            median = math.log(trials["value"].median())
            panel.plot([median] * 2, [k + 0.1, k + 0.9], color=style.edge, linewidth=2.4, solid_capstyle="butt",
                       zorder=3)  # fmt: skip
        baseline = usable.loc[usable["treatment"] == own.baseline, "value"]
        if len(baseline):
            median = math.log(baseline.median())
            panel.axvline(median, color=palette.INK, linewidth=0.9, linestyle=axes.DASHED, zorder=1)

    @property
    def caption(self) -> str:
        """Sentences on the treatments that change latency, with the percentiles and the largest change."""
        if not self.percentiles:
            return "This tool prints no percentiles."
        if text := neutral_headline(self.analysis, about=" on any percentile"):
            return text
        changes: dict[str, list[tuple[str, AnalysisRow]]] = {}  # treatment -> (percentile, its row)
        for percentile, (_, own) in self.percentiles.items():
            for row in own.of_kind("treatment"):
                if row.verdict and row.verdict.kind in ("better", "worse"):
                    changes.setdefault(row.treatment, []).append((percentile, row))
        if not changes:
            return self._no_change_caption()
        order = [r.treatment for r in self.analysis.of_kind("treatment") if r.treatment in changes]
        phrases = [f"{self.names[t]}: {_changes_phrase(changes[t], list(self.percentiles))}" for t in order[:3]]
        more = len(order) - len(phrases)
        return "; ".join(phrases) + (f"; {pluralize(more, 'more treatment')} with a shift." if more else ".")

    def _no_change_caption(self) -> str:
        """Return the caption if no percentile is shown to change: how many treatments are undecided or not compared."""
        rows = [row for _, own in self.percentiles.values() for row in own.of_kind("treatment")]
        states: dict[str, set[str]] = {}  # treatment -> kinds of its verdicts
        for row in rows:
            states.setdefault(row.treatment, set()).add(row.verdict.kind if row.verdict else "invalid")
        not_compared = [name for name, kinds in states.items() if kinds == {"invalid"}]
        undecided = [name for name, kinds in states.items() if "undecided" in kinds]
        if len(not_compared) == len(states):
            reasons = [row.verdict.reason for row in rows if row.verdict and row.verdict.reason]
            return f"Not compared: {reasons[0]}." if reasons else "Not compared."
        margin = margin_text(next(iter(self.percentiles.values()))[1].margin)
        claim = f"no treatment is shown to change any percentile by {margin} or more"
        return open_claim_sentence(claim, len(undecided), len(not_compared), of=len(states))

    @property
    def help(self) -> str:
        """Instructions for reading the figure, with the load tool's definition of a percentile."""
        own = next(iter(self.percentiles.values()))[1] if self.percentiles else self.analysis
        parts = [
            f"One mark is one trial’s percentile{', ' + self.definition if self.definition else ''};",
            f"bar: median of the trials ({base.blocks_text(own)}); dashed: baseline.",
            "Each panel has a range of its own, which does not start at zero.",
            f"Colour and shape: this percentile’s own verdict, margin {margin_text(own.margin)}; grey is undecided.",
        ]
        return " ".join(parts[:-1] if self.analysis.is_void else parts)

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: the median of each treatment at each percentile."""
        lines = []
        for percentile, (values, own) in self.percentiles.items():
            medians = values[values["valid"]].groupby("treatment")["value"].median()
            names = base.treatment_names(own)
            texts = [f"{names.get(str(t), str(t))} {format_duration(float(v))}" for t, v in medians.items() if v > 0]
            lines.append(f"{percentile}: " + ", ".join(texts))
        return "Latency percentiles per trial.", f"Medians: {'; '.join(lines)}."


def _changes_phrase(changes: list[tuple[str, AnalysisRow]], percentiles: Sequence[str]) -> str:
    """Return "p50 longer (+72 %, +60 to +80 %), p75 to p99 shorter, p90 most (...)", grouped by direction."""
    by_direction: dict[str, list[tuple[str, AnalysisRow]]] = {}
    for percentile, row in changes:
        if row.verdict:
            direction = direction_word(row.verdict.comparison.metric, _effect(row))
            by_direction.setdefault(direction, []).append((percentile, row))
    phrases = []
    for direction, group in by_direction.items():
        largest, row = max(group, key=lambda item: abs(math.log1p(_effect(item[1]))))
        size = f"({row_texts(row).change}, {row_texts(row).interval})"
        most = f", {largest} most {size}" if len(group) > 1 else f" {size}"
        phrases.append(f"{_percentile_range([p for p, _ in group], percentiles)} {direction}{most}")
    return ", ".join(phrases)


def _percentile_range(chosen: list[str], percentiles: Sequence[str]) -> str:
    """Return "every percentile"; "p75 to p99" for three or more adjacent percentiles; else all of them joined."""
    if len(chosen) == len(percentiles) > 1:
        return "every percentile"
    first = percentiles.index(chosen[0])
    if len(chosen) > 2 and list(percentiles[first : first + len(chosen)]) == chosen:
        return f"{chosen[0]} to {chosen[-1]}"
    return join_words(chosen)


def _effect(row: AnalysisRow) -> float:
    return (row.verdict.comparison.effect if row.verdict else None) or 0.0


class LatencyDistributionFigure(base.ReportFigure):
    """One panel, one line per treatment: the latency at each percentile, on an axis that stretches the tail.

    Parameters
    ----------
    analysis : analysis of the study's metric, which determines names and order.
    curves : treatment -> latency distribution of the requests of all its valid trials, from request logs.
    percentiles : as of `LatencyFigure`; the medians over trials are drawn for treatments without a curve.
    """

    def __init__(
        self, analysis: Analysis, curves: Mapping[str, ExceedanceCurve], percentiles: Percentiles | None = None
    ) -> None:
        self.analysis, self.curves, self.names = analysis, curves, base.treatment_names(analysis)
        counts = _counting_trials(percentiles or {})
        self.medians = _median_profiles(percentiles or {}, set(curves), counts)
        self.trials = [number for name, number in counts.items() if name in self.medians]
        drawn = {name: (curve.shares_slower, curve.times_s) for name, curve in curves.items()} | self.medians
        order = [row.treatment for row in analysis.rows if row.treatment in drawn]
        self.profiles: dict[str, Profile] = {name: drawn[name] for name in order}
        times = [t for _, own in self.profiles.values() for t in own if t > 0]
        low, high = (min(times), max(times)) if times else (1e-3, 1e-2)
        self.limits = (low / 1.05, max(high, 1.1 * low) * 1.05)
        self.unit = axes.axis_unit(get_metric("latency"), self.limits[1])

    def _draw(self) -> base.Sheet:
        size = base.LETTER_PT - 0.4
        sheet = base.Sheet(DISTRIBUTION_IN + 0.62)
        right = sheet.width - DISTRIBUTION_NAMES_IN
        panel = sheet.panel(DISTRIBUTION_LEFT_IN, 0.1, right, 0.1 + DISTRIBUTION_IN)
        axes.set_value_y_axis(panel, self.limits, self.unit, DISTRIBUTION_IN)
        least = min(min(shares) for shares, _ in self.profiles.values())
        panel.set_xlim(0, _stretched(least) * 1.05)
        inches = right - DISTRIBUTION_LEFT_IN
        ticks = [(_stretched(1 - p / 100), f"p{p:g}") for p in PERCENTILE_TICKS if 1 - p / 100 >= least * 0.999]
        axes.set_fitting_ticks(panel.xaxis, ticks, inches, size)
        for at, _ in ticks:
            panel.axvline(at, color=palette.GRID, linewidth=0.8, zorder=-2)
        colours = axes.line_colours([row.treatment for row in self.analysis.rows], self.analysis.baseline)
        for name, (shares, times) in self.profiles.items():
            xs, ys = zip(
                *((_stretched(s), math.log(t)) for s, t in zip(shares, times, strict=True) if t > 0), strict=True
            )
            is_baseline, marker = name == self.analysis.baseline, "o" if name in self.medians else ""
            panel.plot(
                xs, ys, color=colours[name], linewidth=2.0 if is_baseline else 1.6, marker=marker, markersize=3.5,
                linestyle=axes.DASHED if is_baseline else "-", zorder=4 if is_baseline else 3,
            )  # fmt: skip
        self._name_lines(sheet, right, size, colours)
        title = f"percentile, every further nine as wide as the one before; vertical: latency, {self.unit.name} (log)"
        middle = (DISTRIBUTION_LEFT_IN + right) / 2
        sheet.text(middle, sheet.height - 0.12, title, size=size, colour=palette.SOFT, align="center")
        return sheet

    def _name_lines(self, sheet: base.Sheet, right: float, size: float, colours: Mapping[str, str]) -> None:
        """Write each line's name beside its end, or as near as the other names allow."""
        low, high = (math.log(limit) for limit in self.limits)
        ends = {name: math.log(times[-1]) for name, (_, times) in self.profiles.items()}
        wanted = [0.1 + DISTRIBUTION_IN * (high - end) / (high - low) for end in ends.values()]
        heights = [base.text_height(size)] * len(wanted)
        places = base.avoid_overlap(wanted, heights, 0.06, max(DISTRIBUTION_IN + 0.2, sum(heights) + 0.1))
        for name, y in zip(ends, places, strict=True):
            text = base.shorten(self.names[name], DISTRIBUTION_NAMES_IN - 0.12, size)
            sheet.text(right + 0.1, y, text, size=size, colour=colours[name], bold=name == self.analysis.baseline)

    @property
    def caption(self) -> str:
        """A description of the figure, and the remark that no verdict is based on it."""
        if not self.curves:
            least, most = min(self.trials, default=0), max(self.trials, default=0)
            number = f"{least} to {pluralize(most, 'trial')}" if least < most else pluralize(most, "trial")
            few = ", so few that chance may order the lines" if least < MIN_BLOCKS else ""
            return f"Medians over {number} of each treatment{few}: it describes, and nothing is tested on it."
        requests = sum(c.requests for c in self.curves.values())
        trials = pluralize(sum(c.trials for c in self.curves.values()), "trial")
        together = f"{requests:,} requests of {trials}, put together for the picture"
        return f"{together}: it describes, and nothing is tested on it."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        parts = [
            "A line: all requests of the treatment’s counting trials together, but the last 20." if self.curves else "",
            "A mark: the median of the trials at a percentile that each of them has." if self.medians else "",
            "Dashed: the baseline. Verdicts come only from the percentiles of single trials above.",
        ]
        return " ".join(filter(None, parts))

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: percentiles read from the lines."""
        texts = []
        for name, (shares, times) in self.profiles.items():
            known = dict(zip(shares, times, strict=True))
            if curve := self.curves.get(name):
                known = {share: _time_at(curve, share) for share in ALT_SHARES if share >= min(shares)}
            values = [f"p{100 - 100 * share:g} {format_duration(t)}" for share, t in known.items()]
            texts.append(f"{self.names[name]}: {', '.join(values)}")
        return "Latency by percentile.", f"{'; '.join(texts)}."


def _stretched(share_slower: float) -> float:
    """Return the position of a percentile on the axis: every nine of 0.9, 0.99, 0.999 has the same width."""
    return -math.log10(share_slower)


def _median_profiles(percentiles: Percentiles, others: set[str], counts: Mapping[str, int]) -> dict[str, Profile]:
    """Return treatment -> (shares of slower requests, medians over valid trials in s), but for `others`."""
    points: dict[str, dict[float, float]] = {}
    for percentile, (values, _) in percentiles.items():
        usable = values[values["valid"] & (values["value"] > 0)]
        for treatment, own in usable.groupby("treatment")["value"]:
            if len(own) == counts[str(treatment)]:  # medians over fewer trials may fall from percentile to percentile
                points.setdefault(str(treatment), {})[round(1 - float(percentile[1:]) / 100, 9)] = float(own.median())
    known = {name: dict(sorted(own.items(), reverse=True)) for name, own in points.items() if name not in others}
    return {name: (tuple(own), tuple(own.values())) for name, own in known.items() if len(own) > 1}


def _time_at(curve: ExceedanceCurve, share: float) -> float:
    return next(t for s, t in zip(curve.shares_slower, curve.times_s, strict=True) if s <= share * (1 + 1e-9))


def _counting_trials(percentiles: Percentiles) -> dict[str, int]:
    """Return treatment -> its number of valid trials, at the percentile that most of them have."""
    counts: dict[str, int] = {}
    for values, _ in percentiles.values():
        usable = values[values["valid"] & (values["value"] > 0)]
        for treatment, number in usable.groupby("treatment").size().items():
            counts[str(treatment)] = max(int(number), counts.get(str(treatment), 0))
    return counts
