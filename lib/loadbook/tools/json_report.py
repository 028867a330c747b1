"""Strict reading of reports in JSON: no key twice in one object, no NaN or Infinity."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from loadbook.core.errors import ParseError
from loadbook.tools import line_patterns


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; ValueError if it is broken, has NaN or Infinity, or a key twice."""
    try:
        return json.loads(text, parse_constant=_no_constant, parse_float=_finite_number, object_pairs_hook=_unique_keys)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite_number(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _no_constant(text)


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is there twice")
    return table


def find_objects(lines: Sequence[str]) -> list[tuple[int, str]]:
    """Return (number of its first line, text) of each JSON object that begins with a line "{" and ends with "}".

    The last one reaches to the end if its closing brace is missing.
    """
    starts = [place for place, line in enumerate(lines) if line == "{"]
    ends = [next((at for at, line in enumerate(lines) if at > start and line == "}"), None) for start in starts]
    return [
        (start + 1, "\n".join(lines[start : end + 1 if end else None])) for start, end in zip(starts, ends, strict=True)
    ]


class JsonReport:
    """Base class of a report in JSON: its values are checked when they are asked for.

    ParseErrors name the tool, the file that the report is in, and its first line there.
    """

    tool: str
    line: int
    file: str = "stdout"

    def refused(self, problem: str) -> ParseError:
        """Return the ParseError for a problem of the report."""
        return ParseError(self.tool, self.file, self.line, problem)

    def read_one(self, contents: Mapping[str, bytes], *marks: str) -> Any:
        """Return the one JSON object whose text has all of `marks`, parsed; None if there is none.

        `contents` maps names of files to contents. Sets `file` and `line` to the place of the object. ParseError for
        two such objects, or a broken one.
        """
        documents = [
            (name, line, text)
            for name, content in contents.items()
            for line, text in find_objects(line_patterns.clean_lines(content))
            if all(mark in text for mark in marks)
        ]
        if not documents:
            return None
        self.file, self.line, text = documents[-1]
        if len(documents) > 1:
            raise self.refused("a second report: two in one output")
        try:
            return read_json(text)
        except ValueError:
            raise self.refused("report is not complete: its JSON ends early or is broken") from None

    def table(self, report: Mapping[str, Any], key: str) -> dict[str, Any]:
        """Return a table of the report; ParseError if it is missing."""
        if not isinstance(report.get(key), dict):
            raise self.refused(f"report is not complete: no {key!r}")
        return dict(report[key])

    def count(self, table: Mapping[str, Any], key: str) -> int:
        """Return a whole number of at least 0; ParseError for anything else."""
        value = table.get(key)
        if type(value) is not int or value < 0:
            raise self.refused(f"{key} is missing, or no count: {str(value)[:60]!r}")
        return value

    def number(self, table: Mapping[str, Any], key: str) -> float:
        """Return a number of at least 0; ParseError for anything else."""
        value = table.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            raise self.refused(f"{key} is missing, or no number: {str(value)[:60]!r}")
        return value
