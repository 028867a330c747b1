"""The answer to a study's question in one line, and the sentence under it. It answers; it does not pick the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadbook.stats.result import VERDICT_ORDER, Analysis, Row, VerdictKind
from loadbook.stats.sentences import best_sentence, margin_text, more_blocks, phrase
from loadbook.stats.shown import comparison_texts
from loadbook.stats.words import name, predicate, word

MAX_LENGTH = 90
MAX_OTHERS = 2


def headline(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str:
    """Return the first line of a report, shorter than 90 characters; `labels` replaces names that are shown."""
    rows = analysis.of_kind("treatment")
    if analysis.laboratory:
        return "No verdict: the laboratory contradicts itself."
    if not rows or _count(rows, "invalid") == len(rows):
        return "No verdict: no treatment could be compared."
    if len(rows) == 1:
        return _fit(_label(rows[0], labels), *_alone(rows[0]))
    moved = _of(rows, "better") or _of(rows, "worse")
    if not moved:
        return nothing_won(analysis)
    if len(moved) == 1:
        return _fit(_label(moved[0], labels), *_moves(moved[0]))
    best = next((row for row in moved if row.treatment == analysis.best), None)
    if best is not None:
        return _fit(_label(best, labels), f"{_moves(best)[-1].rstrip('.')}, ahead of every other treatment.")
    return _numbers(analysis)


def nothing_won(analysis: Analysis) -> str:
    """Return the first line of a study in which no treatment is shown to do better or worse."""
    if not analysis.margin:
        return f"No treatment is shown to change the {name(analysis.metric)}."
    return f"No treatment is shown to change the {name(analysis.metric)} by {margin_text(analysis.margin)} or more."


def supporting(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str:
    """Return the sentence under the headline: what else was found, what was not shown, what is still open."""
    rows = analysis.of_kind("treatment")
    if analysis.laboratory:
        return analysis.laboratory
    better, worse = _of(rows, "better"), _of(rows, "worse")
    parts = [_best(analysis, labels)] if better else []
    if len(better) == 1 or not better:
        others = worse if better else worse[1:]
    else:
        others = [*better, *worse] if analysis.best is None else [*better[1:], *worse]
    parts += [f"{_label(row, labels)}{_moves(row)[-1]}" for row in others[:MAX_OTHERS]]
    if better or worse:
        quiet = len(rows) - len(better) - len(worse) - _count(rows, "invalid")
        parts.append(nothing_won(analysis).replace("No treatment", "No other treatment") if quiet else None)
    parts += [_waiting(rows, "undecided", "undecided"), _forecast(rows)]
    parts += [_waiting(rows, "invalid", "not compared"), _why_none(rows)]
    return " ".join(part for part in parts if part)


def counts(analysis: Analysis) -> dict[VerdictKind, int]:
    """Return how many treatments have each kind of verdict, in display order, kinds without any left out."""
    rows = analysis.of_kind("treatment")
    return {kind: _count(rows, kind) for kind in VERDICT_ORDER if _count(rows, kind)}


def _numbers(analysis: Analysis) -> str:
    """Return "3 of 6 treatments are faster, 1 is slower."."""
    rows = analysis.of_kind("treatment")
    parts: list[str] = []
    for kind in ("better", "worse"):
        group = [row for row in rows if _kind(row) == kind]
        if group:
            verb = predicate(analysis.metric, _effect(group[0]), len(group))
            parts.append(f"{len(group)} {verb}" if parts else f"{len(group)} of {len(rows)} treatments {verb}")
    return f"{', '.join(parts)}."


def _alone(row: Row) -> list[str]:
    """Return what a headline may say of the only treatment, the longest form first."""
    kind = _kind(row)
    if row.verdict is None or kind == "invalid":
        return [": not compared."]
    if kind in ("better", "worse"):
        return _moves(row)
    texts, margin = comparison_texts(row.verdict), margin_text(row.verdict.margin)
    if kind == "small":
        moved = word(row.verdict.comparison.metric, _effect(row))
        return [phrase(row.verdict), f": {moved} by {texts.size}, less than the {margin} that matters."]
    if kind == "equivalent":
        return [phrase(row.verdict), f": no difference larger than {margin}."]
    return [f": undecided, {texts.interval}, {texts.blocks} blocks.", ": undecided."]


def _moves(row: Row) -> list[str]:
    assert row.verdict is not None
    found = row.verdict.comparison
    size = comparison_texts(row.verdict).size
    return [phrase(row.verdict), f" {predicate(found.metric, _effect(row))} by {size}."]


def _waiting(rows: tuple[Row, ...], kind: VerdictKind, words: str) -> str | None:
    number = _count(rows, kind)
    if not number:
        return None
    if number == len(rows):
        return f"All {number} are {words}." if number > 1 else None
    return f"{number} of {len(rows)} {'is' if number == 1 else 'are'} {words}."


def _forecast(rows: Sequence[Row]) -> str | None:
    """Say what would decide the undecided ones: with one its forecast, with several the range of theirs."""
    verdicts = [row.verdict for row in _of(rows, "undecided") if row.verdict]
    if len(verdicts) <= 1:
        return more_blocks(verdicts[0]) if verdicts else None
    about = sorted(v.forecast.about for v in verdicts if v.forecast and v.forecast.about is not None)
    if not about:
        return "More blocks are out of reach at this noise (over 60): quieten the host or widen the margin."
    spread = f"{about[0]}" if about[0] == about[-1] else f"{about[0]} to {about[-1]}"
    return (
        f"About {spread} more blocks would decide {'them' if len(about) == len(verdicts) else f'{len(about)} of them'}."
    )


def _why_none(rows: Sequence[Row]) -> str | None:
    """Give the reason where no treatment at all could be compared."""
    reasons = [row.verdict.reason for row in _of(rows, "invalid") if row.verdict and row.verdict.reason]
    if not reasons or len(reasons) < len(rows):
        return None
    return f"Reason: {reasons[0]}." if len(set(reasons)) == 1 else f"First reason ({rows[0].label}): {reasons[0]}."


def _fit(label: str, *forms: str) -> str:
    """Join name and the first form that keeps the line below 90 characters; the last one shortens the name."""
    for form in forms:
        if len(label) + len(form) < MAX_LENGTH:
            return label + form
    return label[: MAX_LENGTH - 2 - len(forms[-1])].rstrip() + "…" + forms[-1]


def _best(analysis: Analysis, labels: Mapping[str, str] | None) -> str | None:
    names = [_label(analysis.row(t), labels) for t in analysis.tied_with_best]
    return best_sentence(
        names, _label(analysis.row(analysis.best), labels) if analysis.best else None, analysis.ties_lead
    )


def _of(rows: Sequence[Row], kind: VerdictKind) -> list[Row]:
    return [row for row in rows if _kind(row) == kind]


def _count(rows: Sequence[Row], kind: VerdictKind) -> int:
    return len(_of(rows, kind))


def _kind(row: Row) -> VerdictKind:
    return row.verdict.kind if row.verdict else "invalid"


def _effect(row: Row) -> float:
    return (row.verdict.comparison.effect if row.verdict else None) or 0.0


def _label(row: Row, labels: Mapping[str, str] | None) -> str:
    return (labels or {}).get(row.treatment, row.label)
