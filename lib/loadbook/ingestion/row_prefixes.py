"""Prefixes, indentation and colours of each line of a log of requests or a CSV, which are taken off.

Only the first line of such a file is known (`Tool.rows_begin`). What stands before it there must stand before every
line, with other times of the same form; otherwise nothing is taken off. Lines stay those of the file.
"""

from __future__ import annotations

import re
from functools import cache

from loadbook.ingestion.text_marks import MAX_PREFIX, prefix_note, prefix_shape
from loadbook.tools import base

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@cache
def _rows_begin() -> str:
    """Return a regular expression of the first lines of all logs of requests and CSVs."""
    begins = sorted({base.load_tool(name).rows_begin for name in base.tool_names()} - {""})
    return f"(?:{'|'.join(begins)})"


def first_prefix(text: str) -> str | None:
    """Return what stands before the first line of rows, "" if nothing does; None for a text without rows."""
    first = re.search(r"^.*\S.*$", _COLOURS.sub("", text[: 20 * MAX_PREFIX]), re.MULTILINE)
    if first is None:
        return None
    if re.match(_rows_begin(), first[0]):
        return ""
    found = re.match(rf"(?P<prefix>.{{1,{MAX_PREFIX}}}?(?<!\w)){_rows_begin()}", first[0])
    return found["prefix"] if found else None


def without_prefix(text: str) -> tuple[str, list[str]]:
    """Return a text with rows without the prefix of each line and without colours, and the names of what it had.

    Any other text is returned unchanged, without names.
    """
    prefix = first_prefix(text)
    is_coloured = "\x1b" in text[: 20 * MAX_PREFIX]
    if prefix is None or not (prefix or is_coloured):
        return text, []
    lines = (_COLOURS.sub("", text) if is_coloured else text).split("\n")
    every = re.compile(f"{prefix_shape(prefix)}|{prefix_shape(prefix.rstrip())}(?=\r?$)")
    if not all(every.match(line) for line in lines if line.strip()):
        return text, []
    taken = "\n".join(every.sub("", line, count=1) if prefix else line for line in lines)
    return taken, [*(["colours"] if is_coloured else []), *([prefix_note(prefix)] if prefix else [])]
