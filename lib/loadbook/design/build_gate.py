"""What a study declares unacceptable: the table `[gate]`, by which a build passes or fails (docs/ci.md).

Not `[gates]`: those are the limits of the validity rules, which say whether a trial counts at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from loadbook.core.errors import SpecProblem
from loadbook.core.gates import GATES
from loadbook.core.metrics import METRICS
from loadbook.design.problems import key_path, shown, suggest
from loadbook.design.role import Name, Spec

# "small" is a loss that is real and smaller than the margin; of gains only "faster" can be unacceptable
Unacceptable = Literal["faster", "slower", "small", "more-errors"]
Choice = Literal["fail", "pass"]
DEFAULT: tuple[Unacceptable, ...] = ("slower", "more-errors")
ALL = "all"
INSTEAD = {
    "undecided": 'is a choice of its own: undecided = "fail" or "pass"',
    "invalid": "goes without saying: a comparison that may not be made never passes",
    "worse": 'is called "slower", whatever the metric',
    "better": 'is called "faster", whatever the metric',
    "equivalent": "is never unacceptable",
    "no-loss": "is never unacceptable",
}
MetricName = Annotated[str, Field(pattern=r"^[a-z_]+( (value|mean|sd|min|max|p[0-9]{1,2}(\.[0-9]+)?))?$")]
Effect = Annotated[float, Field(gt=-1, lt=1000)]


def _one_or_more(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _known_words(value: Any) -> Any:
    for word in value if isinstance(value, (list, tuple)) else ():
        if isinstance(word, str) and word in INSTEAD:
            raise ValueError(f'"{word}" {INSTEAD[word]}')
    return value


Names = Annotated[tuple[str, ...], BeforeValidator(_one_or_more)]
Words = Annotated[tuple[Unacceptable, ...], BeforeValidator(lambda value: _known_words(_one_or_more(value)))]


class Limits(Spec):
    """What is unacceptable of one treatment; what it does not say is as in `[gate]`.

    An interval decides, never the estimate: beyond a limit it fails, within it passes, astride it is undecided.

    Attributes
    ----------
    fail_on : verdicts that fail; default: slower (unless a limit says how much of a loss is accepted) and more-errors.
    undecided : "fail" or "pass" a build whose comparison shows neither.
    min_effect : least change that is acceptable, a ratio minus 1 to what the treatment is compared with, -0.02 for
        2 % less.
    max_effect : largest change that is acceptable, where growing is what must not be (a time, say).
    """

    fail_on: Words | None = None
    undecided: Choice | None = None
    min_effect: Effect | None = None
    max_effect: Effect | None = None

    @model_validator(mode="after")
    def _something_lies_between(self) -> Limits:
        if self.min_effect is not None and self.max_effect is not None and self.min_effect >= self.max_effect:
            raise ValueError(f"min_effect {self.min_effect:g} is not below max_effect {self.max_effect:g}")
        return self


class BuildGate(Limits):
    """The table `[gate]`: what fails a build.

    `undecided` has no default: whoever writes a gate says whether a build passes that shows neither.

    Attributes
    ----------
    only : the treatments that are judged; default: all.
    doubts : validity rules (docs/gates.md) whose doubt fails a build; "all" is any of them.
    metrics : other metrics that are judged, too, each by limits of its own: "latency p99", say.
    treatments : what differs for some of them.
    """

    undecided: Choice = Field(description='"fail" or "pass" a build whose comparison shows neither')
    only: Names = ()
    doubts: Names = ()
    metrics: dict[MetricName, Limits] = Field(default_factory=dict)
    treatments: dict[Name, Limits] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _of_one_piece(self) -> BuildGate:
        for name in self.treatments:
            try:
                self.limits(name)
            except ValidationError as error:
                raise ValueError(
                    f"treatments.{name}: {error.errors()[0]['msg'].removeprefix('Value error, ')}"
                ) from error
        return self

    def limits(self, treatment: str) -> Limits:
        """Return what holds for a treatment, its own keys before those of `[gate]`."""
        common = {key: getattr(self, key) for key in Limits.model_fields}
        own = self.treatments.get(treatment, Limits()).model_dump(exclude_none=True)
        return Limits.model_validate(common | own)

    def limits_on(self, metric: str, treatment: str) -> Limits:
        """Return what holds for a treatment on one of `metrics`: what is said of that metric alone."""
        own = self.metrics[metric]
        return own if own.undecided else own.model_copy(update={"undecided": self.limits(treatment).undecided})

    def among(self, treatments: Iterable[str]) -> BuildGate | None:
        """Return the gate of a study that has these treatments alone; None if it judged others only."""
        there = set(treatments)
        only = tuple(name for name in self.only if name in there)
        if self.only and not only:
            return None
        kept = {name: limits for name, limits in self.treatments.items() if name in there}
        return self.model_copy(update={"only": only, "treatments": kept})


def problems(raw: Mapping[str, Any]) -> Iterator[SpecProblem]:
    """Yield what is wrong between `[gate]` and the rest of a study; parts of the wrong shape are left to pydantic."""
    gate = raw.get("gate")
    if not isinstance(gate, dict):
        return
    if raw.get("contrasts") == "best":
        yield SpecProblem("gate", 'goes without contrasts = "best": against the best, everything loses')
    named: list[tuple[tuple[str | int, ...], object]] = [
        (("gate", "only", k), name) for k, name in enumerate(_listed(gate.get("only")))
    ]
    named += [(("gate", "treatments", name), name) for name in _table(gate.get("treatments"))]
    for path, name in named:
        if isinstance(name, str) and (message := _not_judged(raw, name)):
            yield SpecProblem(key_path(path), message)
    for name in _table(gate.get("metrics")):
        metric = name.partition(" ")[0]
        if metric not in METRICS:
            yield SpecProblem(
                key_path(("gate", "metrics", name)), f"no metric {shown(metric)}{suggest(metric, METRICS)}"
            )
        elif name == raw.get("metric", "ok_per_s"):
            yield SpecProblem(
                key_path(("gate", "metrics", name)), "is the study's own: what is said in [gate] is of it"
            )
        elif METRICS[metric].better is None:
            yield SpecProblem(key_path(("gate", "metrics", name)), "neither more nor less of it is better")
    for number, name in enumerate(_listed(gate.get("doubts"))):
        if isinstance(name, str) and name not in (ALL, *GATES):
            near = suggest(name, (ALL, *GATES))
            where = near if "did you mean" in near else '; docs/gates.md has their names, "all" is any of them'
            yield SpecProblem(f"gate.doubts.{number}", f"no validity rule {shown(name)}{where}")


def _not_judged(raw: Mapping[str, Any], name: str) -> str | None:
    """Say why there is no comparison of a treatment called so."""
    treatments = _table(raw.get("treatments"))
    if name not in treatments:
        return f"no treatment {shown(name)}{suggest(name, treatments)}"
    if name == raw.get("baseline"):
        return "is the baseline: the others are compared with it"
    check = _table(treatments[name]).get("check")
    return "is a check of the laboratory, which must pass in any case" if check else None


def _listed(value: object) -> list[Any]:
    named = _one_or_more(value)
    return named if isinstance(named, list) else []


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
