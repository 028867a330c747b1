"""Options and durations of programs written in Go."""

from __future__ import annotations

import pytest

from loadbook.core.go_programs import duration_s, number_option, option


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m30s", 90.0), ("250ms", 0.25), ("1.5µs", 1.5e-6), ("0", None), ("0s", None), ("5", None), ("", None)],
)
def test_duration_has_units(text: str, seconds: float | None) -> None:
    assert duration_s(text) == (seconds and pytest.approx(seconds))


def test_last_of_a_repeated_option_counts_with_one_hyphen_or_two() -> None:
    assert option(["-rate=5", "--rate", "7"], "rate") == "7" and option(["-x"], "rate") is None
    assert option(["-c", "4"], "connections", "c") == "4"


def test_value_that_is_no_number_is_none() -> None:
    assert number_option(["-q", "20.5"], "q") == 20.5 and number_option(["-q", "fast"], "q") is None
