"""Does a build pass? An Analysis, judged by what its study declares unacceptable (docs/ci.md).

Every question has three answers: it is met, it is missed, or the run shows neither. What shows neither fails or passes
as the study chose; what may not be compared never passes. Nothing is decided by an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from loadbook.core.gates import lower_first, rule_title
from loadbook.design.build_gate import ALL_RULES, CiPolicy, CiLimits
from loadbook.stats.gate.case import CHECK_NAMES, CiCase, CaseKind, CiResult, CaseOutcome
from loadbook.stats.gate.limits import check_limits
from loadbook.stats.result import Analysis, AnalysisRow
from loadbook.stats.wording.sentences import aa_sentence, added_blocks_text, control_sentence, verdict_phrase, row_phrase

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.question import RunTables


def assess_run(gate: CiPolicy, analysis: Analysis, data: RunTables, others: Mapping[str, Analysis] | None = None) -> CiResult:
    """Judge a run by what its study declares unacceptable.

    Parameters
    ----------
    analysis : the answer to the study's own question: its baseline, metric and margin.
    others : the same for the other metrics of the gate, by the names that it gives them.
    data : the tables of the run; `problems`, `plan` and `run_json` are read where it has them.
    """
    compared = [_comparison_case(gate, analysis, row) for row in analysis.of_kind("treatment")]
    for metric, other in (others or {}).items():
        compared += [_metric_case(gate, metric, row) for row in other.of_kind("treatment")]
    present = {row.treatment for row in analysis.rows}
    missing = [
        CiCase("comparison", name, "invalid", f"{name}: not compared: it is not in this run.", "it is not in this run")
        for name in gate.only
        if name not in present
    ]
    checks = list(_check_cases(analysis))
    if not any(case.outcome != "skipped" for case in (*compared, *missing, *checks)):
        missing.append(CiCase("comparison", "comparisons", "invalid", "Nothing was compared.", "nothing was compared"))
    return CiResult((*compared, *missing, *checks, _trials_case(data), _stopping_case(gate, analysis), *_doubt_cases(gate, data)))


def _comparison_case(gate: CiPolicy, analysis: Analysis, row: AnalysisRow) -> CiCase:
    base = analysis.row(row.verdict.comparison.baseline).errors if row.verdict else None
    case = partial(CiCase, "comparison", row.label, treatment=row.treatment, row=row)
    return _assess_case(gate, row, gate.limits_for(row.treatment), f"{row.label}{row_phrase(row, base)}", case)


def _metric_case(gate: CiPolicy, metric: str, row: AnalysisRow) -> CiCase:
    """Judge a treatment on another metric; its errors were judged already."""
    name = f"{row.label} ({metric})"
    sentence = f"{name}{verdict_phrase(row.verdict, against=row.reference_label)}" if row.verdict else name
    case = partial(CiCase, "comparison", name, treatment=row.treatment, metric=metric, row=row)
    return _assess_case(gate, row, gate.metric_limits(metric, row.treatment), sentence, case, errors=False)


def _assess_case(
    gate: CiPolicy, row: AnalysisRow, limits: CiLimits, sentence: str, case: Callable[..., CiCase], *, errors: bool = True
) -> CiCase:
    if gate.only and row.treatment not in gate.only:
        return case("skipped", sentence, "not asked about: gate.only leaves it out")
    if row.verdict is None or row.verdict.kind == "invalid":
        return case("invalid", sentence, (row.verdict.reason if row.verdict else None) or "it could not be compared")
    states = list(check_limits(limits, row, errors=errors))
    missed_limits, open_limits = ([why for answer, why in states if answer == wanted] for wanted in ("missed", "open"))
    if missed_limits:
        return case("failed", sentence, " and ".join(missed_limits))
    if not open_limits:
        return case("passed", sentence)
    return case(_undecided_outcome(limits), sentence, f"undecided: {' and '.join(open_limits)}", undecided=True)


def _undecided_outcome(limits: CiLimits) -> CaseOutcome:
    """Return what the study says of a build that shows neither."""
    return "failed" if limits.undecided == "fail" else "passed"


def _check_cases(analysis: Analysis) -> Iterator[CiCase]:
    """Yield a case per check of the laboratory; without one, that nobody asked."""
    for kind, name in CHECK_NAMES.items():
        rows = analysis.of_kind(kind)  # type: ignore[arg-type]
        if not rows:
            yield CiCase(kind, name, "skipped", f"The run has no {name}.", f"the run has no {name}")  # type: ignore[arg-type]
        for row in rows:
            yield _check_case(analysis, row, name)


def _check_case(analysis: Analysis, row: AnalysisRow, name: str) -> CiCase:
    reference = analysis.row(row.verdict.comparison.baseline if row.verdict else analysis.baseline)
    kind: CaseKind = "aa" if row.kind == "aa" else "control"
    sentence = aa_sentence(row, reference.label) if kind == "aa" else control_sentence(row)
    case = partial(CiCase, kind, f"{name}: {row.label}", treatment=row.treatment, row=row)
    if row.passed:
        return case("passed", sentence)
    if row.passed is None:
        return case("invalid", sentence, (row.verdict.reason if row.verdict else None) or "it was not checked")
    return case("invalid", sentence, "the same differs" if kind == "aa" else "what is slower may be missed, too")


def _trials_case(data: RunTables) -> CiCase:
    """Return whether the run is over, and how many of its trials count."""
    planned = len(getattr(data, "plan", {}).get("trials") or data.trials)
    valid, run = int(data.trials["valid"].sum()), getattr(data, "run_json", {})
    case = partial(CiCase, "trials", "trials")
    sentence = f"{valid} of {planned} trials count."
    if run.get("ended", True) is None and not run.get("imported"):
        return case("invalid", sentence, "the run is not finished: loadbook run goes on with it")
    return case("passed", sentence) if valid else case("invalid", sentence, "no trial counts")


def _stopping_case(gate: CiPolicy, analysis: Analysis) -> CiCase:
    """Return whether the run stopped as its study declared: one that went on after a look shows nothing for sure."""
    case = partial(CiCase, "stopping", "blocks as declared")
    if not analysis.stopping_state.added_blocks:
        return case("passed", "The run stopped as its study declared.")
    sentence = f"Exploratory: {added_blocks_text(analysis.stopping_state.added_blocks)}."
    return case(_undecided_outcome(gate), sentence, "undecided: a new run decides", undecided=True)


def _doubt_cases(gate: CiPolicy, data: RunTables) -> Iterator[CiCase]:
    problems: pd.DataFrame | None = getattr(data, "problems", None)
    doubts = _problem_messages(problems, "doubt")
    unchecked = _problem_messages(problems, "unchecked")
    for name in gate.doubts:
        case = partial(CiCase, "doubt", f"doubt: {name if name == ALL_RULES else lower_first(rule_title(name))}")
        hits = [text for rule, text in doubts if name in (ALL_RULES, rule)]
        not_checked = [text for rule, text in unchecked if name == rule]
        if hits:
            more = f" ({len(hits) - 1} more)" if len(hits) > 1 else ""
            yield case("failed", hits[0], f"this doubt is unacceptable{more}")
        elif not_checked:
            yield case(_undecided_outcome(gate), not_checked[0], "undecided: it was not checked", undecided=True)
        else:
            yield case("passed", "No gate had this doubt.")
    if not gate.doubts:
        number = len({rule for rule, _ in doubts})
        sentence = f"{number} gate{' had a doubt' if number == 1 else 's had doubts'}."
        yield CiCase("doubt", "doubts", "skipped", sentence, "no doubt is asked about: gate.doubts is empty")


def _problem_messages(problems: pd.DataFrame | None, level: str) -> list[tuple[str, str]]:
    """Return the different sentences of a level, each with the name of its rule."""
    if problems is None:
        return []
    rows = problems.loc[problems["level"] == level, ["name", "message"]].drop_duplicates()
    return [(str(name), str(message)) for name, message in rows.itertuples(index=False)]
