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

from loadbook.core.units import format_p_value, format_percent
from loadbook.stats.wording.words import predicate

if TYPE_CHECKING:
    import pandas as pd

CARRY_OVER_ALPHA = 0.01
ZERO_SUM_OF_SQUARES = 1e-20  # sum of squares of logs that are equal
MIN_RESIDUAL_DF = 5  # trials beyond what the regression uses up
DETECTABLE_STANDARD_ERRORS = 2.58 + 0.84  # standard errors between an effect and what p < 0.01 finds in four of five runs


@dataclass(frozen=True)
class CarryOver:
    """What ran before, as an effect on the next trial (ratios minus 1).

    Parameters
    ----------
    p : of all previous treatments together (F test).
    effect_by_predecessor : previous treatment -> how what ran after it differs from what ran after the others.
    detectable_effect : a carry-over below this would hardly be seen.
    adjusted_effects : treatment -> its effect against the baseline with the previous treatment taken out.
    """

    p: float
    effect_by_predecessor: Mapping[str, float]
    detectable_effect: float
    adjusted_effects: Mapping[str, float]

    @property
    def is_significant(self) -> bool:
        """Whether there is a carry-over, at p < 0.01."""
        return self.p < CARRY_OVER_ALPHA

    @property
    def worst_predecessor(self) -> str:
        """The treatment after which trials differ most."""
        return max(self.effect_by_predecessor, key=lambda name: abs(math.log1p(self.effect_by_predecessor[name])))

    def sentence(self, metric: str, labels: Mapping[str, str]) -> str:
        """Return what a reader is told."""
        if not self.is_significant:
            return (
                f"No carry-over from one trial to the next is seen (p {format_p_value(self.p)}); this check sees little: "
                f"one below about {format_percent(self.detectable_effect, signed=False)} would hardly show."
            )
        name, effect = self.worst_predecessor, self.effect_by_predecessor[self.worst_predecessor]
        predecessor, size = labels.get(name, name), format_percent(abs(effect), signed=False)
        text = f"What runs after {predecessor} {predicate(metric, effect)} by {size} (p {format_p_value(self.p)})"
        return f"{text}: the reset between trials does not bring the host back."


def carry_over(values: pd.DataFrame, baseline: str, repeats: Mapping[str, str] | None = None) -> CarryOver | None:
    """Look for carry-over; None where there are too few trials to tell it from blocks and treatments.

    Parameters
    ----------
    values : treatment, block, slot, valid, value of every executed trial; those that do not count are only what ran
        before others.
    baseline : treatment that the adjusted effects are against.
    repeats : treatments that repeat another exactly -> that other: what ran before is then the same.
    """
    rows = _carry_over_rows(values, baseline, repeats or {})
    if rows["previous"].nunique() < 2 or rows["treatment"].nunique() < 2:
        return None
    import statsmodels.formula.api as smf

    model = smf.ols("log ~ C(block) + treatment + previous", rows)
    trials, columns = model.exog.shape
    if trials - columns < MIN_RESIDUAL_DF or np.linalg.matrix_rank(model.exog) < columns:
        return None
    full, plain = model.fit(), smf.ols("log ~ C(block) + treatment", rows).fit()
    if full.ssr < ZERO_SUM_OF_SQUARES:
        return None
    effect_by_predecessor, errors = _predecessor_effects(full, list(rows["previous"].cat.categories))
    names = rows["treatment"].cat.categories
    adjusted_effects = {name: math.expm1(full.params.get(f"treatment[T.{name}]", 0.0)) for name in names}
    p = float(full.compare_f_test(plain)[1])
    return CarryOver(p, effect_by_predecessor, math.expm1(DETECTABLE_STANDARD_ERRORS * float(np.median(errors))), adjusted_effects)


def _carry_over_rows(values: pd.DataFrame, baseline: str, repeats: Mapping[str, str]) -> pd.DataFrame:
    """Return counted trials whose predecessor is known: log, block, treatment (baseline first) and previous."""
    import pandas as pd

    predecessor_by_slot = values.set_index("slot")["treatment"].map(lambda name: repeats.get(name, name))
    rows = values.assign(previous=(values["slot"] - 1).map(predecessor_by_slot))
    rows = rows[rows["valid"].astype(bool) & (rows["value"] > 0) & rows["previous"].notna()]
    names = sorted(rows["treatment"].unique(), key=lambda name: (name != baseline, name))
    return pd.DataFrame({
        "log": np.log(rows["value"].astype(float)),
        "block": rows["block"],
        "treatment": pd.Categorical(rows["treatment"], names),
        "previous": pd.Categorical(rows["previous"], sorted(rows["previous"].unique())),
    })  # fmt: skip


def _predecessor_effects(fit: Any, names: list[str]) -> tuple[dict[str, float], np.ndarray]:
    """Return each previous treatment's effect against the mean of the others, and the standard errors (of logs)."""
    terms = [f"previous[T.{name}]" for name in names[1:]]
    logs = np.append(0.0, fit.params[terms])
    covariance = np.zeros((len(names), len(names)))
    covariance[1:, 1:] = fit.cov_params().loc[terms, terms]
    centring = (len(names) * np.eye(len(names)) - 1) / (len(names) - 1)
    errors = np.sqrt(np.diag(centring @ covariance @ centring))
    return {name: math.expm1(log) for name, log in zip(names, centring @ logs, strict=True)}, errors
