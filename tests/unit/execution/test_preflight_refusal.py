"""The message of a run that cannot start: every problem, and the next step."""

from __future__ import annotations

from loadbook.execution.preflight import Problem, _refusal


def test_hint_of_all_problems_is_the_next_step():
    refused = _refusal([Problem("host a: x", "do this"), Problem("host b: x", "do this")])
    assert refused.message == "the run cannot start:\n  host a: x\n  host b: x"
    assert refused.hint == "do this"


def test_different_hints_stand_beside_their_problems():
    refused = _refusal([Problem("host a: x", "do this"), Problem("host b: y\nz", "do that"), Problem("c")])
    assert refused.problems == ["host a: x (do this)", "host b: y\nz\nnext: do that", "c"]
    assert refused.hint == "correct that, then start the run again"
