"""What a running service is asked, as its service.toml says it: whether it is ready, what it runs, what it counted."""

from __future__ import annotations

import re
from typing import Annotated, TypeVar

from pydantic import AfterValidator, Field, model_validator

from loadbook.design.study import Ident
from loadbook.services.values import ServiceModel


def _check_one_group(pattern: str) -> str:
    try:
        groups = re.compile(pattern).groups
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from None
    if groups != 1:
        raise ValueError("must have one group, the number")
    return pattern


ProbeT = TypeVar("ProbeT", bound="Probe")
Argv = Annotated[tuple[str, ...], Field(min_length=1)]
UrlPath = Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=200)]
Pattern = Annotated[str, AfterValidator(_check_one_group)]


SIDE_PORT_OFFSET = 10_000


def side_port(port: int) -> int:
    """Return the side port of a service whose port for the load is `port`."""
    return port + SIDE_PORT_OFFSET if port + SIDE_PORT_OFFSET < 1 << 16 else port - SIDE_PORT_OFFSET


class Probe(ServiceModel):
    """How the running service is asked: a `path` over HTTP, or a command (`argv`, templates) on its own host.

    With `side`, the path is asked on the service's `side_port`, over plain HTTP from its own host: for what must not
    be in the way of the load, or when the port that the load goes to speaks no HTTP.
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
    """When the service is ready to serve, within `timeout_s` seconds of its start.

    It answers `path` with `status` (default "/"), the command ends with exit code 0 and prints `says` (a template)
    among other things, or, with `tcp`, its port listens.
    """

    tcp: bool = False
    status: Annotated[int, Field(ge=100, le=599)] = 200
    says: str | None = None
    timeout_s: Annotated[float, Field(gt=0, le=120)] = 10.0


class ConfigProbe(Probe):
    """How the live process tells its configuration: its whole answer over HTTP is `says`, a command's holds it."""

    says: str = "{{ config_id }}"

    @model_validator(mode="after")
    def _has_target(self) -> ConfigProbe:
        return _require_target(self)


class CounterProbe(Probe):
    """Counts since the service's start, by name: the sum of what the one group of a pattern finds in the answer.

    `requests`: requests that it answered; `connections`: connections that it accepted; `upstream_connections`:
    connections that it opened to what is behind it. Nothing is asked when `when`, a template, is rendered "off".
    """

    when: str = "on"
    patterns: dict[Ident, Pattern]

    @model_validator(mode="after")
    def _has_target(self) -> CounterProbe:
        return _require_target(self)


def _require_target(question: ProbeT) -> ProbeT:
    if not (question.path or question.argv):
        raise ValueError("needs path or argv")
    return question
