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

OF_SEVERAL_RUNS = ("history",)  # no figure of one run, alone or beside another
