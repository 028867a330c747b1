"""Effects of factorials: contrasts, the pooled analysis beside them, the family, errors by pair, and what is said."""

from __future__ import annotations

from factorial_runs import factorial_run, factorial_study
from loadbook.analyses.factorial import text as say
from loadbook.analyses.factorial.compute import (
    FactorialAnalysis,
    analyse_factorial,
)


def analysed(*args: object, **kwargs: object) -> FactorialAnalysis:
    found = analyse_factorial(factorial_run(*args, **kwargs))  # type: ignore[arg-type]
    assert found is not None
    return found


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
