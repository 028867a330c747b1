"""Shared blocks beside plain trials of the same load and time, in a real lab: widths, A/A arms, a known cost.

    python benchmarks/shared_loads.py --runs 10 --blocks 10    # 10 runs in each way; about 3 minutes a run

A study of three nginx at a fixed rate: `again` is the baseline under another name, `steps` runs commands of nginx's
rewrite module for every request. The ways take turns. For p50, p99 and the CPU time of a response, the table has the
median half-width of the 95 % interval of `again`, its ratio to plain trials, how many intervals of `again` hold 0, how
many runs decide that it differs by no more than 10 % (2 % for CPU), and how many intervals of `steps` hold the mean of
the other runs of the same way.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

from loadbook.execution.select import RunRequest
from loadbook.execution.session import run_study
from loadbook.ingestion.ingest import ingest
from loadbook.stats.compare import compare_declared
from loadbook.store.paths import Layout
from loadbook.store.tables import load_run
from project import lab_project, say

WAYS = {
    "plain": 'execution = "plain"',
    "slice": 'execution = "shared"\nturns = "slice"',
    "request": 'execution = "shared"\nturns = "request"',
}
# metric, statistic, margin
VALUES = (("latency_intended", "p50", 0.10), ("latency_intended", "p99", 0.10), ("cpu_per_response", "value", 0.02))
BASELINE, SAME, COST = "as-is", "again", "steps"
STUDY = """
schema = 1
name = "{name}"
question = "What do steps of a configuration cost at a fixed rate?"
metric = "cpu_per_response"
baseline = "as-is"
{way}

[roles.driver]

[roles.web]
service = "nginx"

[workload]
tool = "vegeta"
model = "open"
target = "web"
path = "/index.html"
rate_per_s = {rate}
connections = 20
duration_s = {seconds}
warmup_s = 0.5

[reset]
time_wait_sockets = 1_000_000

[validity]
driver_cpu = 1.0
slices_overrun = 1e9

[factors]
set_steps = {{ role = "web", levels = [0, {steps}] }}

[treatments.as-is]

[treatments.again]
same_as = "as-is"
check = "aa"

[treatments.steps]
set = {{ set_steps = {steps} }}
"""


class Found(NamedTuple):
    """A comparison of one run: estimate (log ratio), half-width of the 95 % interval (log), and that of 90 %."""

    log: float
    half: float
    half_90: float


def run_once(layout: Layout, hosts: Path, way: str, given: argparse.Namespace) -> dict[tuple[str, str], Found]:
    """Run the study in one way; return (statistic, treatment) -> comparison with the baseline."""
    load = {"rate": given.rate, "seconds": given.seconds, "steps": given.steps}
    (layout.studies / f"{way}.toml").write_text(STUDY.format(name=way, way=WAYS[way], **load))
    run = run_study(layout, RunRequest(way, hosts, blocks=given.blocks, new=True), on_event=say)
    ingest(layout.run(way, run))
    tables = load_run(layout, way, run)
    found: dict[tuple[str, str], Found] = {}
    for metric, statistic, _ in VALUES:
        values = tables.values(metric, statistic).assign(valid=True)
        declared = compare_declared(
            values, BASELINE, [SAME, COST], "baseline", metric=metric, statistic=statistic, level=0.95
        )
        for one in declared.comparisons:
            if one.effect is None or one.ci95 is None or one.ci90 is None:
                continue
            halves = [(math.log1p(high) - math.log1p(low)) / 2 for low, high in (one.ci95, one.ci90)]
            found[statistic, one.treatment] = Found(math.log1p(one.effect), *halves)
    return found


def table(runs: dict[str, list[dict[tuple[str, str], Found]]]) -> list[str]:
    """Return the lines of the table."""
    lines = [
        "| value | way | half-width | to plain | A/A holds 0 | decided | known cost held |",
        "|---|---|---|---|---|---|---|",
    ]
    for _, statistic, margin in VALUES:
        widths: dict[str, float] = {}
        for way, own in runs.items():
            same = [run[statistic, SAME] for run in own if (statistic, SAME) in run]
            cost = [run[statistic, COST] for run in own if (statistic, COST) in run]
            widths[way] = median(one.half for one in same)
            holds = sum(abs(one.log) <= one.half for one in same)
            decided = sum(abs(one.log) + one.half_90 < math.log1p(margin) for one in same)
            others = [fmean(other.log for other in cost if other is not one) for one in cost] if len(cost) > 1 else []
            inside = sum(abs(one.log - mean) <= one.half for one, mean in zip(cost, others, strict=False))
            text = f"{math.expm1(fmean(one.log for one in cost)):+.1%}"
            name = "CPU" if statistic == "value" else statistic
            lines.append(
                f"| {name} | {way} | ±{widths[way]:.1%} | {widths[way] / widths['plain']:.2f} | {holds} of {len(same)} "
                f"| {decided} of {len(same)} ({margin:.0%}) | {inside} of {len(others)} ({text}) |"
            )
    return lines


def main() -> None:
    """Run the command of the module docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=400)
    given = parser.parse_args()
    runs: dict[str, list[dict[tuple[str, str], Found]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory(prefix="loadbook-bench-") as folder, lab_project(Path(folder)) as (layout, hosts):
        for number in range(1, given.runs + 1):
            for way in list(WAYS)[:: 1 if number % 2 else -1]:
                began = time.monotonic()
                runs[way].append(run_once(layout, hosts, way, given))
                texts = [f"{s} {one.log:+.1%} ±{one.half:.1%}" for (s, t), one in runs[way][-1].items() if t == SAME]
                print(f"run {number} {way} {time.monotonic() - began:.0f} s: A/A {', '.join(texts)}", flush=True)
            print("\n".join(table(runs)), flush=True)


if __name__ == "__main__":
    main()
