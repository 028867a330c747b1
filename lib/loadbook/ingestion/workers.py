"""Reads parts of a run in worker processes, or on a Dask cluster of the user (optional dependency `dask`).

A part contains whole trials, so parts can be read in any order on any machine that has access to data/. Jobs that a
worker cannot do are done in this process. `code_version` identifies the code and libraries that made the tables.
"""

from __future__ import annotations

import gc
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from multiprocessing import parent_process
from multiprocessing.context import SpawnContext, SpawnProcess
from operator import itemgetter
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import loadbook
import loadbook.tools
from loadbook.core.errors import DataError, HostError, UsageError
from loadbook.ingestion.host_metrics import AddedFiles
from loadbook.ingestion.request_tables import write_requests
from loadbook.ingestion.service_logs import add_failure_reasons
from loadbook.ingestion.trial_rows import VALIDITY_SOURCES, Row, TrialRows, read_trial_rows
from loadbook.modes.plain.read import read_of
from loadbook.store import trial_record
from loadbook.store.tables import TABLES, to_arrow
from loadbook.store.trial_record import TrialRecord
from loadbook.study.limits import ValidityLimits
from loadbook.study.plan import PlannedTrial
from loadbook.validity.rules import check_trial

if TYPE_CHECKING:
    import pyarrow as pa

# libraries whose versions may change the tables
LIBRARIES = ("numpy", "pandas", "pyarrow", "pydantic", "scipy")
SOURCE_SUFFIXES = (".py", ".toml")


@cache
def code_version() -> str:
    """Return a digest of the source files of loadbook and its registered tools, and of library versions."""
    digest = sha256(repr([platform.python_version(), *((name, version(name)) for name in LIBRARIES)]).encode())
    for folder in map(Path, dict.fromkeys((*loadbook.__path__, *loadbook.tools.__path__))):
        for file in sorted(p for p in folder.rglob("*") if p.suffix in SOURCE_SUFFIXES):
            digest.update(repr((file.relative_to(folder).as_posix(), file.read_bytes())).encode())
    return digest.hexdigest()


# tables whose rows each belong to a single trial and do not depend on other trials
TRIAL_TABLES = ("measurements", "samples", "traces")


@dataclass(frozen=True)
class IngestPart:
    """Trials of one run with their folders, in the order of their names: the input of one job.

    `requests` is the folder for request tables; `added` are the metric files added to the run. `code` is the
    `code_version` that the worker must have; `record_sums` maps trial -> attempt -> sha256 (hex) of its trial.json.
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
    """Results of one trial besides its rows; `record` is trial.json as text, None if unusable.

    `problems` and `hits` are rows of JSON values.
    """

    record: str | None
    problems: list[Row]
    hits: list[Row]


@dataclass(frozen=True)
class IngestedPart:
    """Result of a part: results of its trials, and the tables in TRIAL_TABLES sorted by all their columns."""

    trials: dict[str, IngestedTrial]
    tables: dict[str, pa.Table]


def read_part(part: IngestPart) -> IngestedPart:
    """Read the trials of a part.

    Raises
    ------
    DataError : the worker runs a different version of loadbook, or rows do not fit the declared schema.
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
    tables = {
        "measurements": [(rows.record.trial, rows.measurements) for rows in rows_read],
        "samples": [(rows.record.trial, rows.samples) for rows in rows_read],
        "traces": [(rows.record.trial, rows.traces) for rows in rows_read],
    }
    return IngestedPart(trials, {name: to_arrow(name, _keyed_rows(name, rows, keys)) for name, rows in tables.items()})


def _read_trial(part: IngestPart, planned: PlannedTrial, folder: Path) -> tuple[IngestedTrial, TrialRows | None]:
    """Return the results of a trial, and its rows unless its record is unusable."""
    requests = part.requests / f"{planned.trial}.parquet"
    requests.unlink(missing_ok=True)
    try:
        record = trial_record.read_trial(folder)
        _check_record(part, planned, folder, record)
        rows = read_trial_rows(folder, record)
        read_of(record).add_rows(rows, folder)
        add_failure_reasons(rows, folder, rows.changed)
        rows.traces += part.added.host_metric_rows(rows.record)
        text = (folder / trial_record.RECORD_NAME).read_text(encoding="utf-8")
    except (DataError, OSError) as error:
        message = error.message if isinstance(error, DataError) else f"{folder} cannot be read: {error}"
        return IngestedTrial(None, [{"name": "damaged-record", "level": "invalid", "message": message}], []), None
    usable = not any(problem["level"] == "invalid" for problem in rows.problems)
    if usable and (unread := write_requests(folder, record, requests)):
        message = f"its requests one by one are not kept: {unread.message}"
        rows.add_problem("unreadable-requests", message, level="note", file=unread.file, line=unread.line or None)
    traces = [row for row in rows.traces if row["source"] in VALIDITY_SOURCES]
    hits = check_trial(rows.record, rows.measurements, traces, rows.doubts, part.thresholds, rows.samples)
    return IngestedTrial(text, rows.problems, [asdict(hit) for hit in hits]), rows


def _check_record(part: IngestPart, planned: PlannedTrial, folder: Path, record: TrialRecord) -> None:
    """Raise DataError if a record is not that of the planned trial, as in a copied folder, or not the ledger's."""
    expected = (part.study, part.run, planned.trial, planned.treatment, planned.block, planned.slot)
    recorded = (record.study, record.run, record.trial, record.treatment, record.block, record.slot)
    if recorded != expected:
        raise DataError(f"trial {planned.trial} is recorded as {recorded}, planned as {expected}; it was not used")
    note, record_sums = folder / trial_record.RECORD_NAME, part.record_sums.get(planned.trial)  # older ledgers: no sums
    if record_sums and record_sums.get(record.attempt) != trial_record.sha256_file(note):
        raise DataError(f"{note} is not as the ledger says it was kept; the trial was not used", "loadbook verify")


def _keyed_rows(table: str, trials: Sequence[tuple[str, Sequence[Row]]], keys: dict[str, str]) -> list[Row]:
    """Return a table's rows of all trials with their keys; the rows of each trial are sorted by all columns."""
    columns = [c for c in TABLES[table] if c not in ("study", "run", "trial")]
    return [keys | {"trial": trial} | row for trial, rows in trials for row in sorted_rows(rows, table, columns)]


def sorted_rows(rows: Sequence[Row], table: str, columns: Sequence[str]) -> list[Row]:
    """Return rows sorted by these columns of a table, nulls first; each row must have all of them."""
    nullable = {name for name in columns if TABLES[table][name].endswith("?")}
    if not nullable:
        return sorted(rows, key=itemgetter(*columns))
    return sorted(rows, key=lambda row: [(row[c] is not None, row[c]) if c in nullable else row[c] for c in columns])


CONNECT_S = 10


@contextmanager
def dask_workers(address: str) -> Iterator[Executor]:
    """Yield the executor of the Dask cluster whose scheduler listens at `address` (``tcp://host:8786``).

    Its workers need the same version of loadbook and data/ under the same path. The cluster keeps running afterwards.

    Raises
    ------
    UsageError : Dask is not installed, or `address` is invalid.
    HostError : no scheduler answers there, or it has no workers.
    """
    try:
        from distributed import Client
    except ImportError:
        raise UsageError("--scheduler needs Dask, which is not installed", "pip install 'loadbook[dask]'") from None
    try:
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    except ValueError as error:
        raise UsageError(f"{address!r} is no address of a Dask scheduler: {error}", "tcp://HOST:8786") from error
    except OSError as error:  # includes time-outs
        raise HostError(address, f"no Dask scheduler answers: {error}", "start one: dask scheduler") from error
    with client:
        if not client.scheduler_info()["workers"]:
            raise HostError(address, "the Dask scheduler has no workers", f"start some: dask worker {address}")
        # not pure: Dask would return the result of an earlier call with the same arguments, although files changed
        executor: Executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)


Job = TypeVar("Job")
Result = TypeVar("Result")
OnNote = Callable[[str], None]

# seconds; a cluster without workers waits forever, and no job takes this long
WORKER_TIMEOUT_S = 600.0


def map_unordered(
    work: Callable[[Job], Result], jobs: Sequence[Job], executor: Executor | None, say: OnNote
) -> Iterator[Result]:
    """Yield the results of all jobs, in any order.

    A job that fails on a worker (which died, runs other code or does not see the files) is repeated in this process,
    which raises the errors of the job itself.

    Parameters
    ----------
    work : function at the top level of a module; jobs and results are pickled.
    executor : executes the jobs; None: this process.
    say : called with a message if jobs are repeated.
    """
    left = list(jobs) if executor is None else (yield from _run_on_workers(work, jobs, executor, say))
    yield from map(work, left)


def _run_on_workers(
    work: Callable[[Job], Result], jobs: Sequence[Job], executor: Executor, say: OnNote
) -> Generator[Result, None, list[Job]]:
    """Yield the results of the workers; return the jobs that they did not do."""
    waiting: dict[Future[Result], Job] = {}
    undone: list[Job] = []
    reasons: set[str] = set()
    try:
        waiting |= {_submit(executor, work, job): job for job in jobs}
        while waiting:
            done, _ = wait(waiting, WORKER_TIMEOUT_S, FIRST_COMPLETED)
            for future in done or list(waiting):
                job, failure = waiting.pop(future), _failure(future)
                if failure is None:
                    yield future.result()
                else:
                    undone.append(job)
                    reasons.add(failure)
    finally:
        for future in waiting:
            future.cancel()
    if undone:
        say(f"{len(undone)} of {len(jobs)} parts are done again in this process, as workers failed: {min(reasons)}")
    return undone


def _submit(executor: Executor, work: Callable[[Job], Result], job: Job) -> Future[Result]:
    """Return the job's future; a failed one if the executor accepts no more jobs."""
    try:
        return executor.submit(work, job)
    except RuntimeError as error:  # includes BrokenExecutor
        refused: Future[Result] = Future()
        refused.set_exception(error)
        return refused


def _failure(future: Future[Result]) -> str | None:
    if not future.done():
        return f"none has answered for {WORKER_TIMEOUT_S:g} s"
    if future.cancelled():
        return "the work was cancelled"
    error = future.exception()
    return None if error is None else f"{type(error).__name__}: {error}"


@contextmanager
def worker_processes(count: int | None = None) -> Iterator[Executor]:
    """Yield an executor with worker processes, by default one per usable CPU; they end with the block or parent."""
    pool = ProcessPoolExecutor(count or usable_cpus(), _Context(), initializer=_follow_parent)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


class _Process(SpawnProcess):
    """Worker process in a fresh interpreter that does not import the running program.

    A script without `if __name__ == "__main__"` would otherwise run its studies again in every worker. (A fork would
    copy locks that threads of Jupyter or arrow hold.)
    """

    def start(self) -> None:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            super().start()
        finally:
            sys.modules["__main__"] = main


class _Context(SpawnContext):
    Process = _Process


def usable_cpus() -> int:
    """Return the number of CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def _follow_parent() -> None:
    """Prepare a worker process to ignore Ctrl-C, and to end when its parent ends."""
    gc.set_threshold(100_000, 20, 20)  # rows have no reference cycles; garbage collection would take a tenth of time
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
