"""What would decide a run that left something open: the number of blocks of a new run, or a quieter host.

Blocks that are added to the same run after its results were seen make it exploratory, so a new run is named.
"""

from __future__ import annotations

from loadbook.core.units import format_expected_duration, pluralize
from loadbook.stats.exclusions import blocks_missing
from loadbook.stats.no_comparison import excluded_headline, is_compared
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import margin_text
from loadbook.stats.verdict import aa_margin, blocks_for_half_width

NOISE = (
    "more blocks would not decide at this noise: stop what else uses the hosts, or measure longer "
    "(duration_s in the study's [workload]) and run again"
)
NOISE_OF_IMPORTS = "more runs would not decide at this noise: longer ones, on hosts that do nothing else"


def next_step(analysis: Analysis, command: str | None) -> str:
    """Return the next step after a run, such as "a new run of 26 blocks would decide a: loadbook run x --blocks 26".

    `command` runs the study; None for imported results. Returns "" if nothing is open, if a check failed, and under a
    stopping rule, which plans its own blocks.
    """
    state = analysis.stopping_state
    if command is None and excluded_headline(analysis):
        return "replace the outputs that do not count (Which trials count?), and import all anew"
    if text := command and _after_exclusions(analysis, command):
        return text
    if not analysis.allows_headline or state.rule != "fixed" or state.pending_reason:
        return ""
    treatments = analysis.of_kind("treatment")
    undecided = [row for row in treatments if row.verdict and row.verdict.kind == "undecided"]
    if treatments and not undecided:
        return ""
    if analysis.wide_arms:
        wide, margin = analysis.wide_arms[0], aa_margin(analysis.margin, analysis.metric)
        more, what = blocks_for_half_width(wide, margin), f"narrow the A/A arm to ±{margin_text(margin)}"
        return _new_run(wide, more, what, command, analysis.block_s)
    if not undecided:
        return ""
    forecasts = [(row.verdict and row.verdict.forecast, row) for row in undecided]
    known = [(forecast.about, row) for forecast, row in forecasts if forecast and forecast.about]
    if not known:
        return NOISE if command else NOISE_OF_IMPORTS
    about, row = max(known, key=lambda each: each[0])
    if len(undecided) == 1:
        return _new_run(row, about, f"decide {row.label}", command, analysis.block_s)
    which = "all" if len(known) == len(undecided) else f"{len(known)} of {len(undecided)} undecided"
    return _new_run(row, about, f"decide {which}", command, analysis.block_s)


def _after_exclusions(analysis: Analysis, command: str) -> str:
    """Return the next step of a run with too few complete blocks, as trials do not count; "" for other runs."""
    if not excluded_headline(analysis) or analysis.stopping_state.rule != "fixed" or is_compared(analysis):
        return ""
    comparisons = [row.verdict.comparison for row in analysis.of_kind("treatment") if row.verdict]
    more = max(blocks_missing(each.blocks, each.excluded) for each in comparisons)
    remedy = analysis.exclusions.remedy if analysis.exclusions else ""
    blocks = f"{pluralize(more, 'more block')}: {command} --more {more}"
    if more >= analysis.planned_blocks:
        blocks = f"a new run: {command} --new"
    return f"{remedy}; then {blocks}" if remedy else blocks


def _new_run(row: AnalysisRow, more: int | None, what: str, command: str | None, block_s: float | None) -> str:
    if more is None or row.verdict is None:
        return NOISE if command else NOISE_OF_IMPORTS
    blocks = row.verdict.comparison.blocks + more
    if command is None:
        forecast, high = row.verdict.forecast, blocks
        if forecast and forecast.about == more and forecast.high:
            high = row.verdict.comparison.blocks + forecast.high
        number = f"{blocks} to {high} new runs" if high > blocks else pluralize(blocks, "new run")
        return f"{number} of each, imported without these, would probably {what} (added to these: exploratory)"
    time = f" (about {format_expected_duration(blocks * block_s)})" if block_s else ""
    return f"a new run of {pluralize(blocks, 'block')}{time} would probably {what}: {command} --blocks {blocks}"
