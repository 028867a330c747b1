"""Figures of a run: those of the reports, such as ``run.plot.order()``, and one in which a user can zoom (plotly)."""

from __future__ import annotations

import importlib.util
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from loadbook.analyses.balancers.figure import ConnectionsFigure
from loadbook.analyses.balancers.page import BackendsPage, BalancersPage
from loadbook.analyses.claims.page import ClaimsFigure, assess_claims
from loadbook.analyses.compare_runs.figure import RunComparisonFigure
from loadbook.analyses.compare_runs.page import PREVIOUS
from loadbook.analyses.effects.figure import EffectsFigure, NonInferiorityFigure
from loadbook.analyses.effects.page import EffectsPage
from loadbook.analyses.effects.pairs import PairedBlocksFigure
from loadbook.analyses.factorial.figure import FactorialFigure
from loadbook.analyses.factorial.page import FactorialPage
from loadbook.analyses.noise import NoiseFigure, NoisePage
from loadbook.analyses.page_size.figure import PageSizeFigure
from loadbook.analyses.page_size.page import PageSizePage
from loadbook.analyses.resources import PeersFigure
from loadbook.core.errors import UsageError, unknown_name_error
from loadbook.core.metrics import get_metric
from loadbook.notebook import compare
from loadbook.report import palette, sections
from loadbook.report.blocks import Block, note
from loadbook.report.figures.errors import ErrorsFigure
from loadbook.report.figures.host_metrics import CoresFigure, HostMetricsFigure, TrialOverlayFigure
from loadbook.report.figures.order import OrderFigure
from loadbook.report.figures.validity import ValidityFigure
from loadbook.report.nodes import BulletList, clean
from loadbook.store.tables import RunData

if TYPE_CHECKING:
    from loadbook.stats.results import Analysis

MIME = "application/vnd.plotly.v1+json"
ZOOM_INSTALL_HINT = (
    "To zoom, with each trial under the pointer: %pip install plotly in a cell, then restart JupyterLab."
)
ZOOM_HELP = "Drag to zoom, double-click to see all; a click on a name hides its trials."


class Plots(compare.Displayable):
    """The figures of a run, one method each; the repr lists them.

    `metric` is a name of `run.metrics`, "" the study's. Many methods raise UsageError if the run lacks the data of
    the figure.
    """

    def __init__(self, data: RunData) -> None:
        self._data = data

    @cached_property
    def _page(self) -> EffectsPage:
        return EffectsPage(self._data)

    def _analysis(self, metric: str) -> Analysis:
        """Return the comparisons of all treatments by a metric; "" is the study's metric."""
        name, statistic = compare.resolve_metric(self._data, metric or self._data.study.metric)
        return EffectsPage(self._data, metric=name).analyse(name, statistic)

    def effects(self, metric: str = "") -> compare.FigureView:
        """Draw the effect of each treatment with its interval and verdict, and the harness checks."""
        return compare.FigureView(EffectsFigure(self._analysis(metric)))

    def losses(self, metric: str = "") -> compare.FigureView:
        """Draw the largest plausible loss of each treatment beside the loss that the study accepts."""
        return compare.FigureView(NonInferiorityFigure(self._analysis(metric)))

    def order(self, metric: str = "") -> compare.FigureView:
        """Draw every trial in order of execution, and below it each block's deviation from the medians (drift)."""
        reasons = sections.exclusion_reasons(self._data)
        return compare.FigureView(OrderFigure.from_run(self._data, self._analysis(metric), reasons))

    def pairs(self, treatment: str = "", metric: str = "") -> compare.FigureView:
        """Draw the effect in each block of one comparison, to see whether the blocks agree or one makes it.

        `treatment` is the one compared, by default the first.
        """
        return compare.FigureView(PairedBlocksFigure.from_run(self._data, self._analysis(metric), treatment))

    def errors(self) -> compare.FigureView:
        """Draw the number of errors in each trial, by treatment."""
        return compare.FigureView(ErrorsFigure.from_run(self._data, self._page.analysis))

    def latency(self) -> compare.FigureView:
        """Draw the latency percentiles of every trial, with a verdict on each percentile."""
        if not self._page.panels:
            raise UsageError(f"no percentiles of {', '.join(self._data.tools)} in this run", "run.metrics has the rest")
        return compare.FigureView(self._page.latency_figure)

    def distribution(self) -> compare.FigureView:
        """Draw the latency of each treatment by percentile, if known of all its requests; nothing is tested."""
        figure = self._page.distribution_figure
        if not figure.profiles:
            raise UsageError(f"no percentiles of {', '.join(self._data.tools)} in this run", "run.metrics has the rest")
        return compare.FigureView(figure)

    def traces(self, trial: str = "", block: int | None = None) -> compare.FigureView:
        """Draw the use of each host resource over time in one block, that of `trial` or the middle one.

        `block` is the number of the block if no trial is given. A resource at its limit is amber.
        """
        if trial:
            compare.check_trials(self._data, [trial])
            block = int(self._data.trials.set_index("trial")["block"].to_dict()[trial])
        return compare.FigureView(HostMetricsFigure.from_run(self._data, block))

    def overlay(self, treatment: str = "") -> compare.FigureView:
        """Draw the host metrics of all trials (of one treatment) over one another, to see whether one trial differs.

        `treatment` "" stands for all treatments.
        """
        return compare.FigureView(TrialOverlayFigure.from_run(self._data, treatment))

    def cores(self, host: str = "", block: int | None = None) -> compare.FigureView:
        """Draw the CPU use of each core and process of one host in one block, to see which one was at its limit.

        `host` is its alias, by default the first monitored host that is no driver; `block` is by default the middle
        one.
        """
        return compare.FigureView(CoresFigure.from_run(self._data, block, host))

    def beside(self, trial: str) -> compare.FigureView:
        """Draw the host metrics of one trial beside those of its treatment's other trials."""
        return compare.FigureView(PeersFigure.from_run(self._data, trial))

    def gates(self) -> compare.FigureView:
        """Draw which validity rules excluded or flagged which trial, in order of execution."""
        return compare.FigureView(ValidityFigure.from_run(self._data, sections.rule_titles(self._data)))

    def noise(self, metric: str = "") -> compare.FigureView:
        """Draw the smallest difference that can be detected on these hosts with the baseline's load."""
        page = NoisePage(self._data, metric=compare.resolve_metric(self._data, metric)[0] if metric else "")
        if page.record is None:
            raise UsageError(page.headline, "more blocks, or a run of the study noise: docs/noise.md")
        return compare.FigureView(NoiseFigure(page.record))

    def factorial(self) -> compare.FigureView:
        """Draw the effects of a factorial study: main effects of the factors, and their interactions."""
        return compare.FigureView(FactorialFigure(FactorialPage(self._data).result))

    def scaling(self) -> compare.FigureView:
        """Draw the request rate against the number of nodes behind the balancer."""
        figure = BalancersPage(self._data).scaling_figure
        if not figure.has_data:
            raise UsageError("one number of nodes only in this run", "scaling needs treatments of one node and of more")
        return compare.FigureView(figure)

    def connections(self) -> compare.FigureView:
        """Draw the number of connections that the application accepted per request."""
        per_request = BackendsPage(self._data).connections_per_request
        if per_request.empty:
            raise UsageError("no application of this run counted its connections", "docs/services.md: counters")
        return compare.FigureView(ConnectionsFigure(self._page.analysis, per_request))

    def page_size(self, by: Literal["rate", "bytes"] = "rate") -> compare.FigureView:
        """Draw the request rate (by="bytes": bytes per second) against page size: where is the network the limit."""
        if by not in ("rate", "bytes"):
            raise unknown_name_error("way to draw page sizes", by, ["rate", "bytes"], plural="by")
        return compare.FigureView(PageSizeFigure(PageSizePage(self._data).result, by))

    def published(self) -> compare.FigureView:
        """Draw the results that an article claims beside the results of this run."""
        results = assess_claims(self._data, self._page.analysis, self._page.level)
        if not results:
            raise UsageError("nothing published stands beside this study", "docs/claims.md says how claims are written")
        return compare.FigureView(ClaimsFigure(results, self._page.analysis))

    def two_runs(self, against: str = PREVIOUS, metric: str = "") -> compare.FigureView:
        """Draw the change of each effect from another run of the study to this one.

        `against` is the other run's id, by default the run before. `run.against(...)` returns the numbers.
        """
        return compare.FigureView(
            RunComparisonFigure(compare.comparison_page(self._data, against, metric=metric).result)
        )

    def __dir__(self) -> list[str]:
        return [name for name in vars(type(self)) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise unknown_name_error("figure", name, dir(self))

    def _block(self) -> Block:
        """Return a list of all figures with the first lines of their docstrings."""
        lines = [f"{name}: {(getattr(type(self), name).__doc__ or '').splitlines()[0]}" for name in sorted(dir(self))]
        return Block(BulletList(lines, css="doubts", bullet=""))


class ZoomView(compare.Displayable):
    """The plot of trials in order of execution, with zoom and details of trials; a static figure without plotly."""

    def __init__(self, data: RunData, metric: str, still: compare.FigureView) -> None:
        self.data, self.metric, self.still = data, metric or data.study.metric, still

    @property
    def figure(self) -> dict[str, Any]:
        """The figure as JSON of plotly: a dictionary with "data" (a trace per treatment) and "layout"."""
        metric, statistic = compare.resolve_metric(self.data, self.metric)
        unit = get_metric(metric).unit
        frame = compare.trials_table(self.data, (self.metric,))
        frame["why"] = [", ".join(gates) or "no rule is broken" for gates in frame["gates"]]
        title = {"text": clean(f"{self.metric} ({statistic}), {unit}")}
        return {
            "data": [self._trials(name, frame[frame["treatment"] == name]) for name in self.data.plan.treatments],
            "layout": {"height": 420, "xaxis": {"title": {"text": "place in the order of execution"}},
                       "yaxis": {"title": title, "type": "log"}, "plot_bgcolor": palette.BACKGROUND,
                       "margin": {"l": 70, "r": 10, "t": 20, "b": 50}},
        }  # fmt: skip

    def _trials(self, name: str, own: Any) -> dict[str, Any]:
        """Return one treatment's trials as a plotly trace, in which invalid trials are crosses."""
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
    """Return a text in which the HTML tags and templates that plotly interprets have no effect."""
    return str(clean(text)).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("%{", "% {")
