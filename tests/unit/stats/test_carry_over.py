"""Carry-over from one trial to the next is found where it is large, and not where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from loadbook.stats.carry_over import LATENCY, carry_over, slice_carry_over

LABELS = {"a": "baseline", "b": "gzip on"}


def run(seed: int, carry: float = 0.0, arms: str = "abcdefg", blocks: int = 12, effect: float = 0.0) -> pd.DataFrame:
    """Trials of 1 % scatter in random blocks; b changes what runs after it by the log `carry`, itself by `effect`."""
    rng, rows, before = np.random.default_rng(seed), [], ""
    for block in range(1, blocks + 1):
        for name in rng.permutation(list(arms)):
            log = rng.normal(0, 0.01) + carry * (before == "b") + effect * (name == "b")
            rows.append((f"t{len(rows)}", str(name), block, len(rows) + 1, True, 40_000 * np.exp(log)))
            before = name
    return pd.DataFrame(rows, columns=["trial", "treatment", "block", "slot", "valid", "value"])


def test_carry_over_after_a_treatment_is_detected_and_removed() -> None:
    found = carry_over(run(1, carry=-0.04, effect=0.03), "a")
    assert found is not None and found.is_significant
    assert found.worst_predecessor == "b"
    assert found.effect_by_predecessor["b"] == pytest.approx(-0.04, abs=0.008)
    assert found.adjusted_effects["b"] == pytest.approx(0.03, abs=0.012)
    assert found.adjusted_effects["a"] == 0
    printed = found.sentence("ok_per_s", LABELS)
    assert printed.startswith("What runs after gzip on is slower by 3.") or printed.startswith(
        "What runs after gzip on is slower by 4."
    )
    assert printed.endswith("the reset between trials does not bring the host back.")
    assert "has a shorter latency by" in found.sentence("latency", LABELS)


def test_carry_over_check_has_few_false_alarms_and_reports_its_power() -> None:
    found = [carry_over(run(seed), "a") for seed in range(40)]
    assert sum(one is not None and one.is_significant for one in found) <= 2
    quiet = next(one for one in found if one is not None and not one.is_significant)
    printed = quiet.sentence("ok_per_s", {})
    assert printed.startswith("No carry-over from one trial to the next is seen (p 0.")
    assert "this check sees little: one below about 1." in printed
    assert 0.005 < quiet.detectable_effect < 0.02


def test_carry_over_is_estimated_with_only_two_arms() -> None:
    found = carry_over(run(3, carry=-0.05, arms="ab", blocks=20), "a")
    assert found is not None and found.is_significant
    assert found.effect_by_predecessor["b"] == pytest.approx(-0.05, abs=0.012)
    assert found.effect_by_predecessor["a"] == pytest.approx(0.05, abs=0.012)


def test_carry_over_counts_an_aa_arm_and_its_original_as_one_predecessor() -> None:
    found = carry_over(run(4), "a", {"g": "a"})
    assert found is not None
    assert set(found.effect_by_predecessor) == set("abcdef")
    assert set(found.adjusted_effects) == set("abcdefg")


def test_carry_over_includes_invalid_trials_as_predecessors() -> None:
    values = run(5, carry=-0.06)
    lost = values["treatment"] == "b"
    values.loc[lost, ["valid", "value"]] = [False, np.nan]
    found = carry_over(values, "a")
    assert found is not None and found.worst_predecessor == "b"
    assert "b" not in found.adjusted_effects


@pytest.mark.parametrize(
    "values", [run(1, blocks=2, arms="ab"), run(1, arms="a"), run(1).assign(value=7.0), run(1).iloc[:0]]
)
def test_carry_over_of_few_trials_is_not_reported(values: pd.DataFrame) -> None:
    assert carry_over(values, "a") is None


def test_carry_over_cannot_be_estimated_if_two_arms_strictly_alternate() -> None:
    values = run(1, arms="ab").sort_values(["block", "treatment"]).assign(slot=range(1, 25))
    assert carry_over(values, "a") is None


def slices(seed: int, carry: float = 0.0, blocks: int = 6, arms: str = "abcd", effect: float = 0.0) -> tuple[Any, Any]:
    """Tables samples and values of interleaved blocks of 20 rounds; slices after b change by the log `carry`."""
    rng = np.random.default_rng(seed)
    rows, trials = list[tuple[str, str, str, float, float]](), list[tuple[str, str, int, int, bool, float]]()
    for block in range(1, blocks + 1):
        before, number, rates = "", 0, dict[str, list[float]]()
        for _ in range(22):
            host = rng.choice([0.0, -0.47])  # it changes its speed
            for name in map(str, rng.permutation(list(arms))):
                log = host + rng.normal(0, 0.01) + carry * (before == "b") + effect * (name == "b")
                rows.append((f"{block}{name}", "slice", "slice", 0.027 * number, 0.025))
                rows.append((f"{block}{name}", "slice", "received_per_s", 0.027 * number, 1e6 * np.exp(log)))
                rates.setdefault(name, []).append(np.exp(log))
                before, number = name, number + 1
        trials += [(f"{block}{n}", n, block, block, True, float(np.mean(own))) for n, own in rates.items()]
    columns = ["trial", "treatment", "block", "slot", "valid", "value"]
    samples = pd.DataFrame(rows, columns=["trial", "series", "metric", "x", "value"])
    return samples, pd.DataFrame(trials, columns=columns)


def test_carry_over_between_slices_is_detected_and_removed() -> None:
    samples, values = slices(1, carry=-0.02, effect=0.03)
    found = slice_carry_over(samples, values, "a")
    assert found is not None and found.is_significant and found.metric_of_slices == "ok_per_s"
    assert found.worst_predecessor == "b"
    assert found.effect_by_predecessor["b"] == pytest.approx(-0.02, abs=0.004)
    # b follows itself in few rounds only: the others carry its burden, and it does not
    assert 0.002 < found.largest_shift < 0.01
    raw = (
        np.log(values[values["treatment"] == "b"]["value"]).mean()
        - np.log(values[values["treatment"] == "a"]["value"]).mean()
    )
    assert abs(np.log1p(found.adjusted_effects["b"]) - 0.03) < abs(raw - 0.03)
    text = found.sentence("ok_per_s", LABELS).replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith("A slice after one of gzip on is slower by ") and "moves the comparisons by up to 0." in text


def latencies(seed: int, carry: float) -> tuple[Any, Any]:
    """The tables of a shared run: slices have a median latency, which is ten times as long in a stall."""
    samples, values = slices(seed, carry)
    rng, is_rate = np.random.default_rng(seed), samples["metric"] == "received_per_s"
    stalled = np.where(rng.random(len(samples)) < 0.02, 10.0, 1.0)
    seconds = samples["value"].where(~is_rate, samples["value"] * 1e-9 * stalled)
    return samples.assign(value=seconds, metric=samples["metric"].where(~is_rate, "latency")), values


def test_carry_over_between_slices_of_a_shared_load_is_that_of_median_latencies() -> None:
    found = slice_carry_over(*latencies(1, 0.03), "a", metric=LATENCY)
    assert found is not None and found.is_significant
    assert found.effect_by_predecessor["b"] == pytest.approx(0.03, abs=0.006)
    text = found.sentence("cpu_per_response", LABELS).replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith("A slice after one of gzip on has a longer latency")
    none = [slice_carry_over(*latencies(seed, 0.0), "a", metric=LATENCY) for seed in range(30)]
    assert sum(one is not None and one.is_significant for one in none) <= 2


def test_carry_over_between_slices_has_few_false_alarms() -> None:
    found = [slice_carry_over(*slices(seed), "a") for seed in range(30)]
    assert sum(one is not None and one.is_significant for one in found) <= 2
    text = next(one for one in found if one and not one.is_significant).sentence("ok_per_s", {})
    assert text.startswith("No carry-over between slices is seen (p 0.")
    assert "would be found in 4 of 5 runs" in text


def test_slice_whose_predecessor_is_not_recorded_is_left_out() -> None:
    """Of a trial that failed no slices are known; what runs after them must not count as run after another arm."""
    samples, values = slices(2, carry=-0.05, blocks=8)
    lost = samples[~samples["trial"].str.endswith("b")]
    found = slice_carry_over(lost, values, "a")
    assert found is None or not found.is_significant


def test_carry_over_between_slices_counts_an_aa_arm_and_its_original_as_one_predecessor() -> None:
    found = slice_carry_over(*slices(3), "a", {"d": "a"})
    assert found is not None and set(found.effect_by_predecessor) == set("abc")


@pytest.mark.parametrize("metric", ["slice", "received_per_s"])
def test_carry_over_between_slices_is_not_tested_without_their_traffic(metric: str) -> None:
    samples, values = slices(4, blocks=1)
    assert slice_carry_over(samples[samples["metric"] == metric], values, "a") is None
    assert slice_carry_over(samples[:0], values, "a") is None
