"""ledger.jsonl, the append-only record of a run: per event one JSON line with a checksum, one write and one fsync.

The state of a trial follows from these lines and from published folders. A last line torn by a crash is ignored (the
next writer removes it); any other damaged line is an error. The ledger also records later changes, since plan.json
never changes: blocks that were added or left out, and trace files that were added after the run.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, NamedTuple

from loadbook.core.errors import DataError
from loadbook.store.atomic import explain_disk_full, write_atomic
from loadbook.store.paths import RunPaths
from loadbook.store.trial_record import read_json
from loadbook.study.plan import Plan, PlannedTrial, parse_plan

Event = Literal[
    "run-started", "run-resumed", "blocks-added", "looked", "run-ended", "started", "ended", "reopened", "traces-added",
    "made-plain",
]  # fmt: skip
CHECKSUM_LENGTH = 16


@dataclass(frozen=True)
class TrialState:
    """State of a trial; `status` is None as long as its last attempt has no recorded end.

    A trial that is not `final` will be attempted again, by this process or by one that resumes the run.
    """

    attempt: int
    status: str | None
    reason: str | None = None
    final: bool = False


class Ledger:
    """Writer of a ledger file, used as a context manager.

    The file at `path` is created if necessary; a torn last line is removed before anything is appended. `entries` are
    its events so far, oldest first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.entries, self._valid_bytes = _read_valid_entries(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self._fd, self._valid_bytes)

    def append(self, event: Event, **fields: Any) -> None:
        """Write one event and sync it to the disk; OSError (disk full): nothing was written."""
        entry = {"n": len(self.entries) + 1, "event": event} | fields
        line = _encode_entry(entry)
        try:
            with explain_disk_full(self.path, len(line)):
                self._write(line)
        except OSError:
            os.ftruncate(self._fd, self._valid_bytes)
            raise
        self._valid_bytes += len(line)
        self.entries.append(entry)

    def _write(self, line: bytes) -> None:
        """Write a line after the last complete one; if the disk is full, remove the partial line."""
        done = 0
        while done < len(line):
            done += os.pwrite(self._fd, line[done:], self._valid_bytes + done)
        os.fsync(self._fd)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Return the events of a ledger, oldest first; none if the file is missing.

    DataError: a line, other than a torn last one, is damaged, missing or out of order; the message has its number.
    """
    return _read_valid_entries(path)[0]


def trial_states(entries: Iterable[dict[str, Any]]) -> dict[str, TrialState]:
    """Return the state of every trial, by trial id; trials that were never started are missing."""
    states: dict[str, TrialState] = {}
    for entry in entries:
        if entry["event"] == "started":
            states[entry["trial"]] = TrialState(entry["attempt"], None)
        elif entry["event"] == "ended":
            how = (entry["attempt"], entry["status"], entry.get("reason"), entry.get("final", False))
            states[entry["trial"]] = TrialState(*how)
        elif entry["event"] == "reopened":
            states[entry["trial"]] = replace(states[entry["trial"]], final=False)
    return states


def _read_valid_entries(path: Path) -> tuple[list[dict[str, Any]], int]:
    """Return the valid entries at the start of a ledger, and the number of bytes that they occupy."""
    data = path.read_bytes() if path.exists() else b""
    lines = data.splitlines(keepends=True)
    entries: list[dict[str, Any]] = []
    valid_bytes = 0
    for number, line in enumerate(lines, 1):
        entry = _decode_line(line, number)
        if entry is None:
            if number < len(lines):
                raise DataError(f"{path}:{number}: damaged line in the ledger", "restore the file from a backup")
            break
        entries.append(entry)
        valid_bytes += len(line)
    return entries, valid_bytes


def _encode_entry(entry: dict[str, Any]) -> bytes:
    text = json.dumps(entry, ensure_ascii=True, allow_nan=False)
    return f'{text[:-1]}, "sum": "{_line_checksum(text)}"}}\n'.encode()


def _decode_line(line: bytes, number: int) -> dict[str, Any] | None:
    """Return the entry of a line; None unless it is complete, unchanged and the `number`-th of its file."""
    if not line.endswith(b"\n"):
        return None
    try:
        entry: dict[str, Any] = json.loads(line)
        checksum = entry.pop("sum")
    except (ValueError, KeyError, AttributeError, TypeError):
        return None
    intact = checksum == _line_checksum(json.dumps(entry, ensure_ascii=True)) and entry.get("n") == number
    return entry if intact else None


def _line_checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:CHECKSUM_LENGTH]


LedgerEntries = Sequence[dict[str, Any]]


def read_current_plan(paths: RunPaths) -> Plan:
    """Return the plan in plan.json with the changes in the ledger; DataError if either file cannot be read."""
    return current_plan(read_plan(paths), read_ledger(paths.ledger))


def read_plan(paths: RunPaths) -> Plan:
    """Return the plan in plan.json, as it was when the run began; DataError if the file cannot be read."""
    return parse_plan(read_json(paths.plan_json), str(paths.plan_json))


def current_plan(plan: Plan, entries: LedgerEntries) -> Plan:
    """Return a plan with the blocks that were added, and without those after an interim analysis that ended the run.

    If the run could not be interleaved, the plan's study has plain execution, and `plain_because` is the reason.
    """
    plan = _executed_plan(plan, entries)
    changes = [e for e in entries if e["event"] == "blocks-added" or (e["event"] == "run-ended" and "blocks" in e)]
    if not changes:
        return plan
    blocks, added = plan.blocks, 0
    for change in changes:
        added += change["blocks"] - blocks if change.get("exploratory") else 0
        blocks = change["blocks"]
    last = plan.latency_blocks + blocks
    trials = tuple(trial for trial in all_planned_trials(plan, changes) if trial.block <= last)
    return replace(plan, blocks=blocks, trials=trials, added=added)


def _executed_plan(plan: Plan, entries: LedgerEntries) -> Plan:
    """Return a plan with plain trials if it could not be interleaved."""
    reason = next((entry["reason"] for entry in entries if entry["event"] == "made-plain"), None)
    return plan if reason is None else plan.with_plain_trials(reason)


def all_planned_trials(plan: Plan, entries: LedgerEntries) -> tuple[PlannedTrial, ...]:
    """Return all trials that were ever drawn for a run, in order, including those that an interim analysis left out.

    DataError: blocks were added without their trials, or with other keys than this version knows.
    """
    try:
        added = [PlannedTrial(**trial) for e in entries if e["event"] == "blocks-added" for trial in e["trials"]]
    except (KeyError, TypeError) as error:
        raise DataError(
            f"the ledger has no plan of the blocks that were added: {error}",
            "it is damaged, or of another version of loadbook: loadbook verify tells which",
        ) from error
    return (*_executed_plan(plan, entries).trials, *added)


def next_block_text(plan: Plan, done: Container[str]) -> str:
    """Return "block 3 of 10" with the block of the first planned trial that is not done, the last one if all are.

    `done` contains the ids of trials.
    """
    blocks = [trial.block for trial in plan.trials]
    todo = (trial.block for trial in plan.trials if trial.trial not in done)
    return f"block {next(todo, max(blocks))} of {max(blocks)}"


def interrupted_text(plan: Plan, done: Container[str], command: str) -> str:
    """Return a text on how far an interrupted run is, and with which command it is resumed; `done`: ids of trials."""
    return f"interrupted at {next_block_text(plan, done)}; `{command}` goes on"


def is_run_complete(paths: RunPaths) -> bool:
    """Return whether a run is complete: all planned trials done, and facts of the hosts read again after them."""
    ends = [e["event"] for e in read_ledger(paths.ledger) if e["event"] in ("run-ended", "blocks-added")]
    return bool(ends) and ends[-1] == "run-ended"


TRACES_ADDED_EVENT: Event = "traces-added"


class AddedTraceFiles(NamedTuple):
    """Trace files of one kind and one host that were added to a run.

    `parsed_files` maps files that ingest reads (paths below the run's raw folder) to sha256 (hex); `original_files`,
    from which they were made, are stored beside them. `offset_s` is the host's clock minus the controller's; None uses
    the offset measured in each trial.
    """

    host: str
    role: str
    kind: str
    offset_s: float | None
    parsed_files: tuple[tuple[str, str], ...]
    original_files: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Return path below the run's raw folder -> sha256 (hex) of parsed and original files."""
        return dict((*self.parsed_files, *self.original_files))


def read_added_files(paths: RunPaths) -> list[AddedTraceFiles]:
    """Return the files that were added to a run, oldest first; DataError if its ledger is damaged."""
    return added_files_in(read_ledger(paths.ledger))


def added_files_in(entries: Iterable[dict[str, Any]]) -> list[AddedTraceFiles]:
    """Return the added files that entries of a ledger list."""
    return [
        AddedTraceFiles(
            e["host"], e["role"], e["kind"], e["offset_s"], *(tuple(sorted(e[k].items())) for k in ("read", "kept"))
        )
        for e in entries
        if e["event"] == TRACES_ADDED_EVENT
    ]


def store_added_files(
    paths: RunPaths, host: str, role: str, kind: str, offset_s: float | None,
    parsed_files: Mapping[str, bytes], original_files: Mapping[str, bytes],
) -> AddedTraceFiles:  # fmt: skip
    """Write files into a run's raw folder, each under a new number, and record them in its ledger.

    `parsed_files` and `original_files` map plain file names to contents. `offset_s` is the host's clock minus the
    controller's (s); None: as measured in each trial. The caller must hold the lock of the study.
    """
    number = sum(len(added.files) for added in read_added_files(paths))
    checksums: list[dict[str, str]] = []
    for group in (parsed_files, original_files):
        checksums.append({})
        for name, data in group.items():
            number += 1
            path = paths.added_files / f"{number}-{Path(name).name}"
            write_atomic(path, data)
            checksums[-1][path.relative_to(paths.raw).as_posix()] = hashlib.sha256(data).hexdigest()
    with Ledger(paths.ledger) as ledger:
        ledger.append(
            TRACES_ADDED_EVENT, host=host, role=role, kind=kind, offset_s=offset_s, read=checksums[0], kept=checksums[1]
        )
        return added_files_in(ledger.entries[-1:])[0]
