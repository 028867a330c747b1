"""Groups of test files that one worker of xdist runs: each file is a group, except those that share a slow report.

Slow files come first, so that none is left for one worker at the end; then those with the most tests.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
READERS = re.compile(r"^def test\w+\(.*\bmade\b", re.MULTILINE)  # the fixture of tests/report/conftest.py
# few tests, many seconds
LONG = (
    "tests/execution/test_interleaved_lab.py",
    "tests/execution/test_deployment_lab.py",
    "tests/services/test_system_mode.py",
    "tests/execution/test_tool_faults.py",
    "tests/tools/test_live.py",
    "tests/hosts/test_rollback.py",
    "tests/batch/test_batch_command.py",
    "tests/project/test_wheel.py",
    "tests/report/test_notebooks.py",
    "tests/external/test_import_example.py",
    "tests/batch/test_site.py",
    "tests/report/test_report_runs.py",
    "tests/notebook/test_jupyterlab.py",
    "tests/analyses/test_claims_articles.py",
)

# of these every test is for any worker: they share nothing but the lab of the session, which each worker has
SPREAD = LONG[:1]


def together(file: str) -> str:
    """Return the name of the group of a test file: for most files, the file itself."""
    return "report" if READERS.search((ROOT / file).read_text(encoding="utf-8")) else file


def file_of(item: pytest.Item) -> str:
    """Return the file of a test as xdist names it."""
    return item.nodeid.partition("::")[0]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        numbers = Counter(map(file_of, items))
        items.sort(key=lambda item: (file_of(item) not in LONG, -numbers[file_of(item)], file_of(item)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class Together(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return nodeid if file in SPREAD else together(file)

    if config.getoption("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False  # the workers have done it
    return Together(config, log)
