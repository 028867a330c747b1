"""The trust strip: does the instrument work, how many trials count, what is in doubt. It stands beside the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.gates import inside
from loadbook.core.units import percent
from loadbook.records.rundata import RunData
from loadbook.report import palette, trials
from loadbook.report.tables import DASH
from loadbook.stats.compare import MAX_INCOMPLETE
from loadbook.stats.hygiene import unstable
from loadbook.stats.result import Analysis, Row, Stand
from loadbook.stats.wording.shown import numbers

TITLES = {"aa": "Same against same", "control": "Known effect found"}
FAILED = {"aa": "Same differs from same", "control": "Known effect NOT found"}
NAMES = {"aa": "A/A arm", "control": "the control"}
MISSING = {
    "aa": ("No A/A arm", "same against same was not tried"),
    "control": ("No positive control", "no known effect was tried"),
}


@dataclass(frozen=True)
class Cell:
    """One cell of the trust strip."""

    css: str
    glyph: str
    title: str
    text: str
    link: str | None = None


def trust(data: RunData, analysis: Analysis, more: Sequence[trials.Spoken] = ()) -> list[Cell]:
    """Return the four cells: same against same, known effect, trials that count, doubts (`more` of them are known)."""
    return [
        _check(data, analysis, "aa"),
        _check(data, analysis, "control"),
        _counted(data),
        _doubts(data, analysis, more),
    ]


def _check(data: RunData, analysis: Analysis, kind: str) -> Cell:
    rows = analysis.of_kind(kind)  # type: ignore[arg-type]
    if not rows:
        return Cell("doubt", "!", *MISSING[kind])
    row = min(rows, key=lambda r: (False, None, True).index(r.passed))  # the worst of several conditions
    name = NAMES[kind] if len(rows) == 1 or row.passed else row.label
    shown = numbers(row)
    seen = f"{shown.change} ({shown.interval})"
    if shown.change == DASH:
        text = f"{name} could not be compared"
    elif kind == "aa":
        text = f"{name} {seen}{_nearly(row, data.study.gates.aa_p)}"
    else:
        known = f"built in {percent(row.expected_effect, 0)}, " if row.expected_effect is not None else ""
        text = f"{known}seen {seen}"
    if row.passed is None:
        return Cell("doubt", "!", f"{TITLES[kind]}: not checked", text)
    if not row.passed:
        return Cell(
            "failed",
            palette.FAILED_GLYPH,
            FAILED[kind],
            text,
        )
    return Cell("", "✓", TITLES[kind], text)


def _nearly(row: Row, limit: float) -> str:
    """Return why an A/A arm passed although its interval leaves zero out: one run of twenty does without a reason."""
    found = row.verdict.comparison if row.verdict else None
    if not row.passed or found is None or found.ci95 is None or found.ci95[0] <= 0 <= found.ci95[1]:
        return ""
    return f"; p {numbers(row).p}, which fails below {limit:g}"


def _counted(data: RunData) -> Cell:
    number, reasons = trials.count(data), trials.excluded(data)
    left = number["planned"] - number["valid"]
    why = ", ".join(f"{n} {inside(reason)}" if len(reasons) > 1 else inside(reason) for reason, n in reasons[:2])
    more = f" and {len(reasons) - 2} other reasons" if len(reasons) > 2 else ""
    order = "random order" if data.plan["seed"] is not None else "order as it was imported"
    text = (f"{left} excluded: {why}{more}; " if left else "none excluded; ") + order
    css, glyph = ("", "✓") if left <= MAX_INCOMPLETE * number["planned"] else ("doubt", "!")
    return Cell(css, glyph, f"{number['valid']} of {number['planned']} trials count", text)


def _doubts(data: RunData, analysis: Analysis, more: Sequence[trials.Spoken]) -> Cell:
    found = [*trials.doubts(data), *notes(analysis), *more]
    doubts = sorted((d for d in found if d.level == "doubt"), key=lambda d: d.gate != "stopping")
    unchecked = [d for d in found if d.level == "unchecked"]
    if not doubts and not unchecked:
        return Cell("", "✓", "No doubts", "every gate was checked")
    title = f"{len(doubts)} doubt{'' if len(doubts) == 1 else 's'}" if doubts else f"{len(unchecked)} not checked"
    named = [d.title for d in doubts or unchecked]
    text = "; ".join(named[:2]) + (f"; {len(named) - 2} more" if len(named) > 2 else "")
    return Cell("doubt", "!", title, text, "#doubts")


def _level(flag: str) -> str:
    """Return how much a flag of a comparison weighs: one that the next run may contradict is a doubt."""
    return "doubt" if flag.startswith(unstable.BEGINS) else "note"


def notes(analysis: Analysis) -> list[trials.Spoken]:
    """Return what the comparisons themselves say that a reader should know, and checks that the study lacks."""
    flagged: dict[str, list[str]] = {}
    for row in analysis.rows:
        for flag in row.verdict.comparison.flags if row.verdict else ():
            flagged.setdefault(flag, []).append(row.label)
    found = [trials.Spoken("comparison", "; ".join(n), _level(flag), 0, flag) for flag, n in flagged.items()]
    if analysis.stand.added:
        found.insert(0, trials.Spoken("stopping", "Exploratory", "doubt", 0, _exploratory(analysis.stand)))
    for row in analysis.of_kind("control"):
        if row.passed is False:
            text = (
                "a change that is known to matter was not seen, so smaller ones may be missed: more blocks, less noise"
            )
            found.append(trials.Spoken("control", "Known effect not found", "doubt", 0, text))
    if not analysis.of_kind("aa"):
        text = "nothing in this run shows that the laboratory calls the same configuration the same"
        found.append(trials.Spoken("no-aa", "No A/A arm", "doubt", 0, text))
    return found


def _exploratory(stand: Stand) -> str:
    blocks = f"{stand.added} of {stand.blocks} blocks"
    why = "which the study did not declare: going on after a look finds differences where there are none"
    return f"{blocks} were added when the results could be seen, {why}; a new run would confirm"
