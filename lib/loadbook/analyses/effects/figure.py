"""The effect plot: which treatments matter, which way, and whether the checks of the laboratory passed."""

from __future__ import annotations

from loadbook.analyses.effects.effect_rows import (
    EffectRowsFigure,
    change_text,
    interval_help,
    is_compared,
    reference_text,
)
from loadbook.report import palette
from loadbook.report.figures.base import join_first, level_text, metric_label
from loadbook.stats.headline import headline, neutral_caption, no_change_sentence
from loadbook.stats.results import Analysis, AnalysisRow, VerdictKind
from loadbook.stats.text import margin_text, predicate, row_texts


class EffectsFigure(EffectRowsFigure):
    """Each comparison's interval on a log axis of ratios, with its verdict, change and blocks."""

    def __init__(self, analysis: Analysis) -> None:
        super().__init__(analysis)
        self.change_head = f"change ({level_text(analysis)} interval), blocks"
        self.margin_label = f"margin ±{margin_text(analysis.margin)}"

    @property
    def caption(self) -> str:
        """Which treatments are better or worse, in one sentence."""
        analysis = self.analysis
        if text := neutral_caption(analysis):
            return text
        if analysis.contrasts != "baseline":
            return headline(analysis, self.names)
        treatments = analysis.of_kind("treatment")
        if treatments and not any(map(is_compared, treatments)):
            return "No treatment could be compared."
        decided = {kind: [r for r in treatments if r.verdict and r.verdict.kind == kind] for kind in _DECIDED}
        phrases = [self._decided_phrase(rows) for rows in decided.values() if rows]
        if not phrases:
            return no_change_sentence(analysis)
        others = sum(map(len, decided.values())) < len(treatments)
        rest = no_change_sentence(analysis).replace("No treatment", "; no other treatment") if others else "."
        return "; ".join(phrases) + rest

    def _decided_phrase(self, rows: list[AnalysisRow]) -> str:
        """Return "x, y and z serve fewer requests per second", of a single treatment with its size."""
        effect = (rows[0].verdict.comparison.effect if rows[0].verdict else None) or 0.0
        verb_phrase = predicate(self.analysis.metric, effect, len(rows))
        if len(rows) == 1:
            texts = row_texts(rows[0])
            return f"{self.names[rows[0].treatment]} {verb_phrase} by {texts.size} ({texts.bounds})"
        return f"{join_first([self.names[r.treatment] for r in rows], 3, 'treatments')} {verb_phrase}"

    @property
    def help(self) -> str:
        """How the figure is read, naming only the marks that it has."""
        compared = [(row, row.verdict) for row in self.rows if row.verdict and is_compared(row)]
        family = sum(1 for _, verdict in compared if verdict.comparison.ci_family)
        parts = [f"thick line: {level_text(self.analysis)} interval"] if compared else []
        if family > 1:
            parts.append(f"thin line: widened for {family} comparisons")
        if any(v.kind in ("equivalent", "small") and r.kind == "treatment" for r, v in compared):
            parts.append(interval_help(self.analysis))
        if any(r.expected_effect is not None for r, _ in compared):
            parts.append("long tick: the true size of the known effect")
        if self.is_clipped:
            parts.append("arrow head: the interval goes on beyond the axis")
        margin = margin_text(self.analysis.margin)
        parts.append(f"shaded: differences below ±{margin}, declared as too small to matter")
        text = self.reference_note + "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."

    @property
    def alt_text(self) -> str:
        """The caption and every row's numbers in words."""
        analysis = self.analysis
        baselines = {row.verdict.comparison.baseline for row in analysis.rows if row.verdict}
        # conditions that are judged apart have a baseline each
        one_baseline = analysis.contrasts == "baseline" and len(baselines) < 2
        reference = self.names.get(analysis.baseline, analysis.baseline) if one_baseline else reference_text(analysis)
        head = f"Effect of each treatment on {metric_label(self.metric, analysis.statistic)} against {reference}."
        rows = [
            f"{self.names[r.treatment]}: {palette.row_word(r, self.metric)}, {change_text(r)}"
            f"{' blocks' if is_compared(r) else ''}"
            for r in self.rows
        ]
        return " ".join([head, self.caption, "; ".join(rows) + "."])


_DECIDED: tuple[VerdictKind, ...] = ("better", "worse")
