"""Effects that depend on the length of slices are found, and others are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from loadbook.modes.interleaved.stats_slices import SliceLengthCheck, slice_length_check

LABELS = {"a": "baseline", "b": "gzip on", "c": "two workers"}
LENGTHS = {block: (0.025, 0.1)[block % 2] for block in range(1, 17)}


def run(seed: int, moved: float = 0.0, blocks: int = 16) -> pd.DataFrame:
    """Trials of 1 % scatter; the effect of b, 10 % in short slices, is larger by `moved` in long ones."""
    rng, rows = np.random.default_rng(seed), []
    for block in range(1, blocks + 1):
        for name in "abc":
            log = rng.normal(0, 0.01) + (name == "b") * (0.1 + moved * (LENGTHS[block] > 0.05))
            rows.append((f"t{len(rows)}", name, block, True, 40_000 * np.exp(log)))
    return pd.DataFrame(rows, columns=["trial", "treatment", "block", "valid", "value"])


def check(values: pd.DataFrame) -> SliceLengthCheck | None:
    return slice_length_check(values, LENGTHS, "a", ["b", "c"])


def test_effect_that_depends_on_the_length_is_found_with_its_size() -> None:
    found = check(run(1, moved=0.04))
    assert found is not None and [effect.treatment for effect in found.moved] == ["b"]
    assert found.worst.difference == pytest.approx(0.04, abs=0.015)
    assert found.worst.interval[0] < found.worst.difference < found.worst.interval[1]
    printed = found.sentence(LABELS).replace("\N{NO-BREAK SPACE}", " ")
    assert printed.startswith("The effect of gzip on depends on the length of slices: +1")
    assert "in 25 ms, +1" in printed and "in 100 ms (+" in printed


def test_effects_that_do_not_depend_on_it_are_rarely_called_moved() -> None:
    found = [check(run(seed)) for seed in range(60)]
    assert sum(bool(one and one.moved) for one in found) <= 3
    assert found[0] is not None
    printed = found[0].sentence(LABELS).replace("\N{NO-BREAK SPACE}", " ")
    assert printed.startswith(
        "No dependence of an effect on the length of slices (25 ms, 100 ms) is seen; the clearest is "
    )


def test_too_few_blocks_of_a_length_are_not_compared() -> None:
    assert check(run(1, blocks=6)) is None
    values = run(1)
    assert check(values.assign(valid=values["block"] % 2 == 0)) is None


def test_lengths_that_hardly_differ_are_not_compared() -> None:
    assert slice_length_check(run(1), {block: 0.1 + 0.02 * (block % 2) for block in LENGTHS}, "a", ["b"]) is None


def test_equal_values_have_not_moved() -> None:
    values = run(1).assign(value=100.0)
    found = check(values)
    assert found is not None and not found.moved
