"""What a page's summary says of the checks, as every list of pages shows it beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadbook.report.palette import DOUBT_GLYPH, FAILED_GLYPH

CHECK_NAMES = {"aa": "A/A", "control": "known effect"}
CHECK_GLYPHS = {True: "✓", False: FAILED_GLYPH, None: "–"}
CI_GLYPHS = {"passed": "✓", "failed": FAILED_GLYPH, "invalid": DOUBT_GLYPH}


def check_texts(summary: Mapping[str, Any]) -> list[str]:
    """Return the A/A arm, the positive control and the build gate, each with its glyph; nothing without a report."""
    found = [f"{CHECK_GLYPHS[summary[key]]} {words}" for key, words in CHECK_NAMES.items() if key in summary]
    gate = summary.get("gate")
    return [*found, f"{CI_GLYPHS[gate['outcome']]} build gate"] if gate else found
