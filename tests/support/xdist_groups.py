"""Groups of test files that one worker of xdist runs: each file is a group, except those that share a slow report."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
READERS = re.compile(r"^def test\w+\(.*\bmade\b", re.MULTILINE)  # the fixture of tests/report/conftest.py


def together(file: str) -> str:
    """Return the name of the group of a test file: for most files, the file itself."""
    return "report" if READERS.search((ROOT / file).read_text(encoding="utf-8")) else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return together(super()._split_scope(nodeid))

    return Together(config, log) if config.getoption("dist") == "loadfile" else None
