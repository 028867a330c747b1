"""What a build gate says of a run: one case per question, and how the build ends."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from loadbook.stats.result import AnalysisRow

CaseOutcome = Literal["passed", "failed", "invalid", "skipped"]
CaseKind = Literal["comparison", "aa", "control", "trials", "stopping", "doubt"]
EXIT_CODES: dict[CaseOutcome, int] = {"passed": 0, "skipped": 0, "failed": 1, "invalid": 4}
CHECK_NAMES = {"aa": "A/A arm", "control": "positive control"}


@dataclass(frozen=True)
class CiCase:
    """One question of a gate: what was seen (a sentence), and why it fails, is invalid or was not asked (`because`).

    `metric` is another one than the study's own. `undecided` says that the run shows neither, and that the study's
    choice made the outcome.
    """

    kind: CaseKind
    name: str
    outcome: CaseOutcome
    sentence: str
    because: str | None = None
    treatment: str | None = None
    metric: str | None = None
    row: AnalysisRow | None = field(default=None, repr=False)
    undecided: bool = False

    @property
    def full_sentence(self) -> str:
        """What was seen, and what follows from it where that is not said already."""
        if self.because is None or self.because.lower() in self.sentence.lower():
            return self.sentence
        return f"{self.sentence} {self.because[0].upper()}{self.because[1:]}."


@dataclass(frozen=True)
class CiResult:
    """What a build gate says of a run: invalid before failed before passed."""

    cases: tuple[CiCase, ...]

    @property
    def outcome(self) -> CaseOutcome:
        """How the build ends; invalid where anything that was asked could not be judged."""
        outcomes = {case.outcome for case in self.cases}
        return "invalid" if "invalid" in outcomes else "failed" if "failed" in outcomes else "passed"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 a verdict that the study declared unacceptable, 4 data that allow no verdict."""
        return EXIT_CODES[self.outcome]

    def cases_with(self, *outcomes: CaseOutcome) -> tuple[CiCase, ...]:
        """Return the cases that ended so."""
        return tuple(case for case in self.cases if case.outcome in outcomes)

    @property
    def sentence(self) -> str:
        """The outcome in words, with the first reason; what is wrong with the laboratory comes first."""
        if self.outcome == "passed":
            return f"Build gate: passed{self._accepted_text()}."
        wrong = self.cases_with(self.outcome)
        first = next((case for case in wrong if case.kind in CHECK_NAMES), wrong[0])
        more = f" {len(wrong) - 1} more like it." if len(wrong) > 1 else ""
        return f"Build gate: {'failed' if self.outcome == 'failed' else 'no verdict'}. {first.full_sentence}{more}"

    def _accepted_text(self) -> str:
        comparisons = [case for case in self.cases_with("passed") if case.kind == "comparison"]
        undecided = [case.name for case in self.cases_with("passed") if case.undecided]
        count = "its comparison is" if len(comparisons) == 1 else f"all {len(comparisons)} comparisons are"
        text = f", {count} acceptable" if comparisons else ""
        return text + (f"; undecided, which the study lets pass: {', '.join(undecided)}" if undecided else "")
