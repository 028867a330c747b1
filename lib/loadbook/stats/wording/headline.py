"""The answer to a study's question in one line, and the sentence under it. It answers; it does not pick the largest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loadbook.stats.result import VERDICT_ORDER, Analysis, Row, Stand, VerdictKind
from loadbook.stats.wording import losses
from loadbook.stats.wording.sentences import best_sentence, evidence, margin_text, more_blocks, phrase
from loadbook.stats.wording.shown import comparison_texts
from loadbook.stats.wording.words import name, predicate

EXPLORATORY = "Exploratory: "
MAX_LENGTH = 90
MAX_OTHERS = 2
MAX_SENTENCES = 2


def headline(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str:
    """Return the first line of a report; `labels` replaces names that are shown.

    It is shorter than 90 characters where its words allow; an effect keeps its interval whatever the length.
    """
    return as_it_stands(_headline(analysis, labels), analysis.stand)


def as_it_stands(said: str, stand: Stand) -> str:
    """Return a first line that says that it is exploratory, if it is."""
    needed = stand.added and not said.startswith((EXPLORATORY, "No verdict"))
    return f"{EXPLORATORY}{said}" if needed else said


def _headline(analysis: Analysis, labels: Mapping[str, str] | None) -> str:
    rows = analysis.of_kind("treatment")
    if analysis.laboratory:
        return "No verdict: the laboratory contradicts itself."
    if analysis.stand.waiting:
        return "No verdict yet: this is no planned look."
    if not rows and (said := checks_alone(analysis)):
        return said
    if not rows or _count(rows, "invalid") == len(rows):
        return "No verdict: no treatment could be compared."
    if len(rows) == 1:
        return _fit(_label(rows[0], labels), *_alone(rows[0]))
    if analysis.asks == "no-loss":
        return losses.headline(rows, analysis.margin)
    if analysis.best_is_reference and (said := _best(analysis, labels)):
        return said
    moved = _of(rows, "better") or _of(rows, "worse")
    if not moved:
        return nothing_won(analysis)
    if len(moved) == 1:
        return _fit(_label(moved[0], labels), *_forms(moved[0]))
    best = next((row for row in moved if row.treatment == analysis.best), None)
    if best is not None:
        forms = _forms(best)
        return _fit(_label(best, labels), f"{forms[-1].rstrip('.')}, ahead of every other treatment.", *forms)
    return _numbers(analysis)


def checks_alone(analysis: Analysis) -> str | None:
    """Return the first line of a study that compares a treatment with itself only, None for any other."""
    twins = [row for row in analysis.of_kind("aa") if row.verdict]
    if analysis.of_kind("treatment") or not twins or not twins[0].verdict:
        return None
    texts = comparison_texts(twins[0].verdict)
    return f"None is seen: the baseline and its duplicate differ by {texts.change} ({texts.interval})."


def nothing_won(analysis: Analysis) -> str:
    """Return the first line of a study in which no treatment is shown to do better or worse."""
    size = f" by {margin_text(analysis.margin)} or more" if analysis.margin else ""
    return f"No treatment is shown to change the {name(analysis.metric)}{size}{_than_before(analysis, 'against')}."


def _than_before(analysis: Analysis, word: str) -> str:
    return f" {word} the one before it" if analysis.contrasts == "adjacent" else ""


def blind(analysis: Analysis) -> str:
    """Return that the positive control failed, "" where it did not or where there is no verdict anyway."""
    missed = any(row.passed is False for row in analysis.of_kind("control"))
    said = "The known effect was not found: this laboratory may miss others, too."
    return said if missed and not analysis.laboratory else ""


def supporting(analysis: Analysis, labels: Mapping[str, str] | None = None) -> str:
    """Return what stands under the headline, at most two sentences: which are best, what moved too, what would decide.

    How many treatments have which verdict is not repeated: the counts stand below.
    """
    rows = analysis.of_kind("treatment")
    if analysis.laboratory:
        return analysis.laboratory
    reason = _why_none(rows) or _forecast(rows, labels)
    if analysis.asks == "no-loss":
        return " ".join(filter(None, (losses.losers(rows), reason)))
    if analysis.best_is_reference:
        return " ".join(filter(None, (_nearest(analysis, labels), reason)))
    better, worse = _of(rows, "better"), _of(rows, "worse")
    best = _best(analysis, labels) if better else None
    others = _others(analysis, better, worse, labels)
    quiet = len(rows) - len(better) - len(worse) - _count(rows, "invalid")
    rest = nothing_won(analysis).replace("No treatment", "No other treatment") if quiet and (better or worse) else None
    wanted = [best, reason, others, rest]
    kept = [part for part in wanted if part][:MAX_SENTENCES]
    return " ".join(part for part in (best, others, rest, reason) if part in kept and part)


def _nearest(analysis: Analysis, labels: Mapping[str, str] | None) -> str | None:
    """Say which arm comes nearest to the best one."""
    behind = _of(analysis.of_kind("treatment"), "worse")
    if analysis.best is None or not behind:
        return None
    return f"Nearest to it: {_label(behind[-1], labels)}{_bare(behind[-1])}."


def _others(
    analysis: Analysis, better: Sequence[Row], worse: Sequence[Row], labels: Mapping[str, str] | None
) -> str | None:
    """Say what moved besides the headline's treatment, each with its interval."""
    named = [*better, *worse][1:] if len(better) == 1 or not better or analysis.best is not None else [*better, *worse]
    said = [f"{_label(row, labels)}{_bare(row)}" for row in named[:MAX_OTHERS]]
    return f"{'; '.join(said)}." if said else None


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
            said = f"{len(group)} {verb}" if parts else f"{len(group)} of {len(rows)} treatments {verb}"
            parts.append(said if parts else said + _than_before(analysis, "than"))
    return f"{', '.join(parts)}."


def _alone(row: Row) -> list[str]:
    """Return what a headline may say of the only treatment, the longest form first."""
    kind = _kind(row)
    if row.verdict is None or kind == "invalid":
        return [": not compared."]
    if kind in ("better", "worse"):
        return _forms(row)
    texts, margin = comparison_texts(row.verdict), margin_text(row.verdict.margin)
    if kind == "small":
        return [_said(row), f"{_bare(row)}: less than the {margin} that matters."]
    if row.verdict.loss and kind == "undecided":
        return [f": undecided, at worst {texts.worst} (one-sided), {_on(row)}."]
    if kind in ("equivalent", "no-loss"):
        return _forms(row)
    return [f": undecided, {texts.interval}, {_on(row)}.", f": undecided, {texts.interval}."]


def _forms(row: Row) -> list[str]:
    """Return what is said of a treatment, then the same without its number of blocks."""
    said = _said(row)
    return [said, f"{said.rpartition(', ')[0]}."]


def _on(row: Row) -> str:
    assert row.verdict is not None
    return evidence(row.verdict.comparison.blocks, row.verdict.comparison.look)


def _said(row: Row) -> str:
    assert row.verdict is not None
    return phrase(row.verdict, against=row.against)


def _bare(row: Row) -> str:
    """Return " is faster by 6.0 % (5.1 to 6.8 %)", or " is faster than another by ..."."""
    assert row.verdict is not None
    texts, than = comparison_texts(row.verdict), f" than {row.against}" if row.against else ""
    return f" {predicate(row.verdict.comparison.metric, _effect(row))}{than} by {texts.size} ({texts.bounds})"


def _forecast(rows: Sequence[Row], labels: Mapping[str, str] | None) -> str | None:
    """Say what would decide the undecided ones: of one its forecast, of several the range of theirs."""
    undecided = _of(rows, "undecided")
    verdicts = [row.verdict for row in undecided if row.verdict]
    if len(verdicts) <= 1:
        return _forecast_of(undecided[0], len(rows), labels) if verdicts else None
    about = sorted(v.forecast.about for v in verdicts if v.forecast and v.forecast.about is not None)
    if not about:
        remedy = "widen the margin or quieten the host" if verdicts[0].margin else "quieten the host"
        return f"More blocks would not decide at this noise (over 60): {remedy}."
    spread = f"{about[0]}" if about[0] == about[-1] else f"{about[0]} to {about[-1]}"
    which = "the" if len(about) == len(verdicts) else f"{len(about)} of the"
    return f"About {spread} more blocks would decide {which} {len(verdicts)} undecided."


def _forecast_of(row: Row, treatments: int, labels: Mapping[str, str] | None) -> str:
    assert row.verdict is not None
    said = more_blocks(row.verdict)
    return said if treatments == 1 else f"{_label(row, labels)}: {said[0].lower()}{said[1:]}"


def _why_none(rows: Sequence[Row]) -> str | None:
    """Give the reason where no treatment at all could be compared."""
    reasons = [row.verdict.reason for row in _of(rows, "invalid") if row.verdict and row.verdict.reason]
    if not reasons or len(reasons) < len(rows):
        return None
    return f"Reason: {reasons[0]}." if len(set(reasons)) == 1 else f"First reason ({rows[0].label}): {reasons[0]}."


def _fit(label: str, *forms: str) -> str:
    """Join name and the first form that keeps the line below 90 characters, else the last one."""
    return label + next((form for form in forms if len(label) + len(form) < MAX_LENGTH), forms[-1])


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
