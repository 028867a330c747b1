"""Figures of a run that several pages use; the figure of a single analysis is in the folder of that analysis.

- `base`: base class `ReportFigure`, the sheet, measuring and wrapping of text
- `svg`: figures as compact SVG
- `axes`: log axes of ratios and values, ticks, intervals
- `rows`: names, panels and columns of text in rows
- `forest`: rows with an interval on one axis of ratios
- `zero_lane`: rows of trials, with the zeros in a lane beside a log axis
- `time_panels`: panels of resources on one time axis
- `tracks`: host metrics of several trials on one time axis
- `order`: every trial in order of execution, and the drift of the host
- `errors`: errors per trial
- `latency`: latency percentiles per trial; latency distribution of all requests together
- `validity`: results of the validity rules by trial
- `host_metrics`: host metrics of one block, of one host's cores, of all trials

A figure is an object of a subclass of `ReportFigure`: its constructor (or `from_run`) reads the data once; `draw()`,
`caption`, `help` and `alt_text` use them.
"""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from loadbook.core.errors import unknown_name_error

if TYPE_CHECKING:
    from loadbook.report.figures.base import ReportFigure

FIGURES = {
    "claims": "loadbook.analyses.claims.page:ClaimsFigure",
    "connections": "loadbook.analyses.balancers.figure:ConnectionsFigure",
    "cores": "loadbook.report.figures.host_metrics:CoresFigure",
    "effects": "loadbook.analyses.effects.figure:EffectsFigure",
    "errors": "loadbook.report.figures.errors:ErrorsFigure",
    "factorial": "loadbook.analyses.factorial.figure:FactorialFigure",
    "history": "loadbook.analyses.history.figure:HistoryFigure",
    "host_metrics": "loadbook.report.figures.host_metrics:HostMetricsFigure",
    "latency": "loadbook.report.figures.latency:LatencyFigure",
    "latency_distribution": "loadbook.report.figures.latency:LatencyDistributionFigure",
    "noise": "loadbook.analyses.noise:NoiseFigure",
    "non_inferiority": "loadbook.analyses.effects.figure:NonInferiorityFigure",
    "order": "loadbook.report.figures.order:OrderFigure",
    "page_size": "loadbook.analyses.page_size.figure:PageSizeFigure",
    "paired_blocks": "loadbook.analyses.effects.pairs:PairedBlocksFigure",
    "peers": "loadbook.analyses.resources:PeersFigure",
    "run_comparison": "loadbook.analyses.compare_runs.figure:RunComparisonFigure",
    "scaling": "loadbook.analyses.balancers.figure:ScalingFigure",
    "trial_overlay": "loadbook.report.figures.host_metrics:TrialOverlayFigure",
    "validity": "loadbook.report.figures.validity:ValidityFigure",
}


def figure_class(name: str) -> type[ReportFigure]:
    """Return the class of the figure `name`, a key of `FIGURES`; UsageError for any other name."""
    if name not in FIGURES:
        raise unknown_name_error("figure", name, sorted(FIGURES))
    figure: type[ReportFigure] = pkgutil.resolve_name(FIGURES[name])
    return figure
