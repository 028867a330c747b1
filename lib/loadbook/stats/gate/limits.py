"""What a build gate asks of one comparison, and the answers: met, missed, or open where the run shows neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from loadbook.design.build_gate import DEFAULT_FAIL_ON, CiPolicy, CiLimits
from loadbook.stats.result import Comparison, Interval, AnalysisRow, VerdictKind
from loadbook.stats.wording.sentences import margin_text
from loadbook.stats.wording.words import direction

LimitState = Literal["met", "missed", "open"]
VERDICT_KINDS: dict[str, VerdictKind] = {"faster": "better", "slower": "worse"}


def policy_text(gate: CiPolicy, metric: str) -> str:
    """Return in a line what fails a build."""
    words = unacceptable_verdicts(gate, metric)
    parts = [f"{' or '.join(words)} fails" if words else "no verdict fails"]
    parts += [f"at least {_signed_limit(gate.min_effect)}"] if gate.min_effect is not None else []
    parts += [f"at most {_signed_limit(gate.max_effect)}"] if gate.max_effect is not None else []
    parts += [f"undecided {'fails' if gate.undecided == 'fail' else 'passes'}"]
    parts += [f"a doubt fails: {', '.join(gate.doubts)}"] if gate.doubts else []
    parts += [f"judged is only {', '.join(gate.only)}"] if gate.only else []
    parts += [f"also judged is {', '.join(gate.metrics)}"] if gate.metrics else []
    parts += [f"otherwise for {', '.join(gate.treatments)}"] if gate.treatments else []
    return "; ".join(parts)


def check_limits(limits: CiLimits, row: AnalysisRow, *, errors: bool = True) -> Iterator[tuple[LimitState, str]]:
    """Yield the answer to each thing that is asked of a comparison, and what it is that is missed or open.

    `errors` are left out where they are judged elsewhere.
    """
    assert row.verdict is not None
    comparison, kind = row.verdict.comparison, row.verdict.kind
    words = unacceptable_verdicts(limits, comparison.metric)
    if {"slower", "faster", "small"} & set(words):
        bad = [word for word in words if _matches_verdict(word, row)]
        yield ("missed" if bad else "open" if kind == "undecided" else "met"), _unacceptable_text(bad)
    if errors and "more-errors" in words:
        yield ("missed" if row.errors.kind == "more" else "met"), "more errors are unacceptable"
    if limits.min_effect is not None:
        yield _check_limit(comparison, limits.min_effect, 1), f"at least {_signed_limit(limits.min_effect)} is required"
    if limits.max_effect is not None:
        yield _check_limit(comparison, limits.max_effect, -1), f"at most {_signed_limit(limits.max_effect)} is allowed"


def unacceptable_verdicts(limits: CiLimits, metric: str) -> tuple[str, ...]:
    """Return the verdicts that fail: those named; else slower, unless a limit says how much of a loss is accepted."""
    if limits.fail_on is not None:
        return limits.fail_on
    limit = limits.min_effect if direction(metric) == "higher" else limits.max_effect
    return DEFAULT_FAIL_ON if limit is None else tuple(word for word in DEFAULT_FAIL_ON if word != "slower")


def _matches_verdict(verdict_word: str, row: AnalysisRow) -> bool:
    assert row.verdict is not None
    if verdict_word == "small":
        sign = 1 if direction(row.verdict.comparison.metric) == "higher" else -1
        return row.verdict.kind == "small" and sign * (row.verdict.comparison.effect or 0.0) < 0
    return row.verdict.kind == VERDICT_KINDS.get(verdict_word)


def _unacceptable_text(verdict_words: list[str]) -> str:
    if not verdict_words:
        return "neither a difference nor its absence is shown"
    texts = {"small": "a loss that is real, but smaller than the margin,"}
    return f"{texts.get(verdict_words[0], verdict_words[0])} is unacceptable"


def _signed_limit(limit: float) -> str:
    """Return a limit with as many decimals as it has, at most two, and its sign."""
    return ("+" if limit > 0 else "−" if limit < 0 else "") + margin_text(abs(limit))


def _check_limit(comparison: Comparison, limit: float, sign: int) -> LimitState:
    """Tell on which side of a limit an effect lies; `sign` is 1 where it must not be below, -1 where not above.

    Within, each end of the 90 % interval is a bound at one-sided 95 %, as for equivalence. Beyond is a claim that
    fails a build, so that the interval counts that allows for all comparisons; where blocks are too few to have that
    one, nothing is shown.
    """
    inner_ends = _ends_from_limit(comparison.ci90, sign)
    if inner_ends is not None and inner_ends[0] >= sign * limit:
        return "met"
    outer_ends = _ends_from_limit(comparison.ci_family if comparison.family_size > 1 else comparison.ci95, sign)
    return "missed" if outer_ends is not None and outer_ends[1] < sign * limit else "open"


def _ends_from_limit(interval: Interval | None, sign: int) -> Interval | None:
    """Return an interval as seen from the side of a limit: its near end first."""
    if interval is None:
        return None
    low, high = sorted(sign * end for end in interval)
    return low, high
