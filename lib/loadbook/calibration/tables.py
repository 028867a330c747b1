"""Tables of a certificate: what each tool said beside the truth, and which of its numbers may be trusted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TypeVar

from loadbook.calibration.cases import BEHAVIOURS, CASES, Case
from loadbook.calibration.certificate import (
    ERRORS,
    RATE,
    STATUS_ERRORS,
    TIME_METRICS,
    Certificate,
    Reading,
    Trust,
)
from loadbook.calibration.truth import STATISTICS

NUMBERS = ("rate", "errors", *STATISTICS)
CASE_HEADINGS = ("tool", "case", "times", *NUMBERS)
TRUST_HEADINGS = ("tool", "version", "loop", "times", *NUMBERS)
NOT_SAID = "-"
_Row = TypeVar("_Row", Reading, Trust)


def case_rows(certificate: Certificate) -> Iterator[Sequence[str]]:
    """Yield for each tool, case and metric of times the tool's numbers and the truth, as "tool's / true".

    Columns are those of `CASE_HEADINGS`; a cell has medians over the blocks, times in ms, or "-" without the number.
    """
    for tool in certificate.tools:
        for case in CASES:
            readings = [one for one in certificate.readings if (one.tool, one.case) == (tool, case.name)]
            for metric in _time_metrics(readings):
                yield tool, case.name, metric, *(_cell(_readings_of(readings, metric, name)) for name in NUMBERS)


def trust_rows(certificate: Certificate) -> Iterator[Sequence[str]]:
    """Yield for each tool, load model and metric of times whether each number may be trusted.

    Columns are those of `TRUST_HEADINGS`; a cell is "yes", "no: ..." with the worst case, or "-" without the number.
    """
    for tool, version in certificate.tools.items():
        for load_model in ("closed", "open"):
            trusts = certificate.of_tool(tool, load_model)
            for metric in _time_metrics(trusts):
                cells = (_verdict(next(iter(_readings_of(trusts, metric, name)), None)) for name in NUMBERS)
                yield tool, version, load_model, metric, *cells


def case_lines(certificate: Certificate) -> Iterator[str]:
    """Yield a line for each case of a certificate that explains it."""
    names = {reading.case for reading in certificate.readings}
    for case in CASES:
        if case.name in names:
            yield f"{case.name}: {_load_text(case)}; {BEHAVIOURS[case.behaviour][1]}"


def _load_text(case: Case) -> str:
    connections = f"{case.connections} connections"
    return connections if case.rate_per_s is None else f"{case.rate_per_s:g} requests a second, at most {connections}"


def _time_metrics(rows: Sequence[Reading] | Sequence[Trust]) -> list[str]:
    """Return the metrics of times among these; [NOT_SAID] for numbers without times, [] for none at all."""
    metrics = [metric for metric in TIME_METRICS if any(row.metric == metric for row in rows)]
    return metrics or ([NOT_SAID] if rows else [])


def _readings_of(rows: Sequence[_Row], metric: str, number: str) -> list[_Row]:
    """Return the rows of one column of the tables."""
    keys = {"rate": (RATE,), "errors": (ERRORS, STATUS_ERRORS)}.get(number, ((metric, number),))
    return [row for row in rows if (row.metric, row.statistic) in keys]


def _cell(readings: Sequence[Reading]) -> str:
    if not readings:
        return NOT_SAID
    said, true = median(one.said for one in readings), median(one.true for one in readings)
    return f"{value_text(readings[0].metric, said)} / {value_text(readings[0].metric, true)}"


def _verdict(trust: Trust | None) -> str:
    if trust is None:
        return NOT_SAID
    if trust.trusted:
        return "yes"
    if trust.missing:
        return f"no: not told ({', '.join(trust.missing)})"
    return f"no: {value_text(trust.metric, trust.said)} for {value_text(trust.metric, trust.true)} ({trust.case})"


def value_text(metric: str, value: float) -> str:
    """Return a value in base units as text: a time (s) as "12.3 ms", a rate with one decimal, a count whole."""
    if metric in TIME_METRICS:
        return f"{value * 1000:.1f} ms" if value < 0.1 else f"{value * 1000:.0f} ms"
    return f"{value:.1f}" if metric.endswith("_per_s") else f"{value:.0f}"
