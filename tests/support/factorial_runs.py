"""Simulated runs of factorial studies with known effects, in the form of loadbook's tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from loadbook.store.run_record import RunRecord
from loadbook.study.designs import effect_sign, expand_factorial, factorial_design
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from run_records import plan_of


@dataclass
class FactorialRun:
    """The tables of a simulated run that `loadbook.stats` reads."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: Plan = field(default_factory=plan_of)
    samples: pd.DataFrame | None = None
    problems: pd.DataFrame | None = None
    run_record: RunRecord | None = None


def factorial_study(factors: Sequence[str], blocks: int = 8, **factorial: Any) -> Study:
    """Return a study of these factors, each off or on, with an A/A arm and a positive control."""
    levels = {name: {"levels": ["off", "on"]} for name in factors}
    groups = factorial.get("groups", {})
    levels = {k: v for k, v in levels.items() if k not in groups}
    levels |= {m: {"levels": ["off", "on"]} for own in groups.values() for m in own}
    raw = {
        "schema": 1, "name": "pairs", "question": "Which factors matter, alone or in pairs?", "baseline": "plain",
        "blocks": blocks, "roles": {"driver": {}, "web": {}}, "workload": {"tool": "wrk"},
        "factors": levels | {"logs": {"levels": [0, 4]}}, "notebooks": ["factorial"],
        "factorial": {"factors": list(factors)} | factorial,
        "treatments": {
            "again": {"same_as": "plain", "check": "aa", "label": "baseline, again"},
            "costly": {"set": {"logs": 4}, "check": "control", "expect": "worse", "label": "control: 4 logs"},
        },
    }  # fmt: skip
    assert expand_factorial(raw) == []
    return Study.model_validate(raw)


def factorial_run(
    study: Study,
    effects: Mapping[tuple[str, ...], float],
    *,
    sd: float = 0.006,
    seed: int = 3,
    failing: Mapping[tuple[str, ...], float] | None = None,
) -> FactorialRun:
    """Return a run with these effects on the log rate: of one factor (off to on), or the interaction of two.

    `failing` is {factors that are on: share of trials with errors}, where the other factors named in it are off.
    """
    assert study.factorial
    rng, design = np.random.default_rng(seed), factorial_design(study.factorial)
    cells = design.cell_by_treatment(study.baseline)
    bits = {name: 1 << k for k, name in enumerate(design.names)}
    trials, rows = [], []
    for block in range(1, study.blocks + 1):
        common = rng.normal(0, 0.02)
        for name in rng.permutation(list(study.treatments)):
            cell = cells.get(study.treatments[name].same_as or name, 0)
            log = sum(size * effect_sign(sum(bits[n] for n in names), cell) / 2 ** len(names)
                      for names, size in effects.items())  # fmt: skip
            log += -0.2 if name == "costly" else 0.0
            share = next((s for on, s in (failing or {}).items() if _on(on, cell, bits, failing or {})), 0.0)
            trial = f"t{len(trials) + 1:04}"
            rate = 40_000 * np.exp(log + common + rng.normal(0, sd))
            trials.append({
                "trial": trial, "treatment": name, "block": block, "slot": len(trials) + 1,
                "execution": "plain", "measures": "all", "status": "ok",
                "valid": True, "gates": [], "reason": None, "tool": "wrk", "load_model": "closed",
                "offered_per_s": None, "concurrency": 50, "drivers": 1, "response_status": 200, "response_bytes": 5,
            })  # fmt: skip
            rows += [(trial, "ok_per_s", "value", rate), (trial, "requests", "count", rate)]
            rows += [(trial, "errors", "count", float(rng.random() < share))]
    measurements = pd.DataFrame(rows, columns=["trial", "metric", "statistic", "value"]).assign(driver="*")
    return FactorialRun(study, pd.DataFrame(trials), measurements)


def _on(on: tuple[str, ...], cell: int, bits: Mapping[str, int], failing: Mapping[tuple[str, ...], float]) -> bool:
    named = {name for names in failing for name in names}
    return all(bool(cell & bits[name]) == (name in on) for name in named)
