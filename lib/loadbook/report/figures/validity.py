"""The rows of the gate matrix: what each gate said of each trial.

Figure 10, the gate matrix.

In five seconds: how many trials count, and do the hits cluster in time or in one treatment?
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import (
    NARROW_IN,
    WIDE_IN,
    Sheet,
    counted,
    drawable,
    in_house_style,
    line_in,
    listed,
    size_pt,
    text_width,
    widest,
    wrap,
)

LEVELS = ("invalid", "doubt", "note", "unchecked")
WORDS = {"invalid": "✕ not counted", "doubt": "! doubt", "note": "note", "unchecked": "not checked"}


@dataclass(frozen=True)
class Gate:
    """One row: worst level, hits (trial, level), what it said of the whole run, why and where it was not checked.

    `blind` are the slots of the trials that it could not check; `count` is what stands at the right.
    """

    title: str
    level: str | None
    hits: pd.DataFrame
    whole_run: str | None
    unchecked: str | None
    blind: tuple[int, ...]
    wholly_unchecked: bool
    count: str


def gates_of(
    trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str], labels: Mapping[str, str]
) -> list[Gate]:
    """Return the rows: known gates and whatever else spoke, the worst level and the most hits first."""
    spoken = problems[problems["level"].isin(LEVELS)]
    named = dict(titles) | {n: _plain(n) for n in sorted(set(spoken["name"]) - set(titles))}
    own, quiet = dict(iter(spoken.groupby("name"))), _gate("", spoken.iloc[:0], trials, labels)  # most are quiet
    rows = [
        _gate(title, own[name], trials, labels) if name in own else replace(quiet, title=title)
        for name, title in named.items()
    ]
    explained = set(spoken.loc[spoken["level"] == "invalid", "trial"])
    rest = trials[~trials["valid"] & ~trials["trial"].isin(explained)]
    if len(rest):
        ended = rest[["trial"]].assign(level="invalid", message="did not end as it should")
        rows.append(_gate("Trial did not end as it should", ended, trials, labels))
    order = {level: n for n, level in enumerate((*LEVELS, None))}
    return sorted(rows, key=lambda gate: (order[gate.level], -len(gate.hits), gate.title))


def _plain(name: str) -> str:
    text = drawable(name, "gate").replace("-", " ").replace("_", " ")
    return text[:1].upper() + text[1:]


def _gate(title: str, said: pd.DataFrame, trials: pd.DataFrame, labels: Mapping[str, str]) -> Gate:
    level = next((level for level in LEVELS if (said["level"] == level).any()), None)
    loud = said[said["level"] != "unchecked"]
    known = trials[["trial", "slot", "treatment"]]
    hits = loud.drop_duplicates(["trial", "level"]).merge(known, on="trial", how="inner")
    whole = loud.loc[loud["trial"].isna(), "level"]
    silent = said[said["level"] == "unchecked"]
    unchecked = str(silent["message"].iloc[0]) if len(silent) else None
    everywhere = bool(silent["trial"].isna().any()) and hits.empty
    blind = known["slot"] if everywhere else known.loc[known["trial"].isin(silent["trial"]), "slot"]
    whole_run = next((lv for lv in LEVELS if (whole == lv).any()), None)
    wholly = bool(unchecked) and hits.empty and not whole_run and len(blind) == len(trials)
    text = _count(hits, whole_run, len(blind), trials, labels)
    return Gate(title, level, hits, whole_run, unchecked, tuple(sorted(blind)), wholly, text)


def _count(
    hits: pd.DataFrame, whole_run: str | None, blind: int, trials: pd.DataFrame, labels: Mapping[str, str]
) -> str:
    """Return what stands at the right: how many trials were hit, and whether all are of one treatment."""
    if whole_run:
        return f"{WORDS[whole_run]}: whole run"
    numbers = {level: hits.loc[hits["level"] == level, "trial"].nunique() for level in LEVELS}
    told = [level for level in ("invalid", "doubt") if numbers[level]] or ["note"] * bool(numbers["note"])
    parts = [f"{WORDS[level]}: {numbers[level]}" for level in told]
    if blind:
        parts.append("not checked" if hits.empty and blind == len(trials) else f"not checked: {blind}")
    text = ", ".join(parts) or "0"
    treatments = list(hits["treatment"].unique())
    if hits["trial"].nunique() > 1 and len(treatments) == 1 and trials["treatment"].nunique() > 1:
        text += f", all {drawable(labels.get(treatments[0], treatments[0]), treatments[0])}"
    return text


ROW_IN, HEAD_IN, FOOT_IN, NAME_IN, SAID_IN = 0.28, 0.34, 0.5, 2.5, 2.0
MOST_CLEAN = 8  # rows without a hit; more of them are named in words
_MARKS = {
    "invalid": {"marker": "x", "color": palette.INK, "markersize": 5, "markeredgewidth": 1.5, "zorder": 4},
    "doubt": {"marker": "o", "color": palette.DOUBT, "markersize": 4.5, "markeredgewidth": 0, "zorder": 3},
    "note": {"marker": "o", "color": palette.OTHERS, "markersize": 3, "markeredgewidth": 0, "zorder": 2},
}


@in_house_style
def draw(
    trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str], labels: Mapping[str, str] | None = None,
    narrow: bool = False,
) -> Figure:  # fmt: skip
    """Draw a row per gate over the trials in order of execution; only hits are drawn, an empty row was checked.

    `trials` and `problems` are the run's tables, `titles` maps every gate to its title, `labels` treatments to names.
    """
    gates = gates_of(trials, problems, titles, labels or {})
    gates, clean = _shown(gates), _clean_text(gates, narrow)
    heights = [_height(gate, narrow) for gate in gates]
    size = size_pt(narrow) - 0.6
    bottom = HEAD_IN + sum(heights)
    sheet = Sheet(narrow, bottom + FOOT_IN + (line_in(size, clean.count("\n") + 1) + 0.08 if clean else 0))
    left, right = _edges(gates, sheet)
    panel = sheet.panel(left, HEAD_IN, right, bottom)
    panel.set_ylim(bottom, HEAD_IN)
    panel.set_yticks([])
    if len(trials):
        axes.blocks_on_x(panel, trials, right - left, sheet.size)
        if not narrow:
            axes.tint_blocks(panel, trials)
    top = HEAD_IN
    for gate, height in zip(gates, heights, strict=True):
        lane = top + height - 0.18 if narrow else top + height / 2
        _draw_gate(panel, gate, trials, lane)
        _texts(sheet, gate, top, lane, (left, right))
        top += height
    sheet.text(0.05, 0.13, _counted(trials), bold=True)
    words = f"block ({counted(len(trials), 'trial')} in order of execution)"
    sheet.text((left + right) / 2, bottom + 0.37, words, colour=palette.SOFT, at="center")
    sheet.text(0.05, bottom + FOOT_IN + 0.04, clean, size=size, colour=palette.SOFT, va="top")
    return sheet.figure


def _shown(gates: list[Gate]) -> list[Gate]:
    """Return the gates that have a row: all, or those that spoke if the others would only make it long."""
    loud = [gate for gate in gates if gate.level]
    return gates if len(gates) - len(loud) <= MOST_CLEAN or not loud else loud


def _clean_text(gates: list[Gate], narrow: bool) -> str:
    """Return the names of the clean gates that have no row, wrapped."""
    silent = [gate.title for gate in gates if gate not in _shown(gates)]
    words = f"{len(silent)} more gates, checked and clean: {', '.join(silent)}."
    width = (NARROW_IN if narrow else WIDE_IN) - 0.25
    return wrap(words, width, size_pt(narrow) - 0.6, lines=30) if silent else ""


def _counted(trials: pd.DataFrame) -> str:
    return f"{int(trials['valid'].sum())} of {counted(len(trials), 'trial')} count"


def _height(gate: Gate, narrow: bool) -> float:
    if narrow:
        return line_in(size_pt(True)) * (1 if _beside(gate) else 2) + 0.31
    return ROW_IN + 0.1 * ("\n" in _said(gate))


def _said(gate: Gate) -> str:
    return wrap(gate.count, SAID_IN, size_pt(False) - 0.8)


def _beside(gate: Gate) -> bool:
    size = size_pt(True)
    return text_width(gate.title, size) + text_width(gate.count, size - 0.8) + 0.3 < NARROW_IN


def _edges(gates: list[Gate], sheet: Sheet) -> tuple[float, float]:
    if sheet.narrow:
        return 0.08, NARROW_IN - 0.08
    name = widest([wrap(g.title, NAME_IN, sheet.size) for g in gates], sheet.size)
    said = widest([_said(g) for g in gates], sheet.size - 0.8)
    return max(name, 1.0) + 0.2, WIDE_IN - max(said, 0.6) - 0.2


def _draw_gate(panel: Axes, gate: Gate, trials: pd.DataFrame, y: float) -> None:
    if trials.empty:
        return
    low, high = trials["slot"].min() - 0.8, trials["slot"].max() + 0.8
    panel.plot([low, high], [y, y], color=palette.GRID, linewidth=0.8, zorder=-1)
    for first, last in [(low + 0.5, high - 0.5)] if gate.wholly_unchecked else _stretches(gate.blind):
        box = Rectangle((first - 0.5, y - 0.09), last - first + 1, 0.18, facecolor=palette.BACKGROUND, hatch="////")
        box.set(linewidth=0, zorder=0, edgecolor=palette.RULE)
        panel.add_patch(box)
    if gate.whole_run:
        colour = {"invalid": palette.INK, "doubt": palette.DOUBT}.get(gate.whole_run, palette.OTHERS)
        panel.plot([low, high], [y, y], color=colour, linewidth=2.2, zorder=1, solid_capstyle="butt")
    for level, props in _MARKS.items():
        slots = gate.hits.loc[gate.hits["level"] == level, "slot"]
        panel.plot(slots, [y] * len(slots), linestyle="none", **props)  # type: ignore[arg-type]


def _stretches(slots: Sequence[int]) -> list[tuple[int, int]]:
    """Return first and last of every unbroken stretch of slots."""
    cuts = [n for n, (one, after) in enumerate(pairwise(slots), 1) if after > one + 1]
    return [(slots[a], slots[b - 1]) for a, b in pairwise([0, *cuts, len(slots)])] if slots else []


def _texts(sheet: Sheet, gate: Gate, top: float, lane: float, edges: tuple[float, float]) -> None:
    left, right = edges
    colour = {"invalid": palette.INK, "doubt": palette.DOUBT_TEXT}.get(gate.level or "", palette.SOFT)
    size = sheet.size - 0.8
    if sheet.narrow:
        sheet.text(0.06, top + 0.03, wrap(gate.title, NARROW_IN - 0.12, sheet.size, lines=1), va="top")
        second = 0 if _beside(gate) else line_in(sheet.size)
        said = wrap(gate.count, NARROW_IN - 0.12, size, lines=1)
        sheet.text(NARROW_IN - 0.06, top + 0.04 + second, said, size=size, colour=colour, at="right", va="top")
    else:
        sheet.text(left - 0.1, lane, wrap(gate.title, NAME_IN, sheet.size, lines=1), at="right")
        sheet.text(right + 0.1, lane, _said(gate), size=size, colour=colour)
    if gate.wholly_unchecked:
        why = drawable(gate.unchecked or "", "no evidence").removeprefix("not checked: ")
        words = wrap(f"not checked: {why}", right - left - 0.3, size, lines=1)
        text = sheet.text((left + right) / 2, lane, words, size=size, colour=palette.SOFT, at="center")
        text.set_bbox({"facecolor": palette.BACKGROUND, "edgecolor": "none", "pad": 1.0})


def answer(
    trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> str:
    """Return how many trials count, and which gates excluded the others."""
    gates = gates_of(trials, problems, titles, labels or {})
    out = int((~trials["valid"]).sum())
    if not out:
        doubts = sum(1 for g in gates if g.level == "doubt")
        tail = f"; {counted(doubts, 'gate')} had a doubt." if doubts else "."
        return f"All {counted(len(trials), 'trial')} count{tail}"
    said = [f"{g.title} ({g.hits.loc[g.hits['level'] == 'invalid', 'trial'].nunique()})" for g in gates if _excludes(g)]
    return f"{_counted(trials)}; the others were excluded by {listed(said, 3, 'gates')}."


def _excludes(gate: Gate) -> bool:
    return bool((gate.hits["level"] == "invalid").any())


def how(
    trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> str:
    """Return how the figure is read."""
    gates = gates_of(trials, problems, titles, labels or {})
    text = "One row is one gate, one place in it one trial. ✕: not counted; amber: doubt, counted; grey: note."
    text += " An empty row was checked and clean."
    return text + (" What is hatched could not be checked." if any(g.unchecked for g in gates) else "")


def alt(
    trials: pd.DataFrame, problems: pd.DataFrame, titles: Mapping[str, str], labels: Mapping[str, str] | None = None
) -> str:
    """Return the answer and every gate that spoke."""
    gates = gates_of(trials, problems, titles, labels or {})
    loud = [f"{g.title}: {g.count.replace('✕ ', '').replace('! ', '')}" for g in gates if g.level]
    clean = sum(1 for g in gates if not g.level)
    rest = f"{counted(clean, 'gate')} clean."
    return f"Validity gates by trial. {answer(trials, problems, titles, labels)} {'; '.join([*loud, rest])}"
