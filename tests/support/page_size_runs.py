"""Simulated runs of page-size studies with known costs, in the form of loadbook's tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from loadbook.store.run_record import RecordedHost, RunRecord
from loadbook.study.designs import expand_grid
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from run_records import make_run_record, plan_of

EIGHT = (128, 2048, 8192, 32_768, 65_536, 131_072, 262_144, 524_288)
PER_REQUEST_S = {"small": 1 / 900, "medium": 1 / 1900, "large": 1 / 3600}
LINK_BYTES_PER_S = 125e6
HOSTS = {
    "gen": RecordedHost(roles=["driver"], cpus=[0], link_mbit=1000.0),
    "lb": RecordedHost(roles=["balancer"], cpus=[1], link_mbit=1000.0),
    "www": RecordedHost(roles=["web"], cpus=[2]),
}


@dataclass
class SizedRun:
    """The tables of a simulated run that `loadbook.stats` reads."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    traces: pd.DataFrame
    plan: Plan
    run_record: RunRecord = field(default_factory=lambda: make_run_record(hosts=HOSTS))
    facts: dict[str, Any] = field(default_factory=dict)
    samples: pd.DataFrame | None = None
    problems: pd.DataFrame | None = None

    def values(self, metric: str) -> pd.DataFrame:
        """Return the values of a metric, one row per trial, with the columns of `RunTables.values`."""
        rows = self.measurements[self.measurements["metric"] == metric]
        return self.trials.merge(rows[["trial", "value"]], on="trial", how="left")


def sized_study(
    sizes: Sequence[int] = EIGHT,
    balancers: Sequence[str] = ("small", "large"),
    tiers: Sequence[int] = (2, 4),
    **more: Any,
) -> Study:
    """Return a study of these page sizes, load balancers and numbers of nodes; a factor with one level is left out."""
    factors: dict[str, Any] = {"page_bytes": {"levels": list(sizes)}}
    if len(balancers) > 1:
        factors["balancer_size"] = {"role": "balancer", "of": "variant", "levels": list(balancers)}
    if len(tiers) > 1:
        factors["nodes"] = {"of": "hosts", "levels": list(tiers)}
    variants = {name: {"cpu_quota": 0.5} for name in balancers}
    raw: dict[str, Any] = {
        "schema": 1, "name": "sizes", "question": "From which page size on is the network the limit?", "blocks": 12,
        "roles": {"driver": {}, "web": {"service": "web"},
                  "balancer": {"service": "front", "backends": "web", "variants": variants}},
        "workload": {"tool": "wrk", "target": "balancer"}, "margin": 0.05, "factors": factors,
        "grid": {"factors": list(factors)}, "notebooks": ["page_size_tps"], "treatments": {},
    } | more  # fmt: skip
    assert expand_grid(raw) == []
    raw.setdefault("baseline", next(iter(raw["treatments"])))
    raw["treatments"]["again"] = {"same_as": raw["baseline"], "check": "aa", "label": "baseline, again"}
    return Study.model_validate(raw)


def true_rate(study: Study, treatment: str, link: float = LINK_BYTES_PER_S) -> float:
    """Return a treatment's rate (1/s) without noise; four nodes are 6 % faster than two for pages below 64 K."""
    levels = study.levels_of(treatment)
    size = float(levels["page_bytes"])
    own = PER_REQUEST_S[str(levels.get("balancer_size", "large"))] + size / link
    more = 1.06 if levels.get("nodes") == 4 and size < 65_536 else 1.0
    return more / own


def sized_run(study: Study, *, sd: float = 0.02, seed: int = 3, failing: float = 0.0, watched: bool = True) -> SizedRun:
    """Return a simulated run; `failing` is the share of trials with errors among those of small pages on two nodes."""
    rng = np.random.default_rng(seed)
    trials: list[dict[str, Any]] = []
    rows: list[tuple[str, str, str, float]] = []
    traces: list[dict[str, Any]] = []
    for block in range(1, study.blocks + 1):
        common = rng.normal(0, 0.02)
        for name in rng.permutation(list(study.treatments)):
            trial, rate = f"t{len(trials) + 1:04}", true_rate(study, name) * math.exp(common + rng.normal(0, sd))
            size = study.workload_of(name).expect_bytes or 0
            trials.append({
                "trial": trial, "treatment": name, "block": block, "slot": len(trials) + 1,
                "execution": "plain", "measures": "all", "status": "ok",
                "valid": True, "gates": [], "reason": None, "tool": "wrk", "load_model": "closed",
                "offered_per_s": None, "concurrency": 50, "drivers": 1, "response_status": 200,
                "response_bytes": size, "started": 1_790_000_000.0 + 4 * len(trials),
            })  # fmt: skip
            few = study.levels_of(name).get("nodes") == 2 and size < 8192 and rng.random() < failing
            rows += [(trial, "ok_per_s", "value", rate), (trial, "requests", "count", 2 * rate)]
            rows += [(trial, "duration", "value", 2.0), (trial, "errors", "count", float(20 * few))]
            traces += _watched(trial, rate * size, study.levels_of(name)) if watched else []
    table = pd.DataFrame(rows, columns=["trial", "metric", "statistic", "value"]).assign(driver="*")
    keys = ["trial", "host", "role", "t_s", "metric", "item", "value", "unit"]
    plan = plan_of(study, treatments=tuple(study.treatments), blocks=study.blocks)
    return SizedRun(study, pd.DataFrame(trials), table, pd.DataFrame(traces, columns=keys), plan)


def _watched(trial: str, bytes_per_s: float, levels: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return samples of three hosts: the balancer's CPU is busy unless the network link is saturated."""
    share = bytes_per_s / LINK_BYTES_PER_S
    busy = {"gen": 0.6, "lb": 0.99 if share < 0.9 else 0.7, "www": 0.4}
    cpus = {"gen": "cpu0", "lb": "cpu1", "www": "cpu2"}
    return [
        {"trial": trial, "host": host, "role": HOSTS[host].roles[0], "t_s": t, "unit": unit} | own
        for t in (0.5, 1.0, 1.5, 2.0)
        for host in HOSTS
        for unit, own in (
            ("1", {"metric": "cpu_busy", "item": cpus[host], "value": busy[host]}),
            ("B/s", {"metric": "net_tx", "item": "eth0", "value": 1.04 * bytes_per_s if host == "lb" else 1e3}),
        )
    ]
