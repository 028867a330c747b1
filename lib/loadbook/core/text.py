"""Removes control characters from texts of hosts, tools, files and studies; finds names similar to a mistyped one.

Escape sequences can move a terminal's cursor, hide text and make links; NUL can end a line of a log; direction
overrides can reorder letters. `clean` removes all of them.
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Iterable
from difflib import SequenceMatcher
from pathlib import Path

# Unicode categories: control, format (zero width, direction), lone surrogates, private use
_REMOVED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co"})
SIMILARITY_CUTOFF = 0.6
MAX_NAME_LENGTH = 80  # characters of a name that are compared and shown


def clean(text: str) -> str:
    """Return text without control characters, directional overrides and lone surrogates; keep line breaks and tabs."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _REMOVED_CATEGORIES)


def one_line(text: str) -> str:
    """Return clean text as one line, so that it cannot imitate several lines of a log."""
    return " ".join(line for line in map(str.strip, clean(text).splitlines()) if line)


def host_port(address: str, port: int | str) -> str:
    """Return `address:port` as URLs and servers' configurations have it: an IPv6 address stands in brackets."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _similarity(name: str, other: str) -> float:
    return SequenceMatcher(None, name[:MAX_NAME_LENGTH].lower(), other.lower()).ratio()


def closest_name(name: object, known: Iterable[str]) -> str | None:
    """Return the known name most similar to a mistyped one; None if none is similar."""
    best = max(known, key=lambda other: _similarity(str(name), other), default=None)
    return best if best is not None and _similarity(str(name), best) >= SIMILARITY_CUTOFF else None


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with the known name most similar to a mistyped one; "" if none is similar."""
    nearest = closest_name(name, known)
    return "" if nearest is None else f"; did you mean {nearest[:MAX_NAME_LENGTH]!r}?"


def did_you_mean_file(path: Path) -> str:
    """Return `; did you mean 'x'?` with the name of a file beside a path that is not there; "" if none is similar."""
    readable = os.access(path.parent, os.R_OK) and path.parent.is_dir()
    return did_you_mean(path.name, [entry.name for entry in path.parent.iterdir()] if readable else [])


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return all known names: similar ones first, most similar before others, then the rest in their order."""
    lowered = name[:MAX_NAME_LENGTH].lower()

    def distance(other: str) -> float:
        contains = bool(lowered) and (lowered in other.lower() or other.lower() in lowered)
        similarity = max(_similarity(name, other), SIMILARITY_CUTOFF if contains else 0.0)
        return -similarity if similarity >= SIMILARITY_CUTOFF else 0.0

    return sorted(known, key=distance)
