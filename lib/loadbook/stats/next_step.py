"""What would decide a run that left something open: the number of blocks of a new run, or a quieter host.

Blocks that are added to the same run after its results were seen make it exploratory, so a new run is named.
"""

from __future__ import annotations

from loadbook.core.metrics import get_metric
from loadbook.stats.results import Analysis, AnalysisRow
from loadbook.stats.text import margin_text
from loadbook.stats.verdict import blocks_for_half_width

NOISE = "more blocks would not decide at this noise: stop what else uses the hosts (loadbook doctor), or longer trials"


def next_step(analysis: Analysis, command: str) -> str:
    """Return the next step after a run, such as "a new run of 26 blocks would tell 2 %: loadbook run x --blocks 26".

    `command` runs the study. Returns "" if nothing is open, if a check failed, and under a stopping rule, which plans
    its own blocks.
    """
    state = analysis.stopping_state
    if not analysis.allows_headline or state.rule != "fixed" or state.pending_reason:
        return ""
    if analysis.resolution is not None:
        wide = max(_open_rows(analysis, "aa"), key=lambda row: row.half_width)
        margin = analysis.margin or get_metric(analysis.metric).margin
        return _new_run(wide, blocks_for_half_width(wide, margin), f"tell {margin_text(margin)}", command)
    rows = _open_rows(analysis, "treatment")
    if not rows:
        return ""
    forecasts = {row.treatment: row.verdict.forecast.about for row in rows if row.verdict and row.verdict.forecast}
    known = [(about, row) for row in rows if (about := forecasts.get(row.treatment))]
    if not known:
        return f"{NOISE}, or a wider margin" if analysis.margin else NOISE
    about, row = max(known, key=lambda one: one[0])
    which = row.label if len(rows) == 1 else f"{len(known)} of {len(rows)} undecided"
    return _new_run(row, about, f"decide {'all' if 1 < len(rows) == len(known) else which}", command)


def _open_rows(analysis: Analysis, kind: str) -> list[AnalysisRow]:
    """Return the wide A/A arms, or the undecided treatments."""
    rows = analysis.of_kind(kind)  # type: ignore[arg-type]
    if kind == "aa":
        return [row for row in rows if row.check_state == "inconclusive"]
    return [row for row in rows if row.verdict and row.verdict.kind == "undecided"]


def _new_run(row: AnalysisRow, more: int | None, what: str, command: str) -> str:
    if more is None or row.verdict is None:
        return NOISE
    blocks = row.verdict.comparison.blocks + more
    return f"a new run of {blocks} blocks would probably {what}: {command} --blocks {blocks}"
