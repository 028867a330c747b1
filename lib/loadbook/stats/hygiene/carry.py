"""Carry-over: does what ran before a trial show in it? A diagnostic by regression (statistics.md 3.1).

Random order cannot cure it: a treatment that slows down whatever runs next looks faster than its neighbours. Each
trial's log value is explained by block, treatment and the treatment of the trial before it; the last is tested whole.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from loadbook.core.units import p_value, percent
from loadbook.stats.wording.words import predicate

if TYPE_CHECKING:
    import pandas as pd

CARRY_P = 0.01
IDENTICAL = 1e-20  # sum of squares of logs that are equal
MIN_LEFT = 5  # trials beyond what the regression uses up
POWER_80 = 2.58 + 0.84  # standard errors between an effect and what p < 0.01 finds in four of five runs


@dataclass(frozen=True)
class Carry:
    """What ran before, as an effect on the next trial (ratios minus 1).

    Parameters
    ----------
    p : of all previous treatments together (F test).
    after : previous treatment -> how what ran after it differs from what ran after the others.
    detectable : a carry-over below this would hardly be seen.
    adjusted : treatment -> its effect against the baseline with the previous treatment taken out.
    """

    p: float
    after: Mapping[str, float]
    detectable: float
    adjusted: Mapping[str, float]

    @property
    def seen(self) -> bool:
        """Whether there is a carry-over, at p < 0.01."""
        return self.p < CARRY_P

    @property
    def worst(self) -> str:
        """The treatment after which trials differ most."""
        return max(self.after, key=lambda name: abs(math.log1p(self.after[name])))

    def sentence(self, metric: str, labels: Mapping[str, str]) -> str:
        """Return what a reader is told."""
        if not self.seen:
            return (
                f"No carry-over from one trial to the next is seen (p {p_value(self.p)}); this check sees little: "
                f"one below about {percent(self.detectable, signed=False)} would hardly show."
            )
        name, effect = self.worst, self.after[self.worst]
        after, size = labels.get(name, name), percent(abs(effect), signed=False)
        said = f"What runs after {after} {predicate(metric, effect)} by {size} (p {p_value(self.p)})"
        return f"{said}: the reset between trials does not bring the host back."


def carry_over(values: pd.DataFrame, baseline: str, same: Mapping[str, str] | None = None) -> Carry | None:
    """Look for carry-over; None where there are too few trials to tell it from blocks and treatments.

    Parameters
    ----------
    values : treatment, block, slot, valid, value of every executed trial; those that do not count are only what ran
        before others.
    baseline : treatment that the adjusted effects are against.
    same : treatments that repeat another exactly -> that other: what ran before is then the same.
    """
    rows = _rows(values, baseline, same or {})
    if rows["previous"].nunique() < 2 or rows["treatment"].nunique() < 2:
        return None
    import statsmodels.formula.api as smf

    model = smf.ols("log ~ C(block) + treatment + previous", rows)
    trials, columns = model.exog.shape
    if trials - columns < MIN_LEFT or np.linalg.matrix_rank(model.exog) < columns:
        return None
    full, plain = model.fit(), smf.ols("log ~ C(block) + treatment", rows).fit()
    if full.ssr < IDENTICAL:
        return None
    after, errors = _deviations(full, list(rows["previous"].cat.categories))
    names = rows["treatment"].cat.categories
    adjusted = {name: math.expm1(full.params.get(f"treatment[T.{name}]", 0.0)) for name in names}
    p = float(full.compare_f_test(plain)[1])
    return Carry(p, after, math.expm1(POWER_80 * float(np.median(errors))), adjusted)


def _rows(values: pd.DataFrame, baseline: str, same: Mapping[str, str]) -> pd.DataFrame:
    """Return counted trials whose predecessor is known: log, block, treatment (baseline first) and previous."""
    import pandas as pd

    ran = values.set_index("slot")["treatment"].map(lambda name: same.get(name, name))
    rows = values.assign(previous=(values["slot"] - 1).map(ran))
    rows = rows[rows["valid"].astype(bool) & (rows["value"] > 0) & rows["previous"].notna()]
    names = sorted(rows["treatment"].unique(), key=lambda name: (name != baseline, name))
    return pd.DataFrame({
        "log": np.log(rows["value"].astype(float)),
        "block": rows["block"],
        "treatment": pd.Categorical(rows["treatment"], names),
        "previous": pd.Categorical(rows["previous"], sorted(rows["previous"].unique())),
    })  # fmt: skip


def _deviations(fit: Any, names: list[str]) -> tuple[dict[str, float], np.ndarray]:
    """Return each previous treatment's effect against the mean of the others, and the standard errors (of logs)."""
    terms = [f"previous[T.{name}]" for name in names[1:]]
    logs = np.append(0.0, fit.params[terms])
    spread = np.zeros((len(names), len(names)))
    spread[1:, 1:] = fit.cov_params().loc[terms, terms]
    centre = (len(names) * np.eye(len(names)) - 1) / (len(names) - 1)
    errors = np.sqrt(np.diag(centre @ spread @ centre))
    return {name: math.expm1(log) for name, log in zip(names, centre @ logs, strict=True)}, errors
