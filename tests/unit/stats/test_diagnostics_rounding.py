"""Steps to which values were rounded, beside the interval of an effect."""

from __future__ import annotations

import pytest

from loadbook.stats.diagnostics import is_step_coarse


@pytest.mark.parametrize(
    ("step", "interval", "coarse"),
    [
        (0.011, (-0.02, 0.02), True),
        (0.009, (-0.02, 0.02), False),
        (0.002, (0.1, 0.1), True),  # equal values
        (0.0009, (0.1, 0.1), False),  # below what changes a verdict
        (0.4, (-0.5, 1.0), True),
        (0.3, (-0.5, 1.0), False),
        (0.0, (0.0, 0.0), False),
    ],
)
def test_step_is_coarse_above_half_of_the_half_width(step: float, interval: tuple[float, float], coarse: bool) -> None:
    assert is_step_coarse(step, interval) is coarse
