"""Verdict on a comparison, given the margin declared before the run; reasons that forbid one; states of harness checks.

In a family of comparisons, a difference also needs an adjusted p below 1 - level. The interval is not adjusted
(`ci_family` is); a difference that only the unadjusted interval shows is undecided, with a flag.

Harness checks are arms with a known result. An A/A arm fails if it differs from the treatment that it repeats, and
passes only if its interval is narrow enough; a control passes if its known effect is found. All else is inconclusive
(too noisy to tell) or unchecked (not compared).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from loadbook.core.metrics import Direction, get_metric
from loadbook.core.validity_rules import lower_first, rule_title
from loadbook.stats import results
from loadbook.stats.compare import insufficient_blocks
from loadbook.stats.sequential import critical_t, smallest_block_count, t_quantile

if TYPE_CHECKING:
    import pandas as pd

# columns of the trials table in which arms must agree -> name in messages, workload field that may vary on purpose
LOAD_COLUMNS = {
    "tool": ("tool", "tool"),
    "load_model": ("load model", "model"),
    "offered_per_s": ("offered rate", "rate_per_s"),
    "concurrency": ("number of connections", "connections"),
    "drivers": ("number of drivers", "drivers"),
}
BASELINE_TEXT = "the baseline"
METRICS_WITH_ERRORS = ("requests_per_s", "requests")
RATE_METRICS = ("ok_per_s", "requests_per_s", "ok", "requests")
ResponseKey = tuple[int | None, int | None]


# columns of the trials table that are compared between arms
ARM_COLUMNS = (
    *("treatment", "block", "slot", "status", "valid", "gates", "started", "short_tail", "at_ceiling", "moving"),
    *("response_status", "response_bytes", *LOAD_COLUMNS),
)


class ArmTrials:
    """Trials of one arm: `all`, and the `usable` ones that comparisons may use; what they have in common."""

    def __init__(self, trials: pd.DataFrame) -> None:
        self.all = trials
        self._is_usable = usable_mask(trials)
        self.usable = self.all[self._is_usable]
        self._most_frequent: dict[str, object] = {}

    def most_frequent(self, column: str) -> object:
        """Return the most frequent value of a column among usable trials.

        Of equally frequent values the smallest counts, independent of the order of the trials.
        """
        if column not in self._most_frequent:
            self._most_frequent[column] = next(iter(self.usable[column].mode(dropna=False).tolist()))
        return self._most_frequent[column]

    @cached_property
    def exclusion_cause(self) -> str | None:
        """Return the most frequent cause of excluded trials: a validity rule, or else the status of the trial."""
        columns = (self._is_usable.tolist(), self.all["gates"].tolist(), self.all["status"].tolist())
        causes = Counter(
            ", ".join(lower_first(rule_title(gate)) for gate in gates) if len(gates) else str(status).replace("_", " ")
            for is_usable, gates, status in zip(*columns, strict=True)
            if not is_usable
        )
        if not causes:
            return None
        cause, number = causes.most_common(1)[0]
        return f"{number} of {len(self.all)} trials excluded: {cause}"

    @cached_property
    def responses(self) -> list[tuple[int, int]]:
        """Return status and bytes of the response of each usable trial that recorded it."""
        known = self.usable.reindex(columns=["response_status", "response_bytes"]).dropna()
        return [(int(status), int(size)) for status, size in known.itertuples(index=False)]


def invalid_reason(
    own: ArmTrials,
    base: ArmTrials,
    comparison: results.Comparison,
    errors: results.ErrorSummary,
    varied: Collection[str] = (),
    reference_text: str = BASELINE_TEXT,
) -> str | None:
    """Return the first reason that forbids a comparison; None if there is none.

    Trials are compared only with status ok and valid. `varied` lists the workload fields in which the study makes the
    arms differ, `reference_text` names the reference if it is not the baseline.
    """
    reason = (
        _short_tail_reason(comparison.statistic, own.usable, base.usable)
        or _insufficient_blocks_reason(comparison, own, base)
        or _order_reason(own.usable, base.usable)
        or _ceiling_reason(comparison.metric, own.usable, base.usable)
        or _moving_rate_reason(own, base)
        or _load_reason(own, base, varied)
        or _response_reason(own, base, sized="expect_bytes" in varied)
        or _tool_definition_reason(comparison.metric, own, base)
        or _error_count_reason(comparison.metric, errors)
    )
    return reason.replace(BASELINE_TEXT, reference_text) if reason else None


def usable_mask(trials: pd.DataFrame) -> pd.Series:
    """Return, per trial, whether comparisons may use it: status ok, not excluded by a validity rule."""
    return (trials["status"] == "ok") & trials["valid"].astype(bool)


def response_difference(own: Iterable[ResponseKey], base: Iterable[ResponseKey]) -> str | None:
    """Describe how the most frequent responses (status, bytes) differ; None if they agree or are unknown."""
    own_counts, base_counts = (Counter(a for a in responses if a[0] is not None) for responses in (own, base))
    if not own_counts or not base_counts:
        return None
    (status, size), (base_status, base_size) = _most_frequent(own_counts), _most_frequent(base_counts)
    if status != base_status:
        return f"it answers differently (status {status} where the baseline answers {base_status})"
    if size != base_size:
        return f"it answers differently ({size} bytes where the baseline sends {base_size})"
    return None


def _most_frequent(counts: Counter[ResponseKey]) -> ResponseKey:
    """Return the most frequent response, of equally frequent ones the largest (independent of the order of trials)."""
    return max(counts, key=lambda key: (counts[key], key[0] or 0, key[1] or 0))


def _response_reason(own: ArmTrials, base: ArmTrials, sized: bool) -> str | None:
    """Describe how responses differ; `sized`: sizes may differ, since the study gives each arm its own page."""

    def keys(arm: ArmTrials) -> list[ResponseKey]:
        return [(status, None if sized else size) for status, size in arm.responses]

    return response_difference(keys(own), keys(base))


def _load_reason(own: ArmTrials, base: ArmTrials, varied: Collection[str]) -> str | None:
    for column, (noun, field) in LOAD_COLUMNS.items():
        values = _differing_values(column, own, base)
        if values and field not in varied:
            return f"it was measured under another {noun} ({values[0]} where the baseline has {values[1]})"
    return None


def _tool_definition_reason(metric: str, own: ArmTrials, base: ArmTrials) -> str | None:
    """Return the reason if the arms were timed by different tools, which define times in different ways."""
    tools = _differing_values("tool", own, base)
    if tools is None or get_metric(metric).kind != "time":
        return None
    return f"{tools[0]} and {tools[1]} define {metric} each in its own way"


def _differing_values(column: str, own: ArmTrials, base: ArmTrials) -> tuple[object, object] | None:
    """Return each arm's most frequent value of a column if these differ; None if they agree or are unknown."""
    if column not in own.usable or not len(own.usable) or not len(base.usable):
        return None
    own_value, base_value = own.most_frequent(column), base.most_frequent(column)
    is_same = own_value == base_value or (own_value != own_value and base_value != base_value)
    return None if is_same else (own_value, base_value)


def _ceiling_reason(metric: str, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Return the reason if both arms served the whole offered rate, which is then a setting of the generator."""
    if metric not in RATE_METRICS or "at_ceiling" not in own or not len(own) or not len(base):
        return None
    if own["at_ceiling"].mean() <= 0.5 or base["at_ceiling"].mean() <= 0.5:
        return None
    return "both served all of the offered load, so the rate is the generator's setting; offer more"


def _insufficient_blocks_reason(comparison: results.Comparison, own: ArmTrials, base: ArmTrials) -> str | None:
    reason = insufficient_blocks(comparison.blocks, comparison.excluded)
    if reason is None:
        return None
    cause = own.exclusion_cause or base.exclusion_cause
    if cause is None:
        missing = comparison.blocks + comparison.excluded - len({*own.all["block"], *base.all["block"]})
        cause = f"{missing} {'was' if missing == 1 else 'were'} not run" if missing > 0 else None
    return f"{reason} ({cause})" if cause else reason


def _order_reason(own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Return the reason if one arm ran entirely before the other; None if it did not, or times are unknown."""
    if min(len(own), len(base)) < 2 or any("started" in arm and arm["started"].isna().any() for arm in (own, base)):
        return None
    if own["slot"].max() < base["slot"].min() or base["slot"].max() < own["slot"].min():
        return "one arm ran whole before the other, so the order was not randomised in blocks"
    return None


def _short_tail_reason(statistic: str, own: pd.DataFrame, base: pd.DataFrame) -> str | None:
    """Return the reason if too few requests to measure the percentile were made in most trials of an arm."""
    if "short_tail" not in own or not any(arm["short_tail"].mean() > 0.5 for arm in (own, base)):
        return None
    return f"{statistic} is not measurable: too few requests of a trial lie beyond it (validity.min_tail_requests)"


def _moving_rate_reason(own: ArmTrials, base: ArmTrials) -> str | None:
    """Return the reason if the rate had a trend within trials in only one of the arms."""
    values = _differing_values("moving", own, base)
    if values is None or any(moving != moving for moving in values):  # NaN: not known
        return None
    moved, other = ("moved", "did not") if values[0] else ("held still", "did")
    return f"its rate {moved} within trials, the baseline's {other}"


def _error_count_reason(metric: str, errors: results.ErrorSummary) -> str | None:
    if metric in METRICS_WITH_ERRORS and errors.kind in ("more", "fewer"):
        return f"{metric} counts error responses, and it has {errors.kind} of them; compare ok_per_s"
    return None


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
        too_few = f"{comparison.blocks} blocks are too few for a {comparison.level:.4g} interval"
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
    limit = loss_at_margin(margin, better)
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
    return _exceeds(interval[0], loss_at_margin(margin, "higher")) and _exceeds(
        loss_at_margin(margin, "lower"), interval[1]
    )


def loss_at_margin(margin: float, better: Direction) -> float:
    """Return the effect of a loss of the size of the margin, a factor: -1.96 % of a rate for 2 %, +5 % of a time."""
    return 1 / (1 + margin) - 1 if better == "higher" else margin


def is_significant(comparison: results.Comparison) -> bool:
    """Return whether a difference is significant after adjustment for all comparisons of its family."""
    if comparison.ci95 is None or not excludes_zero(comparison.ci95):
        return False
    return comparison.p_adjusted is None or comparison.p_adjusted < 1 - comparison.level


def forecast_blocks(comparison: results.Comparison, margin: float) -> results.Forecast:
    """Return how many more blocks would show a difference, or exclude one beyond the margin, whichever comes first.

    At most 60 blocks in all; in a family, alpha is divided by the number of comparisons.
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


KNOWN_EFFECT_PART = 3  # an A/A interval must be narrower than a third of the known effect, or than the margin


def aa_state(verdict: results.Verdict | None, p_limit: float, half_width_limit: float) -> results.CheckState:
    """Return the state of an A/A arm; if it differs it fails even if the comparison is invalid.

    It differs if p < `p_limit`; it is too noisy if the half-width (ratio) of its interval reaches `half_width_limit`.
    """
    if verdict is None or verdict.comparison.p is None or verdict.comparison.ci95 is None:
        return "unchecked"
    if verdict.comparison.p < p_limit:
        return "failed"
    if verdict.kind == "invalid":
        return "unchecked"
    low, high = verdict.comparison.ci95
    return "passed" if (high - low) / 2 < half_width_limit else "inconclusive"


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
    """Return the half-width below which an A/A arm passes: the margin or, if larger, a third of the known effect.

    The largest known effect counts: the one stated in the study, else the one measured by a passed control. It is
    expressed as the share that the slower arm loses, so that it does not depend on which arm is the baseline.
    """
    measured = {r.treatment: r.verdict.comparison.effect for r in controls if r.verdict and r.check_state == "passed"}
    known = (measured.get(r.treatment) if r.expected_effect is None else r.expected_effect for r in controls)
    losses = [1 - math.exp(-abs(math.log1p(effect))) for effect in known if effect is not None]
    return max(margin, max(losses, default=0.0) / KNOWN_EFFECT_PART)
