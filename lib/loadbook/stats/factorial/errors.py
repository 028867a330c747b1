"""Which factor, or which pair, brings errors: trials with any error, contrasted within blocks (statistics.md 3.7).

"A brings errors and B removes them" is a claim about a pair: each block gives one number, the trials with errors that
the combinations with + have more than those with -, and only its sign is used (exact sign test).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadbook.design.factorial import FactorialDesign, factorial_design
from loadbook.stats.errors import ALPHA, zero_error_upper_bound
from loadbook.stats.errors import errors_by_block as failing_trials
from loadbook.stats.question import RunTables
from loadbook.stats.swaps import FloatArray, adjust_holm

Levels = tuple[bool, ...]


@dataclass(frozen=True)
class ErrorEffect:
    """One factor or pair: trials with errors, and of how many, by whether each of its factors is high.

    `p` is adjusted for all effects (Holm). For a pair "fewer" means: fewer together than each alone would give.
    """

    names: tuple[str, ...]
    trials_with_errors: Mapping[Levels, tuple[int, int]]
    p: float
    kind: Literal["more", "fewer", "undecided"]


@dataclass(frozen=True)
class FactorialErrors:
    """Errors of a factorial run; `effects` is empty where no trial had any.

    `upper_share` bounds the share of trials with a factor high that could have errors although none did.
    """

    trials: int
    trials_with_errors: int
    blocks: int
    upper_share: float | None
    effects: tuple[ErrorEffect, ...] = ()


def count_factorial_errors(data: RunTables) -> FactorialErrors | None:
    """Count trials with errors by factor and pair; None without [factorial] or without any count of errors.

    All trials that reported count, also those that a gate excluded from the rates; a block needs all combinations.
    """
    study = data.study
    if study.factorial is None:
        return None
    design = factorial_design(study.factorial)
    cells = list(design.cell_by_treatment(study.baseline))
    failed = failing_trials(data.trials, data.measurements, cells).to_numpy(float)
    if not failed.size:
        return None
    trials, trials_with_errors = failed.size, int(failed.sum())
    if not trials_with_errors:
        return FactorialErrors(trials, 0, len(failed), zero_error_upper_bound(trials // 2))
    return FactorialErrors(trials, trials_with_errors, len(failed), None, tuple(_error_effects(design, failed)))


def _error_effects(design: FactorialDesign, failed: FloatArray) -> list[ErrorEffect]:
    from loadbook.stats.factorial.effect_tests import block_contrasts

    contrasts_by_effect = block_contrasts(design, failed)
    unadjusted = [_sign_test(row) for row in contrasts_by_effect]
    adjusted = adjust_holm(unadjusted)
    effects = []
    for alias_set, row, p in zip(design.alias_sets, contrasts_by_effect, adjusted, strict=True):
        kind: Literal["more", "fewer", "undecided"] = "undecided"
        if p < ALPHA:
            kind = "more" if np.sign(row).sum() > 0 else "fewer"
        names = design.switch_names(alias_set[0])
        effects.append(ErrorEffect(names, _error_counts_by_level(design, failed, names), p, kind))
    return effects


def _sign_test(differences: FloatArray) -> float:
    from scipy.stats import binomtest

    up, down = int((differences > 1e-9).sum()), int((differences < -1e-9).sum())
    return float(binomtest(up, up + down).pvalue) if up + down else 1.0


def _error_counts_by_level(design: FactorialDesign, failed: FloatArray, names: tuple[str, ...]) -> dict[Levels, tuple[int, int]]:
    columns = [design.names.index(name) for name in names]
    levels = [tuple(bool(cell >> k & 1) for k in columns) for cell in design.cells]
    counts = {}
    for level in dict.fromkeys(levels):
        own = failed[:, [cell_levels == level for cell_levels in levels]]
        counts[level] = (int(own.sum()), own.size)
    return counts
