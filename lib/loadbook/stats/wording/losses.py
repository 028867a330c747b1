"""The first lines of a study that asks one thing: does any treatment lose more than is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from loadbook.stats.result import AnalysisRow, VerdictKind
from loadbook.stats.wording.sentences import margin_text, verdict_phrase
from loadbook.stats.wording.shown import comparison_texts

MAX_LOSING = 2


def non_inferiority_headline(rows: Sequence[AnalysisRow], margin: float) -> str:
    """Return how many treatments lose more than the margin, keep within it, or leave that open."""
    losing, within, undecided = (_rows_with_verdict(rows, kind) for kind in ("worse", "no-loss", "undecided"))
    accepted, all_of_them = margin_text(margin), f"of {len(rows)} treatments"
    if len(within) == len(rows):
        worst = min(rows, key=_worst_bound)
        bound = comparison_texts(worst.verdict).worst if worst.verdict else ""
        return f"No loss beyond {accepted} in any {all_of_them}: at worst {bound} ({worst.label})."
    if not losing and not within:
        return f"Undecided: no treatment is shown to keep its loss within {accepted}."
    parts = []
    if losing:
        parts.append(f"{len(losing)} {all_of_them} {'loses' if len(losing) == 1 else 'lose'} more than {accepted}")
    if within:
        parts.append(f"no loss beyond {accepted} in {len(within)}{'' if losing else f' {all_of_them}'}")
    left = len(rows) - len(losing) - len(within) - len(undecided)
    parts += [f"{number} {word}" for number, word in ((len(undecided), "undecided"), (left, "not compared")) if number]
    text = ", ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def losing_sentences(rows: Sequence[AnalysisRow]) -> str | None:
    """Return the sentences of those that lose more, where the headline only counts them."""
    losing = _rows_with_verdict(rows, "worse")[:MAX_LOSING] if len(rows) > 1 else []
    return " ".join(f"{r.label}{verdict_phrase(r.verdict, against=r.reference_label)}" for r in losing if r.verdict) or None


def _worst_bound(row: AnalysisRow) -> float:
    """Return the bound at worst, counted as a gain."""
    worst, best = row.verdict.one_sided_bounds if row.verdict and row.verdict.one_sided_bounds else (0.0, 0.0)
    return worst if worst <= best else -worst


def _rows_with_verdict(rows: Sequence[AnalysisRow], kind: VerdictKind) -> list[AnalysisRow]:
    return [row for row in rows if row.verdict and row.verdict.kind == kind]
