import math

import pytest

from loadbook.stats.compare import compare
from loadbook.stats.sequential import best_trial_length_s, blocks_needed, detectable_effect
from loadbook.stats.verdict import decide_verdict, forecast_blocks, is_within_margin
from trial_frames import comparison, noisy


@pytest.mark.parametrize(
    ("effect", "low", "high", "kind"),
    [
        (0.06, 0.051, 0.068, "better"),
        (-0.047, -0.056, -0.038, "worse"),
        (0.010, 0.004, 0.017, "small"),
        (-0.010, -0.017, -0.004, "small"),
        (0.005, -0.004, 0.015, "equivalent"),
        (0.010, -0.005, 0.026, "undecided"),
        (0.015, 0.005, 0.026, "better"),
    ],
)
def test_verdict_kinds_for_a_metric_where_higher_is_better(effect: float, low: float, high: float, kind: str) -> None:
    assert decide_verdict(comparison(effect, low, high), 0.02).kind == kind
    swapped = {"better": "worse", "worse": "better"}.get(kind, kind)
    assert decide_verdict(comparison(effect, low, high), 0.02, "lower").kind == swapped


@pytest.mark.parametrize("effect", [(0.010, 0.004, 0.017), (0.005, -0.004, 0.015)])
def test_verdict_without_margin_is_never_small_or_equivalent(effect) -> None:
    assert decide_verdict(comparison(*effect), 0.0).kind in ("better", "undecided")


def test_verdict_margin_is_a_factor_in_both_directions() -> None:
    assert is_within_margin((-0.0196, 0.0199), 0.02)
    assert not is_within_margin((-0.0197, 0.01), 0.02)
    assert not is_within_margin((-0.01, 0.02), 0.02)


def test_verdict_with_fewer_than_five_blocks_is_invalid() -> None:
    found = decide_verdict(compare(noisy(4, {"a": 0, "b": 0.1}), "b", "a"), 0.02)
    assert (found.kind, found.reason) == ("invalid", "only 4 complete blocks, 5 are needed")


def test_verdict_is_invalid_if_more_than_a_fifth_of_blocks_is_incomplete() -> None:
    assert decide_verdict(comparison(blocks=8, excluded=2), 0.02).kind == "better"
    found = decide_verdict(comparison(blocks=8, excluded=3), 0.02)
    assert (found.kind, found.reason) == ("invalid", "3 of 11 blocks are incomplete, more than 20\u00a0%")


def test_reason_against_a_comparison_makes_the_verdict_invalid_whatever_the_numbers() -> None:
    assert decide_verdict(comparison(), 0.02, reason="it answers differently").kind == "invalid"


def test_verdict_in_a_family_uses_the_adjusted_p() -> None:
    wide = {"effect": 0.03, "low": 0.004, "high": 0.055, "p": 0.02, "family_size": 7}
    found = decide_verdict(comparison(p_adjusted=0.08, **wide), 0.02)
    assert found.kind == "undecided"
    assert found.comparison.flags == ("differs if looked at alone, but not among all 7 comparisons (adjusted p 0.08)",)
    assert decide_verdict(comparison(p_adjusted=0.04, **wide), 0.02).kind == "better"


def test_verdict_is_invalid_if_blocks_are_too_few_for_the_level_of_the_interval() -> None:
    found = decide_verdict(compare(noisy(8, {"a": 0, "b": 0.1}), "b", "a", level=0.999), 0.02)
    assert (found.kind, found.reason) == ("invalid", "8 blocks are too few for a 0.999 interval")


def test_forecast_is_the_smaller_number_of_blocks_to_detect_or_to_exclude_a_difference() -> None:
    near_zero = forecast_blocks(comparison(0.001, -0.02, 0.02, blocks=10, sd_log=0.03), 0.02)
    # t.95 sd / (margin - |effect|): 1.86 * 0.03 / 0.0188 squared is 8.8; 10 blocks were not enough, so at least 1 more
    assert (near_zero.about, near_zero.low, near_zero.high) == (1, 1, 15 - 10)
    displayed = forecast_blocks(comparison(0.03, -0.001, 0.06, blocks=10, sd_log=0.04), 0.02)
    total = blocks_needed(0.03, 0.04)
    assert displayed.about == total - 10
    assert displayed.high == math.ceil(1.63 * total) - 10
    assert forecast_blocks(comparison(0.02, -0.05, 0.09, sd_log=0.2), 0.02).about is None


def test_forecast_for_several_comparisons_needs_more_blocks() -> None:
    one = forecast_blocks(comparison(0.03, -0.01, 0.07, sd_log=0.04), 0.02)
    seven = forecast_blocks(comparison(0.03, -0.01, 0.07, sd_log=0.04, family_size=7), 0.02)
    assert seven.about > one.about


@pytest.mark.parametrize(("ratio", "blocks"), [(0.25, 128), (0.33, 75), (0.5, 34), (0.7, 19), (1.0, 10), (1.5, 6)])
def test_blocks_needed_match_the_documented_table(ratio: float, blocks: int) -> None:
    sd = 0.02
    assert blocks_needed(math.expm1(ratio * sd), sd) == pytest.approx(blocks, abs=1)
    assert blocks_needed(math.expm1(-ratio * sd), sd) == pytest.approx(blocks, abs=1)


def test_detectable_difference_and_blocks_needed_are_inverse() -> None:
    for blocks in (6, 10, 20, 40):
        assert blocks_needed(detectable_effect(blocks, 0.03) * 1.0001, 0.03) == blocks


def test_forecast_is_absent_for_zero_or_tiny_effects() -> None:
    assert blocks_needed(0.0, 0.02) is None
    assert blocks_needed(0.001, 0.2, limit=60) is None


def test_best_trial_length_balances_overhead_and_scatter() -> None:
    # 5 % per second with AR(0.5), so 5 % sqrt(3) within; 1 % between; 15 s overhead
    assert best_trial_length_s(0.05 * 3**0.5, 0.01, 15) == pytest.approx(34, abs=1)
