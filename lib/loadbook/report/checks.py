"""Harness checks and diagnostics of a run, as texts and tables.

Harness checks (A/A arm, positive control, valid trials, doubts) are shown beside the verdict. Diagnostics cover the
order of trials (drift, carry-over, outliers), latency percentiles and the distribution of all requests, rates within
trials with and without warm-up, and the recorded conditions in which two runs differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import get_metric
from loadbook.core.units import format_p_value, format_percent, format_rounded, join_words, pluralize
from loadbook.core.validity_rules import lower_first
from loadbook.modes.plain.page import OrderCheck, page_of
from loadbook.report import palette, sections
from loadbook.report.blocks import CHECK_STATES
from loadbook.report.nodes import DASH, Column, Division, Link, Strong, Table, TextOnly
from loadbook.report.sections import ValidityMessage, fact_name, fact_text
from loadbook.stats import diagnostics
from loadbook.stats.compare import MAX_INCOMPLETE_SHARE
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.steady_state import (
    MIN_SERIES_S,
    RateSeries,
    RateTrend,
    rate_series,
    rate_trends,
    settled_rate,
)
from loadbook.stats.text import row_texts
from loadbook.store.run_record import BOOT_ID_FACT, MACHINE_FACT, ConditionChange
from loadbook.store.tables import RunData, trials_telling

if TYPE_CHECKING:
    import pandas as pd

    from loadbook.request_logs.summary import ExceedanceCurve

CHECK_TITLES = {
    "aa": {
        "passed": "A/A arm passed",
        "failed": "A/A arm failed",
        "inconclusive": "A/A arm wider than the margin",
        "unchecked": "A/A arm not checked",
    },
    "control": {
        "passed": "Known effect found",
        "failed": "Known effect not found",
        "inconclusive": "Known effect: too noisy to tell",
        "unchecked": "Known effect not checked",
    },
}
CHECK_MARKS = {"passed": ("", "✓"), "failed": ("failed", palette.FAILED_GLYPH)}
MISSING_CHECK_TEXTS = {
    "aa": ("No A/A arm", "the baseline was not compared with itself"),
    "control": ("No positive control", "no known effect was tried"),
}


@dataclass(frozen=True)
class HarnessCheck:
    """One cell of the strip of harness checks that is shown at the top of a page.

    `css_class` is "" if nothing is wrong, else "doubt" or "failed"; `link` is the target of a link on the text.
    """

    css_class: str
    glyph: str
    title: str
    text: str
    link: str | None = None


def harness_checks(data: RunData, analysis: Analysis, more: Sequence[ValidityMessage] = ()) -> list[HarnessCheck]:
    """Return four cells: A/A arm, positive control, valid trials, doubts (those in `more` are added).

    A run that certifies rates compares nothing, and has no cells on A/A arm and positive control.
    """
    is_compared = get_metric(analysis.metric).is_compared
    arms = [_arm_check(data, analysis, kind) for kind in ("aa", "control") if is_compared]
    return [*arms, _trials_check(data), _doubts_check(data, analysis, more)]


def check_strip(cells: Sequence[HarnessCheck]) -> Division:
    """Return harness checks side by side; in plain text one line each."""
    return Division(
        *(
            Division(
                Strong(f"{cell.glyph} {cell.title}"),
                TextOnly(": "),
                Link(cell.text, cell.link) if cell.link else cell.text,
                css=cell.css_class,
            )
            for cell in cells
        ),
        css="trust",
    )


def _arm_check(data: RunData, analysis: Analysis, kind: str) -> HarnessCheck:
    rows = analysis.of_kind(kind)  # type: ignore[arg-type]
    if not rows:
        return HarnessCheck("doubt", "!", *MISSING_CHECK_TEXTS[kind])
    row = min(rows, key=lambda r: CHECK_STATES.index(r.check_state or "unchecked"))  # the worst of several conditions
    texts, state = row_texts(row), row.check_state or "unchecked"
    text = "could not be compared" if texts.change == DASH else f"{texts.change} ({texts.interval})"
    if texts.change != DASH and kind == "aa":
        text += _borderline_note(row, data.study.validity.aa_p)
    elif texts.change != DASH:
        known = f"built in {format_percent(row.expected_effect, 0)}, " if row.expected_effect is not None else ""
        text = f"{known}measured {text}"
    if len(rows) > 1 and not row.passed:
        text = f"{row.label} {text}"
    return HarnessCheck(*CHECK_MARKS.get(state, ("doubt", "!")), CHECK_TITLES[kind][state], text)


def _borderline_note(row: AnalysisRow, limit: float) -> str:
    """Return a note if an A/A arm passed although its interval excludes zero (1 in 20 does by chance), else ""."""
    comparison = row.verdict.comparison if row.verdict else None
    if not row.passed or comparison is None or comparison.ci95 is None or comparison.ci95[0] <= 0 <= comparison.ci95[1]:
        return ""
    return f"; p {row_texts(row).p}, which fails below {limit:g}"


def _trials_check(data: RunData) -> HarnessCheck:
    number, reasons = sections.trial_counts(data), sections.exclusion_counts(data)
    left = number["planned"] - number["valid"]
    why = ", ".join(f"{n} " * (len(reasons) > 1) + lower_first(reason) for reason, n in reasons[:2])
    more = f" and {len(reasons) - 2} other reasons" if len(reasons) > 2 else ""
    order = "random order"
    if source := data.run_record.imported:
        order = "in the order of their times" if source.timed else "order as it was imported"
    text = f"{left} excluded: {why}{more}; " if left else "none excluded; "
    text += page_of(data.study).order_text(data.study, order)
    css, glyph = ("", "✓") if left <= MAX_INCOMPLETE_SHARE * number["planned"] else ("doubt", "!")
    return HarnessCheck(css, glyph, f"{number['valid']} of {number['planned']} trials count", text)


def _doubts_check(data: RunData, analysis: Analysis, more: Sequence[ValidityMessage]) -> HarnessCheck:
    messages = [*sections.doubt_messages(data), *comparison_notes(analysis), *rounding_doubts(data, analysis), *more]
    doubts = sorted((d for d in messages if d.level == "doubt"), key=lambda d: d.name != "stopping")
    unchecked = [d for d in messages if d.level == "unchecked"]
    if not doubts and not unchecked:
        return HarnessCheck("", "✓", "No doubts", "every validity rule was checked")
    title = pluralize(len(doubts), "doubt") if doubts else f"{len(unchecked)} not checked"
    named = [d.title for d in doubts or unchecked]
    text = "; ".join(named[:2]) + (f"; {len(named) - 2} more" if len(named) > 2 else "")
    return HarnessCheck("doubt", "!", title, text, "#doubts")


def comparison_notes(analysis: Analysis) -> list[ValidityMessage]:
    """Return notes and doubts about the comparisons, failed positive controls, and a missing A/A arm."""
    messages: list[ValidityMessage] = []
    if added := analysis.stopping_state.added_blocks:
        why = "which the study did not declare: going on after a look finds differences where there are none"
        blocks = f"{added} of {analysis.stopping_state.blocks} blocks were added when the results could be seen"
        text = f"{blocks}, {why}; a new run would confirm"
        messages.append(ValidityMessage("stopping", "Exploratory", "doubt", 0, text))
    flagged: dict[str, list[str]] = {}
    for row in analysis.rows:
        for flag in row.verdict.comparison.flags if row.verdict else ():
            flagged.setdefault(flag, []).append(row.label)
    for flag, labels in flagged.items():
        level = "doubt" if flag.startswith(diagnostics.FLAG_PREFIX) else "note"  # may not hold in the next run
        messages.append(ValidityMessage("comparison", f"Effect of {join_words(labels)}", level, 0, flag))
    unseen = "a change that is known to matter was not found, so smaller ones may be missed: more blocks, less noise"
    for row in analysis.of_kind("control"):
        if row.passed is False:
            messages.append(ValidityMessage("control", "Known effect not found", "doubt", 0, unseen))
    if not analysis.of_kind("aa") and get_metric(analysis.metric).is_compared:
        text = "nothing in this run shows that the laboratory calls the same configuration the same"
        messages.append(ValidityMessage("no-aa", "No A/A arm", "doubt", 0, text))
    return messages


def rounding_doubts(data: RunData, analysis: Analysis) -> list[ValidityMessage]:
    """Return the doubts on effects of imported results whose printed steps are coarse beside their intervals."""
    if not data.run_record.imported:
        return []
    steps, messages = diagnostics.rounding_steps(data, analysis.metric, analysis.statistic), []
    for row in analysis.rows:
        if row.verdict is None or (interval := row.verdict.comparison.ci95) is None:
            continue
        step = max(steps.get(name, 0.0) for name in (row.treatment, row.verdict.comparison.baseline))
        if diagnostics.is_step_coarse(step, interval):
            size = format_percent(step, 1, signed=False)
            text = f"values are rounded to steps of {size}, more than half of the interval's half-width: it may be off"
            messages.append(ValidityMessage("rounding", f"Effect of {row.label}", "doubt", 0, text))
    return messages


TRIALS_PER_CHANCE_OUTLIER = 40  # about one in so many trials is marked as an outlier by chance
MAX_ADJUSTED = 4
MIN_SHIFT_SHARE = 0.25  # of the margin; a carry-over that moves no comparison by as much is a note


def order_sentences(
    check: OrderCheck, analysis: Analysis, values: pd.DataFrame, labels: Mapping[str, str]
) -> list[str]:
    """Return the sentences below the order plot: drift, carry-over, outliers, what the mode tests besides.

    `values` are `RunData.values` of the metric, `labels` maps treatments to display names.
    """
    carry_over_text = check.carried.sentence(analysis.metric, labels) if check.carried else check.not_tested
    drift = diagnostics.describe_drift(values).sentence
    return [*filter(None, [drift, carry_over_text, _outlier_text(values), check.sentence])]


def order_notes(
    check: OrderCheck, analysis: Analysis, values: pd.DataFrame, labels: Mapping[str, str]
) -> list[ValidityMessage]:
    """Return messages about the order of trials: on carry-over if detected, on outliers, and those of the mode.

    Carry-over is a doubt, or a note if it moves every effect by less than a quarter of the margin. `values` and
    `labels` are as in `order_sentences`.
    """
    messages, carried = [], check.carried
    if carried and carried.is_significant:
        matters = carried.largest_shift > MIN_SHIFT_SHARE * math.log1p(analysis.margin)
        effects = carried.adjusted_effects
        rows = [row.treatment for row in analysis.of_kind("treatment") if row.treatment in effects]
        adjusted = ", ".join(f"{labels.get(n, n)} {format_percent(effects[n])}" for n in rows[:MAX_ADJUSTED])
        text = f"With what ran before taken out (a regression, without a verdict): {adjusted}." if adjusted else ""
        text = f"{carried.sentence(analysis.metric, labels)} {text}"
        messages.append(ValidityMessage("carry-over", "Carry-over", "doubt" if matters else "note", 0, text))
    if text := _outlier_text(values):
        messages.append(ValidityMessage("outliers", "Outliers", "note", 0, text))
    return [*messages, *check.notes]


def check_order(data: RunData, analysis: Analysis, values: pd.DataFrame) -> OrderCheck:
    """Test a run for carry-over, and for what its mode (such as interleaved) tests besides.

    The A/A arm is counted as the treatment that it repeats. `values` are `RunData.values` of the metric.
    """
    same = {name: original for name in data.study.treatments if (original := data.study.repeated_treatment(name))}
    return page_of(data.study).check_order(data, analysis, values, same)


def _outlier_text(values: pd.DataFrame) -> str:
    """Return the sentence on the number of outliers; "" if there are none."""
    outliers, counted = len(diagnostics.find_outliers(values)), int(values["valid"].sum())
    if not outliers:
        return ""
    lie = "trial lies" if outliers == 1 else "trials lie"
    chance = f"ringed; about 1 in {TRIALS_PER_CHANCE_OUTLIER} does by chance"
    text = f"{outliers} of {counted} {lie} far from the others of the same treatment ({chance})."
    return f"{text} They count: nothing is left out for its value."


CLOSED_LOOP_NOTE = (
    "At fixed concurrency (closed loop): while the service stalls, nothing is sent, so a stall counts once where many "
    "users would have met it. A claim about p99 needs a tool at a fixed rate (wrk2). Rate and p50 are one piece of "
    "evidence, not two: with a fixed number of connections, rate times mean latency is that number."
)


def measurable_values(data: RunData, metric: str, statistic: str) -> pd.DataFrame:
    """Return `RunData.values` of a percentile; NaN for trials with too few requests above the percentile."""
    values = data.values(metric, statistic)
    short = diagnostics.short_tails(data, values["trial"], metric, statistic)
    return values.assign(value=values["value"].mask(short))


def tail_note(data: RunData, metric: str, statistics: Sequence[str], left_out: Sequence[str]) -> str:
    """Return the note on the limits of percentiles; `left_out` are percentiles that no trial can measure.

    `statistics` are the percentiles shown, the highest last.
    """
    counted = data.trials[data.trials["valid"]]
    sentences = [text] if (text := page_of(data.study).blocks_for_times_text(data.plan)) else []
    sentences += [CLOSED_LOOP_NOTE] if "closed" in set(counted["load_model"]) else []
    if left_out:
        least = data.study.validity.min_tail_requests
        needed = [f"{p} needs {diagnostics.requests_needed(p, least):,} requests in a trial" for p in left_out]
        sentences.append(f"Not measurable: {join_words(needed)}.")
    requests = data.values("requests")["value"].dropna()
    tail = diagnostics.tail_requests(metric, statistics[-1], requests) if statistics else None
    if tail is not None and len(tail) and tail.median() < diagnostics.GOOD_TAIL_REQUESTS:
        sentences.append(
            f"{statistics[-1]} rests on about {tail.median():,.0f} requests beyond it in a trial; "
            f"from {diagnostics.GOOD_TAIL_REQUESTS} on it scatters little."
        )
    return " ".join(sentences)


def treatment_curves(data: RunData) -> dict[str, ExceedanceCurve]:
    """Return treatment -> latency distribution of the requests in its valid trials, if they have request logs."""
    paths: dict[str, list[Path]] = {}
    telling = set(trials_telling(data.trials, "latency")["trial"])
    for trial, treatment in _counted_trials(data).items():
        if trial not in telling:
            continue
        path, own = data.paths.request_logs / f"{trial}.parquet", paths.setdefault(treatment, [])
        own += [path] if path.is_file() else []
    if not any(paths.values()):
        return {}
    from loadbook.request_logs.summary import exceedance_curve  # imports pyarrow

    curves = {name: exceedance_curve(own) for name, own in paths.items() if own}
    return {name: curve for name, curve in curves.items() if curve is not None}


def _counted_trials(data: RunData) -> dict[str, str]:
    """Return valid trial -> its treatment."""
    counted = data.trials[data.trials["valid"]]
    return dict(zip(counted["trial"], counted["treatment"], strict=True))


STATIONARITY_HEADERS = ("Trials", "Seconds", "Moved after 10 s", "p", "Rate, all of it", "Rate, settled", "Left out, s")
STATIONARITY_METRIC = "requests_per_s"


def stationarity_table(data: RunData, labels: Mapping[str, str]) -> Table:
    """Return a table by treatment: change of the rate within trials, and rate with and without the warm-up.

    Both rates are medians over trials of the mean over whole seconds; verdicts use the rate that the tool printed.
    """
    counted = _counted_trials(data)
    series, moved = rate_series(data.samples, STATIONARITY_METRIC), rate_trends(data.samples, counted)
    rows = []
    for name in dict.fromkeys(counted.values()):
        own = [series[t] for t, treatment in counted.items() if treatment == name and t in series]
        rows.append([labels[name], *_stationarity_cells([one for one in own if len(one.values)], moved[name])])
    columns = [Column("Treatment"), *(Column(head, True) for head in STATIONARITY_HEADERS), Column("Says")]
    return Table("Within trials", columns, rows)


def stationarity_note(data: RunData) -> str:
    """Return the note on how the table of rates within trials is computed, or the reason why there is no table."""
    known = rate_series(data.samples, STATIONARITY_METRIC)
    if not known and (data.samples["metric"] == "overrun").any():
        return "Not known: of slices no rates per second are told."
    if not known:
        return f"Not known: {' and '.join(data.tools)} reported no rates per second."
    return (
        "Rates per second, first and last part of a second left out. Moved: Mann-Kendall at p < 0.01 on means over "
        "5 s of all trials together, after the first 10 s. Settled: without those 10 s and what MSER-5 finds to be "
        f"warm-up. Trials of less than {MIN_SERIES_S:g} s are not judged. No verdict uses the settled rate."
    )


def _stationarity_cells(own: Sequence[RateSeries], trend: RateTrend | None) -> list[str]:
    if not own:
        return [DASH] * len(STATIONARITY_HEADERS) + ["not checked: no rates"]
    steady = [one for one in map(settled_rate, own) if one is not None]
    whole = format_rounded(median(float(series.values.mean()) for series in own))
    number, length = str(len(own)), f"{min(series.duration_s for series in own):g}"
    if trend is None or not steady:
        return [number, length, DASH, DASH, whole, DASH, DASH, "not checked: too short"]
    settled = format_rounded(median(one.rate_per_s for one in steady))
    return [
        number, length, format_percent(trend.change), format_p_value(trend.p), whole, settled,
        f"{median(one.transient_s for one in steady):g}", "still moving" if trend.moving else "steady",
    ]  # fmt: skip


CONDITION_NAMES = {MACHINE_FACT: "machine", BOOT_ID_FACT: "boot", "facts of the host": "facts of the host"}
PRIVATE_CONDITIONS = {MACHINE_FACT: ("one machine", "another machine"), BOOT_ID_FACT: ("one boot", "booted anew")}
ABSENT_TEXTS = {
    "treatment": "not in it", "host": "no such host", "version": "not there", "run": "no", "study": "not set",
}  # fmt: skip
MAX_PLACES = 3


def change_name(change: ConditionChange, labels: Mapping[str, str] | None = None) -> str:
    """Return place and name of a changed condition: "web: kernel"; `labels` maps treatments to display names."""
    if change.category == "treatment":
        treatment, colon, factor = change.name.partition(": ")
        return f"treatment {(labels or {}).get(treatment, treatment)}{colon}{factor}"
    text = CONDITION_NAMES.get(change.name) or (fact_name(change.name) if change.category == "fact" else change.name)
    places, more = list(change.host_roles), len(change.host_roles) - MAX_PLACES
    if more > 0:
        places = [*places[:MAX_PLACES], f"{more} more"]
    return f"{join_words(places)}: {text}" if places else text


def change_values(change: ConditionChange) -> tuple[str, str]:
    """Return the old and the new value of a changed condition as texts."""
    if change.name in PRIVATE_CONDITIONS and change.category == "fact":
        return PRIVATE_CONDITIONS[change.name]
    return _change_value_text(change, change.before), _change_value_text(change, change.after)


def _change_value_text(change: ConditionChange, value: Any) -> str:
    if value is None:
        return ABSENT_TEXTS.get(change.category, "not known")
    if isinstance(value, bool):
        return "on" if value else "off"
    text = fact_text(change.name, value) if change.category == "fact" else str(value)
    return "not known" if text == DASH else text


def describe_change(change: ConditionChange, labels: Mapping[str, str] | None = None) -> str:
    """Return a changed condition as text: "web: kernel 6.1 → 6.8"."""
    older, newer = change_values(change)
    return f"{change_name(change, labels)} {older} → {newer}"


def changes_table(changes: Sequence[ConditionChange], labels: Mapping[str, str]) -> Table:
    """Return the table of changed conditions, one row each, in the given order."""
    rows = [[change_name(change, labels), *change_values(change)] for change in changes]
    return Table("Changes", [Column("Condition"), Column("Older run", wrap=True), Column("Newer run", wrap=True)], rows)
