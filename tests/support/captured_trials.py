"""Trials made from recorded tool outputs (tests/fixtures/<tool>), on hosts that violate no validity rule."""

from __future__ import annotations

from typing import Any

from loadbook.study.limits import ValidityLimits
from loadbook.tools import base
from loadbook.validity.base import RuleHit
from loadbook.validity.rules import check_trial
from tool_captures import FIXTURES, capture
from valid_trial import CLEAN, record, traces


def check_capture(tool: str, case: str, gates: dict[str, float] | None = None, **workload: Any) -> list[RuleHit]:
    """Return the violated rules of a trial with this recorded output; the page has a known size only if given."""
    path = FIXTURES / tool / f"{case}.json"
    parsed = base.load_tool(tool).parse(capture(path))
    rows = [{"driver": "*", **row.as_row()} for row in parsed.measurements]
    answer = {"status": workload.get("expect_status", 200), "bytes": workload.get("expect_bytes", 5), "sha256": "a"}
    lasted = max([4.0, *(row.value for row in parsed.measurements if row.metric == "duration")])
    drivers = [CLEAN["drivers"][0] | {"argv": list(capture(path).argv)}]
    trial = record(
        tool=tool,
        workload={"tool": tool, "model": "closed"} | workload,
        window=(1000.0, 1000.0 + lasted),
        drivers=drivers,
        response_before=answer,
        response_after=answer,
    )
    return check_trial(
        trial,
        rows,
        traces(times=[k * 0.25 for k in range(-4, int(lasted * 4) + 4)], end=lasted),
        parsed.doubts,
        ValidityLimits(**(gates or {})),
    )
