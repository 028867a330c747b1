"""Roles, factors and treatments: the parts of a study that are compared.

A role has a default setting and, in `variants`, alternatives; factors change parts of it. `Study.setting` combines them
for a treatment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, field_serializer

from loadbook.study.workload import FileName, Matching, StrictModel

ABSENT_VARIANT = "none"  # level of a variant factor that leaves the role out
# names of the parts of a trial, which no role may have
RESERVED_ROLE_NAMES = frozenset({"guard", "line", "load", "monitor"})
# parts of its role that a factor may change, besides service variables ("vars") and the load ("workload")
FactorTarget = Literal[
    "vars", "variant", "hosts", "cpus", "cpu_quota", "nofile", "sysctls", "delay_ms", "loss", "rate_mbit", "workload"
]


def _check_level(level: str | int | float | bool) -> str | int | float | bool:
    if isinstance(level, str) and len(level) > 1000:
        raise ValueError("must be a text of at most 1000 characters")
    if not isinstance(level, str) and not (math.isfinite(level) and abs(level) < 2**63):
        raise ValueError("must be a finite number of at most 64 bits")
    return level


def _check_sysctl_value(value: int | str) -> int | str:
    if isinstance(value, str) and not (value and value.isascii() and value.isprintable() and len(value) <= 200):
        raise ValueError("must be a number or a short printable text")
    return value


def _check_port(value: str) -> str:
    if not 0 < int(value.rpartition(":")[2]) < 65536:
        raise ValueError("must end with a port from 1 to 65535")
    return value


def _check_cpu_ranges(cpus: str) -> str:
    spans = [part.partition("-") for part in cpus.split(",")]
    if any(last and int(first) > int(last) for first, _, last in spans):
        raise ValueError("must have ranges from first to last, such as 0-1")
    return cpus


def one_or_more(value: object) -> object:
    """Return a list with one element for a single text; any other value as it is."""
    return [value] if isinstance(value, str) else value


Name = Annotated[
    str, Matching(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", "a name of letters, digits and . _ - (at most 63 characters)")
]
Ident = Annotated[
    str, Matching(r"[a-z][a-z0-9_]{0,40}", "a name of small letters, digits and _, a letter first (at most 41)")
]
HostPort = Annotated[
    str,
    Matching(r"[A-Za-z0-9][A-Za-z0-9.-]{0,253}:[0-9]{1,5}", "a host and a port, such as 192.0.2.7:80"),
    AfterValidator(_check_port),
]
SysctlName = Annotated[
    str,
    Field(max_length=100),
    Matching(r"[a-z0-9_]+(\.[a-z0-9_-]+)+", "the name of a kernel setting, such as net.core.somaxconn"),
]
SysctlValue = Annotated[int | str, AfterValidator(_check_sysctl_value)]
_CPUS = r"[0-9]{1,4}(-[0-9]{1,4})?"
CpuList = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if type(value) is int else value),
    Matching(rf"all|{_CPUS}(,{_CPUS})*", 'CPU numbers such as "0", "0-1" or "0,2", or "all"'),
    AfterValidator(_check_cpu_ranges),
]
FactorLevel = Annotated[str | int | float | bool, AfterValidator(_check_level)]


class Setting(StrictModel):
    """Setting of a role: a service with variables, an external address, or neither (the role is left out).

    Attributes
    ----------
    service : software that runs in the role (docs/services.md).
    vars : variables of the service.
    external : host:port of a server that is measured but not configured; the hosts file must name it, too.
    backends : roles to which the service forwards requests; they start first, and it gets their addresses.
    hosts : number of the role's hosts that run the service, in the order of the hosts file.
    cpus : CPUs for its processes, numbered within the CPUs of the host ("0", "0-1", "0,2"); "all": all of them.
    cpu_quota : CPU time for its processes together, in CPUs; default: no limit; needs allow = ["cgroup"].
    nofile : limit of open files of each process; default: the limit of the login.
    sysctls : kernel settings of its hosts during the trial; needs allow = ["sysctl"].
    delay_ms : milliseconds added to every packet from the load generator to the target, not on the way back; only for
        the load generator's role.
    loss : share of packets from the load generator to the target that are lost; only for the load generator's role.
    rate_mbit : limit in Mbit/s from the load generator to the target; in another role, of all that its hosts send.
    config : file beside the study that replaces the main template of the service.
    config_text : content of this file; filled in when the study is read.
    mode : "managed": a separate process in its own folder; "system": the host's installed server, whose files are
        replaced during a trial.
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
        """Return whether a service or an external address fills the role."""
        return self.service is not None or self.external is not None

    @property
    def process_limits(self) -> dict[str, str | float | None]:
        """Return the keys that limit the processes of the service, with their values."""
        return {"cpus": self.cpus, "cpu_quota": self.cpu_quota, "nofile": self.nofile}

    @property
    def host_changes(self) -> dict[str, Mapping[str, SysctlValue] | float | None]:
        """Return the keys that change whole hosts, with their values; 0, None and an empty table change nothing."""
        return {"sysctls": self.sysctls, "delay_ms": self.delay_ms, "loss": self.loss, "rate_mbit": self.rate_mbit}

    def level_of(self, factor: str, of: FactorTarget, var: str | None) -> FactorLevel | None:
        """Return the value of the key that a factor changes, but for "variant" and "workload"; None if not stated."""
        if of in ("vars", "sysctls"):
            return (self.vars if of == "vars" else self.sysctls).get(var or factor)
        single: dict[str, Any] = {"hosts": self.hosts} | self.process_limits | self.host_changes
        level: FactorLevel | None = single[of]
        return level

    def with_changes(self, values: Mapping[str, Any]) -> Self:
        """Return the setting with some keys changed; tables are merged. ValidationError: a wrong value."""
        current = self.model_dump()
        merged = {k: current[k] | v if isinstance(v, dict) else v for k, v in values.items()}
        return type(self).model_validate(current | merged)


class Role(Setting):
    """One role of hosts in the study; its service runs with `vars`, which are the baseline's values.

    Attributes
    ----------
    variants : alternative settings by name, for a factor with `of = "variant"`; missing keys are those of the role.
    """

    variants: dict[Name, Setting] = Field(default_factory=dict)

    @field_serializer("variants")
    def _serialize_stated_keys(self, variants: Mapping[str, Setting]) -> dict[str, Any]:
        """Return only the keys that each variant states, so that the others come from the role when read again."""
        return {name: setting.model_dump(exclude_unset=True) for name, setting in variants.items()}

    @property
    def base_setting(self) -> Setting:
        """Return the role's setting without its variants."""
        return Setting.model_validate(self.model_dump(exclude={"variants"}))

    def variant_setting(self, name: str) -> Setting:
        """Return the role's setting with the keys of a variant; "none" (ABSENT_VARIANT) leaves only its backends.

        A variant with another service, or with an external address, does not have the role's variables and file.
        """
        base = self.base_setting
        if name == ABSENT_VARIANT and name not in self.variants:
            return Setting(backends=self.backends)
        overrides = self.variants[name].model_dump(exclude_unset=True)
        same_service = overrides.get("service", base.service) == base.service and "external" not in overrides
        if not same_service:  # variables and file of one service mean nothing to another
            own_keys = {"service", "external", "vars", "config", "config_text"}
            base = Setting.model_validate(base.model_dump(exclude=own_keys))
        return base.with_changes(overrides)


class Factor(StrictModel):
    """A setting that treatments vary: a variable of a role's service or, by `of`, another key of the role or the load.

    Attributes
    ----------
    role : role that the factor changes; not needed for a factor of the load.
    of : kind of setting: a variable of the service ("vars"), a variant of the role ("variant"), a key of the load
        ("workload"), or another key of the role by its name.
    var : variable, kernel setting or key of the load; default: the factor's name. Only with "vars", "sysctls" and
        "workload".
    levels : values that treatments may set; they must include the role's own value.
    """

    role: str = "web"
    of: FactorTarget = "vars"
    var: Annotated[str, Field(max_length=100)] | None = None
    levels: Annotated[tuple[FactorLevel, ...], Field(min_length=2)]


class Factorial(StrictModel):
    """Rule that generates treatments (docs/factorial.md): all combinations of `factors`, or a fraction of them.

    Attributes
    ----------
    factors : names of factors or of `groups`.
    levels : low and high level of a factor that has more than two levels.
    groups : name of a group -> factors that are set together.
    labels : labels of combinations shown to readers; a combination is named by the letters of its high factors.
    fraction : share of all combinations that runs.
    generators : alternative to `fraction` that defines it, each such as "d = a b c".
    screening : true allows a fraction in which main effects are confounded with interactions of two factors.
    """

    factors: Annotated[tuple[Ident, ...], Field(min_length=2, max_length=9)]
    levels: dict[Ident, tuple[FactorLevel, FactorLevel]] = Field(default_factory=dict)
    groups: dict[Ident, Annotated[tuple[Ident, ...], Field(min_length=1)]] = Field(default_factory=dict)
    labels: dict[Name, str] = Field(default_factory=dict)
    fraction: Literal["full", "half", "quarter", "eighth", "sixteenth"] = "full"
    generators: tuple[str, ...] = ()
    screening: bool = False


class Grid(StrictModel):
    """Rule that generates treatments: all combinations of the levels of `factors`, named by their levels.

    Attributes
    ----------
    factors : names of factors, in the order in which levels form the name of a treatment.
    only : factor -> those of its levels that are used.
    label : label of a treatment for readers, with `{factor}` for a level.
    """

    factors: Annotated[tuple[Ident, ...], Field(min_length=1, max_length=6)]
    only: dict[Ident, Annotated[tuple[FactorLevel, ...], Field(min_length=1)]] = Field(default_factory=dict)
    label: str | None = None


class Treatment(StrictModel):
    """One combination of levels, or a harness check (A/A arm or positive control).

    Attributes
    ----------
    label : label shown to readers; default: the name of the treatment.
    set : factor -> level, where it differs from the role's own value.
    workload : keys of the load that differ from the study's, such as another tool, to compare tools.
    same_as : another treatment that this one repeats exactly, including its load.
    check : "aa": repeats the baseline and must not differ; "control": has a known effect that must be found.
    expect : direction of a control's effect; required for a control.
    expect_effect : size of a control's effect if known, ratio minus 1 (-0.1: a tenth less); shown as a tick in figures.
    note : remark for readers.
    """

    label: str | None = None
    set: dict[str, FactorLevel] = Field(default_factory=dict)
    workload: dict[str, Any] = Field(default_factory=dict)
    same_as: str | None = None
    check: Literal["aa", "control"] | None = None
    expect: Literal["better", "worse"] | None = None
    expect_effect: float | None = None
    note: str | None = None
