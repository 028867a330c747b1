"""The checks of claims about errors; the trial is the unit: in how many did any occur (statistics.md 3.7)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from loadbook.stats.claims import words
from loadbook.stats.claims.finding import ClaimFinding
from loadbook.stats.compare import MIN_BLOCKS
from loadbook.stats.errors import ALPHA
from loadbook.stats.swaps import permutation_p
from loadbook.stats.verdict import MAX_FORECAST_BLOCKS

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.design.claim import Claim
    from loadbook.stats.claims.run import ClaimRun
    from loadbook.stats.result import ErrorSummary

# share of trials with errors that a claim of errors means at least; 3.7 measured its methods at this share
MIN_FAILING_SHARE = 0.3


def check_more_errors(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X brings errors": holds if they occur in more trials (or more per attempt) than in the other arm.

    Contradicted if they occur in fewer, or certainly in fewer trials than the margin.
    """
    return _check_errors(claim, run, "more")


def check_fewer_errors(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "X removes errors". Where the other arm certainly has next to none, there is nothing to remove."""
    return _check_errors(claim, run, "fewer")


def _check_errors(claim: Claim, run: ClaimRun, expected: str) -> ClaimFinding:
    treatment_errors, against_errors = run.errors(claim.treatment, claim.against)
    if not treatment_errors.trials or not against_errors.trials:
        return ClaimFinding("unchecked", words.no_errors_counted_sentence())
    label, against = run.label(claim.treatment), run.label(claim.against)
    sentence = words.error_trials_sentence(treatment_errors, against_errors, label, against)
    number = words.two_arms_text(*((e.trials_with_errors, e.trials) for e in (treatment_errors, against_errors)))
    if treatment_errors.rate_ratio is not None and (treatment_errors.p or 0.0) >= ALPHA:
        number = words.per_request_text(treatment_errors.rate_ratio)
    if treatment_errors.kind in ("more", "fewer"):
        return ClaimFinding("holds" if treatment_errors.kind == expected else "contradicted", sentence, short_evidence=number)
    margin = claim.margin or MIN_FAILING_SHARE
    many, name = (treatment_errors, label) if expected == "more" else (against_errors, against)
    bound = failing_share_bound(many.trials_with_errors, many.trials)
    if bound < margin and expected == "more":
        return ClaimFinding("contradicted", f"{sentence} {words.few_errors_sentence(name, bound, margin)}", short_evidence=number)
    if bound < margin:
        return ClaimFinding("unchecked", f"{sentence} {words.nothing_to_remove_sentence(name, bound)}", short_evidence=number)
    return ClaimFinding("undecided", f"{sentence} {words.error_forecast_sentence(_error_forecast(treatment_errors, against_errors, margin))}", short_evidence=number)


def failing_share_bound(failing: int, trials: int) -> float:
    """Return the largest share of trials with errors that so many allow (one-sided 95 %, Clopper and Pearson)."""
    from scipy.stats import binomtest

    return float(binomtest(failing, trials, alternative="less").proportion_ci(1 - ALPHA).high)


def _error_forecast(treatment_errors: ErrorSummary, against_errors: ErrorSummary, margin: float) -> int | None:
    """Return how many more blocks decide if the shares of trials with errors stay, None if more than 60 in all."""
    from scipy.stats import fisher_exact

    shares = [e.trials_with_errors / e.trials for e in (treatment_errors, against_errors)]
    done = min(treatment_errors.trials, against_errors.trials)
    for blocks in range(done + 1, MAX_FORECAST_BLOCKS + 1):
        failing = [round(share * blocks) for share in shares]
        differ = fisher_exact([[k, blocks - k] for k in failing]).pvalue < ALPHA
        if differ or all(failing_share_bound(k, blocks) < margin for k in failing):
            return blocks - done
    return None


def check_interaction(claim: Claim, run: ClaimRun) -> ClaimFinding:
    """Judge "A brings errors and B removes them": B's effect on trials with errors differs with and without A.

    One contrast per block over the four cells, judged against its signs (statistics.md 3.1, 3.6). Contradicted if the
    contrast points the other way, or if A alone certainly brings next to none.
    """
    cells = _arms_by_cell(claim, run)
    empty = [_cell_name(claim, cell) for cell, arms in cells.items() if not arms]
    if empty:
        return ClaimFinding("not-run", words.missing_arms_sentence(empty))
    table = run.failing_trials([arm for arms in cells.values() for arm in arms])
    if len(table) < MIN_BLOCKS:
        return ClaimFinding("unchecked", words.too_few_blocks_sentence(len(table), MIN_BLOCKS))
    contrast = _interaction_contrast(cells, table)
    p = float(permutation_p(contrast[None, :])[0])
    failing = {cell: (int(table[arms].to_numpy().sum()), int(table[arms].size)) for cell, arms in cells.items()}
    sentence = words.cells_sentence([(_cell_name(claim, cell), *count) for cell, count in failing.items()], p)
    finding = ClaimFinding("undecided", sentence, short_evidence=words.two_arms_text(failing[BOTH], failing[CAUSE]))
    if p < ALPHA and contrast.sum() > 0:
        return replace(finding, outcome="contradicted")
    share = {cell: count / trials for cell, (count, trials) in failing.items()}
    if p < ALPHA and share[CAUSE] > max(share[BOTH], share[NEITHER]):
        return replace(finding, outcome="holds")
    bound, margin = failing_share_bound(*failing[CAUSE]), claim.margin or MIN_FAILING_SHARE
    if bound < margin:
        few = words.few_errors_sentence(_cell_name(claim, CAUSE), bound, margin)
        return replace(finding, outcome="contradicted", evidence=f"{sentence} {few}")
    return replace(finding, evidence=f"{sentence} {words.error_forecast_sentence(_interaction_forecast(contrast))}")


FactorCell = tuple[bool, bool]  # whether the cause and whether the remedy is on
BOTH, CAUSE, REMEDY, NEITHER = (True, True), (True, False), (False, True), (False, False)


def _arms_by_cell(claim: Claim, run: ClaimRun) -> dict[FactorCell, list[str]]:
    """Return the arms of each cell; a factor is on where it has the level that the claim's treatment has."""
    on = run.study.levels_of(claim.treatment)
    arm_names = claim.treatments if claim.among else [n for n, t in run.study.treatments.items() if not t.check]
    cells: dict[FactorCell, list[str]] = {cell: [] for cell in (BOTH, CAUSE, REMEDY, NEITHER)}
    for name in (n for n in arm_names if n in run.treatments_run):
        cause, remedy = (run.study.levels_of(name)[f] == on[f] for f in claim.factors)
        cells[cause, remedy].append(name)
    return cells


def _interaction_contrast(cells: dict[FactorCell, list[str]], table: pd.DataFrame) -> np.ndarray:
    """Return, per block, what the remedy changes with the cause minus what it changes without, in whole numbers."""
    common_multiple = math.lcm(*(len(arms) for arms in cells.values()))
    shares = {cell: table[arms].sum(axis=1).to_numpy(float) * (common_multiple / len(arms)) for cell, arms in cells.items()}
    return np.asarray(shares[BOTH] - shares[CAUSE] - shares[REMEDY] + shares[NEITHER])


def _cell_name(claim: Claim, cell: FactorCell) -> str:
    cause, remedy = claim.factors
    both, neither = f"{cause} with {remedy}", f"neither {cause} nor {remedy}"
    return {BOTH: both, CAUSE: f"{cause} alone", REMEDY: f"{remedy} alone", NEITHER: neither}[cell]


def _interaction_forecast(values: np.ndarray) -> int | None:
    """Return how many more blocks like these show the contrast, None if more than 60 in all."""
    for blocks in range(len(values) + 1, MAX_FORECAST_BLOCKS + 1):
        if permutation_p(np.resize(values, blocks)[None, :])[0] < ALPHA:
            return blocks - len(values)
    return None
