"""Keys of TOML files that have a new name: the old one is still read, with one note that names the new one.

Records (plan.json, study.toml and run.json of a run) keep the names of schema 1, which are the keys of the models;
files that people write are translated when they are read.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from loadbook.core.errors import SpecProblem


class RenamedKey(NamedTuple):
    """A key of a file: `name` today, `recorded` in records; `table` is the one that holds it, by its recorded name.

    The table `*` stands for each table inside the one before it. `values` are names of values, new to recorded.
    """

    table: tuple[str, ...]
    name: str
    recorded: str
    values: Mapping[str, str] = {}

    @property
    def kind(self) -> str:
        """What it is called in a message: a table in brackets."""
        return "[{}]" if self.name in ("validity", "ci") else "`{}`"


class RenamedKeyWarning(FutureWarning):
    """A file uses old names of keys."""


STUDY_KEYS = (
    RenamedKey((), "validity", "gates"),
    RenamedKey((), "ci", "gate"),
    RenamedKey((), "stratify_by", "apart"),
    RenamedKey((), "hypothesis", "asks", {"non-inferiority": "no-loss"}),
    RenamedKey(("reset",), "time_wait_sockets", "max_time_wait"),
    RenamedKey(("gates",), "time_wait_increase", "rest_time_wait"),
)
HOSTS_KEYS = (RenamedKey(("hosts", "*"), "allow", "may"),)
_WARNED: dict[Any, Any] = {}  # what was warned of, so that each file is named once


def to_recorded_keys(raw: dict[str, Any], keys: Iterable[RenamedKey], path: Path) -> Iterator[SpecProblem]:
    """Give the tables of a file their recorded keys, in place; yield keys that stand there by both names.

    Warns once of all old names in the file (`RenamedKeyWarning`).
    """
    old_names = []
    for key in keys:
        for table in _tables_at(raw, key.table):
            if key.name in table and key.recorded in table:
                yield SpecProblem(key.name, f"stands there by its old name, too: leave {key.recorded} out")
            elif key.recorded in table:
                old_names.append(f"{key.kind.format(key.recorded)} is now {key.kind.format(key.name)}")
            if key.name in table:
                value = table.pop(key.name)
                table[key.recorded] = key.values.get(value, value) if isinstance(value, str) else value
    if old_names and "replay" not in raw:  # the hosts file of a recorded run keeps its keys
        note = f"{path}: {', '.join(dict.fromkeys(old_names))}; the old names are still read"
        warnings.warn_explicit(note, RenamedKeyWarning, str(path), 1, registry=_WARNED)


def with_present_names(problems: Iterable[SpecProblem], keys: Iterable[RenamedKey]) -> list[SpecProblem]:
    """Return problems whose key paths have the present names of keys."""
    return [SpecProblem(_present_path(p.path, tuple(keys)), p.message) for p in problems]


def present_name(recorded: str, keys: Iterable[RenamedKey] = (*STUDY_KEYS, *HOSTS_KEYS)) -> str:
    """Return the present name of a key by its recorded one."""
    return next((key.name for key in keys if key.recorded == recorded), recorded)


def _tables_at(raw: object, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not isinstance(raw, dict):
        return
    if not path:
        yield raw
    for name in raw if path[:1] == ("*",) else path[:1]:
        yield from _tables_at(raw.get(name), path[1:])


def _present_path(path: str, keys: tuple[RenamedKey, ...]) -> str:
    parts = path.split(".")
    names = list(parts)
    for key in keys:
        at = len(key.table)
        inside = len(parts) > at and all(t in ("*", p) for t, p in zip(key.table, parts, strict=False))
        if inside and parts[at] == key.recorded:
            names[at] = key.name
    return ".".join(names)
