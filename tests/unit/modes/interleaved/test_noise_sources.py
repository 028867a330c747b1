"""The noise of interleaved blocks is split into slices, starts and hosts, and the advice follows from the split."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from loadbook.modes.interleaved.stats_noise import NoiseSources, noise_sources, noise_sources_sentences
from slice_samples import SLICE_S, slice_rows

ROUNDS = 40


def run(
    starts: float, slice_noise: float, hosts: float = 0.1, blocks: int = 40, seed: int = 2
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the tables samples and values of two arms alike; noises are standard deviations (log)."""
    rng = np.random.default_rng(seed)
    rows, trials = [], []
    for block in range(1, blocks + 1):
        level = rng.normal(0, hosts)
        for arm in ("a", "again"):
            rate = 1e6 * np.exp(level + rng.normal(0, starts))
            own = list(slice_rows(f"{arm}{block}", rate, slice_noise, rng, ROUNDS))
            value = np.mean([row["value"] for row in own if row["metric"] == "received_per_s"])
            rows += own
            trials.append((f"{arm}{block}", arm, block, True, value))
    return pd.DataFrame(rows), pd.DataFrame(trials, columns=["trial", "treatment", "block", "valid", "value"])


def split(**options: float) -> NoiseSources:
    found = noise_sources(*run(**options), arms=["a", "again"])  # type: ignore[arg-type]
    assert found is not None
    return found


def test_each_source_of_noise_is_found_with_its_size() -> None:
    found = split(starts=0.02, slice_noise=0.06, blocks=160)
    assert found.slices == pytest.approx(0.06 / np.sqrt(ROUNDS), rel=0.1)
    assert found.starts == pytest.approx(0.02, rel=0.25)
    assert found.starts_interval[0] < 0.02 < found.starts_interval[1]
    assert found.hosts == pytest.approx(0.1, rel=0.25)
    assert found.active_s == pytest.approx(ROUNDS * SLICE_S)
    assert found.starts_show and found.dominant == "starts"


def test_slices_dominate_if_arms_alike_differ_only_by_their_slices() -> None:
    found = split(starts=0.0, slice_noise=0.1)
    assert not found.starts_show and found.dominant == "slices"
    assert found.starts_interval[0] == 0
    assert found.trial_length(1.7).best_s is None


def test_best_trial_length_follows_from_both_sources() -> None:
    found = split(starts=0.03, slice_noise=0.12)
    length = found.trial_length(0.7 + found.active_s)
    assert length.best_s == pytest.approx(found.slices_1s / found.starts * np.sqrt(0.7))
    assert (length.within_1s, length.between) == (found.slices_1s, found.starts)
    assert length.overhead_s == pytest.approx(0.7)


def test_noise_sources_are_unknown_with_few_blocks_a_single_arm_or_no_slices() -> None:
    samples, values = run(0.0, 0.1)
    assert noise_sources(samples, values[values["block"] < 5], ["a", "again"]) is None
    assert noise_sources(samples, values, ["a"]) is None
    assert noise_sources(samples[samples["metric"] == "slice"], values, ["a", "again"]) is None
    assert noise_sources(samples.iloc[:0], values, ["a", "again"]) is None
    assert noise_sources(samples, values.assign(valid=values["treatment"] == "a"), ["a", "again"]) is None


@pytest.mark.parametrize(
    ("starts", "slice_noise", "advice"),
    [
        (0.03, 0.02, "Starts dominate: more blocks narrow intervals, longer trials hardly; trials of "),
        (0.02, 0.25, "Slices dominate: longer trials narrow intervals, up to a point; trials of "),
        (0.0, 0.1, "Slices dominate, and starts add no scatter that this run can show: longer trials (duration_s)"),
    ],
)
def test_advice_depends_on_the_dominant_source(starts: float, slice_noise: float, advice: str) -> None:
    sizes, text = noise_sources_sentences(split(starts=starts, slice_noise=slice_noise), 1.7)
    assert text.startswith(advice)
    assert "between its slices of 1 s in all" in sizes and sizes.endswith("of a block.")
