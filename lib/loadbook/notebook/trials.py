"""Trials of a run in a cell: metrics by the names that users type, tables, and runs with some of their trials only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.core.metrics import METRICS
from loadbook.core.text import nearest_names
from loadbook.store.tables import RunData

if TYPE_CHECKING:
    import pandas as pd

FIRST_COLUMNS = ("trial", "treatment", "block", "slot", "status", "valid")


def available_metrics(data: RunData) -> dict[str, tuple[str, str]]:
    """Return the names of metrics as users type them ("ok_per_s", "latency p99") -> metric and statistic.

    The statistic is left out where it is the metric's own ("latency" is "latency p50").
    """
    totals = data.measurements[data.measurements["driver"] == "*"]
    measured = set(map(tuple, totals[["metric", "statistic"]].drop_duplicates().to_numpy().tolist()))
    metrics = {}
    for metric, statistic in sorted(measured, key=lambda pair: (list(METRICS).index(pair[0]), pair[1])):
        is_default = METRICS[metric].default_statistic == statistic
        metrics[metric if is_default else f"{metric} {statistic}"] = (metric, statistic)
    return metrics


def resolve_metric(data: RunData, name: str) -> tuple[str, str]:
    """Return the metric and statistic of a name; UsageError lists those that were measured, the nearest first."""
    known, name = available_metrics(data), str(name)
    metric, _, statistic = name.partition(" ")
    default = METRICS[metric].default_statistic if metric in METRICS else None
    resolved = known.get(metric if statistic == default else name)
    if resolved is None:
        raise unknown_name_error("metric", name, known, f"in run {data.run} of {data.study.name}", "measured there")
    return resolved


def trials_table(data: RunData, names: tuple[str, ...]) -> pd.DataFrame:
    """Return the trials in order of execution with a column per name of a metric, in base units."""
    columns = [*FIRST_COLUMNS, *(c for c in data.trials.columns if c not in FIRST_COLUMNS)]
    frame = data.trials[columns].sort_values("slot", ignore_index=True)
    for name in names:
        values = data.values(*resolve_metric(data, name)).set_index("trial")["value"]
        frame[name] = frame["trial"].map(values)
    return frame[[*FIRST_COLUMNS, *names, *(c for c in columns if c not in FIRST_COLUMNS)]]


def slowest_trials(data: RunData, metric: str = "") -> pd.DataFrame:
    """Return every trial, the furthest from the median of its treatment, on the bad side, first; see `Run.slowest`."""
    name = metric or data.study.metric
    frame = trials_table(data, (name,))
    median = frame[name].where(frame["valid"]).groupby(frame["treatment"]).transform("median")
    frame["away"] = frame[name] / median - 1
    higher_is_better = METRICS[name.partition(" ")[0]].better != "lower"
    table = frame[["trial", "treatment", "block", "slot", name, "away", "status", "valid", "gates"]]
    return table.sort_values("away", ascending=higher_is_better, kind="stable", ignore_index=True)


def column_name(frame: pd.DataFrame, name: str) -> str:
    """Return the column of the trials that has a name; that of a factor has the factor's name, too."""
    for known in (name, f"factor_{name}"):
        if known in frame.columns:
            return known
    names = [str(c).removeprefix("factor_") for c in frame.columns]
    raise unknown_name_error("column", name, names, "among the trials")


def select_trials(trials: pd.DataFrame, query: Any) -> pd.DataFrame:
    """Return the trials that a pandas query or a mask selects; UsageError for a wrong one."""
    if not isinstance(query, str):
        return trials[_mask(trials, list(query))]
    try:
        return trials.query(query)
    except Exception as error:  # pandas has many: an undefined name, a syntax error, a type that does not fit
        columns = nearest_names(getattr(error, "name", "") or query, map(str, trials.columns))
        message = f"{query!r} is no query of the trials: {error}"
        raise UsageError(message[:300], f"columns: {', '.join(columns)}") from None


def _mask(trials: pd.DataFrame, values: list[Any]) -> list[bool]:
    if len(values) != len(trials) or not all(value in (True, False) for value in values):
        raise UsageError(
            f"a mask has a truth value for each of the {len(trials)} trials, in the order of run.trials",
            'or ask by a query, "block > 2", or take some away: run.without("t0007")',
        )
    return [bool(value) for value in values]


def exclude_trials(trials: pd.DataFrame, names: Sequence[str], where: str) -> pd.DataFrame:
    """Return the trials without those of these names."""
    for name in names:
        if name not in set(trials["trial"]):
            raise unknown_name_error("trial", name, trials["trial"], where)
    return trials[~trials["trial"].isin(list(names))]


def restrict_to_trials(data: RunData, kept: pd.DataFrame) -> RunData:
    """Return the run with these trials only; problems that concern no trial stay."""
    if kept.empty:
        raise UsageError("no trial is left", "run.trials has all of them")
    names = set(kept["trial"])

    def of_kept(frame: pd.DataFrame) -> pd.DataFrame:
        return frame[frame["trial"].isin(names)]

    problems = data.problems[data.problems["trial"].isin(names) | data.problems["trial"].isna()]
    return replace(
        data,
        trials=kept.reset_index(drop=True),
        plan=data.plan | {"blocks": whole_blocks(kept)},
        measurements=of_kept(data.measurements),
        samples=of_kept(data.samples),
        traces=of_kept(data.traces),
        problems=problems,
    )


def whole_blocks(trials: pd.DataFrame) -> int:
    """Return how many blocks hold every treatment that is among these trials, valid or not."""
    treatments = trials.groupby("block")["treatment"].nunique()
    return int((treatments == trials["treatment"].nunique()).sum())
