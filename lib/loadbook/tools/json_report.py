"""Strict reading of reports in JSON: no key twice in one object, no NaN or Infinity."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError if it is broken, has a key twice, or a number that is none."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no number")


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is there twice")
    return table


def find_objects(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (number of the first line, text) of each JSON object whose first and last line are a brace alone.

    The last one reaches to the end if its closing brace is missing.
    """
    starts = [place for place, line in enumerate(lines) if line == "{"]
    ends = [next((at for at, line in enumerate(lines) if at > start and line == "}"), None) for start in starts]
    return [
        (start + 1, "\n".join(lines[start : end + 1 if end else None])) for start, end in zip(starts, ends, strict=True)
    ]
