"""Check on a real lab that a known cost is detected with its true size.

Both costs are calibrated on the first blocks of one run; the other blocks are split into studies of 15, which are
judged separately. Targets: the larger cost is found in 9 of 10 studies, and the calibrated costs are inside the 95 %
interval in 18 of 20 comparisons.

    python benchmarks/known_cost.py                # a rate let through: 1,000, 970, 900 requests per second; 9 minutes
    python benchmarks/known_cost.py --cost cpu     # CPU time per request; 16 minutes, and a quiet machine
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from loadbook.core.units import format_percent
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.stats.compare import compare_declared
from loadbook.stats.results import Comparison
from loadbook.stats.verdict import decide_verdict
from loadbook.store.tables import load_run
from project import lab_project, say

STUDIES = {"rate": "known-cost", "cpu": "known-cost-cpu"}
SMALL, LARGE = "cost-3", "cost-10"
DECLARED = {"rate": {SMALL: -0.03, LARGE: -0.10}, "cpu": {}}
MARGIN = 0.02
FOUND_SHARE, INSIDE_SHARE = 0.9, 0.9


class Judged(NamedTuple):
    """One comparison: its verdict, and whether its interval contains the calibrated and the declared cost."""

    treatment: str
    kind: str
    effect: float
    inside: bool
    inside_declared: bool | None


def both(values: pd.DataFrame, first: int, blocks: int) -> list[Comparison]:
    """Compare both costs with the baseline over `blocks` blocks from block `first` on."""
    chosen = values[values["block"].between(first, first + blocks - 1)]
    return compare_declared(
        chosen, "baseline", [SMALL, LARGE], "baseline", metric="ok_per_s", statistic="value", level=0.95
    ).comparisons


def within(interval: tuple[float, float] | None, effect: float) -> bool:
    """Return whether an interval contains an effect."""
    return interval is not None and interval[0] <= effect <= interval[1]


def judged(found: Comparison, true: float, declared: float | None) -> Judged:
    """Judge one comparison by the true cost and, if there is one, the declared cost."""
    inside_declared = None if declared is None else within(found.ci95, declared)
    kind = decide_verdict(found, MARGIN).kind
    return Judged(found.treatment, kind, found.effect or 0.0, within(found.ci95, true), inside_declared)


def measure(given: argparse.Namespace) -> pd.DataFrame:
    """Execute calibration and studies as one run in a lab, and return the rate of every trial."""
    study, blocks = STUDIES[given.cost], given.calibrate + given.studies * given.blocks
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder,
        lab_project(Path(folder), plain=True) as (layout, hosts),
    ):
        run = run_study(layout, RunRequest(study, hosts, subset="costs", blocks=blocks), on_event=say)
        ingest(layout.run(study, run))
        # every trial counts, valid or not: excluding some by their gates is not what is tested here
        return load_run(layout, study, run).values("ok_per_s").assign(valid=True)


def main() -> None:
    """Measure, print the rows of the table in docs/noise.md, and exit with 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cost", choices=list(STUDIES), default="rate")
    parser.add_argument("--calibrate", type=int, default=40, help="blocks")
    parser.add_argument("--studies", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=15, help="of each study")
    given = parser.parse_args()
    began = time.monotonic()
    values = measure(given)
    true = {one.treatment: one for one in both(values, 1, given.calibrate)}
    done = [
        judged(one, true[one.treatment].effect or 0.0, DECLARED[given.cost].get(one.treatment))
        for k in range(given.studies)
        for one in both(values, 1 + given.calibrate + k * given.blocks, given.blocks)
    ]
    print("| cost | calibrated (95 % interval) | estimates | verdicts | calibrated inside | declared inside |")
    print("|---|---|---|---|---|---|")
    for name, one in true.items():
        show(one, [j for j in done if j.treatment == name])
    found = sum(j.kind == "worse" for j in done if j.treatment == LARGE)
    inside = sum(j.inside for j in done)
    print(f"larger cost found in {found} of {given.studies} studies; calibrated cost inside in {inside} of {len(done)}")
    print(f"{len(values)} trials, {(time.monotonic() - began) / 60:.1f} min")
    sys.exit(found < FOUND_SHARE * given.studies or inside < INSIDE_SHARE * len(done))


def show(true: Comparison, done: list[Judged]) -> None:
    """Print the row of one cost."""
    low, high = true.ci95 or (float("nan"), float("nan"))
    verdicts = ", ".join(f"{n} {kind}" for kind, n in Counter(j.kind for j in done).most_common())
    effects = sorted(j.effect for j in done)
    declared = [j.inside_declared for j in done if j.inside_declared is not None]
    cells = [
        true.treatment,
        f"{format_percent(true.effect or 0.0)} ({format_percent(low)} to {format_percent(high)})",
        f"{format_percent(effects[0])} to {format_percent(effects[-1])}",
        verdicts,
        f"{sum(j.inside for j in done)} of {len(done)}",
        f"{sum(declared)} of {len(declared)}" if declared else "–",
    ]
    print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
