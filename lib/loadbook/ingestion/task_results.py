"""Outputs in the results of Ansible's tasks, which are JSON: `stdout` or `stdout_lines`, and `stderr` beside it.

Such a result may be a file, lie within a larger document, or stand behind `host | CHANGED => `.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

NOTE = "JSON of Ansible around it"
_KEY = re.compile(r'"(?:[^"\\\s]*\.)?stdout(?:_lines)?"\s*:')
_BEGIN = re.compile(r"(?:^|=> ?)[ \t]*(?=[\[{])", re.MULTILINE)
MAX_DOCUMENTS = 1000


def find_outputs(text: str) -> list[tuple[int, str]]:
    """Return (line from 1 at which its document begins, text) of the outputs of all tasks; [] if there are none."""
    return list(_outputs(text)) if _KEY.search(text) else []


def _outputs(text: str) -> Iterator[tuple[int, str]]:
    decoder, end = json.JSONDecoder(strict=False), 0
    for number, begin in enumerate(_BEGIN.finditer(text)):
        if number >= MAX_DOCUMENTS:
            return
        if begin.end() < end:
            continue
        try:
            document, end = decoder.raw_decode(text, begin.end())
        except (ValueError, RecursionError):
            continue
        line = text.count("\n", 0, begin.end()) + 1
        yield from ((line, found) for found in _in_value(document))


def _in_value(value: Any) -> Iterator[str]:
    """Yield the outputs in a value of JSON, in its order."""
    if isinstance(value, dict):
        output = _stream(value, "stdout")
        errors = _stream(value, "stderr") if output is not None else None
        if joined := "\n".join(text for text in (output, errors) if text and text.strip()):
            yield f"{joined}\n"
        for inner in value.values():
            yield from _in_value(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _in_value(inner)


def _stream(task: dict[str, Any], name: str) -> str | None:
    """Return what a task wrote to `stdout` or `stderr`; None if it does not say so."""
    for key, value in task.items():
        last = key.rpartition(".")[2]
        if last == name and isinstance(value, str):
            return value
        if last == f"{name}_lines" and isinstance(value, list) and all(isinstance(line, str) for line in value):
            return "\n".join(value)
    return None
