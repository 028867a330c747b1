"""Does a build pass? An Analysis, judged by what its study declares unacceptable (docs/ci.md).

Every question has three answers: it is met, it is missed, or the run shows neither. What shows neither fails or passes
as the study chose; what may not be compared never passes. Nothing is decided by an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from loadbook.core.gates import inside, title_of
from loadbook.design.build_gate import ALL, BuildGate, Limits
from loadbook.stats.gate.case import LABORATORY, Case, CaseKind, Judged, Outcome
from loadbook.stats.gate.limits import answers
from loadbook.stats.result import Analysis, Row
from loadbook.stats.wording.sentences import aa_sentence, added_after, control_sentence, phrase, row_phrase

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.question import RunTables


def judge(gate: BuildGate, analysis: Analysis, data: RunTables, others: Mapping[str, Analysis] | None = None) -> Judged:
    """Judge a run by what its study declares unacceptable.

    Parameters
    ----------
    analysis : the answer to the study's own question: its baseline, metric and margin.
    others : the same for the other metrics of the gate, by the names that it gives them.
    data : the tables of the run; `problems`, `plan` and `run_json` are read where it has them.
    """
    compared = [_comparison(gate, analysis, row) for row in analysis.of_kind("treatment")]
    for metric, other in (others or {}).items():
        compared += [_on_metric(gate, metric, row) for row in other.of_kind("treatment")]
    there = {row.treatment for row in analysis.rows}
    missing = [
        Case("comparison", name, "invalid", f"{name}: not compared: it is not in this run.", "it is not in this run")
        for name in gate.only
        if name not in there
    ]
    checks = list(_laboratory(analysis))
    if not any(case.outcome != "skipped" for case in (*compared, *missing, *checks)):
        missing.append(Case("comparison", "comparisons", "invalid", "Nothing was compared.", "nothing was compared"))
    return Judged((*compared, *missing, *checks, _trials(data), _stopping(gate, analysis), *_doubts(gate, data)))


def _comparison(gate: BuildGate, analysis: Analysis, row: Row) -> Case:
    base = analysis.row(row.verdict.comparison.baseline).errors if row.verdict else None
    case = partial(Case, "comparison", row.label, treatment=row.treatment, row=row)
    return _judged(gate, row, gate.limits(row.treatment), f"{row.label}{row_phrase(row, base)}", case)


def _on_metric(gate: BuildGate, metric: str, row: Row) -> Case:
    """Judge a treatment on another metric; its errors were judged already."""
    name = f"{row.label} ({metric})"
    said = f"{name}{phrase(row.verdict, against=row.against)}" if row.verdict else name
    case = partial(Case, "comparison", name, treatment=row.treatment, metric=metric, row=row)
    return _judged(gate, row, gate.limits_on(metric, row.treatment), said, case, errors=False)


def _judged(
    gate: BuildGate, row: Row, limits: Limits, said: str, case: Callable[..., Case], *, errors: bool = True
) -> Case:
    if gate.only and row.treatment not in gate.only:
        return case("skipped", said, "not asked about: gate.only leaves it out")
    if row.verdict is None or row.verdict.kind == "invalid":
        return case("invalid", said, (row.verdict.reason if row.verdict else None) or "it could not be compared")
    found = list(answers(limits, row, errors=errors))
    missed, unclear = ([why for answer, why in found if answer == wanted] for wanted in ("missed", "open"))
    if missed:
        return case("failed", said, " and ".join(missed))
    if not unclear:
        return case("passed", said)
    return case(_by_choice(limits), said, f"undecided: {' and '.join(unclear)}", undecided=True)


def _by_choice(limits: Limits) -> Outcome:
    """Return what the study says of a build that shows neither."""
    return "failed" if limits.undecided == "fail" else "passed"


def _laboratory(analysis: Analysis) -> Iterator[Case]:
    """Yield a case per check of the laboratory; without one, that nobody asked."""
    for kind, name in LABORATORY.items():
        rows = analysis.of_kind(kind)  # type: ignore[arg-type]
        if not rows:
            yield Case(kind, name, "skipped", f"The run has no {name}.", f"the run has no {name}")  # type: ignore[arg-type]
        for row in rows:
            yield _check(analysis, row, name)


def _check(analysis: Analysis, row: Row, name: str) -> Case:
    twin = analysis.row(row.verdict.comparison.baseline if row.verdict else analysis.baseline)
    kind: CaseKind = "aa" if row.kind == "aa" else "control"
    said = aa_sentence(row, twin.label) if kind == "aa" else control_sentence(row)
    case = partial(Case, kind, f"{name}: {row.label}", treatment=row.treatment, row=row)
    if row.passed:
        return case("passed", said)
    if row.passed is None:
        return case("invalid", said, (row.verdict.reason if row.verdict else None) or "it was not checked")
    return case("invalid", said, "the same differs" if kind == "aa" else "what is slower may be missed, too")


def _trials(data: RunTables) -> Case:
    """Return whether the run is over, and how many of its trials count."""
    planned = len(getattr(data, "plan", {}).get("trials") or data.trials)
    valid, run = int(data.trials["valid"].sum()), getattr(data, "run_json", {})
    case = partial(Case, "trials", "trials")
    said = f"{valid} of {planned} trials count."
    if run.get("ended", True) is None and not run.get("imported"):
        return case("invalid", said, "the run is not finished: loadbook run goes on with it")
    return case("passed", said) if valid else case("invalid", said, "no trial counts")


def _stopping(gate: BuildGate, analysis: Analysis) -> Case:
    """Return whether the run stopped as its study declared: one that went on after a look shows nothing for sure."""
    case = partial(Case, "stopping", "blocks as declared")
    if not analysis.stand.added:
        return case("passed", "The run stopped as its study declared.")
    said = f"Exploratory: {added_after(analysis.stand.added)}."
    return case(_by_choice(gate), said, "undecided: a new run decides", undecided=True)


def _doubts(gate: BuildGate, data: RunTables) -> Iterator[Case]:
    problems: pd.DataFrame | None = getattr(data, "problems", None)
    spoken = _sentences(problems, "doubt")
    unchecked = _sentences(problems, "unchecked")
    for name in gate.doubts:
        case = partial(Case, "doubt", f"doubt: {name if name == ALL else inside(title_of(name))}")
        hits = [text for rule, text in spoken if name in (ALL, rule)]
        silent = [text for rule, text in unchecked if name == rule]
        if hits:
            more = f" ({len(hits) - 1} more)" if len(hits) > 1 else ""
            yield case("failed", hits[0], f"this doubt is unacceptable{more}")
        elif silent:
            yield case(_by_choice(gate), silent[0], "undecided: it was not checked", undecided=True)
        else:
            yield case("passed", "No gate had this doubt.")
    if not gate.doubts:
        number = len({rule for rule, _ in spoken})
        said = f"{number} gate{' had a doubt' if number == 1 else 's had doubts'}."
        yield Case("doubt", "doubts", "skipped", said, "no doubt is asked about: gate.doubts is empty")


def _sentences(problems: pd.DataFrame | None, level: str) -> list[tuple[str, str]]:
    """Return the different sentences of a level, each with the name of its rule."""
    if problems is None:
        return []
    rows = problems.loc[problems["level"] == level, ["name", "message"]].drop_duplicates()
    return [(str(name), str(message)) for name, message in rows.itertuples(index=False)]
