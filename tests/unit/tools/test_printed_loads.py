"""What reports print of their load."""

from __future__ import annotations

import pytest

from loadbook.tools import base
from tool_captures import FIXTURES, capture

EXPECTED = {
    ("wrk", "4.1.0--apache_event"): {"connections": "50", "threads": "2", "path": "/", "scheme": "http"},
    ("wrk2", "4.0.0--R2000_d14_latency"): {"connections": "20", "threads": "2", "path": "/", "scheme": "http"},
    ("ab", "2.3--close_10"): {"connections": "10", "path": "/mixclose?e=10"},
    ("autocannon", "4.6.0--old460_json"): {"connections": "4", "pipelining": "1", "path": "/mix?n=5", "scheme": "http"},
    ("autocannon", "9.0.0--clean_text"): {"connections": "5", "path": "/slow?ms=10", "scheme": "http"},
    ("bombardier", "1.2.6--clean_json"): {"connections": "5", "path": "/slow", "scheme": "http"},
    ("fortio", "1.66.5--clean_json"): {"connections": "5", "path": "/slow?ms=10", "scheme": "http"},
    ("hey", "0.1.5--clean_text"): {},
}


@pytest.mark.parametrize(("tool", "name"), EXPECTED, ids=[f"{tool}-{name}" for tool, name in EXPECTED])
def test_report_has_the_load_that_it_prints(tool: str, name: str) -> None:
    parsed = base.load_tool(tool).parse(capture(FIXTURES / tool / f"{name}.json"))
    assert parsed.load == EXPECTED[tool, name]
