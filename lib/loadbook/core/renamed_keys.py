"""Keys of TOML files that have a new name: the old one is still read, with one note that names the new one.

Records (plan.json and study.toml of a run) keep the names of schema 1: fields of models are declared with
`renamed_field`, which reads both names and writes the recorded one.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AliasChoices, Field

from loadbook.core.errors import SpecProblem


class RenamedKey(NamedTuple):
    """A key of a file: `name` today, `old` before and in records.

    `table` is the one that holds it, by its present name; `*` stands for each table inside the one before it.
    `values` are names of values, old to present.
    """

    table: tuple[str, ...]
    name: str
    old: str
    values: Mapping[str, str] = {}

    @property
    def template(self) -> str:
        """How a message writes the key: a table in brackets."""
        return "[{}]" if self.name in ("validity", "ci") else "`{}`"


class RenamedKeyWarning(FutureWarning):
    """A file uses old names of keys."""


OLD_HYPOTHESES = {"no-loss": "non-inferiority"}
STUDY_KEYS = (
    RenamedKey((), "validity", "gates"),
    RenamedKey((), "ci", "gate"),
    RenamedKey((), "stratify_by", "apart"),
    RenamedKey((), "hypothesis", "asks", OLD_HYPOTHESES),
    RenamedKey(("reset",), "time_wait_sockets", "max_time_wait"),
    RenamedKey(("validity",), "time_wait_increase", "rest_time_wait"),
)
HOSTS_KEYS = (RenamedKey(("hosts", "*"), "allow", "may"),)
_WARNED: dict[Any, Any] = {}  # files that a warning named already


def renamed_field(name: str, recorded: str, default: Any, **constraints: Any) -> Any:
    """Return a field of a pydantic model that is read by both names and written (`by_alias`) by the recorded one."""
    return Field(default, validation_alias=AliasChoices(name, recorded), serialization_alias=recorded, **constraints)


def to_present_keys(raw: dict[str, Any], keys: Iterable[RenamedKey], path: Path) -> Iterator[SpecProblem]:
    """Replace old keys of a file by their present names, in place; yield keys that occur under both names.

    Warns once of all old names in the file (`RenamedKeyWarning`).
    """
    old_names = []
    for key in keys:
        for table in _tables_at(raw, key.table):
            if key.old in table:
                if key.name in table:
                    yield SpecProblem(key.name, f"stands there by its old name, too: leave {key.old} out")
                    continue
                old_names.append(f"{key.template.format(key.old)} is now {key.template.format(key.name)}")
                table[key.name] = table.pop(key.old)
            if isinstance(value := table.get(key.name), str):
                table[key.name] = key.values.get(value, value)
    if old_names and "replay" not in raw:  # the hosts file of a recorded run keeps its keys
        note = f"{path}: {', '.join(dict.fromkeys(old_names))}; the old names are still read"
        warnings.warn_explicit(note, RenamedKeyWarning, str(path), 1, registry=_WARNED)


def _tables_at(raw: object, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not isinstance(raw, dict):
        return
    if not path:
        yield raw
    for name in raw if path[:1] == ("*",) else path[:1]:
        yield from _tables_at(raw.get(name), path[1:])
