"""Check in a real lab that a known difference in capacity is found with its true size, and none where there is none.

Every study is a run of its own of `known-capacity`, whose exploration begins at another rate. Targets: the true ratio
of ten to nine is inside the 95 % interval in 18 of 20 studies, and found in 19; two equal arms are said to differ in
one of 20 at most.

    python benchmarks/known_capacity.py                # 20 studies of 6 blocks, two hours
    python benchmarks/known_capacity.py --studies 2    # ten minutes
"""

from __future__ import annotations

import argparse
import math
import random
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

from loadbook.core.units import format_percent
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.stats.compare import compare_declared
from loadbook.stats.results import Comparison
from loadbook.stats.verdict import decide_verdict
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from project import lab_project, say

STUDY, BASE, MORE, AGAIN = "known-capacity", "slots-9", "slots-10", "again"
TRUTHS = {BASE: 1800.0, MORE: 2000.0, AGAIN: 1800.0}
INSIDE_SHARE, FOUND_SHARE, ALARM_SHARE = 0.9, 0.95, 0.05
MARGIN = 0.02


class Judged(NamedTuple):
    """One study: the comparison of ten slots with nine, that of nine with nine, and the capacities (1/s)."""

    more: Comparison
    again: Comparison
    capacities: dict[str, float]

    @property
    def inside(self) -> bool:
        """Whether the interval contains the true ratio."""
        low, high = self.more.ci95 or (math.nan, math.nan)
        return low <= TRUTHS[MORE] / TRUTHS[BASE] - 1 <= high

    @property
    def found(self) -> bool:
        """Whether ten slots are said to sustain more."""
        return decide_verdict(self.more, MARGIN).kind == "better"

    @property
    def alarm(self) -> bool:
        """Whether equal arms are said to differ."""
        return self.again.p is not None and self.again.p <= 0.05

    def row(self, number: int) -> str:
        """Return the row of a table."""
        cells = [str(number), *(f"{self.capacities[name]:,.0f}" for name in (BASE, AGAIN, MORE))]
        for one in (self.more, self.again):
            low, high = one.ci95 or (math.nan, math.nan)
            bounds = f"{format_percent(low, 2)} to {format_percent(high, 2)}"
            cells.append(f"{format_percent(one.effect or 0.0, 2)} ({bounds})")
        return f"| {' | '.join([*cells, 'yes' if self.inside else 'no'])} |"


def measure(layout: Layout, hosts: Path, start_per_s: float, blocks: int) -> Judged:
    """Execute one study, whose exploration begins at a rate."""
    file = layout.studies / f"{STUDY}.toml"
    file.write_text(re.sub(r"(?m)^rate_per_s = .*$", f"rate_per_s = {start_per_s:g}", file.read_text()))
    run = run_study(layout, RunRequest(STUDY, hosts, blocks=blocks, new=True), on_event=say)
    ingest(layout.run(STUDY, run))
    values = load_run(layout, STUDY, run).values("capacity_per_s")
    more, again = compare_declared(
        values, BASE, [MORE, AGAIN], "baseline", metric="capacity_per_s", statistic="value", level=0.95
    ).comparisons
    capacities = values.groupby("treatment")["value"].median().items()
    return Judged(more, again, {str(name): float(value) for name, value in capacities})


def main() -> None:
    """Measure, print a table, and exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=20)
    parser.add_argument("--blocks", type=int, default=6, help="of each study")
    parser.add_argument("--seed", type=int, default=1, help="of the rates at which explorations begin")
    given = parser.parse_args()
    began, rng = time.monotonic(), random.Random(given.seed)
    done: list[Judged] = []
    print("| study | nine slots, 1/s | again | ten slots | ten against nine | nine against nine | truth inside |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder,
        lab_project(Path(folder)) as (layout, hosts),
    ):
        for number in range(1, given.studies + 1):
            done.append(measure(layout, hosts, round(rng.uniform(700, 1400)), given.blocks))
            print(done[-1].row(number), flush=True)
    inside, found, alarms = (sum(getattr(one, name) for one in done) for name in ("inside", "found", "alarm"))
    bias = median(one.capacities[name] / TRUTHS[name] - 1 for one in done for name in TRUTHS)
    of = f"of {len(done)} studies"
    print(f"true ratio inside in {inside} {of}; found in {found}; equal arms said to differ in {alarms}")
    print(f"capacity against truth {format_percent(bias, 2)}; {(time.monotonic() - began) / 60:.0f} min")
    missed = inside < INSIDE_SHARE * len(done) or found < FOUND_SHARE * len(done)
    sys.exit(missed or alarms > max(1.0, ALARM_SHARE * len(done)))


if __name__ == "__main__":
    main()
