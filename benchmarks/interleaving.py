"""Interleaved blocks on a real lab: width of intervals, error rates, and comparison with plain trials.

    python benchmarks/interleaving.py widths --runs 10     # nginx-directives, 15 blocks: half-width of every interval
    python benchmarks/interleaving.py against --turns 8    # studies plain and interleaved, 5 blocks of each in turn
    python benchmarks/interleaving.py aa --studies 40      # the same treatment under two names, 8 blocks each
    python benchmarks/interleaving.py costs --studies 10   # known CPU costs, 15 blocks each, after 30 to calibrate

Each prints a row per study or treatment and, last, whether its target was met; exit code 1 if it was not. Targets: a
half-width of at most 1.5 % in 9 of 10 runs of at most 3 minutes; plain and interleaved effects agree within their joint
95 % interval in 19 of 20 treatments (`--study NAME[:SUBSET]` chooses, `--folder` keeps the runs); at most 4 of 40 A/A
studies claim a difference; the costs found in 8 of 10 (small) and in all (large), inside the interval in 28 of 30.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from loadbook.execution.session import run_study
from loadbook.execution.studies import load_study, needed_hosts
from loadbook.ingestion.ingest import ingest
from loadbook.stats.compare import compare, compare_declared
from loadbook.stats.results import Comparison
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from loadbook.study.plan import make_plan
from project import REPO, lab_project, say

LEVEL, ALPHA = 0.95, 0.05
TARGET_HALF_WIDTH, TARGET_RUN_S, TARGET_AGREEING = 0.015, 180.0, 19 / 20
METRICS = ("ok_per_s", "cpu_per_response")
EXECUTIONS = ("plain", "interleaved")
COMPARED_STUDIES = (
    "nginx-directives",
    "known-cost-cpu",
    "lb-vs-single:smoke",
    "backend-modes:near",
    "page-size-tps:smoke",
)
# with 50 connections, slices of 20 latencies would be longer than 1 s
CHANGES = {"page-size-tps": "[workload]\nconnections = 8\n"}
VARIANT = 'include = "{study}.toml"\nname = "{study}-{execution}"\nexecution = "{execution}"\n'


class Measured(NamedTuple):
    """The values of a run's trials (columns of `RunTables.values`) by metric, and the seconds that it took."""

    values: dict[str, pd.DataFrame]
    seconds: float


@contextmanager
def project(folder: Path | None = None, study: str = "aa", subset: str | None = None) -> Iterator[tuple[Layout, Path]]:
    """Yield a project, which stays if it has a `folder`, and the hosts file of its lab with the hosts of the study."""
    min_hosts = needed_hosts(make_plan(load_study(Layout(REPO), study), subset))
    with (
        tempfile.TemporaryDirectory(prefix="loadbook-bench-") as temporary,
        lab_project(folder or Path(temporary), min_hosts) as given,
    ):
        yield given


def measure(
    layout: Layout, hosts: Path, study: str, execution: str, blocks: int, subset: str | None = None, add: bool = False
) -> Measured:
    """Run a study with plain or interleaved execution and return its values, including those of invalid trials.

    With `add`, the blocks are added to those of the study's last run, and the values are those of all of them.
    """
    name, began = f"{study}-{execution}", time.monotonic()
    (layout.studies / f"{name}.toml").write_text(
        VARIANT.format(study=study, execution=execution) + CHANGES.get(study, "")
    )
    if add:
        run = run_study(layout, name, hosts, more=blocks, on_event=say)
    else:
        run = run_study(layout, name, hosts, subset=subset, blocks=blocks, new=True, on_event=say)
    seconds = time.monotonic() - began
    ingest(layout.run(name, run))
    tables = load_run(layout, name, run)
    metrics = METRICS if execution == "interleaved" else METRICS[:1]
    return Measured({metric: tables.values(metric).assign(valid=True) for metric in metrics}, seconds)


def comparisons(values: pd.DataFrame, metric: str, baseline: str) -> list[Comparison]:
    """Compare every treatment with the baseline."""
    others = [name for name in sorted(values["treatment"].unique()) if name != baseline]
    declared = compare_declared(values, baseline, others, "baseline", metric=metric, statistic="value", level=LEVEL)
    return declared.comparisons


def half_width(found: Comparison) -> float:
    """Return half the width of the 95 % interval; infinite if there is none."""
    return (found.ci95[1] - found.ci95[0]) / 2 if found.ci95 else math.inf


def widths(given: argparse.Namespace) -> bool:
    """Print the intervals of nginx-directives; target: a half-width of at most 1.5 % in 9 of 10 runs."""
    good = 0
    with project() as (layout, hosts):
        for number in range(1, given.runs + 1):
            measured = measure(layout, hosts, "nginx-directives", "interleaved", given.blocks)
            for metric, values in measured.values.items():
                for found in comparisons(values, metric, "baseline-auto"):
                    print(f"run {number:2} {metric:16} {found.treatment:32} {_text(found)}", flush=True)
            widest = max(half_width(c) for c in comparisons(measured.values["ok_per_s"], "ok_per_s", "baseline-auto"))
            good += widest <= TARGET_HALF_WIDTH and measured.seconds <= TARGET_RUN_S
            print(f"run {number:2} widest ±{widest:.2%}, {measured.seconds:.0f} s", flush=True)
    print(
        f"{good} of {given.runs} runs: every half-width at most {TARGET_HALF_WIDTH:.1%}, at most {TARGET_RUN_S:.0f} s"
    )
    return good >= 0.9 * given.runs


def _text(found: Comparison) -> str:
    if found.ci95 is None or found.effect is None:
        return "no interval"
    return f"{found.effect:+7.2%}  ({found.ci95[0]:+.2%} to {found.ci95[1]:+.2%})  ±{half_width(found):.2%}"


def against(given: argparse.Namespace) -> bool:
    """Print how plain and interleaved effects differ, in blocks that are executed in turn, and what each way costs."""
    agreeing: list[bool] = []
    for name in given.study or COMPARED_STUDIES:
        study, _, subset = name.partition(":")
        folder = given.folder / study if given.folder else None
        with project(folder, study, subset or None) as (layout, hosts):
            runs = _runs_in_turn(layout, hosts, study, subset or None, given.turns, given.blocks)
        baseline = load_study(Layout(REPO), study).baseline
        agreeing += _print_differences(study, runs, baseline)
        plain, interleaved = (_variance(run.values["ok_per_s"], baseline) * run.seconds for run in runs.values())
        times = ", ".join(f"{execution} {run.seconds:.0f} s" for execution, run in runs.items())
        print(f"  variance x seconds, plain / interleaved: {plain / interleaved:.1f}  ({times})", flush=True)
    print(f"{sum(agreeing)} of {len(agreeing)} effects agree; {TARGET_AGREEING:.0%} are wanted")
    return sum(agreeing) >= TARGET_AGREEING * len(agreeing)


def _runs_in_turn(
    layout: Layout, hosts: Path, study: str, subset: str | None, turns: int, blocks: int
) -> dict[str, Measured]:
    """Run a study in both executions, `blocks` blocks of each in turn; return the runs by execution."""
    runs: dict[str, Measured] = {}
    for turn in range(turns):
        for execution in EXECUTIONS if turn % 2 else reversed(EXECUTIONS):
            run = measure(layout, hosts, study, execution, blocks, subset, add=execution in runs)
            earlier_s = runs[execution].seconds if execution in runs else 0.0
            runs[execution] = run._replace(seconds=earlier_s + run.seconds)
    return {execution: runs[execution] for execution in EXECUTIONS}  # plain first


def _print_differences(study: str, runs: dict[str, Measured], baseline: str) -> Iterator[bool]:
    """Print every treatment's effect in both executions and their difference; yield whether its interval covers 0."""
    found = {
        execution: {one.treatment: one for one in comparisons(run.values["ok_per_s"], "ok_per_s", baseline)}
        for execution, run in runs.items()
    }
    print(f"{study}: effects on ok_per_s; difference of the logarithms, interleaved - plain, with its 95 % interval")
    for treatment, plain in found["plain"].items():
        other = found["interleaved"][treatment]
        line = f"  {treatment:32} plain {_text(plain)}  interleaved {_text(other)}"
        if not (plain.ci95 and other.ci95 and plain.effect is not None and other.effect is not None):
            print(f"{line}  no difference")
            continue
        difference = math.log1p(other.effect) - math.log1p(plain.effect)
        half = math.hypot(*((math.log1p(high) - math.log1p(low)) / 2 for low, high in (plain.ci95, other.ci95)))
        agrees = abs(difference) <= half
        print(f"{line}  difference {difference:+.2%} ±{half:.2%}{'' if agrees else '  OUTSIDE'}", flush=True)
        yield agrees


def _variance(values: pd.DataFrame, baseline: str) -> float:
    """Return the median over treatments of the variance of the log ratio to the baseline within a block."""
    import numpy as np

    logs = values.pivot(index="block", columns="treatment", values="value").apply(np.log)
    return float(logs.sub(logs[baseline], axis=0).drop(columns=baseline).var().median())


def aa(given: argparse.Namespace) -> bool:
    """Print the results of A/A studies; at most one in ten may find a difference."""
    claims = 0
    with project() as (layout, hosts):
        for number in range(1, given.studies + 1):
            values = measure(layout, hosts, "aa", "interleaved", given.blocks).values["ok_per_s"]
            found = compare(values.drop(columns="valid"), "again", "baseline")
            claimed = found.p is not None and found.p < ALPHA
            claims += claimed
            print(f"{number:3}  {_text(found)}  p {found.p}  {'CLAIM' if claimed else ''}", flush=True)
    print(f"{claims} of {given.studies} studies claim a difference at p < {ALPHA}; at most a tenth is wanted")
    return claims <= 0.1 * given.studies


def costs(given: argparse.Namespace) -> bool:
    """Print how often known CPU costs are found, which are calibrated on the first blocks of the same run."""
    small, large = "cost-3", "cost-10"
    with project() as (layout, hosts):
        total = given.calibrate + given.studies * given.blocks
        values = measure(layout, hosts, "known-cost-cpu", "interleaved", total, subset="costs").values["ok_per_s"]
    true = {c.treatment: c.effect for c in _costs_of(values, 1, given.calibrate, (small, large))}
    found, inside = dict.fromkeys((small, large), 0), 0
    for study in range(given.studies):
        first = given.calibrate + 1 + study * given.blocks
        for one in _costs_of(values, first, given.blocks, (small, large)):
            found[one.treatment] += bool(one.ci95 and one.ci95[1] < 0)
            inside += bool(one.ci95 and one.ci95[0] <= (true[one.treatment] or 0.0) <= one.ci95[1])
            print(f"study {study + 1:2} {one.treatment:8} {_text(one)}", flush=True)
    print(f"calibrated {true}; found {found} of {given.studies}; inside {inside} of {2 * given.studies}")
    enough = found[small] >= 0.8 * given.studies and found[large] == given.studies
    return enough and inside >= 2 * given.studies * 28 / 30


def _costs_of(values: pd.DataFrame, first: int, blocks: int, treatments: tuple[str, ...]) -> list[Comparison]:
    chosen = values[values["block"].between(first, first + blocks - 1)]
    return [found for found in comparisons(chosen, "ok_per_s", "baseline") if found.treatment in treatments]


def main() -> None:
    """Run the check named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    checks = {"widths": widths, "against": against, "aa": aa, "costs": costs}
    parser.add_argument("check", choices=list(checks))
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--study", action="append")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--studies", type=int, default=None)
    parser.add_argument("--blocks", type=int, default=None)
    parser.add_argument("--calibrate", type=int, default=30)
    given = parser.parse_args()
    given.studies = given.studies or (40 if given.check == "aa" else 10)
    given.blocks = given.blocks or {"aa": 8, "against": 5}.get(given.check, 15)
    sys.exit(not checks[given.check](given))


if __name__ == "__main__":
    main()
