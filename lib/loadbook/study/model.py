"""The model of a whole study: question, roles, factors, treatments, load, margin (`reader` reads it from TOML)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    SerializationInfo,
    model_validator,
)

from loadbook.core.errors import UsageError
from loadbook.core.renamed_keys import OLD_HYPOTHESES, renamed_field
from loadbook.study.ci_policy import CiPolicy
from loadbook.study.claims import Published
from loadbook.study.limits import MonitorSettings, ResetSettings, StoppingRule, ValidityLimits, last_declared_look
from loadbook.study.treatments import (
    Factor,
    Factorial,
    FactorLevel,
    Grid,
    Ident,
    Name,
    Role,
    Setting,
    StrictModel,
    Treatment,
)
from loadbook.study.workload import Workload

# records write the name of schema 1
_RECORDED_HYPOTHESES = {present: old for old, present in OLD_HYPOTHESES.items()}


def _serialize_hypothesis(value: str, info: SerializationInfo) -> str:
    return _RECORDED_HYPOTHESES.get(value, value) if info.by_alias else value


Hypothesis = Annotated[
    Literal["difference", "non-inferiority"],
    BeforeValidator(lambda value: OLD_HYPOTHESES.get(value, value) if isinstance(value, str) else value),
    PlainSerializer(_serialize_hypothesis),
]
PAGE_SIZE_VAR = "page_bytes"  # the variable of services for the size of their page


class Study(StrictModel):
    """One question and everything needed to answer it again.

    Attributes
    ----------
    schema : of this format.
    name : the file's name without its ending.
    question : what the report answers, at least 3 characters.
    background : what a reader should know.
    notebooks : the pages of the report, of notebooks/; the first is the study's own.
    metric : what is compared (docs/data-format.md).
    baseline : the treatment that others are compared with.
    stratify_by : a factor whose levels are conditions (near, remote), each judged by itself.
    margin : the smallest difference that matters, 0.02 for 2 %; with hypothesis = "non-inferiority" the largest loss
        that is accepted, and needed.
    blocks : how often every treatment runs.
    stopping : when a run ends (docs/comparisons.md).
    contrasts : what each treatment is compared with: the baseline, the one before it, the best (docs/comparisons.md).
    hypothesis : whether they differ, or only whether a loss beyond the margin is excluded.
    seed : what the order within blocks is drawn from.
    subset : the treatments that run unless others are asked for; "default" means all where no subset has this name.
    roles : what hosts do, and with which service.
    workload : what is requested, and how hard.
    factors : what treatments may set.
    factorial, grid : treatments made by rule (docs/factorial.md, docs/study-file.md).
    treatments : what is compared.
    subsets : groups of treatments by name, each with the baseline; one called "smoke" is the smoke variant.
    monitors : what is recorded of hosts during a trial.
    reset : how hosts come to rest between trials.
    validity : limits of the validity rules (docs/validity-rules.md).
    ci : what fails a build.
    published : claims of an article (docs/claims.md).
    """

    schema_version: Literal[1] = Field(1, alias="schema")
    name: Name
    question: Annotated[str, Field(min_length=3, max_length=90)]
    background: str | None = None
    notebooks: tuple[str, ...] = ("config_effects", "run_quality")
    metric: str = "ok_per_s"
    baseline: str
    stratify_by: Ident | None = renamed_field("stratify_by", "apart", None)
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.02
    blocks: Annotated[int, Field(ge=1, le=1000)] = 10
    stopping: StoppingRule = StoppingRule()
    contrasts: Literal["baseline", "adjacent", "best"] = "baseline"
    hypothesis: Hypothesis = renamed_field("hypothesis", "asks", "difference")
    seed: int = 1
    subset: str = "default"
    roles: dict[Ident, Role]
    workload: Workload
    factors: dict[Ident, Factor] = Field(default_factory=dict)
    factorial: Factorial | None = None
    grid: Grid | None = None
    treatments: Annotated[dict[Name, Treatment], Field(min_length=1)]
    subsets: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    monitors: MonitorSettings = MonitorSettings()
    reset: ResetSettings = ResetSettings()
    validity: ValidityLimits = renamed_field("validity", "gates", ValidityLimits())
    ci: CiPolicy | None = renamed_field("ci", "gate", None)
    published: Published | None = None

    @model_validator(mode="before")
    @classmethod
    def _default_blocks_from_looks(cls, raw: Any) -> Any:
        last = last_declared_look(raw) if isinstance(raw, dict) and "blocks" not in raw else None
        return raw | {"blocks": last} if last else raw

    def repeated_treatment(self, treatment: str) -> str | None:
        """Return the treatment that this one duplicates, for an A/A arm the baseline; None if it is no duplicate."""
        spec = self.treatments[treatment]
        return spec.same_as or (self.baseline if spec.check == "aa" else None)

    def baseline_of(self, treatment: str) -> str:
        """Return the baseline of a treatment: the study's or, in a stratified study, that of its stratum.

        That is the first treatment, no check, that differs from the study's baseline in the stratum only.
        """
        if self.stratify_by is None:
            return self.baseline
        wanted_levels = self.levels_of(self.baseline) | {self.stratify_by: self.levels_of(treatment)[self.stratify_by]}
        like = [name for name, t in self.treatments.items() if not t.check and self.levels_of(name) == wanted_levels]
        return like[0] if like else self.baseline

    def levels_of(self, treatment: str) -> dict[str, FactorLevel]:
        """Return every factor's level under `treatment`; factors that it does not set have the role's value."""
        spec = self.treatments[treatment]
        repeated_levels = self.levels_of(spec.same_as) if spec.same_as else {}
        return (
            {name: self._usual_level(name, factor) for name, factor in self.factors.items()}
            | repeated_levels
            | spec.set
        )

    def _usual_level(self, name: str, factor: Factor) -> FactorLevel:
        """Return the level that a factor has where nothing sets it."""
        if factor.of == "variant":
            return factor.levels[0]
        if factor.of == "workload":
            level = getattr(self.workload, factor.var or name, None)
        else:
            level = getattr(self.roles[factor.role], factor.of)
            level = level.get(factor.var or name) if isinstance(level, dict) else level
        return factor.levels[0] if level is None else level

    def setting(self, treatment: str, role: str) -> Setting:
        """Return the setting of a role under `treatment`: its variant, with the levels of all factors."""
        levels = self.levels_of(treatment)
        role_factors = {name: factor for name, factor in self.factors.items() if factor.role == role}
        variants = [str(levels[name]) for name, factor in role_factors.items() if factor.of == "variant"]
        setting = self.roles[role].variant_setting(variants[0]) if variants else self.roles[role].base_setting
        if not setting.is_present and variants:
            return setting
        return setting.with_changes(
            _role_changes({n: f for n, f in role_factors.items() if f.of not in ("variant", "workload")}, levels)
        )

    def vars_of(self, treatment: str, role: str) -> dict[str, FactorLevel]:
        """Return the service variables of `role` under `treatment`."""
        return self.setting(treatment, role).vars

    def target_of(self, treatment: str) -> str:
        """Return the role that gets the load: the target or, where a treatment leaves that out, its first backend."""
        role, passed = self.workload.target, set[str]()
        while not (setting := self.setting(treatment, role)).is_present and setting.backends and role not in passed:
            passed.add(role)
            role = setting.backends[0]
        return role

    def workload_of(self, treatment: str) -> Workload:
        """Return the workload of `treatment`: the study's workload with the treatment's changes."""
        spec, levels = self.treatments[treatment], self.levels_of(treatment)
        by_factor = {f.var or n: levels[n] for n, f in self.factors.items() if f.of == "workload"}
        by_factor |= self._page_expectation(levels)
        by_hand = self.treatments[spec.same_as].workload if spec.same_as else spec.workload
        changed = by_factor | by_hand
        return Workload.model_validate(self.workload.model_dump() | changed) if changed else self.workload

    def _page_expectation(self, levels: Mapping[str, FactorLevel]) -> dict[str, FactorLevel]:
        """Return the expected bytes of a response where a factor sets the size of the page."""
        sizes = [levels[n] for n, f in self.factors.items() if f.of == "vars" and (f.var or n) == PAGE_SIZE_VAR]
        return {"expect_bytes": sizes[0]} if sizes and type(sizes[0]) is int else {}

    def tools_of(self, treatments: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the tools that these treatments are measured with, each once, in their order."""
        return tuple(dict.fromkeys(self.workload_of(name).tool for name in treatments))

    def label(self, treatment: str) -> str:
        """Return the name of a treatment as readers see it."""
        return self.treatments[treatment].label or treatment

    def treatments_in(self, subset: str | None = None) -> tuple[str, ...]:
        """Return the treatments of a subset in file order; "all" is every treatment."""
        name = subset or self.subset
        if name == "all" or (name == "default" and name not in self.subsets):
            return tuple(self.treatments)
        if name not in self.subsets:
            hint = f"subsets: {', '.join([*self.subsets, 'all'])}"
            raise UsageError(f"study {self.name!r} has no subset {name!r}", hint)
        return self.subsets[name]


def _role_changes(factors: Mapping[str, Factor], levels: Mapping[str, FactorLevel]) -> dict[str, Any]:
    """Return the keys of a role that factors set, with their levels."""
    parts: dict[str, Any] = {}
    for name, factor in factors.items():
        if factor.of in ("vars", "sysctls"):
            parts.setdefault(factor.of, {})[factor.var or name] = levels[name]
        else:
            parts[factor.of] = levels[name]
    return parts
