"""Comparison of the sides: the metric that decides, verdicts, other metrics, errors, and what files cannot tell."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from statistics import median
from typing import Literal

import numpy as np

from loadbook.analyses.compare_files import loads
from loadbook.analyses.compare_files.sides import RATES, Key, Run, Side
from loadbook.core.errors import DataError, UsageError
from loadbook.core.metrics import Direction, get_metric
from loadbook.core.units import format_percent, join_words, pluralize
from loadbook.stats import diagnostics, unpaired
from loadbook.stats.compare import MIN_BLOCKS, compare_contrasts
from loadbook.stats.error_text import errors_sentence
from loadbook.stats.errors import ErrorCounts, count_errors, summarise_errors
from loadbook.stats.results import Comparison, Hypothesis, Interval, Verdict
from loadbook.stats.text import common_decimals, direction
from loadbook.stats.verdict import decide_verdict
from loadbook.validity.base import RuleHit

Pairing = Literal["", "name", "order"]
TIMES = ("latency_intended", "service_time", "latency", "attempt_time", "ttfb")
PERCENTILES = ("p99", "p95", "p90", "p50", "mean")
# numbers that are listed beside the one that decides, if both sides have them
LISTED = (*RATES, *((time, statistic) for time in TIMES for statistic in ("mean", "p50", "p90", "p95", "p99", "max")))
_STATISTIC = re.compile(r"p\d+(?:\.\d+)?|mean|sd|min|max")
# the message of the rule too_short
_FEW_BEYOND = re.compile(r"p\S+ is that of (?P<requests>[\d,]+) requests: \S+ lie beyond it, (?P<needed>[\d.]+) are")
# shares of false alarms: benchmarks/simulated/unpaired.py
DRIFT = (
    "a host that changed meanwhile looks like a difference (simulated: half of equal sides differ). Alternate the runs"
)


@dataclass(frozen=True)
class Question:
    """What is asked: the metric and statistic that decide, the margin (ratio minus 1), the better direction, pairs."""

    key: Key
    margin: float
    better: Direction
    hypothesis: Hypothesis
    pairing: Pairing


@dataclass(frozen=True)
class MetricRow:
    """One metric of a side beside the baseline: both medians, in base units, and the comparison of all their runs."""

    key: Key
    base: float
    own: float
    comparison: Comparison


@dataclass(frozen=True)
class FilesComparison:
    """The result: a verdict for each side but the baseline.

    `rows` maps a side to its metrics, `errors` has sentences on the errors of sides, `doubts` on runs, `limits` on what
    such files cannot tell. `other_loads` says what differs between the printed loads, "" if nothing does.
    """

    question: Question
    sides: tuple[Side, ...]
    verdicts: tuple[Verdict, ...]
    rows: dict[str, list[MetricRow]]
    errors: tuple[str, ...]
    doubts: tuple[str, ...]
    limits: tuple[str, ...]
    other_loads: str = ""

    @property
    def baseline(self) -> Side:
        """The side that the others are compared with."""
        return self.sides[0]


def choose_key(sides: Sequence[Side], metric: str = "") -> Key:
    """Return the metric and statistic that decide: those named, as in "latency p99", else those that all runs have.

    Closed loads are compared by their rate, open loads, whose rate is given, by the highest percentile of their time.

    Raises
    ------
    UsageError : no report has the metric.
    DataError : the reports have no metric in common, or some loads are open and others closed.
    """
    runs = [run for side in sides for run in side.runs if run.values]
    common = set.intersection(*(set(run.values) for run in runs))
    if metric:
        name, _, statistic = " ".join(metric.lower().split()).partition(" ")
        if not statistic and _STATISTIC.fullmatch(name):
            timed = next((time for time in TIMES if (time, name) in common), TIMES[2])
            raise UsageError(f"{name!r} is a statistic, and of no metric", f"say --metric '{timed} {name}'")
        key = (name, statistic or get_metric(name).default_statistic)
        if not any(key in run.values for run in runs):
            there = join_words(sorted(f"{m} {s}" if s != "value" else m for m, s in common)) or "none in common"
            raise UsageError(f"no report has {' '.join(key)}", f"metrics of all reports: {there}")
        return key
    kinds = {run.is_open for run in runs}
    if len(kinds) == 2:
        reason = "one load has a rate of its own, the other waits for answers: they cannot be compared"
        shown = [next(run for run in runs if run.is_open is kind) for kind in (True, False)]
        names = [f"{run.side}: {run.report.name}" for run in shown]
        raise DataError(f"{' and '.join(names)}: {reason}")
    times = [(time, statistic) for statistic in PERCENTILES for time in TIMES]
    for one in times if True in kinds else [*RATES, *times]:
        if one in common:
            return one
    what = "time (their rate is given)" if True in kinds else "rate and no time"
    raise DataError(f"the reports have no {what} in common", "name a metric of both sides: --metric")


def compare_sides(
    sides: Sequence[Side],
    *,
    metric: str = "",
    margin: float = 0.0,
    better: Direction | None = None,
    hypothesis: Hypothesis = "difference",
    pairing: Pairing = "",
) -> FilesComparison:
    """Compare every side with the first one.

    Parameters
    ----------
    metric : the one that decides, as in `choose_key`; "" for the usual one.
    margin : smallest difference that matters, ratio minus 1; 0 if none was declared.
    better : which direction is better; None: by the metric's name.
    pairing : "name" or "order" if the runs were made in pairs; "" compares all runs of a side with all of the other.
    """
    key = choose_key(sides, metric)
    question = Question(key, margin, direction(key[0], better), hypothesis, pairing)
    comparisons = _paired(sides, key, pairing) if pairing else _unpaired(sides, key)
    verdicts = [_verdict(comparison, question, sides) for comparison in comparisons]
    decimals = common_decimals(v.comparison for v in verdicts if v.kind != "invalid")
    return FilesComparison(
        question,
        tuple(sides),
        tuple(replace(verdict, decimals=decimals) for verdict in verdicts),
        {side.name: list(_metric_rows(sides[0], side, key, pairing)) for side in sides[1:]},
        tuple(_error_sentences(sides)),
        (*_doubts(sides, key), *(f"{v.comparison.treatment}: {flag}" for v in verdicts for flag in v.comparison.flags)),
        tuple(_limits(sides, pairing)),
        "; ".join(loads.differences(sides)),
    )


def values_of(side: Side, key: Key) -> list[float]:
    """Return the positive values of the runs that count and have the metric."""
    return [value for run in side.counting if (value := run.values.get(key)) is not None and value > 0]


def _unpaired(sides: Sequence[Side], key: Key) -> list[Comparison]:
    base, others = sides[0], sides[1:]
    comparisons = [
        unpaired.compare_runs(
            values_of(base, key), values_of(side, key), (base.name, side.name), *key, family_size=len(others)
        )
        for side in others
    ]
    return unpaired.adjust_family(comparisons)


def _paired(sides: Sequence[Side], key: Key, pairing: Pairing) -> list[Comparison]:
    """Compare sides whose runs are blocks: those with the same place, or the same name or number in it."""
    import pandas as pd

    rows = []
    for side in sides:
        labels = [str(place) if pairing == "order" else _pair_name(run) for place, run in enumerate(side.runs, 1)]
        if twice := sorted({label for label in labels if labels.count(label) > 1}):
            raise UsageError(f"{side.name}: several runs are called {twice[0]!r}", "pair them by --pair order")
        rows += [
            (side.name, label, run.values.get(key, np.nan), run.counts)
            for label, run in zip(labels, side.runs, strict=True)
        ]
    frame = pd.DataFrame(rows, columns=["treatment", "block", "value", "valid"])
    if not set.intersection(*(set(frame[frame["treatment"] == side.name]["block"]) for side in sides)):
        raise UsageError("no run of one side has the name of one of the other", "pair them by --pair order")
    return compare_contrasts(frame, [(side.name, sides[0].name) for side in sides[1:]], metric=key[0], statistic=key[1])


def _pair_name(run: Run) -> str:
    """Return what pairs a run with one of another side: the numbers in its file's name, else the name."""
    name = PurePath(run.report.name).name
    return "-".join(re.findall(r"\d+", name)) or name


def _verdict(comparison: Comparison, question: Question, sides: Sequence[Side]) -> Verdict:
    """Return the verdict on a comparison, whose intervals are wider by the step of rounding where that matters."""
    own = (side for side in sides if side.name in (comparison.baseline, comparison.treatment))
    step = max((run.steps.get(question.key, 0.0) for side in own for run in side.counting), default=0.0)
    if step > diagnostics.FINE_STEP:
        comparison = _widened(comparison, step)
    reason = _zero_reason(comparison, question, sides) or unpaired.no_verdict_reason(comparison)
    return decide_verdict(comparison, question.margin, question.better, reason=reason, hypothesis=question.hypothesis)


def _zero_reason(comparison: Comparison, question: Question, sides: Sequence[Side]) -> str | None:
    """Return that the metric has values of 0, if these leave too few others for a verdict; None if they do not."""
    if comparison.runs is not None and min(comparison.runs) >= MIN_BLOCKS:
        return None
    zeros = {side.name: len(_zeros(side, question.key)) for side in sides}
    named = [f"{pluralize(zeros[name], 'run')} of {name}" for name in (comparison.baseline, comparison.treatment)]
    if not any(zeros[name] for name in (comparison.baseline, comparison.treatment)):
        return None
    return f"{' '.join(question.key)} is 0 in {join_words(named)}: values of 0 have no ratio"


def _zeros(side: Side, key: Key) -> list[Run]:
    """Return the runs that count and in which the metric is 0."""
    return [run for run in side.counting if run.values.get(key) == 0]


def is_about(hit: RuleHit, key: Key) -> bool:
    """Return whether a doubt is one about the deciding metric: few requests beyond a percentile spoil no rate."""
    few = _FEW_BEYOND.match(hit.message) if hit.name == "too_short" else None
    if few is None:
        return True
    percentile = re.fullmatch(r"p(\d+(?:\.\d+)?)", key[1])
    requests = int(few["requests"].replace(",", ""))
    return percentile is not None and requests * (1 - float(percentile[1]) / 100) < float(few["needed"])


def _widened(comparison: Comparison, step: float) -> Comparison:
    """Return a comparison with intervals that are wider by one step of rounding, given as a share of the values."""

    def widen(interval: Interval | None) -> Interval | None:
        return interval and ((1 + interval[0]) * (1 - step) - 1, (1 + interval[1]) * (1 + step) - 1)

    text = f"values are printed in steps of {format_percent(step, 1, signed=False)} of them: intervals are wider by one"
    return replace(
        comparison,
        ci95=widen(comparison.ci95),
        ci90=widen(comparison.ci90),
        ci_family=widen(comparison.ci_family),
        flags=(*comparison.flags, text),
    )


def _metric_rows(base: Side, side: Side, deciding: Key, pairing: Pairing) -> Iterator[MetricRow]:
    """Yield the metrics that runs of both sides have, the deciding one first."""
    for key in dict.fromkeys((deciding, *LISTED)):
        values = values_of(base, key), values_of(side, key)
        if all(values):
            (comparison,) = _paired((base, side), key, pairing) if pairing else _unpaired((base, side), key)
            yield MetricRow(key, median(values[0]), median(values[1]), comparison)


def _error_sentences(sides: Sequence[Side]) -> Iterator[str]:
    """Yield a sentence on the errors of each side that has some, or whose baseline has."""
    counts = _error_counts(sides)
    base = counts[sides[0].name]
    if not any(count.trials_with_errors for count in counts.values()):
        return
    reference = summarise_errors(sides[0].name, base, None)
    yield f"{sides[0].name}: {errors_sentence(reference)}"
    for side in sides[1:]:
        own = summarise_errors(side.name, counts[side.name], base)
        yield f"{side.name}: {errors_sentence(own, reference, sides[0].name)}"


def _error_counts(sides: Sequence[Side]) -> dict[str, ErrorCounts]:
    """Return side -> the errors of all its runs, also of those that do not count."""
    import pandas as pd

    runs = list(enumerate(run for side in sides for run in side.runs))
    trials = pd.DataFrame([(number, run.side) for number, run in runs], columns=["trial", "treatment"])
    rows = [{"trial": number, "driver": "*", **row.as_row()} for number, run in runs for row in run.report.measurements]
    return count_errors(trials, pd.DataFrame(rows), [side.name for side in sides])


def _doubts(sides: Sequence[Side], key: Key) -> Iterator[str]:
    """Yield sentences on runs that were not read or do not count, and on doubts about those that do."""
    for side in sides:
        for run in side.runs:
            if run.report.parsed is None:
                yield f"not read: {run.report.error}"
            elif run.copy_of:
                yield f"{side.name}: {run.report.name} does not count: it has all numbers of {run.copy_of}"
            elif run.excluded_by:
                yield f"{run.report.name} does not count: {run.excluded_by.message}"
        found: dict[tuple[str, str], list[str]] = {}
        for run in side.counting:
            for hit in (hit for hit in run.hits if is_about(hit, key)):
                found.setdefault((hit.name, hit.message), []).append(run.report.name)
        for (name, message), names in found.items():
            which = names[0] if len(names) == 1 else f"{len(names)} runs of {side.name}"
            yield f"{name}: {which}: {message}"
        if zeros := _zeros(side, key):
            text = f"{' '.join(key)} is 0 in {pluralize(len(zeros), 'run')}, such as {zeros[0].report.name}"
            yield f"{side.name}: {text}: values of 0 have no ratio, and are left out"
        lacking = [run for run in side.counting if key not in run.values]
        if lacking:
            number, example = pluralize(len(lacking), "run"), lacking[0].report.name
            yield f"{side.name}: {number} without {' '.join(key)}, such as {example}"
    tools = {side.name: sorted({run.report.tool for run in side.runs if run.report.parsed}) for side in sides}
    if len(set().union(*tools.values())) > 1:
        which = "; ".join(f"{name}: {', '.join(own)}" for name, own in tools.items())
        yield f"several tools, which measure differently: {which}"


def _limits(sides: Sequence[Side], pairing: Pairing) -> Iterator[str]:
    """Yield what the files cannot tell, and whether one side ran before the other."""
    spans = [side.span for side in sides]
    base, first = spans[0], sides[0].name
    apart = [s.name for s, span in zip(sides[1:], spans[1:], strict=True) if base and span and _apart(base, span)]
    if apart and not pairing:
        yield f"Order of the runs: {join_words(apart)} ran wholly before or after {first}: {DRIFT}"
    elif None in spans:
        yield f"Order of the runs: not in the files. If one side ran before the other, {DRIFT}"
    yield (
        f"Noise between equal sides: no second set of {first} was compared with the first one. Make one, and compare "
        "it in the same way: it must not differ"
    )
    if known := loads.settings(sides):
        text = f"whether they were alike is not in the files, which print {join_words(known)} of the load"
        yield f"Hosts, CPU and other settings of both sides: {text}"
    else:
        yield "Load, hosts, CPU and settings of both sides: whether they were alike is not in the files"


def _apart(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one[1] <= other[0] or other[1] <= one[0]
