"""Two runs side by side: their verdicts, their levels, their checks, as tables and cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from loadbook.report import palette
from loadbook.report.blocks import render
from loadbook.report.tables import DASH, Column, Said, Table, said
from loadbook.report.trust import Cell
from loadbook.report.verdicts import LEVEL_HEADS, Line
from loadbook.stats.result import Row
from loadbook.stats.two_runs import Moved, TwoRuns
from loadbook.stats.wording import two_runs as wording
from loadbook.stats.wording.sentences import confidence
from loadbook.stats.wording.shown import numbers


@dataclass(frozen=True)
class Bold:
    """A cell in bold."""

    text: str

    def __html__(self) -> str:
        return str(render("bold.html.j2", text=self.text))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class Found:
    """A cell of what one run found: its verdict, below it the effect with its interval."""

    verdict: Said | str
    effect: str

    def __html__(self) -> str:
        return str(render("found.html.j2", found=self))

    def __str__(self) -> str:
        return f"{self.verdict} {self.effect}" if self.effect != DASH else str(self.verdict)


def lines(found: TwoRuns) -> list[Line]:
    """Return a sentence per comparison, in the order of the figure, each with the mark of the newer run's verdict."""
    return [_line(row, found.margin) for row in found.rows]


def _line(row: Moved, margin: float) -> Line:
    side = row.row
    kind = side.verdict.kind if side.verdict and side.kind == "treatment" else "check"
    return Line(kind, palette.glyph_of(side), side.label, wording.phrase(row, margin))


def verdicts(found: TwoRuns) -> Table:
    """Return the verdicts of both runs side by side, with what changed in bold."""
    family = max((row.shift.family for row in found.rows if row.shift), default=1)
    interval = f"{confidence(found.level)} interval"
    columns = [
        Column("Treatment"), Column("The effect"), Column("Older run, %"), Column("Newer run, %"),
        Column("Moved by, %", True), Column("p, adj." if family > 1 else "p", True), Column("Blocks", True),
    ]  # fmt: skip
    checks = [k for k, row in enumerate(found.rows) if row.row.kind != "treatment"]
    cells = [_cells(row, found.newer.metric) for row in found.rows]
    return Table("Two runs", columns, cells, frozenset(checks[:1]), f"In brackets: the {interval}.")


def _cells(row: Moved, metric: str) -> list[Any]:
    word = Bold(row.word) if row.word == "changed" else row.word
    told = [said(side, metric) if side else DASH for side in row.sides]
    texts = wording.texts(row)
    older, newer = (Found(verdict, effect) for verdict, effect in zip(told, (texts.older, texts.newer), strict=True))
    moved = f"{texts.change} ({texts.interval})" if row.shift else DASH
    return [row.row.label, word, older, newer, moved, texts.p, texts.blocks]


def levels(found: TwoRuns, unlike: Collection[str]) -> Table:
    """Return the level of every arm in both runs, the median over trials, but of those that are `unlike`."""
    ours, theirs = ({row.treatment: row for row in analysis.rows} for analysis in (found.older, found.newer))
    head = LEVEL_HEADS.get(found.newer.metric, found.newer.metric)
    columns = [Column("Treatment"), Column(f"Older run, {head}", True), Column(f"Newer run, {head}", True)]
    rows = [
        [(theirs.get(name) or ours[name]).label, _level(ours.get(name)), _level(theirs.get(name))]
        for name in dict.fromkeys([*theirs, *ours])
        if name not in unlike
    ]
    return Table("Levels", columns, rows)


def _level(row: Row | None) -> str:
    return numbers(row).level if row else DASH


def trust(older: Sequence[Cell], newer: Sequence[Cell]) -> list[Cell]:
    """Return one trust strip of two; each cell has the look and the title of the run that gives less trust."""
    return [_both(one, other) for one, other in zip(older, newer, strict=True)]


def _both(older: Cell, newer: Cell) -> Cell:
    worse, which = next(
        ((cell, name) for css in ("failed", "doubt") for cell, name in ((newer, "newer"), (older, "older"))
         if cell.css == css), (newer, "newer"))  # fmt: skip
    if older.title == newer.title:
        return Cell(worse.css, worse.glyph, worse.title, f"older: {older.text}; newer: {newer.text}", worse.link)
    told = [f"{name}: {cell.text if cell is worse else f'{cell.glyph} {cell.title}, {cell.text}'}"
            for cell, name in ((older, "older"), (newer, "newer"))]  # fmt: skip
    return Cell(worse.css, worse.glyph, f"{worse.title} ({which} run)", "; ".join(told), worse.link)
