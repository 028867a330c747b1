"""What was unlike in one trial: what its hosts did beside its treatment's other trials, and what gates said of it."""

from __future__ import annotations

from typing import Any

from loadbook.core.names import unknown_name_error
from loadbook.core.units import format_percent
from loadbook.explore.cards import Card
from loadbook.explore.measured import worst
from loadbook.records.rundata import RunData
from loadbook.report import trials as counted
from loadbook.report.blocks import Block, render_block
from loadbook.stats import saturation
from loadbook.stats.hygiene.beside import peer_comparison, host_resources


class Why(Card):
    """What was unlike in one trial; `.frame` is the table behind it (`stats.hygiene.beside`)."""

    def __init__(self, data: RunData, trial: str) -> None:
        if trial not in set(data.trials["trial"]):
            raise unknown_name_error("trial", trial, data.trials["trial"], f"in run {data.run}")
        hosts = saturation.hosts_with_traces(data.traces, data.run_json["hosts"])
        windows = {str(k): float(v) for k, v in data.values("duration").set_index("trial")["value"].dropna().items()}
        self.trial, self._data = trial, data
        self.frame = peer_comparison(host_resources(data.traces, hosts), data.trials, trial, windows)

    @property
    def sentences(self) -> list[str]:
        """What gates said of the trial, then what its hosts did otherwise than in its treatment's other trials."""
        from loadbook.report.figures.beside import said

        spoken = self._data.problems[self._data.problems["trial"] == self.trial]
        gates = [f"{row.level}{f' ({row.host})' if isinstance(row.host, str) else ''}: {row.message}"
                 for row in counted.row_tuples(spoken)]  # fmt: skip
        unlike = self.frame[self.frame["apart"].notna()]
        hosts = [f"{row.host}: {row.resource} {said(row, row.here)}, usually {said(row, row.usual)}"
                 for row in counted.row_tuples(unlike)]  # fmt: skip
        return [*gates, *(hosts or [NOTHING if len(self.frame) else UNKNOWN])]

    def _shown(self) -> Block:
        """Return how far the trial lies from its treatment, and what came together with that."""
        own: Any = worst(self._data).set_index("trial").loc[self.trial]
        away, metric = own["away"], self._data.study.metric
        far = f"{format_percent(away)} from the median of {own['treatment']}" if away == away else "no value"
        head = f"{self.trial}: {own['treatment']}, block {own['block']}, {own['status']}; {metric}: {far}"
        text = "\n".join([head, *(f"- {line}" for line in self.sentences)])
        return render_block("why.html.j2", text, head=head, lines=self.sentences)


NOTHING = "Its hosts did what they do in its treatment’s other trials."
UNKNOWN = "Too little was recorded of its hosts to compare them with its treatment’s other trials."
