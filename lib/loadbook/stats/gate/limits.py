"""What a build gate asks of one comparison, and the answers: met, missed, or open where the run shows neither."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from loadbook.design.build_gate import DEFAULT, BuildGate, Limits
from loadbook.stats.result import Comparison, Interval, Row, VerdictKind
from loadbook.stats.wording.sentences import margin_text
from loadbook.stats.wording.words import direction

Answer = Literal["met", "missed", "open"]
WORDS: dict[str, VerdictKind] = {"faster": "better", "slower": "worse"}


def in_words(gate: BuildGate, metric: str) -> str:
    """Return in a line what fails a build."""
    words = unacceptable(gate, metric)
    parts = [f"{' or '.join(words)} fails" if words else "no verdict fails"]
    parts += [f"at least {_signed(gate.min_effect)}"] if gate.min_effect is not None else []
    parts += [f"at most {_signed(gate.max_effect)}"] if gate.max_effect is not None else []
    parts += [f"undecided {'fails' if gate.undecided == 'fail' else 'passes'}"]
    parts += [f"a doubt fails: {', '.join(gate.doubts)}"] if gate.doubts else []
    parts += [f"judged is only {', '.join(gate.only)}"] if gate.only else []
    parts += [f"also judged is {', '.join(gate.metrics)}"] if gate.metrics else []
    parts += [f"otherwise for {', '.join(gate.treatments)}"] if gate.treatments else []
    return "; ".join(parts)


def answers(limits: Limits, row: Row, *, errors: bool = True) -> Iterator[tuple[Answer, str]]:
    """Yield the answer to each thing that is asked of a comparison, and what it is that is missed or open.

    `errors` are left out where they are judged elsewhere.
    """
    assert row.verdict is not None
    found, kind = row.verdict.comparison, row.verdict.kind
    words = unacceptable(limits, found.metric)
    if {"slower", "faster", "small"} & set(words):
        bad = [word for word in words if _is(word, row)]
        yield ("missed" if bad else "open" if kind == "undecided" else "met"), _unacceptable(bad)
    if errors and "more-errors" in words:
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
