"""A text that ends after any of its lines is refused, or has no number that the whole text does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from effort import some
from loadbook.tools import base
from loadbook.tools.base import ToolOutput
from tool_captures import FIXTURES, attempt, values

LAST_LINES = 60
# results of single requests have no end, and JSON is refused as a whole
NO_TEXT = (b"{", b"[", b"response-time,", b"request-start,", b"timeStamp,", b"<?xml", b"Type,", b"Timestamp,")
LIST_OF_REQUESTS = ("12.13.0--csv.stdout", "12.13.0--gob.stdout")
TEXT_TOOLS = tuple(name for name in base.tool_names() if base.load_tool(name).report_begin)


def texts(tool: str) -> list[Path]:
    """Return the files with a text that this tool printed, on either stream, and that its parser reads."""
    paths = (path for end in ("stdout", "stderr", "report") for path in (FIXTURES / tool).glob(f"*.{end}"))
    found = [path for path in sorted(paths) if path.name not in LIST_OF_REQUESTS]
    found = [path for path in found if not path.read_bytes().startswith(NO_TEXT)]
    return [path for path in found if attempt(tool, ToolOutput(path.read_bytes())) is not None]


CAPTURES = [(tool, path) for tool in dict.fromkeys(TEXT_TOOLS) for path in some(texts(tool), 6)]


@pytest.mark.parametrize(("tool", "path"), CAPTURES, ids=[f"{tool}-{path.name}" for tool, path in CAPTURES])
def test_text_cut_after_any_line_has_no_other_number(tool: str, path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    whole = values(base.load_tool(tool).parse(ToolOutput(b"".join(lines))))
    for end in range(max(1, len(lines) - LAST_LINES), len(lines)):
        parsed = attempt(tool, ToolOutput(b"".join(lines[:end])))
        for key, value in (values(parsed) if parsed else {}).items():
            if parsed and "errors_unseen" in dict(parsed.doubts) and key[0].startswith("errors"):
                continue  # a table without its line of errors is one without errors
            # wrk's own lines, before those of the script of loadbook, round the same number
            assert key in whole and value == pytest.approx(whole[key], rel=0.01), (lines[end - 1], key)
