"""Reads TOML files written by users (studies, hosts, services); an error names the file and the place of the mistake.

File size, depth of tables and parts of keys are limited, because `tomllib` needs an hour for a key with half a million
parts. Keys that were renamed are still read under their former name, with one warning. Records of a run (plan.json,
study.toml) keep the names of schema 1: `renamed_field` declares a field of a model that is read under both names and
written under the recorded one.
"""

from __future__ import annotations

import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import AliasChoices, Field

from loadbook.core.errors import SpecProblem, StudyError

MAX_BYTES = 1_000_000
MAX_KEY_PARTS = 32
SYNTAX_HINT = 'look at that line: texts stand in "quotes", lists in [ ], each key once in its table (toml.io)'
# strings and comments; without them only the dots of keys and numbers are left
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return the text of a UTF-8 file; ValueError if it is too large or not UTF-8, OSError if it cannot be read."""
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"larger than {max_bytes:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line}: the byte 0x{data[error.start]:02x} is not UTF-8 text") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return a file's tables; StudyError names the mistake and its place, OSError is raised for an unreadable file."""
    hint = None
    try:
        text = read_text(path)
        without_strings = _STRING_OR_COMMENT.sub(lambda match: "s" + "\n" * match[0].count("\n"), text)
        if long_key := _LONG_KEY.search(without_strings):
            line = without_strings.count("\n", 0, long_key.start()) + 1
            raise ValueError(f"line {line}: a key of more than {MAX_KEY_PARTS} parts")
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, hint = str(error), SYNTAX_HINT
    except RecursionError:
        problem = "tables or lists too deep in one another"
    except ValueError as error:  # not UTF-8, too large, or a number with too many digits
        problem = str(error)
    raise StudyError(str(path), [SpecProblem("file", problem)], hint)


class RenamedKey(NamedTuple):
    """A key of a file that was renamed: `name` is its present name, `old` the former one, which records still use.

    `table` is the path of the table that contains it, in present names; `*` stands for any table at that level.
    `values` maps former names of values to present ones.
    """

    table: tuple[str, ...]
    name: str
    old: str
    values: Mapping[str, str] = {}

    @property
    def template(self) -> str:
        """Return the pattern in which messages write the key: "[{}]" for a table, "`{}`" for others."""
        return "[{}]" if self.name in ("validity", "ci") else "`{}`"


class RenamedKeyWarning(FutureWarning):
    """A file uses former names of keys."""


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
_WARNED: dict[Any, Any] = {}  # files that a warning has named already


def renamed_field(name: str, recorded: str, default: Any, **constraints: Any) -> Any:
    """Return a pydantic field that is read as `name` or `recorded`, and written as `recorded` (with `by_alias`)."""
    return Field(default, validation_alias=AliasChoices(name, recorded), serialization_alias=recorded, **constraints)


def to_present_keys(raw: dict[str, Any], keys: Iterable[RenamedKey], path: Path) -> Iterator[SpecProblem]:
    """Replace former names of keys of a file by present ones, in place; yield keys that occur under both names.

    Warns once per file of all former names (`RenamedKeyWarning`).
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
    if old_names and "replay" not in raw:  # the hosts file of a recorded run keeps former names
        note = f"{path}: {', '.join(dict.fromkeys(old_names))}; the old names are still read"
        warnings.warn_explicit(note, RenamedKeyWarning, str(path), 1, registry=_WARNED)


def _tables_at(raw: object, path: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    if not isinstance(raw, dict):
        return
    if not path:
        yield raw
    for name in raw if path[:1] == ("*",) else path[:1]:
        yield from _tables_at(raw.get(name), path[1:])
