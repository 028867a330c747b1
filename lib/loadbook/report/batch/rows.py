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
from loadbook.report.batch.works import Report, Work

NAME = "batch.json"
INTERRUPTED = 130
State = Literal["waiting", "running", "stopped", "done", "failed"]


class _Kept(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class Made(_Kept):
    """The page of a notebook, and the notebook as it was executed: names of files beside batch.json; None: failed."""

    notebook: str
    page: str | None = None
    executed: str | None = None


class Row(_Kept):
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
    pages: list[Made] = Field(default_factory=list)
    reason: str | None = None
    next: str | None = None
    exit_code: int = 0

    def fail(self, error: LoadbookError) -> None:
        """Keep why the entry failed, and what to do about it."""
        self.state, self.exit_code = "failed", error.exit_code
        self.reason, self.next = " ".join(error.message.split()), error.hint


class Round(_Kept):
    """One pass over a batch file: its rows in the file's order; `ended` is None until none of them is left to do."""

    format: Literal[1] = 1
    batch: str
    file: str
    began: float
    ended: float | None = None
    sittings: int = 1
    exit_code: int = 0
    entries: list[Row]

    @property
    def left(self) -> list[Row]:
        """The rows that are not finished."""
        return [row for row in self.entries if row.state != "done"]

    def row(self, report: Report) -> Row:
        """Return the row of a report."""
        return next(row for row in self.entries if row.identity == report.identity)

    def keep(self, folder: Path) -> None:
        """Write the file; the exit code is the worst of any row: the highest."""
        self.exit_code = max((row.exit_code for row in self.entries), default=0)
        write_json(folder / NAME, self.model_dump(mode="json"))


def read_round(folder: Path) -> Round | None:
    """Return the last round of a batch, None if there was none; DataError for a file that holds none."""
    path = folder / NAME
    if not path.is_file():
        return None
    try:
        return Round.model_validate(read_json(path))
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(
            f"{path} is no round of a batch: {first['loc']}: {first['msg']}", "--new begins another"
        ) from error


def begun(batch: Batch, works: list[Work], last: Round | None, *, new: bool, failed: bool) -> tuple[Round, str]:
    """Return the round to do, and a sentence that says which it is.

    The last one goes on where it was if it has not ended, or with what `failed` in it; else a new one begins.

    Raises
    ------
    UsageError : the last round is that of another file with this name; `failed` without a round.
    """
    if last is not None and Path(last.file) != batch.file:
        said = f"a batch called {batch.name!r} is that of {last.file}"
        raise UsageError(said, 'give this one a name of its own, in its first line: name = "..."')
    if failed and last is None:
        raise UsageError(f"batch {batch.name!r} has had no round yet: nothing has failed", "leave --failed out")
    if last is None or new or (last.ended is not None and not failed):
        rows = [_row(work, report) for work in works for report in work.reports]
        return Round(batch=batch.name, file=str(batch.file), began=time.time(), entries=rows), "a new round"
    return _resumed(last, works)


def _resumed(last: Round, works: list[Work]) -> tuple[Round, str]:
    """Return the last round as its file is now: rows that are done stay, the others are to be done."""
    known = {row.identity: row for row in last.entries}
    rows = []
    for work in works:
        for report in work.reports:
            row = _row(work, report)
            before = known.pop(report.identity, None)
            if before is not None and before.state == "done":
                row = before
            elif before is not None:
                row.run, row.blocks_after = before.run, before.blocks_after
            rows.append(row)
    done = sum(row.state == "done" for row in rows)
    gone = f"; no longer in the file: {', '.join(row.name for row in known.values())}" if known else ""
    said = f"going on with the round of {_day(last.began)}: {done} of {len(rows)} entries are done{gone}"
    return last.model_copy(update={"entries": rows, "ended": None, "sittings": last.sittings + 1}), said


def _row(work: Work, report: Report) -> Row:
    return Row(
        name=report.name,
        identity=report.identity,
        study=work.study,
        question=work.question,
        hosts=str(work.hosts) if work.hosts else "lab",
        subset=work.subset,
        blocks=work.blocks,
        more=work.more,
        parameters=report.parameters,
    )


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
