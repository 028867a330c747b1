"""Figure of one trial's host metrics beside the other trials of its treatment: which metrics differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pandas as pd

from loadbook.core.errors import unknown_name_error
from loadbook.core.units import format_quantity, join_words
from loadbook.report import palette
from loadbook.report.figures import host_metrics
from loadbook.report.figures.base import ReportFigure, Sheet, pluralize, shorten
from loadbook.report.figures.host_metrics import FOOT_IN, GAP_IN, HEAD_IN, LEFT_IN, STEP_IN, values_by_trial
from loadbook.report.figures.tracks import Hosts
from loadbook.report.sections import row_tuples
from loadbook.stats.diagnostics import OTHER_PROCESSES, host_resources, peer_comparison
from loadbook.store.tables import RunData

MOST_PANELS = 5
MIB = 2.0**20
ALWAYS_DRAWN = ("CPUs busy", OTHER_PROCESSES)


class PeersFigure(ReportFigure):
    """One panel per resource: a dark line for this trial, grey lines for the other trials of its treatment.

    `hosts` is the entry "hosts" of run.json; `windows` is trial -> length of its measurement in seconds.
    """

    def __init__(
        self, traces: pd.DataFrame, trials: pd.DataFrame, hosts: Hosts, trial: str,
        windows: Mapping[str, float] | None = None,
    ) -> None:  # fmt: skip
        self.trial, self.windows = trial, windows or {}
        samples = host_resources(traces, hosts)
        table = peer_comparison(samples, trials, trial, self.windows)
        unusual = table[table["apart"].notna()][:MOST_PANELS]
        usual = table[table["apart"].isna() & table["resource"].isin(ALWAYS_DRAWN)]
        treatment = trials.set_index("trial")["treatment"].to_dict()[trial]
        peers = trials[(trials["treatment"] == treatment) & (trials["valid"] | (trials["trial"] == trial))]
        self.unusual = row_tuples(unusual)
        self.rows = row_tuples(pd.concat([unusual, usual])[:MOST_PANELS])
        self.samples = samples[samples["trial"].isin(list(peers["trial"]))]

    @classmethod
    def from_run(cls, run: RunData, trial: str) -> Self:
        """Return the figure of one trial of a run."""
        if trial not in set(run.trials["trial"]):
            raise unknown_name_error("trial", trial, map(str, run.trials["trial"]), f"in run {run.run}")
        return cls(run.traces, run.trials, host_metrics.monitored_hosts(run), trial, values_by_trial(run, "duration"))

    def _draw(self) -> Sheet:
        samples, number = self.samples, len(self.rows)
        sheet = Sheet(HEAD_IN + max(1, number) * STEP_IN - GAP_IN + FOOT_IN)
        if not self.rows:
            sheet.text(0.1, 0.2, "no monitor recorded enough to compare", colour=palette.SOFT)
        start, end = (float(samples["t_s"].min()), float(samples["t_s"].max())) if len(samples) else (0.0, 1.0)
        window = self.windows.get(self.trial, end)
        for k, row in enumerate(self.rows):
            top = HEAD_IN + k * STEP_IN
            panel = host_metrics.track_panel(sheet, top)
            own = samples[(samples["host"] == row.host) & (samples["resource"] == row.resource)]
            divisor = MIB if str(row.unit).startswith("B") else 1.0
            panel.axvspan(-start, window - start, color=palette.WINDOW_TINT, linewidth=0, zorder=-3)
            for name, of_trial in own.groupby("trial", sort=False):
                colour, width, zorder = (palette.INK, 1.5, 3) if name == self.trial else (palette.OTHERS, 0.7, 2)
                line = panel.plot(of_trial["t_s"] - start, of_trial["value"] / divisor, zorder=zorder)[0]
                line.set(color=colour, linewidth=width)
            highest = max(float(own["value"].max()) / divisor, 1e-9)
            panel.set_ylim(0, 1.08 * highest)
            host_metrics.set_value_ticks(panel, host_metrics.round_ticks(highest))
            unit = f" ({'MiB/s' if row.unit == 'B/s' else 'MiB'})" if divisor == MIB else ""
            title = shorten(f"{row.host}: {_row_text(row)}{unit}", host_metrics.PANEL_WIDTH_IN, sheet.size - 0.4)
            colour = palette.INK if row.apart == row.apart else palette.SOFT
            sheet.text(LEFT_IN, top - 0.12, title, size=sheet.size - 0.4, colour=colour)
            host_metrics.set_time_axis(panel, end - start, sheet.size, labelled=k == number - 1, zero=-start)
        unit = host_metrics.time_unit(end)[1]
        host_metrics.write_time_title(sheet, f"{unit} since the measurement began; shaded = measured")
        return sheet

    @property
    def caption(self) -> str:
        """One sentence on the host metrics of this trial that differ from those of its treatment's other trials."""
        if not self.rows:
            return f"Not known: too little was recorded of {self.trial} or of others of its treatment."
        if not self.unusual:
            return f"{self.trial}’s hosts did what they do in its treatment’s others."
        return f"{self.trial} differs in {join_words([f'{_row_text(row)} ({row.host})' for row in self.unusual])}."

    @property
    def help(self) -> str:
        """Instructions for reading the figure."""
        others = pluralize(self.samples["trial"].nunique() - 1, "other trial")
        return (
            f"Ink: {self.trial}; grey: the {others} of its treatment. Named are resources that lie more than three "
            "usual spreads and a tenth away: they changed together with the result; the figure cannot show whether "
            "they caused it."
        )

    @property
    def alt_text(self) -> str:
        """The caption, then the numbers of every panel."""
        rows = "; ".join(f"{row.host}, {_row_text(row)}" for row in self.rows)
        return f"Resources of one trial beside the others of its treatment. {self.caption} {rows}."


def _row_text(row: Any) -> str:
    return f"{row.resource}: {peer_value_text(row, row.here)} here, usually {peer_value_text(row, row.usual)}"


def peer_value_text(row: Any, value: float) -> str:
    """Return a value as text: CPUs with two decimals, other quantities with three digits and their unit."""
    return f"{value:.2f}" if row.resource.startswith("CPUs") else format_quantity(float(f"{value:.3g}"), row.unit)
