"""Figure of latency percentiles per trial, which shows whether the tail changes more than trials scatter.

A second figure shows the latency of all treatments by percentile; no test is based on it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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

PERCENTILE_TICKS = (50, 75, 90, 99, 99.9, 99.99)
ALT_SHARES = (0.5, 0.1, 0.01, 0.001)  # shares of slower requests for which the alternative text gives the latency
Percentiles = Mapping[str, tuple[pd.DataFrame, Analysis]]
Profile = tuple[tuple[float, ...], tuple[float, ...]]  # shares of slower requests, and the times (s) at them
MOST_IN_A_ROW, NAME_LETTERS, ROW_IN, TITLES_IN, DISTRIBUTION_IN, LEGEND_LINE_IN = 6, 22, 0.31, 0.8, 3.1, 0.21
PLAIN_STYLE = palette.VerdictStyle(palette.INK, palette.INK, "", "o", hollow=True)


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

    def _draw(self) -> base.Drawing:
        names = [base.fold(self.names[row.treatment], NAME_LETTERS) for row in self.rows]
        row_in = ROW_IN + 0.07 * any("\n" in name for name in names)
        across = min(MOST_IN_A_ROW, max(1, len(self.percentiles)))
        down = max(1, math.ceil(len(self.percentiles) / across))
        drawing = base.Drawing(down * (len(self.rows) * row_in + TITLES_IN))
        panels = list(
            drawing.figure.subplots(down, across, sharey=True, squeeze=False, gridspec_kw={"wspace": 0.1}).flat
        )
        for panel in panels[len(self.percentiles) :]:
            panel.remove()
        panels[0].set_ylim(len(self.rows), 0)
        axes.set_ticks(panels[0].yaxis, [k + 0.5 for k in range(len(self.rows))], names)
        for panel, (percentile, (values, own)) in zip(panels, self.percentiles.items(), strict=False):
            panel.tick_params(axis="y", length=0, labelcolor=palette.INK)
            limits = axes.value_range(values.loc[values["valid"], "value"])
            unit = axes.axis_unit(get_metric(own.metric), limits[1])
            axes.set_value_scale(panel.xaxis, limits, unit)
            panel.set_title(percentile)
            panel.set_xlabel(f"{unit.name} (log)")
            self._draw_percentile(panel, values, own)
        return drawing

    def _draw_percentile(self, panel: Axes, values: pd.DataFrame, own: Analysis) -> None:
        usable = values[values["valid"] & (values["value"] > 0)]
        rank = usable["block"].rank(method="dense") - 0.5
        heights = 0.56 * (rank / max(1.0, rank.max() + 0.5) - 0.5) if len(usable) else rank
        styles = {} if self.analysis.is_void else {row.treatment: palette.row_style(row) for row in own.rows}
        for k, row in enumerate(self.rows):
            trials = usable[usable["treatment"] == row.treatment]
            if trials.empty:
                panel.annotate("not measured", (0.5, k + 0.5), xycoords=("axes fraction", "data"), ha="center",
                               va="center", size=base.SMALLEST_PT, color=palette.SOFT)  # fmt: skip
                continue
            style = styles.get(row.treatment, PLAIN_STYLE)
            style = style if style.marker else PLAIN_STYLE
            props = base.marker_props(style, 3.8) | {"markeredgewidth": 0.8 if style.hollow else 0.2}
            panel.plot(trials["value"], k + 0.5 + heights[trials.index], **props)
            panel.plot([trials["value"].median()] * 2, [k + 0.1, k + 0.9], color=style.edge, linewidth=2.4, zorder=3)
        baseline = usable.loc[usable["treatment"] == own.baseline, "value"]
        if len(baseline):
            panel.axvline(baseline.median(), color=palette.INK, linewidth=0.9, linestyle=axes.DASHED, zorder=1)

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
        """The subject, and the median of each treatment at each percentile in words."""
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
        counts: dict[str, int] = {}  # treatment -> valid trials, at the percentile that most of them have
        for values, _ in (percentiles or {}).values():
            usable = values[values["valid"] & (values["value"] > 0)]
            for treatment, number in usable.groupby("treatment").size().items():
                counts[str(treatment)] = max(int(number), counts.get(str(treatment), 0))
        self.medians = _median_profiles(percentiles or {}, set(curves), counts)
        self.trials = [number for name, number in counts.items() if name in self.medians]
        drawn = {name: (curve.shares_slower, curve.times_s) for name, curve in curves.items()} | self.medians
        order = [row.treatment for row in analysis.rows if row.treatment in drawn]
        self.profiles: dict[str, Profile] = {name: drawn[name] for name in order}
        times = [t for _, own in self.profiles.values() for t in own if t > 0]
        low, high = (min(times), max(times)) if times else (1e-3, 1e-2)
        self.limits = (low / 1.05, max(high, 1.1 * low) * 1.05)
        self.unit = axes.axis_unit(get_metric("latency"), self.limits[1])

    def _draw(self) -> base.Drawing:
        order = sorted(self.profiles, key=lambda name: -self.profiles[name][1][-1])
        names = {name: base.fold(self.names[name], NAME_LETTERS) for name in order}
        lines = sum(map(base.line_count, names.values()))
        drawing = base.Drawing(max(DISTRIBUTION_IN, LEGEND_LINE_IN * lines + 0.2))
        panel = drawing.figure.subplots()
        least = min(min(shares) for shares, _ in self.profiles.values())
        panel.set_xscale("log")
        panel.set_xlim(1, least**1.05)
        ticks = [p for p in PERCENTILE_TICKS if 1 - p / 100 >= least * 0.999 and (p != 75 or least > 1e-6)]
        axes.set_ticks(panel.xaxis, [1 - p / 100 for p in ticks], [f"p{p:g}" for p in ticks])
        panel.grid(axis="x", color=palette.GRID, linewidth=0.8)
        panel.set_xlabel("percentile, every further nine as wide as the one before")
        axes.set_value_scale(panel.yaxis, self.limits, self.unit)
        panel.set_ylabel(f"latency, {self.unit.name} (log)")
        colours = axes.line_colours([row.treatment for row in self.analysis.rows], self.analysis.baseline)
        for name in order:
            shares, times = self.profiles[name]
            is_baseline, marker = name == self.analysis.baseline, "o" if name in self.medians else ""
            panel.plot(
                shares, [t if t > 0 else math.nan for t in times], color=colours[name], marker=marker, markersize=3.5,
                linewidth=2.0 if is_baseline else 1.6, linestyle=axes.DASHED if is_baseline else "-",
                zorder=4 if is_baseline else 3, label=names[name],
            )  # fmt: skip
        drawing.figure.legend(loc="outside right center", labelcolor="linecolor")
        return drawing

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
        """The subject, and the percentiles read from the lines in words."""
        texts = []
        for name, (shares, times) in self.profiles.items():
            known = dict(zip(shares, times, strict=True))
            if curve := self.curves.get(name):
                points = list(zip(curve.shares_slower, curve.times_s, strict=True))
                drawn = [share for share in ALT_SHARES if share >= min(shares)]
                known = {share: next(t for s, t in points if s <= share * (1 + 1e-9)) for share in drawn}
            values = [f"p{100 - 100 * share:g} {format_duration(t)}" for share, t in known.items()]
            texts.append(f"{self.names[name]}: {', '.join(values)}")
        return "Latency by percentile.", f"{'; '.join(texts)}."


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
