"""Where an effect stands, from several runs of it: each run scatters by itself, and runs scatter among each other.

A random-effects mean: the variance between runs by Paule and Mandel, the scale by Hartung, Knapp, Sidik and Jonkman
(both statsmodels'). Runs of equal errors then give mean and standard deviation over the runs, and a prediction
interval that is exactly the usual one: what the blocks of a run say of its error only moves weight between runs.

When an effect changed: circular binary segmentation (Olshen and others 2004), weighted by the runs' own errors.

Of all arcs of runs, each at least `MIN_SEGMENT_RUNS` long, the one is sought whose mean lies furthest from that of the
runs
outside; it counts if its F test, times the number of arcs (Bonferroni), says so. An arc finds a change that was taken
back, too, where a single cut is blind. Its pieces are searched in turn, and an edge that its own two neighbours do not
bear out is taken back. If runs scatter normally, at most the share `rate` of histories without a change shows one;
benchmarks/history.py counts what it is, and what it is with heavy tails.

Is the newest run worse than its past? A prediction interval of its effect, from runs that it can be held against.

One-sided, towards worse. If runs scatter normally about one level, `rate` of all runs raise a false alarm in any of
the study's comparisons: each of m comparisons has rate / m (Bonferroni), as they share a baseline. A run's own error is
an estimate from its few blocks: a newest run that took itself for better than such runs usually are would ring too
often, so its error is at least the usual one.

The values of a study's history: effects of runs, levels of several runs, and each comparison's way through them.

Each comparison of a study through its runs: where it stands, when it changed, whether the newest run is worse.

Runs are held together only where they are on the same hosts and ask the same of a comparison: each such group has its
own changes and levels, and the newest run is held against its own group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

from loadbook.core.metrics import Direction
from loadbook.stats.results import Interval, RowKind, VerdictKind
from loadbook.stats.sequential import t_quantile
from loadbook.stats.tests import FloatArray, effect_from_log


@dataclass(frozen=True)
class EffectLevel:
    """Logs of ratios: the mean of `runs` runs, its standard error, and the standard deviation between runs.

    `scale` multiplies the variance that the runs' own errors and `between` give a run. Of one run the error is its own.
    """

    runs: int
    mean: float
    error: float
    sd_between_runs: float
    scale: float

    def interval(self, level: float = 0.95) -> Interval:
        """Return the interval of the mean (Student's t; of a single run the normal one)."""
        from scipy.special import ndtri, stdtrit

        p = (1 + level) / 2
        half = float(stdtrit(self.runs - 1, p) if self.runs > 1 else ndtri(p)) * self.error
        return self.mean - half, self.mean + half

    def prediction_error(self, error: float) -> float:
        """Return the standard error of the difference between another run, of this error of its own, and the mean."""
        return math.sqrt(self.scale * (error**2 + self.sd_between_runs**2) + self.error**2)


def estimate_level(logs: Sequence[tuple[float, float]]) -> EffectLevel:
    """Return the level of runs: the log of each one's ratio with its standard error (> 0)."""
    y, errors = np.array(logs, float).T
    if len(y) == 1:
        return EffectLevel(1, float(y[0]), float(errors[0]), 0.0, 1.0)
    between = sd_between_runs(y, errors)
    share = 1 / (errors**2 + between**2)
    mean = float(share @ y / share.sum())
    scale = float(share @ (y - mean) ** 2) / (len(y) - 1)
    scale = scale if scale > 1e-12 else 1.0  # runs that are exactly alike: no more is known than each said of itself
    return EffectLevel(len(y), mean, math.sqrt(scale / share.sum()), between, scale)


def sd_between_runs(values: FloatArray, errors: FloatArray) -> float:
    """Return the standard deviation between runs, beyond what their own errors explain."""
    from statsmodels.stats.meta_analysis import combine_effects

    unit = float(np.median(errors))  # statsmodels stops at absolute tolerances
    with np.errstate(divide="ignore", invalid="ignore"):  # its figures of heterogeneity, of runs that are all alike
        return unit * math.sqrt(combine_effects(values / unit, (errors / unit) ** 2, method_re="iterated").tau2)


MIN_SEGMENT_RUNS = 3  # runs of a level: one or two that lie apart are no change
MAX_RUNS = 1000  # runs that are searched, the newest: arcs grow by the square


def find_changes(logs: Sequence[tuple[float, float]], rate: float) -> list[int]:
    """Return the places from which on a new level holds, rising.

    `logs` has the log of each run's ratio with its standard error, in the order of time.
    """
    y, errors = np.array(logs, float).reshape(-1, 2).T
    first = max(0, len(y) - MAX_RUNS)
    edges = _prune_edges(y[first:], errors[first:], sorted(set(_segment_edges(y[first:], errors[first:], rate))), rate)
    return [first + edge for edge in edges]


def _segment_edges(y: FloatArray, errors: FloatArray, rate: float) -> list[int]:
    """Return the edges of the arc that stands out, and those found in each of the pieces that it leaves."""
    if len(y) < 2 * MIN_SEGMENT_RUNS:
        return []
    arcs = _arcs(len(y))
    p = _arc_p(y, _weights(y, errors), arcs)
    best = int(np.argmin(p))
    if p[best] * len(arcs) > rate:
        return []
    edges = [0, *(int(edge) for edge in arcs[best] if 0 < edge < len(y)), len(y)]
    inner = [
        start + inner_edge
        for start, end in pairwise(edges)
        for inner_edge in _segment_edges(y[start:end], errors[start:end], rate)
    ]
    return edges[1:-1] + inner


def _prune_edges(y: FloatArray, errors: FloatArray, edges_found: list[int], rate: float) -> list[int]:
    """Take back, the weakest first, what the runs up to the neighbouring changes do not show."""
    while edges_found:
        edges = [0, *edges_found, len(y)]
        p = [_cut_p(y[a:c], errors[a:c], b - a) for a, b, c in zip(edges, edges[1:], edges[2:], strict=False)]
        weakest = int(np.argmax(p))
        if p[weakest] <= rate:
            break
        edges_found = edges_found[:weakest] + edges_found[weakest + 1 :]
    return edges_found


def _cut_p(y: FloatArray, errors: FloatArray, cut: int) -> float:
    return float(_arc_p(y, _weights(y, errors), np.array([[0, cut]]))[0])


def _arcs(runs: int) -> NDArray[np.integer]:
    """Return start and end of every arc; what it leaves on either side is nothing or long enough for a level."""
    starts, ends = np.triu_indices(runs + 1, MIN_SEGMENT_RUNS)
    sides = [(side == 0) | (side >= MIN_SEGMENT_RUNS) for side in (starts, runs - ends)]
    return np.column_stack([starts, ends])[sides[0] & sides[1] & (ends - starts < runs)]


def _weights(y: FloatArray, errors: FloatArray) -> FloatArray:
    return np.asarray(1 / (errors**2 + sd_between_runs(y, errors) ** 2))


def _arc_p(y: FloatArray, weights: FloatArray, arcs: NDArray[np.integer]) -> FloatArray:
    """Return the p-value of each arc against the rest, of an F test with 1 and n - 2 degrees of freedom."""
    total_weight = weights.sum()
    centred = y - weights @ y / total_weight
    sums, shares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (weights * centred, weights))
    inside = shares[arcs[:, 1]] - shares[arcs[:, 0]]
    explained = (sums[arcs[:, 1]] - sums[arcs[:, 0]]) ** 2 * total_weight / (inside * (total_weight - inside))
    residual = np.maximum(weights @ centred**2 - explained, 1e-12 * len(y))
    return np.asarray(fdtrc(1, len(y) - 2, explained / residual * (len(y) - 2)))


LogEffect = tuple[float, float, int]  # log of the ratio, its standard error, blocks
MIN_PAST_RUNS = 4  # earlier runs: with fewer, hardly anything could be found
NIGHTS_PER_YEAR = 365


@dataclass(frozen=True)
class Alarm:
    """What the past lets expect of the newest run, as ratios minus 1: `expected`, and `limit` at worst.

    `raised` where `effect` is worse than that. `power` is the probability with which a true worsening by `margin`
    would have been found. `rate` is this comparison's own share of false alarms.
    """

    effect: float
    expected: float
    limit: float
    past_runs: int
    raised: bool
    rate: float
    margin: float
    power: float


def assess_newest(
    past: Sequence[LogEffect], newest: LogEffect, *, better: Direction, rate: float, margin: float
) -> Alarm | None:
    """Hold the newest run against its past; None where that is too short.

    Parameters
    ----------
    past, newest : what each run told.
    rate : the share of false alarms of this one comparison.
    margin : ratio minus 1, as the study declares it.
    """
    if len(past) < MIN_PAST_RUNS:
        return None
    from scipy.special import stdtr, stdtrit

    past_level = estimate_level([(log, error) for log, error, _ in past])
    error = past_level.prediction_error(max(newest[1], _usual_error(past, newest[2])))
    sign, degrees_of_freedom = (1 if better == "higher" else -1), len(past) - 1
    quantile = float(stdtrit(degrees_of_freedom, 1 - rate))
    limit = past_level.mean - sign * quantile * error
    return Alarm(
        effect=math.expm1(newest[0]),
        expected=math.expm1(past_level.mean),
        limit=math.expm1(limit),
        past_runs=len(past),
        raised=sign * (newest[0] - limit) < 0,
        rate=rate,
        margin=margin,
        power=float(stdtr(degrees_of_freedom, math.log1p(margin) / error - quantile)),
    )


def _usual_error(past: Sequence[LogEffect], blocks: int) -> float:
    """Return the standard error that a run of so many blocks usually has, by those before it."""
    return math.sqrt(sum(error**2 * count for _, error, count in past) / len(past) / blocks)


def false_alarms_per_year(rate: float) -> float:
    """Return how many false alarms a year of nightly runs has at this rate per run."""
    return NIGHTS_PER_YEAR * rate


ALARM_RATE = 0.01  # of runs, in any of a study's comparisons
CHANGE_RATE = 0.01  # of histories without a change, in any of a study's comparisons
_MIN_EFFECT = -1 + 1e-15


@dataclass(frozen=True)
class RunEffect:
    """One comparison in one run: ratios minus 1. `asked` says what was asked of it, in parts that have a name.

    `reason` says why it does not count, None where it does; `level` is that of the interval.
    """

    treatment: str
    label: str
    kind: RowKind
    verdict: VerdictKind
    effect: float | None
    interval: Interval | None
    level: float
    blocks: int
    reason: str | None = None
    passed: bool | None = None
    asked: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> tuple[float, float] | None:
        """The log of the ratio and its standard error, as the run's interval tells it; None where there is none."""
        if self.effect is None or self.interval is None or self.blocks < 2:
            return None
        estimate, low, high = (math.log1p(max(v, _MIN_EFFECT)) for v in (self.effect, *self.interval))
        error = (high - low) / 2 / t_quantile((1 + self.level) / 2, self.blocks)
        return (estimate, error) if error > 0 else None


@dataclass(frozen=True)
class RunSummary:
    """A run of the study: its start (epoch seconds), its hosts (0 for the first that were met, 1, ...), its effects.

    `excluded_reason` says why nothing of it counts, "" where it does; such a run may have no effects.
    """

    run: str
    started: float
    hosts: int
    effects: tuple[RunEffect, ...] = ()
    excluded_reason: str = ""


@dataclass(frozen=True)
class EffectPoint:
    """One run of a comparison; `excluded_reason` says why it does not count, "" where it does."""

    run: str
    started: float
    hosts: int
    effect: RunEffect
    excluded_reason: str = ""

    @property
    def is_included(self) -> bool:
        """Whether changes and alarms rest on it."""
        return not self.excluded_reason


@dataclass(frozen=True)
class Segment:
    """Runs of one comparison between changes, as places among its points, and the level at which they stand.

    `start_kind` says why here: "first" of its hosts and its question, or "changed".
    """

    indices: tuple[int, ...]
    hosts: int
    level: EffectLevel
    start_kind: str

    @property
    def effect(self) -> float:
        """The mean, as a ratio minus 1."""
        return effect_from_log(self.level.mean)

    @property
    def interval(self) -> Interval:
        """Its 95 % interval."""
        low, high = self.level.interval()
        return effect_from_log(low), effect_from_log(high)


@dataclass(frozen=True)
class EffectSeries:
    """One comparison through all runs, oldest first; `no_alarm_reason` says why there is no alarm to ask for."""

    treatment: str
    label: str
    kind: RowKind
    points: tuple[EffectPoint, ...]
    segments: tuple[Segment, ...]
    question_changes: Mapping[int, tuple[str, ...]]
    alarm: Alarm | None = None
    no_alarm_reason: str = ""

    @property
    def changed_segments(self) -> tuple[Segment, ...]:
        """The stretches that begin with a change, oldest first."""
        return tuple(sorted((s for s in self.segments if s.start_kind == "changed"), key=lambda s: s.indices[0]))

    def previous_segment(self, segment: Segment) -> Segment:
        """Return the stretch whose end the beginning of this one is."""
        index = self.segments.index(segment)
        return self.segments[index - 1]


@dataclass(frozen=True)
class StudyHistory:
    """A study through its runs, oldest first, on one metric; what cannot be read is among the runs, left out."""

    study: str
    metric: str
    better: Direction
    margin: float
    runs: tuple[RunSummary, ...]
    series: tuple[EffectSeries, ...]
    alarm_rate: float = ALARM_RATE
    change_rate: float = CHANGE_RATE

    @property
    def treatments(self) -> tuple[EffectSeries, ...]:
        """The comparisons that are no checks of the laboratory."""
        return tuple(series for series in self.series if series.kind == "treatment")

    @property
    def assessed(self) -> tuple[EffectSeries, ...]:
        """The comparisons of which the newest run was held against its past."""
        return tuple(series for series in self.series if series.alarm)

    @property
    def alarms(self) -> tuple[EffectSeries, ...]:
        """The comparisons in which the newest run is worse than its past."""
        return tuple(series for series in self.series if series.alarm and series.alarm.raised)

    @property
    def included_runs(self) -> int:
        """How many runs have an effect that counts."""
        return len({point.run for series in self.series for point in series.points if point.is_included})


def effect_series(
    runs: Sequence[RunSummary],
    better: Direction,
    margin: float,
    rate: float = ALARM_RATE,
    change_rate: float = CHANGE_RATE,
) -> tuple[EffectSeries, ...]:
    """Return every comparison of these runs, oldest run first: treatments before checks, as they first appeared.

    `rate` and `change_rate` are those of all comparisons together.
    """
    points_by_name = {name: _effect_points(runs, name) for name in _comparison_names(runs)}
    groups = {name: _comparable_groups(points) for name, points in points_by_name.items()}
    searchable_groups = sum(
        len(indices) >= 2 * MIN_SEGMENT_RUNS for groups_of_name in groups.values() for indices in groups_of_name
    )
    segments = {
        name: tuple(
            s for indices in groups[name] for s in _segments(points, indices, change_rate / max(searchable_groups, 1))
        )
        for name, points in points_by_name.items()
    }
    assessed = [name for name, points in points_by_name.items() if _is_assessable(points, runs)]
    return tuple(
        _series_of(points, segments[name], runs, better, margin, rate / max(len(assessed), 1))
        for name, points in points_by_name.items()
    )


def _comparison_names(runs: Sequence[RunSummary]) -> list[str]:
    """Return the comparisons in the order of the newest run that has them, treatments first."""
    newest_first = [effect for run in reversed(runs) for effect in run.effects]
    kinds = ("treatment", "aa", "control")
    return list(dict.fromkeys(e.treatment for kind in kinds for e in newest_first if e.kind == kind))


def _effect_points(runs: Sequence[RunSummary], name: str) -> tuple[EffectPoint, ...]:
    return tuple(
        EffectPoint(run.run, run.started, run.hosts, effect, _exclusion_reason(run, effect))
        for run in runs
        for effect in run.effects
        if effect.treatment == name
    )


def _exclusion_reason(run: RunSummary, effect: RunEffect) -> str:
    return run.excluded_reason or effect.reason or ("" if effect.log else "it has no interval of any width")


def _comparable_groups(points: Sequence[EffectPoint]) -> list[list[int]]:
    """Return the places of points that count, by hosts and question, in the order in which they begin."""
    groups: dict[tuple[int, tuple[tuple[str, str], ...]], list[int]] = {}
    for index, point in enumerate(points):
        if point.is_included:
            groups.setdefault((point.hosts, tuple(sorted(point.effect.asked.items()))), []).append(index)
    return list(groups.values())


def _segments(points: Sequence[EffectPoint], indices: Sequence[int], rate: float) -> Iterable[Segment]:
    logs = _log_effects(points, indices)
    edges = [0, *find_changes(logs, rate), len(indices)]
    for number, (start, end) in enumerate(pairwise(edges)):
        segment_indices = tuple(indices[start:end])
        begins = "changed" if number else "first"
        yield Segment(segment_indices, points[segment_indices[0]].hosts, estimate_level(logs[start:end]), begins)


def _log_effects(points: Sequence[EffectPoint], indices: Iterable[int]) -> list[tuple[float, float]]:
    return [log for index in indices if (log := points[index].effect.log)]


def _is_assessable(points: Sequence[EffectPoint], runs: Sequence[RunSummary]) -> bool:
    last = points[-1]
    return last.effect.kind == "treatment" and last.run == runs[-1].run and last.is_included


def _series_of(
    points: tuple[EffectPoint, ...], segments: tuple[Segment, ...], runs: Sequence[RunSummary], better: Direction,
    margin: float, rate: float,
) -> EffectSeries:  # fmt: skip
    last = points[-1].effect
    series = EffectSeries(last.treatment, last.label, last.kind, points, segments, _question_changes(points))
    if last.kind != "treatment":
        return series
    if not _is_assessable(points, runs):
        return replace(series, no_alarm_reason=_no_alarm_reason(points, runs))
    past = _past_indices(points)
    log_effects = [(*log, points[index].effect.blocks) for index in (*past, -1) if (log := points[index].effect.log)]
    alarm_result = assess_newest(log_effects[:-1], log_effects[-1], better=better, rate=rate, margin=margin)
    if alarm_result is None:
        return replace(series, no_alarm_reason=_too_few_text(len(past)))
    return replace(
        series, alarm=alarm_result, segments=_without_newest(series, past) if alarm_result.raised else segments
    )


def _without_newest(series: EffectSeries, past: Sequence[int]) -> tuple[Segment, ...]:
    """Return the stretches; the level that the newest run has fallen from is that of the runs before it."""
    past_level = estimate_level(_log_effects(series.points, past))
    return tuple(
        replace(segment, indices=tuple(past), level=past_level) if segment.indices[:-1] == tuple(past) else segment
        for segment in series.segments
    )


def _past_indices(points: Sequence[EffectPoint]) -> list[int]:
    """Return the places of the runs that the newest is held against: of its group, since the last change before it.

    The newest run takes no part in finding that change.
    """
    earlier = next(group for group in _comparable_groups(points) if group[-1] == len(points) - 1)[:-1]
    if not earlier:
        return []
    edges = find_changes(_log_effects(points, earlier), CHANGE_RATE)
    return earlier[edges[-1] if edges else 0 :]


def _no_alarm_reason(points: Sequence[EffectPoint], runs: Sequence[RunSummary]) -> str:
    last, newest_run = points[-1], runs[-1]
    if last.run != newest_run.run:
        if newest_run.excluded_reason:
            return f"the newest run is left out: {newest_run.excluded_reason}"
        return "the newest run does not have it"
    return f"the newest run does not count: {last.excluded_reason}"


def _too_few_text(past: int) -> str:
    existing = "there is none" if past == 0 else f"there {'is' if past == 1 else 'are'} {past}"
    more = MIN_PAST_RUNS - past
    will_do = f"{more} more run{'' if more == 1 else 's'} will do"
    return f"it takes {MIN_PAST_RUNS} earlier runs of its level, hosts and question; {existing}, {will_do}"


def _question_changes(points: Sequence[EffectPoint]) -> dict[int, tuple[str, ...]]:
    """Return the places at which another question is asked than before on these hosts, and in which of its parts."""
    changes, last = {}, dict[int, EffectPoint]()
    for index, point in enumerate(points):
        current = point.effect.asked
        previous = last.get(point.hosts, point).effect.asked
        parts = [part for part in dict.fromkeys([*previous, *current]) if previous.get(part) != current.get(part)]
        if parts:
            changes[index] = tuple(parts)
        last[point.hosts] = point
    return changes
