"""Numbers with their nouns: one function for plurals."""

from __future__ import annotations

import re
from pathlib import Path

from loadbook.core.units import pluralize

LIB = Path(__file__).parents[3] / "lib" / "loadbook"
BY_HAND = re.compile(r"""['"]s['"] if |else ['"]s['"]|if [^{}]+ == 1 else ['"]s """)


def test_plural_goes_with_its_number() -> None:
    assert [pluralize(n, "block") for n in (0, 1, 1200)] == ["0 blocks", "1 block", "1,200 blocks"]
    assert pluralize(1, "block is", "blocks are") == "1 block is"
    assert pluralize(2, "block is", "blocks are") == "2 blocks are"


def test_no_plural_is_made_by_hand() -> None:
    lines = [(path, line) for path in LIB.rglob("*.py") for line in path.read_text().splitlines()]
    assert not [f"{path.relative_to(LIB)}: {line.strip()}" for path, line in lines if BY_HAND.search(line)]
