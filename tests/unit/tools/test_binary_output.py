"""Outputs that are no text: refused by every tool, with the place where they cease to be one."""

from __future__ import annotations

import random

import pytest

from loadbook.core.errors import ParseError
from loadbook.tools import base
from loadbook.tools.base import ToolOutput

pytestmark = pytest.mark.fault(28)
TOOLS = ("wrk", "wrk2", "ab", "httperf", "h2load", "weighttp")


@pytest.mark.parametrize("tool", TOOLS)
def test_binary_output_is_refused_with_its_position(tool, record_property):
    noise = b"\xff\xfe" + random.Random(tool).randbytes(100_000)
    with pytest.raises(ParseError) as refused:
        base.parse_output(base.load_tool(tool), ToolOutput(b"# a line\n\n" + noise))
    assert "; from byte 11 (line 3) on it is no text" in refused.value.reason
    record_property("seen", refused.value.reason.rpartition("; ")[2])


@pytest.mark.parametrize("tool", TOOLS)
def test_non_english_text_is_not_taken_for_binary(tool):
    with pytest.raises(ParseError) as refused:
        base.parse_output(base.load_tool(tool), ToolOutput("größer\t\x1b[1mπ\r\n".encode()))
    assert "no text" not in refused.value.reason
