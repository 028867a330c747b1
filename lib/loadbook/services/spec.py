"""A service as data: the models of service.toml, with variables, probes, commands and counters.

A value reaches a template only through its variable's `accept`; nothing else stands between a study file and
a server's configuration, so every type admits a closed set of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.core.toml import read_toml
from loadbook.hosts.inventory import Permission
from loadbook.study.problems import short_repr, suggestion, validation_problems
from loadbook.study.treatments import FactorLevel, Ident, Name, SysctlName, SysctlValue

UNSET, OFF = "unset", "off"
_PATH = re.compile(r"/[A-Za-z0-9._+/-]*\Z")
_PLAIN = re.compile(r"[A-Za-z0-9 ._=:,/+@%*-]*\Z")


class ServiceModel(BaseModel):
    """Base of the models of service.toml: unknown keys are refused, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _version_numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version)]


class Precondition(ServiceModel):
    """Preconditions of a variable (its table `needs`), without which it has no effect; checked when a study is planned.

    Attributes
    ----------
    vars : other variable -> the value that it must have.
    set : other variables that must be neither "off" nor "unset".
    at_least : other variable -> the smallest number that it may be; not checked for a role with backends, whose page
        is not its own.
    headers : request headers that the workload must send.
    """

    vars: dict[Ident, FactorLevel] = Field(default_factory=dict)
    set: tuple[Ident, ...] = ()
    at_least: dict[Ident, int] = Field(default_factory=dict)
    headers: tuple[str, ...] = ()

    def unmet(self, values: Mapping[str, FactorLevel], headers: Iterable[str], *, has_backends: bool) -> list[str]:
        """Return the missing preconditions as text; `values` are all variables, `headers` the names of sent headers."""
        sent = {name.lower() for name in headers}
        missing = [f"{name} = {value}" for name, value in self.vars.items() if values.get(name) != value]
        missing += [name for name in self.set if values.get(name) in (OFF, UNSET, None)]
        if not has_backends:
            sizes = [(name, least, values.get(name)) for name, least in self.at_least.items()]
            missing += [f"{name} of {k} or more" for name, k, v in sizes if not isinstance(v, int) or v < k]
        return missing + [f"the request header {name}" for name in self.headers if name.lower() not in sent]


class _Var(ServiceModel):
    about: str
    needs: Precondition | None = None
    unset_since: dict[str, str] = Field(default_factory=dict, description='first version -> meaning of "unset"')
    changes: tuple[Literal["response_bytes"], ...] = Field((), description="what it must change of what is measured")
    unset: bool = Field(False, description='may be "unset": the template then leaves it out')
    default: FactorLevel

    def accept(self, value: FactorLevel) -> str | int | None:
        """Return `value` for the template (None for unset); ValueError names the allowed values."""
        if self.unset and value == UNSET:
            return None
        return self._validate(value)

    def unset_meaning(self, version: str) -> str | None:
        """Return the meaning of "unset" in a version of the software; None if it is the same in all versions."""
        known = [first for first in self.unset_since if _version_numbers(first) <= _version_numbers(version)]
        return self.unset_since[max(known, key=_version_numbers)] if known else None

    @property
    def allowed(self) -> str:
        """Allowed values as text: `0 to 100, auto, unset`."""
        return ", ".join([*self._allowed_values(), *self._unset_choice])

    @property
    def _unset_choice(self) -> list[str]:
        return [UNSET] if self.unset else []

    def _validate(self, value: FactorLevel) -> str | int:
        raise NotImplementedError

    def _allowed_values(self) -> tuple[str, ...]:
        raise NotImplementedError


class SwitchVar(_Var):
    """`on` or `off`; true and false are accepted."""

    type: Literal["switch"]

    def _validate(self, value: FactorLevel) -> str:
        switch = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        if switch not in ("on", "off"):
            raise ValueError(" or ".join(["must be on", "off", *self._unset_choice]))
        return str(switch)

    def _allowed_values(self) -> tuple[str, ...]:
        return ("on", "off")


class IntVar(_Var):
    """A whole number between `min` and `max`, or one of the words in `also`."""

    type: Literal["int"]
    min: int
    max: int
    also: tuple[str, ...] = ()

    def _validate(self, value: FactorLevel) -> str | int:
        if isinstance(value, str) and value in self.also:
            return value
        if isinstance(value, bool) or not isinstance(value, int) or not self.min <= value <= self.max:
            words = [*self.also, *self._unset_choice]
            alternatives = f", or {' or '.join(words)}" if words else ""
            raise ValueError(f"must be a whole number from {self.min} to {self.max}{alternatives}")
        return value

    def _allowed_values(self) -> tuple[str, ...]:
        return (f"{self.min} to {self.max}", *self.also)


class EnumVar(_Var):
    """One of `values`."""

    type: Literal["enum"]
    values: Annotated[tuple[str, ...], Field(min_length=1)]

    def _validate(self, value: FactorLevel) -> str:
        if not isinstance(value, str) or value not in self.values:
            raise ValueError(f"must be one of {self.allowed}")
        return value

    def _allowed_values(self) -> tuple[str, ...]:
        return self.values


class PathVar(_Var):
    """An absolute path on the host, of letters, digits and ``. _ + / -``, without ``..``."""

    type: Literal["path"]

    def _validate(self, value: FactorLevel) -> str:
        if not isinstance(value, str) or not _PATH.match(value) or ".." in value.split("/"):
            raise ValueError("must be an absolute path of letters, digits and . _ + - without '..'")
        return value

    def _allowed_values(self) -> tuple[str, ...]:
        return ("an absolute path",)


class TextVar(_Var):
    """A text that matches `pattern` whole; quotes, `; { } $ #`, backslash and control characters never pass."""

    type: Literal["text"]
    pattern: str

    def _validate(self, value: FactorLevel) -> str:
        text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
        if not isinstance(text, str) or not _PLAIN.match(text) or not re.fullmatch(self.pattern, text):
            raise ValueError(f"must match {self.pattern}{' or be unset' if self.unset else ''}")
        return text

    def _allowed_values(self) -> tuple[str, ...]:
        return (self.pattern,)


Var = Annotated[SwitchVar | IntVar | EnumVar | PathVar | TextVar, Field(discriminator="type")]


def _check_one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError("must have one group, the number")
    return pattern


Argv = Annotated[tuple[str, ...], Field(min_length=1)]
UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=200)]
Pattern = Annotated[str, AfterValidator(_check_one_group)]


SIDE_PORT_OFFSET = 10_000


def side_port(port: int) -> int:
    """Return the side port of a service whose port for the load is `port`."""
    return port + SIDE_PORT_OFFSET if port + SIDE_PORT_OFFSET < 1 << 16 else port - SIDE_PORT_OFFSET


class Probe(ServiceModel):
    """A probe of the running service: a `path` over HTTP, or a command (`argv`, templates) on its own host.

    With `side`, the request goes to the service's `side_port`, over plain HTTP from its own host, so that it does not
    disturb the load, or because the port of the load speaks no HTTP.
    """

    path: UrlPath | None = None
    argv: Argv | None = None
    side: bool = False

    @model_validator(mode="after")
    def _single_target(self) -> Probe:
        if self.path and self.argv:
            raise ValueError("either path or argv")
        if self.side and not self.path:
            raise ValueError("side needs a path")
        return self


class ReadyProbe(Probe):
    """Probe that the service is ready to serve, within `timeout_s` seconds of its start.

    `path` (default "/") returns `status`, the command ends with exit code 0 and its output contains `says` (a
    template), or, with `tcp`, its port listens.
    """

    tcp: bool = False
    status: Annotated[int, Field(ge=100, le=599)] = 200
    says: str | None = None
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0


class _TargetedProbe(Probe):
    @model_validator(mode="after")
    def _has_target(self) -> Self:
        if not (self.path or self.argv):
            raise ValueError("needs path or argv")
        return self


class ConfigProbe(_TargetedProbe):
    """Probe of the live configuration: the whole HTTP response is `says`, or a command's output contains it."""

    says: str = "{{ config_id }}"


class CounterProbe(_TargetedProbe):
    """Probe of counters since the service's start: the sum of the matches of each pattern, by name.

    `requests`: answered requests; `connections`: accepted connections; `upstream_connections`: connections opened to
    backends. No request is made if `when`, a template, is rendered "off".
    """

    when: str = "on"
    patterns: dict[Ident, Pattern]


RESERVED_NAMES = frozenset(
    "address also_at backends behind binary built config_id cpus dir node port side_port tree".split()  # noqa: SIM905
)

AbsolutePath = Annotated[str, Field(pattern=r"^(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+$")]
Signal = Literal["HUP", "USR1", "USR2", "QUIT", "TERM", "INT", "WINCH"]
RelativePath = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_.][A-Za-z0-9._-]*)*$")]


class VersionProbe(ServiceModel):
    """Version command of the binary: the first group of `pattern` in stdout or stderr."""

    argv: Argv
    pattern: str


class Build(ServiceModel):
    """Recipe of a program that is built from sources (services.build); argv and env are templates with `arch`."""

    sources: Annotated[tuple[RelativePath, ...], Field(min_length=1)]
    argv: Argv
    env: dict[str, str] = Field(default_factory=dict)
    output: RelativePath
    needs: Annotated[tuple[str, ...], Field(min_length=1)]
    get: str
    version: VersionProbe
    arch: dict[str, str] = Field(default_factory=dict)
    portable: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 300.0


class Commands(ServiceModel):
    """Argument lists whose items are templates; a list whose first item renders empty is skipped.

    `prepare` comes first, after the files are put; `start` stays in the foreground.
    """

    start: Argv
    prepare: Argv | None = None
    check: Argv | None = None
    effective: Argv | None = None


class SystemServer(ServiceModel):
    """The host's own server for system mode: its configuration tree, and how to check, find and reload it.

    Attributes
    ----------
    tree : the folder that holds all of its configuration.
    files : file of the tree -> its template; a study's own `config` replaces `main`.
    check : command that checks the whole configuration in `tree`; run on a copy of it first.
    start : command that starts the server in the background where there is no systemd; `reload` and `stop` are signals
        to its main process. reload = "restart": for a server that reads some settings at a start only.
    unit : systemd unit, used instead where systemd runs.
    drain_s : seconds after a reload in which the old processes must have ended; after that it is restarted.
    """

    tree: AbsolutePath
    files: Annotated[dict[RelativePath, RelativePath], Field(min_length=1)]
    main: RelativePath
    check: Argv
    start: Argv
    effective: Argv | None = None
    pid_file: AbsolutePath
    log: AbsolutePath | None = None
    unit: Name | None = None
    reload: Signal | Literal["restart"] = "HUP"
    stop: Signal = "TERM"
    drain_s: Annotated[float, Field(ge=1, le=60)] = 10.0

    @model_validator(mode="after")
    def _consistent(self) -> SystemServer:
        if self.main not in self.files:
            raise ValueError(f"main: {self.main} is not one of the files")
        return self


class ServiceSpec(ServiceModel):
    """One server software: requirements, configuration, commands and probes.

    Attributes
    ----------
    needs : what the hosts file must allow it (`may`), since it changes more of its host than its own folder.
    sysctls : settings of its host's kernel while it runs.
    direct_return : what is behind it gets packets for its address, takes them for its own and answers the client.
    tables : tables of packet rules ("ip name", templates) that are deleted for it when it was killed.
    tree : in system mode (`as_system`) the host's folder that its files are put into; "" else.
    """

    name: Name
    about: str
    binary: Annotated[str, Field(pattern=r"^[A-Za-z0-9._/+-]+$")]
    package: str = Field(description="Debian package that brings the binary")
    process: str | None = Field(None, description="command name of its processes; default: the binary's name")
    stop_grace_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    version: VersionProbe | None = Field(None, description="of the installed binary; only what is built needs none")
    build: Build | None = None
    vars: dict[Ident, Var] = Field(default_factory=dict)
    files: dict[RelativePath, RelativePath] = Field(default_factory=dict, description="file -> its template")
    commands: Commands
    main: RelativePath | None = Field(None, description="the file that a study's own `config` takes the place of")
    scheme: str = Field("http", description="what its port speaks; a template")
    ready: ReadyProbe = ReadyProbe()
    prove: ConfigProbe | None = None
    counters: CounterProbe | None = None
    needs: tuple[Permission, ...] = ()
    sysctls: dict[SysctlName, SysctlValue] = Field(default_factory=dict)
    direct_return: bool = False
    tables: tuple[str, ...] = ()
    system: SystemServer | None = None
    folder: Path = Path()
    tree: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> ServiceSpec:
        if self.version is None and self.build is None:
            raise ValueError("neither [version] nor [build]: where does the program come from?")
        if taken := RESERVED_NAMES & set(self.vars):
            raise ValueError(f"vars may not be called {', '.join(sorted(taken))}")
        if self.tree:
            raise ValueError("tree belongs into [system]")
        if self.main is not None and self.main not in self.files:
            raise ValueError(f"main: {self.main} is not one of the files")
        for name, var in self.vars.items():
            try:
                var.accept(var.default)
            except ValueError as error:
                raise ValueError(f"vars.{name}.default: {error}") from None
        return self

    def as_system(self) -> ServiceSpec:
        """Return the spec for system mode; UsageError if the service does not support it."""
        system = self.system
        if system is None:
            hint = 'leave mode = "system" out, or write a [system] table for it (docs/services.md)'
            raise UsageError(f"service {self.name} has no system mode", hint)
        commands = Commands(start=system.start, check=system.check, effective=system.effective)
        changed = {"files": system.files, "main": system.main, "commands": commands, "tree": system.tree}
        return self.model_copy(update={**changed, "needs": (*self.needs, "system")})

    def ports(self, port: int) -> tuple[int, ...]:
        """Return the TCP ports of the service: the load port, and the side port if it has one."""
        probes = (self.ready, self.prove, self.counters)
        return (port, side_port(port)) if any(probe and probe.side for probe in probes) else (port,)

    @property
    def process_name(self) -> str:
        """Return the kernel's name of its processes (15 characters at most)."""
        return (self.process or self.binary.rsplit("/", 1)[-1])[:15]

    def problems(self, path: str, values: Mapping[str, FactorLevel]) -> list[SpecProblem]:
        """Return the problems of `values`, each with its key path below `path`."""
        problems = {name: self.problem(name, value) for name, value in values.items()}
        return [SpecProblem(f"{path}.{name}", problem) for name, problem in problems.items() if problem]

    def problem(self, name: str, value: FactorLevel) -> str | None:
        """Return the problem of one variable's value, None if it is valid."""
        if name not in self.vars:
            return f"service {self.name} has no variable {name!r}{suggestion(name, self.vars)}"
        try:
            self.vars[name].accept(value)
        except ValueError as error:
            return f"{error} (is {short_repr(value)})"
        return None

    def values(self, assignments: Mapping[str, FactorLevel]) -> dict[str, str | int | None]:
        """Return every variable as templates see it, with defaults; StudyError for invalid values."""
        if problems := self.problems("vars", assignments):
            raise StudyError(f"service {self.name}", problems)
        return {name: var.accept(assignments.get(name, var.default)) for name, var in self.vars.items()}


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

    Raises UsageError for an unknown name and StudyError, with every key, for a bad file.
    """
    files = _service_files(folders)
    if name not in files:
        raise UsageError(f"no service {short_repr(name)}{suggestion(name, files)}")
    path = files[name]
    try:
        spec = ServiceSpec.model_validate({**read_toml(path), "folder": path.parent})
    except ValidationError as error:
        raise StudyError(str(path), validation_problems(error, ServiceSpec)) from error
    except OSError as error:
        raise StudyError(str(path), [SpecProblem("file", str(error))]) from error
    references = dict.fromkeys(spec.files.values(), ("files", "template"))
    references |= dict.fromkeys(spec.system.files.values(), ("system.files", "template")) if spec.system else {}
    references |= dict.fromkeys(spec.build.sources, ("build.sources", "file")) if spec.build else {}
    missing = {n: key for n, key in references.items() if not (path.parent / n).is_file()}
    if missing or spec.name != path.parent.name:
        problems = [SpecProblem(key, f"{kind} {name} is not there") for name, (key, kind) in missing.items()]
        problems += [SpecProblem("name", "must be the folder's name")] if spec.name != path.parent.name else []
        raise StudyError(str(path), problems)
    return spec
