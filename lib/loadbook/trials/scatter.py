"""How much a finished run scattered: what the plan of the next one needs to say which difference it can detect."""

from __future__ import annotations

import math
from statistics import median, stdev

from loadbook.records.rundata import RunData

MIN_BLOCKS = 5


def paired_sd(data: RunData) -> float | None:
    """Return the sd of the log ratios to the baseline, the median over treatments; None with fewer than 5 blocks."""
    rows = data.values(data.study.metric)
    logs: dict[str, dict[int, float]] = {}
    columns = (rows[name] for name in ("treatment", "block", "valid", "value"))
    for treatment, block, valid, value in zip(*columns, strict=True):
        if valid and value > 0:
            logs.setdefault(treatment, {})[block] = math.log(value)
    base = logs.pop(data.study.baseline, {})
    ratios = [[log - base[b] for b, log in by_block.items() if b in base] for by_block in logs.values()]
    found = [stdev(r) for r in ratios if len(r) >= MIN_BLOCKS]
    return median(found) if found else None
