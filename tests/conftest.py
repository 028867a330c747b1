"""What all tests share: programs are found, hypothesis has no deadline, fault cases have numbers.

An ordinary user of Debian has no sbin folder in PATH, and nginx is there: hosts find it, and tests do.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from loadbook.hosts.shell import search_path

# before a test module is imported: some ask for programs at once
os.environ["PATH"] = search_path()

from effort import FULL, examples
from fault_plugin import (  # noqa: F401
    pytest_addoption,
    pytest_collection_modifyitems,
    pytest_runtest_logreport,
    pytest_terminal_summary,
)

# how long an example takes is a property of the machine, and of who else uses it; `make test` tries the same each time
settings.register_profile("loadbook", deadline=None, max_examples=examples(100), derandomize=not FULL)
settings.load_profile("loadbook")

if TYPE_CHECKING:
    from loadbook.store.paths import Layout


def pytest_collection_finish() -> None:
    """Leave what is imported out of garbage collections: a million objects that live to the end."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """An empty project with the repository's studies and notebooks."""
    from recorded_run import with_studies

    return with_studies(tmp_path / "home")
