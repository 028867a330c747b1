"""Error rates with recorded noise: studies made from at least 120 consecutive trials of one configuration.

In windows of 2 n consecutive trials the trials get two labels: drawn within blocks, they must raise false alarms in 2.5
to 6.5 % of windows; in a fixed order, they show its bias; with one label's values times 1.02, they show the power.

    python benchmarks/plasmode.py --record     # records a run of studies/noise.toml first: 4 minutes
    python benchmarks/plasmode.py              # the latest run that is there; seconds
"""

from __future__ import annotations

import argparse
import sys

from loadbook.analyses.noise import compute_noise_record, noise_headline
from loadbook.core.errors import LoadbookError
from loadbook.core.units import format_percent
from loadbook.execution.power import aa_arms
from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.stats.power import relabelling_test, summarise_noise, trials_of_arms
from loadbook.store.paths import Layout, project_layout
from loadbook.store.tables import load_run
from project import say

BLOCKS = (6, 8, 10, 15, 20)
LOW, HIGH = 0.025, 0.065
LEAST = 120


def show(here: Layout, study: str, run: str, studies: int) -> bool:
    """Print the run and a row per number of blocks n; return whether every row with n >= 8 is within its limits."""
    data = load_run(here, study, run)
    ours = trials_of_arms(data.values(data.study.metric), aa_arms(data.study))
    found, page = summarise_noise(ours), compute_noise_record(ours, data.study.metric, data.study.margin)
    if found is None or page is None:
        raise SystemExit("fewer than 20 trials count, or all are equal")
    low, high = (format_percent(bound, signed=False) for bound in found.cv_interval)
    scatter = (
        f"CV {format_percent(found.cv, signed=False)} ({low} to {high}), lag-1 {found.lag1:+.2f} ± "
        f"{found.lag1_error:.2f}"
    )
    print(f"run {data.run}: {found.trials} trials, mean {found.mean:,.0f} /s, {scatter}")
    print(noise_headline(page, page.margin))
    print("\n| blocks | windows | false alarms % | fixed order % | a true 2 % found % |\n|---|---|---|---|---|")
    good = True
    for blocks in BLOCKS:
        row = relabelling_test(found.residuals, blocks, studies)
        if row is None:
            print(f"| {blocks} | too few trials | | | |")
            continue
        shares = " | ".join(f"{100 * share:.1f}" for share in (row.false_alarms, row.fixed_order, row.detected))
        print(f"| {blocks} | {row.windows} | {shares} |")
        good &= blocks < 8 or LOW <= row.false_alarms <= HIGH
    return good and found.trials >= LEAST


def main() -> None:
    """Record a run if requested, print the table, and exit with 1 if false alarms are outside their limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="record a new run in the lab of this project first")
    parser.add_argument("--study", default="noise")
    parser.add_argument("--run", default="latest")
    parser.add_argument("--studies", type=int, default=5_000, help="pseudo-studies per row")
    given = parser.parse_args()
    here, run = project_layout(), given.run
    try:
        if given.record:
            run = run_study(here, RunRequest(given.study, new=True), on_event=say)
            ingest(here.run(given.study, run))
        good = show(here, given.study, run, given.studies)
    except LoadbookError as error:
        raise SystemExit(f"{error.message}\n  next: {error.hint}") from error
    sys.exit(not good)


if __name__ == "__main__":
    main()
