"""The checks of claims about errors; the trial is the unit: in how many did any occur (statistics.md 3.7)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from loadbook.stats.claims import words
from loadbook.stats.claims.finding import Finding
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.errors import ALPHA
from loadbook.stats.swaps import swap_p
from loadbook.stats.verdict import MAX_FORECAST

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.claim import Claim
    from loadbook.stats.claims.run import ClaimRun
    from loadbook.stats.result import ErrorSummary

# share of trials with errors that a claim of errors means at least; 3.7 measured its methods at this share
MARGIN = 0.3


def more_errors(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "X brings errors": holds if they occur in more trials (or more per attempt) than in the other arm.

    Contradicted if they occur in fewer, or certainly in fewer trials than the margin.
    """
    return _judge(claim, run, "more")


def fewer_errors(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "X removes errors". Where the other arm certainly has next to none, there is nothing to remove."""
    return _judge(claim, run, "fewer")


def _judge(claim: Claim, run: ClaimRun, wanted: str) -> Finding:
    ours, theirs = run.errors(claim.treatment, claim.against)
    if not ours.trials or not theirs.trials:
        return Finding("unchecked", words.no_errors_counted())
    label, against = run.label(claim.treatment), run.label(claim.against)
    said = words.errors(ours, theirs, label, against)
    number = words.of_two(*((e.trials_with_errors, e.trials) for e in (ours, theirs)))
    if ours.rate_ratio is not None and (ours.p or 0.0) >= ALPHA:
        number = words.per_request(ours.rate_ratio)
    if ours.kind in ("more", "fewer"):
        return Finding("holds" if ours.kind == wanted else "contradicted", said, number=number)
    margin = claim.margin or MARGIN
    many, name = (ours, label) if wanted == "more" else (theirs, against)
    bound = at_most(many.trials_with_errors, many.trials)
    if bound < margin and wanted == "more":
        return Finding("contradicted", f"{said} {words.few_errors(name, bound, margin)}", number=number)
    if bound < margin:
        return Finding("unchecked", f"{said} {words.nothing_to_remove(name, bound)}", number=number)
    return Finding("undecided", f"{said} {words.error_forecast(_forecast(ours, theirs, margin))}", number=number)


def at_most(failing: int, trials: int) -> float:
    """Return the largest share of trials with errors that so many allow (one-sided 95 %, Clopper and Pearson)."""
    from scipy.stats import binomtest

    return float(binomtest(failing, trials, alternative="less").proportion_ci(1 - ALPHA).high)


def _forecast(ours: ErrorSummary, theirs: ErrorSummary, margin: float) -> int | None:
    """Return how many more blocks decide if the shares of trials with errors stay, None if more than 60 in all."""
    from scipy.stats import fisher_exact

    shares = [e.trials_with_errors / e.trials for e in (ours, theirs)]
    done = min(ours.trials, theirs.trials)
    for blocks in range(done + 1, MAX_FORECAST + 1):
        failing = [round(share * blocks) for share in shares]
        shown = fisher_exact([[k, blocks - k] for k in failing]).pvalue < ALPHA
        if shown or all(at_most(k, blocks) < margin for k in failing):
            return blocks - done
    return None


def interaction(claim: Claim, run: ClaimRun) -> Finding:
    """Judge "A brings errors and B removes them": B's effect on trials with errors differs with and without A.

    One contrast per block over the four cells, judged against its signs (statistics.md 3.1, 3.6). Contradicted if the
    contrast points the other way, or if A alone certainly brings next to none.
    """
    cells = _cells(claim, run)
    empty = [_name(claim, cell) for cell, arms in cells.items() if not arms]
    if empty:
        return Finding("not-run", words.lacks(empty))
    table = run.failing([arm for arms in cells.values() for arm in arms])
    if len(table) < MIN_BLOCKS:
        return Finding("unchecked", words.too_few_blocks(len(table), MIN_BLOCKS))
    contrast = _contrast(cells, table)
    p = float(swap_p(contrast[None, :])[0])
    failing = {cell: (int(table[arms].to_numpy().sum()), int(table[arms].size)) for cell, arms in cells.items()}
    said = words.cells([(_name(claim, cell), *found) for cell, found in failing.items()], p)
    finding = Finding("undecided", said, number=words.of_two(failing[BOTH], failing[CAUSE]))
    if p < ALPHA and contrast.sum() > 0:
        return replace(finding, outcome="contradicted")
    share = {cell: found / trials for cell, (found, trials) in failing.items()}
    if p < ALPHA and share[CAUSE] > max(share[BOTH], share[NEITHER]):
        return replace(finding, outcome="holds")
    bound, margin = at_most(*failing[CAUSE]), claim.margin or MARGIN
    if bound < margin:
        few = words.few_errors(_name(claim, CAUSE), bound, margin)
        return replace(finding, outcome="contradicted", evidence=f"{said} {few}")
    return replace(finding, evidence=f"{said} {words.error_forecast(_more_signs(contrast))}")


Cell = tuple[bool, bool]  # whether the cause and whether the remedy is on
BOTH, CAUSE, REMEDY, NEITHER = (True, True), (True, False), (False, True), (False, False)


def _cells(claim: Claim, run: ClaimRun) -> dict[Cell, list[str]]:
    """Return the arms of each cell; a factor is on where it has the level that the claim's treatment has."""
    on = run.study.levels_of(claim.treatment)
    named = claim.arms if claim.among else [n for n, t in run.study.treatments.items() if not t.check]
    cells: dict[Cell, list[str]] = {cell: [] for cell in (BOTH, CAUSE, REMEDY, NEITHER)}
    for name in (n for n in named if n in run.ran):
        cause, remedy = (run.study.levels_of(name)[f] == on[f] for f in claim.factors)
        cells[cause, remedy].append(name)
    return cells


def _contrast(cells: dict[Cell, list[str]], table: pd.DataFrame) -> np.ndarray:
    """Return, per block, what the remedy changes with the cause minus what it changes without, in whole numbers."""
    whole = math.lcm(*(len(arms) for arms in cells.values()))
    shares = {cell: table[arms].sum(axis=1).to_numpy(float) * (whole / len(arms)) for cell, arms in cells.items()}
    return np.asarray(shares[BOTH] - shares[CAUSE] - shares[REMEDY] + shares[NEITHER])


def _name(claim: Claim, cell: Cell) -> str:
    cause, remedy = claim.factors
    both, neither = f"{cause} with {remedy}", f"neither {cause} nor {remedy}"
    return {BOTH: both, CAUSE: f"{cause} alone", REMEDY: f"{remedy} alone", NEITHER: neither}[cell]


def _more_signs(values: np.ndarray) -> int | None:
    """Return how many more blocks like these show the contrast, None if more than 60 in all."""
    for blocks in range(len(values) + 1, MAX_FORECAST + 1):
        if swap_p(np.resize(values, blocks)[None, :])[0] < ALPHA:
            return blocks - len(values)
    return None
