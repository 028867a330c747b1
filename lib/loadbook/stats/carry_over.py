"""Carry-over: does a treatment change what runs after it? From trial to trial, and between slices of a block.

Blocks and random order cancel the drift of a host in a comparison, but not a carry-over. A diagnostic only describes;
it excludes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import lstsq
from scipy.stats import f as f_distribution

from loadbook.core.units import format_p_value, format_percent
from loadbook.stats.diagnostics import MAD_TO_SD
from loadbook.stats.paired_tests import FloatArray
from loadbook.stats.text import effect_phrase
from loadbook.store.trial_record import SLICE_SERIES

CARRY_OVER_ALPHA = 0.01
ZERO_SUM_OF_SQUARES = 1e-20  # of logarithms of equal values
MIN_RESIDUAL_DF = 5  # number of trials minus number of regression parameters
DETECTABLE_STANDARD_ERRORS = 2.58 + 0.84  # effect, in standard errors, found at p < 0.01 with 80 % power
# a slice follows another one directly if the time between them is below this share of a slice
MAX_GAP_SHARE = 0.5
MAX_DEVIATIONS = 4.0  # standard deviations, from the median absolute deviation, at which the log of a slice is cut
RATE, LATENCY = "received_per_s", "latency"  # what is known of each slice
METRICS = {RATE: "ok_per_s", LATENCY: "latency_intended"}  # of a slice -> that of the tools
IDLE_SHARE = 0.05  # of the largest rate in the trial; slices in which next to nothing was served are left out


@dataclass(frozen=True)
class CarryOver:
    """Effect of a treatment on the trial, or slice, after it (ratios minus 1).

    A regression explains the log of each value by block, treatment and previous treatment; an F test checks the last.
    Random order does not remove carry-over: a treatment that slows down the next one makes the others look slow.

    Parameters
    ----------
    p : F test of all previous treatments together.
    effect_by_predecessor : previous treatment -> effect on the next trial, against the mean of the other treatments.
    detectable_effect : smallest carry-over that this test finds with 80 % power.
    adjusted_effects : treatment -> its effect against the baseline (ratio minus 1), corrected for what ran before.
    largest_shift : largest change of an effect by that correction (of logs); only between slices, else infinite.
    metric_of_slices : metric of the effect on the next slice; "" for that on the next trial, of the run's metric.
    """

    p: float
    effect_by_predecessor: Mapping[str, float]
    detectable_effect: float
    adjusted_effects: Mapping[str, float]
    largest_shift: float = math.inf
    metric_of_slices: str = ""

    @property
    def is_significant(self) -> bool:
        """Return whether there is a carry-over, at p < 0.01."""
        return self.p < CARRY_OVER_ALPHA

    @property
    def worst_predecessor(self) -> str:
        """Return the treatment after which trials differ most."""
        return max(self.effect_by_predecessor, key=lambda name: abs(math.log1p(self.effect_by_predecessor[name])))

    def sentence(self, metric: str, labels: Mapping[str, str]) -> str:
        """Return a sentence on the carry-over; `labels` maps treatments to their labels."""
        if self.metric_of_slices:
            return self._sentence_on_slices(labels)
        if not self.is_significant:
            return (
                f"No carry-over from one trial to the next is seen (p {format_p_value(self.p)}); "
                "this check sees little: "
                f"one below about {format_percent(self.detectable_effect, signed=False)} would hardly show."
            )
        name, effect = self.worst_predecessor, self.effect_by_predecessor[self.worst_predecessor]
        predecessor, size = labels.get(name, name), format_percent(abs(effect), signed=False)
        text = f"What runs after {predecessor} {effect_phrase(metric, effect, size)} (p {format_p_value(self.p)})"
        return f"{text}: the reset between trials does not bring the host back."

    def _sentence_on_slices(self, labels: Mapping[str, str]) -> str:
        detectable = format_percent(self.detectable_effect, 2, signed=False)
        if not self.is_significant:
            text = f"No carry-over between slices is seen (p {format_p_value(self.p)})"
            return f"{text}; one of {detectable} would be found in 4 of 5 runs."
        name, effect = self.worst_predecessor, self.effect_by_predecessor[self.worst_predecessor]
        size, shift = (format_percent(v, 2, signed=False) for v in (abs(effect), math.expm1(self.largest_shift)))
        text = f"A slice after one of {labels.get(name, name)} {effect_phrase(self.metric_of_slices, effect, size)}"
        return f"{text} (p {format_p_value(self.p)}), which moves the comparisons by up to {shift}."


def carry_over(values: pd.DataFrame, baseline: str, repeats: Mapping[str, str] | None = None) -> CarryOver | None:
    """Estimate the carry-over; None if there are too few trials to separate it from blocks and treatments.

    Parameters
    ----------
    values : treatment, block, slot, valid, value of every executed trial; invalid trials count only as previous trials.
    baseline : reference for the adjusted effects.
    repeats : A/A arm -> the treatment that it repeats; as previous treatments both count as one.
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
    names, detectable = rows["treatment"].cat.categories, DETECTABLE_STANDARD_ERRORS * float(np.median(errors))
    adjusted_effects = {name: math.expm1(full.params.get(f"treatment[T.{name}]", 0.0)) for name in names}
    p = float(full.compare_f_test(plain)[1])
    return CarryOver(p, effect_by_predecessor, math.expm1(detectable), adjusted_effects)


def _carry_over_rows(values: pd.DataFrame, baseline: str, repeats: Mapping[str, str]) -> pd.DataFrame:
    """Return valid trials whose previous trial is known: log, block, treatment (baseline first) and previous."""
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


def slice_carry_over(
    samples: pd.DataFrame,
    values: pd.DataFrame,
    baseline: str,
    repeats: Mapping[str, str] | None = None,
    *,
    metric: str = RATE,
) -> CarryOver | None:
    """Estimate the carry-over between slices of a block; None if `metric` is not known of each slice.

    The log of the bytes received per second in each slice, or of its median latency, is explained by treatment and
    round, both within the block, and by the treatment of the slice before. The order is drawn anew in every round, so
    that the previous treatment is independent of the host's speed. First and last slice of a trial are left out,
    outliers are cut.

    Parameters
    ----------
    samples : table `samples` of the run.
    values, baseline, repeats : as in `carry_over`; `values` also has the column trial.
    metric : as in `slices_of_trials`.
    """
    slices = _slice_rows(samples, values, repeats or {}, metric)
    names = sorted(slices["previous"].dropna().unique())
    if len(names) < 2:
        return None
    parts = [part for _, block in slices.groupby("block") if (part := _within_block(block, names)) is not None]
    freedom = sum(part[2] for part in parts) - len(names) + 1
    if freedom < MIN_RESIDUAL_DF:
        return None
    outcomes, predecessors = (np.concatenate([part[k] for part in parts]) for k in (0, 1))
    inverse = np.linalg.pinv(predecessors.T @ predecessors)
    logs = inverse @ predecessors.T @ outcomes
    logs -= logs.mean()
    residual = float(((outcomes - predecessors @ logs) ** 2).sum())
    if residual < ZERO_SUM_OF_SQUARES:
        return None
    variance = residual / freedom
    explained = float((outcomes**2).sum()) - residual
    p = float(f_distribution.sf(explained / (len(names) - 1) / variance, len(names) - 1, freedom))
    against_others = len(names) / (len(names) - 1)
    errors = against_others * np.sqrt(variance * np.diag(inverse))
    shifts = _shifts(slices, names, logs, baseline)
    effects = _mean_effects(values, baseline)
    return CarryOver(
        p,
        {name: math.expm1(against_others * log) for name, log in zip(names, logs, strict=True)},
        math.expm1(DETECTABLE_STANDARD_ERRORS * float(np.median(errors))),
        {name: math.expm1(log - shifts.get(name, 0.0)) for name, log in effects.items()},
        largest_shift=max(map(abs, shifts.values()), default=0.0),
        metric_of_slices=METRICS[metric],
    )


def slices_of_trials(samples: pd.DataFrame, metric: str = RATE) -> pd.DataFrame:
    """Return the slices in the table `samples`: trial, x (start, s), round (0, 1, ...), slice (length, s), `metric`.

    The metric is `received_per_s` (B/s), or `latency` (s; the median of a slice of a shared block). Empty for runs that
    did not record it in each slice.
    """
    own = samples[samples["series"] == SLICE_SERIES]
    wide = own.pivot_table(index=["trial", "x"], columns="metric", values="value").reset_index()
    if not {"slice", metric} <= set(wide.columns):
        return pd.DataFrame(columns=["trial", "x", "round", "slice", metric])
    return wide.assign(round=wide.groupby("trial").cumcount())


def _slice_rows(samples: pd.DataFrame, values: pd.DataFrame, repeats: Mapping[str, str], metric: str) -> pd.DataFrame:
    """Return slices with block, treatment, round, log of the metric (NaN if it does not count), previous (or NaN)."""
    rows = slices_of_trials(samples, metric).merge(values[["trial", "treatment", "block", "valid"]], on="trial")
    rows = rows.sort_values(["block", "x"])
    last = rows.groupby("trial")["round"].transform("max")
    largest = rows.groupby("trial")[metric].transform("max")
    counts = rows["valid"].astype(bool) & rows["round"].between(1, last - 1)
    counts &= rows[metric] > (IDLE_SHARE * largest if metric == RATE else 0)
    rows["log"] = np.log(rows[metric].where(counts))
    before = rows.groupby("block").shift(1)
    follows = rows["x"] - before["x"] - before["slice"] < MAX_GAP_SHARE * rows["slice"].median()
    rows["previous"] = before["treatment"].map(lambda name: repeats.get(name, name)).where(follows)
    return rows


def _within_block(block: pd.DataFrame, names: Sequence[str]) -> tuple[FloatArray, FloatArray, int] | None:
    """Return logs and indicators of previous treatments without the parts that treatment and round explain.

    The third value is the number of degrees of freedom; None if it would be 0.
    """
    rows = block.dropna(subset=["log", "previous"])
    if not len(rows):
        return None
    design = np.concatenate([pd.get_dummies(rows[key], dtype=float) for key in ("treatment", "round")], axis=1)
    targets = np.column_stack([_without_outliers(rows), *((rows["previous"] == name).astype(float) for name in names)])
    # by QR with pivots, five times as fast as singular values: one treatment and one round are redundant
    explained, _, rank, _ = lstsq(design, targets, cond=1e-9, lapack_driver="gelsy")
    rest = targets - design @ explained
    freedom = len(rows) - rank
    return (rest[:, 0], rest[:, 1:], freedom) if freedom > 0 else None


def _without_outliers(rows: pd.DataFrame) -> FloatArray:
    """Return the logs without the medians of rounds and treatments, cut at MAX_DEVIATIONS from zero.

    A stall of the host that hits one slice would otherwise hide a carry-over.
    """
    logs = rows["log"].astype(float)
    for key in ("round", "treatment"):
        logs = logs - logs.groupby(rows[key]).transform("median")
    limit = MAX_DEVIATIONS * MAD_TO_SD * float(logs.abs().median())
    return logs.clip(-limit, limit).to_numpy()


def _shifts(slices: pd.DataFrame, names: Sequence[str], logs: FloatArray, baseline: str) -> dict[str, float]:
    """Return treatment -> change of its log ratio to the baseline by what ran before its slices."""
    log_of = dict(zip(names, logs, strict=True))
    carried = slices["previous"].map(log_of).where(slices["log"].notna()).astype(float)
    means = carried.groupby(slices["treatment"]).mean()
    return {str(name): float(mean - means[baseline]) for name, mean in means.items()} if baseline in means else {}


def _mean_effects(values: pd.DataFrame, baseline: str) -> dict[str, float]:
    """Return treatment -> mean log ratio to the baseline over the blocks in which both are valid."""
    usable = values[values["valid"].astype(bool) & (values["value"] > 0)]
    logs = np.log(usable.pivot_table(index="block", columns="treatment", values="value").astype(float))
    if baseline not in logs:
        return {}
    return {str(name): float((logs[name] - logs[baseline]).mean()) for name in logs}
