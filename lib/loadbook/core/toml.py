"""TOML files written by users: studies, hosts, services. A file that cannot be read is one error with its place.

Size, depth of tables and parts of keys are limited, because `tomllib` takes an hour for a key of half a million parts.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from loadbook.core.errors import SpecProblem, StudyError

MAX_BYTES = 1_000_000
MAX_KEY_PARTS = 32
SYNTAX_HINT = 'look at that line: texts stand in "quotes", lists in [ ], each key once in its table (toml.io)'
# strings and comments, so that what is left holds the dots of keys and numbers alone
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'|#[^\n]*',
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_KEY_PARTS}}}")


def read_text(path: Path, max_bytes: int = MAX_BYTES) -> str:
    """Return a UTF-8 file of at most `max_bytes`; ValueError for any other, OSError where it cannot be read."""
    with path.open("rb") as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise ValueError(f"larger than {max_bytes:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ValueError(f"line {line}: the byte 0x{data[error.start]:02x} is not UTF-8 text") from None


def read_toml(path: Path) -> dict[str, Any]:
    """Return a file's tables; StudyError names the mistake and its place, OSError an unreadable file."""
    hint = None
    try:
        text = read_text(path)
        _refuse_long_keys(text)
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, hint = str(error), SYNTAX_HINT
    except RecursionError:
        problem = "tables or lists too deep in one another"
    except ValueError as error:  # not UTF-8, too large, or a number too long
        problem = str(error)
    raise StudyError(str(path), [SpecProblem("file", problem)], hint)


def _refuse_long_keys(text: str) -> None:
    without_strings = _STRING_OR_COMMENT.sub(lambda match: "s" + "\n" * match[0].count("\n"), text)
    if long_key := _LONG_KEY.search(without_strings):
        line = without_strings.count("\n", 0, long_key.start()) + 1
        raise ValueError(f"line {line}: a key of more than {MAX_KEY_PARTS} parts")
