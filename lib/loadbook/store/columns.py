"""Columns of the processed tables: types and meanings (docs/reference/tables.md is made from them).

Values are in base units: s, B, 1/s. Links in a meaning lead from docs/reference.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """One column: arrow type ("?" if it may be null) and meaning."""

    type: str
    meaning: str


_KEYS = {
    "study": Column("string", "name of the study"),
    "run": Column("string", "id of the run: its start, UTC"),
    "trial": Column("string", "`t0001` and so on, in the order of the plan"),
}
COLUMNS: dict[str, dict[str, Column]] = {
    "trials": {
        **_KEYS,
        "treatment": Column("string", "name of the treatment"),
        "block": Column("int32", "from 1"),
        "slot": Column("int32", "place in the order of the whole run, from 1"),
        "execution": Column(
            "string",
            "`interleaved` ([interleaving.md](../interleaving.md)), `shared` "
            "([shared-loads.md](../shared-loads.md)) or `plain`",
        ),
        "measures": Column(
            "string",
            "`all`; with `latency_blocks`, `rates` for interleaved trials (compared by rates and costs), `latencies` "
            "for plain ones (by times)",
        ),
        "status": Column(
            "string",
            "`ok`, `partial`, `invalid`, `tool_failed`, `timeout`, `lost`, `cancelled` "
            "([P1](../reliability.md#the-promises))",
        ),
        "attempt": Column("int32", "number of attempts needed, from 1"),
        "started": Column("float64?", "start of the attempt, seconds since 1970, controller's clock"),
        "duration_s": Column("float64?", "seconds to its end, all phases"),
        "tool": Column("string", "load generator"),
        "tool_version": Column("string?", "as the tool reports it"),
        "load_model": Column("string", "`closed` or `open`"),
        "offered_per_s": Column("float64?", "offered requests per second (open loads)"),
        "concurrency": Column("int32?", "concurrent connections of all drivers (closed loads)"),
        "drivers": Column("int32", "number of driver hosts"),
        "valid": Column("bool", "the trial counts: status `ok`, and no validity rule says invalid"),
        "gates": Column("list<string>", "[validity rules](../validity-rules.md) that say invalid or doubt"),
        "reason": Column("string?", "why the trial did not end well"),
        "response_status": Column("int32?", "status of the page before the load"),
        "response_bytes": Column("int64?", "its size"),
        "response_sha256": Column("string?", "hash of its content"),
        "config_live": Column("bool?", "every service proved its configuration; null if one cannot"),
    },
    "measurements": {
        **_KEYS,
        "driver": Column(
            "string", "alias of the host, or `*`, [all of them](../data-format.md#totals-of-several-drivers)"
        ),
        "metric": Column("string", "a [metric](#metrics)"),
        "statistic": Column("string", "`value`, `count`, `mean`, `p99`, ..."),
        "value": Column("float64", "in base units: s, B, 1/s"),
        "unit": Column("string", "unit of the value"),
        "text": Column("string?", "as the tool printed it; of error responses, the statuses if it tells each"),
        "resolution": Column("float64?", "step to which the tool rounded, in the unit; null if the value was computed"),
    },
    "samples": {
        **_KEYS,
        "driver": Column("string", "alias of the host"),
        "series": Column("string", "the tool's series"),
        "metric": Column("string", "a [metric](#metrics)"),
        "x": Column("float64", "the second, or the bin"),
        "x_unit": Column("string", "unit of x"),
        "value": Column("float64", "in base units"),
        "unit": Column("string", "unit of the value"),
    },
    "traces": {
        **_KEYS,
        "host": Column("string", "alias"),
        "role": Column("string", "its role"),
        "t_s": Column("float64", "seconds since the measurement (`window`) began; negative before"),
        "metric": Column("string", "a [host metric](../import.md#vocabulary), or a counter"),
        "item": Column("string", "CPU, interface, process or service; `all`"),
        "value": Column("float64", "in base units"),
        "unit": Column("string", "unit of the value"),
        "source": Column("string", "a [monitor](../import.md#host-metrics), or `service`: counters"),
    },
    "problems": {
        **_KEYS,
        "trial": Column("string?", "as in the other tables; null if the row concerns the whole run"),
        "host": Column("string?", "if it concerns one"),
        "file": Column("string?", "file of the trial"),
        "line": Column("int32?", "line of that file, from 1"),
        "name": Column("string", "[validity rule](../validity-rules.md), or unreadable item"),
        "level": Column("string", "`invalid`, `doubt`, `note`, `unchecked`"),
        "message": Column("string", "what was observed"),
    },
}
