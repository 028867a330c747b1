"""The report's figures, one module each.

Every module has the same four functions with the same arguments:

``draw(*data, narrow=False) -> Figure`` · ``answer(*data) -> str`` (one sentence: what the caption starts with) ·
``how(*data) -> str`` (how to read it) · ``alt(*data) -> str`` (the answer and its numbers, for who cannot see it).

==============  ==========================================================================================
module          data
==============  ==========================================================================================
``effects``     analysis
``order``       analysis, values, reasons={trial: short reason}
``pairs``       analysis, treatment, values
``errors``      analysis, errors, requests
``latency``     analysis, panels={"p50": (values, analysis of that percentile), ...}, quantity="..."
``traces``      traces, trials, hosts=run.json "hosts", labels={treatment: label}, windows={trial: seconds measured},
                links={host: B/s}, block=None, rates={trial: 1/s}
``gates``       trials, problems, titles={gate: title}, labels={treatment: label}
``noise``       stats.noise.record.Record
``factorial``   stats.factorial.effects.FactorialAnalysis
``published``   judged (list of analyses.claims.compute.Judged), analysis
``history``     stats.history.result.History, marks={run: what is recorded otherwise than before it, in words}
==============  ==========================================================================================

`analysis` is a stats.result.Analysis; `values`, `errors` and `requests` are frames of RunData.values (metric of the
analysis, "errors", "requests"); `windows` are the values of the metric "duration"; `traces`, `trials` and `problems`
are the run's tables. ``errors.needed(analysis)``, ``pairs.choose(analysis)`` and ``traces.needed(traces)``
say whether there is something to draw. ``common.to_svg(figure) -> bytes`` writes a figure,
the same bytes each time; ``common.names(analysis) -> dict`` gives each treatment the name that figures can draw (its
key where the label has a character that the figures' font lacks): a table should show both where they differ.
"""

from __future__ import annotations

# the figures of one run: name -> module; the figure of an analysis is in the folder of that analysis
FIGURES = {
    "beside": "loadbook.analyses.resources.peers",
    "connections": "loadbook.analyses.balancers.connections",
    "cores": "loadbook.report.figures.cores",
    "distribution": "loadbook.report.figures.distribution",
    "effects": "loadbook.analyses.effects.figure",
    "errors": "loadbook.report.figures.errors",
    "factorial": "loadbook.analyses.factorial.figure",
    "gates": "loadbook.report.figures.validity",
    "latency": "loadbook.report.figures.latency",
    "losses": "loadbook.analyses.effects.non_inferiority",
    "noise": "loadbook.analyses.noise.figure",
    "order": "loadbook.report.figures.order",
    "overlay": "loadbook.report.figures.overlay",
    "page_size": "loadbook.analyses.page_size.figure",
    "pairs": "loadbook.analyses.effects.pairs",
    "published": "loadbook.analyses.claims.figure",
    "scaling": "loadbook.analyses.balancers.figure",
    "traces": "loadbook.report.figures.traces",
    "two_runs": "loadbook.analyses.compare_runs.figure",
}
