"""Figure 7 of every trial: all of them, one over the other, by the time since their measurement began.

In five seconds: did every trial use its hosts in the same manner, and is a trial unlike the others?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.units import NBSP
from loadbook.report import palette
from loadbook.report.figures.base import Sheet, counted, in_house_style
from loadbook.report.figures.traces import (
    FOOT_IN,
    GAP_IN,
    LEFT_IN,
    PANEL_IN,
    RIGHT_IN,
    STEP_IN,
    needed,
    scale_to,
    time_axis,
    time_unit,
    write_title,
)
from loadbook.report.figures.tracks import Block, Hosts, Track, draw_lines, lay_out, ordered, tracks_of
from loadbook.stats.saturation import finest_source_only

__all__ = ("alt", "answer", "draw", "how", "needed")
HEAD_IN = 0.3
SLICES, FEWEST = 3000, 20  # of the lines of a panel together, and of one: many lines cover each other
FAR = 0.1  # of the capacity: a trial whose mean lies further from the others' median is unlike them


def read_all(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, windows: Mapping[str, float] | None = None,
    links: Mapping[str, float] | None = None,
) -> Block:  # fmt: skip
    """Lay every trial of a run on one clock, whose 0 is the start of its measurement."""
    own = finest_source_only(traces)
    laid = lay_out(own, trials.sort_values("slot"), windows or {})
    first = min(0.0, float(own["t_s"].min())) if len(own) else 0.0
    at_once = tuple(replace(t, start=first, opens=-first) for t in laid)
    return Block(0, at_once, tuple(tracks_of(own, ordered(hosts), links or {})))


@in_house_style
def draw(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    windows: Mapping[str, float] | None = None, links: Mapping[str, float] | None = None, narrow: bool = False,
) -> Figure:  # fmt: skip
    """Draw a panel per resource with a line per trial; parameters as of the figure `traces`."""
    shown = read_all(traces, trials, hosts, windows, links)
    sheet = Sheet(narrow, HEAD_IN + max(1, len(shown.tracks)) * STEP_IN - GAP_IN + FOOT_IN)
    for number, track in enumerate(shown.tracks):
        top = HEAD_IN + number * STEP_IN
        panel = sheet.panel(LEFT_IN, top, sheet.width - RIGHT_IN, top + PANEL_IN)
        _draw_track(panel, track, shown, max(FEWEST, SLICES // len(shown.trials)))
        write_title(sheet, track, shown, top)
        time_axis(sheet, panel, shown.end, last=number == len(shown.tracks) - 1, zero=shown.trials[0].opens)
    words = f"{time_unit(shown.end)[1]} since the measurement began; shaded = measured"
    sheet.text(sheet.width / 2, sheet.height - 0.13, words, colour=palette.SOFT, at="center", size=sheet.size - 0.4)
    return sheet.figure


def _draw_track(panel: Axes, track: Track, shown: Block, slices: int) -> None:
    scale_to(panel, track)
    longest = max(shown.trials, key=lambda trial: trial.window)
    panel.axvspan(longest.opens, longest.opens + longest.window, color=palette.WINDOW_TINT, linewidth=0, zorder=-3)
    draw_lines(panel, track.data, shown, palette.OTHERS, 0.7, slices)
    if track.full is not None:
        panel.axhline(track.full, color=palette.DOUBT, linewidth=1.1, linestyle=(0, (4, 2)), zorder=0)
        above = track.data["value"].where(track.data["value"] >= track.full)
        draw_lines(panel, track.data.assign(value=above), shown, palette.DOUBT, 1.2, slices)
    apart = track.data[track.data["trial"].isin(_unlike(track, shown))]
    draw_lines(panel, apart, shown, palette.INK, 1.3, slices)


def _unlike(track: Track, shown: Block) -> list[str]:
    """Return the trials whose mean is far from that of their treatment's others."""
    if track.capacity is None:
        return []
    window = {t.name: t.window for t in shown.trials}
    known = track.data[(track.data["t_s"] >= 0) & (track.data["t_s"] <= track.data["trial"].map(window).astype(float))]
    means = known.groupby("trial")["value"].mean()
    treatments = pd.Series({t.name: t.treatment for t in shown.trials}).reindex(means.index)
    usual = means.groupby(treatments).transform("median")
    return [str(name) for name in means.index[(means - usual).abs() > FAR * track.capacity]]


def answer(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    windows: Mapping[str, float] | None = None, links: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """Return how many trials are unlike the others of their treatment."""
    shown = read_all(traces, trials, hosts, windows, links)
    apart = sorted({name for track in shown.tracks for name in _unlike(track, shown)})
    every = counted(len(shown.trials), "trial")
    if not apart:
        return f"No trial of {every} is unlike the others of its treatment."
    return f"{len(apart)} of {every} {'is' if len(apart) == 1 else 'are'} unlike the others of their treatment."


def how(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    windows: Mapping[str, float] | None = None, links: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """Return how the figure is read."""
    return (
        "Grey: one line per trial; amber: at or above the limit; ink: its mean lies more than "
        f"10{NBSP}% of the capacity from the median of its treatment’s trials."
    )


def alt(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    windows: Mapping[str, float] | None = None, links: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """Return the answer and the number of every panel."""
    shown = read_all(traces, trials, hosts, windows, links)
    said = "; ".join(f"{t.title.removesuffix(', %')}: {shown.number_of(t)}" for t in shown.tracks)
    return f"Resource traces of all trials. {answer(traces, trials, hosts, labels, windows, links)} {said}."
