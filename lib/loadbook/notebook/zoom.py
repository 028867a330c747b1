"""A figure to zoom into, where plotly is installed (the extra `explore`); text and numbers are the still figure's."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from loadbook.core.metrics import METRICS
from loadbook.notebook.display import Displayable
from loadbook.notebook.trials import resolve_metric, trials_table
from loadbook.report import palette
from loadbook.report.blocks import Block, note
from loadbook.report.nodes import clean
from loadbook.store.tables import RunData

if TYPE_CHECKING:
    from loadbook.notebook.display import FigureView

MIME = "application/vnd.plotly.v1+json"
ZOOM_INSTALL_HINT = (
    "To zoom, with each trial under the pointer: %pip install plotly in a cell, then restart JupyterLab."
)
ZOOM_HELP = "Drag to zoom, double-click to see all; a click on a name hides its trials."


class ZoomView(Displayable):
    """The order plot with every trial under the pointer; without plotly the still figure, and how to install it."""

    def __init__(self, data: RunData, metric: str, still: FigureView) -> None:
        self.data, self.metric, self.still = data, metric or data.study.metric, still

    @property
    def figure(self) -> dict[str, Any]:
        """The figure as plotly's JSON: traces and layout."""
        metric, statistic = resolve_metric(self.data, self.metric)
        unit = METRICS[metric].unit
        frame = trials_table(self.data, (self.metric,))
        frame["why"] = [", ".join(gates) or "no rule is broken" for gates in frame["gates"]]
        title = {"text": clean(f"{self.metric} ({statistic}), {unit}")}
        return {
            "data": [self._trials(name, frame[frame["treatment"] == name]) for name in self.data.plan["treatments"]],
            "layout": {"height": 420, "xaxis": {"title": {"text": "place in the order of execution"}},
                       "yaxis": {"title": title, "type": "log"}, "plot_bgcolor": palette.BACKGROUND,
                       "margin": {"l": 70, "r": 10, "t": 20, "b": 50}},
        }  # fmt: skip

    def _trials(self, name: str, own: Any) -> dict[str, Any]:
        """Return one treatment's marks; those that do not count are crosses."""
        labels = [
            _inert(f"{row.trial}, block {row.block}, {row.status}: {row.why}") for row in own.itertuples(index=False)
        ]
        values = [float(v) if v > 0 else None for v in own[self.metric]]
        symbols = ["circle" if valid else "x" for valid in own["valid"]]
        return {
            "type": "scatter", "mode": "markers", "name": _inert(self.data.study.label(name)), "text": labels,
            "x": own["slot"].astype(int).tolist(), "y": values, "marker": {"symbol": symbols, "size": 9},
            "hovertemplate": "%{text}<br>%{y:.5g}<extra></extra>",
        }  # fmt: skip

    def _block(self) -> Block:
        still, has_plotly = self.still._block(), importlib.util.find_spec("plotly") is not None
        help_text = note(ZOOM_HELP if has_plotly else ZOOM_INSTALL_HINT)
        return Block(still, help_text, data={MIME: self.figure} if has_plotly else {})


def _inert(text: str) -> str:
    """Return text in which plotly finds no markup: it reads a few tags of HTML."""
    return str(clean(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")
