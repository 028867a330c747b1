"""Pages of simulated or recorded runs on disk, one for each notebook with a number by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import backends_runs
from capacity_projects import NAME, capacity_project
from loadbook.analyses.balancers.page import BalancersPage
from loadbook.analyses.capacity.page import CapacityPage
from loadbook.analyses.certified_rates.page import CertifiedRatesPage
from loadbook.analyses.compare_runs.page import ComparePage
from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.factorial.page import FactorialPage
from loadbook.analyses.history.page import HistoryPage
from loadbook.analyses.history.runs import read_history
from loadbook.analyses.noise import NoisePage
from loadbook.analyses.page_size.page import PageSizePage
from loadbook.analyses.quality import QualityPage
from loadbook.analyses.resources import ResourcesPage
from loadbook.store.tables import load_run, to_arrow, write_arrow
from many_runs import STUDY as NIGHTLY_STUDY
from many_runs import nights
from mock_project import RUN, Arm, make_project, usual_arms
from recorded_run import STUDY, ingested_run


def effects(root: Path) -> Any:
    return EffectsPage(load_run(ingested_run(root), STUDY))


def capacities(root: Path) -> Any:
    return CapacityPage(load_run(capacity_project(root), NAME))


def balancers(root: Path) -> Any:
    arms = {"one": Arm(), "aa": Arm(check="aa"), "nginx": Arm(-0.02), "haproxy": Arm(-0.01), "lost": Arm(-0.2)}
    layout = make_project(root, arms, hypothesis="non-inferiority", blocks=14)
    return BalancersPage(load_run(layout, "nginx-directives"))


def factorial(root: Path, blocks: int = 12, scatter: float = 0.006) -> Any:
    off, changes = {"nopush": False, "epoll": False}, {"a": 0.06, "b": 0.0, "ab": 0.06}
    arms = {"plain": Arm(set=off), "again": Arm(set=off, check="aa"), "slow": Arm(-0.2, off | {"log": True})}
    arms |= {
        key: Arm(change, {"nopush": "a" in key, "epoll": "b" in key}, scatter=scatter)
        for key, change in changes.items()
    }
    spec = {"factors": ["nopush", "epoll"]}
    layout = make_project(root, arms, name="tuned", blocks=blocks, factorial=spec, notebooks=["factorial"])
    return FactorialPage(load_run(layout, "tuned"))


def compare_runs(root: Path) -> Any:
    older, newer, study = "20261120-101500", "20261201-101500", "nginx-directives"
    make_project(root, run=older)
    layout = make_project(root, usual_arms() | {"tcp-nopush": Arm(0.005, {"tcp_nopush": True})}, run=newer, dice=7)
    return ComparePage(load_run(layout, study, older), load_run(layout, study, newer))


def certified_rates(root: Path) -> Any:
    layout = make_project(
        root,
        {"low": Arm(), "high": Arm(0.0, {"rate_per_s": 1500})},
        name="promised",
        blocks=46,
        capacity={"within_s": 0.02, "certified_share": 0.9},
        roles={"driver": {}, "web": {"service": "nginx"}},
        workload={"tool": "vegeta", "model": "open", "rate_per_s": 500, "path": "/index.html"},
        factors={"rate_per_s": {"of": "workload", "levels": [500, 1500]}},
    )
    table = layout.run("promised", RUN).table("measurements")
    rows = pq.read_table(table).to_pylist()
    rates = [row for row in rows if row["metric"] == "ok_per_s"]
    dice, names = np.random.default_rng(3), {"metric": "objective_time", "unit": "s"}
    speeds = (
        0.013 + 0.004 * np.sin(np.arange(len(rates)) / 9) + dice.normal(0, 0.003, len(rates))
    )  # a host that wanders
    times = [row | names | {"value": float(speed)} for row, speed in zip(rates, speeds, strict=True)]
    write_arrow(table, to_arrow("measurements", [*rows, *times]))
    return CertifiedRatesPage(load_run(layout, "promised", RUN))


def noise(root: Path) -> Any:
    arms = {"baseline": Arm(), "aa": Arm(check="aa", label="again")}
    return NoisePage(load_run(make_project(root, arms, name="noise", blocks=15, traces=False), "noise"))


def history(root: Path) -> Any:
    layout = nights(root, 6, lambda night: 0.03 + 0.02 * (night % 2))
    return HistoryPage(read_history(layout, NIGHTLY_STUDY, lambda done, total: None))


def page_size_tps(root: Path) -> Any:
    sizes = (128, 8192, 65_536, 524_288)
    rate = {size: 1 / (1 / 4000 + size / 125e6) for size in sizes}
    arms = {f"p{size}": Arm(rate[size] / 41_600 - 1, {"page_bytes": size}) for size in sizes}
    layout = make_project(
        root, arms, name="sizes", notebooks=["page_size_tps"], factors={"page_bytes": {"levels": list(sizes)}},
        roles={"driver": {}, "web": {"service": "web", "vars": {"page_bytes": 128}}},
    )  # fmt: skip
    return PageSizePage(load_run(layout, "sizes"))


def resource_traces(root: Path) -> Any:
    return ResourcesPage(load_run(ingested_run(root), STUDY))


def run_quality(root: Path) -> Any:
    return QualityPage(load_run(make_project(root), "nginx-directives"))


# notebook -> a function that makes a project below a folder, and returns the page of its run
PAGES = {
    "backend_modes": backends_runs.project,
    "capacity": capacities,
    "config_effects": effects,
    "lb_vs_single": balancers,
    "factorial": factorial,
    "compare_runs": compare_runs,
    "certified_rates": certified_rates,
    "noise": noise,
    "history": history,
    "page_size_tps": page_size_tps,
    "resource_traces": resource_traces,
    "run_quality": run_quality,
}
