"""Simulated runs with known effects, and claims about them, for the tests of claim replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from loadbook.store.run_record import RunRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from run_records import plan_of

Truth = Mapping[str, Mapping[str, Any]]
TWO_BY_TWO = {
    "neither": {},
    "accept": {"set": {"accept": "on"}},
    "epoll": {"set": {"epoll": "on"}},
    "both": {"set": {"accept": "on", "epoll": "on"}},
}


@dataclass(frozen=True)
class Run:
    """The tables of one simulated run."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: Plan = field(default_factory=plan_of)
    samples: pd.DataFrame | None = None
    traces: pd.DataFrame | None = None
    problems: pd.DataFrame | None = None
    run_record: RunRecord | None = None


def study_of(arms: Truth, *claims: Mapping[str, Any], **more: Any) -> Study:
    """Return a study with these treatments (the first is the baseline) and these claims of its article."""
    factors = {name for arm in arms.values() for name in arm.get("set", {})}
    levels = {name: _levels(arms, name) for name in sorted(factors)}
    keys = ("label", "check", "same_as", "expect", "set")
    spec = {
        "schema": 1, "name": "s", "question": "What did it say?", "baseline": next(iter(arms)), "blocks": 12,
        "roles": {"driver": {}, "web": {"service": "x", "vars": {n: v[0] for n, v in levels.items()}}},
        "workload": {"tool": "wrk"}, "factors": {n: {"levels": v} for n, v in levels.items()},
        "treatments": {name: {k: v for k, v in arm.items() if k in keys} for name, arm in arms.items()},
        "published": {"source": "an article", "claims": list(claims)},
    }  # fmt: skip
    return Study.model_validate(spec | more)


def _levels(arms: Truth, factor: str) -> list[Any]:
    given = [arm["set"][factor] for arm in arms.values() if factor in arm.get("set", {})]
    unset = [] if len(given) == len(arms) else ["unset"]
    return list(dict.fromkeys([*unset, *given]))


def run_of(
    study: Study,
    arms: Truth,
    *,
    blocks: int = 12,
    seed: int = 1,
    only: Sequence[str] = (),
    offered: float | None = None,
) -> Run:
    """Return a run of randomised blocks with these treatments, or with those in `only`.

    Each treatment has a true `effect` (log), a standard deviation `sd`, a share `failing` of trials with errors, and a
    latency that is the inverse of its rate, with p99 multiplied by `tail`.
    """
    rng, trials, rows = np.random.default_rng(seed), [], []
    names = [name for name in arms if not only or name in only]
    for block in range(1, blocks + 1):
        common = rng.normal(0, 0.02)
        for name in rng.permutation(names):
            slot, arm = len(trials) + 1, arms[name]
            trial = f"t{slot:04}"
            rate = 40_000 * np.exp(common + arm.get("effect", 0.0) + rng.normal(0, arm.get("sd", 0.006)))
            full = offered is not None and rate >= 0.98 * offered
            rate = min(rate, offered) if offered else rate
            trials.append({
                "trial": trial, "treatment": name, "block": block, "slot": slot,
                "execution": "plain", "measures": "all", "status": "ok", "valid": True,
                "gates": ["offered_ceiling"] if full else [], "reason": None, "tool": "wrk",
                "load_model": "open" if offered else "closed", "offered_per_s": offered, "concurrency": 50,
                "drivers": 1, "response_status": 200, "response_bytes": 5,
            })  # fmt: skip
            failed = int(rng.poisson(80) + 1) if rng.random() < arm.get("failing", 0.0) else 0
            rows += [(trial, "ok_per_s", "value", rate), (trial, "requests", "count", rate * 10)]
            rows += [(trial, "errors", "count", failed)]
            rows += [(trial, "latency", "p99", 900 / rate * arm.get("tail", 1.0) * np.exp(rng.normal(0, 0.01)))]
    table = pd.DataFrame(rows, columns=["trial", "metric", "statistic", "value"]).assign(driver="*")
    return Run(study, pd.DataFrame(trials), table, plan_of(treatments=tuple(names), blocks=blocks))


def claim(kind: str, treatment: str, against: str, **more: Any) -> dict[str, Any]:
    """Return a claim in the form of the study file."""
    return {"claim": f"{treatment}: {kind}", "kind": kind, "treatment": treatment, "against": against, **more}
