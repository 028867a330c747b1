"""Study files: found by name, read with their includes and plans; every mistake is named at once, by key path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from loadbook.core.errors import SpecProblem, StudyError, UsageError
from loadbook.core.toml import read_text, read_toml
from loadbook.design import build_gate, factorial_file, grid, problems, settings
from loadbook.design.stopping import StoppingRule
from loadbook.design.study import Study, Treatment

SMOKE_SUFFIX = "-smoke"
SMOKE_TIMES_S = (1.0, 0.3)  # load, warm-up
FILE_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
INCLUDE_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.toml\Z")


def read_study(path: Path) -> Study:
    """Read, merge and check a study file; StudyError names every mistake with its key path."""
    raw, study = read_study_tables(path), None
    mistakes = [*factorial_file.expand_factorial(raw), *grid.expand_grid(raw), *_read_plan_files(path.parent, raw)]
    mistakes += settings.read_configs(path.parent, raw)
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        mistakes += problems.validation_problems(error, Study)
    consistency = [*problems.consistency_problems(raw), *build_gate.ci_policy_problems(raw)]
    mistakes += [p for p in consistency if p.path not in {q.path for q in mistakes}]
    if study is not None and not mistakes:
        mistakes = settings.setting_problems(study)
    if study is None or mistakes:
        raise StudyError(str(path), mistakes)
    return study


def _read_plan_files(folder: Path, raw: dict[str, Any]) -> Iterator[SpecProblem]:
    """Put what the plan files of the loads hold beside their names, so that a run keeps it; yield what is missing."""
    treatments = raw.get("treatments")
    tables = treatments.items() if isinstance(treatments, dict) else ()
    owners: list[tuple[tuple[str, ...], Any]] = [((), raw), *((("treatments", name), t) for name, t in tables)]
    for where, owner in owners:
        load = owner.get("workload") if isinstance(owner, dict) else None
        name = load.get("plan") if isinstance(load, dict) else None
        if isinstance(load, dict) and isinstance(name, str) and FILE_NAME_PATTERN.match(name):
            try:
                load["plan_text"] = read_text(folder / name)
            except (OSError, ValueError) as error:
                reason = error.strerror if isinstance(error, OSError) else error
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
    if name.endswith(SMOKE_SUFFIX) and (studies / f"{name.removesuffix(SMOKE_SUFFIX)}.toml").is_file():
        return smoke_variant(read_study(studies / f"{name.removesuffix(SMOKE_SUFFIX)}.toml"))
    known = sorted(p.stem for p in studies.glob("*.toml"))
    raise UsageError(f"no study {problems.short_repr(name)} in {studies}{problems.suggestion(name, known)}")


def smoke_variant(study: Study) -> Study:
    """Return the short variant of a study: baseline, its checks and one treatment, 6 blocks of 1 s.

    A study that has a subset `smoke` says itself what belongs to it. Of a factorial it is the whole factorial of the
    first two switches.
    """
    treatments = study.treatments_in()
    checks = [t for t in treatments if study.treatments[t].check]
    others = [t for t in treatments if t not in checks and t != study.baseline]
    factorial, generated = factorial_file.smoke_factorial(study) or (None, {})
    subset = study.subsets.get("smoke") or (*(generated or (study.baseline, *others[:1])), *checks)
    names = {*subset, *(study.treatments[t].same_as for t in subset if t in study.treatments)}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(c for c in study.published.claims if set(c.treatments) <= names)}
    )
    return study.model_copy(
        update={
            "name": study.name + SMOKE_SUFFIX,
            "blocks": 6,
            "stopping": StoppingRule(),
            "subset": "default",
            "subsets": {"default": subset},
            "factorial": factorial,
            "treatments": generated | {name: _shortened_treatment(study, name) for name in study.treatments if name in names - set(generated)},
            "workload": study.workload.with_duration(*SMOKE_TIMES_S),
            "published": published,
            "gate": study.gate and study.gate.restricted_to(subset),
        }
    )


def _shortened_treatment(study: Study, name: str) -> Treatment:
    """Return a treatment whose own changes of the load are those of a smoke variant, too."""
    spec = study.treatments[name]
    load = study.workload_of(name).with_duration(*SMOKE_TIMES_S).model_dump()
    return spec.model_copy(update={"workload": {key: load[key] for key in spec.workload}})


def read_study_tables(path: Path, depth: int = 0) -> dict[str, Any]:
    """Return the file's tables with its `include` (a file beside it) merged under them."""
    try:
        raw = read_toml(path)
    except OSError as error:
        raise UsageError(f"study file {path}: {error.strerror}") from error
    include = raw.pop("include", None)
    if include is None:
        return raw
    if depth > 3 or not isinstance(include, str) or not INCLUDE_PATTERN.match(include):
        raise StudyError(
            str(path), [SpecProblem("include", "must name a .toml file beside this one, four deep at most")]
        )
    return _merge_tables(read_study_tables(path.parent / include, depth + 1), raw)


def _merge_tables(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(under)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge_tables(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged
