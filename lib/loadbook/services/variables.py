"""The variables of a service (tables `[vars.NAME]` of service.toml) and the values that they accept.

The value of a variable is checked by its `accept` before a template uses it. As this is the only protection of a
server's configuration against hostile study files, every type accepts a restricted set of texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from loadbook.study.treatments import FactorLevel, Ident

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
    at_least : other variable -> its smallest value; not checked for a role with backends, which serves the backends'
        page.
    headers : request headers that the workload must send.
    """

    vars: dict[Ident, FactorLevel] = Field(default_factory=dict)
    set: tuple[Ident, ...] = ()
    at_least: dict[Ident, int] = Field(default_factory=dict)
    headers: tuple[str, ...] = ()

    def unmet(self, values: Mapping[str, FactorLevel], headers: Iterable[str], *, has_backends: bool) -> list[str]:
        """Return a text for each unmet precondition; `values`: all variables, `headers`: names of headers sent."""
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
        """Return `value` as the template gets it (None for "unset"); ValueError lists the allowed values."""
        if self.unset and value == UNSET:
            return None
        return self._validate(value)

    def unset_meaning(self, version: str) -> str | None:
        """Return the meaning of "unset" in a version of the software; None if no version is known to differ."""
        known = [first for first in self.unset_since if _version_numbers(first) <= _version_numbers(version)]
        return self.unset_since[max(known, key=_version_numbers)] if known else None

    @property
    def allowed(self) -> str:
        """The allowed values as text, such as `0 to 100, auto, unset`."""
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
    """An absolute path on the host that consists of letters, digits and ``. _ + / -``, without ``..``."""

    type: Literal["path"]

    def _validate(self, value: FactorLevel) -> str:
        if not isinstance(value, str) or not _PATH.match(value) or ".." in value.split("/"):
            raise ValueError("must be an absolute path of letters, digits and . _ + - without '..'")
        return value

    def _allowed_values(self) -> tuple[str, ...]:
        return ("an absolute path",)


class TextVar(_Var):
    """A text that fully matches `pattern`; quotes, `; { } $ #`, backslash, control characters are always refused."""

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
