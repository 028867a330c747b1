"""What is asked of a run: defaults filled in, and the values of the tables that answer it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from loadbook.core.errors import UsageError
from loadbook.core.metrics import Direction
from loadbook.core.metrics import metric as metric_of
from loadbook.core.names import unknown
from loadbook.records.rundata import trial_values
from loadbook.stats import errors as error_counts
from loadbook.stats.errors import Counts
from loadbook.stats.hygiene import tails
from loadbook.stats.hygiene.within import SETTLED, settled_rates, trends
from loadbook.stats.reasons import counts
from loadbook.stats.result import Asks, Contrasts, Stand
from loadbook.stats.sequential import stand
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
class Question:
    """One question with all of its answers' values; `blocks` is how many were planned, None where there is no plan.

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
    errors: dict[str, Counts]
    blocks: int | None
    contrasts: Contrasts = "baseline"
    asks: Asks = "difference"
    stand: Stand = field(default_factory=Stand)


def ask(
    data: RunTables,
    baseline: str | None,
    metric: str | None,
    statistic: str | None,
    margin: float | None,
    level: float,
) -> Question:
    """Fill in the study's defaults; UsageError for a baseline or level that there is not."""
    study, chosen = data.study, metric or data.study.metric
    known = metric_of(chosen)
    base = baseline or study.baseline
    if base not in study.treatments:
        raise unknown("treatment", base, study.treatments, f"in study {study.name!r}")
    if not 0.5 < level < 1:
        raise UsageError(f"level {level} is not between 0.5 and 1", "the usual level is 0.95")
    if margin is None:
        margin = study.margin if chosen == study.metric else known.margin
    wanted = statistic or known.default_statistic
    values = trial_values(data.trials, data.measurements, chosen, wanted)
    samples: pd.DataFrame | None = getattr(data, "samples", None)
    if wanted == SETTLED and samples is not None:
        values["value"] = values["trial"].map(settled_rates(samples, chosen))
    requests = trial_values(data.trials, data.measurements, "requests")["value"]
    short = tails.too_few(chosen, wanted, requests, study.gates.min_tail_requests)
    values["value"] = values["value"].mask(short)
    trials = _with_causes(data)
    trials = trials.assign(short_tail=trials["trial"].isin(values.loc[short, "trial"]))
    values = values.assign(valid=counts(values))
    errors = {name: error_counts.count(data.trials, data.measurements, name) for name in {*treatments_of(data), base}}
    return Question(
        study, base, chosen, wanted, margin, level, direction(chosen), values, trials, errors,
        _blocks(data), *_declared(study, baseline, own=chosen == study.metric),
    )  # fmt: skip


def by_rule(data: RunTables, asked: Question) -> Question:
    """Return the question with the level and the blocks that the study's rule for stopping gives it now.

    Raises
    ------
    UsageError : a level for which the rule is not defined.
    """
    begun = int(data.trials["block"].max()) if len(data.trials) else 0
    whole = int((data.trials["block"] == begun).sum()) >= len(treatments_of(data))
    found = stand(
        asked.study.stopping,
        begun=begun,
        complete=begun if whole else begun - 1,
        planned=asked.blocks,
        added=getattr(data, "plan", {}).get("added", 0),
        level=asked.level,
    )
    return replace(asked, level=found.level, blocks=found.blocks, stand=found)


def _declared(study: Study, baseline: str | None, *, own: bool) -> tuple[Contrasts, Asks]:
    """Return what the study declares, as far as it concerns this baseline (None: its own) and this metric."""
    contrasts: Contrasts = study.contrasts if not baseline and (own or study.contrasts == "adjacent") else "baseline"
    return contrasts, study.asks if own else "difference"


def _with_causes(data: RunTables) -> pd.DataFrame:
    """Return the trials with only those gates that excluded them, as far as the problems are there to tell.

    The column `at_ceiling` tells which of them served all of an open load, `moving` whether the rate of the treatment
    moved within its trials (NaN: not known).
    """
    problems = getattr(data, "problems", None)
    trials = data.trials.assign(
        at_ceiling=["offered_ceiling" in gates for gates in data.trials["gates"]], moving=_moving(data)
    )
    if problems is None:
        return trials
    invalid = problems[problems["level"] == "invalid"]
    names = invalid.groupby("trial")["name"].agg(lambda found: sorted(set(found)))
    return trials.assign(gates=[names.get(trial, []) for trial in data.trials["trial"]])


def _moving(data: RunTables) -> pd.Series:
    samples: pd.DataFrame | None = getattr(data, "samples", None)
    used = data.trials[counts(data.trials)]
    known = {} if samples is None else trends(samples, dict(zip(used["trial"], used["treatment"], strict=True)))
    moved = {name: trend.moving for name, trend in known.items() if trend is not None}
    return data.trials["treatment"].map(moved)


def treatments_of(data: RunTables) -> list[str]:
    """Return the treatments of the run in the order of its subset or, without a plan, of the study's file."""
    planned = getattr(data, "plan", {}).get("treatments")
    there = planned or set(data.trials["treatment"])
    return [name for name in planned or data.study.treatments if name in there and name in data.study.treatments]


def _blocks(data: RunTables) -> int | None:
    """Return how many blocks the run was planned with, None where there is no plan."""
    planned = getattr(data, "plan", {}).get("blocks")
    return int(planned) if planned else None
