"""The effect plot and the non-inferiority plot: rows of intervals on one axis of ratios.

A row has the treatment's name, its interval over the margin band, its verdict and its change; harness checks are below
the treatments.
"""

from __future__ import annotations

from functools import cached_property

from markupsafe import Markup
from matplotlib.axes import Axes

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_p_value, pluralize
from loadbook.report import palette
from loadbook.report.figures import axes, base, forest
from loadbook.report.figures.rows import Cell, Row
from loadbook.report.ratios import log_ratio
from loadbook.report.strips import StripRow, effect_interval, rows_html
from loadbook.stats import text as words
from loadbook.stats.headline import (
    headline,
    neutral_caption,
    no_change_clause,
    no_change_sentence,
    non_inferiority_headline,
)
from loadbook.stats.phrases import verdict_parts
from loadbook.stats.results import Analysis, AnalysisRow, VerdictKind, loss_at_margin
from loadbook.stats.text import direction, margin_text, row_texts


class EffectsFigure(base.ReportFigure):
    """The effect plot: each comparison's interval on a log axis of ratios, with verdict, change and blocks."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis, self.margin = analysis, analysis.margin
        self.metric, self.names = get_metric(analysis.metric), base.treatment_names(analysis)
        self.metric_label = base.metric_label(self.metric, analysis.statistic)
        self.reference = reference_text(analysis)
        self.rows = [*analysis.of_kind("treatment"), *analysis.of_kind("aa", "control")]
        self.change_head = f"change ({base.level_text(analysis)} interval), blocks"
        self.margin_label, self.margin_at = f"margin ±{margin_text(analysis.margin)}", 0.0
        self.band = (-analysis.margin, analysis.margin)

    def words_of(self, row: AnalysisRow) -> tuple[str, str, str]:
        """Return three texts of a row: verdict, change with interval and blocks (or why there is none), and ""."""
        return f"{palette.row_glyph(row)} {palette.row_word(row, self.metric)}", change_text(row), ""

    def draw_row(self, panel: Axes, y: float, row: AnalysisRow) -> None:
        """Draw the interval of one row."""
        if row.verdict:
            axes.draw_interval(panel, self.scale, y, row, row.verdict.comparison, tick=0.075)

    @cached_property
    def scale(self) -> axes.RatioScale:
        """The axis, long enough for the rows' intervals; intervals much wider than the decided effects are cut."""
        expected = [r.expected_effect for r in self.rows if r.is_compared and r.expected_effect is not None]
        return forest.interval_scale(self.rows, self.margin, expected)

    def _draw(self) -> base.Drawing:
        rows = [self._row(row) for row in self.rows]
        first_check = next((k for k, row in enumerate(self.rows) if row.kind != "treatment"), None)
        if first_check is not None:
            rows.insert(first_check, forest.CHECKS_TITLE)
        title = f"change in {self.metric_label} against {self.reference} (ratio, log scale)"
        drawing = forest.draw_forest(
            rows, ("verdict", self.change_head), self.scale, title, margin=self.margin, band=self.band,
            margin_label=self.margin_label, margin_at=self.margin_at, metric=self.analysis.metric,
        )  # fmt: skip
        self.draw_limit(drawing.panels[0])
        return drawing

    def draw_limit(self, panel: Axes) -> None:
        """Draw a limit in addition to the band of the margin: none here; subclasses override it."""

    def _row(self, row: AnalysisRow) -> Row:
        """Return the texts and marks of a row of the analysis."""
        compared, is_check = row.is_compared, row.kind != "treatment"
        verdict, change, second_line = self.words_of(row)
        change = change if compared else base.fold(change, forest.REASON_LETTERS, 3)
        name = base.fold(self.names[row.treatment], forest.NAME_LETTERS)
        size = base.LETTER_PT if compared else base.SMALL_PT
        cells = (
            Cell(verdict, bold=True, colour=palette.row_text_colour(row)),
            Cell("\n".join(filter(None, (change, second_line))), size=size),
        )
        hover = self._hover_text(row) if compared else ""
        return Row(Cell(name, bold=not is_check), cells, lambda panels, y: self.draw_marks(panels[0], y, row), hover)

    def rows_html(self) -> Markup:
        """Return the rows as a list for narrow screens: name, verdict, change, and the interval over the margin."""
        rows = []
        for row in self.rows:
            verdict, change, second_line = self.words_of(row)
            interval, css = effect_interval(row, self.metric), palette.row_kind(row)
            text = ", ".join(filter(None, (change, second_line)))
            rows.append(StripRow(self.names[row.treatment], verdict, text, css, [interval] if interval else []))
        to_the_right = f"to the right: {words.direction_words(self.analysis.metric).up}"
        return rows_html(f"{self.change_head}; shaded: {self.margin_label}; {to_the_right}", rows, self.scale)

    def _hover_text(self, row: AnalysisRow) -> str:
        """Return the hover text of a row: name, verdict, change, interval, blocks and p-value."""
        comparison = row.verdict.comparison if row.verdict else None
        p = f", p {format_p_value(comparison.p)}" if comparison and comparison.p is not None else ""
        return f"{self.names[row.treatment]}: {palette.row_word(row, self.metric)}, {change_text(row)} blocks{p}"

    def draw_marks(self, panel: Axes, y: float, row: AnalysisRow) -> None:
        """Draw a row's interval (for the positive control also its true effect), if it has one."""
        if not row.is_compared:
            return
        self.draw_row(panel, y, row)
        if row.expected_effect is not None and self.scale.contains(log_ratio(row.expected_effect)):
            expected = log_ratio(row.expected_effect)
            panel.plot([expected] * 2, [y - 0.11, y + 0.11], color=palette.INK, linewidth=1.1)

    @property
    def reference_note(self) -> str:
        """A note that names the reference of the rows if they are not all compared with the baseline, else ""."""
        name = self.names.get(self.analysis.baseline, self.analysis.baseline)
        if self.analysis.contrasts == "adjacent":
            return f"each treatment against the one above it, the first and the checks against {name}; "
        if not self.analysis.best_is_reference:
            return ""
        return f"each treatment against {name}, the one observed best, the checks against the study’s baseline; "

    @property
    def caption(self) -> str:
        """One sentence on which treatments are better or worse."""
        analysis = self.analysis
        if text := neutral_caption(analysis):
            return text
        if analysis.contrasts != "baseline":
            return headline(analysis, self.names)
        treatments = analysis.of_kind("treatment")
        if treatments and not any(row.is_compared for row in treatments):
            return "No treatment could be compared."
        kinds: tuple[VerdictKind, ...] = ("better", "worse")
        decided = {kind: [r for r in treatments if r.verdict and r.verdict.kind == kind] for kind in kinds}
        phrases = [self._decided_phrase(rows) for rows in decided.values() if rows]
        if not phrases:
            return no_change_sentence(analysis)
        others = sum(map(len, decided.values())) < len(treatments)
        return "; ".join([*phrases, *([no_change_clause(analysis)] if others else [])]) + "."

    def _decided_phrase(self, rows: list[AnalysisRow]) -> str:
        """Return "x, y and z serve fewer requests per second"; for a single treatment also the size of the change."""
        effect = (rows[0].verdict.comparison.effect if rows[0].verdict else None) or 0.0
        verb_phrase = words.predicate(self.analysis.metric, effect, len(rows))
        if len(rows) == 1:
            texts = row_texts(rows[0])
            verb_phrase = words.effect_phrase(self.analysis.metric, effect, texts.size)
            return f"{self.names[rows[0].treatment]} {verb_phrase} ({texts.bounds})"
        return f"{base.join_first([self.names[r.treatment] for r in rows], 3, 'treatments')} {verb_phrase}"

    @property
    def help(self) -> str:
        """Instructions for reading the figure, limited to the marks that it contains."""
        compared = [(row, row.verdict) for row in self.rows if row.verdict and row.is_compared]
        family = sum(1 for _, verdict in compared if verdict.comparison.ci_family)
        parts = [f"thick line: {base.level_text(self.analysis)} interval"] if compared else []
        if family > 1:
            parts.append(f"thin line: widened for {family} comparisons")
        if any(v.kind in ("equivalent", "small") and r.kind == "treatment" for r, v in compared):
            parts.append(interval_help(self.analysis))
        if any(r.expected_effect is not None for r, _ in compared):
            parts.append("long tick: the true size of the known effect")
        bounds = [bound for _, v in compared for bound in (v.comparison.ci_family or v.comparison.ci95 or ())]
        if not all(self.scale.contains(log_ratio(bound)) for bound in bounds):
            parts.append("arrow head: the interval goes on beyond the axis")
        margin = margin_text(self.analysis.margin)
        parts.append(f"shaded: differences below ±{margin}, declared as too small to matter")
        text = self.reference_note + "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every row's numbers in words."""
        analysis = self.analysis
        baselines = {row.verdict.comparison.baseline for row in analysis.rows if row.verdict}
        # conditions that are analysed separately have a baseline each
        one_baseline = analysis.contrasts == "baseline" and len(baselines) < 2
        reference = self.names.get(analysis.baseline, analysis.baseline) if one_baseline else self.reference
        head = f"Effect of each treatment on {self.metric_label} against {reference}."
        rows = [
            f"{self.names[r.treatment]}: {palette.row_word(r, self.metric)}, {change_text(r)}"
            f"{' blocks' if r.is_compared else ''}"
            for r in self.rows
        ]
        return head, "; ".join(rows) + "."


class NonInferiorityFigure(EffectsFigure):
    """The non-inferiority plot: each treatment's one-sided bounds against the largest accepted loss."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self.change_head = f"one-sided {base.level_text(analysis)} bound, blocks"
        self.margin_label = f"largest loss accepted, {margin_text(analysis.margin)}, declared before"
        self.margin_at = loss_at_margin(analysis.margin, direction(analysis.metric))
        self.band = (min(self.margin_at, 0.0), max(self.margin_at, 0.0))

    def words_of(self, row: AnalysisRow) -> tuple[str, str, str]:
        """Return three texts of a row: loss that is excluded or found, deciding bound with blocks, errors."""
        verdict, change, second_line = super().words_of(row)
        if row.verdict and row.verdict.one_sided_bounds:
            texts, margin = words.comparison_texts(row.verdict), margin_text(row.verdict.margin)
            losses = {"no-loss": f"no loss beyond {margin}", "worse": f"loses more than {margin}"}
            verdict = f"{palette.row_glyph(row)} {losses.get(row.verdict.kind, 'undecided')}"
            bound = f"at best {texts.best}" if row.verdict.kind == "worse" else f"at worst {texts.worst}"
            change = f"{bound}, {texts.blocks}"
        errors = row.errors
        if row.kind == "treatment" and (errors.trials_with_errors or errors.kind == "fewer"):
            word = f"{errors.kind} errors" if errors.kind in ("more", "fewer") else "errors undecided"
            second_line = f"{word}: {errors.trials_with_errors} of {pluralize(errors.trials, 'trial')}"
        return verdict, change, second_line

    def draw_limit(self, panel: Axes) -> None:
        """Draw a thick line at the largest accepted loss."""
        panel.axvline(log_ratio(self.margin_at), color=palette.INK, linewidth=1.8, zorder=0.7)

    def draw_row(self, panel: Axes, y: float, row: AnalysisRow) -> None:
        """Draw the interval thin and the deciding bound as a thick tick; harness checks as in the effect plot."""
        verdict, scale = row.verdict, self.scale
        if verdict is None or not verdict.one_sided_bounds:
            return super().draw_row(panel, y, row)
        style, bounds = palette.row_style(row), [log_ratio(end) for end in verdict.one_sided_bounds]
        ends = [min(max(bound, scale.low + scale.padding), scale.high - scale.padding) for bound in bounds]
        panel.plot(ends, [y, y], color=style.edge, linewidth=1.3, solid_capstyle="butt", zorder=3)
        decides = verdict.kind == "worse"
        if scale.contains(bounds[decides]):
            panel.plot([ends[decides]] * 2, [y - 0.1, y + 0.1], color=style.edge, linewidth=3.4, zorder=3)
        interval = (min(verdict.one_sided_bounds), max(verdict.one_sided_bounds))
        axes.draw_arrow_heads(panel, scale, y, interval, style.edge)
        estimate = log_ratio(verdict.comparison.effect or 0.0)
        if scale.contains(estimate):
            panel.plot([estimate], [y], zorder=4, **base.marker_props(style, 7.4))

    @property
    def caption(self) -> str:
        """One sentence on whether any treatment loses more than is accepted."""
        rows = self.analysis.of_kind("treatment")
        if text := neutral_caption(self.analysis):
            return text
        if not any(row.is_compared for row in rows):
            return "No treatment could be compared."
        return non_inferiority_headline(rows, self.analysis.margin)

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        text = self.reference_note + (
            f"thick tick: the one-sided {base.level_text(self.analysis)} bound that decides; thin line: from the bound "
            "at worst to the bound at best; solid line: the largest loss accepted, "
            f"{margin_text(self.analysis.margin)}, declared before the run; shaded: losses smaller than that"
        )
        verdicts = [row.verdict for row in self.analysis.of_kind("treatment") if row.verdict]
        bounds = [bound for verdict in verdicts for bound in verdict.one_sided_bounds or ()]
        if not all(self.scale.contains(log_ratio(bound)) for bound in bounds):
            text += "; arrow head: it goes on beyond the axis"
        has_known_effect = any(row.expected_effect is not None for row in self.rows if row.is_compared)
        text += "; long tick: the true size of the known effect." if has_known_effect else "."
        return f"{text[0].upper()}{text[1:]}"

    @property
    def description(self) -> tuple[str, str]:
        """The subject, and in words: every row's bound in words."""
        head = f"Loss of each treatment in {self.metric_label} against {self.reference}."
        rows = [
            f"{self.names[row.treatment]}{verdict_parts(row.verdict, against=row.reference_label).after_name}"
            for row in self.analysis.of_kind("treatment")
            if row.verdict
        ]
        return head, " ".join(rows)


def change_text(row: AnalysisRow, blocks: bool = True) -> str:
    """Return a row's change with its interval, or the reason why there is none; `blocks`: add their number."""
    if row.is_compared and row.verdict:
        texts = row_texts(row)
        return f"{texts.change} ({texts.interval_number})" + (f", {texts.blocks}" if blocks else "")
    return base.drawable((row.verdict.reason if row.verdict else None) or "", "") or "not compared"


def reference_text(analysis: Analysis) -> str:
    """Return a short name of the reference with which the rows are compared, for the title of the axis."""
    if analysis.contrasts == "adjacent":
        return "the treatment above it"
    return "the one observed best" if analysis.best_is_reference else "the baseline"


def interval_help(analysis: Analysis) -> str:
    """Return the sentence that explains the short ticks of an interval."""
    return f"short ticks: {base.level_text(analysis, one_sided=True)} interval, which decides equivalence"
