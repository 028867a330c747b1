"""Renders a service's configuration files and argument lists from its variables, with an id that proves their use."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from loadbook.core.errors import SpecProblem, StudyError
from loadbook.core.text import host_port
from loadbook.hosts.host import Host
from loadbook.services.build import BUILT_FOLDER, program_folder_name
from loadbook.services.spec import Commands, ServiceSpec, side_port
from loadbook.study.treatments import FactorLevel

_DEFAULT_VALUES: Mapping[str, Any] = {
    "backends": (), "behind": {}, "also_at": (), "node": "node", "cpus": (0,), "built": "/built",
}  # fmt: skip


@dataclass(frozen=True)
class InstanceContext:
    """Place of an instance: folder (absolute, on the host), address and TCP port.

    `extra` holds further template variables: `backends` (each with node, address, port, dir, and local: whether it is
    on the same host), `behind` (role -> such backends), `also_at` (addresses of balancers in front of it, at which it
    must listen, too), `node` (the host's alias), `cpus` (numbers of the CPUs that it may use), `built` (folder of built
    programs; in a template, the folder of its own program).
    """

    dir: str
    address: str
    port: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def for_instance(cls, host: Host, name: str, port: int, extra: Mapping[str, Any] | None = None) -> InstanceContext:
        """Return the context of the instance `name` on a host, with its own folder below the host's work folder."""
        values = {"built": f"{host.workdir}/{BUILT_FOLDER}", **(extra or {})}
        return cls(f"{host.workdir}/services/{name}", host.address, port, values)

    @property
    def side_port(self) -> int:
        """TCP port for checks of readiness, configuration and counters; the load does not use it."""
        return side_port(self.port)

    def template_values(self) -> dict[str, Any]:
        """Return the template variables: folder, address, ports and those in `extra`, with defaults.

        `endpoint` and `side_endpoint` are address and port (side port) in one text, an IPv6 address in brackets; each
        backend has an `endpoint`, too.
        """
        location = {"dir": self.dir, "address": self.address, "port": self.port, "side_port": self.side_port}
        location["endpoint"] = host_port(self.address, self.port)
        location["side_endpoint"] = host_port(self.address, self.side_port)
        values = {**_DEFAULT_VALUES, **self.extra, **location}
        values["backends"] = _with_endpoints(values["backends"])
        values["behind"] = {role: _with_endpoints(backends) for role, backends in values["behind"].items()}
        return values

    def blanked(self) -> InstanceContext:
        """Return a context with the same number of backends, but placeholders for everything specific to a host."""
        behind = {role: _blank_backends(backends) for role, backends in self.extra.get("behind", {}).items()}
        blank = {**_DEFAULT_VALUES, "behind": behind, "backends": _blank_backends(self.extra.get("backends", ()))}
        return InstanceContext("/place", "address.invalid", 65535, {**self.extra, **blank})


def _with_endpoints(backends: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{**backend, "endpoint": host_port(backend["address"], backend["port"])} for backend in backends]


def _blank_backends(backends: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    blank = {"address": "address.invalid", "port": 65535, "dir": "/place", "local": True}
    return [{**backend, **blank, "node": f"node{number}"} for number, backend in enumerate(backends, 1)]


@dataclass(frozen=True)
class RenderedService:
    """A rendered configuration and its commands.

    `config_sha256` identifies the configuration: folder, addresses, ports, host names and `config_id` are replaced by
    placeholders, so that it is the same on all hosts and in all runs. `config_id` is its first 16 digits and a random
    token; a process that reports it has read these files. `contains_config_id` is False for a user's own file without
    the id.

    `files` holds path (below the folder; in system mode, the tree) -> content, `commands` name -> argument list of
    the service's commands and of checks (ready, prove, counters). `expected` holds the texts that the outputs of
    ready and prove must contain, and for counters the rendered `when` ("off": not read). `scheme` is the port's
    protocol.
    """

    context: InstanceContext
    files: dict[str, bytes]
    commands: dict[str, tuple[str, ...]]
    config_sha256: str
    config_id: str
    scheme: str = "http"
    expected: Mapping[str, str] = field(default_factory=dict)
    contains_config_id: bool = True


def render(
    spec: ServiceSpec,
    values: Mapping[str, FactorLevel],
    context: InstanceContext,
    token: str | None = None,
    *,
    main: bytes | None = None,
) -> RenderedService:
    """Render a service's files and commands.

    Parameters
    ----------
    values : variable -> value in the study; other variables have the service's default.
    token : part of `config_id` that makes it unique; random if None.
    main : the user's own template, used in place of the service's main template.

    Raises
    ------
    StudyError : a value is not allowed for its variable (key ``vars.<name>``), or a template has an error.
    """
    typed_values = {**spec.values(values), "binary": spec.binary, "tree": spec.tree}
    program = program_folder_name(spec) if spec.build else ""
    templates = _templates(spec, main)

    def template_values(place: InstanceContext, config_id: str) -> dict[str, Any]:
        located = place.template_values()
        return {**typed_values, **located, "built": f"{located['built']}/{program}", "config_id": config_id}

    blank_files, blank_commands = _render_all(spec, templates, template_values(context.blanked(), "0"))
    own = {n: argv for n, argv in blank_commands.items() if n in Commands.model_fields and n != "warnings"}
    canonical = json.dumps([sorted((n, b.decode()) for n, b in blank_files.items()), own], sort_keys=True)
    sha256 = hashlib.sha256(canonical.encode()).hexdigest()
    config_id = f"{sha256[:16]}-{token or secrets.token_hex(6)}"
    final_values = template_values(context, config_id)
    files, commands = _render_all(spec, templates, final_values)
    texts = {"ready": spec.ready.says, "prove": spec.prove.says if spec.prove else None}
    texts["counters"] = spec.counters.when if spec.counters else None
    with _template_errors(spec, "scheme, says"):
        expected = {name: _render_text(spec, text, final_values) for name, text in texts.items() if text is not None}
        scheme = _render_text(spec, spec.scheme, final_values)
    contains_config_id = main is None or config_id.encode() in files[spec.main or ""]
    return RenderedService(context, files, commands, sha256, config_id, scheme, expected, contains_config_id)


def _templates(spec: ServiceSpec, main: bytes | None) -> dict[str, jinja2.Template]:
    """Return file -> template; the user's own template `main` (None: there is none) replaces the service's main one."""
    templates, environment = {}, template_environment(spec.folder)
    for key, template in spec.files.items():
        with _template_errors(spec, key):
            templates[key] = environment.get_template(template)
    if main is not None:
        with _template_errors(spec, "config"):
            if spec.main is None:
                raise ValueError(f"service {spec.name} has no main file that another can take the place of")
            templates[spec.main] = environment.from_string(main.decode())
    return templates


def _render_all(
    spec: ServiceSpec, templates: Mapping[str, jinja2.Template], values: Mapping[str, Any]
) -> tuple[dict[str, bytes], dict[str, tuple[str, ...]]]:
    argvs = spec.commands.model_dump(exclude_none=True)
    checks = {"ready": spec.ready, "prove": spec.prove, "counters": spec.counters}
    argvs |= {name: check.argv for name, check in checks.items() if check is not None and check.argv}
    files, commands = {}, {}
    for key, template in templates.items():
        with _template_errors(spec, key):
            files[key] = template.render(values).encode()
    for key, argv in argvs.items():
        with _template_errors(spec, key):
            commands[key] = tuple(_render_text(spec, item, values) for item in argv)
    return files, {name: argv for name, argv in commands.items() if argv[0]}


def _render_text(spec: ServiceSpec, template: str, values: Mapping[str, Any]) -> str:
    return _compiled(spec.folder, template).render(values)


@lru_cache(maxsize=2000)
def _compiled(folder: Path, template: str) -> jinja2.Template:
    """Return a template of a command; compiling takes ten times as long as rendering."""
    return template_environment(folder).from_string(template)


@contextmanager
def _template_errors(spec: ServiceSpec, key: str) -> Iterator[None]:
    """Map errors in a template to StudyError, also OverflowError (a range above the sandbox's limit of 100,000)."""
    try:
        yield
    except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError) as error:
        line = f" (line {error.lineno})" if isinstance(error, jinja2.TemplateSyntaxError) else ""
        message = str(error) if isinstance(error, _RefusedError) else f"{type(error).__name__}: {error}{line}"
        raise StudyError(f"service {spec.name}", [SpecProblem(key, message)]) from error


@cache
def template_environment(folder: Path) -> jinja2.Environment:
    """Return the environment of the templates in `folder`.

    HTML escaping is off, since it would corrupt configurations. Templates may come with other people's studies, so a
    sandbox keeps them from using Python.
    """
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["refuse"] = _raise_refused
    return environment


class _RefusedError(ValueError):
    """A template has refused its values, because they make no valid configuration; the message is its reason."""


def _raise_refused(reason: str) -> str:
    raise _RefusedError(reason)
