"""A run judged by the build gate of its study, as a document for machines; `cli.gate` prints it, pages show a line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from loadbook.design.build_gate import CiPolicy
from loadbook.records.rundata import RunData
from loadbook.stats.gate.case import CiCase, CiResult
from loadbook.stats.gate.judge import assess_run
from loadbook.stats.result import Analysis

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class CiReport:
    """A run with what its build gate says; `late`: the gate was written after the run was planned."""

    data: RunData
    policy: CiPolicy
    analysis: Analysis
    result: CiResult
    late: bool = False

    @property
    def sentence(self) -> str:
        """What the gate says, and that it was written after the run where it was."""
        return self.result.sentence + (" [gate] was written after this run was planned." if self.late else "")


def evaluate_ci(data: RunData, written_since: CiPolicy | None = None) -> CiReport | None:
    """Judge a run by the build gate that its study had when the run was planned; None where there is none.

    Parameters
    ----------
    written_since : the gate of the study's file now; it counts where the run was planned without one.
    """
    gate = data.study.gate or written_since
    if gate is None:
        return None
    from loadbook.stats.parts import analyse_strata

    parts_by_name = {name: name.partition(" ") for name in gate.metrics}  # a metric, and a statistic after a space
    others = {n: analyse_strata(data, metric=metric, statistic=of or None) for n, (metric, _, of) in parts_by_name.items()}
    analysis = analyse_strata(data)
    return CiReport(data, gate, analysis, assess_run(gate, analysis, data, others), late=data.study.gate is None)


def ci_document(found: CiReport) -> dict[str, Any]:
    """Return the JSON summary (docs/ci.md has its fields); effects and intervals are ratios minus 1."""
    data, result = found.data, found.result
    numbers = {word: len(result.cases_with(word)) for word in ("passed", "failed", "invalid", "skipped")}
    return {
        "schema": SCHEMA_VERSION,
        "study": data.study.name,
        "run": data.run,
        "question": data.study.question,
        "metric": found.analysis.metric,
        "statistic": found.analysis.statistic,
        "margin": found.analysis.margin,
        "started": data.run_json["started"],
        "ended": data.run_json["ended"],
        "outcome": result.outcome,
        "exit_code": result.exit_code,
        "sentence": found.sentence,
        "gate": found.policy.model_dump(mode="json", exclude_none=True),
        "written_after_run": found.late,
        "numbers": numbers,
        "cases": [_case_record(case) for case in result.cases],
    }


def ci_summary(found: CiReport) -> dict[str, Any]:
    """Return what a report's summary says of the build gate: fields of the JSON summary, without its cases."""
    return {"outcome": found.result.outcome, "exit_code": found.result.exit_code, "sentence": found.sentence}


def _case_record(case: CiCase) -> dict[str, Any]:
    record = asdict(case)
    del record["row"]
    return record | _case_numbers(case)


def _case_numbers(case: CiCase) -> dict[str, Any]:
    """Return the numbers of a comparison; those of one that may not be made are null."""
    verdict = case.row.verdict if case.row else None
    if verdict is None:
        return {}
    found, known = verdict.comparison, verdict.kind != "invalid"
    numbers = {key: getattr(found, key) if known else None for key in ("effect", "ci95", "ci90", "p", "p_adjusted")}
    question = {"metric": found.metric, "statistic": found.statistic, "against": found.baseline}
    return question | {"verdict": verdict.kind, **numbers, "blocks": found.blocks}
