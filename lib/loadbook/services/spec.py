"""The models of service.toml, which describes a service: files, commands, checks, counters and error messages."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.core.toml import read_toml
from loadbook.hosts.inventory import Permission
from loadbook.services.variables import ServiceModel, Var
from loadbook.study.problems import short_repr, suggestion, validation_problems, with_value
from loadbook.study.treatments import FactorLevel, Ident, Name, SysctlName, SysctlValue
from loadbook.study.workload import URL_PATH, Matching


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return pattern


def _check_one_group(pattern: str) -> str:
    if re.compile(pattern).groups != 1:
        raise ValueError("must have one group, the number")
    return pattern


Argv = Annotated[tuple[str, ...], Field(min_length=1)]
UrlPath = Annotated[str, Field(max_length=200), Matching(r"/[!-~]*", URL_PATH)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]
NumberPattern = Annotated[Pattern, AfterValidator(_check_one_group)]


SIDE_PORT_OFFSET = 10_000


def side_port(port: int) -> int:
    """Return the port for checks (not used by the load) of a service whose port for the load is `port`."""
    return port + SIDE_PORT_OFFSET if port + SIDE_PORT_OFFSET < 1 << 16 else port - SIDE_PORT_OFFSET


class ServiceCheck(ServiceModel):
    """A check of the running service: a `path` over HTTP, or a command (`argv`, templates) on the service's host.

    With `side`, the request is sent to the service's `side_port`, over plain HTTP from its own host, so that it does
    not disturb the load, or because the port for the load does not use HTTP.
    """

    path: UrlPath | None = None
    argv: Argv | None = None
    side: bool = False

    @model_validator(mode="after")
    def _single_target(self) -> ServiceCheck:
        if self.path and self.argv:
            raise ValueError("either path or argv")
        if self.side and not self.path:
            raise ValueError("side needs a path")
        return self


class ReadinessCheck(ServiceCheck):
    """Check whether the service is ready, which it must be within `timeout_s` seconds of its start.

    It is ready if `path` (default "/") returns `status`, or if the command ends with exit code 0 and its output
    contains `says` (a template), or, with `tcp`, if a process listens on its port.
    """

    tcp: bool = False
    status: Annotated[int, Field(ge=100, le=599)] = 200
    says: str | None = None
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0


class _TargetedCheck(ServiceCheck):
    @model_validator(mode="after")
    def _has_target(self) -> Self:
        if not (self.path or self.argv):
            raise ValueError("needs path or argv")
        return self


class ConfigCheck(_TargetedCheck):
    """Check of the running configuration: the HTTP body must equal `says`, or a command's output must contain it."""

    says: str = "{{ config_id }}"


class CounterReading(_TargetedCheck):
    """Check that reads counters since the service's start: name -> pattern, whose matches in the output are added.

    Names: `requests` (answered requests), `connections` (accepted connections), `upstream_connections` (connections
    opened to backends). The check is left out if the template `when` is rendered as "off".
    """

    when: str = "on"
    patterns: dict[Ident, NumberPattern]


RESERVED_NAMES = frozenset(
    (
        "address", "also_at", "backends", "behind", "binary", "built", "config_id", "cpus", "dir", "endpoint", "node",
        "port", "side_endpoint", "side_port", "tree",
    )
)  # fmt: skip

AbsolutePath = Annotated[
    str, Matching(r"(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)+", "an absolute path of letters, digits and . _ + -")
]
Signal = Literal["HUP", "USR1", "USR2", "QUIT", "TERM", "INT", "WINCH"]
_RELATIVE_PATH = r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_.][A-Za-z0-9._-]*)*"
RelativePath = Annotated[str, Matching(_RELATIVE_PATH, "a relative path of letters, digits and . _ -")]


class VersionCommand(ServiceModel):
    """Command that prints the binary's version; the first group of `pattern` matches it in stdout or stderr."""

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
    version: VersionCommand
    arch: dict[str, str] = Field(default_factory=dict)
    portable: bool = False
    timeout_s: Annotated[float, Field(gt=0, le=3600)] = 300.0


class Commands(ServiceModel):
    """Argument lists whose items are templates; a list is left out if its first item is rendered as "".

    `prepare` is run first, after the files are written; `start` must run in the foreground. `warnings`, run once before
    a run, prints what `check` leaves out (`errors.warnings` matches its lines).
    """

    start: Argv
    prepare: Argv | None = None
    check: Argv | None = None
    warnings: Argv | None = None
    effective: Argv | None = None


def _matching_lines(pattern: str | None, output: str) -> list[str]:
    """Return the lines that a pattern matches, or what its groups match in them if it has any."""
    matches = [re.search(pattern, line) for line in output.splitlines()] if pattern else []
    texts = ["".join(text or "" for text in m.groups()) if m.re.groups else m.string for m in matches if m]
    return [text.strip() for text in texts]


class ErrorMessages(ServiceModel):
    """Error messages of the software: which lines of its output are errors, and the user's next step for some of them.

    Of a pattern with groups, a message shows only what they match in the line, without times and process ids.

    Attributes
    ----------
    line : matches the lines that give the reason of a failure.
    hints : pattern of a line -> text that says what to do.
    warnings : matches lines of the running server's log that make a result doubtful; `harmless` matches those that do
        not, such as lines that loadbook's own configuration causes.
    failures : matches lines of the running server's log that give the reason why it answered a request with an error.
    stream : which of its outputs is that log.
    """

    line: Pattern | None = None
    hints: dict[Pattern, str] = Field(default_factory=dict)
    warnings: Pattern | None = None
    harmless: Pattern | None = None
    failures: Pattern | None = None
    stream: Literal["stderr", "stdout"] = "stderr"

    def errors_first(self, output: str) -> str:
        """Return the lines of the output in their order, but with the errors before all others."""
        pattern = self.line or ""
        return "\n".join(sorted(output.splitlines(), key=lambda line: not re.search(pattern, line)))

    def errors(self, output: str) -> list[str]:
        """Return the errors of the output, each once and as one line; empty without a pattern (`line`)."""
        return list(dict.fromkeys(_matching_lines(self.line, output)))

    def log_warnings(self, log: str) -> list[str]:
        """Return the warnings of the running server's log, each once and as one line."""
        lines = dict.fromkeys(_matching_lines(self.warnings, log))
        return [line for line in lines if self.harmless is None or not re.search(self.harmless, line)]

    def usual_failure(self, log: str) -> str | None:
        """Return the most frequent reason for error responses in the running server's log; None if it has none."""
        return next((line for line, _ in Counter(_matching_lines(self.failures, log)).most_common(1)), None)

    def hint(self, output: str) -> str | None:
        """Return the hint of the first pattern that matches a line of the output; None if none does."""
        matching = (text for pattern, text in self.hints.items() if re.search(pattern, output, re.MULTILINE))
        return next(matching, None)


class SystemServer(ServiceModel):
    """The host's own server for system mode: its configuration tree, and how to check, find and reload it.

    Attributes
    ----------
    tree : the folder that holds the server's whole configuration.
    files : file in the tree -> its template; a study's own `config` replaces `main`.
    check : command that checks the whole configuration in `tree`; it is first run on a copy.
    start : command that starts the server in the background, used without systemd; `reload` and `stop` are signals to
        its main process. reload = "restart" is for a server that reads some settings only when it starts.
    unit : systemd unit, used to start and reload on hosts with systemd.
    drain_s : seconds in which the old processes must end after a reload; otherwise the server is restarted.
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


class IdleTimeout(ServiceModel):
    """Time-out for connections without requests: the value of a variable in seconds, `default_s` if that is unset.

    In interleaved blocks, connections are idle while their load generator is stopped.
    """

    var: Ident | None = None
    default_s: Annotated[float, Field(gt=0)]

    def seconds(self, values: Mapping[str, str | int | None]) -> float:
        """Return the time-out (s) for values of the service's variables, as `ServiceSpec.values` returns them."""
        value = values[self.var] if self.var else None
        return self.default_s if value is None else float(value)


class Workers(ServiceModel):
    """How its workers are counted, and what sets their number.

    Attributes
    ----------
    setting : variable that sets their number, and the name of the directive that does so in a study's own file.
    process : matches the command line of a worker process; without it, every thread of the service is a worker.
    """

    setting: Ident
    process: Pattern | None = None


class KnownCost(ServiceModel):
    """Settings that make every request dearer by a known cause: the positive control that `loadbook new` writes.

    `heavy` replaces `vars` where a request costs much more anyway: with backends, over TLS, or with a large page.
    """

    vars: Annotated[dict[Ident, FactorLevel], Field(min_length=1)]
    heavy: dict[Ident, FactorLevel] = Field(default_factory=dict)


class ServiceSpec(ServiceModel):
    """One server software: requirements, configuration, commands and checks.

    Attributes
    ----------
    needs : permissions (`allow`) that the hosts file must grant, if it changes its host outside its own folder.
    sysctls : kernel settings of its host while it runs.
    direct_return : whether its backends accept packets for its address and answer the clients directly.
    tables : nftables tables ("ip name", templates) that are deleted if the service is killed.
    idle_timeout : its time-out for idle connections; None if it never closes them.
    workers : how its workers are counted; None if it has none, or their number cannot be seen.
    memory_mib : MiB of memory that one instance may need; about twice what its processes have under a usual load.
    control : settings of known cost; None if the service has none.
    tree : in system mode (`as_system`), the host's folder that its files are written to; else "".
    """

    name: Name
    about: str
    binary: Annotated[str, Matching(r"[A-Za-z0-9._/+-]+", "a command or path of letters, digits and . _ / + -")]
    package: str = Field(description="Debian package that brings the binary")
    process: str | None = Field(None, description="command name of its processes; default: the binary's name")
    stop_grace_s: Annotated[float, Field(ge=0, le=60)] = 5.0
    version: VersionCommand | None = Field(None, description="of the installed binary; only what is built needs none")
    build: Build | None = None
    vars: dict[Ident, Var] = Field(default_factory=dict)
    files: dict[RelativePath, RelativePath] = Field(default_factory=dict, description="file -> its template")
    commands: Commands
    main: RelativePath | None = Field(None, description="the file that a study's own `config` takes the place of")
    scheme: str = Field("http", description="what its port speaks; a template")
    ready: ReadinessCheck = ReadinessCheck()
    prove: ConfigCheck | None = None
    counters: CounterReading | None = None
    needs: tuple[Permission, ...] = ()
    sysctls: dict[SysctlName, SysctlValue] = Field(default_factory=dict)
    direct_return: bool = False
    tables: tuple[str, ...] = ()
    errors: ErrorMessages | None = None
    backlog: NumberPattern | None = Field(None, description="matches the length of its accept queue in its files")
    idle_timeout: IdleTimeout | None = None
    workers: Workers | None = None
    memory_mib: Annotated[int, Field(ge=1)] = 64
    control: KnownCost | None = None
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
        if self.idle_timeout and self.idle_timeout.var and self.idle_timeout.var not in self.vars:
            raise ValueError(f"idle_timeout.var: {self.idle_timeout.var} is not one of the vars")
        if self.workers and self.workers.setting not in self.vars:
            raise ValueError(f"workers.setting: {self.workers.setting} is not one of the vars")
        for name, var in self.vars.items():
            try:
                var.accept(var.default)
            except ValueError as error:
                raise ValueError(f"vars.{name}.default: {error}") from None
        for settings in (self.control.vars, self.control.heavy) if self.control else ():
            if wrong := self.problems("control", settings):
                raise ValueError(f"{wrong[0].path}: {wrong[0].message}")
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
        """Return the TCP ports of the service: the port for the load, and the side port if a check uses it."""
        checks = (self.ready, self.prove, self.counters)
        return (port, side_port(port)) if any(check and check.side for check in checks) else (port,)

    @property
    def process_name(self) -> str:
        """Return the name of its processes in the kernel (at most 15 characters)."""
        return (self.process or self.binary.rsplit("/", 1)[-1])[:15]

    def problems(self, path: str, values: Mapping[str, FactorLevel]) -> list[SpecProblem]:
        """Return the invalid ones among `values` (variable -> value) as problems with key paths below `path`."""
        problems = {name: self.problem(name, value) for name, value in values.items()}
        return [SpecProblem(f"{path}.{name}", problem) for name, problem in problems.items() if problem]

    def problem(self, name: str, value: FactorLevel) -> str | None:
        """Return a message if the variable is unknown or its value is not allowed, else None."""
        if name not in self.vars:
            return f"service {self.name} has no variable {name!r}{suggestion(name, self.vars)}"
        try:
            self.vars[name].accept(value)
        except ValueError as error:
            return with_value(str(error), value)
        return None

    def values(self, assignments: Mapping[str, FactorLevel]) -> dict[str, str | int | None]:
        """Return variable -> value for all variables, for templates (None: "unset"); StudyError if one is invalid.

        `assignments` (variable -> value in the study) take precedence over the defaults.
        """
        if problems := self.problems("vars", assignments):
            raise StudyError(f"service {self.name}", problems)
        return {name: var.accept(assignments.get(name, var.default)) for name, var in self.vars.items()}


def _service_files(folders: Sequence[Path]) -> dict[str, Path]:
    paths: dict[str, Path] = {}
    for folder in (*folders, Path(__file__).parent):
        for path in sorted(folder.glob("*/service.toml")):
            paths.setdefault(path.parent.name, path)
    return paths


def known_services(folders: Sequence[Path] = ()) -> list[str]:
    """Return the names of all services in `folders` and of those that come with loadbook."""
    return sorted(_service_files(folders))


def load_service(name: str, folders: Sequence[Path] = ()) -> ServiceSpec:
    """Read `<folder>/<name>/service.toml` from the first folder that has it, else from those of loadbook.

    Raises UsageError for an unknown name, and StudyError for an invalid file, which lists every wrong key.
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
