"""Pytest plugin that prints a table of the fault cases (fault_cases.toml): the tests of each, and their results."""

from __future__ import annotations

import json
import os
import shutil
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT_REASON = "network namespaces need root and iproute2: make test as root"
# case -> test -> results; keyed by test, since a worker of xdist and its master may report the same test
_seen: dict[int, dict[str, list[str]]] = defaultdict(dict)


def cases() -> Iterator[tuple[int, str, str, str]]:
    """Yield (number, part of the table, injected fault, expected behaviour) of every case."""
    for part in tomllib.loads(Path(__file__).with_name("fault_cases.toml").read_text())["part"].values():
        for number, (injected, expected) in ((n, c) for n, c in part.items() if n != "title"):
            yield int(number), part["title"], injected, expected


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--faults", metavar="FILE", type=Path, help="print the table of fault cases at the end, with those kept in FILE"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Add the numbers of fault cases to test reports, also of xdist workers; skip tests that need root without it."""
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
        printed = [str(value) for name, value in report.user_properties if name == "seen"]
        for number in [value for name, value in report.user_properties if name == "fault"]:
            _seen[number][report.nodeid] = [report.outcome, *printed]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print a row per case: fault, expected and observed; successive pytest calls add their results to FILE."""
    kept: Path | None = config.getoption("--faults")
    if kept is None:
        return
    from rich.console import Console
    from rich.table import Table

    before = json.loads(kept.read_text()) if kept.is_file() else {}
    seen = {number: before.get(str(number), {}) | _seen[number] for number, *_ in cases()}
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(seen))
    table = Table("case", "injected", "expected", "seen", title="Fault cases", show_lines=True)
    for number, _, injected, expected in cases():
        if seen[number]:
            table.add_row(str(number), injected, expected, _told(list(seen[number].values())))
    Console(width=160).print(table)
    others = [str(number) for number in seen if not seen[number]]
    terminalreporter.write_line(f"not in this call: {', '.join(others) or 'none'}")


def _told(seen: list[list[str]]) -> str:
    """Return the results of a case: outcomes of its tests, and their observations (record_property "seen")."""
    outcomes = Counter(outcome for outcome, *_ in seen)
    printed = dict.fromkeys(text for _, *texts in seen for text in texts)
    reported = ", ".join(
        f"{outcomes[outcome]} {outcome}" for outcome in ("passed", "skipped", "failed") if outcomes[outcome]
    )
    return "; ".join([("FAILED: " if outcomes["failed"] else "as expected: ") + reported, *printed])
