"""Claims of an article, each with the kind of check that it needs; `analyses.claims.compute` checks them."""

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
ERROR_CLAIM_KINDS: tuple[ClaimKind, ...] = ("fewer-errors", "more-errors", "interaction")
TreatmentName = str


class _ClaimModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Claim(_ClaimModel):
    """One sentence of an article about `treatment` against another, with the article's numbers for both.

    Attributes
    ----------
    claim : our short form.
    quote : the article's own words, where we have them.
    kind : the check (docs/claims.md); without one better or worse, as the two numbers say.
    treatment, against : the two treatments of the study; of a resource only the first counts.
    among : of "best" the rivals besides `against`; of "slope" the points between the two; of "interaction" the arms
        that complete the four cells (default: all that ran).
    further : more pairs of the same comparison (other page sizes, say): the geometric mean of the ratios is judged.
    factors : of "interaction" the cause and the remedy, `treatment` having both, `against` the cause; of "slope" the
        one with the numbers of x.
    slope : range of the log-log slope that the sentence means.
    resource : of the hosts of `role`.
    role : whose hosts' resource is meant.
    used : range of what `treatment` used of it in every trial: a share of the capacity, of memory the highest use in
        bytes.
    margin : instead of the study's; of errors the share of trials that matters.
    value, against_value : the article's numbers for both treatments, in the metric's unit.
    metric : what they are (docs/data-format.md).
    statistic : p99, say, of a time.
    errors, against_errors : requests that failed, by the article.
    offered_per_s : requests per second that its tool offered, of an open load.
    """

    claim: str
    quote: str | None = None
    kind: ClaimKind | None = None
    treatment: TreatmentName
    against: TreatmentName
    among: tuple[TreatmentName, ...] = ()
    further: tuple[tuple[TreatmentName, TreatmentName], ...] = ()
    factors: tuple[TreatmentName, ...] = ()
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
    def _check_kind_fields(self) -> Claim:
        required: dict[str, dict[str, object]] = {
            "best": {"among": self.among},
            "interaction": {"two factors": len(self.factors) == 2},
            "slope": {"one of factors": len(self.factors) == 1, "slope": self.slope},
            "resource": {"resource": self.resource, "role": self.role, "used": self.used},
        }
        for key, present in required.get(self.kind or "", {}).items():
            if not present:
                raise ValueError(f"kind = {self.kind!r} needs {key}")
        for key, bounds in (("slope", self.slope), ("used", self.used)):
            if bounds and bounds[0] >= bounds[1]:
                raise ValueError(f"{key} is a range, the lower number first")
        if self.kind is None and (self.value is None or self.against_value is None):
            raise ValueError("needs a kind, or value and against_value, which say whether better or worse is meant")
        return self

    @property
    def effective_kind(self) -> ClaimKind:
        """The kind of check: stated in the study, else inferred from the two numbers of the article."""
        if self.kind:
            return self.kind
        return "better" if (self.value or 0.0) > (self.against_value or 0.0) else "worse"

    @property
    def claimed_effect(self) -> float | None:
        """The article's change, a ratio minus 1; None without two positive numbers."""
        value, against_value = self.value or 0.0, self.against_value or 0.0
        return value / against_value - 1 if value > 0 and against_value > 0 else None

    @property
    def treatments(self) -> tuple[TreatmentName, ...]:
        """Every treatment that the claim is about, each once."""
        pairs = [name for pair in self.further for name in pair]
        return tuple(dict.fromkeys((self.treatment, self.against, *self.among, *pairs)))


class Published(_ClaimModel):
    """Values that an article measured.

    Attributes
    ----------
    source : who, what, where, when.
    file : its output or table, one file or several beside the study.
    claims : its sentences.
    """

    source: str
    file: str | tuple[str, ...] | None = None
    claims: tuple[Claim, ...] = ()
