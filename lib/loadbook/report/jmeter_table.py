"""What JMeter would have shown: a table with the column names of its own dashboard, for runs that it measured.

Names and meanings are JMeter's (its Statistics table): samples of any outcome, those without an answer among them;
times are elapsed times in ms; Transactions/s counts failed samples, too. Percentiles are of all samples of a trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from loadbook.core.units import NBSP
from loadbook.report.tables import DASH, Column, Table

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.records.rundata import RunData

JMETER = "jmeter"
JMETER_NOTE = (
    "Column names and meanings as in JMeter’s dashboard; times in ms, Received in KB/sec (KB = 1,024 B). Percentiles "
    "come from all samples of a trial, while JMeter’s own dashboard takes the last 20,000 of a label. FAIL is "
    "JMeter’s; the verdicts on errors above are loadbook’s. Sent is not kept."
)
TrialNumbers = Mapping[tuple[str, str], float]


def _metric_reader(metric: str, statistic: str, factor: float = 1.0) -> Callable[[TrialNumbers], float | None]:
    def value(numbers: TrialNumbers) -> float | None:
        found = numbers.get((metric, statistic))
        return None if found is None or found != found else found * factor

    return value


def _sample_count(numbers: TrialNumbers) -> float | None:
    ok, errors = (numbers.get((metric, "count")) for metric in ("ok", "errors"))
    return None if ok is None or errors is None else ok + errors


def _error_percent(numbers: TrialNumbers) -> float | None:
    samples, errors = _sample_count(numbers), numbers.get(("errors", "count"))
    return None if not samples or errors is None else 100 * errors / samples


def _transaction_rate(numbers: TrialNumbers) -> float | None:
    samples, duration = _sample_count(numbers), numbers.get(("duration", "value"))
    return None if samples is None or not duration else samples / duration


JMETER_COLUMNS: Mapping[str, tuple[Callable[[TrialNumbers], float | None], int]] = {
    "#Samples": (_sample_count, 0),
    "FAIL": (_metric_reader("errors", "count"), 0),
    f"Error{NBSP}%": (_error_percent, 2),
    "Average": (_metric_reader("latency", "mean", 1e3), 1),
    "Min": (_metric_reader("latency", "min", 1e3), 0),
    "Max": (_metric_reader("latency", "max", 1e3), 0),
    "Median": (_metric_reader("latency", "p50", 1e3), 0),
    "90th pct": (_metric_reader("latency", "p90", 1e3), 0),
    "95th pct": (_metric_reader("latency", "p95", 1e3), 0),
    "99th pct": (_metric_reader("latency", "p99", 1e3), 0),
    "Transactions/s": (_transaction_rate, 1),
    "Received": (_metric_reader("bytes_per_s", "value", 1 / 1024), 1),
}


def jmeter_tables(data: RunData, labels: Mapping[str, str]) -> tuple[Table, Table] | None:
    """Return a row per treatment (median, minimum, maximum over its trials) and one per trial; None without JMeter."""
    own = data.trials[(data.trials["tool"] == JMETER) & data.trials["valid"]].sort_values("slot")
    if own.empty:
        return None
    numbers = _numbers_by_trial(data.measurements, list(own["trial"]))
    by_arm = {arm: [numbers.get(t, {}) for t in trials] for arm, trials in own.groupby("treatment")["trial"]}
    arms = [arm for arm in data.plan["treatments"] if arm in by_arm]
    middle = [[labels.get(arm, arm), str(len(by_arm[arm])), *_median_cells(by_arm[arm])] for arm in arms]
    each = [
        [labels.get(arm, arm), str(block), *_trial_cells(numbers.get(trial, {}))]
        for arm, block, trial in zip(own["treatment"], own["block"], own["trial"], strict=True)
    ]
    heads = [Column(head, True) for head in JMETER_COLUMNS]
    first = Table("JMeter, by label", [Column("Label"), Column("Trials", True), *heads], middle)
    return first, Table("JMeter, by trial", [Column("Label"), Column("Block", True), *heads], each)


def _numbers_by_trial(measurements: pd.DataFrame, trials: Sequence[str]) -> dict[str, dict[tuple[str, str], float]]:
    rows = measurements[measurements["trial"].isin(trials) & (measurements["driver"] == "*")]
    found: dict[str, dict[tuple[str, str], float]] = {}
    columns = (rows[name] for name in ("trial", "metric", "statistic", "value"))
    for trial, metric, statistic, value in zip(*columns, strict=True):
        found.setdefault(str(trial), {})[str(metric), str(statistic)] = float(value)
    return found


def _trial_cells(numbers: TrialNumbers) -> list[str]:
    return [_number_text(value(numbers), digits) for value, digits in JMETER_COLUMNS.values()]


def _median_cells(trials: Sequence[TrialNumbers]) -> list[str]:
    """Return each column's median over trials with minimum and maximum."""
    from statistics import median

    cells = []
    for value, digits in JMETER_COLUMNS.values():
        values = [found for numbers in trials if (found := value(numbers)) is not None]
        low, middle, high = (_number_text(f(values) if values else None, digits) for f in (min, median, max))
        cells.append(middle if low == high else f"{middle} ({low} to {high})")
    return cells


def _number_text(value: float | None, digits: int) -> str:
    return DASH if value is None else f"{value:,.{digits}f}"
