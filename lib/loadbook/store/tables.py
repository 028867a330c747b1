"""One run, loaded: its study, plan, facts and the five tables as pandas frames; parts of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from loadbook.core.errors import DataError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.store.conditions import RunConditions
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import RunRecord, read_run_record
from loadbook.store.schema import TABLES, read_table
from loadbook.store.trial_record import read_json, sha256_file
from loadbook.study.model import Study

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, repr=False)
class RunData(RunConditions):
    """Everything that reports and statistics read about one run; nothing here touches a host."""

    run: str
    paths: RunPaths
    trials: pd.DataFrame
    measurements: pd.DataFrame
    samples: pd.DataFrame
    traces: pd.DataFrame
    problems: pd.DataFrame

    def __repr__(self) -> str:
        return f"RunData(run {self.run} of {self.study.name}, {len(self.trials)} trials, in {self.paths.raw})"

    @property
    def tools(self) -> tuple[str, ...]:
        """Names of the load generators of this run, in the plan's order."""
        return self.study.tools_of(self.plan["treatments"])

    def values(self, metric: str, statistic: str | None = None) -> pd.DataFrame:
        """Return one row per planned and executed trial: trial, treatment, block, slot, status, valid, value.

        `value` (base units, total over drivers) is NaN where the trial has no such measurement.
        """
        return trial_values(self.trials, self.measurements, metric, statistic)


class RunTables(Protocol):
    """Parts of a run that an analysis reads; `store.tables.RunData` has them all, None is a table that is missing."""

    @property
    def study(self) -> Study:
        """The question, its treatments and margin."""

    @property
    def plan(self) -> Mapping[str, Any]:
        """plan.json with added blocks; empty where there is none."""

    @property
    def run_record(self) -> RunRecord | None:
        """The content of run.json."""

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial."""

    @property
    def measurements(self) -> pd.DataFrame:
        """One row per trial, metric, statistic and driver."""

    @property
    def samples(self) -> pd.DataFrame | None:
        """Rates within trials."""

    @property
    def problems(self) -> pd.DataFrame | None:
        """Messages of validity rules."""


def trial_values(
    trials: pd.DataFrame, measurements: pd.DataFrame, metric: str, statistic: str | None = None
) -> pd.DataFrame:
    """Join one metric's total (driver "*") to the trials; see `RunData.values`."""
    statistic_name = statistic or get_metric(metric).default_statistic
    rows = measurements[
        (measurements["metric"] == metric)
        & (measurements["statistic"] == statistic_name)
        & (measurements["driver"] == "*")
    ]
    columns = ["trial", "treatment", "block", "slot", "status", "valid"]
    joined = trials[columns].merge(rows[["trial", "value"]], on="trial", how="left", validate="one_to_one")
    return joined.sort_values("slot", ignore_index=True)


def edited_tables(paths: RunPaths) -> list[str]:
    """Return the names of tables that are not as ingest wrote them; none where it left no checksums."""
    try:
        sums = read_json(paths.ingest_cache / "memory.json")["files"]
        return [n for n in TABLES if n + ".parquet" in sums and sums[n + ".parquet"] != sha256_file(paths.table(n))]
    except (DataError, OSError, KeyError, TypeError):
        return []


def load_run(layout: Layout, study: str, run: str = "latest") -> RunData:
    """Load an ingested run; UsageError or DataError names the missing part and the command that makes it."""
    run = layout.resolve_run(study, run)
    paths = layout.run(study, run)
    if edited := edited_tables(paths):
        files = ", ".join(str(paths.table(name)) for name in edited)
        raise DataError(f"{files}: changed since loadbook ingest wrote it", f"loadbook ingest {study} makes it again")
    frames = {name: read_table(paths.table(name), name) for name in TABLES}
    known = read_run_conditions(paths)
    return RunData(known.study, known.plan, known.run_record, known.facts, run, paths, **frames)


def read_run_conditions(paths: RunPaths) -> RunConditions:
    """Read the record of a run, its tables left alone.

    Raises
    ------
    DataError : a file of the record is missing or torn.
    UsageError : its study is no study to this loadbook.
    """
    facts = {p.stem: read_json(p) for p in sorted(paths.facts.glob("*.json"))} if paths.facts.is_dir() else {}
    return RunConditions(_recorded_study(paths), read_current_plan(paths), read_run_record(paths), facts)


def _recorded_study(paths: RunPaths) -> Study:
    """Return the study as it was when the run was planned (plan.json keeps it whole, includes resolved)."""
    recorded = read_json(paths.plan_json).get("study_spec")
    if recorded is None:
        raise DataError(f"{paths.plan_json} holds no study_spec", "the plan was made by another version of loadbook")
    try:
        return Study.model_validate_json(json.dumps(recorded))
    except ValueError as error:
        raise UsageError(f"{paths.plan_json}: the study in it cannot be read: {error}") from error


def treatments_of(data: RunTables) -> list[str]:
    """Return the treatments of the run in the order of its subset or, without a plan, of the study's file."""
    planned = data.plan.get("treatments")
    names = planned or set(data.trials["treatment"])
    return [name for name in planned or data.study.treatments if name in names and name in data.study.treatments]


def strata_of(data: RunData) -> dict[str, RunData]:
    """Return level of `Study.stratify_by` -> the part of the run under it; one part "" without strata.

    The prefix "near: " of a label is left out in the stratum "near".
    """
    study, levels = data.study, dict[str, list[str]]()
    if study.stratify_by is None:
        return {"": data}
    for name in treatments_of(data):
        levels.setdefault(str(study.levels_of(name)[study.stratify_by]), []).append(name)
    return {
        level: restrict_to(
            _without_stratum_label(data, level), names, baseline=study.baseline_of(names[0]), stratify_by=None
        )
        for level, names in levels.items()
    }


def restrict_to(data: RunData, treatments: Collection[str], **changes: Any) -> RunData:
    """Return the run as if it had these treatments alone, in a study with `changes`."""
    study, kept_names = data.study, [name for name in treatments_of(data) if name in treatments]
    specs = {name: study.treatments[name] for name in kept_names}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(claim for claim in study.published.claims if set(claim.treatments) <= set(specs))}
    )
    trials = data.trials[data.trials["treatment"].isin(kept_names)].reset_index(drop=True)
    return replace(
        data,
        study=study.model_copy(update={"treatments": specs, "published": published} | changes),
        plan=data.plan | {"treatments": kept_names},
        trials=trials,
        measurements=_rows_of_trials(data.measurements, trials),
        samples=_rows_of_trials(data.samples, trials),
        traces=_rows_of_trials(data.traces, trials),
        problems=_rows_of_trials(data.problems, trials, keep_run_rows=True),
    )


def _without_stratum_label(data: RunData, level: str) -> RunData:
    """Return the run with labels without the name of the stratum."""
    treatments = {
        name: spec.model_copy(update={"label": data.study.label(name).removeprefix(f"{level}: ")})
        for name, spec in data.study.treatments.items()
    }
    return replace(data, study=data.study.model_copy(update={"treatments": treatments}))


def _rows_of_trials(frame: Any, trials: pd.DataFrame, *, keep_run_rows: bool = False) -> Any:
    """Return the rows of these trials, None of a missing table; with `keep_run_rows` those of the run as such, too."""
    if frame is None:
        return None
    selected = frame["trial"].isin(trials["trial"])
    return frame[selected | frame["trial"].isna()] if keep_run_rows else frame[selected]
