"""One run, loaded: its study, plan, facts and the five tables as pandas frames."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loadbook.core.errors import DataError, UsageError
from loadbook.core.metrics import get_metric
from loadbook.store.conditions import RunConditions
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import read_run_record
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
