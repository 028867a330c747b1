"""The study file: question, roles, factors, treatments, load, margin. Every mistake is named at once, by key path."""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.design import problems
from loadbook.design.workload import Workload

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")]
Ident = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")]
MAX_BYTES = 1_000_000
SMOKE = "-smoke"
SMOKE_S = (1.0, 0.3)  # load, warm-up
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
INCLUDE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.toml\Z")


def _finite_and_short(level: str | int | float | bool) -> str | int | float | bool:
    if isinstance(level, str) and len(level) > 1000:
        raise ValueError("a text of at most 1000 characters")
    if not isinstance(level, str) and not (math.isfinite(level) and abs(level) < 2**63):
        raise ValueError("a finite number of at most 64 bits")
    return level


Level = Annotated[str | int | float | bool, AfterValidator(_finite_and_short)]
HostPort = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]{0,253}:[0-9]{1,5}$")]


class _Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Role(_Spec):
    """What a host does in the study; a role with a `service` runs it with `vars` (the baseline's values)."""

    service: Name | None = None
    vars: dict[Ident, Level] = Field(default_factory=dict)
    external: HostPort | None = Field(None, description="host:port of something that is measured, not configured")


class Factor(_Spec):
    """A variable of a role's service that treatments set; `levels` lists the allowed values."""

    role: str = "web"
    var: Ident | None = Field(None, description="the service's variable; default: the factor's own name")
    levels: Annotated[tuple[Level, ...], Field(min_length=2)]


class Treatment(_Spec):
    """One combination of levels: what it sets differs from the roles' vars; `same_as` repeats another exactly.

    `workload` holds what differs from the study's own load: another tool, say, to see how far tools agree.

    `check` makes it a check of the laboratory instead of a treatment: "aa" (a duplicate of the baseline) or
    "control" (a cost known to be real, `expect` being its sign).
    """

    label: str | None = None
    set: dict[str, Level] = Field(default_factory=dict)
    workload: dict[str, Any] = Field(default_factory=dict)
    same_as: str | None = None
    check: Literal["aa", "control"] | None = None
    expect: Literal["better", "worse"] | None = None
    expect_effect: float | None = Field(None, description="known effect, ratio minus 1, drawn as a tick")
    note: str | None = None


class Claim(_Spec):
    """One published sentence with its two numbers, drawn beside ours."""

    claim: str
    treatment: str
    against: str
    value: float
    against_value: float
    metric: str = "requests_per_s"
    errors: int | None = None
    against_errors: int | None = None
    offered_per_s: float | None = None


class Published(_Spec):
    """What an article measured: its source, its file beside the study, its claims."""

    source: str
    file: str | None = None
    claims: tuple[Claim, ...] = ()


class Monitors(_Spec):
    """Traces of every host of the trial; `interval_s` between samples."""

    interval_s: Annotated[float, Field(ge=0.05, le=60)] = 0.25


class Gates(_Spec):
    """Thresholds of the validity rules (docs/gates.md); the defaults are the one place where they stand."""

    max_error_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    doubt_error_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    driver_cpu: Annotated[float, Field(gt=0, le=1)] = 0.95
    driver_cpu_doubt: Annotated[float, Field(gt=0, le=1)] = 0.90
    driver_own_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    drivers_apart: Annotated[float, Field(ge=0, le=1)] = 0.25
    drivers_apart_doubt: Annotated[float, Field(ge=0, le=1)] = 0.05
    offered_ceiling: Annotated[float, Field(gt=0, le=1)] = 0.98
    offered_shortfall: Annotated[float, Field(gt=0, le=1)] = 0.95
    steal: Annotated[float, Field(ge=0, le=1)] = 0.02
    foreign_cpu: Annotated[float, Field(ge=0)] = 0.10
    aa_p: Annotated[float, Field(gt=0, lt=1)] = 0.01
    trace_coverage: Annotated[float, Field(gt=0, le=1)] = 0.95
    little_tolerance: Annotated[float, Field(gt=0, lt=1)] = 0.3
    min_tail_requests: Annotated[float, Field(ge=0)] = 1.0
    bytes_tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.02
    header_bytes: Annotated[int, Field(ge=0)] = 1024
    clock_step_s: Annotated[float, Field(ge=0)] = 0.1
    absurd_duration: Annotated[float, Field(gt=1)] = 10.0
    facts_tolerance: Annotated[float, Field(ge=0)] = 0.02
    rest_time_wait: Annotated[int, Field(ge=0)] = 5000
    rest_conntrack: Annotated[int, Field(ge=0)] = 5000
    rest_open_files: Annotated[int, Field(ge=0)] = 1000
    rest_load: Annotated[float, Field(ge=0)] = 2.0


class Reset(_Spec):
    """When a host counts as back at rest before a trial; `wait_s` bounds the wait."""

    wait_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    settle_s: Annotated[float, Field(ge=0, le=60)] = 0.1
    max_time_wait: Annotated[int, Field(ge=0)] = 5000


class Study(_Spec):
    """One question and everything needed to answer it again."""

    schema_version: Literal[1] = Field(1, alias="schema")
    name: Name
    question: Annotated[str, Field(min_length=3, max_length=90)]
    background: str | None = None
    notebooks: tuple[str, ...] = ("config_effects", "run_quality")
    metric: str = "ok_per_s"
    baseline: str
    margin: Annotated[float, Field(gt=0, lt=1)] = 0.02
    blocks: Annotated[int, Field(ge=1, le=1000)] = 10
    seed: int = 1
    subset: str = "default"
    roles: dict[Ident, Role]
    workload: Workload
    factors: dict[Ident, Factor] = Field(default_factory=dict)
    treatments: Annotated[dict[Name, Treatment], Field(min_length=1)]
    subsets: dict[Name, tuple[str, ...]] = Field(default_factory=dict)
    monitors: Monitors = Monitors()
    reset: Reset = Reset()
    gates: Gates = Gates()
    published: Published | None = None

    def levels_of(self, treatment: str) -> dict[str, Level]:
        """Return every factor's level under `treatment`; what it does not set has the role's value."""
        spec = self.treatments[treatment]
        given = self.levels_of(spec.same_as) if spec.same_as else {}
        base = {n: self.roles[f.role].vars.get(f.var or n, f.levels[0]) for n, f in self.factors.items()}
        return base | given | spec.set

    def vars_of(self, treatment: str, role: str) -> dict[str, Level]:
        """Return the service variables of `role` under `treatment`."""
        levels = self.levels_of(treatment)
        own = {(f.var or n): levels[n] for n, f in self.factors.items() if f.role == role}
        return dict(self.roles[role].vars) | own

    def workload_of(self, treatment: str) -> Workload:
        """Return the load of `treatment`: the study's own with what the treatment changes of it."""
        spec = self.treatments[treatment]
        changed = self.treatments[spec.same_as].workload if spec.same_as else spec.workload
        return Workload.model_validate(self.workload.model_dump() | changed) if changed else self.workload

    def tools_of(self, treatments: Iterable[str]) -> tuple[str, ...]:
        """Return the names of the tools that these treatments are measured with, each once, in their order."""
        return tuple(dict.fromkeys(self.workload_of(name).tool for name in treatments))

    def label(self, treatment: str) -> str:
        """Return the name of a treatment as readers see it."""
        return self.treatments[treatment].label or treatment

    def in_subset(self, subset: str | None = None) -> tuple[str, ...]:
        """Return the treatments of a subset in file order; "all" is every treatment."""
        wanted = subset or self.subset
        if wanted == "all" or (wanted == "default" and wanted not in self.subsets):
            return tuple(self.treatments)
        if wanted not in self.subsets:
            hint = f"subsets: {', '.join([*self.subsets, 'all'])}"
            raise UsageError(f"study {self.name!r} has no subset {wanted!r}", hint)
        return self.subsets[wanted]


def read_study(path: Path) -> Study:
    """Read, merge and check a study file; StudyError names every mistake with its key path."""
    raw, study = read_raw(path), None
    found = list(_read_plans(path.parent, raw))
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        found += problems.of_validation(error, Study)
    found += [p for p in problems.of_meaning(raw) if p.path not in {q.path for q in found}]
    if study is None or found:
        raise StudyError(str(path), found)
    return study


def _read_plans(folder: Path, raw: dict[str, Any]) -> Iterator[SpecProblem]:
    """Put what the plan files of the loads hold beside their names, so that a run keeps it; yield what is missing."""
    treatments = raw.get("treatments")
    named = treatments.items() if isinstance(treatments, dict) else ()
    owners: list[tuple[tuple[str, ...], Any]] = [((), raw), *((("treatments", name), t) for name, t in named)]
    for where, owner in owners:
        load = owner.get("workload") if isinstance(owner, dict) else None
        name = load.get("plan") if isinstance(load, dict) else None
        if isinstance(load, dict) and isinstance(name, str) and FILE_NAME.match(name):
            try:
                load["plan_text"] = (folder / name).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
                path = problems.key_path((*where, "workload", "plan"))
                yield SpecProblem(path, f"{name!r} beside the study cannot be read: {reason}")


def find_study(studies: Path, name: str) -> Study:
    """Return the study called `name`: a path, a file in `studies`, or `<name>-smoke`, which comes by rule."""
    direct = Path(name)
    if direct.suffix == ".toml":
        return read_study(direct)
    path = studies / f"{name}.toml"
    if path.is_file():
        return read_study(path)
    if name.endswith(SMOKE) and (studies / f"{name.removesuffix(SMOKE)}.toml").is_file():
        return smoke(read_study(studies / f"{name.removesuffix(SMOKE)}.toml"))
    known = sorted(p.stem for p in studies.glob("*.toml"))
    raise UsageError(f"no study {problems.shown(name)} in {studies}{problems.suggest(name, known)}")


def smoke(study: Study) -> Study:
    """Return the short variant of a study: baseline, its checks and one treatment, 6 blocks of 1 s."""
    chosen = study.in_subset()
    checks = [t for t in chosen if study.treatments[t].check]
    others = [t for t in chosen if t not in checks and t != study.baseline]
    few = (study.baseline, *others[:1], *checks)
    kept = {*few, *(study.treatments[t].same_as for t in few)}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(c for c in study.published.claims if {c.treatment, c.against} <= kept)}
    )
    return study.model_copy(
        update={
            "name": study.name + SMOKE,
            "blocks": 6,
            "subset": "default",
            "subsets": {"default": few},
            "treatments": {name: _short(study, name) for name in study.treatments if name in kept},
            "workload": study.workload.shortened(*SMOKE_S),
            "published": published,
        }
    )


def _short(study: Study, name: str) -> Treatment:
    """Return a treatment whose own changes of the load are those of a smoke variant, too."""
    spec = study.treatments[name]
    short = study.workload_of(name).shortened(*SMOKE_S).model_dump()
    return spec.model_copy(update={"workload": {key: short[key] for key in spec.workload}})


def read_raw(path: Path, depth: int = 0) -> dict[str, Any]:
    """Return the file's tables with its `include` (a file beside it) merged under them."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"study file {path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise StudyError(str(path), [SpecProblem("file", f"larger than {MAX_BYTES} bytes")])
    try:
        raw = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # ValueError: not TOML, not UTF-8, or a number too long
        raise StudyError(str(path), [SpecProblem("file", str(error))]) from error
    include = raw.pop("include", None)
    if include is None:
        return raw
    if depth > 3 or not isinstance(include, str) or not INCLUDE.match(include):
        raise StudyError(
            str(path), [SpecProblem("include", "must name a .toml file beside this one, four deep at most")]
        )
    return _merge(read_raw(path.parent / include, depth + 1), raw)


def _merge(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
