"""What is asked of a run: defaults filled in, and the values of the tables that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from loadbook.core.errors import UsageError
from loadbook.core.metrics import Direction
from loadbook.core.metrics import get_metric
from loadbook.core.names import unknown_name_error
from loadbook.records.rundata import trial_values
from loadbook.stats import errors as error_counts
from loadbook.stats.errors import ErrorCounts
from loadbook.stats.hygiene import tails
from loadbook.stats.hygiene.within import SETTLED, settled_rates, rate_trends
from loadbook.stats.reasons import usable_mask
from loadbook.stats.result import Hypothesis, Contrasts, StoppingState
from loadbook.stats.sequential import compute_stopping_state
from loadbook.stats.wording.words import direction

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.study import Study


class RunTables(Protocol):
    """What an analysis reads of a run (`records.rundata.RunData` is one)."""

    @property
    def study(self) -> Study:
        """The question, its treatments and margin."""
        ...

    @property
    def trials(self) -> pd.DataFrame:
        """The trials table."""
        ...

    @property
    def measurements(self) -> pd.DataFrame:
        """The measurements table."""
        ...


@dataclass(frozen=True)
class AnalysisSpec:
    """One question with all of its answers' values; `planned_blocks` is how many were planned, None where there is no plan.

    What is compared with what and a one-sided question belong to the study's own baseline and metric: another metric
    keeps the rungs of a ladder only, another baseline is what everything is compared with.
    """

    study: Study
    baseline: str
    metric: str
    statistic: str
    margin: float
    level: float
    better: Direction
    values: pd.DataFrame
    trials: pd.DataFrame
    errors: dict[str, ErrorCounts]
    planned_blocks: int | None
    contrasts: Contrasts = "baseline"
    hypothesis: Hypothesis = "difference"
    stopping_state: StoppingState = field(default_factory=StoppingState)


def resolve_spec(
    data: RunTables,
    baseline: str | None,
    metric: str | None,
    statistic: str | None,
    margin: float | None,
    level: float,
) -> AnalysisSpec:
    """Fill in the study's defaults; UsageError for a baseline or level that there is not."""
    study, metric_name = data.study, metric or data.study.metric
    metric_info = get_metric(metric_name)
    baseline_name = baseline or study.baseline
    if baseline_name not in study.treatments:
        raise unknown_name_error("treatment", baseline_name, study.treatments, f"in study {study.name!r}")
    if not 0.5 < level < 1:
        raise UsageError(f"level {level} is not between 0.5 and 1", "the usual level is 0.95")
    if margin is None:
        margin = study.margin if metric_name == study.metric else metric_info.margin
    statistic_name = statistic or metric_info.default_statistic
    values = trial_values(data.trials, data.measurements, metric_name, statistic_name)
    samples: pd.DataFrame | None = getattr(data, "samples", None)
    if statistic_name == SETTLED and samples is not None:
        values["value"] = values["trial"].map(settled_rates(samples, metric_name))
    requests = trial_values(data.trials, data.measurements, "requests")["value"]
    short = tails.has_short_tail(metric_name, statistic_name, requests, study.gates.min_tail_requests)
    values["value"] = values["value"].mask(short)
    trials = _trials_with_causes(data)
    trials = trials.assign(short_tail=trials["trial"].isin(values.loc[short, "trial"]))
    values = values.assign(valid=usable_mask(values))
    errors = {name: error_counts.count_errors(data.trials, data.measurements, name) for name in {*treatments_of(data), baseline_name}}
    return AnalysisSpec(
        study, baseline_name, metric_name, statistic_name, margin, level, direction(metric_name), values, trials, errors,
        _planned_blocks(data), *_declared_contrasts(study, baseline, own=metric_name == study.metric),
    )  # fmt: skip


def apply_stopping_rule(data: RunTables, spec: AnalysisSpec) -> AnalysisSpec:
    """Return the question with the level and the blocks that the study's rule for stopping gives it now.

    Raises
    ------
    UsageError : a level for which the rule is not defined.
    """
    started_blocks = int(data.trials["block"].max()) if len(data.trials) else 0
    last_is_complete = int((data.trials["block"] == started_blocks).sum()) >= len(treatments_of(data))
    state = compute_stopping_state(
        spec.study.stopping,
        started=started_blocks,
        complete=started_blocks if last_is_complete else started_blocks - 1,
        planned=spec.planned_blocks,
        added=getattr(data, "plan", {}).get("added", 0),
        level=spec.level,
    )
    return replace(spec, level=state.level, planned_blocks=state.blocks, stopping_state=state)


def _declared_contrasts(study: Study, baseline: str | None, *, own: bool) -> tuple[Contrasts, Hypothesis]:
    """Return what the study declares, as far as it concerns this baseline (None: its own) and this metric."""
    contrasts: Contrasts = study.contrasts if not baseline and (own or study.contrasts == "adjacent") else "baseline"
    return contrasts, study.asks if own else "difference"


def _trials_with_causes(data: RunTables) -> pd.DataFrame:
    """Return the trials with only those gates that excluded them, as far as the problems are there to tell.

    The column `at_ceiling` tells which of them served all of an open load, `moving` whether the rate of the treatment
    moved within its trials (NaN: not known).
    """
    problems = getattr(data, "problems", None)
    trials = data.trials.assign(
        at_ceiling=["offered_ceiling" in gates for gates in data.trials["gates"]], moving=_rate_moving(data)
    )
    if problems is None:
        return trials
    invalid = problems[problems["level"] == "invalid"]
    names = invalid.groupby("trial")["name"].agg(lambda found: sorted(set(found)))
    return trials.assign(gates=[names.get(trial, []) for trial in data.trials["trial"]])


def _rate_moving(data: RunTables) -> pd.Series:
    samples: pd.DataFrame | None = getattr(data, "samples", None)
    usable = data.trials[usable_mask(data.trials)]
    trend_by_treatment = {} if samples is None else rate_trends(samples, dict(zip(usable["trial"], usable["treatment"], strict=True)))
    moving_by_treatment = {name: trend.moving for name, trend in trend_by_treatment.items() if trend is not None}
    return data.trials["treatment"].map(moving_by_treatment)


def treatments_of(data: RunTables) -> list[str]:
    """Return the treatments of the run in the order of its subset or, without a plan, of the study's file."""
    planned = getattr(data, "plan", {}).get("treatments")
    names = planned or set(data.trials["treatment"])
    return [name for name in planned or data.study.treatments if name in names and name in data.study.treatments]


def _planned_blocks(data: RunTables) -> int | None:
    """Return how many blocks the run was planned with, None where there is no plan."""
    planned = getattr(data, "plan", {}).get("blocks")
    return int(planned) if planned else None
