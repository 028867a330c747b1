"""Draw the pictures of README.md, docs/statistics.md and docs/capacity.md with loadbook's own figures.

Usage: .venv/bin/python benchmarks/pictures.py [FOLDER]
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from loadbook.analyses.effects.figure import EffectsFigure
from loadbook.core.metrics import get_metric
from loadbook.core.units import PERCENT, format_percent
from loadbook.report import palette
from loadbook.report.figures import axes
from loadbook.report.figures.base import Drawing, house_style, marker_props
from loadbook.report.figures.svg import compact_svg, to_svg
from loadbook.stats.compare import compare_pairs
from loadbook.stats.results import Analysis, AnalysisRow, Comparison, ErrorSummary, Verdict
from loadbook.stats.sequential import detectable_effect
from loadbook.stats.text import comparison_texts
from loadbook.stats.verdict import decide_verdict
from noise import NOISES, Floats, blocked, sequential
from simulated.capacity import Service, one_bisection, study
from simulated.two_arms import pairs_of

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
METRIC, MARGIN, BLOCKS, HOST = "ok_per_s", 0.02, 10, 20
ARMS = palette.AA, palette.BASELINE
PAIRS, CAPACITY_NOISE, PHANTOM = 30, "5 %", math.log(1.05)
TURNS, ROUNDS, SLOW_MOMENT = ("A", "B", "C"), 12, (0.4, 0.6)
TURN_COLOURS = palette.VERDICTS["better"].edge, palette.VERDICTS["worse"].edge
SCATTERS, MOST_BLOCKS = (0.007, 0.014, 0.028, 0.056), 40


class Told(NamedTuple):
    """One order of trials on the simulated host: the arm of each slot, and the resulting comparison."""

    title: str
    order: np.ndarray
    comparison: Comparison


def host() -> Floats:
    """Return the log rate of a host by slot: slow random drift and a gradual loss of 3 %, the same for every arm."""
    return NOISES["ar1+drift"](np.random.default_rng(HOST), np.zeros((1, 2 * BLOCKS), int))[0]


def two_orders() -> list[Told]:
    """Return the same slots of the same host, assigned to two identical arms in two orders (sequential, blocked)."""
    rng, values = np.random.default_rng(HOST), host()
    orders = {
        "all of A, then all of B": sequential(rng, 1, BLOCKS, 2)[0],
        "ten blocks, random order in each": blocked(rng, 1, BLOCKS, 2)[0],
    }
    return [
        Told(title, order, compare_pairs(pairs_of(values[order == 0], values[order == 1]), metric=METRIC))
        for title, order in orders.items()
    ]


def why_blocks() -> Figure:
    """Draw the simulated host twice, with two orders of the arms."""
    figure = Drawing(3.42).figure
    panels = figure.subplots(2, 2, height_ratios=(3, 1), sharex="row", sharey="row")
    for (upper, lower), told in zip(panels.T, two_orders(), strict=True):
        upper.set_title(told.title)
        upper.set_xlabel("slot, in order of execution")
        _draw_slots(upper, told.order)
        _draw_found(lower, told.comparison)
    key = [Line2D([], [], **marker_props(style, 6.0), label=name) for style, name in zip(ARMS, "AB", strict=True)]
    panels[0, 1].legend(handles=key, loc="lower right", bbox_to_anchor=(1, 1), ncols=2, borderaxespad=0)
    return figure


def _draw_slots(panel: Axes, order: np.ndarray) -> None:
    values, slots = host() - host().mean(), np.arange(1, 2 * BLOCKS + 1)
    panel.plot(slots, values, color=palette.GRID, linewidth=1.4, zorder=1)
    for arm, style in enumerate(ARMS):
        panel.plot(slots[order == arm], values[order == arm], zorder=2, **marker_props(style, 6.5))
    panel.set_xlim(0.3, 2 * BLOCKS + 0.7)
    panel.set_xticks([1, 5, 10, 15, 20])
    reach = 1.15 * np.abs(values).max()
    axes.set_ratio_scale(panel.yaxis, axes.RatioScale(-reach, reach), MARGIN)
    panel.grid(visible=False)


def _draw_found(panel: Axes, found: Comparison) -> None:
    """Draw the interval of B compared with A over the margin band, and write the verdict above it."""
    verdict = decide_verdict(found, MARGIN)
    style = palette.VERDICTS[verdict.kind]
    panel.set_yticks([])
    axes.set_ratio_scale(panel.xaxis, axes.RatioScale(math.log1p(-0.075), math.log1p(0.075)), MARGIN)
    axes.draw_margin(panel, -MARGIN, MARGIN)
    low, high = (math.log1p(bound) for bound in found.ci95 or (0.0, 0.0))
    panel.plot([low, high], [0.5, 0.5], color=style.edge, linewidth=4.6)
    panel.plot([math.log1p(found.effect or 0.0)], [0.5], zorder=4, **marker_props(style, 7.4))
    texts, word = comparison_texts(verdict), palette.verdict_word(verdict.kind, get_metric(METRIC))
    panel.set_title(f"B against A: {style.glyph} {word}, {texts.change} ({texts.interval})", color=style.text)


def turns() -> Figure:
    """Draw a block of three treatments one after the other, and in turns, with a slow moment of the host."""
    figure, rng = Drawing(1.72).figure, np.random.default_rng(HOST)
    order = np.concatenate([rng.permutation(len(TURNS)) for _ in range(ROUNDS)])
    plans = {
        "one after the other: the slow moment hits one": np.repeat(range(len(TURNS)), ROUNDS),
        "in turns of some milliseconds: it hits all alike": order,
    }
    for panel, (title, lanes) in zip(figure.subplots(1, 2, sharey=True), plans.items(), strict=True):
        panel.set_title(title)
        panel.axvspan(*(share * len(lanes) for share in SLOW_MOMENT), color=palette.BAND, linewidth=0)
        panel.set_xticks([sum(SLOW_MOMENT) / 2 * len(lanes)], ["a slow moment of the host"], color=palette.SOFT)
        panel.set_xlabel("time within one block")
        panel.set_yticks(range(len(TURNS)), TURNS, color=palette.INK)
        panel.tick_params(length=0, labelleft=True)
        panel.spines["bottom"].set_visible(False)
        panel.margins(x=0)
        colours = np.array([palette.INK, *TURN_COLOURS])[lanes]
        panel.barh(lanes, 0.98, left=np.arange(len(lanes)), height=0.72, color=colours, zorder=2)
    panel.invert_yaxis()
    return figure


def verdicts() -> Analysis:
    """Return one comparison for each verdict, from simulated data that leads to it."""
    wanted = {
        "excludes 0, above": (0.06, 0.012, 12),
        "excludes 0, below": (-0.045, 0.012, 12),
        "excludes 0, inside the margin": (0.010, 0.006, 12),
        "inside the margin": (0.002, 0.010, 12),
        "neither": (0.012, 0.022, 12),
        "4 complete blocks": (0.03, 0.010, 4),
    }
    rng = np.random.default_rng(12)
    rows = [_row(name, _made(rng, name, *how)) for name, how in wanted.items()]
    return Analysis("A", METRIC, "value", MARGIN, 0.95, tuple(rows))


def _made(rng: np.random.Generator, name: str, effect: float, scatter: float, blocks: int) -> Verdict:
    shared, noise = rng.normal(0, 0.03, blocks), rng.normal(0, scatter, (2, blocks))
    noise -= noise.mean(axis=1, keepdims=True)
    return decide_verdict(
        compare_pairs(pairs_of(shared + noise[0], shared + noise[1] + math.log1p(effect), name)), MARGIN
    )


def _row(name: str, verdict: Verdict) -> AnalysisRow:
    errors = ErrorSummary(name, verdict.comparison.blocks, 0, 0, 0, {})
    blocks = verdict.comparison.blocks
    return AnalysisRow(name, name, "treatment", None, None, blocks, blocks, replace(verdict, decimals=1), errors)


def how_many_blocks() -> Figure:
    """Draw the smallest difference that 80 of 100 studies detect, by number of blocks and scatter."""
    figure = Drawing(2.9).figure
    panel, blocks = figure.subplots(), np.arange(5, MOST_BLOCKS + 1)
    axes.set_value_scale(panel.yaxis, (0.002, 0.11), axes.AxisUnit(0.01, "%"))
    panel.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}{PERCENT}"))
    panel.set_xlim(5, MOST_BLOCKS)
    panel.axhline(MARGIN, color=palette.RULE, linewidth=0.8, zorder=-1)
    for scatter in SCATTERS:
        found = [detectable_effect(int(n), scatter) for n in blocks]
        panel.plot(blocks, found, color=palette.INK, linewidth=2.0)
        each = format_percent(scatter / math.sqrt(2), 1, signed=False)
        text = f"{format_percent(scatter, 1, signed=False)} (trials: {each})"
        panel.annotate(text, (blocks[-1], found[-1]), (8, 0), textcoords="offset points", va="center")
    panel.set_title("smallest difference found in 80 of 100 studies", color=palette.SOFT, weight="normal")
    panel.annotate(
        "scatter of the ratio", (1, 1), (8, 6), xycoords="axes fraction", textcoords="offset points",
        color=palette.SOFT,
    )  # fmt: skip
    panel.set_xlabel("blocks")
    return figure


def one_search() -> Figure:
    """Draw what pairs of equal servers are said to differ by: after one search each, and after ten blocks."""
    figure, rng = Drawing(3.1).figure, np.random.default_rng(HOST)
    pairs = [Service(CAPACITY_NOISE, [0.0, 0.0], rng, 512) for _ in range(PAIRS)]
    single = sorted(one_bisection(pair, 1, rng) - one_bisection(pair, 0, rng) for pair in pairs)
    studies = [study(CAPACITY_NOISE, [0.0, 0.0], BLOCKS, rng)[0] for _ in range(PAIRS)]
    compared = sorted((compare_pairs(pairs_of(*found)) for found in studies), key=lambda one: one.effect or 0.0)
    apart = sum(abs(difference) >= PHANTOM for difference in single)
    told = sum(one.p is not None and one.p <= 0.05 for one in compared)
    left, right = figure.subplots(1, 2, sharey=True)
    left.set_title(f"one search each: {apart} of {PAIRS} are 5 % or more apart")
    right.set_title(f"ten blocks: {told} of {PAIRS} are said to differ")
    for panel in (left, right):
        panel.set_yticks([])
        axes.set_ratio_scale(panel.xaxis, axes.RatioScale(math.log1p(-0.14), math.log1p(0.14)), MARGIN)
        panel.axvline(0, color=palette.INK, linewidth=1.0, zorder=0.7)
        panel.set_xlabel("capacity of B against A; both are equal")
    _draw_single(left, single)
    _draw_compared(right, compared)
    left.invert_yaxis()
    return figure


def _draw_single(panel: Axes, differences: list[float]) -> None:
    """Draw differences of logs; those of 5 % and more look like verdicts."""
    for number, at in enumerate(differences, 1):
        style = palette.VERDICTS["better" if at > 0 else "worse"] if abs(at) >= PHANTOM else palette.BASELINE
        panel.plot([at], [number], **marker_props(style, 4.6))


def _draw_compared(panel: Axes, compared: list[Comparison]) -> None:
    """Draw the interval of every comparison in the colour of its verdict, with a margin of 5 %."""
    for number, one in enumerate(compared, 1):
        style = palette.VERDICTS[decide_verdict(one, math.expm1(PHANTOM)).kind]
        ends = [math.log1p(end) for end in one.ci95 or (0.0, 0.0)]
        panel.plot(ends, [number] * 2, color=style.edge, linewidth=1.4)
        panel.plot([math.log1p(one.effect or 0.0)], [number], **marker_props(style, 4.6))


PICTURES = {
    "why-blocks": why_blocks,
    "verdicts": lambda: EffectsFigure(verdicts()).draw(),
    "how-many-blocks": how_many_blocks,
    "one-search": one_search,
    "turns": turns,
}


def main() -> None:
    """Write every picture."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        path = folder / f"{name}.svg"
        with house_style():
            picture = draw()
        path.write_text(compact_svg(to_svg(picture).decode()) + "\n", encoding="utf-8")
        print(f"{path} {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
