"""Tests in this folder measure times and rates, so they run one after the other, and only on a calm machine.

A test is skipped, with the reason, where other programs use the CPUs before it begins. A failure beside other programs
is a skip, too: nothing was measured.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import others_cpu


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[object]:
    with others_cpu.adopted_orphans():
        return (yield)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if reason := others_cpu.why_not_to_measure():
        pytest.skip(reason)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = others_cpu.read()
    try:
        return (yield)
    except Exception as error:
        used = others_cpu.others_cpus(before)
        if used > others_cpu.TOLERATED_CPUS:
            pytest.skip(f"other programs used {used:.1f} CPUs meanwhile; it failed with {str(error)[:200]!r}")
        raise
