"""Verdict on a comparison, given the margin declared before the run; states of harness checks.

In a family of comparisons, a difference also needs an adjusted p below 1 - level. The interval is not adjusted
(`ci_family` is); a difference that only the unadjusted interval shows is undecided, with a flag.

Harness checks are arms with a known result. An A/A arm fails if it differs from the treatment that it repeats, and
passes only if its interval is narrower than the margin; a wider one limits what the run can tell (its resolution). A
control passes if its known effect is found. All else is inconclusive or unchecked (not compared).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from loadbook.core.metrics import Direction, get_metric
from loadbook.core.units import pluralize
from loadbook.stats import results
from loadbook.stats.compare import insufficient_blocks
from loadbook.stats.sequential import critical_t, smallest_block_count, t_quantile

MAX_FORECAST_BLOCKS = 60
EFFECT_TOLERANCE = 1e-9  # effects (ratios minus 1) that differ by less are the same value, rounded differently
MIN_EFFECT = -1 + 1e-15  # smaller effects are -1 in floating point and have no logarithm
# a forecast from about ten blocks is uncertain by these factors (docs/statistics.md)
FORECAST_RANGE = (0.46, 1.63)
FORECAST_POWER = 0.8  # power of the test at the forecast number of blocks
NOT_SIGNIFICANT_IN_FAMILY = "differs if looked at alone, but not among all {family} comparisons (adjusted p {p:.2g})"


def decide_verdict(
    comparison: results.Comparison,
    margin: float,
    better: Direction = "higher",
    *,
    reason: str | None = None,
    hypothesis: results.Hypothesis = "difference",
) -> results.Verdict:
    """Return the verdict that follows from a comparison.

    Parameters
    ----------
    margin : smallest difference that matters, ratio minus 1; 0 if none was declared (then never small or equivalent).
    better : whether higher or lower values are better.
    reason : reason that forbids the comparison, whatever its numbers; None if there is none.
    hypothesis : "non-inferiority" tests only whether a loss beyond the margin is excluded.
    """
    reason = reason or insufficient_blocks(comparison.blocks, comparison.excluded)
    if reason or comparison.effect is None or comparison.ci95 is None or comparison.ci90 is None:
        too_few = (
            f"{pluralize(comparison.blocks, 'block is', 'blocks are')} too few for a {comparison.level:.4g} interval"
        )
        return results.Verdict("invalid", comparison, margin, reason=reason or too_few)
    if hypothesis == "non-inferiority":
        return _non_inferiority_verdict(comparison, comparison.ci90, margin, better)
    is_small = is_within_margin(comparison.ci90, margin)
    if is_significant(comparison):
        is_improvement = (comparison.effect > 0) == (better == "higher")
        return results.Verdict("small" if is_small else ("better" if is_improvement else "worse"), comparison, margin)
    if excludes_zero(comparison.ci95):
        flag = NOT_SIGNIFICANT_IN_FAMILY.format(family=comparison.family_size, p=comparison.p_adjusted)
        comparison = replace(comparison, flags=(*comparison.flags, flag))
    if is_small:
        return results.Verdict("equivalent", comparison, margin)
    return results.Verdict("undecided", comparison, margin, forecast=forecast_blocks(comparison, margin))


def _non_inferiority_verdict(
    comparison: results.Comparison, interval: results.Interval, margin: float, better: Direction
) -> results.Verdict:
    """Compare the ends of the 90 % interval, each a one-sided 95 % bound, with the largest accepted loss.

    Each claim has its own risk of 5 %, as for equivalence; it is not adjusted for the number of comparisons.
    """
    sign = 1 if better == "higher" else -1
    worst, best = interval[::sign]
    limit = results.loss_at_margin(margin, better)
    if _exceeds(sign * worst, sign * limit):
        return results.Verdict("no-loss", comparison, margin, one_sided_bounds=(worst, best))
    if _exceeds(sign * limit, sign * best):
        return results.Verdict("worse", comparison, margin, one_sided_bounds=(worst, best))
    forecast = forecast_one_sided(comparison, abs(_log_effect(comparison.effect or 0.0) - _log_effect(limit)))
    return results.Verdict("undecided", comparison, margin, forecast=forecast, one_sided_bounds=(worst, best))


def excludes_zero(interval: results.Interval) -> bool:
    """Return whether an interval of effects excludes 0."""
    return _exceeds(interval[0], 0.0) or _exceeds(0.0, interval[1])


def _exceeds(effect: float, limit: float) -> bool:
    """Return whether an effect exceeds a limit by more than rounding, so that units of values do not matter."""
    return effect - limit > EFFECT_TOLERANCE * (1 + abs(limit))


def is_within_margin(interval: results.Interval, margin: float) -> bool:
    """Return whether an interval of effects lies within a factor of 1 + margin in both directions."""
    return _exceeds(interval[0], results.loss_at_margin(margin, "higher")) and _exceeds(
        results.loss_at_margin(margin, "lower"), interval[1]
    )


def is_significant(comparison: results.Comparison) -> bool:
    """Return whether a difference is significant after adjustment for all comparisons of its family."""
    if comparison.ci95 is None or not excludes_zero(comparison.ci95):
        return False
    return comparison.p_adjusted is None or comparison.p_adjusted < 1 - comparison.level


def forecast_blocks(comparison: results.Comparison, margin: float) -> results.Forecast:
    """Return how many more blocks would show a difference, or exclude one beyond the margin, whichever comes first.

    `margin` is a ratio. All fields are None if that needs more than 60 blocks in all; in a family, alpha is divided
    by the number of comparisons.
    """
    if comparison.effect is None or not comparison.sd_log:
        return results.Forecast(None, None, None)
    sd, alpha = comparison.sd_log, (1 - comparison.level) / comparison.family_size
    size, method = abs(_log_effect(comparison.effect)), comparison.method
    distance = math.log1p(margin) - size
    detect = smallest_block_count(
        lambda n: critical_t(method, n, alpha) + t_quantile(FORECAST_POWER, n), size, sd, MAX_FORECAST_BLOCKS
    )
    exclude = _blocks_for_one_sided_bound(comparison, distance)
    return _additional_blocks(comparison, min((n for n in (detect, exclude) if n is not None), default=None))


def forecast_one_sided(comparison: results.Comparison, distance: float) -> results.Forecast:
    """Return how many more blocks bring a one-sided bound within `distance` (log) of an unchanged estimate."""
    return _additional_blocks(comparison, _blocks_for_one_sided_bound(comparison, distance))


def _blocks_for_one_sided_bound(comparison: results.Comparison, distance: float) -> int | None:
    """Return how many blocks bring a one-sided bound within `distance` (log) of the estimate; None if too many."""
    if not comparison.sd_log:
        return None
    method, alpha, sd = comparison.method, 2 * (1 - comparison.level), comparison.sd_log
    return smallest_block_count(lambda n: critical_t(method, n, alpha), distance, sd, MAX_FORECAST_BLOCKS)


def _log_effect(effect: float) -> float:
    return math.log1p(max(effect, MIN_EFFECT))


def _additional_blocks(comparison: results.Comparison, total: int | None) -> results.Forecast:
    if total is None:
        return results.Forecast(None, None, None)
    about, low, high = (max(1, math.ceil(factor * total) - comparison.blocks) for factor in (1.0, *FORECAST_RANGE))
    return results.Forecast(about, low, high)


KNOWN_EFFECT_PART = 3  # build gates and claims need an A/A interval narrower than a third of the known effect


def aa_state(verdict: results.Verdict | None, p_limit: float, margin: float) -> results.CheckState:
    """Return the state of an A/A arm; if it differs it fails even if the comparison is invalid.

    It differs if p < `p_limit`; it is inconclusive if the half-width (ratio) of its interval reaches the margin.
    """
    if verdict is None or verdict.comparison.p is None or verdict.comparison.ci95 is None:
        return "unchecked"
    if verdict.comparison.p < p_limit:
        return "failed"
    if verdict.kind == "invalid":
        return "unchecked"
    low, high = verdict.comparison.ci95
    return "passed" if (high - low) / 2 < margin else "inconclusive"


def limit_to_resolution(verdict: results.Verdict, resolution: float | None) -> results.Verdict:
    """Return a verdict, changed to undecided unless its whole interval lies beyond the resolution (a ratio).

    So small, no-loss and equivalent become undecided, too. Without a resolution (None) the verdict stays as it is.
    The rule was tested by simulation (`benchmarks/simulated/resolution.py`).
    """
    if resolution is None or verdict.kind in ("undecided", "invalid"):
        return drop_forecast(verdict, resolution)
    interval = verdict.one_sided_bounds or verdict.comparison.ci95 or (0.0, 0.0)
    nearest = min(abs(_log_effect(bound)) for bound in interval)
    if verdict.kind in ("better", "worse") and nearest > math.log1p(resolution) + EFFECT_TOLERANCE:
        return verdict
    return replace(verdict, kind="undecided", resolution=resolution)


def drop_forecast(verdict: results.Verdict, resolution: float | None) -> results.Verdict:
    """Return a verdict without its forecast if the run has a resolution; the wide A/A arm then has the forecast."""
    return verdict if resolution is None else replace(verdict, forecast=None)


def aa_margin(margin: float, metric: str) -> float:
    """Return the half-width below which an A/A arm passes: the margin; without one, the usual margin of the metric."""
    return margin or get_metric(metric).margin


def blocks_for_half_width(row: results.AnalysisRow, limit: float) -> int | None:
    """Return how many more blocks would make an interval's half-width smaller than `limit` (a ratio).

    None if that needs more than 60 blocks in all, if the row has no interval, or if `limit` is 0.
    """
    if not (row.verdict and limit and math.isfinite(row.half_width)):
        return None
    blocks = row.verdict.comparison.blocks
    total = math.ceil(blocks * (row.half_width / limit) ** 2) + 1  # the half-width falls as the root of the blocks
    return max(1, total - blocks) if total <= MAX_FORECAST_BLOCKS else None


def control_state(
    verdict: results.Verdict | None, expected_sign: int | None, expected_effect: float | None
) -> results.CheckState:
    """Return the state of a positive control; inconclusive if the interval contains both 0 and the known effect.

    `expected_sign` is 1 or -1 (None: any difference passes), `expected_effect` a ratio minus 1 (None: not known).
    """
    if verdict is None or verdict.kind == "invalid" or verdict.comparison.effect is None:
        return "unchecked"
    if is_significant(verdict.comparison):
        has_sign = expected_sign is None or verdict.comparison.effect * expected_sign > 0
        return "passed" if has_sign else "failed"
    low, high = verdict.comparison.ci95 or (-1.0, math.inf)
    return "inconclusive" if expected_effect is not None and low <= expected_effect <= high else "failed"


def aa_half_width_limit(margin: float, controls: Collection[results.AnalysisRow]) -> float:
    """Return the half-width (ratio) of an A/A interval below which build gates and claims judge the run.

    It is the margin or, if larger, a third of the known effect. The largest known effect counts: the one stated in
    the study, else the one measured by a passed control. It is expressed as the share that the slower arm loses, so
    that it does not depend on which arm is the baseline.
    """
    measured = {r.treatment: r.verdict.comparison.effect for r in controls if r.verdict and r.check_state == "passed"}
    known = (measured.get(r.treatment) if r.expected_effect is None else r.expected_effect for r in controls)
    losses = [1 - math.exp(-abs(math.log1p(effect))) for effect in known if effect is not None]
    return max(margin, max(losses, default=0.0) / KNOWN_EFFECT_PART)
