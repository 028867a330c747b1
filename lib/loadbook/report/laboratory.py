"""The page on the noise of a laboratory: how small a difference these hosts can see with this load."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from loadbook.core.units import percent, seconds
from loadbook.report import laboratory_table, trials
from loadbook.report.blocks import Block, block, clean, render
from loadbook.report.page import Page, note, nothing, run_data
from loadbook.report.show import drawn, markup
from loadbook.report.tables import Column, Table, plain, safe_table
from loadbook.stats.noise.plasmode import POWER
from loadbook.stats.noise.record import Record, headline, record, relabelled_line
from loadbook.stats.noise.scatter import of_one
from loadbook.stats.wording.sentences import margin_text
from loadbook.trials.recorded import twins


class NoisePage(Page):
    """How small a difference can this laboratory see? See `noise_page`."""

    notebook = "noise"

    @cached_property
    def record(self) -> Record | None:
        """The trials of the baseline's configuration, under all of its names."""
        ours = of_one(self.values, twins(self.data.study))
        return record(ours, self.metric, self.analysis.margin)

    @cached_property
    def trial_s(self) -> float:
        """Seconds that one trial takes here, everything around it included."""
        return float(np.median(self.data.trials["duration_s"].dropna()))

    def answer(self) -> Block:
        """Show how many blocks the margin needs here, and what labels drawn anew say."""
        said, *support = self.sentences
        return block("laboratory.html.j2", "\n".join([said, *support]), headline=said, lines=support)

    @cached_property
    def sentences(self) -> list[str]:
        """The answer: that the laboratory contradicts itself if it does, blocks for the margin, false alarms."""
        broken = [self.analysis.laboratory] if self.analysis.laboratory else []
        return [*broken, self.headline, *([] if self.record is None else self._support(self.record))]

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return headline(self.record, self.analysis.margin)

    def _support(self, found: Record) -> list[str]:
        lines = []
        if found.need:
            hours = seconds(2 * found.need.blocks * self.trial_s)
            how = "by pseudo-studies of recorded trials" if found.need.resampled else "by the formula"
            lines.append(
                f"For a baseline and one treatment that takes {hours} ({how}, power {percent(POWER, 0, signed=False)})."
            )
        return [*lines, relabelled_line(found.relabelled)]

    def figure_11(self) -> Block:
        """Show the record: drift, neighbours, groups, and what difference so many blocks find."""
        from loadbook.report.figures import noise as figure

        if self.record is None:
            return nothing(self.headline)
        shown, table = drawn(figure, self.record), ability_table(self.record)
        inside = render("details.html.j2", summary="The numbers behind this figure", inside=safe_table(table))
        return Block(str(markup(shown) + inside), str(clean(f"{shown.answer}\n{plain(table)}")))

    def every_load(self) -> Block:
        """Show the noise of each load that was recorded on these hosts, this run's among them."""
        table = laboratory_table.table(self.data)
        return Block(str(safe_table(table)), plain(table)) if table.rows else note("No load has ten trials yet.")

    def summary(self) -> dict[str, Any]:
        """Return what the index and the command line say: the headline, and what labels drawn anew found."""
        verdict = {"kind": "undecided", "glyph": "○", "word": "noise", "sentence": self.sentences[0]}
        return super().summary() | {
            "verdict": verdict,
            "sentences": self.sentences,
            "doubts": len(trials.doubts(self.data)),
        }


def ability_table(found: Record) -> Table:
    """Return what so many blocks can do, as a table."""
    heads = ("Blocks", "Half-width of the interval", "Found with 80 %", f"Power for {margin_text(found.margin)}")
    rows = [
        [str(a.blocks), percent(a.half_width, 1, False), percent(a.detectable, 1, False), percent(a.power, 0, False)]
        for a in found.abilities
    ]
    return Table("What blocks can do", [Column(head, True) for head in heads], rows)


def noise_page(study: str = "noise", run: str = "latest", metric: str = "") -> NoisePage:
    """Return the page on the noise of one run's hosts; see `effects_page` for parameters and errors."""
    return NoisePage(run_data(study, run), metric=metric)
