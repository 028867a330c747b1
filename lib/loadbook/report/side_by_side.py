"""Two runs side by side: their verdicts, their levels, their checks, as tables and cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from loadbook.report import palette
from loadbook.report.blocks import render
from loadbook.report.tables import DASH, Column, VerdictCell, Table, verdict_cell
from loadbook.report.trust import HarnessCheck
from loadbook.report.verdicts import LEVEL_HEADERS, VerdictLine
from loadbook.stats.result import AnalysisRow
from loadbook.stats.two_runs import EffectPair, RunComparison
from loadbook.stats.wording import two_runs as wording
from loadbook.stats.wording.sentences import confidence_text
from loadbook.stats.wording.shown import row_texts


@dataclass(frozen=True)
class BoldCell:
    """A cell in bold."""

    text: str

    def __html__(self) -> str:
        return str(render("bold.html.j2", text=self.text))

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True)
class EffectCell:
    """A cell of what one run found: its verdict, below it the effect with its interval."""

    verdict: VerdictCell | str
    effect: str

    def __html__(self) -> str:
        return str(render("found.html.j2", found=self))

    def __str__(self) -> str:
        return f"{self.verdict} {self.effect}" if self.effect != DASH else str(self.verdict)


def pair_lines(found: RunComparison) -> list[VerdictLine]:
    """Return a sentence per comparison, in the order of the figure, each with the mark of the newer run's verdict."""
    return [_pair_line(row, found.margin) for row in found.rows]


def _pair_line(row: EffectPair, margin: float) -> VerdictLine:
    side = row.row
    kind = side.verdict.kind if side.verdict and side.kind == "treatment" else "check"
    return VerdictLine(kind, palette.row_glyph(side), side.label, wording.effect_change_phrase(row, margin))


def verdict_pairs_table(found: RunComparison) -> Table:
    """Return the verdicts of both runs side by side, with what changed in bold."""
    family = max((row.change.family_size for row in found.rows if row.change), default=1)
    interval = f"{confidence_text(found.level)} interval"
    columns = [
        Column("Treatment"), Column("The effect"), Column("Older run, %"), Column("Newer run, %"),
        Column("Moved by, %", True), Column("p, adj." if family > 1 else "p", True), Column("Blocks", True),
    ]  # fmt: skip
    checks = [k for k, row in enumerate(found.rows) if row.row.kind != "treatment"]
    cells = [_pair_cells(row, found.newer.metric) for row in found.rows]
    return Table("Two runs", columns, cells, frozenset(checks[:1]), f"In brackets: the {interval}.")


def _pair_cells(row: EffectPair, metric: str) -> list[Any]:
    word = BoldCell(row.kind) if row.kind == "changed" else row.kind
    verdict_cells = [verdict_cell(side, metric) if side else DASH for side in row.sides]
    texts = wording.effect_change_texts(row)
    older, newer = (EffectCell(verdict, effect) for verdict, effect in zip(verdict_cells, (texts.older, texts.newer), strict=True))
    moved = f"{texts.change} ({texts.interval})" if row.change else DASH
    return [row.row.label, word, older, newer, moved, texts.p, texts.blocks]


def level_pairs_table(found: RunComparison, changed_treatments: Collection[str]) -> Table:
    """Return the level of every arm in both runs, the median over trials, but of those in `changed_treatments`."""
    older_rows, newer_rows = ({row.treatment: row for row in analysis.rows} for analysis in (found.older, found.newer))
    head = LEVEL_HEADERS.get(found.newer.metric, found.newer.metric)
    columns = [Column("Treatment"), Column(f"Older run, {head}", True), Column(f"Newer run, {head}", True)]
    rows = [
        [(newer_rows.get(name) or older_rows[name]).label, _row_level_text(older_rows.get(name)), _row_level_text(newer_rows.get(name))]
        for name in dict.fromkeys([*newer_rows, *older_rows])
        if name not in changed_treatments
    ]
    return Table("Levels", columns, rows)


def _row_level_text(row: AnalysisRow | None) -> str:
    return row_texts(row).level if row else DASH


def combine_harness_checks(older: Sequence[HarnessCheck], newer: Sequence[HarnessCheck]) -> list[HarnessCheck]:
    """Return one trust strip of two; each cell has the look and the title of the run that gives less trust."""
    return [_combine_checks(one, other) for one, other in zip(older, newer, strict=True)]


def _combine_checks(older: HarnessCheck, newer: HarnessCheck) -> HarnessCheck:
    worse, which = next(
        ((cell, name) for css in ("failed", "doubt") for cell, name in ((newer, "newer"), (older, "older"))
         if cell.css_class == css), (newer, "newer"))  # fmt: skip
    if older.title == newer.title:
        return HarnessCheck(worse.css_class, worse.glyph, worse.title, f"older: {older.text}; newer: {newer.text}", worse.link)
    texts = [f"{name}: {cell.text if cell is worse else f'{cell.glyph} {cell.title}, {cell.text}'}"
            for cell, name in ((older, "older"), (newer, "newer"))]  # fmt: skip
    return HarnessCheck(worse.css_class, worse.glyph, f"{worse.title} ({which} run)", "; ".join(texts), worse.link)
