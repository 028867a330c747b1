"""A run as text for other programs: a tidy CSV for spreadsheets, and the benchmark format that benchstat reads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from loadbook.core.errors import UsageError
from loadbook.core.metrics import get_metric

if TYPE_CHECKING:
    from loadbook.records.rundata import RunData

FORMULA_START = re.compile(r"[=+\-@\t\r]")  # with these a spreadsheet begins to compute
TOTAL = "*"


def tidy_csv(data: RunData) -> str:
    """Return one row per trial, driver, metric and statistic, with the trial's treatment, factors, block and gates.

    Values are in base units (s, B, 1/s, 1). A text that a spreadsheet would compute gets an apostrophe before it.
    """
    of_trial = data.trials.drop(columns=["study", "run"]).rename(columns={"started": "started_s"})
    of_trial["gates"] = [" ".join(gates) for gates in of_trial["gates"]]
    rows = of_trial.merge(data.measurements.drop(columns="text"), on="trial", how="left", validate="one_to_many")
    first = ["study", "run", "trial", "treatment", "block", "slot", "valid", "metric", "statistic", "value", "unit"]
    rows = rows.assign(study=data.study.name, run=data.run)[
        [*first, *(name for name in rows.columns if name not in first)]
    ]
    for name in rows.select_dtypes(["object", "string"]).columns:
        rows[name] = rows[name].map(_escape_formula)
    return str(rows.sort_values(["slot", "driver", "metric", "statistic"]).to_csv(index=False, lineterminator="\n"))


def _escape_formula(text: object) -> object:
    return f"'{text}" if isinstance(text, str) and FORMULA_START.match(text) else text


def go_benchmark_text(data: RunData, metric: str) -> str:
    """Return the trials that count as a Go benchmark, one line each (golang.org/design/14313-benchmark-format).

    `benchstat -col /treatment FILE` compares them. It knows neither blocks nor margins nor gates, and takes a unit's
    better direction from the `Unit` line.
    """
    definition = get_metric(metric)
    values = data.values(metric)
    counted = values[values["valid"] & (values["status"] == "ok")].dropna(subset=["value"])
    if counted.empty:
        raise UsageError(f"no trial of run {data.run} that counts has the metric {metric}", "loadbook report shows why")
    unit_line = f"Unit {metric} better={definition.better}" if definition.better in ("higher", "lower") else ""
    head = [f"study: {data.study.name}", f"run: {data.run}", unit_line]
    return "\n".join([*filter(None, head), "", *_benchmark_lines(counted.itertuples(), metric), ""])


def _benchmark_lines(rows: Iterator[object], metric: str) -> Iterator[str]:
    for row in rows:
        yield f"BenchmarkTrial/treatment={row.treatment} 1 {row.value:.9g} {metric}"  # type: ignore[attr-defined]
