"""Figure 7, resource traces of one block.

In five seconds: which resource was full, and was it the driver's?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from loadbook.core.units import MINUS, NBSP, join_words
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    SMALLEST_PT,
    WIDE_IN,
    Sheet,
    drawable,
    in_house_style,
    line_in,
    pushed_apart,
    shortened,
    size_pt,
    text_width,
    widest,
    wrap,
)
from loadbook.report.figures.tracks import SHOWN, Block, Hosts, Track, draw_lines, ordered, read_block, who

LEFT_IN, RIGHT_IN, PANEL_IN, STEP_IN, FOOT_IN, GAP_IN = 0.62, 0.1, 0.62, 1.0, 0.52, 0.3
SOME = 0.05  # share of the measured time from which on a resource counts as having been full
STEPS = (0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600)


def needed(traces: pd.DataFrame) -> bool:
    """Say whether any monitor recorded something that the figure shows."""
    return bool(traces["metric"].isin(SHOWN).any())


@in_house_style
def draw(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    links: Mapping[str, float] | None = None, windows: Mapping[str, float] | None = None, block: int | None = None,
    rates: Mapping[str, float] | None = None, narrow: bool = False,
) -> Figure:  # fmt: skip
    """Draw small multiples over the time of one block, each resource from 0 to its capacity.

    Parameters
    ----------
    traces, trials : the run's tables.
    hosts : run.json's "hosts": roles and the CPUs (None: all) of each.
    labels : treatment -> name.
    links : host -> capacity of its network in B/s, where it is known.
    windows : trial -> seconds of its measurement window (the metric "duration"); default: to the trace's last sample.
    block : default: the block in the middle of the run.
    rates : trial -> good answers per second, drawn first where it is known.
    """
    return drawn_block(read_block(traces, trials, hosts, links, windows, block, rates), labels, narrow)


def drawn_block(shown: Block, labels: Mapping[str, str], narrow: bool) -> Figure:
    """Draw the tracks of one block, one below the other."""
    texts = _names(shown, labels, narrow)
    head = _head_in(texts, narrow)
    sheet = Sheet(narrow, head + max(1, len(shown.tracks)) * STEP_IN - GAP_IN + FOOT_IN)
    if not shown.tracks:
        sheet.text(0.1, 0.2, "no monitor recorded anything in this block", colour=palette.SOFT)
    end = shown.end
    for number, track in enumerate(shown.tracks):
        top = head + number * STEP_IN
        panel = sheet.panel(LEFT_IN, top, sheet.width - RIGHT_IN, top + PANEL_IN)
        _draw_track(panel, track, shown)
        write_title(sheet, track, shown, top)
        time_axis(sheet, panel, end, last=number == len(shown.tracks) - 1)
    if shown.tracks:
        _draw_names(sheet, shown, texts, end, head)
    words = f"{time_unit(end)[1]} since the start of block {shown.number}; shaded = measured"
    words += "" if narrow else ", white = warm-up and reset"
    sheet.text(sheet.width / 2, sheet.height - 0.13, words, colour=palette.SOFT, at="center", size=sheet.size - 0.4)
    return sheet.figure


def _draw_track(panel: Axes, track: Track, block: Block) -> None:
    scale_to(panel, track)
    for trial in block.trials:
        tint = palette.WINDOW_TINT if trial.valid else palette.DOUBT_BOX
        panel.axvspan(trial.opens, trial.opens + trial.window, color=tint, linewidth=0, zorder=-3)
        panel.axvline(trial.start, color=palette.GRID, linewidth=0.8, zorder=-2)
    if track.mean is not None:
        draw_lines(panel, track.mean, block, palette.OTHERS, 0.8)
    draw_lines(panel, track.data, block, palette.INK, 1.0)
    if track.full is not None:
        panel.axhline(track.full, color=palette.DOUBT, linewidth=1.1, linestyle=(0, (4, 2)), zorder=0)
        above = track.data["value"].where(track.data["value"] >= track.full)
        draw_lines(panel, track.data.assign(value=above), block, palette.DOUBT, 2.6)


def scale_to(panel: Axes, track: Track) -> None:
    """Let a panel's axis begin at 0 and end at the track's capacity, or at what was seen where that is more."""
    highest = float(track.data["value"].max()) if len(track.data) else 0.0
    limit = max(track.capacity or 0.0, highest) or 1.0
    panel.set_ylim(0, 1.06 * limit)
    mark_values(panel, [0.0, limit / 2, limit] if track.capacity else round_ticks(limit))


def mark_values(panel: Axes, ticks: Sequence[float]) -> None:
    """Write these values beside a panel."""
    axes.set_ticks(panel.yaxis, ticks, [f"{t:,.0f}" if t >= 1000 else f"{t:,.3g}" for t in ticks])


def round_ticks(limit: float) -> list[float]:
    """Return 0 and the largest round value up to `limit`."""
    step = 10 ** np.floor(np.log10(limit))
    return [0.0, float(next(m * step for m in (8, 6, 5, 4, 3, 2, 1, 0.5) if m * step <= limit))]


def write_title(sheet: Sheet, track: Track, block: Block, top: float) -> None:
    """Write a panel's title above it, and the number that it comes to."""
    left, size = 0.05 if sheet.narrow else LEFT_IN, sheet.size - 0.4
    number = block.number_of(track)
    if sheet.narrow:
        number = number.replace("at or above", "≥").replace("link rate not known", "link unknown")
    sheet.text(left, top - 0.12, track.title, size=size)
    x = left + text_width(track.title, size) + 0.12
    words = wrap(number, sheet.width - x - 0.04, size - 0.4, lines=1)
    colour = palette.DOUBT_TEXT if block.full_share(track) else palette.SOFT
    sheet.text(x, top - 0.12, words, size=size - 0.4, colour=colour)


def time_unit(end: float) -> tuple[float, str]:
    """Return the seconds of the unit that an axis of this length counts in, and its name."""
    return (1.0, "seconds") if end < 180 else (60.0, "minutes")


def time_axis(sheet: Sheet, panel: Axes, end: float, last: bool, zero: float = 0.0) -> None:
    """Let a panel's time run from 0 to `end`, in seconds, with ticks below the last panel; they count from `zero`."""
    width, divisor = sheet.width - RIGHT_IN - LEFT_IN, time_unit(end)[0]
    panel.set_xlim(0, end)
    step = next((s for s in STEPS if end / divisor / s <= 8), end / divisor)
    whole = np.arange(-(zero / divisor // step), (end - zero) / divisor / step + 1e-9)
    placed = [(float(n * step * divisor + zero), f"{n * step + 0.0:g}".replace("-", MINUS)) for n in whole]
    kept = axes.fit(placed, lambda at: at / end * width, sheet.size, width)
    shown = [placed[i] for i in kept] if last else []
    axes.set_ticks(panel.xaxis, [at for at, _ in shown], [label for _, label in shown])


def _letters(narrow: bool) -> float:
    return max(size_pt(narrow) - 1.0, SMALLEST_PT)


def _names(block: Block, labels: Mapping[str, str], narrow: bool) -> list[str]:
    """Return each trial's treatment as it stands above its window: in up to three lines, or in one to stand upright."""
    texts = [drawable(labels.get(t.treatment, t.treatment), t.treatment) for t in block.trials]
    room = _room_for_name(len(texts))
    short = [wrap(text, room, _letters(narrow), True, lines=3) for text in texts]
    upright = narrow or room < 0.55 or any("…" in text for text in short)
    texts = [shortened(text, 1.5, _letters(narrow), True) for text in texts] if upright else short
    return [text + ("" if trial.valid else " ✕") for text, trial in zip(texts, block.trials, strict=True)]


def _room_for_name(trials: int) -> float:
    return (WIDE_IN - LEFT_IN - RIGHT_IN) / max(1, trials) - 0.08


def _upright(texts: Sequence[str], narrow: bool) -> bool:
    return narrow or widest(texts, _letters(narrow), True) > _room_for_name(len(texts)) + 0.2


def _head_in(texts: Sequence[str], narrow: bool) -> float:
    lines = max((text.count("\n") + 1 for text in texts), default=1)
    tall = widest(texts, _letters(narrow), True) if _upright(texts, narrow) else line_in(_letters(narrow), lines)
    return 0.38 + tall


def _draw_names(sheet: Sheet, block: Block, texts: list[str], end: float, head: float) -> None:
    """Write each trial's treatment once, above its measurement window."""
    letters, upright = _letters(sheet.narrow), _upright(texts, sheet.narrow)
    inch = (sheet.width - RIGHT_IN - LEFT_IN) / end
    wanted = [LEFT_IN + inch * (t.opens + t.window / 2) for t in block.trials]
    sizes = [letters * 1.15 / 72 if upright else widest([t], letters, True) + 0.06 for t in texts]
    places = pushed_apart(wanted, sizes, LEFT_IN, sheet.width - 0.03)
    for text, x, trial in zip(texts, places, block.trials, strict=True):
        colour, y = palette.INK if trial.valid else palette.DOUBT_TEXT, head - 0.26
        if upright:
            x += letters / 72 / 2.6
            sheet.text(x, y, text, size=letters, colour=colour, bold=not trial.valid, va="baseline", rotation=90)
        else:
            sheet.text(x, y, text, size=letters, colour=colour, bold=not trial.valid, at="center", va="bottom")


def answer(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    links: Mapping[str, float] | None = None, windows: Mapping[str, float] | None = None, block: int | None = None,
    rates: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """Return which resource was full during the measured time, and whether it was the driver's."""
    shown = read_block(traces, trials, hosts, links, windows, block, rates)
    judged = [(t, share) for t in shown.tracks if (share := shown.full_share(t)) is not None]
    if not any(trial.valid for trial in shown.trials):
        return f"Not known: no trial of block {shown.number} counts."
    if not judged:
        return "Not known: no monitor recorded a resource whose capacity is known in this block."
    watched = [share for track, share in judged if track.driver]
    driver = _room(max(watched)) if watched else "the driver was not watched"
    if any(share > SOME for share in watched):
        driver = "so the tool, not only the server, may have set the numbers"
    full = [f"{t.noun} ({round(100 * s)}{NBSP}% of the measured time)" for t, s in judged if s > SOME]
    return f"At its limit: {join_words(full)}; {driver}." if full else f"Nothing that was watched was full; {driver}."


def _room(share: float) -> str:
    """Say that the driver was not the limit, and how often it was for a moment."""
    return "the driver had room" + (f" except in {max(1, round(100 * share))}{NBSP}% of the time" if share else "")


def how(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    links: Mapping[str, float] | None = None, windows: Mapping[str, float] | None = None, block: int | None = None,
    rates: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """Return how the figure is read, and which hosts had no monitor."""
    shown = read_block(traces, trials, hosts, links, windows, block, rates)
    said = [
        f"Block {shown.number} of {trials['block'].nunique()}, all hosts on one clock;",
        "each axis starts at 0 and ends at the capacity where it is known.",
        "Amber: at or above the limit. A gap in a line: no sample was taken.",
    ]
    if any(track.mean is not None for track in shown.tracks):
        said.append("Grey line: mean of the cores.")
    silent = [who(ordered(hosts)[h], h) for h in sorted(set(hosts) - set(traces["host"]))]
    return " ".join([*said, *([f"No monitor on: {join_words(silent)}."] if silent else [])])


def alt(
    traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, labels: Mapping[str, str],
    links: Mapping[str, float] | None = None, windows: Mapping[str, float] | None = None, block: int | None = None,
    rates: Mapping[str, float] | None = None,
) -> str:  # fmt: skip
    """Return the answer and the number of every panel."""
    shown = read_block(traces, trials, hosts, links, windows, block, rates)
    said = "; ".join(f"{t.title.replace(', %', '')}: {shown.number_of(t)}" for t in shown.tracks)
    return (
        f"Resource traces of one block. {answer(traces, trials, hosts, labels, links, windows, block, rates)} {said}."
    )
