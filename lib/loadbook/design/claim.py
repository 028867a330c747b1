"""What an article says: its sentences, each with the kind of check that it needs. `stats.claims.judge` judges them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

ClaimKind = Literal[
    "better",
    "worse",
    "best",
    "no-loss",
    "equivalent",
    "fewer-errors",
    "more-errors",
    "interaction",
    "slope",
    "resource",
]
ERROR_KINDS: tuple[ClaimKind, ...] = ("fewer-errors", "more-errors", "interaction")
Name = str


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Claim(_Spec):
    """One sentence of an article about `treatment` against another, with the article's numbers for both.

    `claim` is our short form, `quote` the article's own words where we have them. `kind` is the check; without one it
    is better or worse, as the two numbers say. What the kinds need besides:

    best : `among`, the rivals that it must be ahead of, `against` being one more.
    interaction : one factor brings errors, a second one removes them. `factors` names both, `treatment` has both,
        `against` only the first; `among` are the arms that complete the four cells (default: all that ran).
    slope : `factors` names the one with the numbers of x, `slope` is the range of the log-log slope that the sentence
        means, `among` the points between `against` and `treatment`.
    resource : what `treatment` used of a `resource` of the hosts of a `role`, in every trial, lies in the range `used`:
        a share of the capacity, of memory the highest use in bytes. `against` plays no part in it.

    `further` are more pairs of the same comparison (other page sizes, say): the geometric mean of the ratios is
    judged. `margin` replaces the study's; of errors it is the share of trials that matters.
    """

    claim: str
    quote: str | None = None
    kind: ClaimKind | None = None
    treatment: Name
    against: Name
    among: tuple[Name, ...] = ()
    further: tuple[tuple[Name, Name], ...] = ()
    factors: tuple[Name, ...] = ()
    slope: tuple[float, float] | None = None
    resource: Literal["cpu", "network", "memory"] | None = None
    role: str | None = None
    used: tuple[float, float] | None = None
    margin: Annotated[float, Field(gt=0, lt=1)] | None = None
    value: float | None = None
    against_value: float | None = None
    metric: str = "requests_per_s"
    statistic: str | None = None
    errors: int | None = None
    against_errors: int | None = None
    offered_per_s: float | None = None

    @model_validator(mode="after")
    def _kind_has_what_it_needs(self) -> Claim:
        wanted: dict[str, dict[str, object]] = {
            "best": {"among": self.among},
            "interaction": {"two factors": len(self.factors) == 2},
            "slope": {"one of factors": len(self.factors) == 1, "slope": self.slope},
            "resource": {"resource": self.resource, "role": self.role, "used": self.used},
        }
        for key, given in wanted.get(self.kind or "", {}).items():
            if not given:
                raise ValueError(f"kind = {self.kind!r} needs {key}")
        for key, bounds in (("slope", self.slope), ("used", self.used)):
            if bounds and bounds[0] >= bounds[1]:
                raise ValueError(f"{key} is a range, the lower number first")
        if self.kind is None and (self.value is None or self.against_value is None):
            raise ValueError("needs a kind, or value and against_value, which say whether better or worse is meant")
        return self

    @property
    def check(self) -> ClaimKind:
        """The kind of check: what the study says, else what the article's two numbers say."""
        if self.kind:
            return self.kind
        return "better" if (self.value or 0.0) > (self.against_value or 0.0) else "worse"

    @property
    def effect(self) -> float | None:
        """The article's change, a ratio minus 1; None without two positive numbers."""
        value, other = self.value or 0.0, self.against_value or 0.0
        return value / other - 1 if value > 0 and other > 0 else None

    @property
    def arms(self) -> tuple[Name, ...]:
        """Every treatment that the claim is about, each once."""
        pairs = [name for pair in self.further for name in pair]
        return tuple(dict.fromkeys((self.treatment, self.against, *self.among, *pairs)))


class Published(_Spec):
    """What an article measured: its source, its file or files beside the study, its claims."""

    source: str
    file: str | tuple[str, ...] | None = None
    claims: tuple[Claim, ...] = ()
