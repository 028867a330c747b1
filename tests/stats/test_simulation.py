"""A few hundred simulated studies with fixed seeds; benchmarks/validate_stats.py is the whole validation."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from noise import sequential
from validate_stats import MARGIN, draw, equivalent, family_p, p_of, rate

REPS = 300


@pytest.mark.parametrize(("scenario", "blocks"), [("iid", 6), ("iid", 10), ("ar1+drift", 10), ("stalls", 14)])
def test_false_alarms_stay_near_one_in_twenty(scenario: str, blocks: int) -> None:
    assert 1.5 <= rate(REPS, 1, lambda rng: p_of(*draw(rng, scenario, blocks)) <= 0.05) <= 9.0


def test_blocks_find_two_percent_under_drift() -> None:
    assert rate(REPS, 2, lambda rng: p_of(*draw(rng, "ar1+drift", 10, MARGIN)) <= 0.05) >= 75


def test_a_difference_at_the_margin_is_rarely_called_equivalent() -> None:
    assert rate(100, 3, lambda rng: equivalent(*draw(rng, "iid", 10, MARGIN))) <= 11


def test_a_family_of_seven_makes_false_claims_in_one_of_twenty_studies() -> None:
    assert rate(REPS, 4, lambda rng: min(family_p(rng, "ar1+drift", 10, [0.0] * 7)) <= 0.05) <= 9.0


def test_without_blocks_the_same_test_is_wrong_in_half_of_all_studies() -> None:
    """The negative control: it shows that the noise above is there to be seen."""
    assert rate(REPS, 5, lambda rng: p_of(*draw(rng, "ar1+drift", 10, order=sequential)) <= 0.05) >= 40
