"""Slice lengths: effects that depend on how long the slices of interleaved blocks are.

A load generator that is stopped and continued does not load its service quite like one that runs on: caches are cold,
responses are ready, CPUs were idle. Such differences weigh less in longer slices. A study whose blocks have slices of
different lengths in turn (`slices` in the study file) tests for them; an effect that moves is one of pauses, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import ttest_ind

from loadbook.core.units import format_duration, format_p_value, format_percent
from loadbook.stats.diagnostics import EQUAL_LOGS
from loadbook.stats.paired_tests import FloatArray, adjust_holm, complete_blocks, effect_from_log

MOVED_ALPHA = 0.01
MIN_BLOCKS_OF_LENGTH = 4
MIN_RATIO = 1.5  # of the lengths; those that are closer are the same, as the latency asked for longer slices


class SliceLengthEffect(NamedTuple):
    """The effect of a treatment (ratio minus 1) in the shortest and in the longest slices of a run.

    `difference` is that of the logarithms, longest minus shortest, with its 95 % interval; `p` tests it (Welch's
    t-test, adjusted for the number of treatments by Holm's method).
    """

    treatment: str
    shortest: float
    longest: float
    difference: float
    interval: tuple[float, float]
    p: float

    @property
    def has_moved(self) -> bool:
        """Return whether the effect depends on the length, at p < 0.01."""
        return self.p < MOVED_ALPHA


class SliceLengthCheck(NamedTuple):
    """Shortest and longest slice of a run (s), and the effects of all treatments in both."""

    shortest_s: float
    longest_s: float
    effects: list[SliceLengthEffect]

    @property
    def moved(self) -> list[SliceLengthEffect]:
        """Return the effects that depend on the length."""
        return [effect for effect in self.effects if effect.has_moved]

    @property
    def worst(self) -> SliceLengthEffect:
        """Return the effect that depends on it most clearly."""
        return min(self.effects, key=lambda effect: effect.p)

    def sentence(self, labels: Mapping[str, str]) -> str:
        """Return a sentence on the effect that depends on the length most clearly; `labels`: treatment -> label."""
        worst = self.worst
        name = labels.get(worst.treatment, worst.treatment)
        shortest, longest = format_duration(self.shortest_s), format_duration(self.longest_s)
        moved, low, high = (format_percent(math.expm1(log)) for log in (worst.difference, *worst.interval))
        test = f"{moved}, 95 % interval {low} to {high}, p {format_p_value(worst.p)}"
        if not worst.has_moved:
            seen = f"No dependence of an effect on the length of slices ({shortest}, {longest}) is seen"
            return f"{seen}; the clearest is {name} (difference {test})."
        before, after = format_percent(worst.shortest), format_percent(worst.longest)
        effect = f"{before} in {shortest}, {after} in {longest} ({test})"
        return f"The effect of {name} depends on the length of slices: {effect}."


def slice_length_check(
    values: pd.DataFrame, length_of_block: Mapping[int, float], baseline: str, treatments: Sequence[str]
) -> SliceLengthCheck | None:
    """Compare the effects in the shortest with those in the longest slices.

    None if fewer than four complete blocks have either length, or the longest slice is below 1.5 times the shortest.

    Parameters
    ----------
    values : treatment, block, valid, value of every trial.
    length_of_block : block -> length of its slices (s).
    treatments : treatments, other than the baseline, to compare with it.
    """
    lengths_s = sorted(set(length_of_block.values()))
    if len(lengths_s) < 2 or lengths_s[-1] < MIN_RATIO * lengths_s[0]:
        return None
    unadjusted = []
    for name in treatments:
        blocks = complete_blocks(values, [baseline, name]).astype(float)
        ratios = np.log(blocks[name].to_numpy() / blocks[baseline].to_numpy())
        lengths = np.array([length_of_block[block] for block in blocks.index])
        short, long = (ratios[lengths == length_s] for length_s in (lengths_s[0], lengths_s[-1]))
        if min(len(short), len(long)) >= MIN_BLOCKS_OF_LENGTH:
            unadjusted.append(_compare(name, short, long))
    if not unadjusted:
        return None
    adjusted = adjust_holm([effect.p for effect in unadjusted])
    effects = [effect._replace(p=p) for effect, p in zip(unadjusted, adjusted, strict=True)]
    return SliceLengthCheck(lengths_s[0], lengths_s[-1], effects)


def _compare(treatment: str, short: FloatArray, long: FloatArray) -> SliceLengthEffect:
    """Compare the log ratios of two groups of blocks by Welch's t-test."""
    difference = float(long.mean() - short.mean())
    if max(np.ptp(short), np.ptp(long)) < EQUAL_LOGS:
        p, interval = float(abs(difference) < EQUAL_LOGS), (difference, difference)
    else:
        test = ttest_ind(long, short, equal_var=False)
        bounds = test.confidence_interval(0.95)
        p, interval = float(test.pvalue), (float(bounds.low), float(bounds.high))
    return SliceLengthEffect(
        treatment, effect_from_log(float(short.mean())), effect_from_log(float(long.mean())), difference, interval, p
    )
