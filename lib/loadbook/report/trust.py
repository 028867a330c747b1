"""The trust strip: does the instrument work, how many trials count, what is in doubt. It stands beside the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loadbook.core.gates import lower_first
from loadbook.core.units import format_percent
from loadbook.records.rundata import RunData
from loadbook.report import palette, trials
from loadbook.report.tables import DASH
from loadbook.stats.compare import MAX_INCOMPLETE_SHARE
from loadbook.stats.hygiene import unstable
from loadbook.stats.result import Analysis, AnalysisRow, StoppingState
from loadbook.stats.wording.shown import row_texts

CHECK_TITLES = {"aa": "Same against same", "control": "Known effect found"}
FAILED_CHECK_TITLES = {"aa": "Same differs from same", "control": "Known effect NOT found"}
CHECK_ARM_NAMES = {"aa": "A/A arm", "control": "the control"}
MISSING_CHECK_TEXTS = {
    "aa": ("No A/A arm", "same against same was not tried"),
    "control": ("No positive control", "no known effect was tried"),
}


@dataclass(frozen=True)
class HarnessCheck:
    """One cell of the trust strip."""

    css_class: str
    glyph: str
    title: str
    text: str
    link: str | None = None


def harness_checks(data: RunData, analysis: Analysis, more: Sequence[trials.ValidityMessage] = ()) -> list[HarnessCheck]:
    """Return the four cells: same against same, known effect, trials that count, doubts (`more` of them are known)."""
    return [
        _arm_check(data, analysis, "aa"),
        _arm_check(data, analysis, "control"),
        _trials_check(data),
        _doubts_check(data, analysis, more),
    ]


def _arm_check(data: RunData, analysis: Analysis, kind: str) -> HarnessCheck:
    rows = analysis.of_kind(kind)  # type: ignore[arg-type]
    if not rows:
        return HarnessCheck("doubt", "!", *MISSING_CHECK_TEXTS[kind])
    row = min(rows, key=lambda r: (False, None, True).index(r.passed))  # the worst of several conditions
    name = CHECK_ARM_NAMES[kind] if len(rows) == 1 or row.passed else row.label
    texts = row_texts(row)
    change = f"{texts.change} ({texts.interval})"
    if texts.change == DASH:
        text = f"{name} could not be compared"
    elif kind == "aa":
        text = f"{name} {change}{_borderline_note(row, data.study.gates.aa_p)}"
    else:
        known = f"built in {format_percent(row.expected_effect, 0)}, " if row.expected_effect is not None else ""
        text = f"{known}seen {change}"
    if row.passed is None:
        return HarnessCheck("doubt", "!", f"{CHECK_TITLES[kind]}: not checked", text)
    if not row.passed:
        return HarnessCheck(
            "failed",
            palette.FAILED_GLYPH,
            FAILED_CHECK_TITLES[kind],
            text,
        )
    return HarnessCheck("", "✓", CHECK_TITLES[kind], text)


def _borderline_note(row: AnalysisRow, limit: float) -> str:
    """Return why an A/A arm passed although its interval leaves zero out: one run of twenty does without a reason."""
    found = row.verdict.comparison if row.verdict else None
    if not row.passed or found is None or found.ci95 is None or found.ci95[0] <= 0 <= found.ci95[1]:
        return ""
    return f"; p {row_texts(row).p}, which fails below {limit:g}"


def _trials_check(data: RunData) -> HarnessCheck:
    number, reasons = trials.trial_counts(data), trials.exclusion_counts(data)
    left = number["planned"] - number["valid"]
    why = ", ".join(f"{n} {lower_first(reason)}" if len(reasons) > 1 else lower_first(reason) for reason, n in reasons[:2])
    more = f" and {len(reasons) - 2} other reasons" if len(reasons) > 2 else ""
    order = "random order" if data.plan["seed"] is not None else "order as it was imported"
    text = (f"{left} excluded: {why}{more}; " if left else "none excluded; ") + order
    css, glyph = ("", "✓") if left <= MAX_INCOMPLETE_SHARE * number["planned"] else ("doubt", "!")
    return HarnessCheck(css, glyph, f"{number['valid']} of {number['planned']} trials count", text)


def _doubts_check(data: RunData, analysis: Analysis, more: Sequence[trials.ValidityMessage]) -> HarnessCheck:
    found = [*trials.doubt_messages(data), *comparison_notes(analysis), *more]
    doubts = sorted((d for d in found if d.level == "doubt"), key=lambda d: d.name != "stopping")
    unchecked = [d for d in found if d.level == "unchecked"]
    if not doubts and not unchecked:
        return HarnessCheck("", "✓", "No doubts", "every gate was checked")
    title = f"{len(doubts)} doubt{'' if len(doubts) == 1 else 's'}" if doubts else f"{len(unchecked)} not checked"
    named = [d.title for d in doubts or unchecked]
    text = "; ".join(named[:2]) + (f"; {len(named) - 2} more" if len(named) > 2 else "")
    return HarnessCheck("doubt", "!", title, text, "#doubts")


def _flag_level(flag: str) -> str:
    """Return how much a flag of a comparison weighs: one that the next run may contradict is a doubt."""
    return "doubt" if flag.startswith(unstable.FLAG_PREFIX) else "note"


def comparison_notes(analysis: Analysis) -> list[trials.ValidityMessage]:
    """Return what the comparisons themselves say that a reader should know, and checks that the study lacks."""
    flagged: dict[str, list[str]] = {}
    for row in analysis.rows:
        for flag in row.verdict.comparison.flags if row.verdict else ():
            flagged.setdefault(flag, []).append(row.label)
    found = [trials.ValidityMessage("comparison", "; ".join(n), _flag_level(flag), 0, flag) for flag, n in flagged.items()]
    if analysis.stopping_state.added_blocks:
        found.insert(0, trials.ValidityMessage("stopping", "Exploratory", "doubt", 0, _exploratory_text(analysis.stopping_state)))
    for row in analysis.of_kind("control"):
        if row.passed is False:
            text = (
                "a change that is known to matter was not seen, so smaller ones may be missed: more blocks, less noise"
            )
            found.append(trials.ValidityMessage("control", "Known effect not found", "doubt", 0, text))
    if not analysis.of_kind("aa"):
        text = "nothing in this run shows that the laboratory calls the same configuration the same"
        found.append(trials.ValidityMessage("no-aa", "No A/A arm", "doubt", 0, text))
    return found


def _exploratory_text(stand: StoppingState) -> str:
    blocks = f"{stand.added_blocks} of {stand.blocks} blocks"
    why = "which the study did not declare: going on after a look finds differences where there are none"
    return f"{blocks} were added when the results could be seen, {why}; a new run would confirm"
