"""Two runs of a study in a cell: what changed around them, how far each effect moved, the numbers as a frame."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from loadbook.explore.cards import Card
from loadbook.records.layout import project_layout
from loadbook.records.rundata import RunData, load_run
from loadbook.report import side_by_side
from loadbook.report.blocks import Block
from loadbook.report.build import ensure_ingested
from loadbook.report.changed import describe_change
from loadbook.report.compare_runs import ComparePage, resolve_run_pair
from loadbook.report.page import note_block
from loadbook.stats.result import AnalysisRow
from loadbook.stats.two_runs import EffectPair

if TYPE_CHECKING:
    import pandas as pd


def other_run(data: RunData, against: str) -> RunData:
    """Load another run of a run's study, its tables made first where they are missing or old."""
    home, study = project_layout(), data.paths.raw.parent.name
    older, newer = resolve_run_pair(home, study, data.run, against)
    paths = home.run(study, older if newer == data.run else newer)
    ensure_ingested(paths, lambda said: None)
    return load_run(home, study, paths.raw.name)


def page_with(data: RunData, against: str, baseline: str = "", metric: str = "", level: float = 0.95) -> ComparePage:
    """Return the page of a run and another one of its study, the older first."""
    older, newer = sorted((other_run(data, against), data), key=lambda one: one.run)
    return ComparePage(older, newer, baseline, metric, level)


class Moves(Card):
    """How far each effect moved between two runs; the one that began first is the older.

    Attributes
    ----------
    page : what the report of two runs shows, block by block (`report.compare_runs.ComparePage`).
    left_out : which trials were taken away by hand before, in words.
    """

    def __init__(
        self, data: RunData, against: str, baseline: str, metric: str, level: float, left_out: str = ""
    ) -> None:
        self.page = page_with(data, against, baseline, metric, level)
        self.left_out = left_out

    @property
    def changes(self) -> list[str]:
        """What is recorded otherwise of the newer run, in words."""
        return [describe_change(change, self.page.labels) for change in self.page.changes]

    @property
    def sentences(self) -> list[str]:
        """A sentence per comparison, in the order of the table."""
        return [f"{line.glyph} {line.name}{line.text}" for line in side_by_side.pair_lines(self.page.result)]

    @cached_property
    def frame(self) -> pd.DataFrame:
        """The numbers as a plain pandas frame, rounded nowhere; effects and bounds are ratios minus 1."""
        import pandas as pd

        return pd.DataFrame([_numbers(row) for row in self.page.result.rows])

    def __len__(self) -> int:
        return len(self.page.result.rows)

    def _shown(self) -> Block:
        """Return the answer, what changed in the records, and the verdicts side by side."""
        blocks = [self.page.answer(), self.page.conditions(), self.page.verdicts()]
        blocks += [note_block(f"{self.left_out}: it explores.")] if self.left_out else []
        first = blocks[0]
        html, text = "".join(one.html for one in blocks), "\n\n".join(one.text for one in blocks)
        return replace(first, html=html, text=text)


def _numbers(row: EffectPair) -> dict[str, Any]:
    shift = row.change
    low, high = shift.ci95 if shift else (None, None)
    return {
        "treatment": row.row.treatment,
        "kind": row.row.kind,
        "word": row.kind,
        "older": _effect(row.older),
        "newer": _effect(row.newer),
        "moved": shift.effect if shift else None,
        "low": low,
        "high": high,
        "p": shift.p if shift else None,
        "p_adjusted": shift.p_adjusted if shift else None,
        "blocks_needed": row.blocks_needed,
        "reason": row.reason,
    }


def _effect(side: AnalysisRow | None) -> float | None:
    return side.verdict.comparison.effect if side and side.verdict else None
