"""What a study compares: its factors, its treatments, and the rules that make treatments from factors."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from loadbook.design.role import FactorTarget, Ident, FactorLevel, Name, StrictModel


class Factor(StrictModel):
    """What treatments set: a variable of a role's service or, by `of`, another part of the role or of the load.

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
    """Treatments made by rule (design.factorial): every combination of `factors`, or a fraction of them.

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
