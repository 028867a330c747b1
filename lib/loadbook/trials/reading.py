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
from loadbook.design.study import Gates
from loadbook.gates.trial import check_trial
from loadbook.records import manifest
from loadbook.records.manifest import TrialRecord
from loadbook.records.schema import TABLES, table_of
from loadbook.trials.added_rows import AddedFiles
from loadbook.trials.requests_kept import keep
from loadbook.trials.trial_rows import Row, TrialRows, rows_of
from loadbook.trials.versions import code_version

if TYPE_CHECKING:
    import pyarrow as pa

# the tables of which every row belongs to one trial and needs no other
OWN_TABLES = ("measurements", "samples", "traces")
# the sources of traces that gates judge by
OWN_SOURCES = ("sampler", "service")


@dataclass(frozen=True)
class Part:
    """What one worker is asked to read: trials of one run with their folders, in the order of their names.

    `requests` is the folder for the requests of each trial one by one, of tools that tell them; `added` the files of
    traces that were added to the run.
    """

    study: str
    run: str
    thresholds: Gates
    trials: tuple[tuple[PlannedTrial, Path], ...]
    code: str
    requests: Path
    added: AddedFiles = field(default_factory=AddedFiles)
    sums: Mapping[str, Mapping[int, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Known:
    """What is known of one trial beside its rows: its record's text (None: there is none that can be used).

    `problems` and `hits` are rows with the columns that they have, values of JSON only.
    """

    record: str | None
    problems: list[Row]
    hits: list[Row]


@dataclass(frozen=True)
class Rows:
    """What a part gave: what is known by trial, and tables (see OWN_TABLES) sorted by all their columns."""

    known: dict[str, Known]
    tables: dict[str, pa.Table]


def read_part(part: Part) -> Rows:
    """Read the trials of a part.

    Raises
    ------
    DataError : the worker runs another version of loadbook, or rows do not fit the declared schema.
    """
    if code_version() != part.code:
        raise DataError("the worker runs another version of loadbook, or of what it reads with", "install the same")
    known: dict[str, Known] = {}
    found: list[TrialRows] = []
    for planned, folder in part.trials:
        try:
            known[planned.trial], rows = _read(part, planned, folder)
        except Exception as error:
            error.add_note(f"while reading trial {planned.trial} in {folder}")
            raise
        found += [rows] if rows else []
    keys = {"study": part.study, "run": part.run}
    return Rows(known, {name: table_of(name, _rows(name, found, keys)) for name in OWN_TABLES})


def _read(part: Part, planned: PlannedTrial, folder: Path) -> tuple[Known, TrialRows | None]:
    """Return what is known of a trial, and its rows unless its record cannot be used."""
    requests = part.requests / f"{planned.trial}.parquet"
    requests.unlink(missing_ok=True)
    try:
        record = manifest.read(folder)
        _must_be(planned, record, part)
        _must_be_kept(folder, record, part.sums.get(planned.trial))
        rows = rows_of(folder, record)
        rows.traces += part.added.rows(rows.record)
        text = (folder / manifest.NAME).read_text(encoding="utf-8")
    except (DataError, OSError) as error:
        said = error.message if isinstance(error, DataError) else f"{folder} cannot be read: {error}"
        return Known(None, [{"name": "damaged-record", "level": "invalid", "message": said}], []), None
    if not any(problem["level"] == "invalid" for problem in rows.problems):
        _keep(folder, record, requests, rows)
    hits = check_trial(rows.record, rows.measurements, _own(rows.traces), rows.doubts, part.thresholds)
    return Known(text, rows.problems, [asdict(hit) for hit in hits]), rows


def _own(traces: Sequence[Row]) -> list[Row]:
    """Return what our own sampler and the services counted: other sources tell the same once more, in other steps."""
    return [row for row in traces if row["source"] in OWN_SOURCES]


def _keep(folder: Path, record: TrialRecord, target: Path, rows: TrialRows) -> None:
    if error := keep(folder, record, target):
        said = f"its requests one by one are not kept: {error.message}"
        rows.problem("unreadable-requests", said, level="note", file=error.file, line=error.line or None)


def _must_be(planned: PlannedTrial, record: TrialRecord, part: Part) -> None:
    """Refuse a record that is not of this run's planned trial (a folder copied from elsewhere)."""
    wanted = (part.study, part.run, planned.trial, planned.treatment, planned.block, planned.slot)
    given = (record.study, record.run, record.trial, record.treatment, record.block, record.slot)
    if given != wanted:
        raise DataError(f"trial {planned.trial} is recorded as {given}, planned as {wanted}; it was not used")


def _must_be_kept(folder: Path, record: TrialRecord, sums: Mapping[int, str] | None) -> None:
    """Refuse a record that is not the one that the ledger accounts for; an older ledger, or one to come, has no sum."""
    note = folder / manifest.NAME
    if sums and sums.get(record.attempt) != manifest.sha256_file(note):
        raise DataError(f"{note} is not as the ledger says it was kept; the trial was not used", "loadbook verify")


def _rows(table: str, found: Sequence[TrialRows], keys: dict[str, str]) -> list[Row]:
    """Return a table's rows of all trials, each trial's sorted by nothing but their text and numbers."""
    columns = [c for c in TABLES[table] if c not in ("study", "run", "trial")]
    every: list[dict[str, Any]] = []
    for rows in found:
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
