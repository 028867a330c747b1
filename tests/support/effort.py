"""How much input tests/unit tries: a part of it; all of it where LOADBOOK_TESTS=full (`make test-long`)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

Case = TypeVar("Case")
FULL = os.environ.get("LOADBOOK_TESTS") == "full"
PART = 6  # of the examples that hypothesis makes, one of so many is tried


def examples(count: int) -> int:
    """Return the number of examples that hypothesis tries, of `count` in full."""
    return count if FULL else max(count // PART, 5)


def some(cases: Sequence[Case], count: int) -> list[Case]:
    """Return `count` of the cases, evenly spread, with the first and the last; in full, all of them."""
    if FULL or len(cases) <= count:
        return list(cases)
    return [cases[round(k * (len(cases) - 1) / (count - 1))] for k in range(count)]
