"""What a page's summary says of the checks, as every list of pages shows it beside the verdict."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadbook.report.palette import DOUBT_GLYPH, FAILED_GLYPH

CHECKS = {"aa": "A/A", "control": "known effect"}
GLYPHS = {True: "✓", False: FAILED_GLYPH, None: "–"}
GATE_GLYPHS = {"passed": "✓", "failed": FAILED_GLYPH, "invalid": DOUBT_GLYPH}


def checks(summary: Mapping[str, Any]) -> list[str]:
    """Return the A/A arm, the positive control and the build gate, each with its glyph; nothing without a report."""
    found = [f"{GLYPHS[summary[key]]} {words}" for key, words in CHECKS.items() if key in summary]
    gate = summary.get("gate")
    return [*found, f"{GATE_GLYPHS[gate['outcome']]} build gate"] if gate else found
