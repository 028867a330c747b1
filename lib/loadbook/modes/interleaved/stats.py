"""Statistics of interleaved blocks."""

from __future__ import annotations

from collections.abc import Collection

import pandas as pd

from loadbook.modes.interleaved.stats_noise import noise_sources, noise_sources_sentences
from loadbook.modes.plain.stats import PlainStats
from loadbook.stats.power import TrialLength


class InterleavedStats(PlainStats):
    """Statistics of interleaved blocks."""

    length_not_known = "not known: it takes an interleaved run of this load with an A/A arm and five blocks"

    def trial_length(
        self, samples: pd.DataFrame, values: pd.DataFrame, alike: Collection[str], trial_s: float
    ) -> TrialLength | None:
        """Return the most efficient length of a trial, from the scatter between slices, starts and hosts."""
        sources = noise_sources(samples, values, alike)
        return sources.trial_length(trial_s) if sources is not None else None

    def noise_sentences(
        self, samples: pd.DataFrame, values: pd.DataFrame, alike: Collection[str], trial_s: float
    ) -> list[str]:
        """Return whether slices, starts or hosts dominate the noise, and whether longer blocks or more reduce it."""
        sources = noise_sources(samples, values, alike)
        return noise_sources_sentences(sources, trial_s) if sources is not None else []


FACET = InterleavedStats()
