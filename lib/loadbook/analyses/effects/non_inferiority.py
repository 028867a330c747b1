"""The non-inferiority plot: whether each loss is certainly smaller than the largest loss that is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from loadbook.analyses.effects.effect_rows import EffectRowsFigure, is_compared, reference_text
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import level_text, marker_props, metric_label, pluralize
from loadbook.stats import headline
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import comparison_texts, direction, margin_text, verdict_phrase
from loadbook.stats.verdict import loss_at_margin


class NonInferiorityFigure(EffectRowsFigure):
    """Each treatment's one-sided bounds against the largest loss that is accepted."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self.change_head = f"one-sided {level_text(analysis)} bound, blocks"
        self.margin_label = f"largest loss accepted, {margin_text(analysis.margin)}, declared before"
        self.margin_at = loss_at_margin(analysis.margin, direction(analysis.metric))

    def verdict_text(self, row: AnalysisRow) -> str:
        """Return glyph and verdict; of a one-sided verdict with the loss that it excludes or finds."""
        if row.verdict is None or not row.verdict.one_sided_bounds:
            return super().verdict_text(row)
        margin = margin_text(row.verdict.margin)
        words = {"no-loss": f"no loss beyond {margin}", "worse": f"loses more than {margin}"}
        return f"{palette.row_glyph(row)} {words.get(row.verdict.kind, 'undecided')}"

    def change_text(self, row: AnalysisRow) -> str:
        """Return the bound that decides, or does not yet, and how many blocks it uses."""
        if row.verdict is None or not row.verdict.one_sided_bounds:
            return super().change_text(row)
        texts = comparison_texts(row.verdict)
        bound = f"at best {texts.best}" if row.verdict.kind == "worse" else f"at worst {texts.worst}"
        return f"{bound}, {texts.blocks}"

    def note(self, row: AnalysisRow) -> str:
        """Return the verdict on errors where there is one: it comes before that on the rate."""
        errors = row.errors
        if row.kind != "treatment" or (not errors.trials_with_errors and errors.kind != "fewer"):
            return ""
        word = f"{errors.kind} errors" if errors.kind in ("more", "fewer") else "errors undecided"
        return f"{word}: {errors.trials_with_errors} of {pluralize(errors.trials, 'trial')}"

    def draw_background(self, panel: Axes, ticks: Sequence[float], top: float, bottom: float) -> None:
        """Draw the grid, no difference as a thin line, and the accepted losses up to the solid edge of their band."""
        axes.draw_ratio_grid(panel, ticks, top, bottom)
        edge = axes.log_ratio(self.margin_at)
        band = Rectangle((min(edge, 0), top), abs(edge), bottom - top, facecolor=palette.BAND, linewidth=0, zorder=-3)
        panel.add_patch(band)
        for position, width in ((0.0, 0.8), (edge, 1.8)):
            panel.plot([position] * 2, [top, bottom], color=palette.INK, linewidth=width, zorder=-2,
                       solid_capstyle="butt")  # fmt: skip

    def draw_row(self, panel: Axes, scale: axes.RatioScale, y: float, row: AnalysisRow) -> None:
        """Draw the interval thin and the bound that decides as a thick tick; checks as in the effect plot."""
        verdict = row.verdict
        if verdict is None or not verdict.one_sided_bounds:
            return super().draw_row(panel, scale, y, row)
        style, bounds = palette.row_style(row), [axes.log_ratio(end) for end in verdict.one_sided_bounds]
        ends = [min(max(bound, scale.low + scale.padding), scale.high - scale.padding) for bound in bounds]
        panel.plot(ends, [y, y], color=style.edge, linewidth=1.3, solid_capstyle="butt", zorder=3)
        decides = verdict.kind == "worse"
        if scale.contains(bounds[decides]):
            panel.plot([ends[decides]] * 2, [y - 0.1, y + 0.1], color=style.edge, linewidth=3.4, zorder=3)
        interval = (min(verdict.one_sided_bounds), max(verdict.one_sided_bounds))
        axes.draw_arrow_heads(panel, scale, y, interval, style.edge)
        estimate = axes.log_ratio(verdict.comparison.effect or 0.0)
        if scale.contains(estimate):
            panel.plot([estimate], [y], zorder=4, **marker_props(style, 7.4))

    @property
    def caption(self) -> str:
        """Whether any treatment loses more than is accepted, in one sentence."""
        rows = self.analysis.of_kind("treatment")
        if text := headline.neutral_caption(self.analysis):
            return text
        if not any(map(is_compared, rows)):
            return "No treatment could be compared."
        return headline.non_inferiority_headline(rows, self.analysis.margin)

    @property
    def help(self) -> str:
        """How the figure is read."""
        text = self.reference_note + (
            f"thick tick: the one-sided {level_text(self.analysis)} bound that decides; thin line: from the bound at "
            f"worst to the bound at best; solid line: the largest loss accepted, {margin_text(self.analysis.margin)}, "
            "declared before the run; shaded: losses smaller than that"
        )
        verdicts = [row.verdict for row in self.analysis.of_kind("treatment") if row.verdict]
        bounds = [bound for verdict in verdicts for bound in verdict.one_sided_bounds or ()]
        if not all(self.scale.contains(axes.log_ratio(bound)) for bound in bounds):
            text += "; arrow head: it goes on beyond the axis"
        has_known_effect = any(row.expected_effect is not None for row in self.rows if is_compared(row))
        text += "; long tick: the true size of the known effect." if has_known_effect else "."
        return f"{text[0].upper()}{text[1:]}"

    @property
    def alt_text(self) -> str:
        """The caption and every row's bound in words."""
        label = metric_label(self.metric, self.analysis.statistic)
        head = f"Loss of each treatment in {label} against {reference_text(self.analysis)}."
        rows = [
            f"{self.names[row.treatment]}{verdict_phrase(row.verdict, against=row.reference_label)}"
            for row in self.analysis.of_kind("treatment")
            if row.verdict
        ]
        return " ".join([head, self.caption, *rows])
