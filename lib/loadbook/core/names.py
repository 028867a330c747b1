"""What to say of a name that there is not: those that there are, the most like it first."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

from loadbook.core.errors import UsageError

SIMILARITY_CUTOFF = 0.6
MAX_NAME_LENGTH = 80  # letters of a name that are compared and shown


class UnknownNameError(UsageError, AttributeError):
    """A name of nothing that there is; also an AttributeError, so that completion and hasattr go on."""


def nearest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return the known names: first those that are like `name`, the most alike before others, then the rest."""
    lowered = name[:MAX_NAME_LENGTH].lower()

    def distance(other: str) -> float:
        similarity = SequenceMatcher(None, lowered, other.lower()).ratio()
        contains = bool(lowered) and (lowered in other.lower() or other.lower() in lowered)
        if similarity < SIMILARITY_CUTOFF and not contains:
            return 0.0
        return -max(similarity, SIMILARITY_CUTOFF if contains else 0.0)

    return sorted(known, key=distance)


def unknown_name_error(
    kind: str, name: object, known: Iterable[str], where: str = "", plural: str = ""
) -> UnknownNameError:
    """Return the error for a `kind` ("metric") called `name`; `where` follows ("in study x")."""
    names = nearest_names(str(name), known)
    quoted = repr(name)
    quoted = quoted if len(quoted) <= MAX_NAME_LENGTH else f"{quoted[: MAX_NAME_LENGTH - 1]}…"
    suffix = f" {where}" if where else ""
    return UnknownNameError(f"no {kind} {quoted}{suffix}", f"{plural or kind + 's'}: {', '.join(names) or 'none'}")
