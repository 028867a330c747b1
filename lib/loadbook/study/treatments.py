"""Roles, factors and treatments: the parts of a study that are compared.

A role has a usual setting and, in `variants`, alternatives; factors change parts of it. `Study.setting` combines them
for a treatment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_serializer

from loadbook.study.workload import FileName, StrictModel

ABSENT_VARIANT = "none"  # the level of a factor of variants that leaves the role out
# names of the jobs of a trial: no role can have these names
RESERVED_ROLE_NAMES = frozenset({"guard", "line", "load", "monitor"})
# what a factor may change of its role beside its service's variables ("vars") and the load ("workload")
FactorTarget = Literal[
    "vars", "variant", "hosts", "cpus", "cpu_quota", "nofile", "sysctls", "delay_ms", "loss", "rate_mbit", "workload"
]


def _check_level(level: str | int | float | bool) -> str | int | float | bool:
    if isinstance(level, str) and len(level) > 1000:
        raise ValueError("a text of at most 1000 characters")
    if not isinstance(level, str) and not (math.isfinite(level) and abs(level) < 2**63):
        raise ValueError("a finite number of at most 64 bits")
    return level


def _check_sysctl_value(value: int | str) -> int | str:
    if isinstance(value, str) and not (value and value.isascii() and value.isprintable() and len(value) <= 200):
        raise ValueError("a number or a short printable text")
    return value


def _check_port(value: str) -> str:
    if not 0 < int(value.rpartition(":")[2]) < 65536:
        raise ValueError("must end with a port from 1 to 65535")
    return value


def _check_cpu_ranges(cpus: str) -> str:
    spans = [part.partition("-") for part in cpus.split(",")]
    if any(last and int(first) > int(last) for first, _, last in spans):
        raise ValueError("a range goes from first to last, as in 0-1")
    return cpus


def one_or_more(value: object) -> object:
    """Return a list also for a single text."""
    return [value] if isinstance(value, str) else value


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Ident = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
HostPort = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,253}:[0-9]{1,5}$"), AfterValidator(_check_port)]
SysctlName = Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_-]+)+$", max_length=100)]
SysctlValue = Annotated[int | str, AfterValidator(_check_sysctl_value)]
_CPUS = r"[0-9]{1,4}(-[0-9]{1,4})?"
CpuList = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    Field(pattern=rf"^(all|{_CPUS}(,{_CPUS})*)$"),
    AfterValidator(_check_cpu_ranges),
]
FactorLevel = Annotated[str | int | float | bool, AfterValidator(_check_level)]


class Setting(StrictModel):
    """How a role is filled: by a service with its variables, by an external address, or, with neither, not at all.

    Attributes
    ----------
    service : the software (docs/services.md).
    vars : variables of the service.
    external : host:port of something that is measured, not configured; the hosts file must name it, too.
    backends : roles that its requests go on to; they are started first, and it is told their addresses.
    hosts : how many of the role's hosts run its service, in the order of the hosts file.
    cpus : CPUs of its processes, numbered within those that its host has ("0", "0-1", "0,2"); "all": every one.
    cpu_quota : CPUs' worth of time that its processes get together, without it no limit; needs allow = ["cgroup"].
    nofile : open files that each of its processes may have; without it what the login has.
    sysctls : settings of its hosts' kernel for the time of the trial; needs allow = ["sysctl"].
    delay_ms : of the role that drives: milliseconds added to every packet on the way to the load's target, none on the
        way back.
    loss : of the role that drives: share of packets lost on that way.
    rate_mbit : of the role that drives: megabits per second on that way; of another role, of all that its hosts send.
    config : a file beside the study that takes the place of the service's own main template.
    config_text : what it holds; filled in when the study is read.
    mode : "managed", a process of our own in its own folder; "system", the host's own server, with its files replaced
        for the time of a trial.
    """

    service: Name | None = None
    mode: Literal["managed", "system"] = "managed"
    vars: dict[Ident, FactorLevel] = Field(default_factory=dict)
    external: HostPort | None = None
    backends: Annotated[tuple[Ident, ...], BeforeValidator(one_or_more)] = ()
    hosts: Annotated[int, Field(ge=1, le=1000)] = 1
    cpus: CpuList = "all"
    cpu_quota: Annotated[float, Field(gt=0, le=4096)] | None = None
    nofile: Annotated[int, Field(ge=64, le=10_000_000)] | None = None
    sysctls: dict[SysctlName, SysctlValue] = Field(default_factory=dict)
    delay_ms: Annotated[int, Field(ge=0, le=60_000)] = 0
    loss: Annotated[float, Field(ge=0, lt=1)] = 0.0
    rate_mbit: Annotated[float, Field(gt=0, le=1_000_000)] | None = None
    config: FileName | None = None
    config_text: Annotated[str, Field(max_length=1_000_000)] | None = None

    @property
    def is_present(self) -> bool:
        """Return whether a service or host fills the role."""
        return self.service is not None or self.external is not None

    def with_changes(self, values: Mapping[str, Any]) -> Self:
        """Return the setting with some of its keys changed; tables are merged. ValidationError for a wrong value."""
        current = self.model_dump()
        merged = {k: current[k] | v if isinstance(v, dict) else v for k, v in values.items()}
        return type(self).model_validate(current | merged)


class Role(Setting):
    """One role of a host in the study; a role with a `service` runs it with `vars` (the baseline's values).

    Attributes
    ----------
    variants : other settings of the role by name, for a factor `of = "variant"`; what one does not say is the role's.
    """

    variants: dict[Name, Setting] = Field(default_factory=dict)

    @field_serializer("variants")
    def _serialize_stated_keys(self, variants: Mapping[str, Setting]) -> dict[str, Any]:
        """Write only the keys that a variant states, so that the others still come from the role when read again."""
        return {name: setting.model_dump(exclude_unset=True) for name, setting in variants.items()}

    @property
    def base_setting(self) -> Setting:
        """Return the role's setting without its variants."""
        return Setting.model_validate(self.model_dump(exclude={"variants"}))

    def variant_setting(self, name: str) -> Setting:
        """Return the role's setting with a variant's keys put over it; ABSENT_VARIANT leaves only its backends."""
        base = self.base_setting
        if name == ABSENT_VARIANT and name not in self.variants:
            return Setting(backends=self.backends)
        overrides = self.variants[name].model_dump(exclude_unset=True)
        same_service = overrides.get("service", base.service) == base.service and "external" not in overrides
        if not same_service:  # another service knows nothing of this one's variables or file
            own_keys = {"service", "external", "vars", "config", "config_text"}
            base = Setting.model_validate(base.model_dump(exclude=own_keys))
        return base.with_changes(overrides)


class Factor(StrictModel):
    """A part of the study that treatments set: a variable of a role's service or, by `of`, of the role or the workload.

    Attributes
    ----------
    role : whose; a factor of the load needs none.
    of : what is set: a variable of the service ("vars"), one of the role's variants ("variant"), a key of the load
        ("workload"), or that key of the role.
    var : the variable, kernel setting or key of the load; default: the factor's own name. Only with "vars", "sysctls"
        and "workload".
    levels : the values that treatments may set; the role's own must be among them.
    """

    role: str = "web"
    of: FactorTarget = "vars"
    var: Annotated[str, Field(max_length=100)] | None = None
    levels: Annotated[tuple[FactorLevel, ...], Field(min_length=2)]


class Factorial(StrictModel):
    """Treatments made by rule (docs/factorial.md): every combination of `factors`, or a fraction of them.

    Attributes
    ----------
    factors : factors, or names of `groups`.
    levels : low and high of a factor that has more than two levels.
    groups : factors that are switched together, by the name of the group.
    labels : what readers see of a combination; their names are the letters of the factors that are high.
    fraction : how many of all combinations run.
    generators : choose the fraction instead, "d = a b c" each.
    screening : allows a fraction that mixes single effects with those of pairs.
    """

    factors: Annotated[tuple[Ident, ...], Field(min_length=2, max_length=9)]
    levels: dict[Ident, tuple[FactorLevel, FactorLevel]] = Field(default_factory=dict)
    groups: dict[Ident, Annotated[tuple[Ident, ...], Field(min_length=1)]] = Field(default_factory=dict)
    labels: dict[Name, str] = Field(default_factory=dict)
    fraction: Literal["full", "half", "quarter", "eighth", "sixteenth"] = "full"
    generators: tuple[str, ...] = ()
    screening: bool = False


class Grid(StrictModel):
    """Treatments made by rule: every combination of the levels of `factors`, named by its levels.

    Attributes
    ----------
    factors : names, in the order in which their levels make the name of a treatment.
    only : limits a factor to some of its levels.
    label : the name that readers see, with `{factor}` for a level.
    """

    factors: Annotated[tuple[Ident, ...], Field(min_length=1, max_length=6)]
    only: dict[Ident, Annotated[tuple[FactorLevel, ...], Field(min_length=1)]] = Field(default_factory=dict)
    label: str | None = None


class Treatment(StrictModel):
    """One combination of levels, or a check of the laboratory.

    Attributes
    ----------
    label : the name that readers see; default: its name here.
    set : factor -> level, where it differs from the role's own.
    workload : keys of the load that differ from the study's: another tool, say, to see how far tools agree.
    same_as : repeats another treatment exactly, its load included.
    check : "aa", the baseline under another name, which must not differ; "control", a cost that must be found.
    expect : which way a control differs; needed there.
    expect_effect : how much, as a ratio minus 1 (-0.1: a tenth less), where it is known; drawn as a tick.
    note : for readers.
    """

    label: str | None = None
    set: dict[str, FactorLevel] = Field(default_factory=dict)
    workload: dict[str, Any] = Field(default_factory=dict)
    same_as: str | None = None
    check: Literal["aa", "control"] | None = None
    expect: Literal["better", "worse"] | None = None
    expect_effect: float | None = None
    note: str | None = None
