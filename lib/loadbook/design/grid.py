"""[grid] of a study file: every combination of the levels of some factors -> treatments, named by their levels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.design.problems import short_repr, suggestion
from loadbook.design.role import Ident, FactorLevel
from loadbook.design.study import Factor, Grid

MAX_TREATMENTS = 200
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._]+")


class _GridTables(BaseModel):
    factors: dict[Ident, Factor]
    grid: Grid


def expand_grid(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [grid] to a study as it was read from its file; return what is wrong with it.

    A treatment that the file spells out under the name of a combination keeps its other keys (a label, a note).
    Tables of the wrong shape are left as they are, to be named when the study is validated.
    """
    explicit = raw.get("treatments", {})
    if "grid" not in raw or not isinstance(explicit, dict) or not all(isinstance(t, dict) for t in explicit.values()):
        return []
    try:
        parts = _GridTables.model_validate({"factors": raw.get("factors", {}), "grid": raw["grid"]})
    except ValidationError:
        return []
    problems = [SpecProblem(path, message) for path, message in _grid_problems(parts)]
    if problems:
        return problems
    generated = dict(_grid_treatments(parts))
    conflicts = [SpecProblem(f"treatments.{n}.set", "is what [grid] sets: leave it out") for n in generated
                 if "set" in explicit.get(n, {})]  # fmt: skip
    raw["treatments"] = {n: t | explicit.get(n, {}) for n, t in generated.items()} | {
        n: t for n, t in explicit.items() if n not in generated
    }
    return conflicts


def _grid_levels(parts: _GridTables, name: str) -> tuple[FactorLevel, ...]:
    return parts.grid.only.get(name, parts.factors[name].levels)


def _grid_treatments(parts: _GridTables) -> Iterator[tuple[str, dict[str, Any]]]:
    names = parts.grid.factors
    for combination in itertools.product(*(_grid_levels(parts, name) for name in names)):
        levels = dict(zip(names, combination, strict=True))
        yield combination_name(combination), {"label": _grid_label(parts.grid, levels), "set": levels}


def combination_name(levels: tuple[FactorLevel, ...]) -> str:
    """Return the name of a combination: its levels, joined by dashes."""
    return "-".join(_NOT_IN_NAMES.sub("_", str(level)).strip("._") for level in levels)


def _grid_label(grid: Grid, levels: Mapping[str, FactorLevel]) -> str:
    if grid.label is None:
        return ", ".join(f"{name} {level}" for name, level in levels.items())
    return re.sub(r"\{(\w+)\}", lambda match: str(levels.get(match[1], match[0])), grid.label)


def _grid_problems(parts: _GridTables) -> Iterator[tuple[str, str]]:
    grid, count = parts.grid, 1
    for number, name in enumerate(grid.factors):
        if name not in parts.factors:
            yield f"grid.factors.{number}", f"no factor {short_repr(name)}{suggestion(name, parts.factors)}"
            return
        count *= len(_grid_levels(parts, name))
    for name, levels in grid.only.items():
        known = parts.factors[name].levels if name in grid.factors else ()
        for level in levels:
            if level not in known:
                yield f"grid.only.{name}", f"{short_repr(level)} is not one of its levels {short_repr(list(known))}"
    if count > MAX_TREATMENTS:
        yield "grid.factors", f"make {count} treatments, {MAX_TREATMENTS} at most"
    elif len({name for name, _ in _grid_treatments(parts)}) < count:
        yield "grid.factors", "two combinations have one name: their levels differ in signs only"
