"""Statistics of plain trials that other modes replace."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, ClassVar, cast

from loadbook.modes.base import mode_of
from loadbook.study.model import Study

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.stats.power import TrialLength


class PlainStats:
    """Statistics of a mode; the methods of this class are those of plain trials.

    Attributes
    ----------
    length_not_known : text printed if no run of the same load gives a best length of a trial by `trial_length`; None:
        the best length follows from rates per second within single trials, and `trial_length` is not used.
    """

    length_not_known: ClassVar[str | None] = None

    def trial_length(
        self, samples: pd.DataFrame, values: pd.DataFrame, alike: Collection[str], trial_s: float
    ) -> TrialLength | None:
        """Return the most efficient length of a trial; None if it does not follow from these trials.

        `samples` is the table samples of the run, `values` the trials with their values (`RunData.values`), `alike`
        the treatments with one configuration. `trial_s` is the seconds that a trial took in all, load included.
        """
        return None

    def noise_sentences(
        self, samples: pd.DataFrame, values: pd.DataFrame, alike: Collection[str], trial_s: float
    ) -> list[str]:
        """Return sentences on what dominates the noise of a comparison, and advice; empty if it is not known.

        The parameters are those of `trial_length`.
        """
        return []

    def no_result_text(self, study: Study) -> str | None:
        """Return the words for a trial that ended without a result; None: it was invalid."""
        return None


FACET = PlainStats()


def stats_of(study: Study) -> PlainStats:
    """Return the statistics of the mode of a study."""
    return cast("PlainStats", mode_of(study).facet("stats"))
