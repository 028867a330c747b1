"""Stopping rules: thresholds of planned looks, the always-valid t, and where a run stands by its rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from loadbook.core.errors import UsageError
from loadbook.stats.compare import compare
from loadbook.stats.sequential import always_valid_t, compute_stopping_state, critical_t, equivalent_fixed_alpha
from loadbook.stats.verdict import decide_verdict
from loadbook.study.limits import POCOCK_P, StoppingRule
from trial_frames import noisy

LOOKS = StoppingRule(rule="looks", looks=(10, 20, 30))
ALWAYS = StoppingRule(rule="always-valid")


def false_alarms(looks: int, p: float) -> float:
    """Chance that a random walk without drift crosses at any of so many equally spaced looks (Armitage 1969)."""
    bound, (nodes, weights) = norm.isf(p / 2), np.polynomial.legendre.leggauss(200)
    density, at, weight = norm.pdf(nodes * bound), nodes * bound, weights * bound
    for look in range(2, looks + 1):
        wide = bound * math.sqrt(look)
        new, new_weight = nodes * wide, weights * wide
        density = (norm.pdf(new[:, None] - at[None, :]) * (density * weight)[None, :]).sum(axis=1)
        at, weight = new, new_weight
    return 1 - float((density * weight).sum())


@pytest.mark.parametrize(("looks", "p"), POCOCK_P.items())
def test_planned_looks_have_at_most_five_percent_false_alarms(looks, p):
    assert false_alarms(looks, p) == pytest.approx(0.05, abs=0.0002)
    assert false_alarms(looks, 0.05) > 0.08


@given(st.lists(st.floats(-1, 1).map(lambda x: round(x, 6)), min_size=5, max_size=40), st.floats(0.001, 0.5))
def test_always_valid_interval_agrees_with_its_p_value(differences, alpha):
    found = always_valid_t(np.array(differences), [alpha])
    interval = found.intervals[0]
    assert 0 <= found.p <= 1
    if interval is None:
        assert found.p >= alpha * 0.999 or len(set(differences)) == 1
    elif abs(found.p - alpha) > 1e-6 * alpha and not 0 < max(map(abs, interval)) < 1e-9:
        assert (found.p < alpha) == (interval[0] > 0 or interval[1] < 0)
    negated = always_valid_t(-np.array(differences))
    assert (negated.estimate, negated.p) == (-found.estimate, pytest.approx(found.p))


def test_always_valid_p_is_the_inverse_mixture_likelihood_ratio():
    """The ratio of t densities, averaged over effects that are normal with g times the variance of a difference."""
    x, g = np.array([0.3, 1.2, 0.8, 1.9, 0.1, 1.1]), 1.0
    n = len(x)
    t = x.mean() / (x.std(ddof=1) / math.sqrt(n))

    def given_effect(delta: float) -> float:
        """Likelihood of the scaled data under an effect of delta standard deviations, scale integrated out."""
        from scipy.stats import nct

        return float(nct.pdf(t, n - 1, delta * math.sqrt(n)))

    mixture, _ = quad(lambda d: given_effect(d) * norm.pdf(d, scale=math.sqrt(g)), -8, 8)
    assert always_valid_t(x, g=g).p == pytest.approx(given_effect(0.0) / mixture, rel=1e-4)


def test_always_valid_interval_needs_enough_blocks_and_is_a_point_without_scatter():
    three = always_valid_t(np.array([1.0, 1.01, 0.99]), [0.05])
    assert three.intervals == [None] and three.p > 0.05
    same = always_valid_t(np.zeros(6), [0.05])
    assert (same.p, same.intervals) == (1.0, [(0.0, 0.0)])
    assert always_valid_t(np.full(6, 0.5)).p == pytest.approx(7 ** (-5 / 2))


def test_always_valid_test_has_at_most_five_percent_false_alarms_when_applied_after_every_block():
    rng = np.random.default_rng(1)
    studies = rng.normal(0, 1, (300, 40))
    lowest = [min(always_valid_t(one[:n]).p for n in range(5, 41)) for one in studies]
    assert np.mean(np.array(lowest) < 0.05) <= 0.045
    peeking = [
        any(abs(one[:n].mean()) > 2.1 * one[:n].std(ddof=1) / math.sqrt(n) for n in range(5, 41)) for one in studies
    ]
    assert np.mean(peeking) > 0.15


def test_always_valid_comparison_is_marked_and_has_a_wider_interval():
    values = noisy(12, {"b": 0.0, "t": 0.03}, sd=0.01)
    usual, always = compare(values, "t", "b"), compare(values, "t", "b", rule="always-valid")
    assert (always.method, always.flags, always.level) == ("always-valid-t", (), 0.95)
    assert always.ci95[1] - always.ci95[0] > 1.3 * (usual.ci95[1] - usual.ci95[0])
    assert always.ci95[0] < always.ci90[0] < always.effect < always.ci90[1] < always.ci95[1]
    assert compare(values[values.block < 5], "t", "b", rule="always-valid").method is None


def test_fixed_stopping_rule_counts_all_planned_blocks():
    found = compute_stopping_state(StoppingRule(), started=7, complete=7, planned=10)
    assert (found.rule, found.blocks, found.interim_analysis, found.pending_reason, found.level) == (
        "fixed",
        10,
        None,
        None,
        0.95,
    )


@pytest.mark.parametrize(("blocks", "look"), [(10, (1, 3)), (20, (2, 3)), (30, (3, 3))])
def test_planned_look_uses_the_level_of_one_look(blocks, look):
    found = compute_stopping_state(LOOKS, started=blocks, complete=blocks, planned=30)
    assert (found.interim_analysis, found.blocks, found.pending_reason) == (look, blocks, None)
    assert found.level == pytest.approx(0.9779)
    assert 1 - 2 * (1 - found.level) == pytest.approx(0.9558)


@pytest.mark.parametrize(
    ("begun", "complete", "printed"),
    [
        (14, 14, "14 blocks are complete, the next look is after 20"),
        (11, 10, "10 blocks are complete, the next look is after 20"),
        (1, 1, "1 block is complete, the next look is after 10"),
        (30, 29, "29 blocks are complete, the next look is after 30"),
    ],
)
def test_run_between_planned_looks_has_no_verdict(begun, complete, printed):
    found = compute_stopping_state(LOOKS, started=begun, complete=complete, planned=30)
    assert found.pending_reason == f"not yet a planned look: {printed}"
    assert found.interim_analysis is None


def test_blocks_beyond_the_last_look_make_the_run_exploratory():
    found = compute_stopping_state(LOOKS, started=36, complete=36, planned=36, added=6)
    assert (found.interim_analysis, found.pending_reason, found.added_blocks, found.blocks) == (None, None, 6, 36)
    assert found.level == pytest.approx(0.9779)


def test_always_valid_rule_gives_a_verdict_after_any_number_of_blocks():
    found = compute_stopping_state(ALWAYS, started=15, complete=14, planned=60)
    assert (found.rule, found.blocks, found.pending_reason, found.level) == ("always-valid", 14, None, 0.95)


def test_planned_looks_support_only_the_95_percent_level():
    assert compute_stopping_state(ALWAYS, started=5, complete=5, planned=5, level=0.9).level == 0.9
    with pytest.raises(UsageError, match="at 95 % over all looks"):
        compute_stopping_state(LOOKS, started=10, complete=10, planned=30, level=0.9)


def test_forecast_accounts_for_the_wider_always_valid_interval():
    values = noisy(8, {"b": 0.0, "t": 0.03}, sd=0.02, seed=5)
    usual, always = (
        decide_verdict(compare(values, "t", "b", rule=rule), 0.02).forecast.about for rule in ("fixed", "always-valid")
    )
    assert 0 < usual < always


def test_fixed_t_test_at_the_equivalent_alpha_has_the_always_valid_critical_value():
    for blocks in (6, 20, 60):
        alpha = equivalent_fixed_alpha(blocks, 0.05)
        assert critical_t("paired-t", blocks, alpha) == pytest.approx(critical_t("always-valid-t", blocks, 0.05))
        assert alpha < 0.02
    assert 0 < equivalent_fixed_alpha(5, 0.001) <= 1e-6
