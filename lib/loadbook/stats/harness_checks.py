"""Checks of the test bed by arms whose truth is known: an A/A arm, a positive control, and the load beside them.

Both arms have four states. An A/A arm fails where it differs from what it repeats, and passes only where its interval
is narrow enough to exclude what matters; a control passes where its known effect is found. Everything else is
inconclusive (too noisy to tell) or unchecked (nothing was compared). A run has a headline only if all
of these arms passed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from loadbook.stats.results import AnalysisRow, CheckState, Verdict
from loadbook.stats.verdict import is_significant

if TYPE_CHECKING:
    import pandas as pd

KNOWN_EFFECT_PART = 3  # an A/A interval must be narrower than this part of the known effect, or than the margin
SATURATION_RULE, BACKGROUND_LOAD_RULE = "driver_saturated", "foreign_cpu"


def aa_state(verdict: Verdict | None, p_limit: float, half_width_limit: float) -> CheckState:
    """Return the state of an A/A arm; one that differs fails even where it may not be compared otherwise.

    Parameters
    ----------
    p_limit : p value below which the arm differs.
    half_width_limit : half-width of the interval (ratio) from which on the arm is too noisy to tell.
    """
    if verdict is None or verdict.comparison.p is None or verdict.comparison.ci95 is None:
        return "unchecked"
    if verdict.comparison.p < p_limit:
        return "failed"
    if verdict.kind == "invalid":
        return "unchecked"
    low, high = verdict.comparison.ci95
    return "passed" if (high - low) / 2 < half_width_limit else "inconclusive"


def control_state(verdict: Verdict | None, expected_sign: int | None, expected_effect: float | None) -> CheckState:
    """Return the state of a positive control; it is inconclusive where neither 0 nor the known effect is excluded.

    Parameters
    ----------
    expected_sign : 1 or -1, None where any difference passes.
    expected_effect : known size of the effect (ratio minus 1), None where only the sign is known.
    """
    if verdict is None or verdict.kind == "invalid" or verdict.comparison.effect is None:
        return "unchecked"
    if is_significant(verdict.comparison):
        has_sign = expected_sign is None or verdict.comparison.effect * expected_sign > 0
        return "passed" if has_sign else "failed"
    low, high = verdict.comparison.ci95 or (-1.0, math.inf)
    return "inconclusive" if expected_effect is not None and low <= expected_effect <= high else "failed"


def aa_half_width_limit(margin: float, controls: Iterable[AnalysisRow]) -> float:
    """Return the half-width below which an A/A interval passes: the margin, or a third of the largest known effect.

    The known effect is the one that the study states, else the one that was measured if the control passed. It counts
    as the share that the slower arm loses, so that it is the same whichever of the two is the baseline.
    """
    effects = [_known_effect(row) for row in controls]
    losses = [1 - math.exp(-abs(math.log1p(effect))) for effect in effects if effect is not None]
    return max(margin, max(losses, default=0.0) / KNOWN_EFFECT_PART)


def _known_effect(row: AnalysisRow) -> float | None:
    if row.expected_effect is not None:
        return row.expected_effect
    return row.verdict.comparison.effect if row.verdict and row.check_state == "passed" else None


def trial_share(problems: pd.DataFrame | None, trials: pd.DataFrame, rule: str) -> float | None:
    """Return the share of the trials in which a validity rule was broken or in doubt; None where that is not known."""
    if problems is None or not len(trials):
        return None
    broken = problems.loc[(problems["name"] == rule) & problems["level"].isin(["invalid", "doubt"]), "trial"]
    return float(trials["trial"].isin(broken.dropna()).mean())
