"""The table `[ci]` of a study: results that fail a build (docs/ci.md)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from loadbook.core.errors import SpecProblem
from loadbook.core.metrics import METRICS
from loadbook.core.validity_rules import RULE_INFO
from loadbook.study.problems import key_path, short_repr, suggestion
from loadbook.study.treatments import Name, StrictModel, one_or_more

# "small" is a real loss smaller than the margin; the only gain that can be unacceptable is "faster"
FailureVerdict = Literal["faster", "slower", "small", "more-errors"]
UndecidedPolicy = Literal["fail", "pass"]
DEFAULT_FAIL_ON: tuple[FailureVerdict, ...] = ("slower", "more-errors")
ALL_RULES = "all"
WORD_HINTS = {
    "undecided": 'is a choice of its own: undecided = "fail" or "pass"',
    "invalid": "goes without saying: a comparison that may not be made never passes",
    "worse": 'is called "slower", whatever the metric',
    "better": 'is called "faster", whatever the metric',
    "equivalent": "is never unacceptable",
    "no-loss": "is never unacceptable",
}
MetricName = Annotated[str, Field(pattern=r"^[a-z_]+( (value|mean|sd|min|max|p[0-9]{1,2}(\.[0-9]+)?))?$")]
EffectLimit = Annotated[float, Field(gt=-1, lt=1000)]


def _reject_other_words(value: Any) -> Any:
    for word in value if isinstance(value, (list, tuple)) else ():
        if isinstance(word, str) and word in WORD_HINTS:
            raise ValueError(f'"{word}" {WORD_HINTS[word]}')
    return value


OneOrMoreNames = Annotated[tuple[str, ...], BeforeValidator(one_or_more)]
FailureVerdicts = Annotated[
    tuple[FailureVerdict, ...], BeforeValidator(lambda value: _reject_other_words(one_or_more(value)))
]


class CiLimits(StrictModel):
    """Limits for one treatment; keys that it leaves out are those of `[ci]`.

    The interval decides, not the estimate: beyond a limit it fails, within it passes, across it is undecided.

    Attributes
    ----------
    fail_on : verdicts that fail; default: slower (unless a limit says how much of a loss is accepted) and more-errors.
    undecided : "fail" or "pass" a build whose comparison shows neither.
    min_effect : least change that is acceptable, a ratio minus 1 to what the treatment is compared with, -0.02 for
        2 % less.
    max_effect : largest change that is acceptable, where growing is what must not be (a time, say).
    """

    fail_on: FailureVerdicts | None = None
    undecided: UndecidedPolicy | None = None
    min_effect: EffectLimit | None = None
    max_effect: EffectLimit | None = None

    @model_validator(mode="after")
    def _check_effect_range(self) -> CiLimits:
        if self.min_effect is not None and self.max_effect is not None and self.min_effect >= self.max_effect:
            raise ValueError(f"min_effect {self.min_effect:g} is not below max_effect {self.max_effect:g}")
        return self


class CiPolicy(CiLimits):
    """The table `[ci]`: results that fail a build.

    `undecided` has no default: the study decides whether a build passes that shows neither.

    Attributes
    ----------
    only : the treatments that are judged; default: all.
    doubts : validity rules (docs/validity-rules.md) whose doubt fails a build; "all" is any of them.
    metrics : other metrics that are judged, too, each by limits of its own: "latency p99", say.
    treatments : what differs for some of them.
    """

    undecided: UndecidedPolicy = Field(description='"fail" or "pass" a build whose comparison shows neither')
    only: OneOrMoreNames = ()
    doubts: OneOrMoreNames = ()
    metrics: dict[MetricName, CiLimits] = Field(default_factory=dict)
    treatments: dict[Name, CiLimits] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_treatment_limits(self) -> CiPolicy:
        for name in self.treatments:
            try:
                self.limits_for(name)
            except ValidationError as error:
                raise ValueError(
                    f"treatments.{name}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
                ) from error
        return self

    def limits_for(self, treatment: str) -> CiLimits:
        """Return the limits for a treatment, its own keys before those of `[ci]`."""
        common = {key: getattr(self, key) for key in CiLimits.model_fields}
        own = self.treatments.get(treatment, CiLimits()).model_dump(exclude_none=True)
        return CiLimits.model_validate(common | own)

    def metric_limits(self, metric: str, treatment: str) -> CiLimits:
        """Return the limits for a treatment on one of `metrics`."""
        own = self.metrics[metric]
        return own if own.undecided else own.model_copy(update={"undecided": self.limits_for(treatment).undecided})

    def restricted_to(self, treatments: Iterable[str]) -> CiPolicy | None:
        """Return the policy for a study with these treatments only; None if it is about others only."""
        known = set(treatments)
        only = tuple(name for name in self.only if name in known)
        if self.only and not only:
            return None
        own_limits = {name: limits for name, limits in self.treatments.items() if name in known}
        return self.model_copy(update={"only": only, "treatments": own_limits})


def ci_policy_problems(raw: Mapping[str, Any]) -> Iterator[SpecProblem]:
    """Yield contradictions between `[ci]` and the rest of a study; wrong types are left to pydantic."""
    policy = raw.get("ci")
    if not isinstance(policy, dict):
        return
    if raw.get("contrasts") == "best":
        yield SpecProblem("ci", 'goes without contrasts = "best": against the best, everything loses')
    names: list[tuple[tuple[str | int, ...], object]] = [
        (("ci", "only", k), name) for k, name in enumerate(_as_list(policy.get("only")))
    ]
    names += [(("ci", "treatments", name), name) for name in _table(policy.get("treatments"))]
    for path, name in names:
        if isinstance(name, str) and (message := _no_comparison_reason(raw, name)):
            yield SpecProblem(key_path(path), message)
    for name in _table(policy.get("metrics")):
        metric = name.partition(" ")[0]
        if metric not in METRICS:
            yield SpecProblem(
                key_path(("ci", "metrics", name)), f"no metric {short_repr(metric)}{suggestion(metric, METRICS)}"
            )
        elif name == raw.get("metric", "ok_per_s"):
            yield SpecProblem(key_path(("ci", "metrics", name)), "is the study's own: what is said in [ci] is of it")
        elif METRICS[metric].better is None:
            yield SpecProblem(key_path(("ci", "metrics", name)), "neither more nor less of it is better")
    for number, name in enumerate(_as_list(policy.get("doubts"))):
        if isinstance(name, str) and name not in (ALL_RULES, *RULE_INFO):
            nearest = suggestion(name, (ALL_RULES, *RULE_INFO))
            where = nearest if "did you mean" in nearest else '; docs/validity-rules.md has their names, "all" is any of them'
            yield SpecProblem(f"ci.doubts.{number}", f"no validity rule {short_repr(name)}{where}")


def _no_comparison_reason(raw: Mapping[str, Any], name: str) -> str | None:
    """Return why no treatment of this name is compared, None if one is."""
    treatments = _table(raw.get("treatments"))
    if name not in treatments:
        return f"no treatment {short_repr(name)}{suggestion(name, treatments)}"
    if name == raw.get("baseline"):
        return "is the baseline: the others are compared with it"
    check = _table(treatments[name]).get("check")
    return "is a check of the laboratory, which must pass in any case" if check else None


def _as_list(value: object) -> list[Any]:
    names = one_or_more(value)
    return names if isinstance(names, list) else []


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
