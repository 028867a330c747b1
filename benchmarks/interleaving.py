"""Interleaved blocks on a real lab: a table of what they must show, of what was measured, and whether it suffices.

    python benchmarks/interleaving.py                      # every check, one after the other; 5 hours
    python benchmarks/interleaving.py pairs --runs 10      # nginx-directives, 18 blocks plain, 18 interleaved
    python benchmarks/interleaving.py aa --studies 40      # the same treatment under two names, 8 blocks each
    python benchmarks/interleaving.py costs --studies 10   # known costs of CPU time, 15 blocks each
    python benchmarks/interleaving.py against --turns 8    # studies plain and interleaved, 5 blocks of each in turn
    python benchmarks/interleaving.py simulated            # false alarms on simulated hosts that are not steady
    python benchmarks/interleaving.py faults --kills 20    # kill -9 at random instants, cut links, hung load generators

Prints a line per run or treatment and, last, the table as Markdown; exit code 1 if a target was missed. `against` takes
`--study NAME[:SUBSET]` and keeps the runs in `--folder`.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pandas as pd

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.execution.studies import load_study, needed_hosts
from loadbook.ingestion.ingest import ingest
from loadbook.stats.analyse import analyse
from loadbook.stats.compare import compare, compare_declared
from loadbook.stats.results import Comparison
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from loadbook.study.plan import make_plan
from project import REPO, lab_project, say
from simulated.interleaved import FALSE_ALARMS
from validation import all_simulations

LEVEL, ALPHA = 0.95, 0.05
TARGET_HALF_WIDTH, TARGET_RUN_S, TARGET_GAIN, TARGET_AGREEING = 0.015, 180.0, 10.0, 19 / 20
TARGET_REPORT_S = 240.0
COSTS = {"cost-1": 0.8, "cost-3": 1.0, "cost-10": 1.0}  # the share of studies that must find each
FAULT_TESTS = "tests/live/timing/execution/test_interleaved_faults_timing.py"
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
BASELINE = "baseline-auto"  # of nginx-directives
VARIANT = 'include = "{study}.toml"\nname = "{study}-{execution}"\nexecution = "{execution}"\n'


class Row(NamedTuple):
    """One row of the table: what is checked, what must be shown, what was measured, and whether that suffices."""

    check: str
    target: str
    measured: str
    met: bool


class Measured(NamedTuple):
    """The values of a run's trials (columns of `RunTables.values`) by metric, and the seconds that it took.

    `undecided`: the treatments that the report calls undecided or invalid.
    """

    values: dict[str, pd.DataFrame]
    seconds: float
    undecided: tuple[str, ...]


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
        run = run_study(layout, RunRequest(name, hosts, more=blocks), on_event=say)
    else:
        run = run_study(layout, RunRequest(name, hosts, subset=subset, blocks=blocks, new=True), on_event=say)
    seconds = time.monotonic() - began
    ingest(layout.run(name, run))
    tables = load_run(layout, name, run)
    metrics = METRICS if execution == "interleaved" else METRICS[:1]
    undecided = tuple(
        row.treatment
        for row in analyse(tables).of_kind("treatment")
        if row.verdict is None or row.verdict.kind in ("undecided", "invalid")
    )
    values = {metric: tables.values(metric).assign(valid=True) for metric in metrics}
    return Measured(values, seconds, undecided)


def comparisons(values: pd.DataFrame, metric: str, baseline: str) -> list[Comparison]:
    """Compare every treatment with the baseline."""
    others = [name for name in sorted(values["treatment"].unique()) if name != baseline]
    declared = compare_declared(values, baseline, others, "baseline", metric=metric, statistic="value", level=LEVEL)
    return declared.comparisons


def half_width(found: Comparison) -> float:
    """Return half the width of the 95 % interval; infinite if there is none."""
    return (found.ci95[1] - found.ci95[0]) / 2 if found.ci95 else math.inf


def pairs(given: argparse.Namespace) -> list[Row]:
    """Run nginx-directives plain and interleaved in turn; compare widths, times, and variance times time."""
    runs: list[dict[str, Run]] = []
    with project() as (layout, hosts):
        for number in range(1, given.runs + 1):
            pair = {}
            order = EXECUTIONS if number % 2 else EXECUTIONS[::-1]
            for execution in order if number <= given.plain_runs else ("interleaved",):
                measured = measure(layout, hosts, "nginx-directives", execution, given.blocks)
                for metric, values in measured.values.items():
                    for found in comparisons(values, metric, BASELINE):
                        print(f"run {number:2} {execution:11} {metric:16} {found.treatment:32} {_text(found)}")
                pair[execution] = run = Run.of(measured)
                undecided = f"undecided: {', '.join(run.undecided)}" if run.undecided else "all decided"
                print(
                    f"run {number:2} {execution:11} widest ±{run.half_width:.2%}, {run.seconds:.0f} s, {undecided}",
                    flush=True,
                )
            runs.append(pair)
    interleaved = [pair["interleaved"] for pair in runs]
    both = [pair for pair in runs if "plain" in pair]
    return [_narrow(interleaved), _decided(interleaved), _gain(both), _calm(both)]


class Run(NamedTuple):
    """The widest half-width of a run of nginx-directives, the variance of its log ratios, and its seconds.

    `undecided`: the treatments that the report calls undecided or invalid.
    """

    half_width: float
    variance: float
    seconds: float
    undecided: tuple[str, ...]

    @classmethod
    def of(cls, measured: Measured) -> Run:
        """Return the figures of a run."""
        values = measured.values["ok_per_s"]
        widest = max(half_width(found) for found in comparisons(values, "ok_per_s", BASELINE))
        return cls(widest, _variance(values, BASELINE), measured.seconds, measured.undecided)


def _narrow(runs: list[Run]) -> Row:
    good = sum(run.half_width <= TARGET_HALF_WIDTH and run.seconds <= TARGET_RUN_S for run in runs)
    widest, seconds = median(run.half_width for run in runs), median(run.seconds for run in runs)
    return Row(
        "nginx-directives, 18 blocks: half-width of the 95 % interval of every treatment, and time of the run",
        f"at most {TARGET_HALF_WIDTH:.1%} and {TARGET_RUN_S:.0f} s in 9 of 10 runs",
        f"{good} of {len(runs)} runs; in the median ±{widest:.2%} and {seconds:.0f} s",
        good >= 0.9 * len(runs),
    )


def _decided(runs: list[Run]) -> Row:
    good = sum(not run.undecided and run.seconds <= TARGET_REPORT_S for run in runs)
    return Row(
        "the same: the report decides every treatment to 2 %, and time of the run",
        f"in 9 of 10 runs, at most {TARGET_REPORT_S:.0f} s",
        f"{good} of {len(runs)} runs; treatments undecided: {sum(len(run.undecided) for run in runs)}",
        good >= 0.9 * len(runs),
    )


def _gain(runs: list[dict[str, Run]]) -> Row:
    gains = [
        pair["plain"].variance * pair["plain"].seconds / (pair["interleaved"].variance * pair["interleaved"].seconds)
        for pair in runs
    ]
    return Row(
        "variance × seconds, plain over interleaved, the runs of a pair one after the other",
        f"at least {TARGET_GAIN:.0f} in the median",
        f"{median(gains):.1f} in the median of {len(gains)} pairs ({min(gains):.1f} to {max(gains):.1f})",
        median(gains) >= TARGET_GAIN,
    )


def _calm(runs: list[dict[str, Run]]) -> Row:
    """Compare the half of the pairs whose plain runs scatter least, which is a choice in favour of plain runs."""
    calm = sorted(runs, key=lambda pair: pair["plain"].variance)[: max(1, len(runs) // 2)]
    ratios = {
        name: median(getattr(pair["interleaved"], name) / getattr(pair["plain"], name) for pair in calm)
        for name in ("half_width", "seconds")
    }
    return Row(
        "half-width and time of a run in the calmer half of the pairs, interleaved over plain",
        "at most 1 and 1",
        f"{ratios['half_width']:.2f} and {ratios['seconds']:.2f} in the median",
        max(ratios.values()) <= 1,
    )


def _text(found: Comparison) -> str:
    if found.ci95 is None or found.effect is None:
        return "no interval"
    return f"{found.effect:+7.2%}  ({found.ci95[0]:+.2%} to {found.ci95[1]:+.2%})  ±{half_width(found):.2%}"


def against(given: argparse.Namespace) -> list[Row]:
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
    return [
        Row(
            f"effects, interleaved against plain, {given.turns * given.blocks} blocks of each",
            "inside the joint 95 % interval in 19 of 20 treatments",
            f"{sum(agreeing)} of {len(agreeing)}",
            sum(agreeing) >= TARGET_AGREEING * len(agreeing),
        )
    ]


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


def aa(given: argparse.Namespace) -> list[Row]:
    """Run A/A studies; at most one in ten may find a difference."""
    claims = 0
    with project() as (layout, hosts):
        for number in range(1, given.studies + 1):
            values = measure(layout, hosts, "aa", "interleaved", given.blocks).values["ok_per_s"]
            found = compare(values.drop(columns="valid"), "again", "baseline")
            claimed = found.p is not None and found.p < ALPHA
            claims += claimed
            print(f"{number:3}  {_text(found)}  p {found.p}  {'CLAIM' if claimed else ''}", flush=True)
    return [
        Row(
            f"A/A studies of {given.blocks} blocks that claim a difference (p < {ALPHA})",
            f"at most {given.studies // 10} of {given.studies}",
            f"{claims} of {given.studies}",
            claims <= given.studies // 10,
        )
    ]


def costs(given: argparse.Namespace) -> list[Row]:
    """Count how often known costs of CPU time are found; each study's costs are calibrated on all other blocks."""
    with project() as (layout, hosts):
        total = given.calibrate + given.studies * given.blocks
        values = measure(layout, hosts, "known-cost-cpu", "interleaved", total, subset="costs").values["ok_per_s"]
    found, inside = dict.fromkeys(COSTS, 0), 0
    for study in range(given.studies):
        first = given.calibrate + 1 + study * given.blocks
        own = values["block"].between(first, first + given.blocks - 1)
        calibrated = {one.treatment: one.effect for one in _costs_of(values[~own])}
        for one in _costs_of(values[own]):
            true = calibrated[one.treatment]
            covers = bool(one.ci95 and true is not None and one.ci95[0] <= true <= one.ci95[1])
            found[one.treatment] += bool(one.ci95 and one.ci95[1] < 0)
            inside += covers
            print(
                f"study {study + 1:2} {one.treatment:8} {_text(one)}  {true:+.2%} {'inside' if covers else 'OUTSIDE'}"
            )
    sizes = ", ".join(f"{one.treatment} {one.effect:+.1%}" for one in _costs_of(values))
    comparisons_made = len(COSTS) * given.studies
    return [
        Row(
            f"known costs of CPU time, {given.blocks} blocks ({sizes}): found",
            ", ".join(f"{round(share * given.studies)}" for share in COSTS.values()) + f" of {given.studies}",
            ", ".join(map(str, found.values())),
            all(found[cost] >= share * given.studies for cost, share in COSTS.items()),
        ),
        Row(
            "the same: calibrated cost inside the 95 % interval",
            f"28 of 30 (of {comparisons_made}: {math.ceil(comparisons_made * 28 / 30)})",
            f"{inside} of {comparisons_made}",
            inside >= comparisons_made * 28 / 30,
        ),
    ]


def _costs_of(values: pd.DataFrame) -> list[Comparison]:
    return [found for found in comparisons(values, "ok_per_s", "baseline") if found.treatment in COSTS]


def simulated(given: argparse.Namespace) -> list[Row]:
    """Simulate studies without a difference on hosts with two modes, AR(0.9), drift and stalls."""
    found = [
        result.value
        for simulation in all_simulations(FALSE_ALARMS)
        for result in simulation.run(1000)
        if result.row.claim == FALSE_ALARMS
    ]
    return [
        Row(
            "simulated hosts with two modes, AR(0.9), drift and stalls: false alarms at 8 and 15 blocks",
            "2.5 to 6.5 %",
            f"{min(found):.1f} to {max(found):.1f} %",
            min(found) >= 2.5 and max(found) <= 6.5,
        )
    ]


def faults(given: argparse.Namespace) -> list[Row]:
    """Kill controllers at random instants, and run the tests that cut links, hang generators and kill jobs."""
    killed = subprocess.run(
        [sys.executable, "benchmarks/kill9.py", "--kills", str(given.kills), "--execution", "interleaved"], cwd=REPO
    )
    tested = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n0", FAULT_TESTS], cwd=REPO)
    return [
        Row(
            f"{given.kills} times kill -9; cut links, hung load generators, killed jobs in mid-slice ({FAULT_TESTS})",
            "nothing lost, no stopped process left",
            ", ".join(
                f"{name}: {'nothing lost or left' if one.returncode == 0 else 'FAILED'}"
                for name, one in (("kills", killed), ("tests", tested))
            ),
            killed.returncode == tested.returncode == 0,
        )
    ]


CHECKS = {"simulated": simulated, "faults": faults, "pairs": pairs, "aa": aa, "costs": costs, "against": against}
BLOCKS = {"pairs": 18, "aa": 8, "costs": 15, "against": 5}
STUDIES = {"aa": 40, "costs": 10}


def main() -> None:
    """Run the checks named on the command line, or all, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checks", nargs="*", metavar="CHECK", help=f"{', '.join(CHECKS)} (default: all)")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--plain-runs", type=int, default=10, help="so many of the runs have a plain one beside them")
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--study", action="append")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--studies", type=int)
    parser.add_argument("--blocks", type=int)
    parser.add_argument("--calibrate", type=int, default=30)
    parser.add_argument("--kills", type=int, default=20)
    given = parser.parse_args()
    if unknown := set(given.checks) - set(CHECKS):
        parser.error(f"no check {', '.join(sorted(unknown))}: choose from {', '.join(CHECKS)}")
    rows: list[Row] = []
    for name in given.checks or CHECKS:
        defaults = {"studies": STUDIES.get(name), "blocks": BLOCKS.get(name)}
        chosen = {key: getattr(given, key) or default for key, default in defaults.items()}
        rows += CHECKS[name](argparse.Namespace(**vars(given) | chosen))
    print(f"\n`{Path(__file__).name} {' '.join(sys.argv[1:])}`, {date.today()}\n\n| check | target | measured | met |")
    print("|---|---|---|---|")
    for row in rows:
        print(f"| {row.check} | {row.target} | {row.measured} | {'yes' if row.met else '**no**'} |")
    sys.exit(not all(row.met for row in rows))


if __name__ == "__main__":
    main()
