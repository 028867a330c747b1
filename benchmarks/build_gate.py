"""Error rates of the build gate in % of simulated runs with known effects, judged with their harness checks.

    python benchmarks/build_gate.py [--runs 2000] [--markdown]

An unchanged system must seldom fail a build, and a loss beyond the limit must seldom pass. Rows with a limit are claims
of docs/ci.md; the exit code is 1 if one is violated by more than two standard errors of the simulation.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from loadbook.stats.ci import CaseOutcome, assess_run
from loadbook.stats.compare import compare, compare_declared
from loadbook.stats.results import Analysis, AnalysisRow, Comparison, ErrorSummary, RowKind, Verdict
from loadbook.stats.verdict import aa_half_width_limit, aa_state, control_state, decide_verdict
from loadbook.study.limits import CiPolicy
from loadbook.study.model import Study
from loadbook.study.plan import Plan
from noise import Floats, draw
from processes import process_pool

MARGIN, AA_P = 0.02, 0.01
TWO, FIVE = math.log(1 - 0.02), math.log(1 - 0.05)
COLUMNS: tuple[CaseOutcome, ...] = ("failed", "invalid", "passed")
CONTROL = -0.2  # the known effect of the positive control, a ratio minus 1
PASS, FAIL = {"undecided": "pass"}, {"undecided": "fail"}
LOSS = {"min_effect": -0.02}


@dataclass(frozen=True)
class Case:
    """Treatments with these log effects, beside an A/A arm and, if `control`, a positive control.

    `wrong` is the outcome that must stay below `limit` %.
    """

    truth: str
    effects: Sequence[float]
    gate: dict[str, Any]
    noise: str = "iid"
    blocks: int = 10
    wrong: CaseOutcome = "failed"
    limit: float | None = None
    control: bool = True

    @property
    def said(self) -> str:
        """The gate's settings in the form of the study file."""
        return ", ".join(f"{k} = {v}" if isinstance(v, float) else f'{k} = "{v}"' for k, v in self.gate.items())


NOTHING = "nothing changed"
CASES = [
    *(
        Case(f"{NOTHING}, {k} treatment{'s' if k > 1 else ''}", [0.0] * k, PASS, noise, blocks, limit=2.5)
        for k, noise, blocks in [
            (1, "iid", 6), (1, "iid", 10), (1, "iid", 20), (4, "iid", 10), (4, "iid", 20), (9, "iid", 10),
            (4, "ar1+drift", 10), (4, "host-states", 10), (4, "stalls", 10), (4, "periodic", 20),
        ]
    ),
    *(
        Case(f"{NOTHING}, {k} treatment{'s' if k > 1 else ''}", [0.0] * k, FAIL, noise, blocks)
        for k, noise, blocks in [(1, "iid", 10), (1, "iid", 20), (1, "iid", 40), (1, "t2.5", 20), (4, "iid", 20),
                                 (4, "t2.5", 20)]
    ),
    *(
        Case(f"{NOTHING}, 1 treatment", [0.0], PASS, noise, blocks, limit=2.5, control=False)
        for noise, blocks in [("quiet", 6), ("quiet", 10), ("iid", 10), ("iid", 20), ("iid", 40)]
    ),
    Case(f"{NOTHING}, 1 treatment", [0.0], LOSS | FAIL, "iid", 20),
    Case(f"{NOTHING}, 4 treatments", [0.0] * 4, LOSS | PASS, "iid", 20, limit=2.5),
    Case("2 % less, at the limit, 1 treatment", [TWO], LOSS | PASS, "iid", 20, limit=2.5),
    Case("2 % less, at the limit, 4 treatments", [TWO] * 4, LOSS | PASS, "iid", 20, limit=2.5),
    Case("2 % less, at the limit, 1 treatment", [TWO], LOSS | FAIL, "iid", 20, "passed", 5.0),
    Case("5 % less, 1 treatment", [FIVE], PASS, "iid", 10, "passed"),
    Case("5 % less, 1 treatment", [FIVE], PASS, "iid", 20, "passed"),
    Case("5 % less, 1 of 4 treatments", [FIVE, 0, 0, 0], PASS, "iid", 10, "passed"),
    Case("5 % less, 1 of 4 treatments", [FIVE, 0, 0, 0], PASS, "iid", 20, "passed"),
]  # fmt: skip


STUDY = Study.model_validate({
    "schema": 1, "name": "gate", "question": "May it be merged?", "baseline": "base",
    "roles": {"driver": {}, "web": {}}, "workload": {"tool": "wrk"}, "treatments": {"base": {}},
})  # fmt: skip


class Tables:
    """The tables that a gate reads besides the analysis: every trial is valid and without doubts."""

    study = measurements = samples = problems = run_record = None
    plan = Plan(STUDY, "default", None, 0, (), ())
    trials = pd.DataFrame({"valid": [True]})


def analysis_of(arms: Floats, control: bool) -> Analysis:
    """Return the analysis of one run from log values, shape (arms, blocks): baseline, treatments, A/A arm, control."""
    checks = ["aa", "control"] if control else ["aa"]
    names = ["base", *(f"t{k}" for k in range(1, len(arms) - len(checks))), *checks]
    blocks = arms.shape[1]
    values = pd.DataFrame({
        "treatment": np.repeat(names, blocks), "block": np.tile(np.arange(blocks), len(names)),
        "value": np.exp(arms).ravel(),
    })  # fmt: skip
    rows = [
        _row(c.treatment, "treatment", c)
        for c in compare_declared(values, "base", names[1 : -len(checks)], "baseline", metric="ok_per_s").comparisons
    ]
    controls = []
    if control:
        row = _row("control", "control", compare(values, "control", "base", metric="ok_per_s"))
        controls = [replace(row, check_state=control_state(row.verdict, -1, CONTROL), expected_effect=CONTROL)]
    twin = _row("aa", "aa", compare(values, "aa", "base", metric="ok_per_s"))
    state, limit = aa_state(twin.verdict, AA_P, MARGIN), aa_half_width_limit(MARGIN, controls)
    rows = [_row(r.treatment, "treatment", r.verdict.comparison, state == "failed") for r in rows if r.verdict]
    twin = replace(twin, check_state=state, half_width_limit=limit)
    rows = [_row("base", "baseline", None), *rows, twin, *controls]
    return Analysis("base", "ok_per_s", "value", MARGIN, 0.95, tuple(rows), limited=False)


def _row(name: str, kind: RowKind, found: Comparison | None, void: bool = False) -> AnalysisRow:
    verdict = decide_verdict(found, MARGIN) if found else None
    if verdict and void:
        verdict = Verdict("invalid", verdict.comparison, MARGIN, reason="the laboratory contradicts itself")
    return AnalysisRow(name, name, kind, 1.0, None, 1, 1, verdict, ErrorSummary(name, 0, 0, 0, 0, {}))


def outcomes(case: Case, runs: int) -> Counter[CaseOutcome]:
    """Return the number of simulated runs by outcome of the gate."""
    rng = np.random.default_rng(zlib.crc32(repr((case.truth, case.said, case.noise, case.blocks)).encode()))
    checks = [0.0, math.log1p(CONTROL)] if case.control else [0.0]
    arms = draw(rng, case.noise, runs, case.blocks, [*case.effects, *checks]).swapaxes(0, 1)
    gate = CiPolicy.model_validate(case.gate)
    return Counter(assess_run(gate, analysis_of(run, case.control), Tables()).outcome for run in arms)  # type: ignore[arg-type]


def kept(case: Case, percent: float, runs: int) -> bool:
    """Return whether a case is within its limit plus two standard errors of the simulation."""
    return case.limit is None or percent <= case.limit + 2 * math.sqrt(case.limit * (100 - case.limit) / runs)


def row_text(case: Case, shares: dict[CaseOutcome, float], markdown: bool) -> str:
    """Return the outcomes of a case, in % of its runs, as a line of the table."""
    limit = "" if case.limit is None else f"{case.wrong} <= {case.limit:g}"
    control = "found" if case.control else "none"
    percents = [f"{share:.1f}" for share in shares.values()]
    cells = [case.truth, case.said, control, case.noise, str(case.blocks), *percents, limit]
    return f"| {' | '.join(cells)} |" if markdown else "\t".join(cells)


def main() -> int:
    """Print a row per case; return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--markdown", action="store_true")
    asked, fine = parser.parse_args(), True
    heads = ["truth", "[ci]", "control", "noise", "blocks", "failed, %", "no verdict, %", "passed, %", "limit"]
    lines = f"| {' | '.join(heads)} |\n|---|---|---|---|--:|--:|--:|--:|---|"
    print(lines if asked.markdown else "\t".join(heads))
    with process_pool() as pool:
        for case, found in zip(CASES, pool.imap(partial(outcomes, runs=asked.runs), CASES), strict=True):
            shares = {word: 100 * found[word] / asked.runs for word in COLUMNS}
            fine &= kept(case, shares[case.wrong], asked.runs)
            print(row_text(case, shares, asked.markdown), flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
