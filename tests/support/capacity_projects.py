"""Projects with a simulated run of a study of capacities."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from loadbook.modes.capacity.spec_search import Bracket, RateSearch
from loadbook.store.paths import Layout
from loadbook.store.tables import to_arrow, write_arrow
from mock_project import RUN, Arm, make_project

NAME = "sustained"
LIMIT_S = 0.02
ARMS = {
    "baseline": Arm(label="baseline"),
    "aa": Arm(check="aa", label="A/A: baseline again"),
    "large": Arm(0.08, {"gzip": True}, "twice the memory"),
    "small": Arm(-0.3, {"gzip": False, "sendfile": True}, "a very much smaller machine with a long name"),
}


def capacity_project(root: Path) -> Layout:
    """Make a project with one run, in which each trial has the probes of a search for its capacity."""
    layout = make_project(
        root,
        ARMS,
        name=NAME,
        question="How much load does each sustain?",
        capacity={"within_s": LIMIT_S},
        workload={"tool": "vegeta", "model": "open", "rate_per_s": 20_000, "path": "/index.html"},
    )
    paths = layout.run(NAME, RUN)
    rows = pq.read_table(paths.table("measurements")).to_pylist()
    found = [row | {"metric": "capacity_per_s"} for row in rows if row["metric"] == "ok_per_s"]
    costs = [row | {"metric": "cpu_per_response", "unit": "s", "value": 1 / row["value"]} for row in found]
    write_arrow(paths.table("measurements"), to_arrow("measurements", [*rows, *found, *costs]))
    samples = [sample for row in found for sample in probes(row)]
    write_arrow(paths.table("samples"), to_arrow("samples", samples))
    return layout


def probes(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the samples of the probes of one search, whose times rise with the rate."""
    search, keys = RateSearch(Bracket(row["value"] / 1.3, row["value"] * 1.2)), ("study", "run", "trial", "driver")
    samples: list[dict[str, Any]] = []
    while (rate := search.next_rate) is not None:
        margin = max(-3.0, min(3.0, 8 * math.log(row["value"] / rate)))
        search = search.after(margin >= 0)
        shared = {key: row[key] for key in keys} | {"series": "probe", "x": rate, "x_unit": "1/s", "unit": "1"}
        samples += [shared | {"metric": "margin", "value": margin}, shared | {"metric": "share_within", "value": 0.99}]
    return samples
