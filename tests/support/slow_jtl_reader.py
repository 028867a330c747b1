"""Simple, slow reader of JTL files (csv, one dict per row, sorted lists) without code of loadbook, for comparison."""

from __future__ import annotations

import csv
import io
import math
import statistics
from typing import Any

TRANSACTION = "Number of samples in transaction"
COLUMNS_2 = (
    "timeStamp elapsed label responseCode responseMessage threadName dataType success bytes grpThreads allThreads "
    "Latency"
)


def rows(data: bytes, separator: str = ",", columns: list[str] | None = None) -> list[dict[str, str]]:
    """Return the complete rows of a file; text after the last line end is ignored."""
    text = data[: data.rfind(b"\n") + 1].decode("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline=""), fieldnames=columns, delimiter=separator))


def requests(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Return the rows of requests, without transactions and without sub-results (`label-N` in the time of `label`)."""
    kept, parents = [], {}
    for row in found:
        if row.get("responseMessage", "").startswith(TRANSACTION):
            continue
        parent = parents.get(row.get("threadName"))
        base, _, number = row["label"].rpartition("-")
        if parent and number.isdigit() and base == parent["label"] and _within(row, parent):
            continue
        parents[row.get("threadName")] = row
        kept.append(row)
    return kept


def _within(row: dict[str, str], parent: dict[str, str]) -> bool:
    if "timeStamp" not in row:
        return True
    start, end = int(row["timeStamp"]), int(row["timeStamp"]) + int(row["elapsed"])
    first, last = int(parent["timeStamp"]), int(parent["timeStamp"]) + int(parent["elapsed"])
    return first - 1 <= start and end <= last + 1


def figures(found: list[dict[str, str]]) -> dict[str, Any]:
    """Return the expected counts and times of these requests as a dict."""
    answered = [row for row in found if not row["responseCode"].startswith("Non HTTP")]
    ok = [row for row in answered if row["success"] == "true" and not row["responseCode"] >= "400"]
    times = sorted(int(row["elapsed"]) / 1000 for row in found)
    ends = [int(row["timeStamp"]) + int(row["elapsed"]) for row in found if "timeStamp" in row]
    starts = [int(row["timeStamp"]) for row in found if "timeStamp" in row]
    return {
        "attempts": len(found),
        "answered": len(answered),
        "ok": len(ok),
        "received": sum(int(row["bytes"]) for row in answered) if found else None,
        "duration_s": (max(ends) - min(starts)) / 1000 if starts else None,
        "mean": statistics.fmean(times) if times else None,
        "sd": statistics.stdev(times) if len(times) > 1 else None,
        **{
            f"p{p}": times[max(1, math.ceil(len(times) * p / 100)) - 1] if times else None for p in (0, 50, 90, 99, 100)
        },
    }
