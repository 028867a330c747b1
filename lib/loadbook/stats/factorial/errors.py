"""Which factor, or which pair, brings errors: trials with any error, contrasted within blocks (statistics.md 3.7).

"A brings errors and B removes them" is a claim about a pair: each block gives one number, the trials with errors that
the combinations with + have more than those with -, and only its sign is used (exact sign test).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from loadbook.design.factorial import Design, design_of
from loadbook.stats.errors import ALPHA, zero_error_bound
from loadbook.stats.errors import failing as failing_trials
from loadbook.stats.question import RunTables
from loadbook.stats.swaps import Floats, holm

Levels = tuple[bool, ...]


@dataclass(frozen=True)
class ErrorEffect:
    """One factor or pair: trials with errors, and of how many, by whether each of its factors is high.

    `p` is adjusted for all effects (Holm). For a pair "fewer" means: fewer together than each alone would give.
    """

    names: tuple[str, ...]
    failing: Mapping[Levels, tuple[int, int]]
    p: float
    kind: Literal["more", "fewer", "undecided"]


@dataclass(frozen=True)
class ErrorFindings:
    """Errors of a factorial run; `effects` is empty where no trial had any.

    `upper_share` bounds the share of trials with a factor high that could have errors although none did.
    """

    trials: int
    failing: int
    blocks: int
    upper_share: float | None
    effects: tuple[ErrorEffect, ...] = ()


def error_findings(data: RunTables) -> ErrorFindings | None:
    """Count trials with errors by factor and pair; None without [factorial] or without any count of errors.

    All trials that reported count, also those that a gate excluded from the rates; a block needs all combinations.
    """
    study = data.study
    if study.factorial is None:
        return None
    design = design_of(study.factorial)
    cells = list(design.treatments(study.baseline))
    failed = failing_trials(data.trials, data.measurements, cells).to_numpy(float)
    if not failed.size:
        return None
    counted, failing = failed.size, int(failed.sum())
    if not failing:
        return ErrorFindings(counted, 0, len(failed), zero_error_bound(counted // 2))
    return ErrorFindings(counted, failing, len(failed), None, tuple(_effects(design, failed)))


def _effects(design: Design, failed: Floats) -> list[ErrorEffect]:
    from loadbook.stats.factorial.effect_tests import contrasts

    each = contrasts(design, failed)
    plain = [_sign_test(row) for row in each]
    adjusted = holm(plain)
    found = []
    for alike, row, p in zip(design.effects, each, adjusted, strict=True):
        kind: Literal["more", "fewer", "undecided"] = "undecided"
        if p < ALPHA:
            kind = "more" if np.sign(row).sum() > 0 else "fewer"
        names = design.switches(alike[0])
        found.append(ErrorEffect(names, _failing(design, failed, names), p, kind))
    return found


def _sign_test(differences: Floats) -> float:
    from scipy.stats import binomtest

    up, down = int((differences > 1e-9).sum()), int((differences < -1e-9).sum())
    return float(binomtest(up, up + down).pvalue) if up + down else 1.0


def _failing(design: Design, failed: Floats, names: tuple[str, ...]) -> dict[Levels, tuple[int, int]]:
    places = [design.names.index(name) for name in names]
    levels = [tuple(bool(cell >> k & 1) for k in places) for cell in design.cells]
    found = {}
    for wanted in dict.fromkeys(levels):
        own = failed[:, [given == wanted for given in levels]]
        found[wanted] = (int(own.sum()), own.size)
    return found
