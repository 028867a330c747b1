"""Sources of noise in interleaved blocks: slices within a block, starts of a server, and the speed of the host.

Arms of one configuration in one block differ by the scatter between their slices, which longer trials reduce, and by
what was drawn when each was started (placement in memory, connections per worker), which only further starts reduce.
The speed of the host in a block is common to its arms and cancels in comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.stats import chi2
from scipy.stats import f as f_distribution

from loadbook.core.units import format_duration, format_percent, format_percent_range
from loadbook.stats.carry_over import slices_of_trials
from loadbook.stats.power import TrialLength
from loadbook.stats.results import Interval
from loadbook.stats.sequential import best_trial_length_s

MIN_BLOCKS = 5
MIN_ROUNDS = 10
ALPHA = 0.05


class NoiseSources(NamedTuple):
    """Standard deviations of the log rate of a trial, by source, of arms of one configuration.

    `slices` : of its mean over the slices of `active_s` seconds.
    `starts` : between starts within a block, beyond `slices`; `starts_interval` is its 95 % interval.
    `hosts` : between the means of blocks, which cancels in comparisons.
    `p` : of the test whether starts scatter at all (F test of both mean squares).
    """

    slices: float
    starts: float
    starts_interval: Interval
    hosts: float
    p: float
    active_s: float
    blocks: int

    @property
    def starts_show(self) -> bool:
        """Return whether trials of a block scatter by more than their slices do (p < 0.05)."""
        return self.p < ALPHA

    @property
    def slices_1s(self) -> float:
        """Return the standard deviation of the log rate over one second of slices."""
        return self.slices * math.sqrt(self.active_s)

    @property
    def dominant(self) -> str:
        """Return which source is larger in a comparison: "starts", or "slices", also if starts do not show."""
        return "starts" if self.starts_show and self.starts > self.slices else "slices"

    def trial_length(self, trial_s: float) -> TrialLength:
        """Return the length of load on each arm with the highest precision per hour, and what it follows from.

        `trial_s` is the time (s) that a block takes per arm, load included. The length, `best_s`, is None if starts
        do not show.
        """
        overhead_s = max(trial_s - self.active_s, 0.0)
        starts = self.starts if self.starts_show else 0.0
        best_s = best_trial_length_s(self.slices_1s, starts, overhead_s) if starts else None
        return TrialLength(best_s, self.slices_1s, starts, overhead_s, self.blocks)


def noise_sources(samples: pd.DataFrame, values: pd.DataFrame, arms: Collection[str]) -> NoiseSources | None:
    """Split the noise of interleaved trials of one configuration; None below five blocks with two arms and ten rounds.

    Two mean squares are compared: of the logs of values within blocks, and of what each slice contributes to the rate
    of its trial, from which the mean of its round is subtracted. Slices count as independent, given their round, and
    may scatter differently (the first and the last have other lengths).

    Parameters
    ----------
    samples : table `samples` of the run.
    values : trial, treatment, block, valid, value of every trial.
    arms : treatments of one configuration: the baseline and its A/A arms.
    """
    own = values[values["treatment"].isin(list(arms)) & values["valid"].astype(bool) & (values["value"] > 0)]
    slices = _slice_rows(samples, own)
    between, within, means, active_s = list[float](), list[float](), list[float](), list[float]()
    freedom_between = freedom_within = 0
    for block, trials in own.groupby("block"):
        logs = np.log(trials["value"].to_numpy(float))
        own_slices = slices[slices["block"] == block]
        parts = own_slices.pivot_table(index="round", columns="trial", values="part").dropna().to_numpy(float)
        rounds, width = parts.shape
        if width < 2 or width != len(logs) or rounds < MIN_ROUNDS:
            continue
        rest = parts - parts.mean(axis=1, keepdims=True)
        within.append(float((rest**2).sum()) / (width - 1) * rounds / (rounds - 1))
        between.append(float(np.var(logs, ddof=1)))
        means.append(float(logs.mean()))
        active_s.append(float(own_slices["slice"].sum()) / width)
        freedom_between += width - 1
        freedom_within += (width - 1) * (rounds - 1)
    if len(means) < MIN_BLOCKS or not min(within) > 0:
        return None
    slice_part, total = float(np.mean(within)), float(np.mean(between))
    bounds = [total * freedom_between / float(chi2.ppf(q, freedom_between)) for q in (1 - ALPHA / 2, ALPHA / 2)]
    low, high = (math.sqrt(max(bound - slice_part, 0.0)) for bound in bounds)
    p = float(f_distribution.sf(total / slice_part, freedom_between, freedom_within))
    starts = math.sqrt(max(total - slice_part, 0.0))
    arms_of_block = freedom_between / len(means) + 1
    hosts = math.sqrt(max(float(np.var(means, ddof=1)) - total / arms_of_block, 0.0))
    return NoiseSources(math.sqrt(slice_part), starts, (low, high), hosts, p, float(np.mean(active_s)), len(means))


def _slice_rows(samples: pd.DataFrame, values: pd.DataFrame) -> pd.DataFrame:
    """Return the slices of these trials: trial, block, round, slice (s), and part, whose sum over a trial is 0.

    `part` is what a slice contributes to the relative deviation of its trial's rate: its share of the time, times the
    deviation of its rate from the trial's. Rates are not logarithms, as a trial's rate is the mean of its slices, also
    of those in which the host stalls.
    """
    rows = slices_of_trials(samples).merge(values[["trial", "block"]], on="trial")
    rows["bytes"] = rows["received_per_s"] * rows["slice"]
    by_trial = rows.groupby("trial")
    share_of_time = rows["slice"] / by_trial["slice"].transform("sum")
    rows["part"] = rows["bytes"] / by_trial["bytes"].transform("sum") - share_of_time
    return rows


def noise_sources_sentences(sources: NoiseSources, trial_s: float) -> list[str]:
    """Return what dominates the noise of a comparison, and whether longer blocks or more blocks reduce it.

    `trial_s` as in `NoiseSources.trial_length`.
    """
    slices, starts, hosts = (
        format_percent(part, 1, signed=False) for part in (sources.slices, sources.starts, sources.hosts)
    )
    span = format_percent_range(sources.starts_interval, 1, signed=False)
    lengths = f"slices of {sources.active_s:.3g} s in all"
    parts = f"A trial scatters by {slices} between its {lengths}, and by {starts} ({span}) between starts in a block"
    common = f"the speed of the host between blocks, {hosts}, is common to all treatments of a block"
    return [f"{parts}; {common}.", _advice(sources, trial_s)]


def _advice(sources: NoiseSources, trial_s: float) -> str:
    if not sources.starts_show:
        return (
            "Slices dominate, and starts add no scatter that this run can show: longer trials (duration_s) narrow "
            "intervals as much as more blocks do, and save the time around each trial."
        )
    best_s = sources.trial_length(trial_s).best_s or 0.0
    text = f"trials of {format_duration(best_s)} tell most per hour"
    if sources.dominant == "starts":
        return f"Starts dominate: more blocks narrow intervals, longer trials hardly; {text}."
    return f"Slices dominate: longer trials narrow intervals, up to a point; {text}."
