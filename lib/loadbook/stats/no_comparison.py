"""First line of a report in which no treatment could be compared, and the reason below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from loadbook.stats.compare import insufficient_blocks
from loadbook.stats.error_text import refusal_text
from loadbook.stats.results import Analysis, AnalysisRow

MAX_REFUSALS = 2


def is_compared(analysis: Analysis) -> bool:
    """Return whether at least one treatment was compared."""
    return any(row.verdict and row.verdict.kind != "invalid" for row in analysis.of_kind("treatment"))


def refusal_texts(analysis: Analysis, labels: Mapping[str, str] | None = None) -> list[str]:
    """Return which arms of a run without comparison answer with errors, how often, and why; without full stops.

    The list is empty if a treatment was compared or no arm answers so. `labels` maps treatments to other labels.
    """
    if is_compared(analysis):
        return []
    rows = [
        replace(row, label=(labels or {}).get(row.treatment, row.label))
        for row in analysis.of_kind("treatment", "baseline")
        if row.errors.refusal
    ]
    more = f"So {'does' if len(rows) == MAX_REFUSALS + 1 else 'do'} {len(rows) - MAX_REFUSALS} more"
    return [*map(refusal_text, rows[:MAX_REFUSALS]), *([more] if len(rows) > MAX_REFUSALS else [])]


def refusal_headline(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str:
    """Return the first line of a run without comparison whose arms answer with errors; "" for other runs."""
    return " ".join(f"{text}." for text in refusal_texts(analysis, labels))


def unfinished_reason(analysis: Analysis) -> str:
    """Return why a run without comparison is not finished; "" for other runs."""
    return "" if is_compared(analysis) else analysis.unfinished or ""


def excluded_headline(analysis: Analysis) -> str:
    """Return the first line of a run in which too few blocks are complete for any comparison; "" for other runs."""
    verdicts = [row.verdict for row in analysis.of_kind("treatment") if row.verdict]
    few = [insufficient_blocks(v.comparison.blocks, v.comparison.excluded) for v in verdicts]
    if analysis.exclusions is None or not few or None in few:
        return ""
    remedy = f"; {analysis.exclusions.remedy}" if analysis.exclusions.remedy else ""
    return f"No verdict: {analysis.exclusions.causes}{remedy}."


def no_comparison_reason(rows: Sequence[AnalysisRow]) -> str | None:
    """Return the reason if no treatment could be compared; None if one could."""
    reasons = [
        row.verdict.reason for row in rows if row.verdict and row.verdict.kind == "invalid" and row.verdict.reason
    ]
    if not reasons or len(reasons) < len(rows):
        return None
    return f"Reason: {reasons[0]}." if len(set(reasons)) == 1 else f"First reason ({rows[0].label}): {reasons[0]}."
