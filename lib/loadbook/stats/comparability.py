"""Reasons that forbid a comparison of two arms, whatever its numbers: too few blocks, another load, other responses.

Trials of an arm are plain lists: a hundred of them are asked a dozen questions for each comparison.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pandas as pd

from loadbook.core.metrics import get_metric
from loadbook.core.validity_rules import ExclusionCause
from loadbook.stats.compare import insufficient_blocks
from loadbook.stats.exclusions import exclusion_text
from loadbook.stats.steady_state import rate_trends
from loadbook.store.tables import RunTables

if TYPE_CHECKING:
    from loadbook.stats import results

# columns of the trials table in which arms must agree -> name in messages, workload field that may vary on purpose
LOAD_COLUMNS = {
    "tool": ("tool", "tool"),
    "load_model": ("load model", "model"),
    "offered_per_s": ("offered rate", "rate_per_s"),
    "concurrency": ("number of connections", "connections"),
    "drivers": ("number of drivers", "drivers"),
}
# columns of the trials table that are compared between arms; a missing value becomes None
NULLABLE_COLUMNS = ("started", "moving", "response_status", "response_bytes", *LOAD_COLUMNS)
ARM_COLUMNS = ("block", "slot", "status", "cause", "short_tail", "at_ceiling", *NULLABLE_COLUMNS)
BASELINE_TEXT = "the baseline"
METRICS_WITH_ERRORS = ("requests_per_s", "requests", "attempts_per_s", "attempts")
RATE_METRICS = ("ok_per_s", "requests_per_s", "ok", "requests")
ResponseKey = tuple[int | None, int | None]


class ArmTrials:
    """Trials of one arm: the values of all by column, and which of them comparisons may use."""

    def __init__(self, columns: Mapping[str, list[Any]], usable: list[bool]) -> None:
        self._columns, self._usable = columns, usable
        self._used: dict[str, list[Any]] = {}

    @property
    def trials(self) -> int:
        """Return the number of trials, usable or not."""
        return len(self._usable)

    @property
    def usable_trials(self) -> int:
        """Return the number of trials that comparisons may use."""
        return sum(self._usable)

    @property
    def blocks(self) -> set[Any]:
        """Return the blocks of all trials, usable or not."""
        return set(self._columns["block"])

    def used(self, column: str) -> list[Any]:
        """Return the values of a column in usable trials; an empty list if the run has no such column."""
        if column not in self._used:
            values = self._columns.get(column, [])
            self._used[column] = [value for value, is_used in zip(values, self._usable, strict=False) if is_used]
        return self._used[column]

    def mostly(self, column: str) -> bool:
        """Return whether a column is true in more than half of the usable trials."""
        return sum(map(bool, self.used(column))) > self.usable_trials / 2

    def most_frequent(self, column: str) -> Any:
        """Return the most frequent value of a column among usable trials.

        Of equally frequent values the smallest counts, independent of the order of the trials. ValueError without
        trials.
        """
        counts = Counter(self.used(column))
        return min(counts, key=lambda value: (-counts[value], value is None, value))

    @cached_property
    def exclusion_causes(self) -> Counter[ExclusionCause]:
        """Return the causes of excluded trials, each with its number of trials."""
        causes = zip(self._columns["cause"], self._usable, strict=True)
        return Counter(cause for cause, is_used in causes if not is_used)

    @cached_property
    def responses(self) -> list[tuple[int, int]]:
        """Return status and bytes of the response of each usable trial that recorded it."""
        pairs = zip(self.used("response_status"), self.used("response_bytes"), strict=False)
        return [(int(status), int(size)) for status, size in pairs if status is not None and size is not None]


def arms_of(trials: pd.DataFrame, treatments: Iterable[str]) -> dict[str, ArmTrials]:
    """Return treatment -> its trials; a treatment without trials has an `ArmTrials` without any.

    `trials` is a result of `exclusions.with_causes`; columns of `ARM_COLUMNS` that it lacks are left out.
    """
    columns = {name: trials[name].tolist() for name in ARM_COLUMNS if name in trials}
    for name in columns.keys() & set(NULLABLE_COLUMNS):
        columns[name] = [None if value is pd.NA or value != value else value for value in columns[name]]
    usable, rows_of = usable_mask(trials).tolist(), {name: list[int]() for name in treatments}
    for row, treatment in enumerate(trials["treatment"].tolist()):
        if treatment in rows_of:
            rows_of[treatment].append(row)
    return {
        name: ArmTrials(
            {column: [values[row] for row in rows] for column, values in columns.items()}, [usable[row] for row in rows]
        )
        for name, rows in rows_of.items()
    }


def usable_mask(trials: pd.DataFrame) -> pd.Series:
    """Return, per trial, whether comparisons may use it: status ok, not excluded by a validity rule."""
    return (trials["status"] == "ok") & trials["valid"].astype(bool)


def rate_moving(data: RunTables) -> pd.Series:
    """Return whether the measured rate of each trial's treatment rises or falls within trials (`rate_trends`).

    One value per row of `data.trials`: True, False, or NaN without rates over time or with too few of them.
    """
    usable = data.trials[usable_mask(data.trials)]
    treatment_of = dict(zip(usable["trial"], usable["treatment"], strict=True))
    trends = {} if data.samples is None else rate_trends(data.samples, treatment_of)
    return data.trials["treatment"].map({name: trend.moving for name, trend in trends.items() if trend is not None})


def invalid_reason(
    own: ArmTrials,
    base: ArmTrials,
    comparison: results.Comparison,
    errors: results.ErrorSummary,
    varied: Collection[str] = (),
    reference_text: str = BASELINE_TEXT,
) -> str | None:
    """Return the first reason that forbids a comparison; None if there is none.

    `own` are the trials of the treatment, `base` those of the reference; only those with status ok and valid are
    compared. `varied` lists the workload fields in which the study makes the arms differ, `reference_text` names the
    reference if it is not the baseline.
    """
    metric, statistic = comparison.metric, comparison.statistic
    if own.mostly("short_tail") or base.mostly("short_tail"):
        return f"{statistic} is not measurable: too few requests of a trial lie beyond it (validity.min_tail_requests)"
    if reason := _insufficient_blocks_reason(comparison, own, base) or _order_reason(own, base):
        return reason
    if metric in RATE_METRICS and own.mostly("at_ceiling") and base.mostly("at_ceiling"):
        return "both served all of the offered load, so the rate is the generator's setting; offer more"
    if reason := _moving_rate_reason(own, base, reference_text) or _load_reason(own, base, varied, reference_text):
        return reason
    sized = "expect_bytes" in varied  # the study gives each arm its own page
    keys = [[(status, None if sized else size) for status, size in arm.responses] for arm in (own, base)]
    if reason := response_difference(keys[0], keys[1], reference_text):
        return reason
    tools = _differing_values("tool", own, base)
    if tools and get_metric(metric).kind == "time":
        return f"{tools[0]} and {tools[1]} define {metric} each in its own way"
    if metric in METRICS_WITH_ERRORS and errors.kind in ("more", "fewer"):
        return f"{metric} counts error responses, and it has {errors.kind} of them; compare ok_per_s"
    return None


def response_difference(
    own: Iterable[ResponseKey], base: Iterable[ResponseKey], reference: str = BASELINE_TEXT
) -> str | None:
    """Describe how the most frequent responses (status, bytes) differ; None if they agree or are unknown.

    `reference` names the arm of the second ones.
    """
    own_counts, base_counts = (Counter(a for a in responses if a[0] is not None) for responses in (own, base))
    if not own_counts or not base_counts:
        return None
    (status, size), (base_status, base_size) = _most_frequent(own_counts), _most_frequent(base_counts)
    if status != base_status:
        return f"it answers differently (status {status} where {reference} answers {base_status})"
    if size != base_size:
        return f"it answers differently ({size} bytes where {reference} sends {base_size})"
    return None


def _most_frequent(counts: Counter[ResponseKey]) -> ResponseKey:
    """Return the most frequent response, of equally frequent ones the largest (independent of the order of trials)."""
    return max(counts, key=lambda key: (counts[key], key[0] or 0, key[1] or 0))


def _load_reason(own: ArmTrials, base: ArmTrials, varied: Collection[str], reference: str) -> str | None:
    for column, (noun, field) in LOAD_COLUMNS.items():
        values = _differing_values(column, own, base)
        if values and field not in varied:
            own_told, base_told = ("none" if value is None else value for value in values)
            return f"it was measured under another {noun} ({own_told} where {reference} has {base_told})"
    return None


def _differing_values(column: str, own: ArmTrials, base: ArmTrials) -> tuple[Any, Any] | None:
    """Return each arm's most frequent value of a column if these differ; None if they agree or one has no trials."""
    if not own.used(column) or not base.used(column):
        return None
    own_value, base_value = own.most_frequent(column), base.most_frequent(column)
    return None if own_value == base_value else (own_value, base_value)


def _insufficient_blocks_reason(comparison: results.Comparison, own: ArmTrials, base: ArmTrials) -> str | None:
    """Return the reason if too few blocks are complete, with the causes of excluded trials of both arms."""
    reason = insufficient_blocks(comparison.blocks, comparison.excluded)
    if reason is None:
        return None
    causes = own.exclusion_causes + base.exclusion_causes
    missing = comparison.blocks + comparison.excluded - len(own.blocks | base.blocks)
    if causes:
        return f"{reason}: {exclusion_text(causes)}"
    return f"{reason} ({missing} {'was' if missing == 1 else 'were'} not run)" if missing > 0 else reason


def _order_reason(own: ArmTrials, base: ArmTrials) -> str | None:
    """Return the reason if one arm ran entirely before the other; None if it did not, or times are unknown."""
    if min(own.usable_trials, base.usable_trials) < 2 or None in (*own.used("started"), *base.used("started")):
        return None
    own_slots, base_slots = own.used("slot"), base.used("slot")
    if max(own_slots) < min(base_slots) or max(base_slots) < min(own_slots):
        return "one arm ran whole before the other, so the order was not randomised in blocks"
    return None


def _moving_rate_reason(own: ArmTrials, base: ArmTrials, reference: str) -> str | None:
    """Return the reason if the rate had a trend within trials in only one of the arms."""
    values = _differing_values("moving", own, base)
    if values is None or None in values:  # not known
        return None
    moved, other = ("moved", "did not") if values[0] else ("held still", "did")
    return f"its rate {moved} within trials, {reference}'s {other}"
