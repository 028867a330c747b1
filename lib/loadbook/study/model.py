"""Model of a whole study (`reader` reads it from TOML), and of the claims of an article that a study checks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, model_validator

from loadbook.core.errors import UsageError
from loadbook.core.metrics import CAPACITY, OBJECTIVE_TIME, get_metric
from loadbook.core.toml import OLD_HYPOTHESES, renamed_field
from loadbook.modes.base import EXECUTIONS
from loadbook.modes.capacity.spec import CapacityObjective, least_starts
from loadbook.study.limits import CiPolicy, MonitorSettings, ResetSettings, StoppingRule, ValidityLimits
from loadbook.study.problems import last_declared_look, table_in
from loadbook.study.treatments import Factor, Factorial, FactorLevel, Grid, Ident, Name, Role, Setting, Treatment
from loadbook.study.workload import StrictModel, Workload

FACTORIAL_NOTEBOOKS = ("factorial", "run_quality")
CAPACITY_NOTEBOOKS = ("capacity", "run_quality")
CERTIFIED_NOTEBOOKS = ("certified_rates", "run_quality")
TrialExecution = str  # value of `execution` of a mode (`loadbook.modes.base.MODES`)
if TYPE_CHECKING:
    Execution = str
else:
    Execution = Literal["auto", *EXECUTIONS]
ClaimKind = Literal["better", "worse", "best", "no-loss", "equivalent", "fewer-errors", "more-errors", "interaction",
                    "slope", "resource"]  # fmt: skip
ERROR_CLAIM_KINDS: tuple[ClaimKind, ...] = ("fewer-errors", "more-errors", "interaction")


class Claim(StrictModel):
    """One sentence of an article on `treatment` against another treatment, with the article's numbers for both.

    Attributes
    ----------
    claim : short form of the sentence, in your own words.
    quote : the article's own words, if they are available.
    kind : kind of check (docs/claims.md); default: better or worse, as the article's two numbers say.
    treatment, against : the two treatments of the study that are compared; a resource claim uses only `treatment`.
    among : in a "best" claim the other rivals, in "slope" the points between the two treatments, in "interaction" the
        other two cells (default: all treatments that ran).
    further : more pairs for the same comparison (for example other page sizes); the geometric mean of ratios is judged.
    factors : in "interaction" cause and remedy (`treatment` has both, `against` the cause); in "slope" the factor whose
        levels are the numbers on the x axis.
    slope : range of the log-log slope that the sentence states.
    resource : resource whose use is checked, on the hosts of `role`.
    role : role whose hosts' resource is checked.
    used : range of the resource's use by `treatment` in all trials: share of the capacity, for memory the highest use
        in bytes.
    margin : margin in place of the study's; for errors the share of trials that matters.
    value, against_value : the article's numbers for the two treatments, in the metric's unit.
    metric : metric of these numbers (docs/data-format.md).
    statistic : statistic of the metric, such as p99 of a time.
    errors, against_errors : failed requests of the two treatments in the article.
    offered_per_s : requests per second that the article's tool offered, for an open load.
    """

    claim: str
    quote: str | None = None
    kind: ClaimKind | None = None
    treatment: str
    against: str
    among: tuple[str, ...] = ()
    further: tuple[tuple[str, str], ...] = ()
    factors: tuple[str, ...] = ()
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
        """Return `kind` or, without one, "better" or "worse" by the two values and the metric's direction."""
        if self.kind:
            return self.kind
        is_higher = (self.value or 0.0) > (self.against_value or 0.0)
        return "better" if is_higher != self.is_lower_better else "worse"

    @property
    def is_lower_better(self) -> bool:
        """Return whether lower values of the claim's metric are better, as of a time."""
        return get_metric(self.metric).better == "lower"

    @property
    def claimed_effect(self) -> float | None:
        """Return the article's change, `value` over `against_value` minus 1; None without two positive numbers."""
        value, against_value = self.value or 0.0, self.against_value or 0.0
        return value / against_value - 1 if value > 0 and against_value > 0 else None

    @property
    def treatments(self) -> tuple[str, ...]:
        """Return every treatment that the claim concerns, each once."""
        pairs = [name for pair in self.further for name in pair]
        return tuple(dict.fromkeys((self.treatment, self.against, *self.among, *pairs)))


class Published(StrictModel):
    """Results that an article published.

    Attributes
    ----------
    source : author, title, place and date of the article.
    file : files beside the study with the article's outputs or tables.
    claims : sentences of the article that the study checks.
    """

    source: str
    file: str | tuple[str, ...] | None = None
    claims: tuple[Claim, ...] = ()


# recorded plans contain the names of schema 1
_RECORDED_HYPOTHESES = {present: old for old, present in OLD_HYPOTHESES.items()}


Hypothesis = Annotated[
    Literal["difference", "non-inferiority"],
    BeforeValidator(lambda value: OLD_HYPOTHESES.get(value, value) if isinstance(value, str) else value),
    PlainSerializer(lambda value, info: _RECORDED_HYPOTHESES.get(value, value) if info.by_alias else value),
]


class Study(StrictModel):
    """One question, and everything needed to answer it again.

    Attributes
    ----------
    schema : version of this format.
    name : name of the file without its ending.
    question : question that the report answers, at least 3 characters.
    background : text that readers should know beforehand.
    notebooks : pages of the report, from notebooks/; the first is the study's own. The tables [factorial] and
        [capacity] have other defaults: their own page, and run_quality.
    metric : metric that is compared (docs/data-format.md).
    baseline : treatment with which the others are compared.
    stratify_by : factor whose levels are conditions (near, remote); each condition is analysed on its own.
    margin : smallest difference that matters, 0.02 for 2 %; with hypothesis = "non-inferiority" the largest accepted
        loss, then required.
    blocks : number of blocks; each treatment runs once per block.
    stopping : rule that decides when a run ends (docs/comparisons.md).
    execution : "interleaved": all treatments of a block run at once, and their load generators alternate in slices
        (docs/interleaving.md); "shared": all run at once, and one load generator sends the requests of all by turns
        (docs/shared-loads.md); "plain": one trial after the other; "auto": shared for an open load and interleaved
        for a closed one where possible, else plain.
    latency_blocks : number of plain blocks that run before the interleaved ones and tell latencies, which interleaved
        trials do not tell; at most `blocks`. In a run of plain trials, every block tells both.
    slices : lengths of slices in seconds that interleaved or shared blocks have in turn, to see whether an effect
        depends on them; empty: one length, of interleaved blocks chosen by the latency.
    turns : in shared blocks, "slice": treatments have the whole rate by turns; "request": each has its share of the
        rate all the time.
    contrasts : reference of each treatment: the baseline, the treatment before it, or the best (docs/comparisons.md).
    hypothesis : "difference", or "non-inferiority": only whether a loss beyond the margin is excluded.
    seed : seed of the random order within blocks.
    subset : treatments that run by default; "default" means all treatments if no subset has this name.
    roles : roles of hosts, each with its service.
    workload : requests and their rate or concurrency.
    factors : settings that treatments may vary.
    factorial, grid : rules that generate treatments (docs/factorial.md, docs/study-file.md).
    treatments : treatments that are compared.
    subsets : named groups of treatments, each with the baseline; "smoke" defines the smoke variant.
    monitors : traces that are recorded of hosts during a trial.
    reset : conditions for hosts to be at rest between trials.
    validity : thresholds of the validity rules (docs/validity-rules.md).
    ci : results that fail a build.
    capacity : objective within which each treatment's capacity is searched; the metric is then capacity_per_s, and
        workload.rate_per_s the rate at which the search begins. With certified_share, the rates of the loads are
        certified, and the metric is objective_time (docs/capacity.md).
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
    execution: Execution = "auto"
    latency_blocks: Annotated[int, Field(ge=0, le=1000)] = 0
    slices: tuple[Annotated[float, Field(ge=0.01, le=1)], ...] = ()
    turns: Literal["slice", "request"] = "slice"
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
    capacity: CapacityObjective | None = None
    published: Published | None = None

    @model_validator(mode="before")
    @classmethod
    def _defaults_from_tables(cls, raw: Any) -> Any:
        if not isinstance(raw, dict):
            return raw
        last = last_declared_look(raw)
        factorial = {"notebooks": FACTORIAL_NOTEBOOKS} if raw.get("factorial") else {}
        return ({"blocks": last} if last else {}) | factorial | _capacity_defaults(raw) | raw

    def repeated_treatment(self, treatment: str) -> str | None:
        """Return the treatment that this one repeats, for an A/A arm the baseline; None if it repeats none."""
        spec = self.treatments[treatment]
        return spec.same_as or (self.baseline if spec.check == "aa" else None)

    def baseline_of(self, treatment: str) -> str:
        """Return the baseline of a treatment: the study's or, in a stratified study, the baseline of its stratum.

        This is the first treatment, other than A/A arms and controls, that differs from the study's baseline in stratum
        only; if there is none, the study's baseline.
        """
        if self.stratify_by is None:
            return self.baseline
        wanted_levels = self.levels_of(self.baseline) | {self.stratify_by: self.levels_of(treatment)[self.stratify_by]}
        like = [name for name, t in self.treatments.items() if not t.check and self.levels_of(name) == wanted_levels]
        return like[0] if like else self.baseline

    def levels_of(self, treatment: str) -> dict[str, FactorLevel]:
        """Return factor -> level under `treatment`, of every factor of the study.

        A factor that it does not set has the value of its role or of the load; without such a value, its first level.
        """
        spec = self.treatments[treatment]
        repeated_levels = self.levels_of(spec.same_as) if spec.same_as else {}
        return (
            {name: self._usual_level(name, factor) for name, factor in self.factors.items()}
            | repeated_levels
            | spec.set
        )

    def _usual_level(self, name: str, factor: Factor) -> FactorLevel:
        """Return the level of a factor that a treatment does not set."""
        if factor.of == "variant":
            return factor.levels[0]
        if factor.of == "workload":
            level = dict(self.workload).get(factor.var or name)
        else:
            level = self.roles[factor.role].level_of(name, factor.of, factor.var)
        return factor.levels[0] if level is None else level

    def setting(self, treatment: str, role: str) -> Setting:
        """Return the setting of a role under `treatment`: the role's variant with the levels of all factors."""
        levels = self.levels_of(treatment)
        role_factors = {name: factor for name, factor in self.factors.items() if factor.role == role}
        variants = [str(levels[name]) for name, factor in role_factors.items() if factor.of == "variant"]
        setting = self.roles[role].variant_setting(variants[0]) if variants else self.roles[role].base_setting
        if not setting.is_present and variants:
            return setting
        changes: dict[str, Any] = {}
        for name, factor in role_factors.items():
            if factor.of in ("vars", "sysctls"):
                changes.setdefault(factor.of, {})[factor.var or name] = levels[name]
            elif factor.of not in ("variant", "workload"):
                changes[factor.of] = levels[name]
        return setting.with_changes(changes)

    def vars_of(self, treatment: str, role: str) -> dict[str, FactorLevel]:
        """Return the variables of the service of `role` under `treatment`."""
        return self.setting(treatment, role).vars

    def target_of(self, treatment: str) -> str:
        """Return the role that gets the load: the target or, if a treatment leaves that out, its first backend."""
        role, passed = self.workload.target, set[str]()
        while not (setting := self.setting(treatment, role)).is_present and setting.backends and role not in passed:
            passed.add(role)
            role = setting.backends[0]
        return role

    def workload_of(self, treatment: str) -> Workload:
        """Return the workload of `treatment`: the study's workload with the treatment's changes."""
        spec, levels = self.treatments[treatment], self.levels_of(treatment)
        by_factor = {f.var or n: levels[n] for n, f in self.factors.items() if f.of == "workload"}
        if (page_bytes := self.page_bytes(treatment)) is not None:
            by_factor["expect_bytes"] = page_bytes
        by_hand = self.treatments[spec.same_as].workload if spec.same_as else spec.workload
        changed = by_factor | by_hand
        return Workload.model_validate(self.workload.model_dump() | changed) if changed else self.workload

    @property
    def page_size_factor(self) -> str | None:
        """Return the factor that sets the page size, a variable of a service; None if all pages have the same size."""
        return next((n for n, f in self.factors.items() if f.of == "vars" and (f.var or n) == "page_bytes"), None)

    def page_bytes(self, treatment: str) -> int | None:
        """Return the page size of a treatment in bytes; None if no factor sets it."""
        level = self.levels_of(treatment)[self.page_size_factor] if self.page_size_factor else None
        return level if type(level) is int else None

    def first_same_page(self, treatment: str) -> str:
        """Return the first treatment (baseline first) with the same page size, and so the same response."""
        arms, size = [self.baseline, *self.treatments], self.page_bytes(treatment)
        return next(name for name in arms if self.page_bytes(name) == size)

    def tools_of(self, treatments: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the load generators of these treatments, each once, in their order."""
        return tuple(dict.fromkeys(self.workload_of(name).tool for name in treatments))

    @property
    def labels(self) -> dict[str, str]:
        """Return treatment -> label shown to readers."""
        return {name: self.label(name) for name in self.treatments}

    def label(self, treatment: str) -> str:
        """Return the label of a treatment that is shown to readers; default: its name."""
        return self.treatments[treatment].label or treatment

    def treatments_in(self, subset: str | None = None) -> tuple[str, ...]:
        """Return the treatments of a subset as listed in the file; "all": every treatment, None: the study's subset.

        Raises
        ------
        UsageError : the study has no such subset.
        """
        name = subset or self.subset
        if name == "all" or (name == "default" and name not in self.subsets):
            return tuple(self.treatments)
        if name not in self.subsets:
            hint = f"subsets: {', '.join([*self.subsets, 'all'])}"
            raise UsageError(f"study {self.name!r} has no subset {name!r}", hint)
        return self.subsets[name]


def _capacity_defaults(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the values of keys that follow from the table [capacity], if there is one."""
    if not raw.get("capacity"):
        return {}
    share = table_in(raw, "capacity").get("certified_share")
    if share is None:
        return {"metric": CAPACITY, "notebooks": CAPACITY_NOTEBOOKS}
    starts = {"blocks": least_starts(share, 1)} if isinstance(share, float) and 0.5 <= share <= 0.99 else {}
    return {"metric": OBJECTIVE_TIME, "notebooks": CERTIFIED_NOTEBOOKS, **starts}
