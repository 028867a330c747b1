"""What `loadbook plan` says of a factorial before anybody waits: its aliases, and what a main effect needs."""

import math

import pytest

from factorial_runs import factorial_study
from loadbook.cli.run import _plan_lines
from loadbook.execution.power import comparison_count, forecast_power, power_lines
from loadbook.store.paths import Layout
from loadbook.study.plan import make_plan


def test_power_of_a_main_effect_uses_every_trial(tmp_path) -> None:
    plan = make_plan(factorial_study("abcd", 12, fraction="half"))
    single = plan.study.model_copy(update={"factorial": None})
    alone = forecast_power(Layout(tmp_path), make_plan(single))
    found = forecast_power(Layout(tmp_path), plan)
    assert comparison_count(plan) == 7
    assert found.detectable and alone.detectable
    assert math.log1p(found.detectable) == pytest.approx(math.log1p(alone.detectable) / 2)  # 8 combinations
    assert (
        found.blocks_needed
        and alone.blocks_needed
        and alone.blocks_needed / 5 < found.blocks_needed < alone.blocks_needed / 3
    )
    assert any("a main effect, one of 7 effects" in line for line in power_lines(found))


def test_plan_of_a_fractional_factorial_lists_aliased_effects() -> None:
    printed = _plan_lines(make_plan(factorial_study("abcd", 12, fraction="half")))
    assert printed[-4].startswith("design      8 of 16 combinations are run, a fraction of resolution IV")
    assert printed[-3:] == [
        "            a x b is confounded with c x d.",
        "            a x c is confounded with b x d.",
        "            a x d is confounded with b x c.",
    ]
