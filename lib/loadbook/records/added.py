"""Files of traces that were added to a run after it was done: kept in its raw folder, accounted for in its ledger."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loadbook.records.atomic import write_atomic
from loadbook.records.layout import RunPaths
from loadbook.records.ledger import Event, Ledger, read_ledger

EVENT: Event = "traces-added"


class Added(NamedTuple):
    """Files of one kind and one host.

    `read` are those that are parsed, by path below the run's raw folder with their sha256 (hex); what they were made of
    (`kept`) lies beside them. `offset_s` is the host's clock minus ours, None where the trials' own measurement counts.
    """

    host: str
    role: str
    kind: str
    offset_s: float | None
    read: tuple[tuple[str, str], ...]
    kept: tuple[tuple[str, str], ...] = ()

    @property
    def files(self) -> dict[str, str]:
        """Every file with its sha256."""
        return dict((*self.read, *self.kept))


def added(paths: RunPaths) -> list[Added]:
    """Return what was added to a run, oldest first; DataError where its ledger is damaged."""
    return added_in(read_ledger(paths.ledger))


def added_in(entries: Iterable[dict[str, Any]]) -> list[Added]:
    """Return what a ledger's entries say was added."""
    return [
        Added(e["host"], e["role"], e["kind"], e["offset_s"], *(tuple(sorted(e[k].items())) for k in ("read", "kept")))
        for e in entries
        if e["event"] == EVENT
    ]


def keep_added(
    paths: RunPaths, host: str, role: str, kind: str, offset_s: float | None,
    read: Mapping[str, bytes], kept: Mapping[str, bytes],
) -> Added:  # fmt: skip
    """Write files into a run's raw folder, each under a number of its own, and account for them.

    `read` and `kept` are contents by plain file name. The caller holds the lock of the study.
    """
    number = sum(len(one.files) for one in added(paths))
    sums: list[dict[str, str]] = []
    for group in (read, kept):
        sums.append({})
        for name, data in group.items():
            number += 1
            place = paths.added / f"{number}-{Path(name).name}"
            write_atomic(place, data)
            sums[-1][place.relative_to(paths.raw).as_posix()] = hashlib.sha256(data).hexdigest()
    with Ledger(paths.ledger) as ledger:
        ledger.append(EVENT, host=host, role=role, kind=kind, offset_s=offset_s, read=sums[0], kept=sums[1])
        return added_in(ledger.entries[-1:])[0]
