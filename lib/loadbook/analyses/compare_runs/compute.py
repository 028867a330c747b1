"""May two runs be compared? What forbids it, which treatments are not one thing in both, and what remains in doubt.

Two runs of one study: how far each effect moved, with an interval, and what that allows to be said.

What is compared are the two effects, never two words and never whether two intervals overlap. Each run brings its own
estimate and interval: half of it over Student's t is a standard error, one per side where it is lopsided, and
Welch-Satterthwaite gives the freedom of the difference. A run that could stop early has a wider interval; it counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from scipy.special import stdtr, stdtrit

from loadbook.core.errors import UsageError
from loadbook.stats.paired_tests import adjust_holm, effect_from_log
from loadbook.stats.results import Analysis, AnalysisRow, Comparison, Interval
from loadbook.stats.sequential import smallest_block_count, t_quantile
from loadbook.stats.text import added_blocks_text, margin_text
from loadbook.stats.verdict import FORECAST_POWER, MAX_FORECAST_BLOCKS, excludes_zero, is_within_margin
from loadbook.store.conditions import LOAD_KEYS, ConditionChange, RunConditions, treatment_contrast
from loadbook.store.tables import RunData

MAX_LISTED = 3


class Caveat(NamedTuple):
    """Why a comparison of two runs may mislead although it can be made."""

    title: str
    text: str


def check_comparable(older: RunConditions, newer: RunConditions, metric: str = "", baseline: str = "") -> None:
    """Raise UsageError where the two runs hold no two answers to one question.

    Parameters
    ----------
    metric, baseline : asked for by the user; empty: what the studies declare, which must then agree.
    """
    if older.study.name != newer.study.name:
        names = [f"run {_run_id(run)} is of study {run.study.name!r}" for run in (older, newer)]
        raise UsageError(", ".join(names), "only runs of one study are compared")
    if _measured_run_id(older) == _measured_run_id(newer):
        raise _same_measurements_error(older, newer, f"those of run {_measured_run_id(older)}")
    _check_declared_alike(older, newer, "metric", metric)
    _check_declared_alike(older, newer, "baseline", baseline)
    if not set(older.plan["treatments"]) & set(newer.plan["treatments"]):
        raise UsageError(
            f"runs {_run_id(older)} and {_run_id(newer)} have no treatment in common",
            f"{_shortened_list(older.plan['treatments'])} there, {_shortened_list(newer.plan['treatments'])} here",
        )


def _check_declared_alike(older: RunConditions, newer: RunConditions, name: str, requested: str) -> None:
    older_value, newer_value = (getattr(run.study, name) for run in (older, newer))
    if not requested and older_value != newer_value:
        raise UsageError(
            (
                f"the study's {name} was {older_value} in run {_run_id(older)} and is {newer_value} in run "
                f"{_run_id(newer)}"
            ),
            f"say which one is meant: -p {name}={newer_value}",
        )


def _run_id(run: RunConditions) -> str:
    return str(run.run_record.run)


def _measured_run_id(run: RunConditions) -> str:
    """Return the run whose measurements these are."""
    return run.run_record.replay or _run_id(run)


def _same_measurements_error(older: RunConditions, newer: RunConditions, evidence: str) -> UsageError:
    hint = "a replay or a copy measures nothing anew; compare with a run of another time"
    return UsageError(
        f"runs {_run_id(older)} and {_run_id(newer)} hold the very measurements of one run: {evidence}", hint
    )


def check_not_copies(older: RunData, newer: RunData) -> None:
    """Raise UsageError where every measured value of two runs is equal: one is a copy, whatever it is called."""
    columns = ["trial", "metric", "statistic", "value"]
    values = [run.measurements.loc[run.measurements["driver"] == "*", columns] for run in (older, newer)]
    ordered = [frame.sort_values(columns, ignore_index=True) for frame in values]
    if len(ordered[0]) and ordered[0].equals(ordered[1]):
        raise _same_measurements_error(older, newer, f"all {len(ordered[0]):,} values are equal")


def _shortened_list(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_LISTED]) + (", ..." if len(names) > MAX_LISTED else "")


def changed_treatments(older: RunConditions, newer: RunConditions, baseline: str = "") -> dict[str, str]:
    """Return treatment -> why it is not one thing in both runs: other things set it apart from its baseline."""
    reason_by_treatment = {}
    for name in newer.plan["treatments"]:
        if name in older.plan["treatments"]:
            older_settings, newer_settings = (_settings_against_baseline(run, name, baseline) for run in (older, newer))
            if older_settings != newer_settings:
                reason_by_treatment[name] = (
                    f"it is another treatment: {_describe_difference(older_settings, newer_settings)}"
                )
    return reason_by_treatment


def _settings_against_baseline(run: RunConditions, name: str, baseline: str) -> dict[str, tuple[Any, Any]]:
    return treatment_contrast(run.study, name, baseline or run.study.baseline_of(name))


def _describe_difference(
    older_settings: Mapping[str, tuple[Any, Any]], newer_settings: Mapping[str, tuple[Any, Any]]
) -> str:
    """Return by what a treatment differs from its baseline in one run and not so in the other."""
    names = [
        name
        for name in dict.fromkeys([*older_settings, *newer_settings])
        if older_settings.get(name) != newer_settings.get(name)
    ]
    differences = [
        (
            f"{name} {_change_text(older_settings.get(name))} in the older run, "
            f"{_change_text(newer_settings.get(name))} in the newer"
        )
        for name in names[:MAX_LISTED]
    ]
    return "; ".join(differences) + (f"; {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else "")


def _change_text(values: tuple[Any, Any] | None) -> str:
    return f"{values[0]} → {values[1]}" if values else "as the baseline"


def comparison_caveats(older: RunConditions, newer: RunConditions, changes: Sequence[ConditionChange]) -> list[Caveat]:
    """Return what a reader must know before a change is believed; that two runs cannot tell why comes last."""
    caveats = [*_run_caveats("The older run", older), *_run_caveats("The newer run", newer)]
    margins = [run.study.margin for run in (older, newer)]
    if margins[0] != margins[1]:
        declared = f"the older run declared {margin_text(margins[0])}, the newer {margin_text(margins[1])}"
        caveats.append(Caveat("Other margin", f"{declared}; judged by the smaller"))
    load_changes = [change for change in changes if change.category == "study" and change.name.startswith(LOAD_KEYS)]
    if load_changes:
        names = _shortened_list([change.name for change in load_changes])
        caveats.append(Caveat("Other load or set-up", f"{names}: an effect may be another one there"))
    return [*caveats, Caveat("Two runs tell that, not why", CAUSE_UNKNOWN)]


CAUSE_UNKNOWN = (
    "an interval knows how blocks scatter within each run, not how effects scatter from run to run; whatever changed "
    "between the runs, recorded or not, moved with them. Going back and measuring once more would tell"
)


def _run_caveats(subject: str, run: RunConditions) -> Iterator[Caveat]:
    run_record = run.run_record
    if run_record.replay:
        yield Caveat(f"{subject} is a replay", f"of run {run_record.replay}: nothing was measured anew")
    if run_record.imported:
        yield Caveat(
            f"{subject} was imported", "loadbook measured nothing, and what nobody recorded cannot have changed"
        )
    elif run_record.ended is None:
        yield Caveat(f"{subject} did not end", "its last blocks are missing, and its hosts were not looked at again")
    if run.plan.get("added"):
        yield Caveat(f"{subject} is exploratory", f"{added_blocks_text(run.plan['added'])}, which favours differences")


ChangeKind = Literal["changed", "undecided", "agrees", "not compared"]
CHANGE_KINDS: tuple[ChangeKind, ...] = (
    "changed",
    "undecided",
    "agrees",
    "not compared",
)  # the order in which rows are shown
OLDER_TEXT, NEWER_TEXT = "the older run", "the newer run"


@dataclass(frozen=True)
class EffectChange:
    """How far one effect moved: (1 + newer) / (1 + older) - 1, and bounds of it.

    `ci90` decides whether the runs agree, `ci95` and `p` whether the effect changed, `p_adjusted` in a family of so
    many. `blocks` and `sd_logs` (standard deviation of a block's log ratio, from its run's interval) are those of both
    runs, the older first.
    """

    effect: float
    ci95: Interval
    ci90: Interval
    p: float
    blocks: tuple[int, int]
    sd_logs: tuple[float, float]
    level: float = 0.95
    p_adjusted: float | None = None
    family_size: int = 1


@dataclass(frozen=True)
class EffectPair:
    """One comparison of the two runs; a row is None where its run does not have the treatment.

    `blocks_needed` is how many blocks each of two such runs needs to decide what is undecided (None: more than 60).
    """

    older: AnalysisRow | None
    newer: AnalysisRow | None
    kind: ChangeKind = "not compared"
    change: EffectChange | None = None
    reason: str | None = None
    blocks_needed: int | None = None

    @property
    def row(self) -> AnalysisRow:
        """The newer run's row, or the older one's where it alone has the treatment."""
        row = self.newer or self.older
        assert row is not None
        return row

    @property
    def sides(self) -> tuple[AnalysisRow | None, AnalysisRow | None]:
        """Both rows, the older first."""
        return self.older, self.newer


@dataclass(frozen=True)
class RunComparison:
    """What became of each comparison, in the order in which it is shown: by word and size, checks last.

    `margin` is the smaller of the two that were declared.
    """

    older: Analysis
    newer: Analysis
    margin: float
    level: float
    rows: tuple[EffectPair, ...]

    @property
    def treatments(self) -> tuple[EffectPair, ...]:
        """The rows that are no checks of the laboratory."""
        return tuple(row for row in self.rows if row.row.kind == "treatment")


def compare_analyses(
    older: Analysis, newer: Analysis, changed_treatments: Mapping[str, str], level: float = 0.95
) -> RunComparison:
    """Compare the effects that two runs found.

    Parameters
    ----------
    older, newer : analyses of one metric and statistic.
    changed_treatments : treatment -> why its two effects are of different things, whatever the numbers say.
    level : confidence of the intervals of differences.
    """
    margin = min(older.margin, newer.margin)
    rows = [
        _effect_pair(older_row, newer_row, changed_treatments, level)
        for older_row, newer_row in _paired_rows(older, newer)
    ]
    rows = [_with_kind(row, margin) for row in _with_adjusted_p(rows)]
    in_sequence = newer.contrasts == "adjacent"
    return RunComparison(older, newer, margin, level, tuple(sorted(rows, key=lambda row: _sort_key(row, in_sequence))))


def _paired_rows(older: Analysis, newer: Analysis) -> Iterable[tuple[AnalysisRow | None, AnalysisRow | None]]:
    older_rows, newer_rows = (
        {r.treatment: r for r in analysis.rows if r.kind != "baseline"} for analysis in (older, newer)
    )
    return ((older_rows.get(name), newer_rows.get(name)) for name in dict.fromkeys([*newer_rows, *older_rows]))


def _effect_pair(
    older: AnalysisRow | None, newer: AnalysisRow | None, changed_treatments: Mapping[str, str], level: float
) -> EffectPair:
    if older is None or newer is None:
        return EffectPair(older, newer, reason=f"only {NEWER_TEXT if older is None else OLDER_TEXT} has it")
    reason = (
        changed_treatments.get(newer.treatment)
        or _other_baseline_reason(older, newer)
        or _invalid_verdict_reason(older, OLDER_TEXT)
        or _invalid_verdict_reason(newer, NEWER_TEXT)
    )
    if reason or older.verdict is None or newer.verdict is None:
        return EffectPair(older, newer, reason=reason)
    return EffectPair(older, newer, change=effect_change(older.verdict.comparison, newer.verdict.comparison, level))


def _other_baseline_reason(older: AnalysisRow, newer: AnalysisRow) -> str | None:
    bases = [row.verdict.comparison.baseline for row in (older, newer) if row.verdict]
    if len(set(bases)) < 2:
        return None
    return f"it was held against {bases[0]} in {OLDER_TEXT}, against {bases[1]} in {NEWER_TEXT}"


def _invalid_verdict_reason(row: AnalysisRow, run: str) -> str | None:
    if row.verdict is None:
        return f"{run} has no value of it"
    return f"{run}: {row.verdict.reason}" if row.verdict.kind == "invalid" else None


def effect_change(older: Comparison, newer: Comparison, level: float = 0.95) -> EffectChange | None:
    """Return how far an effect moved from one run to another; None where a run has no interval."""
    sides = [_log_effect_and_errors(comparison, level) for comparison in (older, newer)]
    if sides[0] is None or sides[1] is None:
        return None
    (one, low_1, high_1), (other, low_2, high_2) = sides[0], sides[1]
    blocks, log_change = (older.blocks, newer.blocks), other - one
    below, above = math.hypot(low_2, high_1), math.hypot(high_2, low_1)
    errors = ((low_1 + high_1) / 2, (low_2 + high_2) / 2)
    df = _welch_df(errors, blocks)
    return EffectChange(
        effect=effect_from_log(log_change),
        ci95=_change_interval(log_change, below, above, df, (1 + level) / 2),
        ci90=_change_interval(log_change, below, above, df, level),
        p=_change_p(log_change, below if log_change > 0 else above, df),
        blocks=blocks,
        sd_logs=(errors[0] * math.sqrt(blocks[0]), errors[1] * math.sqrt(blocks[1])),
        level=level,
    )


def _log_effect_and_errors(comparison: Comparison, level: float) -> tuple[float, float, float] | None:
    """Return a log effect and its standard errors below and above it, as its run's interval tells them."""
    if comparison.effect is None or comparison.ci95 is None or comparison.blocks < 2:
        return None
    estimate, low, high = (math.log1p(max(value, -1 + 1e-15)) for value in (comparison.effect, *comparison.ci95))
    t = t_quantile((1 + level) / 2, comparison.blocks)
    return estimate, (estimate - low) / t, (high - estimate) / t


def _welch_df(errors: tuple[float, float], blocks: tuple[int, int]) -> float:
    """Return the degrees of freedom of a difference (Welch-Satterthwaite)."""
    squares = [error**2 for error in errors]
    denominator = sum(s**2 / (n - 1) for s, n in zip(squares, blocks, strict=True))
    return sum(squares) ** 2 / denominator if denominator > 0 else float(sum(blocks) - 2)


def _change_interval(log_change: float, below: float, above: float, df: float, quantile: float) -> Interval:
    t = float(stdtrit(df, quantile))
    return effect_from_log(log_change - t * below), effect_from_log(log_change + t * above)


def _change_p(log_change: float, error: float, df: float) -> float:
    if log_change == 0:
        return 1.0
    return float(2 * stdtr(df, -abs(log_change) / error)) if error > 0 else 0.0


def _with_adjusted_p(rows: Sequence[EffectPair]) -> list[EffectPair]:
    """Adjust the p-values of the treatments for each other (Holm); checks of the laboratory stand alone."""
    family = [row for row in rows if row.change and row.row.kind == "treatment"]
    if len(family) < 2:
        return list(rows)
    adjusted = dict(
        zip(
            (row.row.treatment for row in family),
            adjust_holm([row.change.p for row in family if row.change]),
            strict=True,
        )
    )
    return [
        replace(row, change=replace(row.change, p_adjusted=adjusted[row.row.treatment], family_size=len(family)))
        if row.change and row.row.treatment in adjusted
        else row
        for row in rows
    ]


def _with_kind(row: EffectPair, margin: float) -> EffectPair:
    if row.change is None:
        return row if row.reason else replace(row, reason="a run has too few blocks for an interval")
    if is_changed(row.change):
        return replace(row, kind="changed")
    if is_within_margin(row.change.ci90, margin):
        return replace(row, kind="agrees")
    return replace(row, kind="undecided", blocks_needed=blocks_needed_per_run(row.change, margin))


def is_changed(change: EffectChange) -> bool:
    """Tell whether a change is shown, after allowing for all comparisons of the family."""
    p = change.p if change.p_adjusted is None else change.p_adjusted
    return excludes_zero(change.ci95) and p < 1 - change.level


def blocks_needed_per_run(change: EffectChange, margin: float) -> int | None:
    """Return how many blocks each run needs to show this change, or to exclude one beyond the margin; at most 60.

    Whichever comes first, at the noise of these runs and with the power of every forecast: both runs are measured anew.
    """
    log_change, alpha = abs(math.log1p(change.effect)), (1 - change.level) / change.family_size
    squares = [sd**2 for sd in change.sd_logs]
    sd, squares_of_variances = math.sqrt(sum(squares)), sum(s**2 for s in squares)
    if squares_of_variances == 0:
        return None
    df_factor = sum(squares) ** 2 / squares_of_variances  # 2 for equal scatter, 1 where one run has all of it

    def t(p: float, blocks: int) -> float:
        return float(stdtrit((blocks - 1) * df_factor, p))

    detect = smallest_block_count(
        lambda n: t(1 - alpha / 2, n) + t(FORECAST_POWER, n), log_change, sd, MAX_FORECAST_BLOCKS
    )
    exclude = smallest_block_count(
        lambda n: t(change.level, n) + t(FORECAST_POWER, n), math.log1p(margin) - log_change, sd, MAX_FORECAST_BLOCKS
    )
    needed = min((n for n in (detect, exclude) if n is not None), default=None)
    return None if needed is None else max(needed, min(change.blocks) + 1)


def _sort_key(row: EffectPair, in_sequence: bool) -> tuple[int, int, float]:
    kind_index = ("treatment", "aa", "control").index(row.row.kind)
    if kind_index or in_sequence:
        return kind_index, 0, 0.0
    return kind_index, CHANGE_KINDS.index(row.kind), -abs(math.log1p(row.change.effect)) if row.change else 0.0
