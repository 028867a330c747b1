"""Errors per trial, compared between treatments; the trial is the unit because errors come in bursts."""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from scipy.stats import fisher_exact

from loadbook.core.metrics import ERROR_CLASSES
from loadbook.stats.paired_tests import MAX_EXACT_BLOCKS, label_signs, p_from_hits
from loadbook.stats.results import ErrorSummary, Interval, Refusal
from loadbook.store.tables import trial_values

if TYPE_CHECKING:
    import pandas as pd

MIN_ERROR_TRIALS = 5
ALPHA = 0.05
SUM_TOLERANCE = 1e-9
RESPONSE_CLASSES = ("errors_status", "errors_length")  # responses: `requests` contains them
ErrorVerdictKind = Literal["more", "fewer", "undecided", "none"]


class ErrorCounts(NamedTuple):
    """Errors, requests and, if known, block of each trial of one treatment.

    `by_class` maps classes such as "errors_timeout" to the number of errors in all its trials, without zeros.
    `answered` is the number of errors of each trial that are responses, which `requests` contains.
    """

    errors: np.ndarray
    requests: np.ndarray
    by_class: dict[str, int]
    blocks: tuple[object, ...] = ()
    answered: np.ndarray | float = 0.0

    @property
    def trials(self) -> int:
        """Return the number of trials that were counted."""
        return len(self.errors)

    @property
    def attempts(self) -> np.ndarray:
        """Return the requests of each trial, with those that got no response."""
        return np.asarray(self.requests + self.errors - self.answered)

    @property
    def trials_with_errors(self) -> int:
        """Return the number of trials with at least one error."""
        return int((self.errors > 0).sum())


def count_errors(trials: pd.DataFrame, measurements: pd.DataFrame, treatments: Iterable[str]) -> dict[str, ErrorCounts]:
    """Return treatment -> its errors in all its trials that have a report, including invalid trials.

    If the tool reported no total of errors, the classes are summed; a trial without either is not counted.
    """
    counted = measurements["metric"].isin(["errors", "requests", *ERROR_CLASSES])
    rows = measurements[counted & (measurements["driver"] == "*") & (measurements["statistic"] == "count")]
    counts: dict[str, Counter[str]] = {}
    for trial, metric, value in rows[["trial", "metric", "value"]].dropna().itertuples(index=False):
        counts.setdefault(trial, Counter())[metric] += value
    arms = trials[[column for column in ("trial", "treatment", "block") if column in trials]]
    return {name: _count(arms[arms["treatment"] == name], counts) for name in treatments}


def _count(own_trials: pd.DataFrame, counts: Mapping[str, Counter[str]]) -> ErrorCounts:
    """Count the errors of some trials; `counts` is trial -> metric -> total over all drivers."""
    has_blocks = "block" in own_trials
    blocks = own_trials["block"].tolist() if has_blocks else [None] * len(own_trials)
    block_of = dict(sorted(zip(own_trials["trial"].tolist(), blocks, strict=True)))
    reported = [trial for trial in block_of if trial in counts]
    errors: dict[str, float] = {}
    for trial in reported:
        classes = [counts[trial][name] for name in ERROR_CLASSES if name in counts[trial]]
        if "errors" in counts[trial] or classes:
            errors[trial] = counts[trial]["errors"] if "errors" in counts[trial] else sum(classes)
    by_class = {name: int(sum(counts[trial][name] for trial in reported)) for name in ERROR_CLASSES}
    return ErrorCounts(
        np.array(list(errors.values()), float),
        np.array([counts[trial]["requests"] for trial in errors], float),
        {name: total for name, total in by_class.items() if total > 0},
        tuple(block_of[trial] for trial in errors) if has_blocks else (),
        np.array([min(n, sum(counts[trial][c] for c in RESPONSE_CLASSES)) for trial, n in errors.items()], float),
    )


def errors_by_block(trials: pd.DataFrame, measurements: pd.DataFrame, arms: Sequence[str]) -> pd.DataFrame:
    """Return whether trials had errors (0 or 1), one row per block and one column per arm, complete blocks only.

    Trials with a total of errors count, including invalid ones.
    """
    errors = trial_values(trials, measurements, "errors", "count")
    table = errors.pivot(index="block", columns="treatment", values="value")
    return (table.reindex(columns=list(arms)).dropna() > 0).astype(int)


STATUS_COUNT = re.compile(r"([45]\d\d): (\d+)")


def find_refusals(
    trials: pd.DataFrame, measurements: pd.DataFrame, problems: pd.DataFrame, treatments: Iterable[str]
) -> dict[str, Refusal]:
    """Return treatment -> its error responses, if more than half of its trials do not count because of them.

    `trials` is a result of `exclusions.with_causes`: `gates` are the validity rules that excluded a trial.
    """
    bad_pages = [status >= 400 for status in trials["response_status"].fillna(0)]
    refused = [
        "error_responses" in gates or ("wrong_response" in gates and is_bad)
        for gates, is_bad in zip(trials["gates"], bad_pages, strict=True)
    ]
    refusals = {}
    for name in treatments:
        own = trials.assign(refused=refused)[trials["treatment"] == name]
        bad = own[own["refused"]]
        if 2 * len(bad) > len(own):
            rows = measurements[measurements["trial"].isin(bad["trial"]) & (measurements["statistic"] == "count")]
            told = problems[(problems["name"] == "error_log") & problems["trial"].isin(bad["trial"])]
            reason = next((message for message, _ in Counter(told["message"]).most_common(1)), "")
            refusals[name] = Refusal(_refused_share(rows), _refused_statuses(rows, bad["response_status"]), reason)
    return refusals


def _refused_share(counts: pd.DataFrame) -> float | None:
    """Return error responses as a share of all; of a tool that tells only 2xx from others, all others are errors."""
    totals = counts[counts["driver"] == "*"].groupby("metric")["value"].sum()
    requests, good = totals.get("requests", 0.0), totals.get("status_2xx")
    failed = totals.get("errors_status", None if good is None else requests - good)
    return None if not failed else float(failed / max(requests, failed))


def _refused_statuses(counts: pd.DataFrame, pages: pd.Series) -> tuple[str, ...]:
    """Return the statuses of error responses: by code, else by class, else that of the page before the load."""
    classes = counts[counts["metric"].isin(["status_4xx", "status_5xx"]) & (counts["value"] > 0)]
    codes: Counter[str] = Counter()
    for text in classes["text"].dropna():
        for code, number in STATUS_COUNT.findall(str(text)):
            codes[code] += int(number)
    if not codes:
        codes.update(name.removeprefix("status_") for name in classes["metric"])
    if not codes:
        codes.update(str(int(status)) for status in pages.dropna() if status >= 400)
    return tuple(code for code, _ in codes.most_common())


def summarise_errors(treatment: str, counts: ErrorCounts, baseline: ErrorCounts | None) -> ErrorSummary:
    """Compare the errors of a treatment with the baseline's; `baseline` is None for the baseline itself."""
    own = ErrorSummary(
        treatment=treatment,
        trials=counts.trials,
        trials_with_errors=counts.trials_with_errors,
        errors=int(counts.errors.sum()),
        requests=int(counts.requests.sum()),
        by_class=counts.by_class,
        kind="baseline",
        upper_share=zero_error_upper_bound(counts.trials) if counts.trials and not counts.trials_with_errors else None,
    )
    if baseline is None:
        return own
    p, (rate, interval) = None, rate_ratio(counts, baseline)
    if counts.trials and baseline.trials:
        table = [[c.trials_with_errors, c.trials - c.trials_with_errors] for c in (counts, baseline)]
        p = float(fisher_exact(table).pvalue)
    kind, p_blocks = _error_verdict_kind(counts, baseline, p, interval), block_sign_flip_p(counts, baseline)
    return replace(own, p=p, kind=kind, rate_ratio=rate, rate_ci95=interval, p_blocks=p_blocks)


def zero_error_upper_bound(trials: int) -> float:
    """Return the upper limit (one-sided 95 %) of the share of trials with errors, if none of `trials` had one."""
    return float(1 - 0.05 ** (1 / trials))


def _error_verdict_kind(
    counts: ErrorCounts, baseline: ErrorCounts, p: float | None, rate: Interval | None
) -> ErrorVerdictKind:
    if p is not None and p < ALPHA:
        share, base_share = (c.trials_with_errors / c.trials for c in (counts, baseline))
        return "more" if share > base_share else "fewer"
    if rate is not None and not rate[0] <= 1 <= rate[1]:
        return "more" if rate[0] > 1 else "fewer"
    return "undecided" if counts.trials_with_errors else "none"


def block_sign_flip_p(counts: ErrorCounts, baseline: ErrorCounts) -> float | None:
    """Return the two-sided p of the differences of root error counts between both arms, under sign flips by block.

    It checks the results of Fisher's test and of `rate_ratio`. None if no block has both arms.
    """
    own_roots, base_roots = (dict(zip(c.blocks, np.sqrt(c.errors), strict=False)) for c in (counts, baseline))
    differences = np.array([own_roots[block] - base_roots[block] for block in own_roots if block in base_roots])
    if not len(differences):
        return None
    hits = np.abs(label_signs(len(differences)) @ differences) >= abs(differences.sum()) - SUM_TOLERANCE
    return float(p_from_hits(hits, exact=len(differences) <= MAX_EXACT_BLOCKS))


def rate_ratio(counts: ErrorCounts, baseline: ErrorCounts) -> tuple[float | None, Interval | None]:
    """Return the ratio of errors per request to the baseline's, with a quasi-Poisson 95 % interval (t, Pearson scale).

    Both are None unless both arms have at least five trials with errors.
    """
    if min(counts.trials_with_errors, baseline.trials_with_errors) < MIN_ERROR_TRIALS:
        return None, None
    import statsmodels.api as sm
    from scipy.stats import t

    errors = np.concatenate([counts.errors, baseline.errors])
    attempts = np.concatenate([counts.attempts, baseline.attempts])
    used = attempts > 0
    arm = np.repeat([1.0, 0.0], [counts.trials, baseline.trials])
    design = np.column_stack([np.ones_like(arm), arm])[used]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a perfect fit gives warnings, and rightly an interval of width 0
        model = sm.GLM(errors[used], design, family=sm.families.Poisson(), offset=np.log(attempts[used]))
        fit = model.fit(scale="X2")
    half_width = float(t.ppf(1 - ALPHA / 2, fit.df_resid) * fit.bse[1])
    centre = float(fit.params[1])
    return float(np.exp(centre)), (float(np.exp(centre - half_width)), float(np.exp(centre + half_width)))
