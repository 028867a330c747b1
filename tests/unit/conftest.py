"""Tests in this folder need only Python: no server, no other process, no kernel, no browser, no wait, no clock.

What breaks that rule fails here (support/only_python.py), and belongs in tests/live.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import only_python
from loadbook.core import clock as loadbook_clock
from loadbook.hosts import ssh_config
from turned_clock import TurnedClock

HERE = Path(__file__).parent

only_python.install()


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[None]:
    """Guard the import of a test module, too."""
    if not isinstance(collector, pytest.Module) or not collector.path.is_relative_to(HERE):
        return (yield)
    with only_python.guarded():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Guard a test with its fixtures; loadbook has a clock that only the test, or a pause, turns, and finds no ssh."""
    if not item.path.is_relative_to(HERE):  # pytest calls this hook of every folder for every test
        return (yield)
    before, loadbook_clock.current = loadbook_clock.current, TurnedClock()
    find_ssh, ssh_config.ssh_program = ssh_config.ssh_program, lambda: None
    try:
        with only_python.guarded():
            return (yield)
    finally:
        loadbook_clock.current, ssh_config.ssh_program = before, find_ssh


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test of which a thread did what is refused, or which caught the failure."""
    result = yield
    only_python.check()
    return result


@pytest.fixture
def clock() -> TurnedClock:
    """The clock that loadbook reads during this test."""
    assert isinstance(loadbook_clock.current, TurnedClock)
    return loadbook_clock.current
