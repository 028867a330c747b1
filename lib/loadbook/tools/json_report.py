"""Reports in JSON, read in any layout and between other text: no key twice in one object, no NaN or Infinity."""

# A log of 8 MB may have a brace in every line, so that each character may be looked at a few times only. Python's
# error of a broken JSON counts the lines before it: each document is decoded in a window of the text.

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from loadbook.core.errors import ParseError
from loadbook.tools import line_patterns

_BEGIN = re.compile(r'\{\s*+"|\[\s*+\{')
_GOES_ON = re.compile(r'\s*+(?:[}\]]|,\s*+["{\[])')
_AFTER_KEY = re.compile(r'"\s*:\s*\Z')
_WINDOW, _LONGEST_WORD = 4096, 16  # characters; a word is a number's sign and name, or an escape


class Document(NamedTuple):
    """A document in JSON: name of its file, number of its first line there, and value."""

    file: str
    line: int
    value: Any


def find_report(tool: str, contents: Mapping[str, bytes], *marks: str, kind: type = dict) -> Document | None:
    """Return the one report in JSON among contents of files, in any layout, with text before and after it.

    A report is an object with the keys `marks`, for `kind` list an array of such objects. `contents` maps names of
    files to contents. None without a report. ParseError for two, or for one that is cut or broken, which the first
    mark tells.
    """
    found = [
        Document(name, line, value)
        for name, content in contents.items()
        for line, value in find_documents(line_patterns.clean_lines(content), *marks, kind=kind)
    ]
    for file, line, value in found:
        if value is None:
            raise ParseError(tool, file, line, "report is not complete: its JSON ends early or is broken")
    if len(found) > 1:
        raise ParseError(tool, found[-1].file, found[-1].line, "a second report: two in one output")
    return found[0] if found else None


def find_documents(lines: Sequence[str], *marks: str, kind: type = dict) -> list[tuple[int, Any]]:
    """Return (number of its first line, value) of each document in JSON that has the marks of `find_report`.

    The value is None for a document that is cut or broken, or a part of such a one.
    """
    text, found, number, counted = "\n".join(lines), [], 1, 0
    first_mark = f'"{marks[0]}"'
    for start, end, value in _documents(text) if first_mark in text else ():
        number, counted = number + text.count("\n", counted, start), start
        is_report = _has_marks(value, marks, kind) if value is not None else first_mark in text[start:end]
        if is_report:
            is_part = _GOES_ON.match(text, end) or _AFTER_KEY.search(text[max(0, start - 100) : start])
            found.append((number, None if is_part else value))
    return found


def _has_marks(value: Any, marks: Sequence[str], kind: type) -> bool:
    entries = value if isinstance(value, list) else [value]
    return isinstance(value, kind) and all(isinstance(entry, dict) and set(marks) <= set(entry) for entry in entries)


def _documents(text: str) -> Iterator[tuple[int, int, Any]]:
    """Yield (start, end, value) of each object and array that is in no other one; None for a broken one."""
    end = 0
    while begin := _BEGIN.search(text, end):
        value, end = _decode(text, begin.start(), _STRICT)
        yield begin.start(), end, value


def document_ends(text: str) -> list[int]:
    """Return the ends of documents in JSON behind which another one begins on the same line."""
    spans = [(start, end) for start, end, value in _documents(text) if value is not None]
    return [end for (_, end), (start, _) in pairwise(spans) if text[end:start].strip(" \t") == ""]


def _decode(text: str, start: int, decoder: json.JSONDecoder) -> tuple[Any, int]:
    """Return the value that begins at `start`, and its end; None and where it breaks for one that is broken."""
    size = _WINDOW
    while True:
        try:
            value, length = decoder.raw_decode(text[start : start + size])
            return value, start + length
        except json.JSONDecodeError as error:
            is_cut = error.pos > size - _LONGEST_WORD or error.msg.startswith("Unterminated string")
            if not is_cut or start + size >= len(text):
                return None, start + max(1, error.pos)
            size *= 2
        except RecursionError:
            return None, len(text)
        except ValueError:  # what the strict reading refuses: the lenient one tells where it ends
            return None, _decode(text, start, _LENIENT)[1]


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


_STRICT = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite_number, object_pairs_hook=_unique_keys)
_LENIENT = json.JSONDecoder(parse_int=str, parse_float=str)


def printed_load(table: Mapping[str, Any], names: Mapping[str, str], url: str) -> dict[str, str]:
    """Return what a report prints of its load: {name: value of the key}, and `url_load` of the URL at the key `url`."""
    load = {name: str(table[key]) for name, key in names.items() if key in table}
    return load | (line_patterns.url_load(str(table[url])) if table.get(url) else {})


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

    def read_one(self, contents: Mapping[str, bytes], *marks: str) -> dict[str, Any] | None:
        """Return the value of `find_report`, and set `file` and `line` to its place; None without a report."""
        if (found := find_report(self.tool, contents, *marks)) is None:
            return None
        self.file, self.line, value = found
        return dict(value)

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
