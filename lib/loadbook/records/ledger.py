"""The append-only account of a run: one JSON line per event, one write and one fsync each, with a checksum.

What became of a trial is derived from these lines and from published folders, never from memory or notebooks.
A last line that was torn by a crash is ignored (and cut off by the next writer); any other bad line is an error.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from loadbook.core.errors import DataError
from loadbook.records.atomic import explain_disk_full

Event = Literal[
    "run-started", "run-resumed", "blocks-added", "looked", "run-ended", "started", "ended", "reopened", "traces-added"
]
CHECKSUM_LENGTH = 16


@dataclass(frozen=True)
class TrialState:
    """Where a trial stands: `status` is None while its last attempt has no recorded end.

    A trial that is not `final` will be attempted again, by this process or the one that resumes the run.
    """

    attempt: int
    status: str | None
    reason: str | None = None
    final: bool = False


class Ledger:
    """Writer of one ledger file; use it as a context manager.

    Parameters
    ----------
    path : the file; it is created, and a torn last line is cut off before anything is appended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self.entries, self._valid_bytes = _read_valid_entries(path)
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.ftruncate(self._fd, self._valid_bytes)

    def append(self, event: Event, **fields: Any) -> None:
        """Write one event; when this returns, it is on the disk. OSError: nothing of it was kept (disk full)."""
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
        """Write a line behind the last whole one; a full disk takes a part of it, then nothing."""
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
    """Return the ledger's events, oldest first; a missing file has none.

    Raises
    ------
    DataError : a line other than a torn last one is damaged, missing or out of order; the message has its number.
    """
    return _read_valid_entries(path)[0]


def trial_states(entries: Iterable[dict[str, Any]]) -> dict[str, TrialState]:
    """Return every trial's state by trial id; trials that were never started are not in it."""
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
    """Return the good entries and the number of bytes that they take."""
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
    """Return the entry of a line, None unless it is whole, unchanged and the `number`-th of its file."""
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
