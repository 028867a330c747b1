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
from loadbook.design.stopping import Stopping
from loadbook.design.study import Study, Treatment

SMOKE = "-smoke"
SMOKE_S = (1.0, 0.3)  # load, warm-up
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
INCLUDE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.toml\Z")


def read_study(path: Path) -> Study:
    """Read, merge and check a study file; StudyError names every mistake with its key path."""
    raw, study = read_raw(path), None
    found = [*factorial_file.expand(raw), *grid.expand(raw), *_read_plans(path.parent, raw)]
    found += settings.read_configs(path.parent, raw)
    try:
        study = Study.model_validate(raw)
    except ValidationError as error:
        found += problems.of_validation(error, Study)
    meant = [*problems.of_meaning(raw), *build_gate.problems(raw)]
    found += [p for p in meant if p.path not in {q.path for q in found}]
    if study is not None and not found:
        found = settings.problems(study)
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
    if name.endswith(SMOKE) and (studies / f"{name.removesuffix(SMOKE)}.toml").is_file():
        return smoke(read_study(studies / f"{name.removesuffix(SMOKE)}.toml"))
    known = sorted(p.stem for p in studies.glob("*.toml"))
    raise UsageError(f"no study {problems.shown(name)} in {studies}{problems.suggest(name, known)}")


def smoke(study: Study) -> Study:
    """Return the short variant of a study: baseline, its checks and one treatment, 6 blocks of 1 s.

    A study that has a subset `smoke` says itself what belongs to it. Of a factorial it is the whole factorial of the
    first two switches.
    """
    chosen = study.in_subset()
    checks = [t for t in chosen if study.treatments[t].check]
    others = [t for t in chosen if t not in checks and t != study.baseline]
    small, made = factorial_file.shortened(study) or (None, {})
    few = study.subsets.get("smoke") or (*(made or (study.baseline, *others[:1])), *checks)
    kept = {*few, *(study.treatments[t].same_as for t in few if t in study.treatments)}
    published = study.published and study.published.model_copy(
        update={"claims": tuple(c for c in study.published.claims if set(c.arms) <= kept)}
    )
    return study.model_copy(
        update={
            "name": study.name + SMOKE,
            "blocks": 6,
            "stopping": Stopping(),
            "subset": "default",
            "subsets": {"default": few},
            "factorial": small,
            "treatments": made | {name: _short(study, name) for name in study.treatments if name in kept - set(made)},
            "workload": study.workload.shortened(*SMOKE_S),
            "published": published,
            "gate": study.gate and study.gate.among(few),
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
        raw = read_toml(path)
    except OSError as error:
        raise UsageError(f"study file {path}: {error.strerror}") from error
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
