"""Effects of factorials: contrasts, the pooled analysis beside them, the family, errors by pair, and what is said."""

from __future__ import annotations

import pytest

from factorial_runs import factorial_run, factorial_study
from loadbook.analyses.factorial import text as say
from loadbook.analyses.factorial.compute import (
    FactorialAnalysis,
    analyse_factorial,
)

FIVE = ("accept", "epoll", "nopush", "nodelay", "workers")


def analysed(*args: object, **kwargs: object) -> FactorialAnalysis:
    found = analyse_factorial(factorial_run(*args, **kwargs))  # type: ignore[arg-type]
    assert found is not None
    return found


@pytest.fixture(scope="module")
def half() -> FactorialAnalysis:
    """Half of 2^5, resolution V, 8 blocks: two main effects and one pair are real."""
    effects = {("nopush",): 0.06, ("workers",): -0.08, ("accept", "epoll"): 0.05}
    return analysed(factorial_study(FIVE, 8, fraction="half"), effects)


def test_factorial_reports_a_three_way_interaction() -> None:
    names = ("a", "b", "c")
    assert analysed(factorial_study(names, 8), {names: 0.2}).higher_order == ("a x b x c",)
    quiet = analysed(factorial_study(names, 8), {("a", "b"): 0.2})
    assert quiet.higher_order == ()
    assert say.higher_order_sentence(quiet) == "No three factors are shown to act together (1 such effect looked at)."
    six = factorial_study("abcdef", 8, fraction="half")
    assert analysed(six, {("d", "e", "f"): 0.2}).higher_order == ("a x b x c or d x e x f",)
    few = analysed(factorial_study(("a", "b", "c", "d"), 8, fraction="half"), {})
    assert say.higher_order_sentence(few) == "Whether three factors act together cannot be seen in so few combinations."
