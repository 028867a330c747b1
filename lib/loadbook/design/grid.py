"""[grid] of a study file: every combination of the levels of some factors -> treatments, named by their levels."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from loadbook.core.errors import SpecProblem
from loadbook.design.problems import shown, suggest
from loadbook.design.role import Ident, Level
from loadbook.design.study import Factor, Grid

MAX_TREATMENTS = 200
_UNFIT = re.compile(r"[^A-Za-z0-9._]+")


class _Parts(BaseModel):
    factors: dict[Ident, Factor]
    grid: Grid


def expand(raw: dict[str, Any]) -> list[SpecProblem]:
    """Add the treatments of [grid] to a study as it was read from its file; return what is wrong with it.

    A treatment that the file spells out under the name of a combination keeps its other keys (a label, a note).
    Tables of the wrong shape are left as they are, to be named when the study is validated.
    """
    given = raw.get("treatments", {})
    if "grid" not in raw or not isinstance(given, dict) or not all(isinstance(t, dict) for t in given.values()):
        return []
    try:
        parts = _Parts.model_validate({"factors": raw.get("factors", {}), "grid": raw["grid"]})
    except ValidationError:
        return []
    found = [SpecProblem(path, message) for path, message in _problems(parts)]
    if found:
        return found
    made = dict(_made(parts))
    clash = [SpecProblem(f"treatments.{n}.set", "is what [grid] sets: leave it out") for n in made
             if "set" in given.get(n, {})]  # fmt: skip
    raw["treatments"] = {n: t | given.get(n, {}) for n, t in made.items()} | {
        n: t for n, t in given.items() if n not in made
    }
    return clash


def _levels(parts: _Parts, name: str) -> tuple[Level, ...]:
    return parts.grid.only.get(name, parts.factors[name].levels)


def _made(parts: _Parts) -> Iterator[tuple[str, dict[str, Any]]]:
    names = parts.grid.factors
    for chosen in itertools.product(*(_levels(parts, name) for name in names)):
        levels = dict(zip(names, chosen, strict=True))
        yield name_of(chosen), {"label": _label(parts.grid, levels), "set": levels}


def name_of(levels: tuple[Level, ...]) -> str:
    """Return the name of a combination: its levels, joined by dashes."""
    return "-".join(_UNFIT.sub("_", str(level)).strip("._") for level in levels)


def _label(grid: Grid, levels: Mapping[str, Level]) -> str:
    if grid.label is None:
        return ", ".join(f"{name} {level}" for name, level in levels.items())
    return re.sub(r"\{(\w+)\}", lambda found: str(levels.get(found[1], found[0])), grid.label)


def _problems(parts: _Parts) -> Iterator[tuple[str, str]]:
    grid, count = parts.grid, 1
    for number, name in enumerate(grid.factors):
        if name not in parts.factors:
            yield f"grid.factors.{number}", f"no factor {shown(name)}{suggest(name, parts.factors)}"
            return
        count *= len(_levels(parts, name))
    for name, levels in grid.only.items():
        known = parts.factors[name].levels if name in grid.factors else ()
        for level in levels:
            if level not in known:
                yield f"grid.only.{name}", f"{shown(level)} is not one of its levels {shown(list(known))}"
    if count > MAX_TREATMENTS:
        yield "grid.factors", f"make {count} treatments, {MAX_TREATMENTS} at most"
    elif len({name for name, _ in _made(parts)}) < count:
        yield "grid.factors", "two combinations have one name: their levels differ in signs only"
