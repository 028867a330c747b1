"""Summary line after `make test`: how many tests were skipped, and for which missing programs.

As a pytest plugin it adds the skipped tests of a call to the file `--skips`; as a program it prints the line.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

_PREFIX = "Skipped: "
_reasons: dict[str, str] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skips", metavar="FILE", type=Path, help="add the tests that were skipped, and why, to FILE")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note_skip(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note_skip(report)


def _note_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and isinstance(report.longrepr, tuple):
        _reasons[report.nodeid] = report.longrepr[2].removeprefix(_PREFIX)


def pytest_sessionfinish(session: pytest.Session) -> None:
    path: Path | None = session.config.getoption("--skips")
    if path is not None and not hasattr(session.config, "workerinput"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(_read(path) | _reasons, indent=1))


def skip_line(reasons: dict[str, Any]) -> str:
    """Return the line; `reasons` is {test: reason for skipping it}."""
    if not reasons:
        return "no test was skipped"
    counts = Counter(reasons.values()).most_common()
    parts = "; ".join(f"{count} x {reason}" for reason, count in counts)
    return f"{len(reasons)} skipped: {parts}"


def _read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text())) if path.is_file() else {}


if __name__ == "__main__":
    print(skip_line(_read(Path(sys.argv[1]))))
