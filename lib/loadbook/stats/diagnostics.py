"""Diagnostics of a run: unusual trials, drift, outliers, measurable percentiles, unstable effects.

Diagnostics only describe; none excludes a block or a trial. Blocks cancel the drift of a host in a comparison, but not
an effect that itself changes. A percentile q of N requests is
determined by the N (1 - q) slowest: with fewer than 20 it is biased and scatters by a tenth or more (not measurable),
with 200 or more it is good.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import betainc
from scipy.stats import kendalltau, rankdata, theilslopes

from loadbook.core.units import format_p_value, format_percent
from loadbook.modes.base import mode_called
from loadbook.stats.paired_tests import LOG_DECIMALS, FloatArray, effect_from_log
from loadbook.stats.saturation import finest_source_only, within_windows
from loadbook.store.run_record import RecordedHost
from loadbook.store.tables import RunTables, values_by_trial

MIN_PEERS = 3  # other trials of the treatment; with fewer, nothing is compared
MIN_RELATIVE_DIFFERENCE = 0.1  # of the usual value, or of one CPU; smaller differences are ignored
MIN_SCALED_DISTANCE = 3.0  # multiples of the spread between other trials; smaller distances are usual
MAD_TO_SD = 1.4826  # median absolute deviation -> standard deviation of normal values
# network traffic is not among them because it follows the request rate
LEVEL_METRICS = {
    "memory_used": "memory in use",
    "sockets_tcp_tw": "sockets in TIME-WAIT",
    "sockets_tcp_inuse": "sockets in use",
}
OTHER_PROCESSES = "CPUs of other processes"
PEER_COLUMNS = ["host", "resource", "unit", "here", "usual", "spread", "apart"]

MIN_DRIFT_BLOCKS, DRIFT_ALPHA = 5, 0.05
TUKEY_FENCE, MIN_OUTLIER_TRIALS, NEIGHBOUR_TRIALS = 1.5, 8, 9
EQUAL_LOGS = 1e-9  # logarithms that differ by less count as equal

REQUEST_TIMES = ("latency", "latency_intended", "service_time")
GOOD_TAIL_REQUESTS = 200  # requests slower than the percentile
_PERCENTILE = re.compile(r"p(\d+(?:\.\d+)?)")

MIN_STABILITY_BLOCKS, UNSTABLE_ALPHA = 8, 0.01
FLAG_PREFIX = "unstable effect: "
FINE_STEP = 0.001  # of a value: below it rounding changes no verdict
MAX_STEP_SHARE = 0.5  # of an interval's half-width; a larger step may be what moves the interval


def host_resources(traces: pd.DataFrame, hosts: Mapping[str, RecordedHost]) -> pd.DataFrame:
    """Return every host's resource use over time: trial, host, resource, unit, t_s, value (CPU use: number of CPUs).

    `traces` is the table, `hosts` maps the alias of each host to its record (run.json "hosts"). CPU use is summed
    over the CPUs that the host may use, processes are summed by label because their ids change. "other processes" is
    CPU time that no monitored process used.
    """
    own = finest_source_only(traces)
    parts = [_cpu_resources(own[own["host"] == host], about.cpus).assign(host=host) for host, about in hosts.items()]
    levels = own[own["metric"].isin(list(LEVEL_METRICS))]
    parts.append(levels.assign(resource=levels["metric"].map(LEVEL_METRICS)))
    columns = ["trial", "host", "resource", "unit", "t_s", "value"]
    values = pd.concat([part for part in parts if len(part)] or [pd.DataFrame(columns=columns)])[columns]
    return values.groupby(columns[:5], sort=False)["value"].sum().reset_index()


def _cpu_resources(own: pd.DataFrame, cpus: list[int] | None) -> pd.DataFrame:
    """Return the busy CPUs of a host, those stolen by the hypervisor, those of each process label, and others."""
    items = {f"cpu{n}" for n in cpus} if cpus else set(own["item"]) - {"all"}
    cores = own[own["item"].isin(list(items))]
    keys = ["trial", "t_s"]
    sums = {name: cores[cores["metric"] == f"cpu_{name}"].groupby(keys)["value"].sum() for name in ("busy", "steal")}
    process = own[own["metric"] == "process_cpu"]
    labels = process["item"].str.rsplit(":", n=1).str[0]
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


def resource_use(resources: pd.DataFrame, trials: pd.DataFrame, windows_s: Mapping[str, float]) -> pd.DataFrame:
    """Return what hosts used while measuring: the mean and the highest value of each resource.

    Parameters
    ----------
    resources : result of `host_resources`.
    trials : the table of trials.
    windows_s : trial -> seconds of its measurement; samples outside it do not count.

    Returns
    -------
    A row per trial, host and resource: block, trial, treatment, host, resource, unit, mean, max. The treatments of an
    interleaved block are up at once, so such a block has one row for all of them, without trial and treatment.
    """
    measured = within_windows(resources, windows_s)
    use = measured.groupby(["trial", "host", "resource", "unit"])["value"].agg(["mean", "max"]).reset_index()
    use = trials[["block", "trial", "treatment", "slot", "execution"]].merge(use, on="trial").sort_values("slot")
    shared = use["execution"].map(lambda execution: mode_called(execution).shares_hosts).astype(bool)
    use.loc[shared, ["trial", "treatment"]] = None
    columns = ["block", "trial", "treatment", "host", "resource", "unit", "mean", "max"]
    return use[columns].drop_duplicates(columns[:6], ignore_index=True)


def peer_comparison(
    resources: pd.DataFrame, trials: pd.DataFrame, trial: str, windows_s: Mapping[str, float]
) -> pd.DataFrame:
    """Compare the hosts in one trial with the other valid trials of its treatment, largest difference first.

    Parameters
    ----------
    resources : result of `host_resources`.
    windows_s : trial -> seconds of its measurement; samples outside it do not count.

    Returns
    -------
    host, resource, unit; `here`: mean in this trial; `usual`: median of the means of the other trials; `spread`: their
    scaled median absolute deviation; `apart`: here minus usual as a multiple of `spread`. `apart` is NaN between -3
    and 3, and for differences of less than a tenth of the usual value or of one CPU. Three other trials are needed.
    """
    treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
    others = trials[(trials["treatment"] == treatment) & (trials["trial"] != trial) & trials["valid"]]["trial"]
    own = within_windows(resources[resources["trial"].isin([trial, *others])], windows_s)
    means = own.groupby(["host", "resource", "unit", "trial"])["value"].mean()
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


class DriftSummary(NamedTuple):
    """Trend of the values over the run, treatment effects removed; both fields are None below 5 blocks.

    `drift` is the change from the first to the last block (Theil-Sen slope, ratio minus 1), `drift_p` the p of the
    Mann-Kendall test on the medians of the blocks' residuals.
    """

    drift: float | None = None
    drift_p: float | None = None

    @property
    def sentence(self) -> str:
        """Return a sentence on the drift."""
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

    `values` has trial, treatment, block, slot, status, valid, value (`RunData.values`); only valid positive values are
    used.
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
    """Return valid positive trials by slot, and the log of each value minus the median log of its treatment."""
    usable = values[values["valid"].astype(bool) & (values["value"] > 0)].sort_values("slot")
    logs = np.log(usable["value"])
    return usable, logs - logs.groupby(usable["treatment"]).transform("median")


def find_outliers(values: pd.DataFrame) -> dict[str, float]:
    """Return the outliers among the trials of each treatment: trial -> ratio to the expected value, minus 1.

    The expected value is the treatment's median, corrected for drift by the nine neighbouring trials. Outliers lie
    outside Tukey's fences, 1.5 interquartile ranges beyond the quartiles of the treatment; the range is that of the
    treatment or of all trials, whichever is larger, because few trials may lie close together by chance. Outliers are
    marked and never excluded, which would double the false alarms (docs/statistics.md). `values` are as in
    `describe_drift`; treatments with fewer than eight usable trials have no outliers.
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
    """Return the share of requests slower than a percentile, 0.01 for p99; None for other statistics."""
    match = _PERCENTILE.fullmatch(statistic)
    return 1 - float(match[1]) / 100 if match and float(match[1]) < 100 else None


def requests_needed(statistic: str, least: float) -> int:
    """Return how many requests a trial must have so that `least` of them are slower than the percentile `statistic`.

    For a statistic that is no percentile it is `least`.
    """
    return math.ceil(least / (share_beyond(statistic) or 1.0) - 1e-6)


def tail_requests(metric: str, statistic: str, requests: pd.Series) -> pd.Series | None:
    """Return the number of requests slower than a percentile, per trial; None if `metric` is no request time.

    None also if `statistic` is no percentile. Request times are latency, latency_intended and service_time.
    `requests` has the number of requests of each trial.
    """
    share = _tail_share(metric, statistic)
    return None if share is None else requests * share


def _tail_share(metric: str, statistic: str) -> float | None:
    return share_beyond(statistic) if metric in REQUEST_TIMES else None


def has_short_tail(metric: str, statistic: str, requests: pd.Series, least: float) -> pd.Series:
    """Return, per trial, whether fewer than `least` requests are slower than a percentile; False if unknown.

    Parameters as of `tail_requests`.
    """
    tail = tail_requests(metric, statistic, requests)
    return requests.isna() & False if tail is None else tail < least - 1e-9


def short_tails(data: RunTables, trials: pd.Series, metric: str, statistic: str) -> pd.Series:
    """Return, for each of `trials` (names), whether it has too few requests that are slower than a percentile.

    The limit is validity.min_tail_requests of the study. False if the percentile is not one of request times.
    """
    if _tail_share(metric, statistic) is None:  # no need to look for the numbers of requests
        return trials.isna() & False
    requests = trials.map(values_by_trial(data, "requests"))
    return has_short_tail(metric, statistic, requests, data.study.validity.min_tail_requests)


class EffectStability(NamedTuple):
    """Change of an effect during a run: effects (ratio minus 1) in both halves of the blocks, p of the change."""

    first_half: float
    second_half: float
    p: float

    @property
    def is_unstable(self) -> bool:
        """Return whether the change has p < 0.01, given that blocks ran in random order."""
        return self.p < UNSTABLE_ALPHA

    @property
    def flag(self) -> str:
        """Return the flag that describes the change."""
        first, second, p = format_percent(self.first_half), format_percent(self.second_half), format_p_value(self.p)
        halves = f"{first} in the first half of the blocks, {second} in the second"
        return f"{FLAG_PREFIX}{halves} (p {p}); measure again in a new run before relying on it"


def effect_stability(differences: FloatArray) -> EffectStability | None:
    """Return the change of log ratios, given in the order of their blocks, during the run; None below 8 blocks.

    It is None also if all of them are equal. p is twice the smaller one of two tests: Mann-Kendall (a trend), and the
    rank version of von Neumann's ratio (neighbouring blocks resemble each other; Bartels, 1982).
    """
    differences, blocks = np.round(differences, LOG_DECIMALS), len(differences)
    if blocks < MIN_STABILITY_BLOCKS or np.ptp(differences) == 0:
        return None
    trend_p = float(kendalltau(np.arange(blocks), differences).pvalue)
    halves = differences[: blocks // 2], differences[(blocks + 1) // 2 :]
    first, second = (effect_from_log(float(np.median(half))) for half in halves)
    return EffectStability(first, second, min(1.0, 2 * min(trend_p, rank_von_neumann_p(differences))))


def rank_von_neumann_p(values: FloatArray) -> float:
    """Return the one-sided p of the rank von Neumann ratio (Bartels' beta); small if neighbours are alike.

    `values` are at least three, in order, not all equal; equal values share their mean rank.
    """
    n, ranks = len(values), rankdata(values)
    von_neumann_ratio = float((np.diff(ranks) ** 2).sum() / ((ranks - ranks.mean()) ** 2).sum())
    shape = 5 * n * (n + 1) * (n - 1) ** 2 / (2 * (n - 2) * (5 * n**2 - 2 * n - 9)) - 0.5
    return float(betainc(shape, shape, von_neumann_ratio / 4))


def block_order(blocks: Sequence[object]) -> list[int] | None:
    """Return the indices of blocks in order of execution; None if the names of blocks are not numbers."""
    try:
        numbers = [float(str(block)) for block in blocks]
    except ValueError:
        return None
    return sorted(range(len(numbers)), key=numbers.__getitem__) if all(map(math.isfinite, numbers)) else None


def rounding_steps(data: RunTables, metric: str, statistic: str) -> dict[str, float]:
    """Return treatment -> largest step to which its values were rounded, as a share of them, where it is known."""
    rows = data.measurements
    rows = rows[(rows["metric"] == metric) & (rows["statistic"] == statistic) & (rows["driver"] == "*")]
    rows = rows[rows["value"] > 0].merge(data.trials.loc[data.trials["valid"], ["trial", "treatment"]], on="trial")
    shares = (rows["resolution"] / rows["value"]).groupby(rows["treatment"]).max().dropna()
    return {str(treatment): float(share) for treatment, share in shares.items()}


def is_step_coarse(step: float, interval: tuple[float, float]) -> bool:
    """Return whether a step (share of the values) is large beside an interval of their ratio minus 1."""
    half_width = (math.log1p(interval[1]) - math.log1p(interval[0])) / 2
    return step > max(FINE_STEP, MAX_STEP_SHARE * half_width)


def stability_flags(blocks: Sequence[object], base: FloatArray, other: FloatArray) -> tuple[str, ...]:
    """Return the flag of a comparison whose effect is unstable; an empty tuple if it is stable or this is not known.

    `base` and `other` are the logs of both arms in these blocks.
    """
    order = block_order(blocks)
    stability = None if order is None else effect_stability((other - base)[order])
    return (stability.flag,) if stability and stability.is_unstable else ()
