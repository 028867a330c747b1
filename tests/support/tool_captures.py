"""The recorded tool outputs in tests/fixtures, as input for parsers."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from loadbook.core.errors import ParseError
from loadbook.core.metrics import METRICS
from loadbook.tools import base
from loadbook.tools.base import Measurement, ParsedReport, ToolOutput

FIXTURES = Path(__file__).parents[1] / "fixtures"
Key = tuple[str, str]


def cases(tool: str) -> list[Path]:
    """Return the paths of the files with the expected values of a tool's recorded outputs."""
    return sorted((FIXTURES / tool).glob("*.json"))


def capture(expected: Path) -> ToolOutput:
    """Return the recorded output that belongs to a file of expected values."""
    read = {
        s: p.read_bytes() for s in ("stdout", "stderr", "cmd", "rc") if (p := expected.with_suffix(f".{s}")).exists()
    }
    argv = tuple(shlex.split(read["cmd"].decode()))
    ours = {f"{expected.stem}.{s}" for s in ("stdout", "stderr", "cmd", "rc", "json")}
    own = {p for p in expected.parent.glob(f"{expected.stem}.*") if p.name not in ours}
    files = {p.name.removeprefix(f"{expected.stem}."): p.read_bytes() for p in sorted(own)}
    return ToolOutput(read["stdout"], read.get("stderr", b""), int(read.get("rc", b"0")), argv, files)


def good(tool: str) -> list[Path]:
    """Return the paths of the files with expected values for recorded outputs that have a report."""
    return [path for path in cases(tool) if "rows" in json.loads(path.read_text())]


def table(rows: Iterable[Measurement]) -> dict[Key, Measurement]:
    """Return {(metric, statistic): row}; each pair may occur only once."""
    rows = list(rows)
    found = {(row.metric, row.statistic): row for row in rows}
    assert len(found) == len(rows)
    return found


def values(parsed: ParsedReport) -> dict[Key, float]:
    """Return {(metric, statistic): value} of a report."""
    return {key: row.value for key, row in table(parsed.measurements).items()}


def check_sane(parsed: ParsedReport) -> None:
    """Assert that the rows have finite, non-negative values, known metrics and the metrics' units."""
    for row in table(parsed.measurements).values():
        assert math.isfinite(row.value) and row.value >= 0, row
        assert row.unit == METRICS[row.metric].unit, row
        assert row.statistic != "count" or row.unit != "1" or float(row.value).is_integer(), row
    totals = {metric: value for (metric, statistic), value in values(parsed).items() if statistic in ("count", "value")}
    assert totals.get("ok", 0) <= totals.get("requests", math.inf)
    if totals.get("requests") == 0:
        assert not [row for row in parsed.measurements if row.unit == "s" and row.metric != "duration"]


def sane_values(parsed: ParsedReport) -> dict[Key, float]:
    """Return {(metric, statistic): value} of a report, after `check_sane`."""
    check_sane(parsed)
    return values(parsed)


def attempt(tool: str, captured: ToolOutput) -> ParsedReport | None:
    """Return the parsed report, after `check_sane`; None if the parser raised ParseError."""
    try:
        parsed = base.load_tool(tool).parse(captured)
    except ParseError as error:
        assert error.tool == tool and error.reason and error.line >= 0
        return None
    check_sane(parsed)
    return parsed


def with_changed_json(
    captured: ToolOutput, change: Callable[[dict[str, Any]], object], indent: int | None = None
) -> ToolOutput:
    """Return the recorded output with its report in JSON changed; without `indent` on one line."""
    report = json.loads(captured.stdout)
    change(report)
    separators = (",", ":") if indent is None else None
    return replace(captured, stdout=json.dumps(report, indent=indent, separators=separators).encode())


def swapped(data: bytes, *swaps: tuple[str, str]) -> bytes:
    """Return a text with each old part replaced by its new one; each may occur only once."""
    text = data.decode()
    for old, new in swaps:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text.encode()


def with_swaps(captured: ToolOutput, *swaps: tuple[str, str]) -> ToolOutput:
    """Return the recorded output with parts of its stdout replaced."""
    return replace(captured, stdout=swapped(captured.stdout, *swaps))


def with_stdout(captured: ToolOutput, lines: Iterable[bytes]) -> ToolOutput:
    """Return the recorded output with these lines as its stdout."""
    return replace(captured, stdout=b"".join(lines))
