"""Files of traces that were added to a run after it was done: kept in its raw folder, accounted for in its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loadbook.records.atomic import write_atomic
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import Event, Ledger, read_ledger

TRACES_ADDED_EVENT: Event = "traces-added"


class AddedTraceFiles(NamedTuple):
    """Files of one kind and one host.

    `parsed_files` are read, by path below the run's raw folder with their sha256 (hex); `original_files`, from which
    they were made, lie beside them. `offset_s` is the host's clock minus ours, None where the trials' own measurement
    counts.
    """

    host: str
    role: str
    kind: str
    offset_s: float | None
    parsed_files: tuple[tuple[str, str], ...]
    original_files: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Every file with its sha256."""
        return dict((*self.parsed_files, *self.original_files))


def read_added_files(paths: RunPaths) -> list[AddedTraceFiles]:
    """Return what was added to a run, oldest first; DataError where its ledger is damaged."""
    return added_files_in(read_ledger(paths.ledger))


def added_files_in(entries: Iterable[dict[str, Any]]) -> list[AddedTraceFiles]:
    """Return what a ledger's entries say was added."""
    return [
        AddedTraceFiles(e["host"], e["role"], e["kind"], e["offset_s"], *(tuple(sorted(e[k].items())) for k in ("read", "kept")))
        for e in entries
        if e["event"] == TRACES_ADDED_EVENT
    ]


def store_added_files(
    paths: RunPaths, host: str, role: str, kind: str, offset_s: float | None,
    parsed_files: Mapping[str, bytes], original_files: Mapping[str, bytes],
) -> AddedTraceFiles:  # fmt: skip
    """Write files into a run's raw folder, each under a number of its own, and account for them.

    `parsed_files` and `original_files` are contents by plain file name. The caller holds the lock of the study.
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
        ledger.append(TRACES_ADDED_EVENT, host=host, role=role, kind=kind, offset_s=offset_s, read=checksums[0], kept=checksums[1])
        return added_files_in(ledger.entries[-1:])[0]
