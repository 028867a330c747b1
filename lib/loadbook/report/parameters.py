"""Parameters of notebooks: what a notebook declares, what was given, and every misfit named at once.

papermill only warns about an unknown name and never looks at types; both are errors here, in our runner as well as
inside the notebook, for people who call papermill themselves.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from loadbook.core.errors import UsageError

Scalar = str | int | float | bool | None
INJECTED_COMMENT = "# Parameters"  # the comment that papermill puts on top of the cell it injects
_TYPE_NAMES = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


def parse_literals(source: str) -> dict[str, Any]:
    """Return the names that a cell assigns literals to; UsageError for a cell that does anything else."""
    found: dict[str, Any] = {}
    try:
        for statement in ast.parse(source).body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                raise ValueError(f"line {statement.lineno} is no assignment")
            found[statement.targets[0].id] = ast.literal_eval(statement.value)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"a parameters cell must hold plain assignments only: {error}") from error
    return found


def parameter_problems(declared: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return one sentence per given parameter that is unknown, unsafe as a name, or of another type."""
    return [text for name, value in given.items() if (text := _parameter_problem(declared, name, value))]


def validate_parameters(notebook: str, declared: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise UsageError naming every misfit and the parameters that `notebook` knows."""
    found = parameter_problems(declared, given)
    if found:
        known = ", ".join(f"{name} ({_type_name(value)})" for name, value in declared.items())
        raise UsageError(f"{notebook}: " + "; ".join(found), f"parameters: {known or 'none'}")


def parse_pairs(declared: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """Return ``name=value`` texts as values of the declared types; UsageError for a text that does not fit."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"parameter {pair!r} is not name=value")
        given[name] = _convert_text(name, declared[name], text) if name in declared else text
    return given


def check_parameters() -> None:
    """Check, inside a notebook, the parameters that papermill injected; without papermill there is nothing to check.

    Raises
    ------
    UsageError : a parameter that the notebook does not have, or a value of another type; those there are come with it.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None:
        check_injected(shell.user_ns.get("In", []))


def check_injected(cells: Sequence[str]) -> None:
    """Check the cell that papermill injected against the parameters cell before it; no such cell, nothing to check.

    `cells` are the sources executed so far, as IPython keeps them in ``In``.
    """
    positions = [k for k, source in enumerate(cells) if source.startswith(INJECTED_COMMENT)]
    if positions:
        declared = parse_literals(cells[positions[-1] - 1])
        validate_parameters("notebook", declared, parse_literals(cells[positions[-1]]))


def _parameter_problem(declared: Mapping[str, Any], name: str, value: Any) -> str | None:
    if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name) or name.startswith("_"):
        return f"parameter {name!r} is not a usable name"
    if name not in declared:
        near = get_close_matches(name, declared, 1)
        return f"unknown parameter {name!r}" + (f" (did you mean {near[0]!r}?)" if near else "")
    if not _matches_type(declared[name], value):
        return f"parameter {name!r} must be {_type_name(declared[name])}, is {value!r}"[:300]
    return None


def _matches_type(default: Any, value: Any) -> bool:
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(v, str | int | float) and _is_representable(v) for v in value)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_representable(value)
    return type(value) is type(default) and _is_representable(value)


def _is_representable(value: Any) -> bool:
    """Tell whether a notebook can hold a value: no text with half a character, no number beyond those of a float."""
    if isinstance(value, str):
        return not any(0xD800 <= ord(c) <= 0xDFFF for c in value)
    return not isinstance(value, int | float) or abs(value) <= sys.float_info.max


def _type_name(default: Any) -> str:
    return _TYPE_NAMES.get(type(default), repr(default))


def _convert_text(name: str, default: Any, text: str) -> Any:
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(default, list):
        return [part for part in text.split(",") if part]
    try:
        return type(default)(text)
    except ValueError:
        return text
