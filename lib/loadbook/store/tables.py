"""Tables of a run (docs/reference/tables.md) with their arrow schemas; a loaded run: study, plan, facts and tables.

Parquet files are written completely or not at all. The trials table has an additional column `factor_<name>` for each
factor of its study: text in the file, in a loaded run numbers where all levels are numbers. Values are in base units.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from pydantic import BaseModel, ConfigDict

from loadbook.core.errors import DataError
from loadbook.core.metrics import find_metric, get_metric
from loadbook.modes.base import ALL, LATENCIES, RATES, mode_of
from loadbook.store.atomic import atomic_path
from loadbook.store.columns import COLUMNS
from loadbook.store.ledger import read_current_plan
from loadbook.store.paths import Layout, RunPaths
from loadbook.store.run_record import RunConditions, RunRecord, read_run_record
from loadbook.store.trial_record import SCHEMA_VERSION, SLICE_SERIES, read_json, sha256_file
from loadbook.study.model import Study, TrialExecution
from loadbook.study.plan import Plan

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

ROWS_PER_GROUP = 1 << 20  # rows
# a number as TOML prints it; 0644 and 1_000 are text
NUMBER_LEVEL = re.compile(r"-?(?:0|[1-9]\d{0,15})(?:\.\d+)?(?:e[+-]?\d{1,2})?")

# name -> arrow type, in column order; "?" marks columns that may be null
TABLES = {table: {name: column.type for name, column in columns.items()} for table, columns in COLUMNS.items()}


def arrow_schema(table: str, factors: tuple[str, ...] = ()) -> pa.Schema:
    """Return the arrow schema of `table`; "trials" has a text column `factor_<name>` for each name in `factors`."""
    import pyarrow as pa

    types = {
        "string": pa.string(), "int32": pa.int32(), "int64": pa.int64(), "float64": pa.float64(),
        "bool": pa.bool_(), "list<string>": pa.list_(pa.string()),
    }  # fmt: skip
    fields = [pa.field(n, types[t.rstrip("?")], nullable=t.endswith("?")) for n, t in TABLES[table].items()]
    if table == "trials":
        fields += [pa.field(f"factor_{name}", pa.string(), nullable=True) for name in factors]
    return pa.schema(fields, metadata={"loadbook_schema": str(SCHEMA_VERSION)})


def to_arrow(table: str, rows: Sequence[Mapping[str, Any]], factors: tuple[str, ...] = ()) -> pa.Table:
    """Return `rows` (column -> value) as an arrow table; `factors` are names of factors, for the trials table.

    Nullable columns may be missing in a row, and other keys are ignored. DataError: a required value is missing, or a
    value has a wrong type.
    """
    import pyarrow as pa

    schema = arrow_schema(table, factors)
    try:
        columns = [[row.get(f.name) if f.nullable else row[f.name] for row in rows] for f in schema]
        data = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
        data.validate(full=True)
        for field in data.schema:
            if not field.nullable and data[field.name].null_count:
                raise ValueError(f"column {field.name} holds {data[field.name].null_count} nulls")
    except KeyError as error:
        raise DataError(f"table {table}: a row lacks the column {error}") from error
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise DataError(f"table {table}: {error}") from error
    return data


def write_arrow(path: Path, data: pa.Table) -> None:
    """Write an arrow table as the parquet file `path`, completely or not at all.

    The bytes depend only on the rows and their order, not on the chunks in which the table was assembled.
    """
    import pyarrow.parquet as pq

    with atomic_path(path, data.nbytes) as part, pq.ParquetWriter(part, data.schema, compression="zstd") as writer:
        for start in range(0, max(data.num_rows, 1), ROWS_PER_GROUP):
            writer.write_table(data.slice(start, ROWS_PER_GROUP).combine_chunks(), row_group_size=ROWS_PER_GROUP)


def read_table(path: Path, table: str) -> pd.DataFrame:
    """Read a table as a pandas frame; DataError if the file is missing or not this table."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not path.is_file():
        raise DataError(f"{path} is not there", "loadbook ingest STUDY")
    try:
        data = pq.read_table(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise DataError(f"{path} is not a readable table: {error}", "loadbook ingest STUDY rebuilds it") from error
    missing = [name for name in TABLES[table] if name not in data.schema.names]
    if missing:
        raise DataError(f"{path} lacks the columns {', '.join(missing)}", "loadbook ingest STUDY rebuilds it")
    return data.to_pandas()


@dataclass(frozen=True, repr=False)
class RunData(RunConditions):
    """Recorded conditions and tables of one run, from which reports and statistics are made; no host is contacted."""

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
    def name(self) -> str:
        """Return the name by which commands find the run: that of its study, or of an example of loadbook."""
        return self.paths.processed.parent.name

    @property
    def tools(self) -> tuple[str, ...]:
        """Return the names of the load generators of this run, in the order of the plan."""
        return self.study.tools_of(self.plan.treatments)

    def hosts_of(self, treatment: str, role: str) -> list[str]:
        """Return the hosts on which a treatment runs a role's service, as in the hosts file; empty if it has none."""
        setting = self.study.setting(treatment, role)
        if setting.service is None:
            return []
        return [alias for alias, host in self.run_record.hosts.items() if role in host.roles][: setting.hosts]

    def values(self, metric: str, statistic: str | None = None) -> pd.DataFrame:
        """Return one row per executed trial: trial, treatment, block, slot, status, valid, value.

        `value` (base units, total over drivers) is NaN if the trial has no such measurement. Of a run with interleaved
        and plain blocks, the rows are those of the interleaved blocks for a rate or a cost, of the plain ones for a
        time.
        """
        return trial_values(self.trials, self.measurements, metric, statistic)


class RunTables(Protocol):
    """Parts of a run that an analysis uses, such as those of `RunData`; a missing table is None."""

    @property
    def study(self) -> Study:
        """Study of the run: question, treatments, margin."""

    @property
    def plan(self) -> Plan:
        """Plan of the run, with the blocks added to it."""

    @property
    def run_record(self) -> RunRecord | None:
        """Content of run.json."""

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial."""

    @property
    def measurements(self) -> pd.DataFrame:
        """One row per trial, metric, statistic and driver."""

    @property
    def samples(self) -> pd.DataFrame | None:
        """Rates within trials, one row per trial, driver and interval."""

    @property
    def problems(self) -> pd.DataFrame | None:
        """Messages of validity rules and problems of files."""


# kind of a metric -> value of `measures` of the trials that tell it; other metrics are told by all trials
MEASURES_OF_KIND = {"rate": RATES, "cost": RATES, "time": LATENCIES}


def metric_keys(metric: str, statistic: str | None = None) -> dict[str, str]:
    """Return column -> value that selects a metric's rows: `metric` and `statistic`, and `measures` of the trials.

    `statistic` is the metric's default if None is given. Trials whose `measures` is ALL count for every metric.
    """
    statistic = statistic or get_metric(metric).default_statistic
    return {"metric": metric, "statistic": statistic, "measures": _measures_telling(metric)}


def _measures_telling(metric: str) -> str:
    known = find_metric(metric)
    return MEASURES_OF_KIND.get(known.kind if known else "other", ALL)


def trials_telling(trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return the rows of the trials table whose values of a metric count.

    These are all, unless the run has some trials for rates and costs and others for latencies (column `measures`).
    """
    measures = _measures_telling(metric)
    return trials if measures == ALL else trials[trials["measures"].isin([ALL, measures])]


def compared_execution(data: RunConditions, metric: str) -> TrialExecution:
    """Return the execution ("plain", "interleaved", ...) of the trials whose values of a metric are compared."""
    mode = mode_of(data.study)
    return mode.blocks_telling(data.plan, metric).execution or mode.execution


def trial_values(
    trials: pd.DataFrame,
    measurements: pd.DataFrame,
    metric: str,
    statistic: str | None = None,
    *,
    every_trial: bool = False,
) -> pd.DataFrame:
    """Return a row per trial with the total of one metric over all drivers as `value` (base units), NaN without one.

    `trials` and `measurements` are these tables of a run; None as `statistic` is the metric's default. The columns
    are trial, treatment, block, slot, status, valid and value; rows are sorted by slot. Of a run with trials for
    rates and others for latencies, only those that count for the metric (`trials_telling`), unless `every_trial` is
    set.
    """
    statistic_name = statistic or get_metric(metric).default_statistic
    is_total = (measurements["statistic"] == statistic_name) & (measurements["driver"] == "*")
    rows = measurements[is_total & (measurements["metric"] == metric)]
    columns = ["trial", "treatment", "block", "slot", "status", "valid"]
    chosen = trials if every_trial else trials_telling(trials, metric)
    joined = chosen[columns].merge(rows[["trial", "value"]], on="trial", how="left", validate="one_to_one")
    return joined.sort_values("slot", ignore_index=True)


def values_by_trial(data: RunTables, metric: str) -> dict[str, float]:
    """Return trial -> value of a metric (base units, its default statistic, total of all drivers), if it has one."""
    values = trial_values(data.trials, data.measurements, metric).set_index("trial")["value"].dropna()
    return {str(trial): float(value) for trial, value in values.items()}


def measured_windows_s(data: RunTables) -> dict[str, float]:
    """Return trial -> seconds from the start of its measurement to its end, as reported by the tool.

    Of an interleaved trial, whose tool does not run all the time, from the start of its first slice to the end of its
    last one.
    """
    windows_s = values_by_trial(data, "duration")
    if data.samples is None:
        return windows_s
    slices = data.samples[(data.samples["series"] == SLICE_SERIES) & (data.samples["metric"] == "slice")]
    by_trial = slices.assign(end=slices["x"] + slices["value"]).groupby("trial")
    spans_s = by_trial["end"].max() - by_trial["x"].min()
    return windows_s | {str(trial): float(span_s) for trial, span_s in spans_s.items()}


def edited_tables(paths: RunPaths) -> list[str]:
    """Return the names of tables whose files changed since ingest wrote them; empty if no checksums are recorded."""
    try:
        sums = read_json(paths.ingest_cache / "memory.json")["files"]
        return [n for n in TABLES if n + ".parquet" in sums and sums[n + ".parquet"] != sha256_file(paths.table(n))]
    except (DataError, OSError, KeyError, TypeError):
        return []


class TablesMaker(BaseModel):
    """Version of the loadbook that made the tables of a run, and digest of its source files and libraries."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: str
    code: str

    def __str__(self) -> str:
        return f"loadbook {self.version} (code {self.code[:8]})"


def tables_maker(paths: RunPaths) -> TablesMaker | None:
    """Return what made the tables; None if the ingest that made them did not record it."""
    try:
        return TablesMaker.model_validate(read_json(paths.ingest_cache / "memory.json")["made_by"])
    except (DataError, OSError, KeyError, TypeError, ValueError):
        return None


def load_run(layout: Layout, study: str, run: str = "latest") -> RunData:
    """Load an ingested run; UsageError or DataError names the missing part and the command that makes it."""
    run = layout.resolve_run(study, run)
    paths = layout.run(study, run)
    if edited := edited_tables(paths):
        files = ", ".join(str(paths.table(name)) for name in edited)
        raise DataError(f"{files}: changed since loadbook ingest wrote it", f"loadbook ingest {study} makes it again")
    frames = {name: read_table(paths.table(name), name) for name in TABLES}
    frames["trials"] = with_number_levels(frames["trials"])
    known = read_run_conditions(paths)
    return RunData(known.study, known.plan, known.run_record, known.facts, run, paths, **frames)


def with_number_levels(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with numbers in each `factor_` column in which every level is a decimal number.

    Text such as "off" or "64k" in a column keeps all of it text. A trial without the factor has NaN.
    """
    import pandas as pd

    numbers = {}
    for name in (str(column) for column in trials.columns if str(column).startswith("factor_")):
        levels = trials[name].dropna()
        if len(levels) and all(NUMBER_LEVEL.fullmatch(str(level)) for level in levels.unique()):
            numbers[name] = pd.to_numeric(trials[name])
    return trials.assign(**numbers)


def read_run_conditions(paths: RunPaths) -> RunConditions:
    """Read the recorded conditions of a run, without its tables.

    DataError: a file of the record is missing, torn, or not readable by this version of loadbook.
    """
    facts = {p.stem: read_json(p) for p in sorted(paths.facts.glob("*.json"))} if paths.facts.is_dir() else {}
    plan = read_current_plan(paths)
    return RunConditions(plan.study, plan, read_run_record(paths), facts)


def treatments_of(data: RunTables) -> list[str]:
    """Return the treatments of the run in the order of its subset or, without a plan, of the study file."""
    planned = data.plan.treatments
    names = planned or set(data.trials["treatment"])
    return [name for name in planned or data.study.treatments if name in names and name in data.study.treatments]


def strata_of(data: RunData) -> dict[str, RunData]:
    """Return level of the factor `Study.stratify_by` -> part of the run with this level; without strata "" -> the run.

    In the stratum "near", labels lose their prefix "near: ".
    """
    study, levels = data.study, dict[str, list[str]]()
    if study.stratify_by is None:
        return {"": data}
    for name in treatments_of(data):
        levels.setdefault(str(study.levels_of(name)[study.stratify_by]), []).append(name)
    strata = {}
    for level, names in levels.items():
        labels = {name: study.label(name).removeprefix(f"{level}: ") for name in study.treatments}
        specs = {name: spec.model_copy(update={"label": labels[name]}) for name, spec in study.treatments.items()}
        relabelled = replace(data, study=study.model_copy(update={"treatments": specs}))
        strata[level] = restrict_to(relabelled, names, baseline=study.baseline_of(names[0]), stratify_by=None)
    return strata


def restrict_to(data: RunData, treatments: Collection[str], **changes: Any) -> RunData:
    """Return the run as if its study had only these treatments; `changes` sets other fields of the study.

    Problems that concern the whole run are kept.
    """
    study, kept_names = data.study, [name for name in treatments_of(data) if name in treatments]
    specs = {name: study.treatments[name] for name in kept_names}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(claim for claim in study.published.claims if set(claim.treatments) <= set(specs))}
    )
    trials = data.trials[data.trials["treatment"].isin(kept_names)].reset_index(drop=True)
    return replace(
        data,
        study=study.model_copy(update={"treatments": specs, "published": published} | changes),
        plan=replace(data.plan, treatments=tuple(kept_names)),
        trials=trials,
        measurements=_rows_of_trials(data.measurements, trials),
        samples=_rows_of_trials(data.samples, trials),
        traces=_rows_of_trials(data.traces, trials),
        problems=_rows_of_trials(data.problems, trials, keep_run_rows=True),
    )


def _rows_of_trials(frame: Any, trials: pd.DataFrame, *, keep_run_rows: bool = False) -> Any:
    """Return the rows of these trials, None for a missing table; `keep_run_rows` adds rows that belong to no trial."""
    if frame is None:
        return None
    selected = frame["trial"].isin(trials["trial"])
    return frame[selected | frame["trial"].isna()] if keep_run_rows else frame[selected]
