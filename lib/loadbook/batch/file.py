"""Batch files: the studies to run and report, with parameters and hosts; all mistakes are reported at once.

An entry is a table of keys, each with a value or a list of values; all combinations of the values are run.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.core.toml import read_text, read_toml
from loadbook.study import problems

LAB = "lab"
MAX_ENTRIES = 200
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
MAX_TEXT_LENGTH = 400


def _check_text(value: object) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > MAX_TEXT_LENGTH:
        raise ValueError(f"must be a text of printable characters, at most {MAX_TEXT_LENGTH}")
    return value


def _check_name(value: object) -> str:
    if not isinstance(value, str) or not NAME_PATTERN.match(value) or ".." in value:
        raise ValueError("must be a name: letters, digits, '.', '_' and '-', at most 63")
    return value


def _check_path(value: object) -> str:
    text = _check_text(value)
    try:
        Path(text).expanduser()
    except RuntimeError as error:
        raise ValueError(f"names a home that there is not: {error}") from error
    return text


def _check_study(value: object) -> str:
    return _check_path(value) if isinstance(value, str) and value.endswith(".toml") else _check_name(value)


def _check_hosts(value: object) -> str:
    if value != LAB and not _check_path(value).endswith(".toml"):
        raise ValueError(f"must be {LAB!r} or a hosts file (.toml)")
    return str(value)


def _check_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 100_000:
        raise ValueError("must be a whole number from 1 to 100,000")
    return value


def _check_value(value: object) -> object:
    if isinstance(value, str):
        return _check_text(value)
    if not isinstance(value, bool | int | float) or not abs(value) <= sys.float_info.max:
        raise ValueError("must be a text, a finite number, true or false, or a list of them")
    return value


def _one_or_more(value: object) -> object:
    if value == []:
        raise ValueError("is an empty list, which stands for nothing at all: leave it out")
    return value if isinstance(value, list) else [value]


AS_LIST = BeforeValidator(_one_or_more)
Studies = Annotated[tuple[Annotated[str, BeforeValidator(_check_study)], ...], AS_LIST]
Hosts = Annotated[tuple[Annotated[str, BeforeValidator(_check_hosts)], ...], AS_LIST]
Names = Annotated[tuple[Annotated[str, BeforeValidator(_check_name)], ...], AS_LIST]
Counts = Annotated[tuple[Annotated[int, BeforeValidator(_check_count)], ...], AS_LIST]
Values = Annotated[tuple[Annotated[Any, BeforeValidator(_check_value)], ...], AS_LIST]


class EntrySpec(BaseModel):
    """One `[[entry]]`: the options of `loadbook run`. A key may have a list of values: every combination is run.

    Attributes
    ----------
    study : a name in studies/, `NAME-smoke`, or a .toml file, relative to the batch file.
    hosts : a hosts file, relative to the batch file, or "lab"; default: the batch's `hosts`.
    subset : subset of the study's treatments; default: the study's own.
    blocks : number of blocks; default: the study's own.
    more : number of blocks to add to the finished run, as by loadbook run --more.
    parameters : parameters of the study's notebooks; a notebook must declare each of them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    study: Studies
    hosts: Hosts | None = None
    subset: Names | None = None
    blocks: Counts | None = None
    more: Counts | None = None
    parameters: dict[str, Values] = Field(default_factory=dict)


class BatchSpec(BaseModel):
    """A whole batch file; `hosts` and `parameters` are defaults of entries.

    Attributes
    ----------
    name : name of the batch; default: the file's name without its suffix.
    hosts : a hosts file, relative to the batch file, or "lab".
    parameters : parameters of notebooks; notebooks that do not declare one ignore it.
    entry : the entries, each with studies to run and report.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, BeforeValidator(_check_name)] | None = None
    hosts: Hosts = (LAB,)
    parameters: dict[str, Values] = Field(default_factory=dict)
    entry: Annotated[tuple[EntrySpec, ...], AS_LIST]


@dataclass(frozen=True)
class BatchEntry:
    """One combination of values: the argument of `loadbook run`, hosts file (None: the lab), and notebook parameters.

    A notebook of the study must declare each of the `entry_parameters` (of the entry's table); `batch_parameters` (of
    the whole batch) are ignored by notebooks that do not declare them. `key_path` is the entry's key path in the file,
    `line` the line of its table (None: not known).
    """

    key_path: str
    line: int | None
    study: str
    hosts: Path | None
    subset: str | None
    blocks: int | None
    more: int | None
    entry_parameters: dict[str, Any]
    batch_parameters: dict[str, Any]

    def location(self, key: str = "") -> str:
        """Return key path and line of the entry (or of one of its keys), for error messages."""
        path = f"{self.key_path}.{key}" if key else self.key_path
        return path + (f" (line {self.line})" if self.line else "")

    @property
    def run_key(self) -> str:
        """Study, hosts, subset, blocks and added blocks as text; entries with the same text share one run."""
        return json.dumps([self.study, str(self.hosts or LAB), self.subset, self.blocks, self.more])

    @property
    def identity(self) -> str:
        """The whole combination as text, by which the entry is found again when the batch is resumed."""
        return json.dumps([self.run_key, self.entry_parameters, self.batch_parameters], sort_keys=True)


@dataclass(frozen=True)
class Batch:
    """A batch file: its name, its absolute path, and its entries in order."""

    name: str
    file: Path
    entries: tuple[BatchEntry, ...]


def read_batch(path: Path) -> Batch:
    """Read a batch file; paths in it are relative to its folder.

    Raises
    ------
    UsageError : the file does not exist.
    StudyError : the file is invalid; it lists every mistake with key path and line.
    """
    try:
        raw, text = read_toml(path), read_text(path)
    except OSError as error:
        raise UsageError(f"batch file {path}: {error.strerror}", "docs/batch.md shows one") from error
    # an "[[entry]]" inside a long text would be counted, too, but only makes line numbers in messages wrong
    lines = [k for k, line in enumerate(text.splitlines(), 1) if re.match(r"\s*\[\[\s*entry\s*\]\]", line)]
    try:
        spec = BatchSpec.model_validate(raw)
    except ValidationError as error:
        spec_problems = [_with_line(p, raw, lines) for p in problems.validation_problems(error, BatchSpec)]
        raise StudyError(str(path), spec_problems) from error
    name, mistakes = spec.name or path.stem, list[SpecProblem]()
    if not NAME_PATTERN.match(name):
        mistakes.append(SpecProblem("name", f"is required: the file's own, {name!r}, is no name"))
    entries = _expand_entries(spec, path.absolute().parent, lines, mistakes)
    if mistakes:
        raise StudyError(str(path), mistakes)
    return Batch(name, path.absolute(), entries)


def _expand_entries(
    spec: BatchSpec, folder: Path, lines: list[int], mistakes: list[SpecProblem]
) -> tuple[BatchEntry, ...]:
    """Return an entry for every combination; duplicates and contradictory keys are added to `mistakes`."""
    entries: dict[str, BatchEntry] = {}
    for entry in itertools.islice(_combinations(spec, folder, lines), MAX_ENTRIES + 1):
        if entry.identity in entries:
            message = f"{entry.study}: the same as {entries[entry.identity].location()}"
            mistakes.append(SpecProblem(entry.location(), message))
        entries.setdefault(entry.identity, entry)
        if entry.more and (entry.blocks or entry.subset):
            message = "adds blocks to a run as it was planned: leave blocks and subset out"
            mistakes.append(SpecProblem(entry.location("more"), message))
    if len(entries) > MAX_ENTRIES:
        message = f"stands for more than {MAX_ENTRIES} combinations of study, hosts and parameters"
        mistakes.append(SpecProblem("entry", message))
    mistakes[:] = dict.fromkeys(mistakes)
    return tuple(entries.values())


def _combinations(spec: BatchSpec, folder: Path, lines: list[int]) -> Iterator[BatchEntry]:
    for number, entry_spec in enumerate(spec.entry):
        common = {name: values for name, values in spec.parameters.items() if name not in entry_spec.parameters}
        optional = (entry_spec.subset or (None,), entry_spec.blocks or (None,), entry_spec.more or (None,))
        run_axes = (entry_spec.study, entry_spec.hosts or spec.hosts, *optional)
        axes: list[tuple[Any, ...]] = [*run_axes, *entry_spec.parameters.values(), *common.values()]
        for study, hosts, subset, blocks, more, *values in itertools.product(*axes):
            own_count = len(entry_spec.parameters)
            yield BatchEntry(
                key_path=f"entry.{number}",
                line=lines[number] if number < len(lines) else None,
                study=str(folder / Path(study).expanduser()) if study.endswith(".toml") else study,
                hosts=None if hosts == LAB else folder / Path(hosts).expanduser(),
                subset=subset,
                blocks=blocks,
                more=more,
                entry_parameters=dict(zip(entry_spec.parameters, values[:own_count], strict=True)),
                batch_parameters=dict(zip(common, values[own_count:], strict=True)),
            )


def _with_line(problem: SpecProblem, raw: dict[str, Any], lines: list[int]) -> SpecProblem:
    """Return a problem with its entry's line added, and without the index 0 of a value that is not in a list."""
    parts = problem.path.split(".")
    parent: Any = raw
    for part in parts[:-1]:
        if isinstance(parent, list):
            parent = parent[int(part)] if part.isdecimal() and int(part) < len(parent) else None
        else:
            parent = parent.get(part) if isinstance(parent, dict) else None
    if parts[-1] == "0" and not isinstance(parent, list):
        parts.pop()
    number = int(parts[1]) if parts[0] == "entry" and len(parts) > 1 and parts[1].isdecimal() else len(lines)
    line = f" (line {lines[number]})" if number < len(lines) else ""
    return SpecProblem(".".join(parts) + line, problem.message)
