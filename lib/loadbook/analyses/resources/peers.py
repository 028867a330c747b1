"""One trial beside the others of its treatment, on the time since the measurement began.

In five seconds: what did the hosts do in this trial that they did not do in the others?
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from loadbook.core.units import format_quantity, join_words
from loadbook.report import palette
from loadbook.report.figures.base import Sheet, counted, in_house_style, shortened
from loadbook.report.figures.traces import (
    FOOT_IN,
    GAP_IN,
    LEFT_IN,
    PANEL_IN,
    RIGHT_IN,
    STEP_IN,
    mark_values,
    round_ticks,
    time_axis,
    time_unit,
)
from loadbook.stats.diagnostics import OTHER_PROCESSES, host_resources, peer_comparison

HEAD_IN = 0.3
MOST = 5
MIB = 2.0**20
ALWAYS = ("CPUs busy", OTHER_PROCESSES)
Hosts = Mapping[str, Mapping[str, Any]]


def read(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str, windows: Mapping[str, float] | None = None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of `beside` that are drawn (what differs, then the CPUs), and the samples over time."""
    found = host_resources(traces, hosts)
    table = peer_comparison(found, trials, trial, windows or {})
    usual = table[table["apart"].isna() & table["resource"].isin(ALWAYS)]
    chosen = pd.concat([table[table["apart"].notna()][:MOST], usual])[:MOST]
    treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
    others = trials[(trials["treatment"] == treatment) & (trials["valid"] | (trials["trial"] == trial))]
    return chosen, found[found["trial"].isin(list(others["trial"]))]


@in_house_style
def draw(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str, windows: Mapping[str, float] | None = None,
    narrow: bool = False,
) -> Figure:  # fmt: skip
    """Draw a panel per resource: grey lines for the other trials of the treatment, one in ink for this one.

    Parameters
    ----------
    traces, trials : the run's tables.
    hosts : run.json's "hosts".
    trial : the trial in ink.
    windows : trial -> seconds of its measurement.
    """
    chosen, found = read(traces, trials, hosts, trial, windows)
    sheet = Sheet(narrow, HEAD_IN + max(1, len(chosen)) * STEP_IN - GAP_IN + FOOT_IN)
    if chosen.empty:
        sheet.text(0.1, 0.2, "no monitor recorded enough to compare", colour=palette.SOFT)
    start, end = float(found["t_s"].min()) if len(found) else 0.0, float(found["t_s"].max()) if len(found) else 1.0
    window = (windows or {}).get(trial, end)
    for number, row in enumerate(each(chosen)):
        top = HEAD_IN + number * STEP_IN
        panel = sheet.panel(LEFT_IN, top, sheet.width - RIGHT_IN, top + PANEL_IN)
        own = found[(found["host"] == row.host) & (found["resource"] == row.resource)]
        divisor = MIB if str(row.unit).startswith("B") else 1.0
        panel.axvspan(-start, window - start, color=palette.WINDOW_TINT, linewidth=0, zorder=-3)
        for name, samples in own.groupby("trial", sort=False):
            ink = name == trial
            line = panel.plot(samples["t_s"] - start, samples["value"] / divisor, zorder=3 if ink else 2)[0]
            line.set(color=palette.INK if ink else palette.OTHERS, linewidth=1.5 if ink else 0.7)
        high = max(float(own["value"].max()) / divisor, 1e-9)
        panel.set_ylim(0, 1.08 * high)
        mark_values(panel, round_ticks(high))
        unit = f" ({'MiB/s' if row.unit == 'B/s' else 'MiB'})" if divisor == MIB else ""
        text = shortened(f"{row.host}: {_title(row, narrow)}{unit}", sheet.width - LEFT_IN - RIGHT_IN, sheet.size - 0.4)
        colour = palette.INK if row.apart == row.apart else palette.SOFT
        sheet.text(0.05 if narrow else LEFT_IN, top - 0.12, text, size=sheet.size - 0.4, colour=colour)
        time_axis(sheet, panel, end - start, last=number == len(chosen) - 1, zero=-start)
    words = f"{time_unit(end)[1]} since the measurement began; shaded = measured"
    sheet.text(sheet.width / 2, sheet.height - 0.13, words, colour=palette.SOFT, at="center", size=sheet.size - 0.4)
    return sheet.figure


def each(table: pd.DataFrame) -> list[Any]:
    """Return the rows of a table as objects with its columns as attributes."""
    return list(table.itertuples(index=False))


def _title(row: Any, narrow: bool = False) -> str:
    resource, here = (
        (row.resource.replace(OTHER_PROCESSES, "other CPU time"), "") if narrow else (row.resource, " here")
    )
    return f"{resource}: {said(row, row.here)}{here}, usually {said(row, row.usual)}"


def said(row: Any, value: float) -> str:
    """Return a value of a row as readers see it: CPUs with two decimals, counts as they are, the rest in its unit."""
    return f"{value:.2f}" if row.resource.startswith("CPUs") else format_quantity(float(f"{value:.3g}"), row.unit)


def answer(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str, windows: Mapping[str, float] | None = None
) -> str:
    """Return what this trial's hosts did that is unlike the others of its treatment."""
    chosen, _ = read(traces, trials, hosts, trial, windows)
    if chosen.empty:
        return f"Not known: too little was recorded of {trial} or of others of its treatment."
    told = [f"{_title(row)} ({row.host})" for row in each(chosen[chosen["apart"].notna()])]
    return (
        f"{trial} differs in {join_words(told)}."
        if told
        else f"{trial}’s hosts did what they do in its treatment’s others."
    )


def how(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str, windows: Mapping[str, float] | None = None
) -> str:
    """Return how the figure is read."""
    _, found = read(traces, trials, hosts, trial, windows)
    others = found["trial"].nunique() - 1
    return (
        f"Ink: {trial}; grey: the {counted(others, 'other trial')} of its treatment. Told is what lies more than three "
        "usual spreads and a tenth away: it came together with the result; whether it caused it, this cannot tell."
    )


def alt(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str, windows: Mapping[str, float] | None = None
) -> str:
    """Return the answer and the number of every panel."""
    chosen, _ = read(traces, trials, hosts, trial, windows)
    said = "; ".join(f"{row.host}, {_title(row)}" for row in each(chosen))
    told = answer(traces, trials, hosts, trial, windows)
    return f"Resources of one trial beside the others of its treatment. {told} {said}."
