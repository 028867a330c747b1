"""What to say of a name that there is not: those that there are, the most like it first."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from loadbook.core.errors import UsageError

ALIKE = 0.6
LONGEST = 80  # letters of a name that are compared and shown


class UnknownNameError(UsageError, AttributeError):
    """A name of nothing that there is; also an AttributeError, so that completion and hasattr go on."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names: first those that are like `name`, the most alike before others, then the rest."""
    wanted = name[:LONGEST].lower()

    def distance(other: str) -> float:
        likeness = SequenceMatcher(None, wanted, other.lower()).ratio()
        inside = bool(wanted) and (wanted in other.lower() or other.lower() in wanted)
        return -max(likeness, ALIKE if inside else 0.0) if likeness >= ALIKE or inside else 0.0

    return sorted(known, key=distance)


def unknown(kind: str, name: object, known: Iterable[str], where: str = "", plural: str = "") -> UnknownNameError:
    """Return the error for a `kind` ("metric") called `name`; `where` follows ("in study x")."""
    there = nearest(str(name), known)
    said = repr(name)
    said = said if len(said) <= LONGEST else f"{said[: LONGEST - 1]}…"
    place = f" {where}" if where else ""
    return UnknownNameError(f"no {kind} {said}{place}", f"{plural or kind + 's'}: {', '.join(there) or 'none'}")
