"""The phases of `make test` that run few tests import the files of these only: importing all takes ten seconds each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_FIRST = re.compile(r"(lab|alone)\b(?!.* or )")  # what every test of `-m "lab and ..."` has


def has_none(file: Path, expression: str) -> bool:
    """Tell whether no test of a file can be among those that `-m expression` asks for."""
    needed = _FIRST.match(expression)
    return bool(needed) and f"mark.{needed.group(1)}" not in file.read_text(encoding="utf-8")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    test = collection_path.suffix == ".py" and collection_path.name.startswith("test_")
    return True if test and has_none(collection_path, config.option.markexpr) else None
