"""A figure to zoom into, where plotly is installed (the extra `explore`); its words and numbers are the still one's."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import METRICS
from loadbook.explore.cards import Card
from loadbook.explore.measured import which, wide
from loadbook.report import palette
from loadbook.report.blocks import Block, clean, render

if TYPE_CHECKING:
    from loadbook.explore.plots import Drawn
    from loadbook.records.rundata import RunData

MIME = "application/vnd.plotly.v1+json"
MORE = "To zoom, with each trial under the pointer: .venv/bin/pip install -e '.[explore]', then restart JupyterLab."
HOW = "Drag to zoom, double-click to see all; a click on a name hides its trials."


class Zoomed(Card):
    """The order plot with every trial under the pointer; without plotly the still figure, and how to get more."""

    def __init__(self, data: RunData, metric: str, still: Drawn) -> None:
        self.data, self.metric, self.still = data, metric or data.study.metric, still

    @property
    def figure(self) -> dict[str, Any]:
        """The figure as plotly's JSON: traces and layout."""
        metric, statistic = which(self.data, self.metric)
        unit = METRICS[metric].unit
        frame = wide(self.data, (self.metric,))
        frame["why"] = [", ".join(gates) or "no gate spoke" for gates in frame["gates"]]
        title = {"text": clean(f"{self.metric} ({statistic}), {unit}")}
        return {
            "data": [self._trials(name, frame[frame["treatment"] == name]) for name in self.data.plan["treatments"]],
            "layout": {"height": 420, "xaxis": {"title": {"text": "place in the order of execution"}},
                       "yaxis": {"title": title, "type": "log"}, "plot_bgcolor": palette.BACKGROUND,
                       "margin": {"l": 70, "r": 10, "t": 20, "b": 50}},
        }  # fmt: skip

    def _trials(self, name: str, own: Any) -> dict[str, Any]:
        """Return one treatment's marks; those that do not count are crosses."""
        said = [
            _inert(f"{row.trial}, block {row.block}, {row.status}: {row.why}") for row in own.itertuples(index=False)
        ]
        values = [float(v) if v > 0 else None for v in own[self.metric]]
        symbols = ["circle" if valid else "x" for valid in own["valid"]]
        return {
            "type": "scatter", "mode": "markers", "name": _inert(self.data.study.label(name)), "text": said,
            "x": own["slot"].astype(int).tolist(), "y": values, "marker": {"symbol": symbols, "size": 9},
            "hovertemplate": "%{text}<br>%{y:.5g}<extra></extra>",
        }  # fmt: skip

    def _shown(self) -> Block:
        still, able = self.still._shown(), importlib.util.find_spec("plotly") is not None
        words = HOW if able else MORE
        html = still.html + str(render("note.html.j2", text=words))
        return Block(html, f"{still.text}\n{words}", {MIME: self.figure} if able else {})


def _inert(text: str) -> str:
    """Return text in which plotly finds no markup: it reads a few tags of HTML."""
    return str(clean(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")
