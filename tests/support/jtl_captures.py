"""Recorded JTL files by name, and conversion of a `Summary` to the dict that `slow_jtl_reader.figures` returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from loadbook.request_logs.summary import Summary, Tally

FIXTURES = Path(__file__).parents[1] / "fixtures"


def capture(name: str) -> bytes:
    """Return the content of a recorded JTL by its name, such as `5.6.3--csv_tab`."""
    return (FIXTURES / "jmeter" / f"{name}.out.jtl").read_bytes()


def reported(summary: Summary, tally: Tally | None = None) -> dict[str, Any]:
    """Return the counts and times of a summary's total, or of one label, as a dict."""
    total = tally or summary.total()
    times = total.latency
    return {
        "attempts": total.attempts,
        "answered": total.answered,
        "ok": total.ok,
        "received": total.received,
        "duration_s": summary.duration_s,
        "mean": times.mean_s() if times.count else None,
        "sd": times.sd_s() if times.count else None,
        **{f"p{p}": times.percentile_s(p) if times.count else None for p in (0, 50, 90, 99, 100)},
    }


def same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    """Assert that two such dicts are equal, except for rounding errors of floats."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == (value if value is None else pytest.approx(value, rel=1e-12)), name
