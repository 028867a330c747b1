"""The table of fault cases (fault_cases.toml, docs/reliability.md): which test injected each, and what was seen."""

from __future__ import annotations

import os
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT_REASON = "network namespaces need root and iproute2"
_reports: dict[int, list[pytest.TestReport]] = defaultdict(list)


def cases() -> Iterator[tuple[int, str, str, str]]:
    """Yield number, part, what is injected and what is expected of every case."""
    for part in tomllib.loads(Path(__file__).with_name("fault_cases.toml").read_text())["part"].values():
        for number, (injected, expected) in ((n, c) for n, c in part.items() if n != "title"):
            yield int(number), part["title"], injected, expected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--faults", action="store_true", help="print the table of fault cases at the end")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let reports carry their cases, also from the workers of xdist; skip what needs root where we are not."""
    known = {number for number, *_ in cases()}
    rootless = os.geteuid() != 0 or shutil.which("ip") is None
    for item in items:
        for mark in item.iter_markers("fault"):
            assert mark.args and known.issuperset(mark.args), f"{item.nodeid}: no such fault case: {mark.args}"
            item.user_properties += [("fault", number) for number in mark.args]
        if rootless and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason=ROOT_REASON))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.outcome != "passed":
        for name, value in report.user_properties:
            if name == "fault":
                _reports[value].append(report)


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print case, injected how, expected, seen."""
    if not config.getoption("--faults"):
        return
    from rich.console import Console
    from rich.table import Table

    table = Table("case", "injected", "expected", "seen", title="Fault cases", show_lines=True)
    for number, _, injected, expected in cases():
        if number in _reports:
            table.add_row(str(number), injected, expected, _seen(_reports[number]))
    Console(width=160).print(table)
    others = [str(number) for number, *_ in cases() if number not in _reports]
    terminalreporter.write_line(f"not in this call: {', '.join(others) or 'none'}")


def _seen(reports: list[pytest.TestReport]) -> str:
    """Return what became of a case: what its tests said they saw (record_property "seen"), and how many passed."""
    said = [value for report in reports for name, value in report.user_properties if name == "seen"]
    counts = {outcome: sum(r.outcome == outcome for r in reports) for outcome in ("passed", "skipped", "failed")}
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    return "; ".join([("FAILED: " if counts["failed"] else "as expected: ") + told, *dict.fromkeys(said)])
