"""Parameters of notebooks: declared by the cell tagged ``parameters``, given by papermill, checked by name and type.

Cells of a notebook import this module, so it imports neither papermill nor nbformat, which take seconds.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from loadbook.core.errors import UsageError
from loadbook.core.text import did_you_mean

INJECTED_COMMENT = "# Parameters"  # the first line of the cell that papermill injects
_TYPE_NAMES = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list"}


def parse_literals(source: str) -> dict[str, Any]:
    """Return name -> value of the assignments in a cell's source.

    Raises UsageError if the cell does anything but assign literals.
    """
    values: dict[str, Any] = {}
    try:
        for statement in ast.parse(source).body:
            if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
                raise ValueError(f"line {statement.lineno} is no assignment")
            values[statement.targets[0].id] = ast.literal_eval(statement.value)
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"a parameters cell must hold plain assignments only: {error}") from error
    return values


def parameter_problems(declared: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Return one sentence per given parameter that is undeclared, has an unsafe name, or a value of the wrong type.

    `declared` maps names to default values, whose types are required.
    """
    problems = []
    for name, value in given.items():
        if not name.isidentifier() or keyword.iskeyword(name) or hasattr(builtins, name) or name.startswith("_"):
            problems.append(f"parameter {name!r} is not a usable name")
        elif name not in declared:
            problems.append(f"unknown parameter {name!r}{did_you_mean(name, declared)}")
        elif not _matches_type(declared[name], value):
            problems.append(f"parameter {name!r} must be {_type_name(declared[name])}, is {value!r}"[:300])
    return problems


def validate_parameters(notebook: str, declared: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Raise UsageError if a given parameter is unknown or of the wrong type; it also lists the declared parameters."""
    if problems := parameter_problems(declared, given):
        known = ", ".join(f"{name} ({_type_name(value)})" for name, value in declared.items())
        raise UsageError(f"{notebook}: " + "; ".join(problems), f"parameters: {known or 'none'}")


def parse_pairs(declared: Mapping[str, Any], pairs: Sequence[str]) -> dict[str, Any]:
    """Convert ``name=value`` texts to values of the declared types; UsageError for a text without "=".

    `declared` maps names to default values. A value that cannot be converted, or whose name is not declared, stays
    text; `validate_parameters` finds it.
    """
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise UsageError(f"parameter {pair!r} is not name=value")
        given[name] = _convert_text(declared[name], text) if name in declared else text
    return given


def format_pairs(values: Mapping[str, Any]) -> list[str]:
    """Return values of parameters as the ``name=value`` texts that `parse_pairs` converts to them."""
    texts = {name: json.dumps(v) if isinstance(v, bool | list) else str(v) for name, v in values.items()}
    return [f"{name}={text}" for name, text in texts.items()]


def check_parameters() -> None:
    """Check, inside a notebook, the parameters that papermill injected; do nothing without papermill.

    Raises
    ------
    UsageError : an undeclared parameter or a value of the wrong type; the message lists the declared parameters.
    """
    from IPython import get_ipython

    shell = get_ipython()
    if shell is not None:
        check_injected(shell.user_ns.get("In", []))


def check_injected(cells: Sequence[str]) -> None:
    """Check the cell that papermill injected, if any, against the parameters cell before it.

    `cells` are the sources of the cells executed so far, the list ``In`` of IPython. Raises UsageError as
    `check_parameters`.
    """
    positions = [k for k, source in enumerate(cells) if source.startswith(INJECTED_COMMENT)]
    if positions:
        declared = parse_literals(cells[positions[-1] - 1])
        validate_parameters("notebook", declared, parse_literals(cells[positions[-1]]))


def _matches_type(default: Any, value: Any) -> bool:
    if isinstance(default, list):
        return isinstance(value, list) and all(isinstance(v, str | int | float) and _is_representable(v) for v in value)
    if isinstance(default, float):
        return isinstance(value, int | float) and not isinstance(value, bool) and _is_representable(value)
    return type(value) is type(default) and _is_representable(value)


def _is_representable(value: Any) -> bool:
    """Return whether a notebook can store a value: no incomplete surrogate pair, no number beyond a float's range."""
    if isinstance(value, str):
        return not any(0xD800 <= ord(c) <= 0xDFFF for c in value)
    return not isinstance(value, int | float) or abs(value) <= sys.float_info.max


def _type_name(default: Any) -> str:
    return _TYPE_NAMES.get(type(default), repr(default))


def _convert_text(default: Any, text: str) -> Any:
    if isinstance(default, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(default, list) and not text.startswith("["):
        return [part for part in text.split(",") if part]
    try:
        return json.loads(text) if isinstance(default, list) else type(default)(text)
    except ValueError:
        return text
