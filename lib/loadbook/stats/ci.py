"""Outcome of a CI build by the policy of its study (docs/ci.md): one case per limit, harness check and rule.

A limit is met, missed, or open if the run shows neither. The study decides whether open limits fail the build; invalid
comparisons never pass. Limits are compared with confidence intervals, never with an estimate alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal

from loadbook.core.units import pluralize
from loadbook.core.validity_rules import lower_first, rule_title
from loadbook.stats.error_text import refusal_text
from loadbook.stats.headline import (
    Neutral,
    aa_result,
    control_result,
    headline,
    saturation_text,
    supporting_text,
)
from loadbook.stats.no_comparison import excluded_headline, refusal_headline, unfinished_reason
from loadbook.stats.phrases import row_phrase, verdict_parts
from loadbook.stats.results import Analysis, AnalysisRow, Comparison, VerdictKind
from loadbook.stats.text import (
    added_blocks_text,
    direction,
    margin_text,
)
from loadbook.study.limits import ALL_RULES, DEFAULT_FAIL_ON, CiLimits, CiPolicy

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.store.tables import RunTables

BUILD_GATE = "Build gate"
LimitState = Literal["met", "missed", "open"]
VERDICT_KINDS: dict[str, VerdictKind] = {"faster": "better", "slower": "worse"}


def policy_text(policy: CiPolicy, metric: str) -> str:
    """Return a one-line description of the policy."""
    words = unacceptable_verdicts(policy, metric)
    parts = [f"{' or '.join(words)} fails" if words else "no verdict fails"]
    parts += [f"at least {_signed_limit(policy.min_effect)}"] if policy.min_effect is not None else []
    parts += [f"at most {_signed_limit(policy.max_effect)}"] if policy.max_effect is not None else []
    parts += [f"undecided {'fails' if policy.undecided == 'fail' else 'passes'}"]
    parts += [f"a doubt fails: {', '.join(policy.doubts)}"] if policy.doubts else []
    parts += [f"judged is only {', '.join(policy.only)}"] if policy.only else []
    parts += [f"also judged is {', '.join(policy.metrics)}"] if policy.metrics else []
    parts += [f"otherwise for {', '.join(policy.treatments)}"] if policy.treatments else []
    return "; ".join(parts)


def check_limits(limits: CiLimits, row: AnalysisRow, *, errors: bool = True) -> Iterator[tuple[LimitState, str]]:
    """Yield each limit that applies to a comparison as (met, missed or open; description).

    `row` must have a verdict. `errors`: False if the errors are judged in another case.
    """
    assert row.verdict is not None
    comparison, kind = row.verdict.comparison, row.verdict.kind
    words = unacceptable_verdicts(limits, comparison.metric)
    if {"slower", "faster", "small"} & set(words):
        sign = 1 if direction(comparison.metric) == "higher" else -1
        is_small_loss = kind == "small" and sign * (comparison.effect or 0.0) < 0
        found = [word for word in words if VERDICT_KINDS.get(word) == kind or (word == "small" and is_small_loss)]
        bad = found[0] if found else None
        what = "a loss that is real, but smaller than the margin," if bad == "small" else bad
        reason = f"{what} is unacceptable" if bad else "neither a difference nor its absence is shown"
        yield ("missed" if bad else "open" if kind == "undecided" else "met"), reason
    if errors and "more-errors" in words:
        yield ("missed" if row.errors.kind == "more" else "met"), "more errors are unacceptable"
    if limits.min_effect is not None:
        yield _check_limit(comparison, limits.min_effect, 1), f"at least {_signed_limit(limits.min_effect)} is required"
    if limits.max_effect is not None:
        yield _check_limit(comparison, limits.max_effect, -1), f"at most {_signed_limit(limits.max_effect)} is allowed"


def unacceptable_verdicts(limits: CiLimits, metric: str) -> tuple[str, ...]:
    """Return verdicts that fail a build: `fail_on`, else the default, without slower if a limit states the loss."""
    if limits.fail_on is not None:
        return limits.fail_on
    limit = limits.min_effect if direction(metric) == "higher" else limits.max_effect
    return DEFAULT_FAIL_ON if limit is None else tuple(word for word in DEFAULT_FAIL_ON if word != "slower")


def _signed_limit(limit: float) -> str:
    """Return a limit as text with its sign and its own number of decimals, at most two."""
    return ("+" if limit > 0 else "−" if limit < 0 else "") + margin_text(abs(limit))


def _check_limit(comparison: Comparison, limit: float, sign: int) -> LimitState:
    """Return whether an effect meets or misses a limit; `sign` is 1 for a lower limit, -1 for an upper one.

    "Met" needs the 90 % interval inside the limit (each end is a one-sided 95 % bound, as for equivalence). "Missed"
    needs the interval adjusted for all comparisons outside it; with too few blocks that interval does not exist, and
    the limit is open.
    """
    inner, outer = comparison.ci90, comparison.ci_family if comparison.family_size > 1 else comparison.ci95
    if inner is not None and min(sign * end for end in inner) >= sign * limit:
        return "met"
    return "missed" if outer is not None and max(sign * end for end in outer) < sign * limit else "open"


CaseOutcome = Literal["passed", "failed", "invalid", "skipped"]
CaseKind = Literal["comparison", "aa", "control", "trials", "stopping", "doubt"]
EXIT_CODES: dict[CaseOutcome, int] = {"passed": 0, "skipped": 0, "failed": 1, "invalid": 4}
CHECK_NAMES = {"aa": "A/A arm", "control": "positive control"}


@dataclass(frozen=True)
class CiCase:
    """Case of a CI policy: a sentence on the result, and the reason if the case failed, is invalid or was skipped.

    `metric` is set only for a metric other than the study's. `undecided`: the run decides nothing, so that the study's
    setting for undecided cases gave the outcome.
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
        """Return the sentence, followed by the reason unless it contains it."""
        if self.because is None or self.because.lower() in self.sentence.lower():
            return self.sentence
        return f"{self.sentence} {self.because[0].upper()}{self.because[1:]}."


@dataclass(frozen=True)
class CiResult:
    """Outcome of a build: invalid if any case is invalid, else failed if any case failed, else passed.

    `no_verdict` has the first sentences of the run's page if that has no verdict, else "".
    """

    cases: tuple[CiCase, ...]
    no_verdict: str = ""

    @property
    def outcome(self) -> CaseOutcome:
        """Return the outcome of the build; it is invalid if any case could not be judged."""
        outcomes = {case.outcome for case in self.cases}
        return "invalid" if "invalid" in outcomes else "failed" if "failed" in outcomes else "passed"

    @property
    def exit_code(self) -> int:
        """Return 0 if passed, 1 if a verdict is unacceptable to the study, 4 if the data allow no verdict."""
        return EXIT_CODES[self.outcome]

    def cases_with(self, *outcomes: CaseOutcome) -> tuple[CiCase, ...]:
        """Return the cases that have one of these outcomes."""
        return tuple(case for case in self.cases if case.outcome in outcomes)

    @property
    def sentence(self) -> str:
        """The outcome as a sentence that names the build gate."""
        return f"{BUILD_GATE}: {self.outcome_text}"

    @property
    def outcome_text(self) -> str:
        """The outcome with its first reason; without a verdict, in the words of the run's page."""
        if self.outcome == "passed":
            passed = self.cases_with("passed")
            compared = sum(case.kind == "comparison" for case in passed)
            count = "its comparison is" if compared == 1 else f"all {compared} comparisons are"
            text = f"passed, {count} acceptable" if compared else "passed"
            undecided = ", ".join(case.name for case in passed if case.undecided)
            return f"{text}; undecided, which the study lets pass: {undecided}." if undecided else f"{text}."
        if self.outcome == "invalid" and self.no_verdict:
            return lower_first(self.no_verdict)
        first, *others = self.cases_with(self.outcome)
        more = f" {len(others)} more like it." if others else ""
        return f"{'failed' if self.outcome == 'failed' else 'no verdict'}. {first.full_sentence}{more}"


def assess_run(
    policy: CiPolicy, analysis: Analysis, data: RunTables, others: Mapping[str, Analysis] | None = None
) -> CiResult:
    """Judge a run by the CI policy of its study.

    Parameters
    ----------
    analysis : comparisons on the study's own baseline, metric and margin.
    others : analyses of the other metrics of the policy, by the names that the policy uses for these metrics.
    data : tables of the run; `problems`, `plan` and `run_record` are used if present.
    """
    compared = [_comparison_case(policy, analysis, row) for row in analysis.of_kind("treatment")]
    for metric, other in (others or {}).items():
        compared += [_comparison_case(policy, other, row, metric) for row in other.of_kind("treatment")]
    present = {row.treatment for row in analysis.rows}
    missing = [
        CiCase("comparison", name, "invalid", f"{name}: not compared: it is not in this run.", "it is not in this run")
        for name in policy.only
        if name not in present
    ]
    checks = list(_check_cases(analysis))
    if not any(case.outcome != "skipped" for case in (*compared, *missing, *checks)):
        missing.append(CiCase("comparison", "comparisons", "invalid", "Nothing was compared.", "nothing was compared"))
    run_cases = (_trials_case(data), _stopping_case(policy, analysis), *_doubt_cases(policy, data))
    return CiResult((*compared, *missing, *checks, *run_cases), _no_verdict_text(analysis))


def _no_verdict_text(analysis: Analysis) -> str:
    """Return headline and supporting text of a run that has no verdict, else "".

    Its arms answer with errors, too few of its blocks are complete, or a harness check or a full driver forbids one.
    """
    if refusal := refusal_headline(analysis):
        return f"No verdict: {refusal}"
    if analysis.allows_headline:
        reason = unfinished_reason(analysis)
        return Neutral(reason).text() if reason else excluded_headline(analysis)
    return " ".join(filter(None, (headline(analysis), supporting_text(analysis))))


def _comparison_case(policy: CiPolicy, analysis: Analysis, row: AnalysisRow, metric: str | None = None) -> CiCase:
    """Judge a treatment on the study's own metric, or on another metric (then without its errors)."""
    name, sentence = row.label if metric is None else f"{row.label} ({metric})", ""
    limits = policy.limits_for(row.treatment) if metric is None else policy.metric_limits(metric, row.treatment)
    if row.verdict and metric is None:
        sentence = row_phrase(row, analysis.row(row.verdict.comparison.baseline).errors)
    elif row.verdict:
        sentence = verdict_parts(row.verdict, against=row.reference_label).after_name
    refusal = f"{refusal_text(row)}." if row.errors.refusal and metric is None else ""
    case = partial(
        CiCase, "comparison", name, sentence=refusal or name + sentence, treatment=row.treatment, metric=metric, row=row
    )
    if policy.only and row.treatment not in policy.only:
        return case("skipped", because="not asked about: ci.only leaves it out")
    if row.verdict is None or row.verdict.kind == "invalid":
        return case("invalid", because=(row.verdict.reason if row.verdict else None) or "it could not be compared")
    states = list(check_limits(limits, row, errors=metric is None))
    missed_limits, open_limits = ([why for answer, why in states if answer == wanted] for wanted in ("missed", "open"))
    if missed_limits:
        return case("failed", because=" and ".join(missed_limits))
    if not open_limits:
        return case("passed")
    return case(_undecided_outcome(limits), because=f"undecided: {' and '.join(open_limits)}", undecided=True)


def _undecided_outcome(limits: CiLimits) -> CaseOutcome:
    """Return whether an open limit passes or fails, as the study declares it."""
    return "failed" if limits.undecided == "fail" else "passed"


def _check_cases(analysis: Analysis) -> Iterator[CiCase]:
    """Yield a case per harness check; outcome "skipped" if the run has no A/A arm or no positive control."""
    for kind, name in CHECK_NAMES.items():
        rows = analysis.of_kind(kind)  # type: ignore[arg-type]
        if not rows:
            yield CiCase(kind, name, "skipped", f"The run has no {name}.", f"the run has no {name}")  # type: ignore[arg-type]
        for row in rows:
            yield _check_case(analysis, row, name)
    if analysis.driver_saturated:
        text, why = (
            saturation_text(analysis.driver_saturated_share or 0.0),
            "the generator was measured, not the service",
        )
        yield CiCase("doubt", "driver", "invalid", f"{text[0].upper()}{text[1:]}.", why)


def _check_case(analysis: Analysis, row: AnalysisRow, name: str) -> CiCase:
    reference = analysis.row(row.verdict.comparison.baseline if row.verdict else analysis.baseline)
    kind: CaseKind = "aa" if row.kind == "aa" else "control"
    sentence = f"{row.label}: {aa_result(row, reference.label) if kind == 'aa' else control_result(row)}"
    case = partial(CiCase, kind, f"{name}: {row.label}", treatment=row.treatment, row=row)
    if row.check_state == "passed":
        return case("passed", sentence)
    if row.check_state == "inconclusive":
        is_narrow = kind == "aa" and row.is_narrow
        if is_narrow:
            return case("passed", sentence)
        limit = margin_text(row.half_width_limit or 0.0)
        why = f"too noisy to tell: its half-width must be below {limit}, a third of the known effect or the margin"
        return case("invalid", sentence, why if kind == "aa" and row.half_width_limit else "too noisy to tell")
    if row.check_state != "failed":
        return case("invalid", sentence, (row.verdict.reason if row.verdict else None) or "it was not checked")
    why = "the A/A arm differs from the baseline" if kind == "aa" else "the known effect was not found"
    return case("invalid", sentence, why)


def _trials_case(data: RunTables) -> CiCase:
    """Return the case that checks whether the run is finished and any of its trials is valid."""
    planned = len(data.plan.trials or data.trials)
    valid = int(data.trials["valid"].sum())
    record = data.run_record
    case = partial(CiCase, "trials", "trials")
    sentence = f"{valid} of {planned} trials count."
    if record and record.ended is None and not record.imported:
        return case("invalid", sentence, "the run is not finished: loadbook run goes on with it")
    return case("passed", sentence) if valid else case("invalid", sentence, "no trial counts")


def _stopping_case(policy: CiPolicy, analysis: Analysis) -> CiCase:
    """Return the case of the stopping rule: a run with blocks beyond those declared is exploratory."""
    case = partial(CiCase, "stopping", "blocks as declared")
    if not analysis.stopping_state.added_blocks:
        return case("passed", "The run stopped as its study declared.")
    sentence = f"Exploratory: {added_blocks_text(analysis.stopping_state.added_blocks)}."
    return case(_undecided_outcome(policy), sentence, "undecided: a new run decides", undecided=True)


def _doubt_cases(policy: CiPolicy, data: RunTables) -> Iterator[CiCase]:
    problems = data.problems
    doubts = _problem_messages(problems, "doubt")
    unchecked = _problem_messages(problems, "unchecked")
    for name in policy.doubts:
        case = partial(CiCase, "doubt", f"doubt: {name if name == ALL_RULES else lower_first(rule_title(name))}")
        hits = [text for rule, text in doubts if name in (ALL_RULES, rule)]
        not_checked = [text for rule, text in unchecked if name == rule]
        if hits:
            more = f" ({len(hits) - 1} more)" if len(hits) > 1 else ""
            yield case("failed", hits[0], f"this doubt is unacceptable{more}")
        elif not_checked:
            yield case(_undecided_outcome(policy), not_checked[0], "undecided: it was not checked", undecided=True)
        else:
            yield case("passed", "No validity rule had this doubt.")
    if not policy.doubts:
        number = len({rule for rule, _ in doubts})
        sentence = f"{pluralize(number, 'validity rule had a doubt', 'validity rules had doubts')}."
        yield CiCase("doubt", "doubts", "skipped", sentence, "no doubt is asked about: ci.doubts is empty")


def _problem_messages(problems: pd.DataFrame | None, level: str) -> list[tuple[str, str]]:
    """Return the distinct messages of problems of one level, each with the name of its validity rule."""
    if problems is None:
        return []
    rows = problems.loc[problems["level"] == level, ["name", "message"]].drop_duplicates()
    return [(str(name), str(message)) for name, message in rows.itertuples(index=False)]
