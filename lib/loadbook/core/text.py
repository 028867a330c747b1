"""Text that came from a host, a tool, a file or a study, made fit to be shown: it can say things, not do them.

Escape sequences move a terminal's cursor, hide what stands before them and make links; a NUL ends a line of a log; an
override of direction swaps what one reads. None of them gets through.
"""

from __future__ import annotations

import unicodedata

# control, format (zero width, direction), lone surrogates, private use
_REMOVED_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co"})


def clean(text: str) -> str:
    """Return text without control characters, directional overrides and lone surrogates; lines and tabs stay."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) not in _REMOVED_CATEGORIES)


def one_line(text: str) -> str:
    """Return clean text as one line, so that none of it passes for another line of a log."""
    return " ".join(line for line in map(str.strip, clean(text).splitlines()) if line)
