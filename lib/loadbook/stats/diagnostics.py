"""Diagnostics of a run: unusual trials, carry-over, drift, outliers, measurable percentiles, unstable effects.

They describe; none leaves out a block or a trial. Blocks cancel drift of the host in a comparison, but neither a
carry-over from one trial to the next nor an effect that itself changes. A percentile q of N requests rests on the
N (1 - q) beyond it: below 20 of them it is biased and scatters by a tenth and more (not measurable), from 200 on it is
good.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import betainc
from scipy.stats import kendalltau, rankdata, theilslopes

from loadbook.core.units import format_p_value, format_percent
from loadbook.stats.paired_tests import LOG_DECIMALS, FloatArray, effect_from_log
from loadbook.stats.saturation import finest_source_only
from loadbook.stats.text import predicate

MIN_PEERS = 3  # other trials, below which nothing is compared
MIN_RELATIVE_DIFFERENCE = 0.1  # of the usual value, or of one CPU; smaller differences are left out
MIN_SCALED_DISTANCE = 3.0  # spreads of the other trials; values that lie nearer are usual
MAD_TO_SD = 1.4826  # median absolute deviation -> standard deviation of normal values
# traffic is left out: it follows the rate
LEVEL_METRICS = {
    "memory_used": "memory in use",
    "sockets_tcp_tw": "sockets in TIME-WAIT",
    "sockets_tcp_inuse": "sockets in use",
}
OTHER_PROCESSES = "CPUs of other processes"
PEER_COLUMNS = ["host", "resource", "unit", "here", "usual", "spread", "apart"]

CARRY_OVER_ALPHA = 0.01
ZERO_SUM_OF_SQUARES = 1e-20  # of logs that are equal
MIN_RESIDUAL_DF = 5  # trials beyond the parameters of the regression
DETECTABLE_STANDARD_ERRORS = 2.58 + 0.84  # of an effect that p < 0.01 finds in four of five runs

MIN_DRIFT_BLOCKS, DRIFT_ALPHA = 5, 0.05
TUKEY_FENCE, MIN_OUTLIER_TRIALS, NEIGHBOUR_TRIALS = 1.5, 8, 9
EQUAL_LOGS = 1e-9  # logs this close are one value

REQUEST_TIMES = ("latency", "latency_intended", "service_time")
GOOD_TAIL_REQUESTS = 200  # requests beyond a percentile
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")

MIN_STABILITY_BLOCKS, UNSTABLE_ALPHA = 8, 0.01
FLAG_PREFIX = "unstable effect: "


def host_resources(traces: pd.DataFrame, hosts: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """Return every host's resources over time: trial, host, resource, unit, t_s, value.

    CPUs are those that the host may use (run.json "hosts"), summed; processes are summed by label, as ids are others in
    every trial. "other processes" is CPU time that no monitored process used.
    """
    own = finest_source_only(traces)
    parts = [
        _cpu_resources(own[own["host"] == host], about.get("cpus")).assign(host=host) for host, about in hosts.items()
    ]
    levels = own[own["metric"].isin(list(LEVEL_METRICS))]
    parts.append(levels.assign(resource=levels["metric"].map(LEVEL_METRICS)))
    columns = ["trial", "host", "resource", "unit", "t_s", "value"]
    values = pd.concat([part for part in parts if len(part)] or [pd.DataFrame(columns=columns)])[columns]
    return values.groupby(columns[:5], sort=False)["value"].sum().reset_index()


def _cpu_resources(own: pd.DataFrame, cpus: list[int] | None) -> pd.DataFrame:
    """Return the busy CPUs of a host, those stolen by others, those of each process label, and of other processes."""
    items = {f"cpu{n}" for n in cpus} if cpus else set(own["item"]) - {"all"}
    cores = own[own["item"].isin(list(items))]
    keys = ["trial", "t_s"]
    sums = {name: cores[cores["metric"] == f"cpu_{name}"].groupby(keys)["value"].sum() for name in ("busy", "steal")}
    process = own[own["metric"] == "process_cpu"]
    labels = process["item"].str.rpartition(":")[0]
    by_label = process.assign(label=labels).groupby([*keys, "label"])["value"].sum()
    parts = [sums["busy"].reset_index().assign(resource="CPUs busy")]
    if len(sums["steal"]) and float(sums["steal"].max()) > 0:
        parts.append(sums["steal"].reset_index().assign(resource="CPUs stolen"))
    if len(by_label):
        labelled = by_label.reset_index()
        parts.append(labelled.assign(resource="CPUs of " + labelled["label"]))
        unexplained = sums["busy"].sub(sums["steal"], fill_value=0.0) - by_label.groupby(keys).sum()
        parts.append(
            unexplained.dropna().clip(lower=0.0).rename("value").reset_index().assign(resource=OTHER_PROCESSES)
        )
    return pd.concat(parts).assign(unit="1")


def peer_comparison(
    resources: pd.DataFrame, trials: pd.DataFrame, trial: str, windows_s: Mapping[str, float]
) -> pd.DataFrame:
    """Compare the hosts in one trial with the other valid trials of its treatment, largest difference first.

    Parameters
    ----------
    resources : what `host_resources` returned.
    windows_s : trial -> seconds of its measurement; samples outside do not count.

    Returns
    -------
    host, resource, unit; `here` the mean in this trial, `usual` the median of the others' means, `spread` their scaled
    median absolute deviation, `apart` the signed distance in such spreads; NaN where the difference is small (less than
    a tenth of the usual value, or of one CPU).
    """
    treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
    others = trials[(trials["treatment"] == treatment) & (trials["trial"] != trial) & trials["valid"]]["trial"]
    own = resources[resources["trial"].isin([trial, *others])]
    ends = own["trial"].map(dict(windows_s)).astype(float).fillna(np.inf)
    means = own[(own["t_s"] >= 0) & (own["t_s"] <= ends)].groupby(["host", "resource", "unit", "trial"])["value"].mean()
    rows = []
    for key, values in means.groupby(level=["host", "resource", "unit"], sort=False):
        by_trial = values.droplevel([0, 1, 2])
        peers = by_trial.drop(trial, errors="ignore")
        if trial in by_trial.index and len(peers) >= MIN_PEERS:
            median = float(peers.median())
            spread = MAD_TO_SD * float((peers - median).abs().median())
            rows.append([*key, float(by_trial[trial]), median, spread])  # type: ignore[misc]
    table = pd.DataFrame([[*row, _scaled_distance(*row[2:])] for row in rows], columns=PEER_COLUMNS)
    order = table["apart"].abs().fillna(-1.0).sort_values(ascending=False, kind="stable").index
    return table.loc[order].reset_index(drop=True)


def _scaled_distance(unit: str, here: float, usual: float, spread: float) -> float:
    """Return the distance in spreads; a spread is at least a third of the smallest difference that counts."""
    min_difference = MIN_RELATIVE_DIFFERENCE if unit == "1" and usual < 1 else MIN_RELATIVE_DIFFERENCE * abs(usual)
    difference = here - usual
    if abs(difference) < max(min_difference, np.finfo(float).tiny):
        return float("nan")
    distance = difference / max(spread, min_difference / MIN_SCALED_DISTANCE)
    return distance if abs(distance) >= MIN_SCALED_DISTANCE else float("nan")


@dataclass(frozen=True)
class CarryOver:
    """Effect of a treatment on the trial after it (ratios minus 1).

    Each log value is explained by block, treatment and previous treatment; the last is tested as a whole. Random order
    cannot cure a carry-over: a treatment that slows down the next trial makes its neighbours look slow.

    Parameters
    ----------
    p : of all previous treatments together (F test).
    effect_by_predecessor : previous treatment -> effect on the next trial, against the mean of the other treatments.
    detectable_effect : smallest carry-over that this test finds in four of five runs.
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
        """Return the carry-over in words."""
        if not self.is_significant:
            return (
                f"No carry-over from one trial to the next is seen (p {format_p_value(self.p)}); "
                "this check sees little: "
                f"one below about {format_percent(self.detectable_effect, signed=False)} would hardly show."
            )
        name, effect = self.worst_predecessor, self.effect_by_predecessor[self.worst_predecessor]
        predecessor, size = labels.get(name, name), format_percent(abs(effect), signed=False)
        text = f"What runs after {predecessor} {predicate(metric, effect)} by {size} (p {format_p_value(self.p)})"
        return f"{text}: the reset between trials does not bring the host back."


def carry_over(values: pd.DataFrame, baseline: str, repeats: Mapping[str, str] | None = None) -> CarryOver | None:
    """Estimate carry-over; None where too few trials separate it from blocks and treatments.

    Parameters
    ----------
    values : treatment, block, slot, valid, value of every executed trial; invalid ones count as predecessors only.
    baseline : reference of the adjusted effects.
    repeats : treatment -> the treatment that it repeats exactly; as predecessors they are one.
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
    """Return valid trials with a known predecessor: log, block, treatment (baseline first) and previous."""
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


class DriftSummary(NamedTuple):
    """Change of the values with the order of execution, treatment effects removed; both None below 5 blocks.

    `drift` is the change from the first to the last block by the Theil-Sen slope (ratio minus 1), `drift_p` that of the
    Mann-Kendall test of the blocks' median residuals.
    """

    drift: float | None = None
    drift_p: float | None = None

    @property
    def sentence(self) -> str:
        """The drift in words."""
        if self.drift is None or self.drift_p is None:
            return "Too few blocks to see a drift."
        if self.drift_p >= DRIFT_ALPHA:
            return "No steady drift is visible over the run."
        return (
            f"The values moved by {format_percent(self.drift)} over the run; every block holds every treatment, "
            "so this cancels in the comparisons."
        )


def describe_drift(values: pd.DataFrame) -> DriftSummary:
    """Describe the drift of a run.

    `values` has trial, treatment, block, slot, status, valid, value (`RunData.values`); only valid positive values
    count.
    """
    usable, residuals = _usable_with_residuals(values)
    medians = residuals.groupby(usable["block"]).median()
    if len(medians) < MIN_DRIFT_BLOCKS or medians.nunique() < 2:
        return DriftSummary()
    blocks = medians.index.to_numpy(float)
    slope = float(theilslopes(medians.to_numpy(), blocks).slope)
    p = float(kendalltau(blocks, medians.to_numpy()).pvalue)
    return DriftSummary(math.expm1(slope * (blocks[-1] - blocks[0])), p)


def _usable_with_residuals(values: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    """Return the trials that count, by slot, and log of each value less the median log of its treatment."""
    usable = values[values["valid"].astype(bool) & (values["value"] > 0)].sort_values("slot")
    logs = np.log(usable["value"])
    return usable, logs - logs.groupby(usable["treatment"]).transform("median")


def find_outliers(values: pd.DataFrame) -> dict[str, float]:
    """Return the outliers among the trials of each treatment: trial -> ratio to the expected value, minus 1.

    Expected is the median of the treatment, and of the neighbouring nine trials' distances from theirs (the drift). Far
    is outside Tukey's fences, 1.5 quartile ranges beyond the quartiles of the treatment; the range is that of the
    treatment or of all trials, whichever is larger, as few trials may lie close together by chance. Outliers are marked
    and never left out: that would double the false alarms (docs/statistics.md). `values` are as for `describe_drift`;
    treatments with fewer than eight trials that count are not judged.
    """
    usable, distances = _usable_with_residuals(values)
    distances -= distances.rolling(NEIGHBOUR_TRIALS, center=True, min_periods=MIN_DRIFT_BLOCKS).median().fillna(0.0)
    ratio_by_trial: dict[str, float] = {}
    common_range = distances.quantile(0.75) - distances.quantile(0.25)
    for _, own in distances.groupby(usable["treatment"]):
        low, high = own.quantile(0.25), own.quantile(0.75)
        fence = TUKEY_FENCE * max(high - low, common_range) + EQUAL_LOGS
        outlying = own[(own < low - fence) | (own > high + fence)] if len(own) >= MIN_OUTLIER_TRIALS else own[:0]
        ratio_by_trial |= {str(usable.at[row, "trial"]): math.expm1(value) for row, value in outlying.items()}
    return ratio_by_trial


def lag1_correlation(residuals: np.ndarray) -> float:
    """Return the correlation of neighbouring residuals."""
    centred = residuals - residuals.mean()
    return float((centred[1:] * centred[:-1]).sum() / (centred**2).sum())


def share_beyond(statistic: str) -> float | None:
    """Return the share of requests beyond a percentile, 0.01 for p99; None for other statistics."""
    match = _PERCENTILE.fullmatch(statistic)
    return 1 - float(match[1]) / 100 if match and float(match[1]) < 100 else None


def requests_needed(statistic: str, least: float) -> int:
    """Return the number of requests of which `least` lie beyond a percentile."""
    return math.ceil(least / (share_beyond(statistic) or 1.0) - 1e-6)


def tail_requests(metric: str, statistic: str, requests: pd.Series) -> pd.Series | None:
    """Return the number of requests beyond a percentile, per trial; None for other metrics and statistics."""
    share = share_beyond(statistic)
    return None if share is None or metric not in REQUEST_TIMES else requests * share


def has_short_tail(metric: str, statistic: str, requests: pd.Series, least: float) -> pd.Series:
    """Return, per trial, whether too few of its requests lie beyond a percentile; False if unknown."""
    tail = tail_requests(metric, statistic, requests)
    return requests.isna() & False if tail is None else tail < least - 1e-9


class EffectStability(NamedTuple):
    """Change of the effect during a run: effects (ratio minus 1) of the halves of its blocks, and p."""

    first_half: float
    second_half: float
    p: float

    @property
    def is_unstable(self) -> bool:
        """Whether blocks in random order would show such a change less than once in a hundred comparisons."""
        return self.p < UNSTABLE_ALPHA

    @property
    def flag(self) -> str:
        """The change in words."""
        first, second, p = format_percent(self.first_half), format_percent(self.second_half), format_p_value(self.p)
        halves = f"{first} in the first half of the blocks, {second} in the second"
        return f"{FLAG_PREFIX}{halves} (p {p}); measure again in a new run before relying on it"


def effect_stability(differences: FloatArray) -> EffectStability | None:
    """Return how log ratios, in the order of their blocks, changed; None below eight blocks.

    p is twice the smaller one of two tests: Mann-Kendall (a trend) and von Neumann's ratio of ranks (neighbours alike;
    Bartels, 1982).
    """
    differences, blocks = np.round(differences, LOG_DECIMALS), len(differences)
    if blocks < MIN_STABILITY_BLOCKS or np.ptp(differences) == 0:
        return None
    trend_p = float(kendalltau(np.arange(blocks), differences).pvalue)
    halves = differences[: blocks // 2], differences[(blocks + 1) // 2 :]
    first, second = (effect_from_log(float(np.median(half))) for half in halves)
    return EffectStability(first, second, min(1.0, 2 * min(trend_p, rank_von_neumann_p(differences))))


def rank_von_neumann_p(values: FloatArray) -> float:
    """Return the one-sided p of von Neumann's ratio of ranks, small where neighbours are alike (Bartels' beta)."""
    n, ranks = len(values), rankdata(values)
    von_neumann_ratio = float((np.diff(ranks) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum())
    shape = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n**2 - 2 * n - 9)) - 0.5
    return float(betainc(shape, shape, von_neumann_ratio / 4))


def block_order(blocks: Sequence[object]) -> list[int] | None:
    """Return the indices of blocks in order of execution; None where their names are no numbers."""
    try:
        numbers = [float(str(block)) for block in blocks]
    except ValueError:
        return None
    return sorted(range(len(numbers)), key=numbers.__getitem__) if all(map(math.isfinite, numbers)) else None


def stability_flags(blocks: Sequence[object], base: FloatArray, other: FloatArray) -> tuple[str, ...]:
    """Return the flag of a comparison whose effect is unstable, as a tuple of none or one."""
    order = block_order(blocks)
    stability = None if order is None else effect_stability((other - base)[order])
    return (stability.flag,) if stability and stability.is_unstable else ()
