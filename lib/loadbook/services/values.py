"""Variables of a service: which values get through to a template.

A value reaches a template only through its variable's `accept`; nothing else stands between a study file and
a server's configuration, so every type admits a closed set of texts.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from loadbook.design.study import FactorLevel

UNSET = "unset"
_PATH = re.compile(r"/[A-Za-z0-9._+/-]*\Z")
_PLAIN = re.compile(r"[A-Za-z0-9 ._=:,/+@%*-]*\Z")


class ServiceModel(BaseModel):
    """What stands in a service.toml: nothing unknown, nothing that changes later."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Var(ServiceModel):
    about: str
    unset: bool = Field(False, description='may be "unset": the template then leaves it out')
    default: FactorLevel

    def accept(self, value: FactorLevel) -> str | int | None:
        """Return `value` as the template may see it (None for unset); ValueError says what is allowed."""
        if self.unset and value == UNSET:
            return None
        return self._validate(value)

    @property
    def allowed(self) -> str:
        """Which values it may have, for readers: `0 to 100, auto, unset`."""
        return ", ".join([*self._allowed_values(), *([UNSET] if self.unset else [])])

    def _validate(self, value: FactorLevel) -> str | int:
        raise NotImplementedError

    def _allowed_values(self) -> tuple[str, ...]:
        raise NotImplementedError


class SwitchVar(_Var):
    """`on` or `off`; true and false are taken as such."""

    type: Literal["switch"]

    def _validate(self, value: FactorLevel) -> str:
        switch = {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        if switch not in ("on", "off"):
            raise ValueError(f"must be on or off{self._or_unset()}")
        return str(switch)

    def _allowed_values(self) -> tuple[str, ...]:
        return ("on", "off")

    def _or_unset(self) -> str:
        return " or unset" if self.unset else ""


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
            literals = [*self.also, *([UNSET] if self.unset else [])]
            alternatives = f", or {' or '.join(literals)}" if literals else ""
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
            choices = [*self.values, *([UNSET] if self.unset else [])]
            raise ValueError(f"must be one of {', '.join(choices)}")
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
