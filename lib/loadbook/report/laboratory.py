"""The page on the noise of a laboratory: how small a difference these hosts can see with this load."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from loadbook.core.units import format_percent, format_duration
from loadbook.report import laboratory_table, trials
from loadbook.report.blocks import Block, render_block, clean, render
from loadbook.report.page import Page, note_block, empty_section, load_run_data
from loadbook.report.show import render_figure, figure_markup
from loadbook.report.tables import Column, Table, table_text, table_markup
from loadbook.stats.noise.plasmode import POWER
from loadbook.stats.noise.record import NoiseRecord, noise_headline, compute_noise_record, relabelling_sentence
from loadbook.stats.noise.scatter import trials_of_arms
from loadbook.stats.wording.sentences import margin_text
from loadbook.trials.recorded import aa_arms


class NoisePage(Page):
    """How small a difference can this laboratory see? See `noise_page`."""

    notebook = "noise"

    @cached_property
    def record(self) -> NoiseRecord | None:
        """The trials of the baseline's configuration, under all of its names."""
        trials = trials_of_arms(self.values, aa_arms(self.data.study))
        return compute_noise_record(trials, self.metric, self.analysis.margin)

    @cached_property
    def trial_s(self) -> float:
        """Seconds that one trial takes here, everything around it included."""
        return float(np.median(self.data.trials["duration_s"].dropna()))

    def answer(self) -> Block:
        """Show how many blocks the margin needs here, and what labels drawn anew say."""
        first, *support = self.sentences
        return render_block("laboratory.html.j2", "\n".join([first, *support]), headline=first, lines=support)

    @cached_property
    def sentences(self) -> list[str]:
        """The answer: that the laboratory contradicts itself if it does, blocks for the margin, false alarms."""
        broken = [self.analysis.aa_failure] if self.analysis.aa_failure else []
        return [*broken, self.headline, *([] if self.record is None else self._support_sentences(self.record))]

    @property
    def headline(self) -> str:
        """The answer in one sentence."""
        return noise_headline(self.record, self.analysis.margin)

    def _support_sentences(self, found: NoiseRecord) -> list[str]:
        lines = []
        if found.blocks_needed:
            hours = format_duration(2 * found.blocks_needed.blocks * self.trial_s)
            how = "by pseudo-studies of recorded trials" if found.blocks_needed.resampled else "by the formula"
            lines.append(
                f"For a baseline and one treatment that takes {hours} ({how}, power {format_percent(POWER, 0, signed=False)})."
            )
        return [*lines, relabelling_sentence(found.relabelling)]

    def noise_record(self) -> Block:
        """Show the record: drift, neighbours, groups, and what difference so many blocks find."""
        from loadbook.report.figures import noise as figure

        if self.record is None:
            return empty_section(self.headline)
        rendered, table = render_figure(figure, self.record), ability_table(self.record)
        inside = render("details.html.j2", summary="The numbers behind this figure", inside=table_markup(table))
        return Block(str(figure_markup(rendered) + inside), str(clean(f"{rendered.answer}\n{table_text(table)}")))

    def every_load(self) -> Block:
        """Show the noise of each load that was recorded on these hosts, this run's among them."""
        table = laboratory_table.noise_by_load_table(self.data)
        return Block(str(table_markup(table)), table_text(table)) if table.rows else note_block("No load has ten trials yet.")

    def summary(self) -> dict[str, Any]:
        """Return what the index and the command line say: the headline, and what labels drawn anew found."""
        verdict = {"kind": "undecided", "glyph": "○", "word": "noise", "sentence": self.sentences[0]}
        return super().summary() | {
            "verdict": verdict,
            "sentences": self.sentences,
            "doubts": len(trials.doubt_messages(self.data)),
        }


def ability_table(found: NoiseRecord) -> Table:
    """Return what so many blocks can do, as a table."""
    heads = ("Blocks", "Half-width of the interval", "Found with 80 %", f"Power for {margin_text(found.margin)}")
    rows = [
        [str(a.blocks), format_percent(a.half_width, 1, False), format_percent(a.detectable_effect, 1, False), format_percent(a.power, 0, False)]
        for a in found.precisions
    ]
    return Table("What blocks can do", [Column(head, True) for head in heads], rows)


def noise_page(study: str = "noise", run: str = "latest", metric: str = "") -> NoisePage:
    """Return the page on the noise of one run's hosts; see `effects_page` for parameters and errors."""
    return NoisePage(load_run_data(study, run), metric=metric)
