"""A service as data: what its folder's service.toml may say, and how values become safe for a template.

A value reaches a template only through its variable's `accept`; nothing else stands between a study file and
a server's configuration, so every type admits a closed set of texts.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.design.problems import of_validation, shown, suggest
from loadbook.design.study import Ident, Level, Name

UNSET = "unset"
RESERVED = frozenset({"dir", "address", "port", "config_id", "extra", "binary"})
_PATH = re.compile(r"/[A-Za-z0-9._+/-]*\Z")
_PLAIN = re.compile(r"[A-Za-z0-9 ._=:,/+@%*-]*\Z")

Argv = Annotated[tuple[str, ...], Field(min_length=1)]
RelativePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_.][A-Za-z0-9._-]*)*$")]
UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=200)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Var(_Model):
    about: str
    unset: bool = Field(False, description='may be "unset": the template then leaves it out')
    default: Level

    def accept(self, value: Level) -> str | int | None:
        """Return `value` as the template may see it (None for unset); ValueError says what is allowed."""
        if self.unset and value == UNSET:
            return None
        return self._typed(value)

    def _typed(self, value: Level) -> str | int:
        raise NotImplementedError


class SwitchVar(_Var):
    """`on` or `off`; true and false are taken as such."""

    type: Literal["switch"]

    def _typed(self, value: Level) -> str:
        word = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        if word not in ("on", "off"):
            raise ValueError(f"must be on or off{self._or_unset()}")
        return str(word)

    def _or_unset(self) -> str:
        return " or unset" if self.unset else ""


class IntVar(_Var):
    """A whole number between `min` and `max`, or one of the words in `also`."""

    type: Literal["int"]
    min: int
    max: int
    also: tuple[str, ...] = ()

    def _typed(self, value: Level) -> str | int:
        if isinstance(value, str) and value in self.also:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not self.min <= value <= self.max:
            words = [*self.also, *([UNSET] if self.unset else [])]
            also = f", or {' or '.join(words)}" if words else ""
            raise ValueError(f"must be a whole number from {self.min} to {self.max}{also}")
        return value


class EnumVar(_Var):
    """One of `values`."""

    type: Literal["enum"]
    values: Annotated[tuple[str, ...], Field(min_length=1)]

    def _typed(self, value: Level) -> str:
        if not isinstance(value, str) or value not in self.values:
            known = [*self.values, *([UNSET] if self.unset else [])]
            raise ValueError(f"must be one of {', '.join(known)}")
        return value


class PathVar(_Var):
    """An absolute path on the host, of letters, digits and ``. _ + / -``, without ``..``."""

    type: Literal["path"]

    def _typed(self, value: Level) -> str:
        if not isinstance(value, str) or not _PATH.match(value) or ".." in value.split("/"):
            raise ValueError("must be an absolute path of letters, digits and . _ + - without '..'")
        return value


class TextVar(_Var):
    """A text that matches `pattern` whole; quotes, `; { } $ #`, backslash and control characters never pass."""

    type: Literal["text"]
    pattern: str

    def _typed(self, value: Level) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not _PLAIN.match(text) or not re.fullmatch(self.pattern, text):
            raise ValueError(f"must match {self.pattern}{' or be unset' if self.unset else ''}")
        return text


Var = Annotated[SwitchVar | IntVar | EnumVar | PathVar | TextVar, Field(discriminator="type")]


class VersionProbe(_Model):
    """How to ask the binary for its version: `pattern`'s first group in stdout or stderr."""

    argv: Argv
    pattern: str


class Ready(_Model):
    """The service answers `path` with `status` within `timeout_s` seconds of its start."""

    path: UrlPath = "/"
    status: Annotated[int, Field(ge=100, le=599)] = 200
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0


class Prove(_Model):
    """Where the live process answers with the `config_id` that was rendered into its configuration."""

    path: UrlPath


class Commands(_Model):
    """Argument lists, each item a template; `start` stays in the foreground."""

    start: Argv
    check: Argv | None = None
    effective: Argv | None = None


class ServiceSpec(_Model):
    """One server software: what it needs, how it is configured, checked, started, asked and stopped."""

    name: Name
    about: str
    binary: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/+-]+$")]
    package: str = Field(description="Debian package that brings the binary")
    process: str | None = Field(None, description="command name of its processes; default: the binary's name")
    stop_grace_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    version: VersionProbe
    vars: dict[Ident, Var] = Field(default_factory=dict)
    files: dict[RelativePath, RelativePath] = Field(default_factory=dict, description="file -> its template")
    commands: Commands
    ready: Ready = Ready()
    prove: Prove | None = None
    folder: Path = Path()

    @model_validator(mode="after")
    def _consistent(self) -> ServiceSpec:
        taken = RESERVED & set(self.vars)
        if taken:
            raise ValueError(f"vars may not be called {', '.join(sorted(taken))}")
        for name, var in self.vars.items():
            try:
                var.accept(var.default)
            except ValueError as error:
                raise ValueError(f"vars.{name}.default: {error}") from None
        return self

    @property
    def process_name(self) -> str:
        """Return the name that the kernel shows for its processes (15 characters at most)."""
        return (self.process or self.binary.rsplit("/", 1)[-1])[:15]

    def problems(self, path: str, given: Mapping[str, Level]) -> list[SpecProblem]:
        """Return what is wrong with `given` values, each with its key path below `path`."""
        found = []
        for name, value in given.items():
            message = self.problem(name, value)
            if message:
                found.append(SpecProblem(f"{path}.{name}", message))
        return found

    def problem(self, name: str, value: Level) -> str | None:
        """Return what is wrong with one variable's value, None when it is fine."""
        if name not in self.vars:
            return f"service {self.name} has no variable {name!r}{suggest(name, self.vars)}"
        try:
            self.vars[name].accept(value)
        except ValueError as error:
            return f"{error} (is {shown(value)})"
        return None

    def values(self, given: Mapping[str, Level]) -> dict[str, str | int | None]:
        """Return every variable as templates see it, defaults filled in; StudyError for what is not allowed."""
        problems = self.problems("vars", given)
        if problems:
            raise StudyError(f"service {self.name}", problems)
        return {name: var.accept(given.get(name, var.default)) for name, var in self.vars.items()}


def _service_files(folders: Sequence[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for folder in (*folders, Path(__file__).parent):
        for path in sorted(folder.glob("*/service.toml")):
            found.setdefault(path.parent.name, path)
    return found


def known_services(folders: Sequence[Path] = ()) -> list[str]:
    """Return the names of all services that can be loaded."""
    return sorted(_service_files(folders))


def load_service(name: str, folders: Sequence[Path] = ()) -> ServiceSpec:
    """Read `<folder>/<name>/service.toml` from the first folder that has it, then from the package.

    Raises UsageError for a name that nobody knows and StudyError, naming every key, for a bad file.
    """
    files = _service_files(folders)
    if name not in files:
        raise UsageError(f"no service {shown(name)}{suggest(name, files)}")
    return _read(files[name])


def _read(path: Path) -> ServiceSpec:
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        spec = ServiceSpec.model_validate({**raw, "folder": path.parent})
    except ValidationError as error:
        raise StudyError(str(path), of_validation(error, ServiceSpec)) from error
    except (OSError, ValueError) as error:
        raise StudyError(str(path), [SpecProblem("file", str(error))]) from error
    missing = [t for t in spec.files.values() if not (path.parent / t).is_file()]
    if missing or spec.name != path.parent.name:
        found = [SpecProblem("files", f"template {t} is not there") for t in missing]
        found += [SpecProblem("name", "must be the folder's name")] if spec.name != path.parent.name else []
        raise StudyError(str(path), found)
    return spec
