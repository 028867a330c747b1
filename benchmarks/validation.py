"""Validation of the statistical method: every claim about it on simulated studies, and controls that must fail.

    .venv/bin/python benchmarks/validation.py [--studies 5000] [--jobs 2] [--only WORDS] [--cases] [--markdown]

Simulates studies with known effects, judges them with loadbook's own functions, prints one table (claim, limits,
measured, ok) and exits with 1 if a row is outside its limits. Seeds are fixed. `--markdown` prints the tables of
docs/reference/simulations.md.
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import time
from collections.abc import Iterable, Sequence
from functools import partial

from processes import process_pool
from simulated import (
    capacity,
    certified_rates,
    controls,
    families,
    harness,
    interleaved,
    request_errors,
    resolution,
    stopping,
    two_arms,
    two_runs,
    unpaired,
    within_trial,
)
from simulated.check import Result, Simulation
from simulated.tables import cases, markdown, summary

# what takes longest comes first, so that no process ends alone
MODULES = (
    families,
    two_runs,
    unpaired,
    interleaved,
    capacity,
    certified_rates,
    two_arms,
    stopping,
    harness,
    resolution,
    controls,
    request_errors,
    within_trial,
)


def all_simulations(only: str = "") -> list[Simulation]:
    """Return the simulations with a row whose text contains `only`."""
    every = [s for module in MODULES for s in module.simulations()]
    return [s for s in every if any(only in f"{row.claim}: {row.case}" for row in s.rows)]


def run_all(simulations: Sequence[Simulation], studies: int, jobs: int) -> Iterable[list[Result]]:
    """Yield results as they are finished, in any order."""
    with process_pool(jobs) as pool:
        yield from pool.imap_unordered(partial(_run, studies=studies), simulations)


def _run(simulation: Simulation, studies: int) -> list[Result]:
    return simulation.run(studies)


def main() -> int:
    """Print the table; return 1 if a row is outside its limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", "--reps", type=int, default=5000, help="studies per row (default 5000)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only rows with these words")
    parser.add_argument("--cases", action="store_true", help="print every case, not only claims")
    parser.add_argument("--markdown", action="store_true", help="print the tables of docs/reference/simulations.md")
    given = parser.parse_args()
    simulations, results, started = all_simulations(given.only), [], time.perf_counter()
    for number, found in enumerate(run_all(simulations, given.studies, given.jobs), 1):
        results += found
        if sys.stderr.isatty():
            print(f"\r{number} of {len(simulations)} simulations\033[K", end="\r", file=sys.stderr, flush=True)
    effort = _effort(given.studies, given.jobs, started)
    if given.markdown:
        print(f"`.venv/bin/python benchmarks/validation.py --markdown`, {datetime.date.today()}: {effort}. In %.\n")
    print((markdown if given.markdown else cases if given.cases else summary)(results))
    outside = [r for r in results if not r.ok]
    for result in outside:
        print(f"OUTSIDE: {result.row.claim}: {result.row.case}: {result.value:.1f} (limits {result.row.limits})")
    print(f"{len(results)} rows, {len(outside)} outside their limits: {effort}", file=sys.stderr)
    return 1 if outside else 0


def _effort(studies: int, jobs: int, started: float) -> str:
    used = os.times()
    cpu_s = used.user + used.system + used.children_user + used.children_system
    minutes = (time.perf_counter() - started) / 60
    return f"{studies:,} simulated studies a row, {minutes:.1f} minutes, {cpu_s:.0f} CPU seconds, {jobs} processes"


if __name__ == "__main__":
    sys.exit(main())
