"""Values -> configuration files and argument lists, with an id that the live process will answer with."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from loadbook.core.errors import SpecProblem, StudyError
from loadbook.design.study import Level
from loadbook.hosts.host import Host
from loadbook.services.spec import ServiceSpec


@dataclass(frozen=True)
class Place:
    """Where an instance lives: folder (absolute, on the host), address and TCP port.

    `extra` is what only the run knows, such as the addresses behind a balancer; templates see it as `extra`.
    """

    dir: str
    address: str
    port: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def on(cls, host: Host, name: str, port: int, extra: Mapping[str, Any] | None = None) -> Place:
        """Return the place of the instance `name` on a host: a folder of its own below the host's workdir."""
        return cls(f"{host.workdir}/services/{name}", host.address, port, extra or {})


@dataclass(frozen=True)
class Rendered:
    """A configuration ready to be put on a host.

    `config_sha256` tells configurations apart and is the same wherever and whenever one is used: folder, address, port
    and id are blanked for it. `config_id` is its start and a token of this rendering: a process that answers with it
    has read these very files.
    """

    place: Place
    files: dict[str, bytes]
    commands: dict[str, tuple[str, ...]]
    config_sha256: str
    config_id: str


_BLANK = Place("/place", "address.invalid", 65535)


def render(spec: ServiceSpec, values: Mapping[str, Level], place: Place, token: str | None = None) -> Rendered:
    """Render a service's files and commands.

    Parameters
    ----------
    values : variables as the study gives them; what is left out has the service's default.
    token : distinguishes this rendering from every other; random unless given.

    Raises
    ------
    StudyError : a value that its variable does not allow (``vars.<name>``), or a template that cannot be rendered.
    """
    typed = spec.values(values)
    blank_files, blank_commands = _rendered(spec, typed, replace(_BLANK, extra=place.extra), "0")
    canonical = json.dumps([sorted((n, b.decode()) for n, b in blank_files.items()), blank_commands], sort_keys=True)
    sha256 = hashlib.sha256(canonical.encode()).hexdigest()
    config_id = f"{sha256[:16]}-{token or secrets.token_hex(6)}"
    files, commands = _rendered(spec, typed, place, config_id)
    return Rendered(place, files, commands, sha256, config_id)


def _rendered(
    spec: ServiceSpec, typed: Mapping[str, Any], place: Place, config_id: str
) -> tuple[dict[str, bytes], dict[str, tuple[str, ...]]]:
    environment = _environment(spec.folder)
    context = {**typed, **vars(place), "config_id": config_id, "binary": spec.binary}
    given = {k: v for k, v in spec.commands.model_dump().items() if v is not None}
    where = ""
    try:
        files = {}
        for where, template in spec.files.items():
            files[where] = environment.get_template(template).render(context).encode()
        commands = {}
        for where, argv in given.items():
            commands[where] = tuple(environment.from_string(item).render(context) for item in argv)
    except (jinja2.TemplateError, TypeError, ValueError) as error:
        raise StudyError(f"service {spec.name}", [SpecProblem(where, f"{type(error).__name__}: {error}")]) from error
    return files, commands


@cache
def _environment(folder: Path) -> jinja2.Environment:
    # Templates are code of the repository, values are typed: escaping for HTML would only corrupt configurations.
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # noqa: S701
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
