"""Comparison of two runs of one study: whether it is possible, the change of each effect, sentences about changes.

The effects of the two runs are compared, not their verdicts and not whether their intervals overlap. The standard error
of an effect is half of its run's interval divided by Student's t, one per side if the interval is asymmetric;
Welch-Satterthwaite gives the degrees of freedom of the difference. A run that could stop early has a wider interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from scipy.special import stdtr, stdtrit

from loadbook.core import units
from loadbook.core.errors import UsageError
from loadbook.core.units import format_percent, format_percent_range, join_words, shorten_list
from loadbook.stats import text as words
from loadbook.stats.headline import neutral_headline
from loadbook.stats.paired_tests import adjust_holm, effect_from_log
from loadbook.stats.results import Analysis, AnalysisRow, Comparison, Interval
from loadbook.stats.sequential import smallest_block_count, t_quantile
from loadbook.stats.text import ABSENT, MAX_DECIMALS, comparison_texts, confidence_text, margin_text
from loadbook.stats.verdict import FORECAST_POWER, MAX_FORECAST_BLOCKS, excludes_zero, is_within_margin
from loadbook.store.run_record import LOAD_KEYS, ConditionChange, RunConditions, treatment_contrast
from loadbook.store.tables import RunData, compared_execution, metric_keys

if TYPE_CHECKING:
    import pandas as pd

MAX_NAMES = 3


def check_comparable(older: RunConditions, newer: RunConditions, metric: str = "", baseline: str = "") -> None:
    """Raise UsageError if the two runs do not answer the same question.

    Parameters
    ----------
    metric, baseline : chosen by the user; if empty, those of the two studies, which must then agree.
    """
    one, other = older.run_record.run, newer.run_record.run
    if older.study.name != newer.study.name:
        studies = f"run {one} is of study {older.study.name!r}, run {other} is of study {newer.study.name!r}"
        raise UsageError(studies, "only runs of one study are compared")
    measured = [run.run_record.replay or run.run_record.run for run in (older, newer)]
    if measured[0] == measured[1]:
        raise _same_measurements_error(older, newer, f"those of run {measured[0]}")
    executions = [compared_execution(run, metric.partition(" ")[0] or run.study.metric) for run in (older, newer)]
    if executions[0] != executions[1]:
        problem = f"run {one} has {executions[0]} trials, run {other} has {executions[1]} ones"
        reason = "the two ways of measuring can differ by more than the configurations do"
        hint = (
            f'run the study again with execution = "{executions[0]}", or compare with a run of {executions[1]} trials'
        )
        raise UsageError(f"{problem}: {reason}", hint)
    settings = (
        ("metric", metric, older.study.metric, newer.study.metric),
        ("baseline", baseline, older.study.baseline, newer.study.baseline),
    )
    for name, chosen, before, after in settings:
        if not chosen and before != after:
            problem = f"the study's {name} was {before} in run {one} and is {after} in run {other}"
            raise UsageError(problem, f"say which one is meant: -p {name}={after}")
    if not set(older.plan.treatments) & set(newer.plan.treatments):
        there, here = (", ".join(shorten_list(run.plan.treatments, MAX_NAMES)) for run in (older, newer))
        raise UsageError(f"runs {one} and {other} have no treatment in common", f"{there} there, {here} here")


def _same_measurements_error(older: RunConditions, newer: RunConditions, evidence: str) -> UsageError:
    return UsageError(
        f"runs {older.run_record.run} and {newer.run_record.run} hold the very measurements of one run: {evidence}",
        "a replay or a copy measures nothing anew; compare with a run of another time",
    )


def check_not_copies(older: RunData, newer: RunData) -> None:
    """Raise UsageError if all measured values of two runs are equal, as one run is then a copy of the other."""
    columns = ["trial", "metric", "statistic", "value"]
    values = [run.measurements.loc[run.measurements["driver"] == "*", columns] for run in (older, newer)]
    ordered = [frame.sort_values(columns, ignore_index=True) for frame in values]
    if len(ordered[0]) and ordered[0].equals(ordered[1]):
        raise _same_measurements_error(older, newer, f"all {len(ordered[0]):,} values are equal")


def changed_treatments(older: RunConditions, newer: RunConditions, baseline: str = "") -> dict[str, str]:
    """Return treatment -> why it is not the same in both runs: settings whose contrast to the baseline changed.

    Treatments that are the same, or that one run lacks, are absent. `baseline`: empty for that of each study.
    """
    reasons = {}
    for name in (name for name in newer.plan.treatments if name in older.plan.treatments):
        studies = (older.study, newer.study)
        before, after = (treatment_contrast(s, name, baseline or s.baseline_of(name)) for s in studies)
        differences = [
            f"{key} {_change_text(before.get(key))} in the older run, {_change_text(after.get(key))} in the newer"
            for key in dict.fromkeys([*before, *after])
            if before.get(key) != after.get(key)
        ]
        if differences:
            reasons[name] = f"it is another treatment: {'; '.join(shorten_list(differences, MAX_NAMES))}"
    return reasons


def _change_text(values: tuple[Any, Any] | None) -> str:
    return f"{values[0]} → {values[1]}" if values else "as the baseline"


def comparison_caveats(
    older: RunConditions, newer: RunConditions, changes: Sequence[ConditionChange]
) -> Iterator[tuple[str, str]]:
    """Yield (title, text) of reasons to doubt any change; `changes` are the recorded conditions that differ."""
    for subject, run in (("The older run", older), ("The newer run", newer)):
        record = run.run_record
        if record.replay:
            yield f"{subject} is a replay", f"of run {record.replay}: nothing was measured anew"
        if record.imported:
            text = "loadbook measured nothing, and what nobody recorded cannot have changed"
            yield f"{subject} was imported", text
        elif record.ended is None:
            yield f"{subject} did not end", "its last blocks are missing, and its hosts were not checked again"
        if run.plan.added:
            added = words.added_blocks_text(run.plan.added)
            yield f"{subject} is exploratory", f"{added}, which favours differences"
    if older.study.margin != newer.study.margin:
        before, after = (margin_text(run.study.margin) for run in (older, newer))
        yield "Other margin", f"the older run declared {before}, the newer {after}; judged by the smaller"
    load_changes = [change for change in changes if change.category == "study" and change.name.startswith(LOAD_KEYS)]
    if load_changes:
        names = ", ".join(shorten_list([change.name for change in load_changes], MAX_NAMES))
        yield "Other load or set-up", f"{names}: an effect may be another one there"
    yield (
        "A difference between two runs has no cause",
        (
            "an interval contains how blocks scatter within each run, not how effects scatter between runs. This "
            "comparison shows that effects differ, not why. A third run under the old conditions would show more"
        ),
    )


ChangeKind = Literal["changed", "undecided", "agrees", "not compared"]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)  # in the order in which rows are listed


@dataclass(frozen=True)
class EffectChange:
    """The change of one effect from the older to the newer run, (1 + newer) / (1 + older) - 1, with its intervals.

    `ci90` decides whether the runs agree, `ci95` and `p` whether the effect changed. The confidence of `ci95` is
    `level`, that of `ci90` 2 x `level` - 1. `p_adjusted` is p adjusted for the `family_size` comparisons (None: not
    adjusted). `blocks` and `sd_logs` (standard deviation of a block's log ratio, from the run's interval) have one
    value per run, the older first.
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
    """One treatment in the two runs; `older` or `newer` is None if that run does not have the treatment.

    If it is not compared, `change` is None and `reason` is why. `blocks_needed`: blocks that each of two further runs
    needs to decide (None: more than 60, or already decided).
    """

    older: AnalysisRow | None
    newer: AnalysisRow | None
    kind: ChangeKind = "not compared"
    change: EffectChange | None = None
    reason: str | None = None
    blocks_needed: int | None = None

    @property
    def row(self) -> AnalysisRow:
        """The row of the newer run, or of the older run if only that one has the treatment."""
        row = self.newer or self.older
        assert row is not None
        return row

    @property
    def sides(self) -> tuple[AnalysisRow | None, AnalysisRow | None]:
        """The rows of both runs, the older first."""
        return self.older, self.newer


@dataclass(frozen=True)
class RunComparison:
    """All effects of two runs compared, ordered by kind and size of the change, harness checks last.

    `margin` (a ratio minus 1) is the smaller of the margins that the two runs declared; `level` is the confidence.
    """

    older: Analysis
    newer: Analysis
    margin: float
    level: float
    rows: tuple[EffectPair, ...]

    @property
    def treatments(self) -> tuple[EffectPair, ...]:
        """The rows without the A/A arm and the positive control."""
        return tuple(row for row in self.rows if row.row.kind == "treatment")

    @property
    def neutral_headline(self) -> str:
        """The headline if the harness checks of one of the runs rule out verdicts, "" otherwise."""
        for which, analysis in (("newer", self.newer), ("older", self.older)):
            if text := neutral_headline(analysis, run=f" ({which} run)"):
                return text
        return ""


def compare_analyses(
    older: Analysis, newer: Analysis, changed_treatments: Mapping[str, str], level: float = 0.95
) -> RunComparison:
    """Compare the effects found in two runs.

    Parameters
    ----------
    older, newer : analyses of the same metric and statistic.
    changed_treatments : treatment -> why it is not the same in both runs; its effects are not compared.
    level : confidence of the intervals of differences, which is also that of the intervals in both analyses.
    """
    margin = min(older.margin, newer.margin)
    older_rows, newer_rows = ({r.treatment: r for r in a.rows if r.kind != "baseline"} for a in (older, newer))
    names = dict.fromkeys([*newer_rows, *older_rows])
    pairs = [_effect_pair(older_rows.get(n), newer_rows.get(n), changed_treatments, level) for n in names]
    # p-values of treatments are adjusted together (Holm), those of the A/A arm and the positive control are not
    family = [pair.change for pair in pairs if pair.change and pair.row.kind == "treatment"]
    adjusted = iter(adjust_holm([change.p for change in family]) if len(family) > 1 else ())
    for k, pair in enumerate(pairs):
        change = pair.change
        if change is None:
            continue
        if len(family) > 1 and pair.row.kind == "treatment":
            change = replace(change, p_adjusted=next(adjusted), family_size=len(family))
        kind: ChangeKind = "agrees" if is_within_margin(change.ci90, margin) else "undecided"
        kind = "changed" if is_changed(change) else kind
        needed = blocks_needed_per_run(change, margin) if kind == "undecided" else None
        pairs[k] = replace(pair, change=change, kind=kind, blocks_needed=needed)

    def order(pair: EffectPair) -> tuple[int, int, float]:
        kind = ("treatment", "aa", "control").index(pair.row.kind)
        if kind or newer.contrasts == "adjacent":  # these keep the order of the study
            return kind, 0, 0.0
        size = abs(math.log1p(pair.change.effect)) if pair.change else 0.0
        return kind, CHANGE_KINDS.index(pair.kind), -size

    return RunComparison(older, newer, margin, level, tuple(sorted(pairs, key=order)))


def _effect_pair(
    older: AnalysisRow | None, newer: AnalysisRow | None, changed_treatments: Mapping[str, str], level: float
) -> EffectPair:
    if older is None or newer is None:
        return EffectPair(older, newer, reason=f"only the {'newer' if older is None else 'older'} run has it")
    reason = changed_treatments.get(newer.treatment)
    baselines = [row.verdict.comparison.baseline for row in (older, newer) if row.verdict]
    if not reason and len(set(baselines)) > 1:
        reason = f"its baseline was {baselines[0]} in the older run, {baselines[1]} in the newer run"
    for row, which in ((older, "older"), (newer, "newer")):
        if not reason and row.verdict is None:
            reason = f"the {which} run has no value of it"
        if not reason and row.verdict and row.verdict.kind == "invalid":
            reason = f"the {which} run: {row.verdict.reason}"
    if reason or older.verdict is None or newer.verdict is None:
        return EffectPair(older, newer, reason=reason)
    change = effect_change(older.verdict.comparison, newer.verdict.comparison, level)
    return EffectPair(
        older, newer, change=change, reason=None if change else "a run has too few blocks for an interval"
    )


def effect_change(older: Comparison, newer: Comparison, level: float = 0.95) -> EffectChange | None:
    """Return the change of an effect from one run to the other; None if either run has no interval.

    `level` is the confidence of both runs' intervals, and of the result.
    """
    sides = [_log_effect_and_errors(comparison, level) for comparison in (older, newer)]
    if sides[0] is None or sides[1] is None:
        return None
    (one, low_1, high_1), (other, low_2, high_2) = sides[0], sides[1]
    blocks, log_change = (older.blocks, newer.blocks), other - one
    below, above = math.hypot(low_2, high_1), math.hypot(high_2, low_1)
    errors = ((low_1 + high_1) / 2, (low_2 + high_2) / 2)
    squares = [error**2 for error in errors]
    denominator = sum(s**2 / (n - 1) for s, n in zip(squares, blocks, strict=True))
    df = sum(squares) ** 2 / denominator if denominator > 0 else float(sum(blocks) - 2)  # Welch-Satterthwaite

    def interval(quantile: float) -> Interval:
        t = float(stdtrit(df, quantile))
        return effect_from_log(log_change - t * below), effect_from_log(log_change + t * above)

    error = below if log_change > 0 else above
    p = float(2 * stdtr(df, -abs(log_change) / error)) if error > 0 else 0.0
    return EffectChange(
        effect=effect_from_log(log_change),
        ci95=interval((1 + level) / 2),
        ci90=interval(level),
        p=p if log_change else 1.0,
        blocks=blocks,
        sd_logs=(errors[0] * math.sqrt(blocks[0]), errors[1] * math.sqrt(blocks[1])),
        level=level,
    )


def _log_effect_and_errors(comparison: Comparison, level: float) -> tuple[float, float, float] | None:
    """Return (log effect, standard error below it, standard error above it), derived from its run's interval."""
    if comparison.effect is None or comparison.ci95 is None or comparison.blocks < 2:
        return None
    estimate, low, high = (math.log1p(max(value, -1 + 1e-15)) for value in (comparison.effect, *comparison.ci95))
    t = t_quantile((1 + level) / 2, comparison.blocks)
    return estimate, (estimate - low) / t, (high - estimate) / t


def is_changed(change: EffectChange) -> bool:
    """Return whether a change is significant, by p adjusted for all treatments if there are several."""
    p = change.p if change.p_adjusted is None else change.p_adjusted
    return excludes_zero(change.ci95) and p < 1 - change.level


def blocks_needed_per_run(change: EffectChange, margin: float) -> int | None:
    """Return how many blocks each of two new runs needs to show this change or to exclude one beyond the margin.

    It is the smaller of both numbers, at this noise and 80 % power; None above 60. `margin` is a ratio minus 1.
    """
    log_change, alpha = abs(math.log1p(change.effect)), (1 - change.level) / change.family_size
    squares = [sd**2 for sd in change.sd_logs]
    sd, squares_of_variances = math.sqrt(sum(squares)), sum(s**2 for s in squares)
    if squares_of_variances == 0:
        return None
    df_factor = sum(squares) ** 2 / squares_of_variances  # 2 if both runs scatter equally, 1 if only one run scatters

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


def change_frame(comparison: RunComparison) -> pd.DataFrame:
    """Return the numbers of a comparison of two runs, not rounded: one row per treatment and harness check.

    Columns `older` and `newer` are the effects in both runs, `moved` is the change between them. Effects, `moved` and
    all bounds (of the intervals of `confidence`) are ratios minus 1. `low` and `high` are those of `moved`. `word` is
    the kind of change, `against` the baseline. `method` is the test that gave the effects; "older / newer" if it
    differs between the runs.
    """
    import pandas as pd

    newer = comparison.newer
    keys = metric_keys(newer.metric, newer.statistic)
    return pd.DataFrame([_change_numbers(pair, comparison.level) | keys for pair in comparison.rows])


def _change_numbers(pair: EffectPair, level: float) -> dict[str, Any]:
    change, row = pair.change, pair.row
    low, high = change.ci95 if change else (None, None)
    older, newer = (side.verdict.comparison if side and side.verdict else None for side in pair.sides)
    against = next((side.baseline for side in (newer, older) if side), None)
    methods = dict.fromkeys(side.method or ABSENT for side in (older, newer) if side) if change else ()
    return {
        "treatment": row.treatment, "kind": row.kind, "word": pair.kind, "against": against,
        "older": older.effect if older else None, "newer": newer.effect if newer else None,
        "moved": change.effect if change else None, "low": low, "high": high,
        "p": change.p if change else None, "p_adjusted": change.p_adjusted if change else None,
        "blocks_needed": pair.blocks_needed, "reason": pair.reason,
        "confidence": level, "method": " / ".join(methods) or None,
    } | {
        f"{which}_{end}": side.ci95[k] if side and side.ci95 else None
        for which, side in (("older", older), ("newer", newer)) for k, end in enumerate(("low", "high"))
    }  # fmt: skip


class EffectChangeTexts(NamedTuple):
    """Numbers of one effect in two runs as texts; an en dash if a number does not apply.

    `older` and `newer` (each with its interval), `change` and its `interval` are in percent, without percent signs.
    """

    older: str
    newer: str
    change: str
    interval: str
    blocks: str
    p: str


def effect_change_texts(row: EffectPair) -> EffectChangeTexts:
    """Return the texts of one effect: each run's value with its interval, and the change between the runs."""
    older, newer = (_effect_with_interval(side) for side in row.sides)
    blocks = " / ".join(str(s.verdict.comparison.blocks) if s and s.verdict else ABSENT for s in row.sides)
    if row.change is None:
        return EffectChangeTexts(older, newer, ABSENT, ABSENT, blocks, ABSENT)
    digits, change = change_decimals(row.change), row.change
    p = change.p if change.p_adjusted is None else change.p_adjusted
    moved, interval = (
        format_percent(change.effect, digits, unit=""), format_percent_range(change.ci95, digits, unit="")
    )  # fmt: skip
    return EffectChangeTexts(older, newer, moved, interval, blocks, units.format_p_value(p))


def effect_text(side: AnalysisRow | None) -> str:
    """Return the effect of one run as text with its sign; an en dash if the run has no effect to report."""
    return comparison_texts(side.verdict).change if side and side.verdict else ABSENT


def _effect_with_interval(side: AnalysisRow | None) -> str:
    if side is None or side.verdict is None:
        return ABSENT
    texts = comparison_texts(side.verdict)
    return texts.change if texts.change == ABSENT else f"{texts.change_number} ({texts.interval_number})"


def change_decimals(change: EffectChange) -> int:
    """Return the number of decimals for a change in percent; an interval that excludes 0 is not rounded to 0."""
    low, high = change.ci95
    digits = min(units.decimals_for_half_width((high - low) / 2 * 100), MAX_DECIMALS)
    while excludes_zero(change.ci95) and digits < MAX_DECIMALS and round(min(abs(low), abs(high)) * 100, digits) == 0:
        digits += 1
    return digits


def effect_change_phrase(row: EffectPair, margin: float) -> str:
    """Return the text that follows the treatment's name: kind of change, size of the change, both effects."""
    if row.change is None:
        return f": not compared: {row.reason}."
    change, digits = row.change, change_decimals(row.change)
    effects_text = (
        f"{effect_text(row.older)} in the older run, {effect_text(row.newer)} in the newer, "
        f"{change.blocks[0]} and {change.blocks[1]} blocks"
    )
    range_text = format_percent_range(change.ci95, digits)
    if row.kind == "agrees":
        level = confidence_text(change.level, one_sided=True)
        interval = f"{level} interval {format_percent_range(change.ci90, digits)}"
        return f": agrees: it moved by no more than {margin_text(margin)} ({interval}): {effects_text}."
    if row.kind == "undecided":
        alone = f" That differs if looked at alone, but not among {change.family_size} comparisons."
        note = alone if excludes_zero(change.ci95) else ""
        needed = f"About {row.blocks_needed} blocks in each of two such runs would decide."
        if row.blocks_needed is None:
            needed = f"Not reachable at this noise (over {MAX_FORECAST_BLOCKS} blocks in each run)."
        return f": undecided: it moved by {range_text}: {effects_text}.{note} {needed}"
    size, bounds = format_percent(abs(change.effect), digits, signed=False), sorted(map(abs, change.ci95))
    interval = f"{confidence_text(change.level)} interval {format_percent_range(bounds, digits, signed=False)}"
    is_small = is_within_margin(change.ci90, margin)
    note = f" That is less than the {margin_text(margin)} that matters." if is_small else ""
    does = words.predicate(row.row.verdict.comparison.metric if row.row.verdict else "", change.effect)
    return f": changed: it {does} than it was, by {size} ({interval}): {effects_text}.{note}"


def headline(comparison: RunComparison) -> str:
    """Return the answer in one sentence: the effects that changed, or how many agree."""
    if comparison.neutral_headline:
        return comparison.neutral_headline
    compared = [row for row in comparison.treatments if row.change is not None]
    changed = [row.row.label for row in compared if row.kind == "changed"]
    number, margin = len(compared), margin_text(comparison.margin)
    if not compared:
        return "Nothing could be compared between the two runs."
    if changed and number == 1:
        return f"The effect of {changed[0]} changed."
    if changed:
        return f"{len(changed)} of {number} comparisons changed: {join_words(shorten_list(changed, MAX_NAMES))}."
    agree = sum(row.kind == "agrees" for row in compared)
    if agree == number:
        return f"The two runs agree within {margin}" + (f" in all {number} comparisons." if number > 1 else ".")
    if not agree:
        subject = f"{number} comparisons are" if number > 1 else f"the effect of {compared[0].row.label} is"
        return f"Neither a change nor agreement within {margin} is shown: {subject} undecided."
    undecided_text = f"{number - agree} {'is' if number - agree == 1 else 'are'} undecided"
    return f"No change is shown; {agree} of {number} comparisons agree within {margin}, {undecided_text}."


def supporting_text(comparison: RunComparison) -> str:
    """Return a sentence on the treatments that were not compared, by reason, the most frequent first; "" if none."""
    reasons: dict[str, list[str]] = {}
    for row in comparison.treatments:
        if row.change is None:
            reasons.setdefault(row.reason or "", []).append(row.row.label)
    by_frequency = sorted(reasons.items(), key=lambda item: -len(item[1]))
    parts = [f"{join_words(shorten_list(names, MAX_NAMES))} ({reason})" for reason, names in by_frequency]
    return f"Not compared: {'; '.join(parts)}." if parts else ""
