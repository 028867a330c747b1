"""What came of a batch, kept in one file (batch.json) after every change: the summary for programs, and the way back.

A round is one pass over a batch file. Whoever calls again after an end that was none goes on with the same round:
what is done stays done.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadbook.core.errors import DataError, LoadbookError, UsageError
from loadbook.design.batch_file import Batch
from loadbook.records.manifest import read_json, write_json
from loadbook.report.batch.works import ReportJob, BatchJob

BATCH_FILE = "batch.json"
INTERRUPTED = 130
State = Literal["waiting", "running", "stopped", "done", "failed"]


class _FileModel(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class PageFiles(_FileModel):
    """The page of a notebook, and the notebook as it was executed: names of files beside batch.json; None: failed."""

    notebook: str
    page: str | None = None
    executed: str | None = None


class EntryRecord(_FileModel):
    """One entry: what it was to do, how far it is, and what came of it.

    `blocks_after`: of added blocks, how many there are when they are done. `ran_s` and `reported_s` are seconds; the
    run of entries that share one is told by the first. `summary` is what the first page says (verdict, sentences,
    trials that count). `exit_code` is that of the command line for this entry alone.
    """

    name: str
    identity: str
    study: str
    question: str
    hosts: str
    subset: str | None = None
    blocks: int | None = None
    more: int | None = None
    parameters: dict[str, Any] = Field(default_factory=dict)
    state: State = "waiting"
    run: str | None = None
    blocks_after: int | None = None
    ran_s: float = 0.0
    reported_s: float = 0.0
    summary: dict[str, Any] = Field(default_factory=dict)
    pages: list[PageFiles] = Field(default_factory=list)
    reason: str | None = None
    next: str | None = None
    exit_code: int = 0

    def fail(self, error: LoadbookError) -> None:
        """Keep why the entry failed, and what to do about it."""
        self.state, self.exit_code = "failed", error.exit_code
        self.reason, self.next = " ".join(error.message.split()), error.hint


class BatchRun(_FileModel):
    """One pass over a batch file: its rows in the file's order; `ended` is None until none of them is left to do."""

    format: Literal[1] = 1
    batch: str
    file: str
    began: float
    ended: float | None = None
    sittings: int = 1
    exit_code: int = 0
    entries: list[EntryRecord]

    @property
    def unfinished(self) -> list[EntryRecord]:
        """The rows that are not finished."""
        return [row for row in self.entries if row.state != "done"]

    def entry_of(self, report: ReportJob) -> EntryRecord:
        """Return the row of a report."""
        return next(row for row in self.entries if row.identity == report.identity)

    def write(self, folder: Path) -> None:
        """Write the file; the exit code is the worst of any row: the highest."""
        self.exit_code = max((row.exit_code for row in self.entries), default=0)
        write_json(folder / BATCH_FILE, self.model_dump(mode="json"))


def read_batch_run(folder: Path) -> BatchRun | None:
    """Return the last round of a batch, None if there was none; DataError for a file that holds none."""
    path = folder / BATCH_FILE
    if not path.is_file():
        return None
    try:
        return BatchRun.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            f"{path} is no round of a batch: {first['loc']}: {first['msg']}", "--new begins another"
        ) from error


def start_batch_run(batch: Batch, jobs: list[BatchJob], last: BatchRun | None, *, new: bool, failed: bool) -> tuple[BatchRun, str]:
    """Return the round to do, and a sentence that says which it is.

    The last one goes on where it was if it has not ended, or with what `failed` in it; else a new one begins.

    Raises
    ------
    UsageError : the last round is that of another file with this name; `failed` without a round.
    """
    if last is not None and Path(last.file) != batch.file:
        message = f"a batch called {batch.name!r} is that of {last.file}"
        raise UsageError(message, 'give this one a name of its own, in its first line: name = "..."')
    if failed and last is None:
        raise UsageError(f"batch {batch.name!r} has had no round yet: nothing has failed", "leave --failed out")
    if last is None or new or (last.ended is not None and not failed):
        rows = [_new_entry_record(job, report) for job in jobs for report in job.reports]
        return BatchRun(batch=batch.name, file=str(batch.file), began=time.time(), entries=rows), "a new round"
    return _resume_batch_run(last, jobs)


def _resume_batch_run(last: BatchRun, jobs: list[BatchJob]) -> tuple[BatchRun, str]:
    """Return the last round as its file is now: rows that are done stay, the others are to be done."""
    known = {row.identity: row for row in last.entries}
    rows = []
    for job in jobs:
        for report in job.reports:
            row = _new_entry_record(job, report)
            before = known.pop(report.identity, None)
            if before is not None and before.state == "done":
                row = before
            elif before is not None:
                row.run, row.blocks_after = before.run, before.blocks_after
            rows.append(row)
    done = sum(row.state == "done" for row in rows)
    dropped = f"; no longer in the file: {', '.join(row.name for row in known.values())}" if known else ""
    text = f"going on with the round of {_utc_text(last.began)}: {done} of {len(rows)} entries are done{dropped}"
    return last.model_copy(update={"entries": rows, "ended": None, "sittings": last.sittings + 1}), text


def _new_entry_record(job: BatchJob, report: ReportJob) -> EntryRecord:
    return EntryRecord(
        name=report.name,
        identity=report.identity,
        study=job.study,
        question=job.question,
        hosts=str(job.hosts) if job.hosts else "lab",
        subset=job.subset,
        blocks=job.blocks,
        more=job.more,
        parameters=report.parameters,
    )


def _utc_text(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
