"""What a worker does for `ingest`: some trials' folders -> rows as arrow tables, and what is known of each trial.

Nothing here looks beyond one trial, so that parts may be read in any order, on any process or machine that sees data/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loadbook.core.errors import DataError
from loadbook.design.plan import PlannedTrial
from loadbook.design.study import ValidityLimits
from loadbook.gates.trial import check_trial
from loadbook.records import manifest
from loadbook.records.manifest import TrialRecord
from loadbook.records.schema import TABLES, to_arrow
from loadbook.trials.added_rows import AddedFiles
from loadbook.trials.requests_kept import write_requests
from loadbook.trials.trial_rows import Row, TrialRows, read_trial_rows
from loadbook.trials.versions import code_version

if TYPE_CHECKING:
    import pyarrow as pa

# the tables of which every row belongs to one trial and needs no other
TRIAL_TABLES = ("measurements", "samples", "traces")
# the sources of traces that gates judge by
VALIDITY_SOURCES = ("sampler", "service")


@dataclass(frozen=True)
class IngestPart:
    """What one worker is asked to read: trials of one run with their folders, in the order of their names.

    `requests` is the folder for the requests of each trial one by one, of tools that tell them; `added` the files of
    traces that were added to the run.
    """

    study: str
    run: str
    thresholds: ValidityLimits
    trials: tuple[tuple[PlannedTrial, Path], ...]
    code: str
    requests: Path
    added: AddedFiles = field(default_factory=AddedFiles)
    record_sums: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class IngestedTrial:
    """What is known of one trial beside its rows: its record's text (None: there is none that can be used).

    `problems` and `hits` are rows with the columns that they have, values of JSON only.
    """

    record: str | None
    problems: list[Row]
    hits: list[Row]


@dataclass(frozen=True)
class IngestedPart:
    """What a part gave: what is known by trial, and tables (see OWN_TABLES) sorted by all their columns."""

    trials: dict[str, IngestedTrial]
    tables: dict[str, pa.Table]


def read_part(part: IngestPart) -> IngestedPart:
    """Read the trials of a part.

    Raises
    ------
    DataError : the worker runs another version of loadbook, or rows do not fit the declared schema.
    """
    if code_version() != part.code:
        raise DataError("the worker runs another version of loadbook, or of what it reads with", "install the same")
    trials: dict[str, IngestedTrial] = {}
    rows_read: list[TrialRows] = []
    for planned, folder in part.trials:
        try:
            trials[planned.trial], rows = _read_trial(part, planned, folder)
        except Exception as error:
            error.add_note(f"while reading trial {planned.trial} in {folder}")
            raise
        rows_read += [rows] if rows else []
    keys = {"study": part.study, "run": part.run}
    return IngestedPart(trials, {name: to_arrow(name, _rows_of_table(name, rows_read, keys)) for name in TRIAL_TABLES})


def _read_trial(part: IngestPart, planned: PlannedTrial, folder: Path) -> tuple[IngestedTrial, TrialRows | None]:
    """Return what is known of a trial, and its rows unless its record cannot be used."""
    requests = part.requests / f"{planned.trial}.parquet"
    requests.unlink(missing_ok=True)
    try:
        record = manifest.read_trial(folder)
        _check_planned_as(planned, record, part)
        _check_ledger_sum(folder, record, part.record_sums.get(planned.trial))
        rows = read_trial_rows(folder, record)
        rows.traces += part.added.host_metric_rows(rows.record)
        text = (folder / manifest.RECORD_NAME).read_text(encoding="utf-8")
    except (DataError, OSError) as error:
        message = error.message if isinstance(error, DataError) else f"{folder} cannot be read: {error}"
        return IngestedTrial(None, [{"name": "damaged-record", "level": "invalid", "message": message}], []), None
    if not any(problem["level"] == "invalid" for problem in rows.problems):
        _write_requests(folder, record, requests, rows)
    hits = check_trial(rows.record, rows.measurements, _validity_rows(rows.traces), rows.doubts, part.thresholds)
    return IngestedTrial(text, rows.problems, [asdict(hit) for hit in hits]), rows


def _validity_rows(traces: Sequence[Row]) -> list[Row]:
    """Return what our own sampler and the services counted: other sources tell the same once more, in other steps."""
    return [row for row in traces if row["source"] in VALIDITY_SOURCES]


def _write_requests(folder: Path, record: TrialRecord, target: Path, rows: TrialRows) -> None:
    if error := write_requests(folder, record, target):
        message = f"its requests one by one are not kept: {error.message}"
        rows.add_problem("unreadable-requests", message, level="note", file=error.file, line=error.line or None)


def _check_planned_as(planned: PlannedTrial, record: TrialRecord, part: IngestPart) -> None:
    """Refuse a record that is not of this run's planned trial (a folder copied from elsewhere)."""
    expected = (part.study, part.run, planned.trial, planned.treatment, planned.block, planned.slot)
    recorded = (record.study, record.run, record.trial, record.treatment, record.block, record.slot)
    if recorded != expected:
        raise DataError(f"trial {planned.trial} is recorded as {recorded}, planned as {expected}; it was not used")


def _check_ledger_sum(folder: Path, record: TrialRecord, record_sums: Mapping[int, str] | None) -> None:
    """Refuse a record that is not the one that the ledger accounts for; an older ledger, or one to come, has no sum."""
    note = folder / manifest.RECORD_NAME
    if record_sums and record_sums.get(record.attempt) != manifest.sha256_file(note):
        raise DataError(f"{note} is not as the ledger says it was kept; the trial was not used", "loadbook verify")


def _rows_of_table(table: str, trials: Sequence[TrialRows], keys: dict[str, str]) -> list[Row]:
    """Return a table's rows of all trials, each trial's sorted by nothing but their text and numbers."""
    columns = [c for c in TABLES[table] if c not in ("study", "run", "trial")]
    every: list[dict[str, Any]] = []
    for rows in trials:
        own = keys | {"trial": rows.record.trial}
        every += [own | row for row in sorted_rows(getattr(rows, table), table, columns)]
    return every


def sorted_rows(rows: Sequence[Row], table: str, columns: Sequence[str]) -> list[Row]:
    """Return rows in the order of these columns, nulls first."""
    places = [(c, TABLES[table][c].endswith("?")) for c in columns]
    if not any(nullable for _, nullable in places):
        return sorted(rows, key=itemgetter(*columns))
    return sorted(
        rows, key=lambda row: [(row[c] is not None, row[c]) if nullable else row[c] for c, nullable in places]
    )
