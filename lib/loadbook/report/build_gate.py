"""A run judged by the build gate of its study, as a document for machines; `cli.gate` prints it, pages show a line."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from loadbook.design.build_gate import BuildGate
from loadbook.records.rundata import RunData
from loadbook.stats.gate.case import Case, Judged
from loadbook.stats.gate.judge import judge
from loadbook.stats.result import Analysis

SCHEMA = 1


@dataclass(frozen=True)
class Gated:
    """A run with what its build gate says; `late`: the gate was written after the run was planned."""

    data: RunData
    gate: BuildGate
    analysis: Analysis
    judged: Judged
    late: bool = False

    @property
    def sentence(self) -> str:
        """What the gate says, and that it was written after the run where it was."""
        return self.judged.sentence + (" [gate] was written after this run was planned." if self.late else "")


def gated(data: RunData, written_since: BuildGate | None = None) -> Gated | None:
    """Judge a run by the build gate that its study had when the run was planned; None where there is none.

    Parameters
    ----------
    written_since : the gate of the study's file now; it counts where the run was planned without one.
    """
    gate = data.study.gate or written_since
    if gate is None:
        return None
    from loadbook.stats.parts import analyse_parts

    asked = {name: name.partition(" ") for name in gate.metrics}  # a metric, and a statistic after a space
    others = {n: analyse_parts(data, metric=metric, statistic=of or None) for n, (metric, _, of) in asked.items()}
    analysis = analyse_parts(data)
    return Gated(data, gate, analysis, judge(gate, analysis, data, others), late=data.study.gate is None)


def document(found: Gated) -> dict[str, Any]:
    """Return the JSON summary (docs/ci.md has its fields); effects and intervals are ratios minus 1."""
    data, judged = found.data, found.judged
    numbers = {word: len(judged.of(word)) for word in ("passed", "failed", "invalid", "skipped")}
    return {
        "schema": SCHEMA,
        "study": data.study.name,
        "run": data.run,
        "question": data.study.question,
        "metric": found.analysis.metric,
        "statistic": found.analysis.statistic,
        "margin": found.analysis.margin,
        "started": data.run_json["started"],
        "ended": data.run_json["ended"],
        "outcome": judged.outcome,
        "exit_code": judged.exit_code,
        "sentence": found.sentence,
        "gate": found.gate.model_dump(mode="json", exclude_none=True),
        "written_after_run": found.late,
        "numbers": numbers,
        "cases": [_case(case) for case in judged.cases],
    }


def brief(found: Gated) -> dict[str, Any]:
    """Return what a report's summary says of the build gate: fields of the JSON summary, without its cases."""
    return {"outcome": found.judged.outcome, "exit_code": found.judged.exit_code, "sentence": found.sentence}


def _case(case: Case) -> dict[str, Any]:
    said = asdict(case)
    del said["row"]
    return said | _numbers(case)


def _numbers(case: Case) -> dict[str, Any]:
    """Return the numbers of a comparison; those of one that may not be made are null."""
    verdict = case.row.verdict if case.row else None
    if verdict is None:
        return {}
    found, known = verdict.comparison, verdict.kind != "invalid"
    numbers = {key: getattr(found, key) if known else None for key in ("effect", "ci95", "ci90", "p", "p_adjusted")}
    asked = {"metric": found.metric, "statistic": found.statistic, "against": found.baseline}
    return asked | {"verdict": verdict.kind, **numbers, "blocks": found.blocks}
