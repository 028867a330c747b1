"""Does a build pass? An Analysis, judged by what its study declares unacceptable (docs/ci.md).

Every question has three answers: it is met, it is missed, or the run shows neither. What shows neither fails or passes
as the study chose; what may not be compared never passes. Nothing is decided by an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from loadbook.core.gates import inside, title_of
from loadbook.design.build_gate import ALL, DEFAULT, BuildGate, Limits
from loadbook.stats.result import Analysis, Comparison, Interval, Row, VerdictKind
from loadbook.stats.wording.sentences import aa_sentence, added_after, control_sentence, margin_text, row_phrase
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.question import RunTables

Outcome = Literal["passed", "failed", "invalid", "skipped"]
CaseKind = Literal["comparison", "aa", "control", "trials", "stopping", "doubt"]
Answer = Literal["met", "missed", "open"]
EXIT_CODES: dict[Outcome, int] = {"passed": 0, "skipped": 0, "failed": 1, "invalid": 4}
WORDS: dict[str, VerdictKind] = {"faster": "better", "slower": "worse"}
LABORATORY = {"aa": "A/A arm", "control": "positive control"}


@dataclass(frozen=True)
class Case:
    """One question of a gate: what was seen (a sentence), and why it fails, is invalid or was not asked (`because`).

    `undecided` says that the run shows neither, and that the study's choice made the outcome.
    """

    kind: CaseKind
    name: str
    outcome: Outcome
    sentence: str
    because: str | None = None
    treatment: str | None = None
    row: Row | None = field(default=None, repr=False)
    undecided: bool = False

    @property
    def told(self) -> str:
        """What was seen, and what follows from it where that is not said already."""
        if self.because is None or self.because.lower() in self.sentence.lower():
            return self.sentence
        return f"{self.sentence} {self.because[0].upper()}{self.because[1:]}."


@dataclass(frozen=True)
class Judged:
    """What a build gate says of a run: invalid before failed before passed."""

    cases: tuple[Case, ...]

    @property
    def outcome(self) -> Outcome:
        """How the build ends; invalid where anything that was asked could not be judged."""
        there = {case.outcome for case in self.cases}
        return "invalid" if "invalid" in there else "failed" if "failed" in there else "passed"

    @property
    def exit_code(self) -> int:
        """0 passed, 1 a verdict that the study declared unacceptable, 4 data that allow no verdict."""
        return EXIT_CODES[self.outcome]

    def of(self, *outcomes: Outcome) -> tuple[Case, ...]:
        """Return the cases that ended so."""
        return tuple(case for case in self.cases if case.outcome in outcomes)

    @property
    def sentence(self) -> str:
        """The outcome in words, with the first reason; what is wrong with the laboratory comes first."""
        if self.outcome == "passed":
            return f"Build gate: passed{self._accepted()}."
        wrong = self.of(self.outcome)
        first = next((case for case in wrong if case.kind in LABORATORY), wrong[0])
        more = f" {len(wrong) - 1} more like it." if len(wrong) > 1 else ""
        return f"Build gate: {'failed' if self.outcome == 'failed' else 'no verdict'}. {first.told}{more}"

    def _accepted(self) -> str:
        asked = [case for case in self.of("passed") if case.kind == "comparison"]
        open_ones = [case.name for case in self.of("passed") if case.undecided]
        said = f", {len(asked)} of {len(asked)} comparisons are acceptable" if asked else ""
        return said + (f"; undecided, which the study lets pass: {', '.join(open_ones)}" if open_ones else "")


def judge(gate: BuildGate, analysis: Analysis, data: RunTables) -> Judged:
    """Judge a run by what its study declares unacceptable.

    Parameters
    ----------
    analysis : the answer to the study's own question: its baseline, metric and margin.
    data : the tables of the run; `problems`, `plan` and `run_json` are read where it has them.
    """
    compared = [_comparison(gate, analysis, row) for row in analysis.of_kind("treatment")]
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


def in_words(gate: BuildGate, metric: str) -> str:
    """Return in a line what fails a build."""
    words = unacceptable(gate, metric)
    parts = [f"{' or '.join(words)} fails" if words else "no verdict fails"]
    parts += [f"at least {_signed(gate.min_effect)}"] if gate.min_effect is not None else []
    parts += [f"at most {_signed(gate.max_effect)}"] if gate.max_effect is not None else []
    parts += [f"undecided {'fails' if gate.undecided == 'fail' else 'passes'}"]
    parts += [f"a doubt fails: {', '.join(gate.doubts)}"] if gate.doubts else []
    parts += [f"judged is only {', '.join(gate.only)}"] if gate.only else []
    parts += [f"otherwise for {', '.join(gate.treatments)}"] if gate.treatments else []
    return "; ".join(parts)


def _comparison(gate: BuildGate, analysis: Analysis, row: Row) -> Case:
    base = analysis.row(row.verdict.comparison.baseline).errors if row.verdict else None
    said = f"{row.label}{row_phrase(row, base)}"
    case = partial(Case, "comparison", row.label, treatment=row.treatment, row=row)
    if gate.only and row.treatment not in gate.only:
        return case("skipped", said, "not asked about: gate.only leaves it out")
    if row.verdict is None or row.verdict.kind == "invalid":
        return case("invalid", said, (row.verdict.reason if row.verdict else None) or "it could not be compared")
    limits = gate.limits(row.treatment)
    answers = list(_answers(limits, row))
    missed, unclear = ([why for answer, why in answers if answer == wanted] for wanted in ("missed", "open"))
    if missed:
        return case("failed", said, " and ".join(missed))
    if not unclear:
        return case("passed", said)
    return case(_by_choice(limits), said, f"undecided: {' and '.join(unclear)}", undecided=True)


def _by_choice(limits: Limits) -> Outcome:
    """Return what the study says of a build that shows neither."""
    return "failed" if limits.undecided == "fail" else "passed"


def _answers(limits: Limits, row: Row) -> Iterator[tuple[Answer, str]]:
    """Yield the answer to each thing that is asked of a comparison, and what it is that is missed or open."""
    assert row.verdict is not None
    found, kind = row.verdict.comparison, row.verdict.kind
    words = unacceptable(limits, found.metric)
    if {"slower", "faster", "small"} & set(words):
        bad = [word for word in words if _is(word, row)]
        yield ("missed" if bad else "open" if kind == "undecided" else "met"), _unacceptable(bad)
    if "more-errors" in words:
        yield ("missed" if row.errors.kind == "more" else "met"), "more errors are unacceptable"
    if limits.min_effect is not None:
        yield _beyond(found, limits.min_effect, 1), f"at least {_signed(limits.min_effect)} is required"
    if limits.max_effect is not None:
        yield _beyond(found, limits.max_effect, -1), f"at most {_signed(limits.max_effect)} is allowed"


def unacceptable(limits: Limits, metric: str) -> tuple[str, ...]:
    """Return the verdicts that fail: those named; else slower, unless a limit says how much of a loss is accepted."""
    if limits.fail_on is not None:
        return limits.fail_on
    limit = limits.min_effect if direction(metric) == "higher" else limits.max_effect
    return DEFAULT if limit is None else tuple(word for word in DEFAULT if word != "slower")


def _is(word: str, row: Row) -> bool:
    assert row.verdict is not None
    if word == "small":
        sign = 1 if direction(row.verdict.comparison.metric) == "higher" else -1
        return row.verdict.kind == "small" and sign * (row.verdict.comparison.effect or 0.0) < 0
    return row.verdict.kind == WORDS.get(word)


def _unacceptable(words: list[str]) -> str:
    if not words:
        return "neither a difference nor its absence is shown"
    said = {"small": "a loss that is real, but smaller than the margin,"}
    return f"{said.get(words[0], words[0])} is unacceptable"


def _signed(limit: float) -> str:
    """Return a limit with as many decimals as it has, at most two, and its sign."""
    return ("+" if limit > 0 else "−" if limit < 0 else "") + margin_text(abs(limit))


def _beyond(found: Comparison, limit: float, sign: int) -> Answer:
    """Tell on which side of a limit an effect lies; `sign` is 1 where it must not be below, -1 where not above.

    Within, each end of the 90 % interval is a bound at one-sided 95 %, as for equivalence. Beyond is a claim that
    fails a build, so that the interval counts that allows for all comparisons; where blocks are too few to have that
    one, nothing is shown.
    """
    inside = _ends(found.ci90, sign)
    if inside is not None and inside[0] >= sign * limit:
        return "met"
    outside = _ends(found.ci_family if found.family > 1 else found.ci95, sign)
    return "missed" if outside is not None and outside[1] < sign * limit else "open"


def _ends(interval: Interval | None, sign: int) -> Interval | None:
    """Return an interval as seen from the side of a limit: its near end first."""
    if interval is None:
        return None
    low, high = sorted(sign * end for end in interval)
    return low, high


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
