"""Error rates of claim replay: claims about simulated runs with known effects, in % of runs.

    python benchmarks/claims.py [--runs 200]

Each row prints its limit; the exit code is 1 if one is exceeded by more than two standard errors of the simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from loadbook.analyses.claims.checks import check_claims
from loadbook.store.run_record import RunRecord
from loadbook.study.model import Study
from loadbook.study.plan import Plan, make_plan

CELLS = {"neither": {}, "a": {"a": "on"}, "b": {"b": "on"}, "both": {"a": "on", "b": "on"}}
RIVALS = {"kind": "best", "treatment": "x", "against": "base", "among": ["y", "z"]}
PAIR = {"kind": "interaction", "treatment": "both", "against": "a", "factors": ["a", "b"]}
FEWER = {"kind": "fewer-errors", "treatment": "x", "against": "base"}
MORE = {"kind": "more-errors", "treatment": "x", "against": "base"}
ALIKE = {"kind": "equivalent", "treatment": "x", "against": "base"}
NO_LOSS = {"kind": "no-loss", "treatment": "x", "against": "base"}
FOUR = ("base", "x", "y", "z")
# what is claimed, true log effects, true shares of trials with errors, the outcome that is wrong, its limit in %
ROWS: list[tuple[str, dict[str, Any], dict[str, float], dict[str, float], str, float]] = [
    ("best of four equal arms", RIVALS, dict.fromkeys(FOUR, 0.0), {}, "holds", 1.0),
    ("best, one rival as good", RIVALS, {"base": 0, "x": 0.05, "y": 0.05, "z": 0}, {}, "holds", 6.0),
    ("best, and it leads by 5 %", RIVALS, {"base": 0, "x": 0.05, "y": 0, "z": 0}, {}, "contradicted", 1.0),
    ("hardly differ, at the margin", ALIKE, {"base": 0, "x": 0.0198}, {}, "holds", 7.0),
    ("hardly differ, no difference", ALIKE, {"base": 0, "x": 0}, {}, "contradicted", 1.0),
    ("no loss, at the margin", NO_LOSS, {"base": 0, "x": -0.0198}, {}, "holds", 7.0),
    ("no loss, no difference", NO_LOSS, {"base": 0, "x": 0}, {}, "contradicted", 1.0),
    ("fewer errors, half of both", FEWER, {"base": 0, "x": 0}, {"base": 0.5, "x": 0.5}, "holds", 4.5),
    ("more errors, 30 % of trials", MORE, {"base": 0, "x": 0}, {"x": 0.3}, "contradicted", 7.0),
    ("interaction, errors in half", PAIR, dict.fromkeys(CELLS, 0.0), dict.fromkeys(CELLS, 0.5), "holds", 5.0),
    ("interaction, a alone causes", PAIR, dict.fromkeys(CELLS, 0.0), {"a": 0.9, "both": 0.9}, "holds", 6.0),
]


@dataclass(frozen=True)
class Run:
    """Tables of one simulated run."""

    study: Study
    trials: pd.DataFrame
    measurements: pd.DataFrame
    plan: Plan
    samples: pd.DataFrame | None = None
    problems: pd.DataFrame | None = None
    run_record: RunRecord | None = None


def study_of(claim: Mapping[str, Any], arms: Mapping[str, float]) -> Study:
    """Return a study whose article makes this claim about these arms."""
    levels = {"levels": ["unset", "on"]}
    return Study.model_validate({
        "schema": 1, "name": "s", "question": "Is it true?", "baseline": next(iter(arms)),
        "roles": {"driver": {}, "web": {"service": "x", "vars": {"a": "unset", "b": "unset"}}},
        "workload": {"tool": "wrk"}, "factors": {"a": levels, "b": levels},
        "treatments": {name: {"set": CELLS.get(name, {})} for name in arms},
        "published": {"source": "nobody", "claims": [{"claim": "it is so"} | dict(claim)]},
    })  # fmt: skip


def simulate(study: Study, effects: Mapping[str, float], failing: Mapping[str, float], seed: int, blocks: int) -> Run:
    """Return a run of randomised blocks, with noise of 2 % shared by each block and of 1 % per trial."""
    rng = np.random.default_rng(seed)
    trials: list[dict[str, Any]] = []
    rows: list[tuple[str, str, str, float]] = []
    for block in range(1, blocks + 1):
        shared = rng.normal(0, 0.02)
        for name in rng.permutation(list(effects)):
            trial = f"t{len(trials):04}"
            rate = 40_000 * np.exp(shared + effects[name] + rng.normal(0, 0.01))
            errors = int(rng.poisson(80) + 1) if rng.random() < failing.get(name, 0.0) else 0
            trials.append({
                "trial": trial, "treatment": name, "block": block, "slot": len(trials), "status": "ok", "valid": True,
                "execution": "plain", "measures": "all", "reason": None, "drivers": 1, "gates": [],
                "tool": "wrk", "load_model": "closed", "offered_per_s": None, "concurrency": 50,
            })  # fmt: skip
            rows += [(trial, "ok_per_s", "value", rate), (trial, "requests", "count", 4e5)]
            rows += [(trial, "errors", "count", errors)]
    columns = ["trial", "metric", "statistic", "value"]
    measurements = pd.DataFrame(rows, columns=columns).assign(driver="*")
    return Run(study, pd.DataFrame(trials), measurements, make_plan(study, blocks=blocks))


def main() -> int:
    """Print a row per claim; return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=10)
    asked, kept = parser.parse_args(), True
    print(f"{'claim':30} {'holds':>6} {'not':>6} {'open':>6}  wrong (limit)")
    for words, claim, effects, failing, wrong, limit in ROWS:
        study = study_of(claim, effects)
        runs = (simulate(study, effects, failing, seed, asked.blocks) for seed in range(asked.runs))
        found = Counter(one.finding.outcome for run in runs for one in check_claims(study, run))
        share: dict[str, float] = {outcome: 100 * number / asked.runs for outcome, number in found.items()}
        kept &= share.get(wrong, 0.0) <= limit + 2 * math.sqrt(limit * (100 - limit) / asked.runs)
        shown = " ".join(f"{share.get(outcome, 0.0):6.1f}" for outcome in ("holds", "contradicted", "undecided"))
        print(f"{words:30} {shown}  {wrong}: {share.get(wrong, 0.0):.1f} ({limit:g})", flush=True)
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
